//! Another revision's benches and this one's, side by side in one run.
//!
//! Both are built, then they take turns, so that whatever else the machine does meets both alike.
//! Rows of the same name are compared by their medians over all turns.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::told;

/// Turns of each.
const TURNS: usize = 3;

/// What is compared: rows of these benches, which both revisions have.
const BENCHES: [&str; 5] = ["packets", "chains", "flows", "classify", "engine"];
/// What is told beside: rows of these, which an earlier revision may not have.
const SINCE: [&str; 2] = ["remote", "functions"];

/// A row's place in the output, and its name.
type Name = (usize, String);

/// Nanoseconds of each turn, by row.
type Rows = BTreeMap<Name, Vec<f64>>;

/// A table of rows; nothing if one of the two cannot be built or run.
pub fn page(root: &Path, revision: &str) -> Option<String> {
    let before = std::env::temp_dir().join(format!("twinpath-{revision}"));
    let sides = check_out(root, revision, &before)
        .then(|| {
            let all = [BENCHES.as_slice(), &SINCE].concat();
            [executables(&before, &BENCHES), executables(root, &all)]
        })
        .and_then(|[before, after]| Some([before?, after?]))?;
    let busy = told(root, "cat", &["/proc/loadavg"]);
    let mut rows = [Rows::new(), Rows::new()];
    for turn in 1..=TURNS {
        eprintln!("turn {turn} of {TURNS}");
        for (executables, rows) in sides.iter().zip(&mut rows) {
            if !executables
                .iter()
                .all(|executable| measure(executable, rows))
            {
                return None;
            }
        }
    }
    run(Command::new("git")
        .args(["worktree", "remove", "--force"])
        .arg(&before)
        .current_dir(root));
    let machine = format!("{}; load before the first turn {busy}", machine(root));
    Some(format!("{machine}\n\n{}", table(revision, &rows)))
}

/// What DASH takes, in turns, and a DPU of the size that it asks for; nothing if it cannot be built or run.
pub fn dash(root: &Path) -> Option<String> {
    let benches = executables(root, &["dash"])?;
    let [bench] = benches.as_slice() else {
        return None;
    };
    let mut rows = Rows::new();
    for turn in 1..=TURNS {
        eprintln!("turn {turn} of {TURNS}");
        if !measure(bench, &mut rows) {
            return None;
        }
    }
    eprintln!("a whole DPU");
    let whole = Command::new(bench)
        .args(["scale", "--bench"])
        .output()
        .ok()?;
    let whole = String::from_utf8_lossy(&whole.stdout).into_owned();
    let mut page = format!(
        "{}\n\nNanoseconds of each packet or change, one core; medians of {TURNS} turns.\n\n\
         | row | ns | turns |\n|---|---|---|\n",
        machine(root)
    );
    for ((_, name), turns) in &rows {
        _ = writeln!(
            page,
            "| {name} | {:.1} | {} |",
            median(turns),
            spread(turns)
        );
    }
    _ = write!(
        page,
        "\n## The size that DASH asks for\n\n`cargo bench -p twinpath-benches --bench dash -- scale`, once:\n\n```\n{}\n```\n",
        whole.trim_end()
    );
    Some(page)
}

/// The processor, how many of them, and the kernel.
fn machine(root: &Path) -> String {
    let script = "grep -m1 'model name' /proc/cpuinfo | cut -d: -f2; nproc; uname -sr";
    let told = told(root, "sh", &["-c", script]);
    let [processor, count, kernel] = &told.lines().map(str::trim).collect::<Vec<_>>()[..] else {
        return told;
    };
    format!("{processor}, {count} cores, {kernel}")
}

fn check_out(root: &Path, revision: &str, folder: &Path) -> bool {
    folder.exists()
        || run(Command::new("git")
            .args(["worktree", "add", "--detach"])
            .args([folder.as_os_str(), revision.as_ref()])
            .current_dir(root))
}

