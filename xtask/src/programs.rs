//! How long each program of tests took, of what cargo tells of them while it runs them: one begins where
//! cargo says so, and ends where the next one begins.

use std::time::Duration;

/// What cargo did so far, each with when it began.
#[derive(Default)]
pub struct Programs {
    begun: Vec<(String, Duration)>,
}

impl Programs {
    /// A line of cargo's own, so long after it was started.
    pub fn hear(&mut self, line: &str, at: Duration) {
        let line = line.trim_start();
        let name = match line.strip_prefix("Running ") {
            Some(running) => program(running),
            None => line
                .strip_prefix("Doc-tests ")
                .map(|of| format!("{of}, examples in its documentation")),
        };
        self.begun.extend(name.map(|name| (name, at)));
    }

    /// What took how long, in order, until cargo's end: compiling, then each program.
    pub fn told(self, end: Duration) -> Vec<(String, Duration)> {
        let compiling = ("compiling".to_owned(), Duration::ZERO);
        let begun: Vec<_> = [compiling].into_iter().chain(self.begun).collect();
        let ends = begun.iter().skip(1).map(|(_, at)| *at).chain([end]);
        let ends: Vec<Duration> = ends.collect();
        let all = begun.into_iter().zip(ends);
        all.map(|((name, at), end)| (name, end.saturating_sub(at)))
            .collect()
    }
}

/// `node, tests/node/main.rs` of `tests/node/main.rs (target/debug/deps/node-dfa6d216084f31d3)`, and
/// `twinpath_link, src/lib.rs` of `unittests src/lib.rs (...)`.
fn program(running: &str) -> Option<String> {
    let (source, path) = running.split_once(" (")?;
    let source = source.strip_prefix("unittests ").unwrap_or(source);
    let file = path.trim_end_matches(')').rsplit('/').next()?;
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    Some(format!("{name}, {source}"))
}

/// What the line of a program says, which [`read`] reads.
pub fn line(name: &str, took: Duration) -> String {
    format!("took {:7.1} s: {name}", took.as_secs_f64())
}

/// A program, and how many seconds it took.
pub fn read(line: &str) -> Option<(String, f64)> {
    let (seconds, name) = line.strip_prefix("took ")?.split_once(" s: ")?;
    Some((name.to_owned(), seconds.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ends_where_the_next_begins() {
        let mut programs = Programs::default();
        for (at, line) in [
            (1, "   Compiling a v0.1.0 (/a)"),
            (9, "    Finished `test` profile [optimized] target(s) in 9s"),
            (
                10,
                "     Running unittests src/lib.rs (target/debug/deps/a_b-0123456789abcdef)",
            ),
            (
                14,
                "     Running tests/node/main.rs (/x/debug/deps/node-0123456789abcdef)",
            ),
            (30, "   Doc-tests a_b"),
        ] {
            programs.hear(line, Duration::from_secs(at));
        }
        let told = programs.told(Duration::from_secs(31));
        let lines = told.iter().map(|(name, took)| line(name, *took));
        let read: Vec<_> = lines.filter_map(|line| read(&line)).collect();
        let expected = [
            ("compiling", 10.0),
            ("a_b, src/lib.rs", 4.0),
            ("node, tests/node/main.rs", 16.0),
            ("a_b, examples in its documentation", 1.0),
        ];
        assert_eq!(read, expected.map(|(name, took)| (name.to_owned(), took)));
    }
}
