//! What a soak leaves behind: its figures as rows and as a page, and the curve of memory as a picture.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use twinpath_control::report::Report;

/// What was seen at one moment.
#[derive(Copy, Clone, Debug)]
pub struct Look {
    pub seconds: u64,
    pub resident_bytes: u64,
    pub packets_in: u64,
    pub packets_out: u64,
    pub dropped: u64,
    pub flows: u64,
}

/// Writes `soak.csv`, `soak.svg` and `soak.md`.
pub fn write(folder: &Path, looks: &[Look], new_flows: u64, report: &Report) {
    fs::create_dir_all(folder).expect("a folder");
    let write = |name: &str, text: String| {
        fs::write(folder.join(name), text).expect("it can be written");
    };
    write("soak.csv", rows(looks));
    write("soak.svg", picture(looks));
    write("soak.md", page(looks, new_flows, report));
    println!("figures and a picture are in {}", folder.display());
}

fn rows(looks: &[Look]) -> String {
    let mut text = "seconds,resident_bytes,packets_in,packets_out,dropped,flows\n".to_owned();
    for look in looks {
        let counts = [look.packets_in, look.packets_out, look.dropped, look.flows];
        let counts = counts.map(|count| count.to_string()).join(",");
        let _ = writeln!(text, "{},{},{counts}", look.seconds, look.resident_bytes);
    }
    text
}

fn page(looks: &[Look], new_flows: u64, report: &Report) -> String {
    let megabytes = |look: &Look| look.resident_bytes >> 20;
    let all = looks.iter().map(megabytes);
    let after = all.clone().nth(looks.len() / 4).unwrap_or(0);
    let (least, most) = (all.clone().min(), all.max());
    let minutes = looks.last().map_or(0, |look| look.seconds) / 60;
    let totals = &report.totals;
    let mut text = format!(
        "For {minutes} minutes a firewall, a translation and a router between network namespaces carried TCP \
         transfers, and packets of {new_flows} flows that nobody answers.\n\n| | |\n|---|---|\n"
    );
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "| {name} | {value} |");
    };
    row("packets in", totals.packets_in.to_string());
    row("packets out", totals.packets_out.to_string());
    for (reason, count) in &report.drops {
        row(&format!("dropped: {reason}"), count.to_string());
    }
    let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
    row("resident, least", format!("{least} MB"));
    row(
        "resident after a quarter of the time",
        format!("{after} MB"),
    );
    row("resident, most", format!("{most} MB"));
    text + "\n![resident memory](soak.svg)\n"
}

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 60.0;

/// Memory and flows over time, each from zero to the most that it ever was.
fn picture(looks: &[Look]) -> String {
    let memory = curve(looks, |look| look.resident_bytes, "#0072B2");
    let flows = curve(looks, |look| look.flows, "#D55E00");
    let most = |read: fn(&Look) -> u64| looks.iter().map(read).max().unwrap_or(0);
    let bytes = most(|look| look.resident_bytes) >> 20;
    let (count, seconds) = (most(|look| look.flows), most(|look| look.seconds));
    let (right, bottom) = (WIDTH - MARGIN, HEIGHT - MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\
         <path d=\"M{MARGIN} {MARGIN}V{bottom}H{right}\" fill=\"none\" stroke=\"#888\"/>{memory}{flows}\
         <text x=\"{MARGIN}\" y=\"30\" fill=\"#0072B2\">resident memory, up to {bytes} MB</text>\
         <text x=\"{right}\" y=\"30\" text-anchor=\"end\" fill=\"#D55E00\">flows known, up to {count}</text>\
         <text x=\"{MARGIN}\" y=\"{}\">0</text>\
         <text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{seconds} s</text></svg>\n",
        bottom + 20.0,
        bottom + 20.0
    )
}

fn curve(looks: &[Look], read: fn(&Look) -> u64, colour: &str) -> String {
    let most = looks.iter().map(read).max().unwrap_or(0).max(1) as f64;
    let end = looks.last().map_or(1, |look| look.seconds).max(1) as f64;
    let mut points = String::new();
    for look in looks {
        let x = MARGIN + (WIDTH - 2.0 * MARGIN) * look.seconds as f64 / end;
        let y = HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * read(look) as f64 / most;
        let _ = write!(points, "{x:.1},{y:.1} ");
    }
    format!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
        points.trim_end()
    )
}
