//! Figures as a table, as a page with pictures, and as rows for programs.

use super::Wanted;
use super::figures::{Figures, MODERATE};
use super::systems::{BASELINE, System};
use std::fmt::Write;
use std::fs;
use std::process::Command;
use twinpath_lab::bars::{Bars, draw};

/// Systems and their figures.
pub type Rows<'a> = [(&'a System, Figures)];

/// A column of the table.
struct Column {
    name: &'static str,
    unit: &'static str,
    read: fn(&Figures) -> f64,
    digits: usize,
    /// Its picture's file, if it has one.
    picture: &'static str,
}

const COLUMNS: [Column; 6] = [
    column("64 B", "Mpps", |f| f.short_pps / 1e6, 2, "packets-64"),
    column("1500 B", "Mpps", |f| f.long_pps / 1e6, 2, "packets-1500"),
    column("p50", "us", |f| f.p50_us, 0, ""),
    column("p99", "us", |f| f.p99_us, 0, "latency-p99"),
    column("TCP over IPv4", "Gbit/s", |f| f.tcp4_bps / 1e9, 1, "tcp"),
    column("TCP over IPv6", "Gbit/s", |f| f.tcp6_bps / 1e9, 1, ""),
];

const fn column(
    name: &'static str,
    unit: &'static str,
    read: fn(&Figures) -> f64,
    digits: usize,
    picture: &'static str,
) -> Column {
    Column {
        name,
        unit,
        read,
        digits,
        picture,
    }
}

/// A table in Markdown: each figure, and how many times that of nftables with conntrack and SNAT it is, whose
/// driver has the same core.
pub fn table(rows: &Rows) -> String {
    let mut text = "|".to_owned();
    for column in &COLUMNS {
        let _ = write!(text, " | {}, {} | x", column.name, column.unit);
    }
    let _ = write!(text, " |\n|---{}|\n", "|---|---".repeat(COLUMNS.len()));
    for (system, figures) in rows {
        let base = rows.iter().find(|(base, _)| base.is_baseline_of(system));
        let _ = write!(text, "| {}", system.name);
        for Column { read, digits, .. } in &COLUMNS {
            let value = read(figures);
            // Of nothing nothing is so many times.
            let ratio = base.map(|(_, base)| value / read(base));
            let ratio = ratio.filter(|ratio| ratio.is_finite());
            let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
            let _ = write!(text, " | {value:.digits$} | {ratio}");
        }
        text.push_str(" |\n");
    }
    text
}

/// What the machine had to do beside this when it began.
pub fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next().unwrap_or("?");
    first.to_owned()
}

/// What a command says, on one line.
fn told(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    let text = output.map_or_else(|_| Vec::new(), |output| output.stdout);
    String::from_utf8_lossy(&text).trim().to_owned()
}

fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("?", |model| model.trim_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{cores} cores of {model}, Linux {}", kernel.trim())
}

/// Writes `README.md`, pictures, and `rounds.csv`.
pub fn write(
    wanted: &Wanted,
    load: &str,
    medians: &Rows,
    rounds: &[(&System, Vec<Figures>)],
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", wanted.folder.display());
    fs::create_dir_all(&wanted.folder).map_err(failed)?;
    let mut page = format!(
        "# Twinpath beside nftables\n\n\
         `cargo xtask beside-nftables --rounds {} --seconds {}` wrote this page at revision {}, {}: medians of \
         {} rounds in turns, on {}; load before it began: {load}. `x` is how many times the figure of \
         {BASELINE} it is, with the driver on the same core. Latency is there \
         and back, beside {MODERATE} packets a second. Sender and receiver have one core, what forwards \
         has the other; what the cable's driver does with packets that arrive in the middle is on the sender's \
         core, unless it is said to be on the one that forwards.\n\n{}\n",
        wanted.rounds,
        wanted.time.as_secs(),
        told("git", &["rev-parse", "--short", "HEAD"]),
        told("date", &["--utc", "+%Y-%m-%d"]),
        wanted.rounds,
        machine(),
        table(medians),
    );
    for column in COLUMNS.iter().filter(|column| !column.picture.is_empty()) {
        let file = format!("{}.svg", column.picture);
        let svg = picture(column, medians).map_err(|error| error.to_string())?;
        fs::write(wanted.folder.join(&file), svg).map_err(failed)?;
        let _ = write!(page, "![{}]({file})\n\n", column.name);
    }
    fs::write(wanted.folder.join("README.md"), page).map_err(failed)?;
    fs::write(wanted.folder.join("rounds.csv"), csv(rounds)).map_err(failed)?;
    eprintln!("written: {}", wanted.folder.join("README.md").display());
    Ok(())
}

fn picture(column: &Column, rows: &Rows) -> Result<String, twinpath_lab::ExperimentError> {
    let bars = rows.iter().map(|(system, figures)| {
        let value = (column.read)(figures);
        (
            system.name.to_owned(),
            if value.is_finite() { value } else { 0.0 },
        )
    });
    draw(&Bars {
        title: column.name.to_owned(),
        unit: column.unit.to_owned(),
        bars: bars.collect(),
    })
}

/// Each round for itself.
fn csv(rounds: &[(&System, Vec<Figures>)]) -> String {
    let mut text = "system,round".to_owned();
    for column in &COLUMNS {
        let _ = write!(text, ",{} ({})", column.name, column.unit);
    }
    text.push('\n');
    for (system, figures) in rounds {
        for (number, figures) in figures.iter().enumerate() {
            let _ = write!(text, "\"{}\",{}", system.name, number + 1);
            for column in &COLUMNS {
                let _ = write!(text, ",{:.4}", (column.read)(figures));
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::systems::SYSTEMS;
    use super::*;

    #[test]
    fn ratios_are_to_conntrack_with_translation() {
        let figures = |short_pps| Figures {
            short_pps,
            ..Figures::default()
        };
        let base = SYSTEMS.iter().find(|system| system.name == BASELINE);
        let rows = [
            (base.expect("one of them"), figures(2e6)),
            (&SYSTEMS[0], figures(3e6)),
        ];
        let table = table(&rows);
        assert!(
            table.contains("| nftables, forward | 3.00 | 1.50 |"),
            "{table}"
        );
        let lines: Vec<_> = table
            .lines()
            .map(|line| line.matches('|').count())
            .collect();
        assert!(lines.iter().all(|count| *count == lines[0]), "{lines:?}");
    }
}
