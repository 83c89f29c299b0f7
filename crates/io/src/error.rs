//! What can be wrong with a capture file, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::link_type::SUPPORTED_LINK_TYPES;
use crate::{MAX_INTERFACES, MAX_RECORD_BYTES, MAX_WRITTEN_FRAME_BYTES};

/// Why a capture could not be read or written. Every variant names the file.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The file cannot be opened for reading.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The capture file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file begins with bytes of no known capture format.
    #[error(
        "{} is not a capture: it begins with {}, expected pcap (a1b2c3d4 or a1b23c4d in either byte order), \
         pcapng (0a0d0d0a) or gzip (1f8b) of one of these",
        path.display(), Hex(found)
    )]
    NotACapture {
        /// The file.
        path: PathBuf,
        /// Its first bytes (after decompression), at most four.
        found: Vec<u8>,
    },
    /// The packets have a link type that cannot be turned into Ethernet.
    #[error("{}: link type {link_type} ({place}) is not supported; supported are {SUPPORTED_LINK_TYPES}", path.display())]
    UnsupportedLinkType {
        /// The capture file.
        path: PathBuf,
        /// The LINKTYPE number from the file.
        link_type: u32,
        /// The file header (pcap) or the first packet of that kind (pcapng).
        place: Location,
    },
    /// The file ends in the middle of a record.
    #[error("{} is truncated: the file ends within {place}", path.display())]
    Truncated {
        /// The capture file.
        path: PathBuf,
        /// The record that is incomplete.
        place: Location,
    },
    /// A record contradicts itself.
    #[error("{} is malformed at {place}: {problem}", path.display())]
    Malformed {
        /// The capture file.
        path: PathBuf,
        /// The record that is wrong.
        place: Location,
        /// What is wrong with it.
        problem: Malformation,
    },
    /// Reading failed, or the gzip stream is corrupt.
    #[error("cannot read {} at {place}: {source}", path.display())]
    Read {
        /// The capture file.
        path: PathBuf,
        /// The record being read.
        place: Location,
        /// What the operating system or the decompressor said.
        source: io::Error,
    },
    /// A file of that name, or its temporary file, cannot be created.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// The capture file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Writing, flushing or renaming failed.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The capture file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The frame is longer than [`MAX_WRITTEN_FRAME_BYTES`].
    #[error("{}: a frame of {frame_len} bytes is too long to write, at most {MAX_WRITTEN_FRAME_BYTES}", path.display())]
    FrameTooLong {
        /// The capture file.
        path: PathBuf,
        /// The frame's length in bytes.
        frame_len: usize,
    },
    /// The timestamp lies after the last second a pcap file can name (2106).
    #[error("{}: timestamp {timestamp_ns} ns does not fit a pcap file", path.display())]
    TimestampTooLate {
        /// The capture file.
        path: PathBuf,
        /// The timestamp in nanoseconds since 1970.
        timestamp_ns: u64,
    },
    /// A frame of an interface that the file being written does not have.
    #[error("{}: a frame of interface {interface} cannot be written, the file has {interfaces}", path.display())]
    NoSuchInterface {
        /// The capture file, or the pattern of several.
        path: PathBuf,
        /// The interface's number, from 0.
        interface: u32,
        /// How many interfaces the file has.
        interfaces: usize,
    },
    /// More interfaces than a reader of the file would keep.
    #[error("{}: {interfaces} interfaces are too many, at most {MAX_INTERFACES}", path.display())]
    TooManyInterfaces {
        /// The capture file.
        path: PathBuf,
        /// How many interfaces it was to have.
        interfaces: usize,
    },
    /// An interface's or port's name that cannot stand in the file or its name.
    #[error("{}: the interface name {name:?} {problem}", path.display())]
    InterfaceName {
        /// The capture file, or the pattern of several.
        path: PathBuf,
        /// The name, its beginning if it is too long.
        name: String,
        /// What is wrong with it.
        problem: NameProblem,
    },
    /// The capture needs more memory than the caller allowed.
    #[error("{} does not fit in memory: its frames exceed {limit_bytes} bytes", path.display())]
    TraceTooLarge {
        /// The capture file.
        path: PathBuf,
        /// The limit on frame bytes.
        limit_bytes: usize,
    },
}

/// What is wrong with an interface's name.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NameProblem {
    /// Longer than the format can say.
    #[error("is longer than 65535 bytes")]
    TooLong,
    /// Nothing, a folder, or with what separates folders.
    #[error("cannot be part of a file's name")]
    FileName,
    /// Two ports would write the same file.
    #[error("is given twice")]
    Twice,
}

/// Where in a capture file something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The packet's number, from 1; 0 is the file header. In a pcapng file a
    /// block without a packet counts as part of the packet after it.
    pub record: u64,
    /// Offset of the record's first byte, in the decompressed file.
    pub offset: u64,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.record {
            0 => write!(f, "the file header (byte {})", self.offset),
            record => write!(f, "record {record} (byte {})", self.offset),
        }
    }
}

