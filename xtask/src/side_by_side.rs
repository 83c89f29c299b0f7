//! Another revision's benches and this one's, side by side in one run.
//!
//! Both are built, then they take turns, so that whatever else the machine does meets both alike.
//! Rows of the same name are compared by their medians over all turns.

mod lines;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Turns of each.
const TURNS: usize = 3;

/// What is compared: rows of these benches.
const BENCHES: [&str; 2] = ["packets", "chains"];

/// A row's place in the output, and its name.
type Name = (usize, String);

/// Nanoseconds of each turn, by row.
type Rows = BTreeMap<Name, Vec<f64>>;

/// Prints a table of rows, and one of lines of code. Returns whether it could.
pub fn print(revision: &str) -> bool {
    let before = std::env::temp_dir().join(format!("twinpath-{revision}"));
    let Some(sides) = check_out(revision, &before)
        .then(|| [before.as_path(), Path::new(".")].map(executables))
        .and_then(|[before, after]| Some([before?, after?]))
    else {
        return false;
    };
    let mut rows = [Rows::new(), Rows::new()];
    for turn in 1..=TURNS {
        eprintln!("turn {turn} of {TURNS}");
        for (executables, rows) in sides.iter().zip(&mut rows) {
            if !executables
                .iter()
                .all(|executable| measure(executable, rows))
            {
                return false;
            }
        }
    }
    print_rows(revision, &rows);
    lines::print(revision, [&before, Path::new(".")]);
    run(Command::new("git")
        .args(["worktree", "remove", "--force"])
        .arg(&before))
}

fn check_out(revision: &str, folder: &Path) -> bool {
    folder.exists()
        || run(Command::new("git")
            .args(["worktree", "add", "--detach"])
            .args([folder.as_os_str(), revision.as_ref()]))
}

fn run(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

/// Builds the benches of a checkout; returns where they are.
fn executables(checkout: &Path) -> Option<Vec<PathBuf>> {
    let mut build = Command::new("cargo");
    build.args(["bench", "--package", "twinpath-benches", "--no-run"]);
    BENCHES
        .iter()
        .for_each(|name| _ = build.args(["--bench", name]));
    let told = build.current_dir(checkout).output().ok()?;
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    let place = |line: &str| {
        let (_, place) = line.split_once("Executable ")?.1.split_once('(')?;
        Some(checkout.join(place.strip_suffix(')')?))
    };
    let found: Vec<PathBuf> = told.lines().filter_map(place).collect();
    if found.len() != BENCHES.len() {
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
                let name = format!("{section}: {name}");
                let known = rows.keys().find(|(_, known)| *known == name).cloned();
                let key = known.unwrap_or((place, name));
                rows.entry(key).or_default().push(nanoseconds);
            }
            None if !line.is_empty() => section = renamed(line.split(" (").next().unwrap_or(line)),
            None => {}
        }
    }
    output.status.success()
}

/// The name and the nanoseconds of a row, if a line is one; without what differs from turn to turn.
fn row(line: &str) -> Option<(String, f64)> {
    let (before, _) = line.split_once(" ns/packet")?;
    let (name, number) = before.trim_end().rsplit_once("  ")?;
    let name = name.split(", 100.00 %").next().unwrap_or(name);
    let name = match name.rfind(" % hits") {
        Some(_) => name.rsplit_once(", ").map_or(name, |(name, _)| name),
        None => name,
    };
    Some((renamed(name.trim()), number.trim().parse().ok()?))
}

/// Words that rows had before they got others.
fn renamed(name: &str) -> String {
    name.replace("cores alone", "slow path alone")
        .replace("on the cores", "on the slow path")
}

fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn print_rows(revision: &str, [before, after]: &[Rows; 2]) {
    println!("| row | {revision}, ns | now, ns | ratio | turns, now |");
    println!("|---|---|---|---|---|");
    let old = |name: &str| {
        let found = before.iter().find(|((_, known), _)| known == name);
        found.map(|(_, turns)| median(turns))
    };
    for ((_, name), turns) in after {
        let (now, spread) = (median(turns), spread(turns));
        match old(name) {
            Some(old) => println!(
                "| {name} | {old:.1} | {now:.1} | {:.2} | {spread} |",
                now / old
            ),
            None => println!("| {name} | | {now:.1} | | {spread} |"),
        }
    }
    for ((_, name), turns) in before {
        if !after.keys().any(|(_, known)| known == name) {
            println!("| {name} | {:.1} | | | |", median(turns));
        }
    }
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
        assert_eq!(row("1000000 packets of 64 bytes per pass, 7 passes"), None);
    }
}
