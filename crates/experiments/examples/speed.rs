//! How many events a second one core simulates in the TurboSwitch testbed, and how that changes
//! with the length of the queue and with the number of flows.
//!
//!     cargo run --release -p twinpath-experiments --example speed

use std::time::Instant;
use toml::{Table, Value};
use twinpath_experiments::model::Model;
use twinpath_experiments::turboswitch::TurboSwitch;

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
    let begin = Instant::now();
    let row = TurboSwitch.run(&table)?;
    let seconds = begin.elapsed().as_secs_f64();
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
