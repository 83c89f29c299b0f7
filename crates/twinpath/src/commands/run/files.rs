//! The files of a run: what is written must not replace what is read, or each other.

use crate::error::{CommandError, RunRefusal};
use crate::paths::{FileId, check_name};
use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use twinpath_control::report::{HTML_FILE, JSON_FILE};
use twinpath_control::service::Service;
use twinpath_io::{PortPattern, is_standard};

/// Which files a run reads and writes.
pub struct Files<'a> {
    pub service: &'a Service,
    /// Files that the service file names.
    pub named: Vec<PathBuf>,
    /// `--in`
    pub input: Option<&'a Path>,
    /// `--out`
    pub output: Option<&'a Path>,
    /// `--report`
    pub report: Option<&'a Path>,
}

/// What a file is read or written for, and where it is.
struct Use {
    what: &'static str,
    path: PathBuf,
}

impl Files<'_> {
    /// Refuses what would destroy a file, and names that mean nothing.
    pub fn check(&self) -> Result<(), CommandError> {
        for (flag, path) in [("--in", self.input), ("--out", self.output)] {
            if let Some(path) = path {
                check_name(flag, path)?;
            }
        }
        check_streams(self.input, self.output)?;
        check_apart(&self.read()?, self.written()?)?;
        Ok(())
    }

    fn read(&self) -> Result<Vec<Use>, CommandError> {
        let mut read = vec![Use {
            what: "the service file",
            path: self.service.file.path.to_path_buf(),
        }];
        read.extend(self.named.iter().map(|path| Use {
            what: "a file that the service file names",
            path: path.clone(),
        }));
        if let Some(input) = self.input {
            read.extend(self.uses("what --in reads", input)?);
        }
        Ok(read)
    }

    fn written(&self) -> Result<Vec<Use>, CommandError> {
        let mut written = match self.output {
            Some(output) => self.uses("what --out writes", output)?,
            None => Vec::new(),
        };
        if let Some(folder) = self.report {
            for name in [JSON_FILE, HTML_FILE] {
                let path = folder.join(name);
                let what = "what --report writes";
                written.push(Use { what, path });
            }
        }
        Ok(written)
    }

    fn uses(&self, what: &'static str, path: &Path) -> Result<Vec<Use>, CommandError> {
        let paths = captures(self.service, path)?.into_iter();
        Ok(paths.map(|path| Use { what, path }).collect())
    }
}

/// A capture, or one for each port; none for standard input and output.
pub fn captures(service: &Service, path: &Path) -> Result<Vec<PathBuf>, CommandError> {
    Ok(match PortPattern::of(path) {
        Some(pattern) => pattern.paths(&service.ports)?,
        None if is_standard(path) => Vec::new(),
        None => vec![path.to_owned()],
    })
}

/// The files of a run in steps: none that is written is read, or written twice.
pub fn check_steps(read: &[PathBuf], written: &[PathBuf]) -> Result<(), RunRefusal> {
    let uses = |what: &'static str, paths: &[PathBuf]| -> Vec<Use> {
        let paths = paths.iter().cloned();
        paths.map(|path| Use { what, path }).collect()
    };
    let read = uses("a file that steps read", read);
    check_apart(&read, uses("a file that steps write", written))
}

/// Refuses to write what is read, or what has been written.
fn check_apart(read: &[Use], written: Vec<Use>) -> Result<(), RunRefusal> {
    let mut used = HashMap::new();
    for one in read {
        if let Some(file) = FileId::of(&one.path) {
            used.entry(file).or_insert(one.what);
        }
    }
    for Use { what, path } in written {
        let Some(file) = FileId::of(&path) else {
            continue;
        };
        if let Some(other) = used.insert(file, what) {
            return Err(RunRefusal::SameFile {
                path,
                flag: what,
                other,
            });
        }
    }
    Ok(())
}

/// People cannot type captures, nor read them.
fn check_streams(input: Option<&Path>, output: Option<&Path>) -> Result<(), RunRefusal> {
    if input.is_some_and(is_standard) && std::io::stdin().is_terminal() {
        return Err(RunRefusal::Terminal("--in -"));
    }
    if output.is_some_and(is_standard) && std::io::stdout().is_terminal() {
        return Err(RunRefusal::Terminal("--out -"));
    }
    Ok(())
}