/// How a record contradicts itself or the format.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Malformation {
    /// A length above [`MAX_RECORD_BYTES`].
    #[error("a record of {claimed} bytes is longer than the limit of {MAX_RECORD_BYTES}")]
    RecordTooLong {
        /// The length in the file.
        claimed: u64,
    },
    /// A pcapng block whose length is too short for its kind or not a multiple of four.
    #[error("a block cannot be {length} bytes long")]
    BlockLength {
        /// The length in the file.
        length: u32,
    },
    /// The length at the end of a pcapng block differs from that at its start.
    #[error("the block says {first} bytes at its start and {last} at its end")]
    BlockLengthsDiffer {
        /// The length at its start.
        first: u32,
        /// The length at its end.
        last: u32,
    },
    /// A pcapng section header without a valid byte order, or of another version.
    #[error("the section header is not one of pcapng version 1")]
    SectionHeader,
    /// A pcapng interface description that cannot be decoded.
    #[error("the interface description cannot be decoded")]
    InterfaceDescription,
    /// A packet that names an interface which the section has not described.
    #[error("the packet is of interface {interface}, but only {described} are described before it")]
    UnknownInterface {
        /// The interface's number in the section, from 0.
        interface: u32,
        /// How many interfaces the section has described.
        described: usize,
    },
    /// More interfaces in a file than the reader keeps.
    #[error("the file describes more than {limit} interfaces")]
    TooManyInterfaces {
        /// The limit.
        limit: usize,
    },
    /// The packet's length exceeds that of the block around it.
    #[error("a packet of {captured} bytes does not fit its block")]
    PacketExceedsBlock {
        /// The packet's length in the file.
        captured: u32,
    },
    /// A packet that came later than anybody counts: whoever replays it would have to wait until then.
    #[error("the packet's time is {years} years after 1970, later than the limit of {MAX_YEARS}")]
    TooLate {
        /// How many years after 1970.
        years: u64,
    },
    /// A header that the decoder refuses for any other reason.
    #[error("the header cannot be decoded")]
    Header,
}

/// Nanoseconds of a year, leap days included.
const NS_PER_YEAR: u64 = 31_556_952_000_000_000;

/// Times that fit in a signed number of nanoseconds are taken.
const MAX_YEARS: u64 = i64::MAX.unsigned_abs() / NS_PER_YEAR;

impl Malformation {
    /// What is wrong with this time, in nanoseconds since 1970, if anything is.
    pub(crate) const fn of_time(timestamp_ns: u64) -> Option<Self> {
        match timestamp_ns > i64::MAX.unsigned_abs() {
            true => Some(Self::TooLate {
                years: timestamp_ns / NS_PER_YEAR,
            }),
            false => None,
        }
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing (it is empty)");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A failure before it is known in which file and record.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(io::Error),
    Truncated,
    LinkType(u32),
    Malformed(Malformation),
    NotACapture(Vec<u8>),
}

impl From<Malformation> for Fault {
    fn from(problem: Malformation) -> Self {
        Fault::Malformed(problem)
    }
}

impl Fault {
    pub(crate) fn at(self, path: PathBuf, place: Location) -> CaptureError {
        match self {
            Fault::Io(source) => CaptureError::Read {
                path,
                place,
                source,
            },
            Fault::Truncated => CaptureError::Truncated { path, place },
            Fault::LinkType(link_type) => CaptureError::UnsupportedLinkType {
                path,
                link_type,
                place,
            },
            Fault::Malformed(problem) => CaptureError::Malformed {
                path,
                place,
                problem,
            },
            Fault::NotACapture(found) => CaptureError::NotACapture { path, found },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_file_record_and_byte() {
        let place = Location {
            record: 7,
            offset: 1234,
        };
        let text = Fault::Truncated.at("a.pcap".into(), place).to_string();
        assert_eq!(
            text,
            "a.pcap is truncated: the file ends within record 7 (byte 1234)"
        );
    }

    #[test]
    fn an_unsupported_link_type_says_what_is_supported() {
        let place = Location {
            record: 0,
            offset: 0,
        };
        let text = Fault::LinkType(195).at("a.pcap".into(), place).to_string();
        assert!(
            text.starts_with("a.pcap: link type 195 (the file header (byte 0)) is not supported"),
            "{text}"
        );
        for number in [
            "1 ", "101", "12", "14", "228", "229", "0 ", "108", "113", "276",
        ] {
            assert!(text.contains(number), "{number} missing in {text}");
        }
    }

    #[test]
    fn nonsense_says_what_was_expected() {
        let place = Location {
            record: 0,
            offset: 0,
        };
        let text = Fault::NotACapture(b"GIF8".to_vec())
            .at("a.gif".into(), place)
            .to_string();
        assert!(
            text.contains("begins with 47494638") && text.contains("expected pcap"),
            "{text}"
        );
        let empty = Fault::NotACapture(vec![]).at("a".into(), place).to_string();
        assert!(empty.contains("it is empty"), "{empty}");
    }
}
