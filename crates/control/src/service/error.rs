//! Errors that say where.

use crate::text_place::TextPlace;
use std::path::{Path, PathBuf};

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
    /// It is wrong.
    #[error("{}:{}:{}: {message}\n{}", path.display(), place.line, place.column, place.excerpt)]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Where.
        place: TextPlace,
        /// What is wrong and what was expected.
        message: String,
    },
}

impl ServiceError {
    /// What is wrong with a file, as its parser says.
    pub fn of_toml(error: &toml::de::Error, text: &str, path: &Path) -> Self {
        let offset = error.span().map_or(0, |span| span.start);
        Self::at(offset, error.message().trim().to_owned(), text, path)
    }

    pub(super) fn at(offset: usize, message: String, text: &str, path: &Path) -> Self {
        Self::Wrong {
            path: path.into(),
            place: TextPlace::of(offset, text),
            message,
        }
    }
}
