//! Errors that say where.

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
    #[error("{}:{line}:{column}: {message}\n    {excerpt}\n    {:>column$}", path.display(), '^')]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong and what was expected.
        message: String,
        /// The line at fault.
        excerpt: String,
    },
}

impl ServiceError {
    pub(super) fn of_toml(error: &toml::de::Error, text: &str, path: &Path) -> Self {
        Self::at(
            error.span().map_or(0, |span| span.start),
            error.message().trim().to_owned(),
            text,
            path,
        )
    }

    pub(super) fn at(offset: usize, message: String, text: &str, path: &Path) -> Self {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self::Wrong {
            path: path.into(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
            excerpt: text[line_start..].lines().next().unwrap_or("").to_owned(),
        }
    }
}
