//! What is tested beside what everybody builds: features that need a system's packages, all in one build with
//! the rest.

use super::{has_package, root};
use std::process::Command;
use std::sync::OnceLock;

/// Features, and what they need to be built.
const FEATURES: [(&str, &[&str]); 2] = [
    ("twinpath/hyperscan", &["libhyperscan-dev"]),
    ("twinpath/verbs", &["cmake", "make", "libclang-dev"]),
];

/// A command of cargo's for the workspace, with every feature that can be built here.
pub fn cargo(command: &str) -> Command {
    let words = [command, "--workspace", "--features", &there().join(",")];
    let mut command = Command::new(env!("CARGO"));
    command.args(words);
    command.current_dir(root());
    command
}

/// A package without which a feature is not tested.
pub fn missing() -> Option<&'static str> {
    let packages = FEATURES.iter().flat_map(|(_, packages)| *packages);
    packages.copied().find(|package| !has_package(package))
}

/// Those that can be built.
fn there() -> &'static [&'static str] {
    static THERE: OnceLock<Vec<&str>> = OnceLock::new();
    THERE.get_or_init(|| {
        let is_there = |packages: &[&str]| packages.iter().all(|package| has_package(package));
        let there = FEATURES.iter().filter(|(_, packages)| is_there(packages));
        there.map(|(feature, _)| *feature).collect()
    })
}
