//! How long a clean clone takes to be built and tested.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Builds and tests a clean clone, and makes the page; nothing if that fails.
pub fn page(root: &Path) -> Option<String> {
    let folder = root.join("target").join("times");
    _ = std::fs::remove_dir_all(&folder);
    let cloned = Command::new("git")
        .args(["clone", "--quiet", "."])
        .arg(&folder)
        .current_dir(root)
        .status();
    cloned.ok().filter(|status| status.success())?;
    let page = of_clone(&folder);
    _ = std::fs::remove_dir_all(&folder);
    page
}

fn of_clone(folder: &Path) -> Option<String> {
    // What is compiled is timed, not what is downloaded.
    cargo(folder, &["fetch", "--locked"])?;
    let started = Instant::now();
    cargo(folder, &["build", "--release"])?;
    let build = started.elapsed().as_secs();
    let steps = steps(folder)?;
    Some(table(build, &steps))
}

fn cargo(folder: &Path, words: &[&str]) -> Option<()> {
    let done = command(folder).args(words).status();
    done.is_ok_and(|status| status.success()).then_some(())
}

/// Cargo in the clone, which knows nothing of the one that runs this.
fn command(folder: &Path) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(folder)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_MANIFEST_DIR");
    // Captures lie beside the repository, which the clone is inside of.
    if std::env::var_os("TWINPATH_SHARED").is_none() {
        command.env("TWINPATH_SHARED", folder.join("../../../shared"));
    }
    command
}

/// The steps of the test command with their seconds; nothing if one refuses. All that it prints is
/// printed.
fn steps(folder: &Path) -> Option<Vec<(String, u64)>> {
    let mut tests = command(folder)
        .args(["xtask", "test"])
        .env("CI", "true")
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut steps = Vec::new();
    for line in BufReader::new(tests.stdout.take()?).lines() {
        let line = line.ok()?;
        println!("{line}");
        steps.extend(step(&line));
    }
    tests.wait().ok()?.success().then_some(steps)
}

/// A step that is over, and how many seconds it took.
fn step(line: &str) -> Option<(String, u64)> {
    let told = line.strip_prefix("==== ")?.strip_suffix(" s ====")?;
    let (name, how) = told.split_once(": ")?;
    let (_, seconds) = how.rsplit_once(' ')?;
    Some((name.to_owned(), seconds.parse().ok()?))
}

fn table(build: u64, steps: &[(String, u64)]) -> String {
    let mut page = String::from(
        "A clean clone, one thing after the other; downloads of dependencies are not counted.\n\n",
    );
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    _ = writeln!(page, "{} processors: {}.\n", processors, model());
    page += "| what | seconds |\n|---|---|\n";
    _ = writeln!(page, "| `cargo build --release` | {build} |");
    for (name, seconds) in steps {
        _ = writeln!(page, "| `cargo xtask test`: {name} | {seconds} |");
    }
    let all: u64 = steps.iter().map(|(_, seconds)| seconds).sum();
    _ = writeln!(page, "| `cargo xtask test`, all | {all} |");
    page
}

/// What the processor calls itself.
fn model() -> String {
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines = told.lines();
    let line = lines.find_map(|line| line.strip_prefix("model name"));
    line.map_or_else(String::new, |line| {
        line.trim_start_matches([' ', '\t', ':']).to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_as_they_are_told() {
        let told = "==== tests ====\n==== benches run: passed in 97 s ====\n==== fuzz: FAILED in 3 s ====\nsteps: 1\n";
        let found: Vec<_> = told.lines().filter_map(step).collect();
        assert_eq!(
            found,
            [("benches run".to_owned(), 97), ("fuzz".to_owned(), 3)]
        );
        assert!(table(7, &found).contains("| `cargo xtask test`, all | 100 |"));
    }
}
