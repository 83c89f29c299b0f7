//! Where tests find the published files that are not part of the repository.

use std::path::PathBuf;

/// A folder of published files beside the repository, or `None`, saying so, if
/// it is not there. In CI it must be there.
pub(crate) fn shared_folder(name: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared")
        .join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "CI needs the shared folder {name}"
    );
    println!("skipped: no folder ../shared/{name}");
    None
}
