//! The table of oracles: a line for each run with the fast path on that was compared with the slow path
//! alone, which `cargo xtask test` looks through and `cargo xtask record oracles` gathers by test.

use super::derived::doings;
use std::fs::OpenOptions;
use std::io::Write;
use twinpath_control::report::Report;

/// The variable that names a file to which rows are added, too.
const ROWS: &str = "TWINPATH_ORACLE_ROWS";

/// Tells of a run with the fast path on: where its packets came from, which is the name of a capture or how
/// they were made, how many left and by which path, and what each function did.
pub fn tell(from: &str, both: &Report) {
    let (fast, slow) = (both.fast.packets, both.slow.packets);
    tell_counts(from, fast + slow, fast, &doings(both));
}

/// The same of a run without a report: so many packets, and so many of them on the fast path.
pub fn tell_counts(from: &str, packets: u64, on_fast_path: u64, did: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    let row = format!("oracle | {test} | {from} | {packets} | {on_fast_path} | {did}\n");
    print!("{row}");
    if let Some(path) = std::env::var_os(ROWS) {
        let file = OpenOptions::new().create(true).append(true).open(path);
        // One write, so that rows of tests side by side stay whole.
        let written = file.and_then(|mut file| file.write_all(row.as_bytes()));
        written.expect("the file of rows can be written");
    }
}
