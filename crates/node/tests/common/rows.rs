//! The table of oracles: a line for each run with the fast path on that was compared with the slow path
//! alone, which `cargo xtask test` looks through and `cargo xtask record oracles` gathers by test.

use super::derived::doings;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use twinpath_control::report::{Dash, Report};
use twinpath_node::run::StepFigures;

/// The variable that names a file to which rows are added, too.
const ROWS: &str = "TWINPATH_ORACLE_ROWS";

/// Tells of a run with the fast path on: where its packets came from, which is the name of a capture or how
/// they were made, how many left and by which path, and what each function did.
pub fn tell(from: &str, both: &Report) {
    let (fast, slow) = (both.fast.packets, both.slow.packets);
    tell_counts(from, fast + slow, fast, &doings(both));
}

/// The same of a run without a report: so many packets, and so many of them on the fast path.
fn tell_counts(from: &str, packets: u64, on_fast_path: u64, did: &str) {
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

/// The same of each step of a DPU's run: what it dropped, of ENIs and of none, together and by reason.
pub fn tell_steps(from: &str, steps: &[StepFigures]) {
    let mut before = BTreeMap::new();
    for step in steps {
        let upto = drops(&step.dash);
        let of_step = upto.iter().map(|(&reason, count)| {
            let of_before = before.get(reason).copied().unwrap_or(0);
            (reason, count - of_before)
        });
        let of_step: Vec<(&str, u64)> = of_step.filter(|&(_, count)| count > 0).collect();
        let all: u64 = of_step.iter().map(|(_, count)| count).sum();
        let by_reason = of_step
            .iter()
            .map(|(reason, count)| format!(", {reason} {count}"));
        let did = format!("dash: dropped {all}{}", by_reason.collect::<String>());
        tell_counts(from, step.packets_in, step.fast_packets, &did);
        before = upto;
    }
}

fn drops(dash: &Dash) -> BTreeMap<&str, u64> {
    let mut all = BTreeMap::new();
    let of_enis = dash.enis.iter().flat_map(|eni| &eni.drops);
    for (reason, count) in of_enis.chain(&dash.drops) {
        *all.entry(reason.as_str()).or_default() += count;
    }
    all
}
