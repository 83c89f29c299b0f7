//! The table of oracles: a line for each run with the fast path on that was compared with the slow path
//! alone, which `cargo xtask record oracles` gathers by test.

use super::derived::doings;
use twinpath_control::report::Report;

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
    println!("oracle | {test} | {from} | {packets} | {on_fast_path} | {did}");
}
