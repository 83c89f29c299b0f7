//! The bytes of a file on their way: buffered, and compressed if its name says so.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::{Compression, write::GzEncoder};

const BUFFER_BYTES: usize = 256 << 10;

/// Whether a file of that name is to be gzip.
pub(super) fn has_gzip_name(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

/// A file, or the compressor before it.
pub(super) enum Stream {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
}

impl Stream {
    pub(super) fn new(file: File, gzip: bool) -> Self {
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        if gzip {
            // A replay should not wait for the last tenth of compression.
            Stream::Gzip(Box::new(GzEncoder::new(file, Compression::fast())))
        } else {
            Stream::Plain(file)
        }
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(file) => file.write_all(bytes),
            Stream::Gzip(encoder) => encoder.write_all(bytes),
        }
    }

    /// Writes what is buffered.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(file) => file.flush(),
            Stream::Gzip(encoder) => encoder.flush(),
        }
    }

    /// The file with everything written to it.
    pub(super) fn into_file(self) -> io::Result<File> {
        let buffered = match self {
            Stream::Plain(file) => file,
            Stream::Gzip(encoder) => encoder.finish()?,
        };
        buffered
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
    }
}
