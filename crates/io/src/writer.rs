//! Writes a capture file that appears under its name only when it is whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::MAX_WRITTEN_FRAME_BYTES;
use crate::error::CaptureError;
use dialect::{Dialect, check_names};
use stream::{Stream, has_gzip_name};
use target::Target;

mod dialect;
mod pcap;
pub(crate) mod pcapng;
mod stream;
mod target;

/// Where frames go: a file, a file for each port, or memory.
pub trait FrameSink {
    /// What is left when the last frame is written.
    type Finished;

    /// Writes one Ethernet frame of an interface, stamped in nanoseconds since
    /// 1970.
    ///
    /// # Errors
    /// Whatever keeps the sink from taking the frame.
    fn write_on(
        &mut self,
        interface: u32,
        timestamp_ns: u64,
        frame: &[u8],
    ) -> Result<(), CaptureError>;

    /// Writes one Ethernet frame of the first interface.
    ///
    /// # Errors
    /// Those of [`Self::write_on`].
    fn write(&mut self, timestamp_ns: u64, frame: &[u8]) -> Result<(), CaptureError> {
        self.write_on(0, timestamp_ns, frame)
    }

    /// Whoever reads the output while it is written may have what was written so far.
    ///
    /// # Errors
    /// Whatever keeps the sink from handing it over.
    fn hand_over(&mut self) -> Result<(), CaptureError> {
        Ok(())
    }

    /// Completes the output.
    ///
    /// # Errors
    /// Whatever keeps the sink from completing it.
    fn finish(self) -> Result<Self::Finished, CaptureError>;
}

/// What a finished writer wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenTotals {
    /// Frames written.
    pub frames: u64,
    /// Bytes of these frames, without headers of the file.
    pub bytes: u64,
}

/// A capture file being written, Ethernet with nanoseconds: pcapng if its name
/// ends in `.pcapng`, else classic pcap; gzip if `.gz` follows.
///
/// The frames go to a temporary file in the same folder that
/// [`finish`](Self::finish) renames, so a file of the final name is always
/// complete; dropping the writer instead removes the temporary file. A path
/// that names a device or a pipe is written directly, and so is `-`, which is
/// standard output (`-.pcapng` as pcapng).
#[must_use = "without finish() nothing appears under the file's name"]
pub struct CaptureWriter {
    path: PathBuf,
    temporary: Option<PathBuf>,
    stream: Option<Stream>,
    dialect: Dialect,
    /// Somebody may read it while it is written.
    is_device: bool,
    /// Something was written since it was handed over.
    is_behind: bool,
    totals: WrittenTotals,
}

