//! What tests of whole services measure that nobody runs otherwise: each writes a page, and what belongs to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How much memory a gateway takes that is under load for so many minutes; nothing if that grows.
pub fn soak(root: &Path, minutes: &str) -> Option<String> {
    let settings = [("TWINPATH_SOAK_MINUTES", minutes)];
    let page = measured(root, "wire", "soak", "soak", &settings)?;
    let picture = folder(root).join("soak.svg");
    fs::copy(picture, root.join("measured/soak.svg")).ok()?;
    Some(page)
}

/// How long a service takes until it serves.
pub fn start(root: &Path) -> Option<String> {
    let settings = [("TWINPATH_STARTS", "9")];
    let test = "with_tables_for_a_million_flows";
    measured(root, "wire", "start", test, &settings)
}

/// What a DPU loses in so many minutes while connections come and go, and policies change; nothing if it
/// loses any.
pub fn zero_loss(root: &Path, minutes: &str) -> Option<String> {
    let settings = [("TWINPATH_ZERO_LOSS_MINUTES", minutes)];
    let test = "nothing_is_lost_while_policies_change";
    measured(root, "command", "zero_loss", test, &settings)
}

/// Runs a test of a program of tests, and takes the page of its module.
fn measured(
    root: &Path,
    program: &str,
    module: &str,
    test: &str,
    settings: &[(&str, &str)],
) -> Option<String> {
    let name = format!("{module}::{test}");
    let ran = super::super::succeeds(
        Command::new(env!("CARGO"))
            .args([
                "test",
                "--release",
                "--package",
                "twinpath",
                "--test",
                program,
            ])
            .args(["--", "--include-ignored", "--nocapture", "--exact", &name])
            .envs(settings.iter().copied())
            .env("TWINPATH_MEASURED_OUT", folder(root))
            .current_dir(root),
    );
    let page = ran.then(|| folder(root).join(format!("{module}.md")));
    fs::read_to_string(page?).ok()
}

fn folder(root: &Path) -> PathBuf {
    root.join("target").join("measured")
}
