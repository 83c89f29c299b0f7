//! Tables of measured times that the lab's plans take as costs: a name and nanoseconds, and beside it on
//! what machine.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

/// Names and nanoseconds, in order.
#[derive(Debug, Default)]
pub struct Measured(Vec<(String, f64)>);

impl Measured {
    /// One more.
    pub fn add(&mut self, what: String, ns: f64) {
        println!("{what:<24} {ns:10.1} ns");
        self.0.push((what, ns));
    }

    /// Writes the table to `plans/measured/NAME.csv`, and what machine it was to `NAME.machine.txt`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, name: &str) -> io::Result<()> {
        let table = folder().join(name).with_extension("csv");
        let mut text = String::from("what,ns\n");
        for (what, ns) in &self.0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{what},{ns:.1}");
        }
        std::fs::write(&table, text)?;
        std::fs::write(table.with_extension("machine.txt"), machine())
    }
}

/// Where the lab's plans look for what was measured on the code.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plans/measured")
}

fn machine() -> String {
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = told
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("an unknown processor", |rest| {
        rest.trim_start_matches([' ', '\t', ':'])
    });
    let mut flags = told.lines().filter(|line| line.starts_with("flags"));
    let kind = match flags.any(|line| line.contains(" hypervisor")) {
        true => "one core of a virtual machine",
        false => "one core of a machine",
    };
    format!("{kind} with {model}\n")
}
