//! Where what the tests share is.

use std::path::{Path, PathBuf};

/// The folder of this name beside the project (`traces`, `cdf`); `None`, with a notice, if it is
/// not there.
///
/// # Panics
/// If it is not there and the environment says `CI=true`: a test that nobody watches must not be
/// green because it had nothing to do.
pub fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("TWINPATH_SHARED").map_or_else(beside_the_project, PathBuf::from);
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    found(root.join(name), is_ci)
}

fn found(folder: PathBuf, is_ci: bool) -> Option<PathBuf> {
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(
        !is_ci,
        "no folder {}: under CI=true tests over captures must not be skipped; expected the captures there, or TWINPATH_SHARED to say where they are",
        folder.display()
    );
    println!("skipped: no folder {}", folder.display());
    None
}

fn beside_the_project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("no-such-folder")
    }

    #[test]
    fn a_missing_folder_is_skipped_where_somebody_watches() {
        assert_eq!(found(nowhere(), false), None);
    }

    #[test]
    #[should_panic(expected = "must not be skipped")]
    fn a_missing_folder_fails_under_ci() {
        found(nowhere(), true);
    }

    #[test]
    fn a_folder_that_is_there_is_found() {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(found(here.clone(), true), Some(here));
    }
}
