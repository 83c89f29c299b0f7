//! Files of a configuration, read together.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::Origin;
use crate::json::{self, Problem};
use crate::objects::Change;

/// What several files say.
#[derive(Debug, Default)]
pub struct Files {
    /// The files, in the order in which they were read; an [`Origin`] counts them from 0.
    pub paths: Vec<PathBuf>,
    /// Their changes, in order.
    pub changes: Vec<(Change, Origin)>,
    /// What is wrong or worth a look, and in which file.
    pub problems: Vec<(u32, Problem)>,
    /// How many errors more there are.
    pub more_errors: usize,
    /// How many remarks more.
    pub more_remarks: usize,
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Why not.
    pub source: io::Error,
}

/// The files in a folder whose names end with `.json`, by name.
///
/// # Errors
/// If it is no folder, or cannot be read.
pub fn json_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = folder.read_dir()?.map(|entry| Ok(entry?.path()));
    let mut files = entries.collect::<io::Result<Vec<_>>>()?;
    files.retain(|path| is_json(path));
    files.sort();
    Ok(files)
}

/// Whether a file's name ends with `.json`.
#[must_use]
pub fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "json")
}

impl Files {
    /// Reads files, and of a folder all files whose names end with `.json`, by name.
    ///
    /// # Errors
    /// If one cannot be read. What is wrong in it is a problem, not an error.
    pub fn read(paths: &[PathBuf]) -> Result<Self, FileError> {
        let mut files = Self::default();
        for path in paths {
            match path.is_dir() {
                true => files.add_folder(path)?,
                false => files.add(path)?,
            }
        }
        Ok(files)
    }

    fn add_folder(&mut self, folder: &Path) -> Result<(), FileError> {
        let failed = |source| FileError {
            path: folder.into(),
            source,
        };
        let paths = json_in(folder).map_err(failed)?;
        if paths.is_empty() {
            let nothing = "there is no file in it whose name ends with .json";
            return Err(failed(io::Error::new(io::ErrorKind::NotFound, nothing)));
        }
        paths.iter().try_for_each(|path| self.add(path))
    }

    fn add(&mut self, path: &Path) -> Result<(), FileError> {
        let bytes = std::fs::read(path).map_err(|source| FileError {
            path: path.into(),
            source,
        })?;
        self.add_text(path.into(), &bytes);
        Ok(())
    }

    /// Adds what a file says.
    pub fn add_text(&mut self, path: PathBuf, bytes: &[u8]) {
        let file = self.paths.len() as u32;
        self.paths.push(path);
        let reading = json::read(bytes);
        let changes = reading.changes.into_iter();
        self.changes
            .extend(changes.map(|(change, line)| (change, Origin { file, line })));
        let problems = reading.problems.into_iter();
        self.problems
            .extend(problems.map(|problem| (file, problem)));
        self.more_errors += reading.more_errors;
        self.more_remarks += reading.more_remarks;
    }

    /// A place, as errors tell it: the file and the line.
    #[must_use]
    pub fn place(&self, origin: Origin) -> String {
        let path = self.paths.get(origin.file as usize);
        let path = path.map_or_else(String::new, |path| path.display().to_string());
        format!("{path}:{}", origin.line)
    }
}
