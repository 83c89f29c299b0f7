//! How much memory a gateway takes that is under load: the test that holds it there writes rows, a picture and
//! a page.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the test for so many minutes and takes its page and its picture; nothing if memory grows.
pub fn page(root: &Path, minutes: &str) -> Option<String> {
    let folder = root.join("target").join("soak");
    let test = ["test", "--release", "--workspace", "--test", "wire"];
    let ran = super::super::succeeds(
        Command::new(env!("CARGO"))
            .args(test)
            .args(["--", "--ignored", "--nocapture", "--exact", "soak::soak"])
            .env("TWINPATH_SOAK_MINUTES", minutes)
            .env("TWINPATH_SOAK_OUT", &folder)
            .current_dir(root),
    );
    if !ran {
        return None;
    }
    fs::copy(folder.join("soak.svg"), root.join("measured/soak.svg")).ok()?;
    fs::read_to_string(folder.join("soak.md")).ok()
}
