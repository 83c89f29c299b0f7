//! What tests of whole services measure that nobody runs otherwise: each writes a page, and what belongs to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How much memory a gateway takes that is under load for so many minutes; nothing if that grows.
pub fn soak(root: &Path, minutes: &str) -> Option<String> {
    let page = measured(root, "soak", "soak", &[("TWINPATH_SOAK_MINUTES", minutes)])?;
    let picture = folder(root).join("soak.svg");
    fs::copy(picture, root.join("measured/soak.svg")).ok()?;
    Some(page)
}

/// How long a service takes until it serves.
pub fn start(root: &Path) -> Option<String> {
    measured(root, "start", "with_tables_for_a_million_flows", &[])
}

/// Runs a test and takes the page of its module.
fn measured(root: &Path, module: &str, test: &str, settings: &[(&str, &str)]) -> Option<String> {
    let name = format!("{module}::{test}");
    let ran = super::super::succeeds(
        Command::new(env!("CARGO"))
            .args(["test", "--release", "--workspace", "--test", "wire"])
            .args(["--", "--ignored", "--nocapture", "--exact", &name])
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
