//! Where the tests' real captures and flow-size distributions are.
//!
//! They are too large for the repository and lie beside it, in `../shared`, or wherever
//! `TWINPATH_SHARED` says. A test that finds none prints that it was skipped.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// The folder of this name beside the project (`traces`, `cdf`); `None`, with a notice, if it is
/// not there.
pub fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("TWINPATH_SHARED").map_or_else(beside_the_project, PathBuf::from);
    let folder = root.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no folder {}", folder.display());
    None
}

fn beside_the_project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared")
}
