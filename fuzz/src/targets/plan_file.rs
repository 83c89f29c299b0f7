//! Any text: a plan of the lab and a testbed are taken or refused with their place. Testbeds and
//! captures that plans name are those of this repository.

use std::path::Path;
use twinpath_lab::Plan;
use twinpath_lab::testbed::Testbed;

const PLAN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../plans/fuzz.toml");

/// One input.
pub fn run(text: &str) {
    match Plan::parse(text, Path::new(PLAN)) {
        Ok(plan) => assert!(!plan.points(false).is_empty() && !plan.points(true).is_empty()),
        Err(error) => assert!(error.to_string().starts_with(PLAN)),
    }
    if let Err(error) = Testbed::parse(text, Path::new("fuzz.toml")) {
        assert!(error.to_string().starts_with("fuzz.toml:"));
    }
}
