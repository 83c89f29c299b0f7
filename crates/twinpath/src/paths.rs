//! Names of captures, and whether two are of one file.

use crate::error::RunRefusal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use twinpath_io::{PortPattern, is_standard};

/// The name of a capture; one that begins like a flag is standard input or output, or a flag.
pub fn capture(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match text.starts_with('-') && !is_standard(&path) {
        true => Err(
            "expected a file, - or -.pcapng for a pipe (./ before a name that begins with -)"
                .into(),
        ),
        false => Ok(path),
    }
}

/// Refuses words in braces that stand for nothing.
pub fn check_name(flag: &'static str, path: &Path) -> Result<(), RunRefusal> {
    match PortPattern::unknown_place(path) {
        Some(place) => Err(RunRefusal::UnknownPlace {
            flag,
            path: path.to_owned(),
            place,
        }),
        None => Ok(()),
    }
}

/// Which file a path is of, under whatever name.
#[derive(PartialEq, Eq, Hash)]
pub enum FileId {
    /// One that is there, by its device and its number.
    There(u64, u64),
    /// One that is not there yet, by its whole path.
    ToBe(PathBuf),
}

impl FileId {
    /// That of a path; none of what is no file, or could not be one.
    pub fn of(path: &Path) -> Option<Self> {
        match path.metadata() {
            Ok(file) => file.is_file().then(|| Self::There(file.dev(), file.ino())),
            Err(_) => whole(path).map(Self::ToBe),
        }
    }
}

/// Whether two paths are of one file, under whatever names; of files that are not there yet, whether
/// they would be.
pub fn is_same(one: &Path, other: &Path) -> bool {
    FileId::of(one).is_some_and(|one| FileId::of(other) == Some(one))
}

/// The whole path of a file that is not there, in a folder that is.
fn whole(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
    Some(folder.join(path.file_name()?))
}
