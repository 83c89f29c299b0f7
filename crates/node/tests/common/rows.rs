//! The table of oracles: a line for each run that was compared with the slow path alone, which
//! `cargo xtask record oracles` gathers by test.

use super::Outcome;
use super::derived::doings;

/// Tells of a run over packets that are called so in their first word, and of what each function
/// did: on both paths it did the same.
pub fn tell(over: &str, slow: &Outcome, both: &Outcome) {
    let thread = std::thread::current();
    let (fast, slow_path) = (&both.report.fast, &both.report.slow);
    println!(
        "oracle | {} | {} | {} | {} | {}",
        thread.name().unwrap_or_default(),
        over.split_whitespace().next().unwrap_or_default(),
        fast.packets + slow_path.packets,
        fast.packets,
        doings(slow)
    );
}