fn run(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

/// Builds the benches of a checkout; returns where they are.
fn executables(checkout: &Path, benches: &[&str]) -> Option<Vec<PathBuf>> {
    let mut build = Command::new("cargo");
    build.args(["bench", "--package", "twinpath-benches", "--no-run"]);
    benches
        .iter()
        .for_each(|name| _ = build.args(["--bench", name]));
    let told = build.current_dir(checkout).output().ok()?;
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    let place = |line: &str| {
        let (_, place) = line.split_once("Executable ")?.1.split_once('(')?;
        Some(checkout.join(place.strip_suffix(')')?))
    };
    let found: Vec<PathBuf> = told.lines().filter_map(place).collect();
    if found.len() != benches.len() {
        eprintln!("{told}");
        return None;
    }
    found
        .iter()
        .map(|path| path.canonicalize())
        .collect::<Result<_, _>>()
        .ok()
}

/// Runs a bench, and adds what it prints.
fn measure(executable: &Path, rows: &mut Rows) -> bool {
    let Ok(output) = Command::new(executable).arg("--bench").output() else {
        return false;
    };
    let mut section = String::new();
    let first = rows.keys().map(|(place, _)| place + 1).max().unwrap_or(0);
    for (place, line) in (first..).zip(String::from_utf8_lossy(&output.stdout).lines()) {
        match row(line) {
            Some((name, nanoseconds)) => {
                let name = match section.is_empty() {
                    true => name,
                    false => format!("{section}: {name}"),
                };
                let known = rows.keys().find(|(_, known)| *known == name).cloned();
                let key = known.unwrap_or((place, name));
                rows.entry(key).or_default().push(nanoseconds);
            }
            // What is said of a section is indented.
            None if !line.is_empty() && !line.starts_with(' ') => section = heading(line),
            None => {}
        }
    }
    output.status.success()
}

/// What a section is about; figures behind it are no part of its name.
fn heading(line: &str) -> String {
    let line = line.split(" (").next().unwrap_or(line);
    renamed(line.split(": ").next().unwrap_or(line))
}

/// The name and the nanoseconds of a row, if a line is one; without what differs from turn to turn.
fn row(line: &str) -> Option<(String, f64)> {
    per_packet(line)
        .or_else(|| each_made(line))
        .or_else(|| rate(line))
}

/// `1000 flows made on the slow path: 150 ns each, ...`.
fn each_made(line: &str) -> Option<(String, f64)> {
    let (name, rest) = line.split_once(": ")?;
    let (number, rest) = rest.split_once(" ns ")?;
    let is_row = rest.starts_with("each") || rest.starts_with("to make");
    is_row.then_some((renamed(name.trim()), number.trim().parse().ok()?))
}

/// `10 flows   3.20 million packets a second`, as nanoseconds of each.
fn rate(line: &str) -> Option<(String, f64)> {
    let (before, after) = line.split_once(" million ")?;
    let of = after.strip_suffix(" a second")?;
    let (name, number) = before.trim_end().rsplit_once("  ")?;
    let millions: f64 = number.trim().parse().ok()?;
    Some((format!("{}, {of}", renamed(name.trim())), 1000.0 / millions))
}

fn per_packet(line: &str) -> Option<(String, f64)> {
    let (before, _) = line.split_once(" ns/packet")?;
    let (name, number) = before.trim_end().rsplit_once("  ")?;
    let name = name.split(", 100.00 %").next().unwrap_or(name);
    let name = match name.rfind(" % hits") {
        Some(_) => name.rsplit_once(", ").map_or(name, |(name, _)| name),
        None => name,
    };
    Some((renamed(name.trim()), number.trim().parse().ok()?))
}

/// Words that rows had before they got others, without what was measured beside.
fn renamed(name: &str) -> String {
    let is_share = |part: &&str| part.ends_with(" % on the fast path") || part.ends_with(" % fast");
    let parts = name.split(", ").filter(|part| !is_share(part));
    let name = parts.collect::<Vec<_>>().join(", ");
    name.replace("cores alone", "slow path alone")
        .replace("on the cores", "on the slow path")
        .replace(
            "the same chain as a service, through a whole node",
            "ACL of 100 rules, NAPT, load balancer as a service",
        )
}

fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn table(revision: &str, [before, after]: &[Rows; 2]) -> String {
    let mut table = format!(
        "Nanoseconds of each packet, lookup, flow or event; medians of {TURNS} turns. {revision} is an earlier \
         revision, which lacks some rows. Where the turns of a row differ much among themselves its ratio \
         says little.\n\n\
         | row | {revision} | now | ratio | turns, now |\n|---|---|---|---|---|\n"
    );
    let old = |name: &str| {
        let found = before.iter().find(|((_, known), _)| known == name);
        found.map(|(_, turns)| median(turns))
    };
    for ((_, name), turns) in after {
        let (now, spread) = (median(turns), spread(turns));
        match old(name) {
            Some(old) => {
                let ratio = now / old;
                _ = writeln!(
                    table,
                    "| {name} | {old:.1} | {now:.1} | {ratio:.2} | {spread} |"
                );
            }
            None => _ = writeln!(table, "| {name} | | {now:.1} | | {spread} |"),
        }
    }
    for ((_, name), turns) in before {
        if !after.keys().any(|(_, known)| known == name) {
            _ = writeln!(table, "| {name} | {:.1} | | | |", median(turns));
        }
    }
    table
}

fn spread(turns: &[f64]) -> String {
    let least = turns.iter().copied().fold(f64::INFINITY, f64::min);
    let most = turns.iter().copied().fold(0.0, f64::max);
    format!("{least:.1} to {most:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_by_name() {
        let line = "fast path, 32000 flows uniform, 99.99 % hits                   36.5 ns/packet    27.37 Mpps";
        let expected = ("fast path, 32000 flows uniform".to_owned(), 36.5);
        assert_eq!(row(line), Some(expected));
        let line = "1 functions, cores alone      190.7 ns/packet (best   190.4)";
        let expected = ("1 functions, slow path alone".to_owned(), 190.7);
        assert_eq!(row(line), Some(expected));
        let line = "1000000 flows made on the cores: 150 ns each, 6.67 million per second and core, 90 bytes each (resident)";
        let expected = ("1000000 flows made on the slow path".to_owned(), 150.0);
        assert_eq!(row(line), Some(expected));
        for (line, expected) in [
            (
                "both paths, 10 % complex, 89.91 % on the fast path      212.8 ns/packet (best   210.0)    4.70 Mpps",
                "both paths, 10 % complex",
            ),
            (
                "1000 flows, 80 % fast                        0.61 million packets a second",
                "1000 flows, packets",
            ),
        ] {
            assert_eq!(row(line).map(|(name, _)| name).as_deref(), Some(expected));
        }
        let line = "100 events wait                              8.00 million events a second";
        let expected = ("100 events wait, events".to_owned(), 125.0);
        assert_eq!(row(line), Some(expected));
        let line = "Realistic, 1000 IPv4 rules: built in 3.1 ms, 40 bytes per rule";
        assert_eq!(
            (row(line), &*heading(line)),
            (None, "Realistic, 1000 IPv4 rules")
        );
        assert_eq!(row("1000000 packets of 64 bytes per pass, 7 passes"), None);
    }
}
