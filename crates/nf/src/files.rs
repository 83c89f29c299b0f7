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
        let mut text = String::new();
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
        match text.len() as u64 > MAX_FILE_BYTES {
            true => Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it is longer than {MAX_FILE_BYTES} bytes"),
            )),
            false => Ok(text.into()),
        }
    }
}

/// Files that are at hand, by path; there are no others.
impl Files for BTreeMap<PathBuf, Arc<str>> {
    fn read(&self, path: &Path) -> io::Result<Arc<str>> {
        let found = self.get(path).cloned();
        found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it was not sent"))
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
        let sent = copied.into_files();
        assert_eq!(sent.keys().collect::<Vec<_>>(), [&file]);
        assert_eq!(&*sent.read(&file).expect("sent"), "text");
        assert!(sent.read(&pipe).is_err());
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}
