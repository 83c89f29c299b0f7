//! Tests with an RDMA card, in a virtual machine: the kernel there has one in software.

use super::virtual_machine::VirtualMachine;
use super::{root, succeeds};
use std::process::Command;

/// The feature's, and what finds the card there.
const PACKAGES: [&str; 3] = ["cmake", "libclang-dev", "ibverbs-providers"];

/// The card, what it computes check sums with, who gives it to programs, and cables.
const MODULES: [&str; 4] = ["crc32_generic", "rdma_rxe", "ib_uverbs", "veth"];

/// Runs them: cargo builds, and has the virtual machine run what it has built. An error is what is missing.
pub fn test() -> Result<bool, String> {
    VirtualMachine::prepare(&PACKAGES)?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let runner = format!("{} in-virtual-machine", own.display());
    let mut tests = Command::new(env!("CARGO"));
    tests.args(["test", "--workspace", "--features", "twinpath/verbs"]);
    tests.args(["--test", "wire", "verbs::", "--", "--test-threads", "1"]);
    tests.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    Ok(succeeds(tests.current_dir(root())))
}

/// Runs a program of tests there.
pub fn run(program: &[&str]) -> bool {
    let words = ["env", "TWINPATH_RDMA=1"].iter().chain(program);
    let words: Vec<String> = words.map(|word| (*word).to_owned()).collect();
    let ran = VirtualMachine::prepare(&PACKAGES).and_then(|machine| {
        machine
            .run(&MODULES, &words)
            .map_err(|error| error.to_string())
    });
    ran.unwrap_or_else(|error| {
        println!("{error}");
        false
    })
}
