//! How many events a second one core simulates in the TurboSwitch testbed, and how that changes
//! with the length of the queue and with the number of flows. Time is what the thread spent on a
//! core (where the system tells), so that other programs on the machine disturb little.
//!
//!     cargo run --release -p twinpath-lab --example speed

use std::time::Instant;
use toml::{Table, Value};
use twinpath_lab::model::Model;
use twinpath_lab::turboswitch::TurboSwitch;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("queue grows with the cores' latency");
    for cores_us in [5, 20, 50, 200, 1000] {
        measure(&[
            ("cores_us", cores_us.into()),
            ("queue_limit_bytes", 12_000_000.into()),
        ])?;
    }
    println!("in the order of so many flows");
    for flows in [1, 100, 1_000, 10_000, 65_536] {
        measure(&[("flows", flows.into()), ("ordered", true.into())])?;
    }
    println!("with copies instead of rounds");
    measure(&[("variant", "multicast".into())])?;
    Ok(())
}

fn measure(parameters: &[(&str, Value)]) -> Result<(), Box<dyn std::error::Error>> {
    let named = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()));
    let mut table: Table = named.collect();
    table.insert("packets".into(), 500_000.into());
    let (begin, begin_ns) = (Instant::now(), on_core_ns());
    let row = TurboSwitch.run(&table, std::path::Path::new("."))?;
    let seconds = match (begin_ns, on_core_ns()) {
        (Some(begin_ns), Some(end_ns)) => (end_ns - begin_ns) as f64 / 1e9,
        _ => begin.elapsed().as_secs_f64(),
    };
    let value = |name: &str| {
        let index = TurboSwitch
            .columns()
            .iter()
            .position(|column| column.name == name);
        index.map_or(0.0, |index| row[index])
    };
    println!(
        "  {:<44} {:>7.0} packets queued  {:>6.2} M events/s",
        format!("{} = {}", parameters[0].0, parameters[0].1),
        value("queue_packets"),
        value("events") / seconds / 1e6
    );
    Ok(())
}

/// Time that this thread has spent on a core, from Linux.
fn on_core_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
