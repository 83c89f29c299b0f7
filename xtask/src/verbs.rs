//! Tests with an RDMA card, in a virtual machine: the kernel there has one in software.

use super::virtual_machine::{self, VirtualMachine};
use super::{features, has_package, succeeds};

/// What finds the card there; what the feature is built with is a matter of `features`.
const PACKAGES: [&str; 1] = ["ibverbs-providers"];

/// The card, what it computes check sums with, who gives it to programs, and cables.
const MODULES: [&str; 4] = ["crc32_generic", "rdma_rxe", "ib_uverbs", "veth"];

/// What a virtual machine cannot do without and does not get.
pub fn missing() -> Option<&'static str> {
    let packages = PACKAGES.iter().chain(&virtual_machine::PACKAGES);
    let missing = packages.copied().find(|package| !has_package(package));
    features::missing().or(missing)
}

/// Runs them: cargo builds, and has the virtual machine run what it has built.
pub fn test() -> bool {
    let own = std::env::current_exe().unwrap_or_default();
    let runner = format!("{} in-virtual-machine", own.display());
    let mut tests = features::cargo("test");
    tests.args(["--test", "wire", "verbs::", "--", "--test-threads", "1"]);
    tests.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    succeeds(&mut tests)
}

/// Runs a program of tests there.
pub fn run(program: &[&str]) -> bool {
    let words = ["env", "TWINPATH_RDMA=1"].iter().chain(program);
    let words: Vec<String> = words.map(|word| (*word).to_owned()).collect();
    let ran = VirtualMachine::prepare().and_then(|machine| machine.run(&MODULES, &words));
    ran.unwrap_or_else(|error| {
        println!("virtual machine: {error}");
        false
    })
}
