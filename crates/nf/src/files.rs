//! Files that a configuration names, such as routes or rules.
//!
//! Who reads a configuration says where they come from: a run from the disk, a change that an operator
//! asks for from what the operator has sent, read with the operator's own rights.

use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;
use std::sync::{Arc, Mutex, PoisonError};

/// Longest file that a configuration may name, in bytes.
pub const MAX_FILE_BYTES: u64 = 128 << 20;

/// Where files come from.
pub trait Files: Debug {
    /// The text of a file.
    ///
    /// # Errors
    /// It is not there, or no text.
    fn read(&self, path: &Path) -> io::Result<Arc<str>>;

    /// The files in a folder whose names end with .json, by name; nothing if it is no folder.
    fn json_in(&self, _path: &Path) -> Option<Vec<PathBuf>> {
        None
    }
}

/// Files on the disk. Only regular ones of bounded length are read: anything else could keep its
/// reader waiting for ever.
#[derive(Copy, Clone, Debug)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Arc<str>> {
        // A named pipe would not be opened before somebody writes to it.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is no regular file",
            ));
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it is longer than {MAX_FILE_BYTES} bytes"),
            ));
        }
        let text = String::from_utf8(bytes).map_err(|error| NotUtf8::at(&error))?;
        Ok(text.into())
    }

    fn json_in(&self, path: &Path) -> Option<Vec<PathBuf>> {
        twinpath_dash::json_in(path).ok()
    }
}

/// Why bytes are no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: the byte {byte:#04x} is no UTF-8: expected a text in UTF-8")]
pub struct NotUtf8 {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What stands there.
    pub byte: u8,
    /// The text up to the end of that line, with a mark for each thing that is none.
    pub before: String,
    /// Where the first of them is in it.
    pub offset: usize,
}

impl NotUtf8 {
    fn at(error: &FromUtf8Error) -> io::Error {
        let (bytes, offset) = (error.as_bytes(), error.utf8_error().valid_up_to());
        let (good, rest) = bytes.split_at(offset);
        let good = String::from_utf8_lossy(good);
        let line = rest.split(|&byte| byte == b'\n').next().unwrap_or(rest);
        let start = good.rfind('\n').map_or(0, |newline| newline + 1);
        let error = Self {
            line: good.matches('\n').count() + 1,
            column: good[start..].chars().count() + 1,
            byte: rest.first().copied().unwrap_or_default(),
            before: format!("{good}{}", String::from_utf8_lossy(line)),
            offset,
        };
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    /// This, if it is why a file cannot be read.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// Files that are at hand, by path; there are no others.
impl Files for BTreeMap<PathBuf, Arc<str>> {
    fn read(&self, path: &Path) -> io::Result<Arc<str>> {
        let found = self.get(path).cloned();
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it was not sent"))
    }

    fn json_in(&self, path: &Path) -> Option<Vec<PathBuf>> {
        let inside = self.keys().filter(|file| file.parent() == Some(path));
        let files: Vec<_> = inside
            .filter(|file| twinpath_dash::is_json(file))
            .cloned()
            .collect();
        (!files.is_empty()).then_some(files)
    }
}

/// Files on the disk, with a copy of each that was read.
#[derive(Debug, Default)]
pub struct Copied(Mutex<BTreeMap<PathBuf, Arc<str>>>);

impl Copied {
    /// The copies, by path.
    pub fn into_files(self) -> BTreeMap<PathBuf, Arc<str>> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files for Copied {
    fn read(&self, path: &Path) -> io::Result<Arc<str>> {
        let text = Disk.read(path)?;
        let mut copies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        copies.insert(path.into(), Arc::clone(&text));
        Ok(text)
    }

    fn json_in(&self, path: &Path) -> Option<Vec<PathBuf>> {
        Disk.json_in(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_regular_files_are_read_and_nobody_waits() {
        let folder = std::env::temp_dir().join(format!("twinpath-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (file, pipe) = (folder.join("file"), folder.join("pipe"));
        std::fs::write(&file, "text").expect("a file");
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|status| status.success()), "a named pipe");
        let copied = Copied::default();
        assert_eq!(&*copied.read(&file).expect("a file"), "text");
        for path in [&pipe, &folder, Path::new("/dev/zero")] {
            let error = copied.read(path).expect_err("no regular file");
            assert_eq!(error.to_string(), "it is no regular file", "{path:?}");
        }
        let json = folder.join("a.json");
        std::fs::write(&json, "[]").expect("a file");
        assert_eq!(copied.json_in(&folder), Some(vec![json.clone()]));
        assert_eq!(copied.json_in(&file), None);
        let sent = copied.into_files();
        assert_eq!(sent.json_in(&folder), None, "it was not read");
        let with_it = BTreeMap::from([(json.clone(), Arc::from("[]"))]);
        assert_eq!(with_it.json_in(&folder), Some(vec![json]));
        assert_eq!(sent.keys().collect::<Vec<_>>(), [&file]);
        assert_eq!(&*sent.read(&file).expect("sent"), "text");
        assert!(sent.read(&pipe).is_err());
        std::fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn what_is_no_text_is_told_with_its_place() {
        let name = format!("twinpath-text-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, b"one\nzw\xc3\xb6lf \xe4 = 1\nthree \xff").expect("a file");
        let error = Disk.read(&file).expect_err("Latin-1");
        std::fs::remove_file(&file).expect("ours");
        assert_eq!(
            error.to_string(),
            "line 2, column 7: the byte 0xe4 is no UTF-8: expected a text in UTF-8"
        );
        let place = NotUtf8::of(&error).expect("it says where");
        assert_eq!(place.before, "one\nzwölf \u{fffd} = 1");
        assert_eq!(place.offset, place.before.find('\u{fffd}').expect("there"));
    }
}
