//! What failed in a run of tests, to be told again where all ends: whoever sees no more of a long run than
//! its last lines learns what to look at.

use super::programs::{self, Programs};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Lines of a failed test that are told again: its last ones, where it says why.
const LINES: usize = 40;
/// Bytes of such a line.
const LENGTH: usize = 400;

/// Runs tests and prints all that they print, and then how long each program took.
///
/// # Errors
/// What failed, as the tests and cargo tell it.
pub fn of(command: &mut Command) -> Result<(), Vec<String>> {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command
        .spawn()
        .map_err(|error| vec![format!("cargo: {error}")])?;
    let (told, reported) = (run.stdout.take(), run.stderr.take());
    let started = Instant::now();
    let targets = std::thread::spawn(move || {
        let mut programs = Programs::default();
        let lines = lines(reported).inspect(|line| {
            eprintln!("{line}");
            programs.hear(line, started.elapsed());
        });
        let targets: Vec<_> = lines.filter(|line| is_of_cargo(line)).collect();
        (targets, programs)
    });
    let mut failures = Failures::default();
    lines(told).for_each(|line| {
        println!("{line}");
        failures.hear(&line);
    });
    let mut failed = failures.told();
    let (targets, programs) = targets.join().unwrap_or_default();
    failed.extend(targets);
    for (name, took) in programs.told(started.elapsed()) {
        println!("{}", programs::line(&name, took));
    }
    match run.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            failed.push(format!("cargo: {status}"));
            Err(failed)
        }
        Err(error) => Err(vec![format!("cargo: {error}")]),
    }
}

/// All lines of a pipe, also those that are not UTF-8.
fn lines(pipe: Option<impl Read>) -> impl Iterator<Item = String> {
    let lines = pipe.map(|pipe| BufReader::new(pipe).split(b'\n'));
    let lines = lines.into_iter().flatten().map_while(Result::ok);
    lines.map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// Whether cargo tells with this line which target failed, or what does not compile.
fn is_of_cargo(line: &str) -> bool {
    line.starts_with("error") || line.trim_start().starts_with("`-p ")
}

/// The output of failed tests, found in that of all.
#[derive(Default)]
struct Failures {
    /// Of each failed test its last lines.
    tests: Vec<VecDeque<String>>,
    /// Whether the next line is one of them.
    telling: bool,
    /// Whether the next line is of a backtrace, which tells of the harness what the panic's own place
    /// does not.
    in_backtrace: bool,
}

impl Failures {
    fn hear(&mut self, line: &str) {
        self.in_backtrace = match line {
            "stack backtrace:" => true,
            _ => self.in_backtrace && is_of_backtrace(line),
        };
        if self.in_backtrace {
            return;
        }
        if line == "failures:" {
            self.telling = false;
        } else if is_heading(line) {
            self.telling = true;
            self.tests.push(VecDeque::new());
        }
        let Some(test) = self.tests.last_mut().filter(|_| self.telling) else {
            return;
        };
        // Under the heading, which stays.
        if test.len() > LINES {
            test.remove(1);
        }
        test.push_back(line.chars().take(LENGTH).collect());
    }

    fn told(self) -> Vec<String> {
        self.tests.into_iter().flatten().collect()
    }
}

/// Whether a line goes on with a backtrace: the number of a call, or its place.
fn is_of_backtrace(line: &str) -> bool {
    let line = line.trim_start();
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("at ") || digits.len() < line.len() && digits.starts_with(": ")
}

/// Whether what a test printed begins behind this line.
fn is_heading(line: &str) -> bool {
    line.starts_with("---- ") && line.ends_with(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<(), Vec<String>> {
        of(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn a_run_that_passes_has_no_failures() {
        assert_eq!(shell("echo test a ... ok; echo warning: b >&2"), Ok(()));
    }

    #[test]
    fn failures_are_told_with_their_last_lines_and_their_target() {
        let script =
            "echo 'test a ... FAILED'; echo; echo failures:; echo; echo '---- a stdout ----'
            seq 100; echo; echo failures:; echo '    a'; echo; echo 'test result: FAILED. 1 passed'
            printf 'warning: b\\nerror: 1 target failed:\\n    `-p c --test d`\\n' >&2; exit 101";
        let failed = shell(script).expect_err("it failed");
        let (first, last) = (&failed[0], &failed[failed.len() - 4..]);
        assert_eq!(first, "---- a stdout ----");
        assert_eq!(failed[1], "62", "the last lines alone: {failed:?}");
        assert_eq!(
            last,
            [
                "",
                "error: 1 target failed:",
                "    `-p c --test d`",
                "cargo: exit status: 101"
            ]
        );
    }

    #[test]
    fn backtraces_are_left_out() {
        let script = "echo '---- a stdout ----'
            printf 'why\\nstack backtrace:\\n   0: call\\n             at ./a.rs:1:2\\nnote: more\\n'; exit 1";
        let failed = shell(script).expect_err("it failed");
        assert_eq!(failed[..3], ["---- a stdout ----", "why", "note: more"]);
    }

    #[test]
    fn long_lines_and_other_bytes_are_bounded_and_read() {
        let script = "echo '---- a stdout ----'; printf '\\377%1000s\\n' b; exit 1";
        let failed = shell(script).expect_err("it failed");
        assert_eq!(failed[1].chars().count(), LENGTH);
    }
}
