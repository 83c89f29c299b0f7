//! Writes a capture file that appears under its name only when it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::{Compression, write::GzEncoder};

use crate::MAX_WRITTEN_FRAME_BYTES;
use crate::error::CaptureError;

const NANOSECOND_MAGIC: u32 = 0xa1b2_3c4d;
const LINK_TYPE_ETHERNET: u32 = 1;
const NS_PER_S: u64 = 1_000_000_000;
const BUFFER_BYTES: usize = 256 << 10;

/// Other writers of the same file at the same time that are put up with.
const MAX_TEMPORARY_NAMES: u32 = 16;

/// Where frames go: a file, memory, or an [`OrderedWriter`](crate::OrderedWriter)
/// before one of these.
pub trait FrameSink {
    /// What is left when the last frame is written.
    type Finished;

    /// Writes one Ethernet frame, stamped in nanoseconds since 1970.
    ///
    /// # Errors
    /// Whatever keeps the sink from taking the frame.
    fn write(&mut self, timestamp_ns: u64, frame: &[u8]) -> Result<(), CaptureError>;

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

/// A pcap file being written: nanoseconds, Ethernet, gzip if its name ends in
/// `.gz`.
///
/// The frames go to a temporary file in the same folder that
/// [`finish`](Self::finish) renames, so a file of the final name is always
/// complete; dropping the writer instead removes the temporary file. A path
/// that names a device or a pipe is written directly.
#[must_use = "without finish() nothing appears under the file's name"]
pub struct CaptureWriter {
    path: PathBuf,
    temporary: Option<PathBuf>,
    sink: Option<Sink>,
    totals: WrittenTotals,
}

impl CaptureWriter {
    /// Creates the temporary file and writes the header.
    ///
    /// # Errors
    /// [`CaptureError::Create`] or [`CaptureError::Write`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let cannot_create = |source| CaptureError::Create {
            path: path.to_owned(),
            source,
        };
        let target = Target::of(path).map_err(cannot_create)?;
        let (file, temporary) = target.open().map_err(cannot_create)?;
        let sink = Sink::new(file, has_gzip_name(path));
        let mut writer = Self {
            path: target.path,
            temporary,
            sink: Some(sink),
            totals: WrittenTotals::default(),
        };
        writer.put(&file_header(), &[])?;
        Ok(writer)
    }

    /// Appends one frame, stamped in nanoseconds since 1970.
    ///
    /// # Errors
    /// [`CaptureError::FrameTooLong`] and [`CaptureError::TimestampTooLate`]
    /// leave the file as it was; after [`CaptureError::Write`] it is lost.
    pub fn write(&mut self, timestamp_ns: u64, frame: &[u8]) -> Result<(), CaptureError> {
        let header = self.record_header(timestamp_ns, frame)?;
        self.put(&header, frame)?;
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
        let Some(sink) = self.sink.take() else {
            return Ok(());
        };
        let file = sink.into_file()?;
        if let Some(temporary) = &self.temporary {
            file.sync_all()?;
            fs::rename(temporary, &self.path)?;
            self.temporary = None;
        }
        Ok(())
    }

    fn record_header(&self, timestamp_ns: u64, frame: &[u8]) -> Result<[u8; 16], CaptureError> {
        let Ok(seconds) = u32::try_from(timestamp_ns / NS_PER_S) else {
            return Err(CaptureError::TimestampTooLate {
                path: self.path.clone(),
                timestamp_ns,
            });
        };
        let length = match u32::try_from(frame.len()) {
            Ok(length) if frame.len() <= MAX_WRITTEN_FRAME_BYTES => length,
            _ => {
                return Err(CaptureError::FrameTooLong {
                    path: self.path.clone(),
                    frame_len: frame.len(),
                });
            }
        };
        let nanoseconds = (timestamp_ns % NS_PER_S) as u32;
        Ok(little_endian([seconds, nanoseconds, length, length]))
    }

    fn put(&mut self, header: &[u8], frame: &[u8]) -> Result<(), CaptureError> {
        let Some(sink) = &mut self.sink else {
            return Ok(());
        };
        let written = sink.write_all(header).and_then(|()| sink.write_all(frame));
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

    fn write(&mut self, timestamp_ns: u64, frame: &[u8]) -> Result<(), CaptureError> {
        CaptureWriter::write(self, timestamp_ns, frame)
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

/// The file to be replaced or created, or the device to be written to.
struct Target {
    path: PathBuf,
    is_device: bool,
}

impl Target {
    /// Follows links, which a rename would replace.
    fn of(path: &Path) -> io::Result<Self> {
        match fs::canonicalize(path) {
            Ok(path) => {
                let is_device = !fs::metadata(&path)?.is_file();
                Ok(Self { path, is_device })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self {
                path: path.to_owned(),
                is_device: false,
            }),
            Err(error) => Err(error),
        }
    }

    fn open(&self) -> io::Result<(File, Option<PathBuf>)> {
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

fn has_gzip_name(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

fn file_header() -> [u8; 24] {
    let version = 2 | 4 << 16;
    let snap_len = MAX_WRITTEN_FRAME_BYTES as u32;
    little_endian([
        NANOSECOND_MAGIC,
        version,
        0,
        0,
        snap_len,
        LINK_TYPE_ETHERNET,
    ])
}

fn little_endian<const WORDS: usize, const BYTES: usize>(words: [u32; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

enum Sink {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
}

impl Sink {
    fn new(file: File, gzip: bool) -> Self {
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        if gzip {
            // A replay should not wait for the last tenth of compression.
            Sink::Gzip(Box::new(GzEncoder::new(file, Compression::fast())))
        } else {
            Sink::Plain(file)
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(file) => file.write_all(bytes),
            Sink::Gzip(encoder) => encoder.write_all(bytes),
        }
    }

    fn into_file(self) -> io::Result<File> {
        let buffered = match self {
            Sink::Plain(file) => file,
            Sink::Gzip(encoder) => encoder.finish()?,
        };
        buffered
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Packet, PcapFile};
    use crate::{CaptureReader, Next, Trace};

    fn names(folder: &Path) -> Vec<String> {
        let name =
            |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn writes_exactly_a_nanosecond_ethernet_pcap() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        let packets = [
            Packet {
                timestamp_ns: 1_700_000_000_123_456_789,
                bytes: vec![1; 60],
                original_len: 60,
            },
            Packet {
                timestamp_ns: 1_700_000_000_123_456_790,
                bytes: vec![],
                original_len: 0,
            },
        ];
        let mut writer = CaptureWriter::create(&path).unwrap();
        for packet in &packets {
            writer.write(packet.timestamp_ns, &packet.bytes).unwrap();
        }
        assert_eq!(
            writer.finish().unwrap(),
            WrittenTotals {
                frames: 2,
                bytes: 60
            }
        );
        let mut expected = PcapFile::default().bytes(&packets);
        expected[16..20].copy_from_slice(&262_144_u32.to_le_bytes());
        assert_eq!(fs::read(&path).unwrap(), expected);
    }

    #[test]
    fn a_name_in_gz_gives_gzip_that_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap.GZ");
        let mut writer = CaptureWriter::create(&path).unwrap();
        writer.write(7, &[3; 900]).unwrap();
        writer.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap()[..2], [0x1f, 0x8b]);
        assert_eq!(
            Trace::load(&path).unwrap().iter().next().unwrap().frame,
            [3; 900]
        );
    }

    #[test]
    fn the_name_appears_only_at_finish_and_an_older_file_stays_until_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        fs::write(&path, "older").unwrap();
        let mut writer = CaptureWriter::create(&path).unwrap();
        writer.write(7, &[3; 60]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"older");
        drop(writer);
        assert_eq!(names(folder.path()), ["a.pcap"]);
        assert_eq!(fs::read(&path).unwrap(), b"older");
        CaptureWriter::create(&path).unwrap().finish().unwrap();
        assert_eq!(names(folder.path()), ["a.pcap"]);
        assert_eq!(fs::metadata(&path).unwrap().len(), 24);
    }

    #[test]
    fn two_writers_of_one_name_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        let mut first = CaptureWriter::create(&path).unwrap();
        let mut second = CaptureWriter::create(&path).unwrap();
        first.write(1, &[1; 60]).unwrap();
        second.write(2, &[2; 60]).unwrap();
        first.finish().unwrap();
        second.finish().unwrap();
        assert_eq!(
            Trace::load(&path).unwrap().iter().next().unwrap().frame,
            [2; 60]
        );
        assert_eq!(names(folder.path()), ["a.pcap"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_survive() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (
            folder.path().join("link.pcap"),
            folder.path().join("target.pcap"),
        );
        fs::write(&target, "older").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        CaptureWriter::create(&link).unwrap().finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&target).unwrap().len(), 24);
        let device = folder.path().join("null.pcap");
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        CaptureWriter::create(&device).unwrap().finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn frames_and_times_that_pcap_cannot_hold_are_refused_and_leave_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        let mut writer = CaptureWriter::create(&path).unwrap();
        let long = vec![0; MAX_WRITTEN_FRAME_BYTES + 1];
        assert!(matches!(
            writer.write(1, &long),
            Err(CaptureError::FrameTooLong {
                frame_len: 262_145,
                ..
            })
        ));
        assert!(matches!(
            writer.write(u64::MAX, &[]),
            Err(CaptureError::TimestampTooLate { .. })
        ));
        writer
            .write(u64::from(u32::MAX) * NS_PER_S, &long[1..])
            .unwrap();
        writer.finish().unwrap();
        let mut reader = CaptureReader::open(&path).unwrap();
        let mut buffer = long;
        assert!(
            matches!(reader.next_into(&mut buffer).unwrap(), Next::Frame(record) if record.captured_len == 262_144)
        );
        assert_eq!(reader.next_into(&mut buffer).unwrap(), Next::End);
    }

    #[test]
    fn a_folder_that_is_missing_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = CaptureWriter::create(folder.path().join("no/a.pcap"))
            .err()
            .unwrap();
        assert!(
            matches!(error, CaptureError::Create { .. }) && error.to_string().contains("no/a.pcap")
        );
        assert!(matches!(
            CaptureWriter::create(folder.path()),
            Err(CaptureError::Create { .. })
        ));
    }
}
