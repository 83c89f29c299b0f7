//! The file behind a writer: a temporary name until it is whole.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::standard::is_standard;

/// Other writers of the same file at the same time that are put up with.
const MAX_TEMPORARY_NAMES: u32 = 16;

/// The file to be replaced or created, or the device to be written to.
pub(super) struct Target {
    pub(super) path: PathBuf,
    /// A device, a pipe or standard output: what is written there is seen at once.
    pub(super) is_device: bool,
    is_standard: bool,
}

impl Target {
    /// Follows links, which a rename would replace.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        if is_standard(path) {
            return Ok(Self {
                path: "standard output".into(),
                is_device: true,
                is_standard: true,
            });
        }
        match fs::canonicalize(path) {
            Ok(path) => {
                let is_device = !fs::metadata(&path)?.is_file();
                Ok(Self {
                    path,
                    is_device,
                    is_standard: false,
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self {
                path: path.to_owned(),
                is_device: false,
                is_standard: false,
            }),
            Err(error) => Err(error),
        }
    }

    /// The open file, and the name that it has until it is whole unless it is a device.
    pub(super) fn open(&self) -> io::Result<(File, Option<PathBuf>)> {
        if self.is_standard {
            let file = io::stdout().as_fd().try_clone_to_owned()?;
            return Ok((file.into(), None));
        }
        if self.is_device {
            return Ok((OpenOptions::new().write(true).open(&self.path)?, None));
        }
        let mut attempt = 0;
        loop {
            let temporary = temporary_name(&self.path, attempt)?;
            match OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&temporary)
            {
                Ok(file) => return Ok((file, Some(temporary))),
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists
                        && attempt < MAX_TEMPORARY_NAMES =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn temporary_name(path: &Path, attempt: u32) -> io::Result<PathBuf> {
    let mut name = path
        .file_name()
        .ok_or(io::ErrorKind::InvalidFilename)?
        .to_owned();
    name.push(format!(".{}-{attempt}.partial", std::process::id()));
    Ok(path.with_file_name(name))
}
