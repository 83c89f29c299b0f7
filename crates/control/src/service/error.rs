//! Errors that say where.

use super::Misplaced;
use super::faults::in_words;
use crate::text_place::TextPlace;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use twinpath_nf::files::NotUtf8;

/// Why a service file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is wrong: all that is, in the order of places; at least one thing.
    #[error("{}", lines(.0))]
    Wrong(Vec<Fault>),
}

/// What is wrong at one place of a file, or sound and yet probably not meant so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// Where.
    pub place: TextPlace,
    /// What it is, and why or what was expected.
    pub message: String,
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let TextPlace {
            line,
            column,
            excerpt,
        } = &self.place;
        let (path, message) = (self.path.display(), &self.message);
        if excerpt.is_empty() {
            return write!(f, "{path}:{line}: {message}");
        }
        write!(f, "{path}:{line}:{column}: {message}\n{excerpt}")
    }
}

fn lines(faults: &[Fault]) -> String {
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    faults.join("\n")
}

impl Fault {
    pub(super) fn at(offset: usize, message: String, text: &str, path: &Path) -> Self {
        Self {
            path: path.into(),
            place: TextPlace::of(offset, text),
            message,
        }
    }

    /// What is about all of a line, from 1, of another file than the service's. Without what stands there.
    pub(super) const fn in_line(path: PathBuf, line: usize, message: String) -> Self {
        let place = TextPlace {
            line,
            column: 1,
            excerpt: String::new(),
        };
        Self {
            path,
            place,
            message,
        }
    }
}

impl ServiceError {
    /// Why the service file itself cannot be read; if it is no text, where.
    pub fn unreadable(path: &Path, source: std::io::Error) -> Self {
        match NotUtf8::of(&source) {
            Some(error) => {
                let byte = error.byte;
                let message = format!("the byte {byte:#04x} is no UTF-8: expected a text in UTF-8");
                let fault = Fault::at(error.offset, message, &error.before, path);
                Self::Wrong(vec![fault])
            }
            None => Self::File {
                path: path.into(),
                source,
            },
        }
    }

    /// What is wrong with a file, as its parser says.
    pub fn of_toml(error: &toml::de::Error, text: &str, path: &Path) -> Self {
        let offset = error.span().map_or(0, |span| span.start);
        let fault = Fault::at(offset, in_words(error.message()), text, path);
        Self::Wrong(vec![fault])
    }

    pub(super) fn wrong(faults: Vec<Misplaced>, text: &str, path: &Path) -> Self {
        let faults = faults.into_iter();
        let at = |(span, message): Misplaced| Fault::at(span.start, message, text, path);
        Self::Wrong(faults.map(at).collect())
    }
}
