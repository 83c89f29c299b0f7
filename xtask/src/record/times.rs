//! How long a clean clone takes to be built and tested.

use crate::programs;
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
    let told = steps(folder)?;
    Some(table(build, &told))
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

/// What the test command took: its steps, each with its seconds, and the programs of steps that run tests.
#[derive(Default)]
struct TestTimes {
    steps: Vec<(String, u64)>,
    programs: Vec<Program>,
}

/// A program of tests, of the step with this number.
struct Program {
    step: usize,
    name: String,
    seconds: f64,
}

impl TestTimes {
    fn hear(&mut self, line: &str) {
        let program = programs::read(line);
        self.programs.extend(program.map(|(name, seconds)| Program {
            step: self.steps.len(),
            name,
            seconds,
        }));
        self.steps.extend(step(line));
    }
}

/// What the test command in the clone tells of itself; nothing if a step refuses. All that it prints is
/// printed.
fn steps(folder: &Path) -> Option<TestTimes> {
    let mut tests = command(folder)
        .args(["xtask", "test"])
        .env("CI", "true")
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut told = TestTimes::default();
    for line in BufReader::new(tests.stdout.take()?).lines() {
        let line = line.ok()?;
        println!("{line}");
        told.hear(&line);
    }
    tests.wait().ok()?.success().then_some(told)
}

/// A step that is over, and how many seconds it took.
fn step(line: &str) -> Option<(String, u64)> {
    let told = line.strip_prefix("==== ")?.strip_suffix(" s ====")?;
    let (name, how) = told.split_once(": ")?;
    let (_, seconds) = how.rsplit_once(' ')?;
    Some((name.to_owned(), seconds.parse().ok()?))
}

/// Programs that took less are told of together.
const LEAST_SECONDS: f64 = 1.0;

fn table(build: u64, told: &TestTimes) -> String {
    let mut page = String::from(
        "A clean clone, one thing after the other; downloads of dependencies are not counted.\n\n",
    );
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    _ = writeln!(page, "{} processors: {}.\n", processors, model());
    page += "| what | seconds |\n|---|---|\n";
    _ = writeln!(page, "| `cargo build --release` | {build} |");
    for (name, seconds) in &told.steps {
        _ = writeln!(page, "| `cargo xtask test`: {name} | {seconds} |");
    }
    let all: u64 = told.steps.iter().map(|(_, seconds)| seconds).sum();
    _ = writeln!(page, "| `cargo xtask test`, all | {all} |");
    for (number, (name, _)) in told.steps.iter().enumerate() {
        page += &programs_of(name, number, told);
    }
    page
}

/// The programs of a step that runs tests, the longest first; nothing of another step.
fn programs_of(step: &str, number: usize, told: &TestTimes) -> String {
    let programs = told.programs.iter();
    let mut programs: Vec<_> = programs.filter(|one| one.step == number).collect();
    if programs.is_empty() {
        return String::new();
    }
    programs.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let mut page = format!("\n| {step} | seconds |\n|---|---|\n");
    let (long, short): (Vec<_>, Vec<_>) = programs
        .into_iter()
        .partition(|one| one.seconds >= LEAST_SECONDS);
    for Program { name, seconds, .. } in long {
        _ = writeln!(page, "| {name} | {seconds:.0} |");
    }
    if !short.is_empty() {
        let rest: f64 = short.iter().map(|one| one.seconds).sum();
        _ = writeln!(page, "| {} others | {rest:.0} |", short.len());
    }
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
    use std::time::Duration;

    #[test]
    fn steps_are_read_as_they_are_told() {
        let line = |name: &str, seconds| programs::line(name, Duration::from_secs_f64(seconds));
        let told = format!(
            "==== tests ====\n{}\n{}\n{}\n==== benches run: passed in 97 s ====\n{}\n==== fuzz: FAILED in 3 s ====\nsteps: 1\n",
            line("a", 3.2),
            line("b", 12.0),
            line("c", 0.9),
            line("d", 2.0)
        );
        let mut found = TestTimes::default();
        told.lines().for_each(|line| found.hear(line));
        assert_eq!(
            found.steps,
            [("benches run".to_owned(), 97), ("fuzz".to_owned(), 3)]
        );
        let page = table(7, &found);
        assert!(page.contains("| `cargo xtask test`, all | 100 |"));
        let first =
            "| benches run | seconds |\n|---|---|\n| b | 12 |\n| a | 3 |\n| 1 others | 1 |\n";
        assert!(page.contains(first), "{page}");
        assert!(page.ends_with("| fuzz | seconds |\n|---|---|\n| d | 2 |\n"));
    }
}
