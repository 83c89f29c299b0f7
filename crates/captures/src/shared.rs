//! Where what the tests share is.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The folder of this name beside the project (`traces`, `cdf`); `None`, with a notice, if it is
/// not there or nothing is in it.
///
/// # Panics
/// If it is not there and the environment says `CI=true`: a test that nobody watches must not be
/// green because it had nothing to do.
pub fn shared(name: &str) -> Option<PathBuf> {
    let folder = root().join(name);
    let is_there = !files(&folder).is_empty();
    found(is_there.then_some(&folder), &folder, is_ci()).cloned()
}

/// The shared captures, by name; none, with a notice, where they are absent.
///
/// # Panics
/// As [`shared`].
pub fn captures() -> Vec<PathBuf> {
    captures_in(&root().join("traces"), is_ci())
}

/// The shared capture of this name; `None`, with a notice, where it is absent.
///
/// # Panics
/// As [`shared`].
pub fn shared_capture(name: &str) -> Option<PathBuf> {
    let path = root().join("traces").join(name);
    found(path.is_file().then_some(&path), &path, is_ci()).cloned()
}

fn captures_in(folder: &Path, is_ci: bool) -> Vec<PathBuf> {
    let mut captures = files(folder);
    captures.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains(".pcap") || name.contains(".cap")
    });
    captures.sort();
    let are_there = (!captures.is_empty()).then_some(());
    found(are_there, folder, is_ci);
    captures
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// What was found, if it was; else fails, or tells whoever watches, also of tests that succeed.
fn found<T>(what: Option<T>, place: &Path, is_ci: bool) -> Option<T> {
    if what.is_none() {
        let place = place.display();
        assert!(
            !is_ci,
            "nothing at {place}: under CI=true tests over captures must not be skipped; expected the captures there, or TWINPATH_SHARED to say where they are",
        );
        let notice = format!(
            "\n*** SKIPPED: nothing at {place}; TWINPATH_SHARED says where captures are. A test over them has shown nothing. ***\n"
        );
        // Not through what keeps the output of tests that succeed to itself.
        let _ = std::io::stderr().write_all(notice.as_bytes());
    }
    what
}

fn root() -> PathBuf {
    std::env::var_os("TWINPATH_SHARED").map_or_else(beside_the_project, PathBuf::from)
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
    fn missing_captures_are_skipped_where_somebody_watches() {
        assert_eq!(captures_in(&nowhere(), false), Vec::<PathBuf>::new());
        assert_eq!(found::<()>(None, &nowhere(), false), None);
    }

    #[test]
    #[should_panic(expected = "must not be skipped")]
    fn a_missing_folder_fails_under_ci() {
        captures_in(&nowhere(), true);
    }

    /// The folder is there, and no capture is in it.
    #[test]
    #[should_panic(expected = "must not be skipped")]
    fn a_folder_without_captures_fails_under_ci() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(!files(here).is_empty());
        captures_in(here, true);
    }

    #[test]
    fn what_is_there_is_found() {
        assert_eq!(found(Some(7), &nowhere(), true), Some(7));
    }
}