impl CaptureWriter {
    /// Creates the temporary file and writes the header. A pcapng file has one
    /// interface, without a name.
    ///
    /// # Errors
    /// [`CaptureError::Create`] or [`CaptureError::Write`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        Self::start(path.as_ref(), &[None])
    }

    /// Like [`Self::create`], for frames of several interfaces that are
    /// numbered in the order of their names. A classic pcap cannot say to which
    /// of them a frame belongs, and holds the frames alone.
    ///
    /// # Errors
    /// Those of [`Self::create`], [`CaptureError::InterfaceName`] and
    /// [`CaptureError::TooManyInterfaces`].
    pub fn with_interfaces(
        path: impl AsRef<Path>,
        names: &[impl AsRef<str>],
    ) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let names: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_ref())).collect();
        check_names(path, &names)?;
        Self::start(path, &names)
    }

    fn start(path: &Path, names: &[Option<&str>]) -> Result<Self, CaptureError> {
        let cannot_create = |source| CaptureError::Create {
            path: path.to_owned(),
            source,
        };
        let target = Target::of(path).map_err(cannot_create)?;
        let (file, temporary) = target.open().map_err(cannot_create)?;
        let dialect = Dialect::of_name(path, names.len());
        let mut writer = Self {
            is_device: target.is_device,
            is_behind: false,
            path: target.path,
            temporary,
            stream: Some(Stream::new(file, has_gzip_name(path))),
            dialect,
            totals: WrittenTotals::default(),
        };
        writer.put(&[&dialect.file_header(names)])?;
        Ok(writer)
    }

    /// Appends one frame of the first interface, stamped in nanoseconds since
    /// 1970.
    ///
    /// # Errors
    /// As [`Self::write_on`].
    pub fn write(&mut self, timestamp_ns: u64, frame: &[u8]) -> Result<(), CaptureError> {
        self.write_on(0, timestamp_ns, frame)
    }

    /// Appends one frame of an interface, stamped in nanoseconds since 1970.
    ///
    /// # Errors
    /// [`CaptureError::FrameTooLong`], [`CaptureError::TimestampTooLate`] and
    /// [`CaptureError::NoSuchInterface`] leave the file as it was; after
    /// [`CaptureError::Write`] it is lost.
    pub fn write_on(
        &mut self,
        interface: u32,
        timestamp_ns: u64,
        frame: &[u8],
    ) -> Result<(), CaptureError> {
        let len = self.frame_len(frame)?;
        match self.dialect {
            Dialect::Pcap => self.put_pcap(timestamp_ns, len, frame)?,
            Dialect::Pcapng { interfaces } => {
                self.check_interface(interface, interfaces)?;
                self.put_pcapng(interface, timestamp_ns, len, frame)?;
            }
        }
        self.totals.frames += 1;
        self.totals.bytes += frame.len() as u64;
        Ok(())
    }

    /// Writes what is buffered and gives the file its name.
    ///
    /// # Errors
    /// [`CaptureError::Write`]; then no file of that name has appeared, and one
    /// that was there before is untouched.
    pub fn finish(mut self) -> Result<WrittenTotals, CaptureError> {
        match self.complete() {
            Ok(()) => Ok(self.totals),
            Err(source) => Err(self.cannot_write(source)),
        }
    }

    fn complete(&mut self) -> io::Result<()> {
        let Some(stream) = self.stream.take() else {
            return Ok(());
        };
        let file = stream.into_file()?;
        if let Some(temporary) = &self.temporary {
            file.sync_all()?;
            fs::rename(temporary, &self.path)?;
            self.temporary = None;
        }
        Ok(())
    }

    fn frame_len(&self, frame: &[u8]) -> Result<u32, CaptureError> {
        match u32::try_from(frame.len()) {
            Ok(len) if frame.len() <= MAX_WRITTEN_FRAME_BYTES => Ok(len),
            _ => Err(CaptureError::FrameTooLong {
                path: self.path.clone(),
                frame_len: frame.len(),
            }),
        }
    }

    fn check_interface(&self, interface: u32, interfaces: u32) -> Result<(), CaptureError> {
        if interface < interfaces {
            return Ok(());
        }
        Err(CaptureError::NoSuchInterface {
            path: self.path.clone(),
            interface,
            interfaces: interfaces as usize,
        })
    }

    fn put_pcap(&mut self, timestamp_ns: u64, len: u32, frame: &[u8]) -> Result<(), CaptureError> {
        let Some(header) = pcap::record_header(timestamp_ns, len) else {
            return Err(CaptureError::TimestampTooLate {
                path: self.path.clone(),
                timestamp_ns,
            });
        };
        self.put(&[&header, frame])
    }

    fn put_pcapng(
        &mut self,
        interface: u32,
        timestamp_ns: u64,
        len: u32,
        frame: &[u8],
    ) -> Result<(), CaptureError> {
        let head = pcapng::packet_head(interface, timestamp_ns, len);
        let (padding, trailer) = pcapng::packet_tail(len);
        self.put(&[&head, frame, padding, &trailer])
    }

    fn hand_over(&mut self) -> Result<(), CaptureError> {
        if !(self.is_device && self.is_behind) {
            return Ok(());
        }
        self.is_behind = false;
        let flushed = self.stream.as_mut().map_or(Ok(()), Stream::flush);
        flushed.map_err(|source| self.cannot_write(source))
    }

    fn put(&mut self, parts: &[&[u8]]) -> Result<(), CaptureError> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        self.is_behind = true;
        let written = parts.iter().try_for_each(|part| stream.write_all(part));
        written.map_err(|source| self.cannot_write(source))
    }

    fn cannot_write(&self, source: io::Error) -> CaptureError {
        CaptureError::Write {
            path: self.path.clone(),
            source,
        }
    }
}

impl FrameSink for CaptureWriter {
    type Finished = WrittenTotals;

    fn write_on(
        &mut self,
        interface: u32,
        timestamp_ns: u64,
        frame: &[u8],
    ) -> Result<(), CaptureError> {
        CaptureWriter::write_on(self, interface, timestamp_ns, frame)
    }

    fn hand_over(&mut self) -> Result<(), CaptureError> {
        CaptureWriter::hand_over(self)
    }

    fn finish(self) -> Result<WrittenTotals, CaptureError> {
        CaptureWriter::finish(self)
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // Nobody is left to tell if this fails, and the name says what it is.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn little_endian<const WORDS: usize, const BYTES: usize>(words: [u32; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests;
