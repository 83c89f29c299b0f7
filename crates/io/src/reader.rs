//! Reads a capture file of any supported format as Ethernet frames.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{CaptureError, Fault, Location, Malformation};
use crate::interface::Interface;
use crate::pcap::{PcapFormat, RawRecord};
use crate::pcapng::PcapngFormat;
use crate::source::Source;
use crate::standard::is_standard;
use crate::window::Window;

const MAGIC_LEN: usize = 4;
const PCAPNG_MAGIC: [u8; MAGIC_LEN] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Microseconds, nanoseconds, and the variant with longer record headers.
const PCAP_MAGICS: [u32; 5] = [
    0xa1b2_c3d4,
    0xd4c3_b2a1,
    0xa1b2_3c4d,
    0x4d3c_b2a1,
    0xa1b2_cd34,
];

/// A capture file open for reading, pcap or pcapng, gzipped or not.
///
/// Packets of other link types than Ethernet come with a synthesised Ethernet
/// header of 14 bytes: zero addresses (the sender's where a Linux cooked
/// header names it) and the EtherType of the payload, `0xffff` if it cannot be
/// told. Lengths are those of the frame with that header.
pub struct CaptureReader {
    path: PathBuf,
    window: Window,
    format: Format,
    bytes_total: u64,
    records: u64,
    /// A record that lies in the window and was looked at before its turn.
    ahead: Option<RawRecord>,
    ended: bool,
    /// Whether packets that left are skipped.
    takes_arrivals: bool,
    /// How many were.
    departures: u64,
}

/// What a call of [`CaptureReader::next_into`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A frame, copied to the front of the buffer.
    Frame(Record),
    /// A frame longer than the buffer, skipped: `captured_len > buffer.len()`.
    Oversized(Record),
    /// The capture's end, or any call after an error.
    End,
}

/// A frame's interface, its place in time and its lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The interface that the frame came from, by its place in
    /// [`CaptureReader::interfaces`]: the interface id of a pcapng file, 0 for a pcap.
    pub interface: u32,
    /// Nanoseconds since 1970. A pcapng packet without a timestamp has that of
    /// the packet before it.
    pub timestamp_ns: u64,
    /// Bytes of the frame that the capture holds.
    pub captured_len: usize,
    /// Bytes the frame had on the wire, never below `captured_len`.
    pub original_len: usize,
}

impl CaptureReader {
    /// Opens the capture at `path`, `-` for standard input, and reads its header.
    ///
    /// # Errors
    /// [`CaptureError::Open`] and [`CaptureError::Read`] from the operating
    /// system, [`CaptureError::NotACapture`] for any other file, and
    /// [`CaptureError::UnsupportedLinkType`], [`CaptureError::Truncated`] or
    /// [`CaptureError::Malformed`] for its header.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let cannot_open = |source| CaptureError::Open {
            path: path.to_owned(),
            source,
        };
        if is_standard(path) {
            return Self::from_source("standard input", Box::new(std::io::stdin()), 0);
        }
        let file = File::open(path).map_err(cannot_open)?;
        let bytes_total = file.metadata().map_err(cannot_open)?.len();
        Self::from_source(path, Box::new(file), bytes_total)
    }

    /// Reads a capture from any stream of bytes. `name` stands for the path in
    /// errors; `bytes_total` is the stream's length, 0 if it is not known.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_source(
        name: impl Into<PathBuf>,
        source: Box<dyn Read + Send>,
        bytes_total: u64,
    ) -> Result<Self, CaptureError> {
        let path = name.into();
        let start = Location {
            record: 0,
            offset: 0,
        };
        let source = match Source::sniff(source) {
            Ok(source) => source,
            Err(error) => return Err(Fault::Io(error).at(path, start)),
        };
        let mut window = Window::new(source);
        match Format::start(&mut window) {
            Ok(format) => Ok(Self {
                path,
                window,
                format,
                bytes_total,
                records: 0,
                ahead: None,
                ended: false,
                takes_arrivals: false,
                departures: 0,
            }),
            Err(fault) => Err(fault.at(path, start)),
        }
    }

    /// The same capture without the packets that it marks as outbound: they left, and did not come.
    #[must_use]
    pub fn arrivals(self) -> Self {
        Self {
            takes_arrivals: true,
            ..self
        }
    }

    /// How many packets were skipped so far because they left; none unless only
    /// [arrivals](Self::arrivals) are taken.
    pub fn departures(&self) -> u64 {
        self.departures
    }

    /// Copies the next frame to the front of `buffer`.
    ///
    /// # Errors
    /// [`CaptureError::Truncated`], [`CaptureError::Malformed`],
    /// [`CaptureError::UnsupportedLinkType`] or [`CaptureError::Read`], after
    /// every frame before the fault was delivered. There is no way past an
    /// error: further calls return [`Next::End`].
    pub fn next_into(&mut self, buffer: &mut [u8]) -> Result<Next, CaptureError> {
        let next = match self.ahead.take() {
            Some(raw) => Some(raw),
            None => self.read_record()?,
        };
        Ok(next.map_or(Next::End, |raw| self.deliver(&raw, buffer)))
    }

    /// The interfaces that the file has described so far. In a pcapng file more may be described
    /// between any two records; a pcap file has one, without a name.
    ///
    /// Numbers run through a pcapng file of several sections: an interface that a later section
    /// describes at the same place with the same name, link type and resolution is the same
    /// interface, any other gets the next number.
    pub fn interfaces(&self) -> &[Interface] {
        self.format.interfaces()
    }

    /// Reads on to the first record, without taking it, and gives the interfaces described up to
    /// there: all of them in most files.
    ///
    /// # Errors
    /// As [`Self::next_into`].
    pub fn read_interfaces(&mut self) -> Result<&[Interface], CaptureError> {
        self.next_timestamp_ns()?;
        Ok(self.interfaces())
    }

    /// The timestamp of the next record, which is not taken; none at the end.
    pub(crate) fn next_timestamp_ns(&mut self) -> Result<Option<u64>, CaptureError> {
        if self.ahead.is_none() {
            self.ahead = self.read_record()?;
        }
        Ok(self.ahead.as_ref().map(|raw| raw.timestamp_ns))
    }

    /// Bytes taken from the file so far, compressed ones for gzip. Runs ahead
    /// of the frames by up to a buffer's length and ends at
    /// [`Self::bytes_total`].
    pub fn bytes_read(&self) -> u64 {
        self.window.bytes_read()
    }

    /// The file's length in bytes, compressed for gzip; 0 for a pipe.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// The next record, whole in the window; none at the end and after an error.
    fn read_record(&mut self) -> Result<Option<RawRecord>, CaptureError> {
        if self.ended {
            return Ok(None);
        }
        let mut next = self.format.next(&mut self.window);
        while let Ok(Some(raw)) = &next
            && self.takes_arrivals
            && raw.is_outbound
        {
            self.window.consume(raw.record_len);
            self.records += 1;
            self.departures += 1;
            next = self.format.next(&mut self.window);
        }
        if let Ok(Some(raw)) = &next
            && let Some(problem) = Malformation::of_time(raw.timestamp_ns)
        {
            next = Err(Fault::Malformed(problem));
        }
        self.ended = !matches!(next, Ok(Some(_)));
        next.map_err(|fault| fault.at(self.path.clone(), self.next_place()))
    }

    fn deliver(&mut self, raw: &RawRecord, buffer: &mut [u8]) -> Next {
        self.records += 1;
        let packet = self
            .window
            .data()
            .get(raw.packet.clone())
            .unwrap_or_default();
        let framing = raw.link_type.framing(packet);
        let record = Record {
            interface: raw.interface,
            timestamp_ns: raw.timestamp_ns,
            captured_len: framing.framed_len(packet.len()),
            original_len: framing.framed_len(raw.original_len.max(packet.len())),
        };
        let fits = record.captured_len <= buffer.len();
        if fits {
            framing.copy(packet, buffer);
        }
        self.window.consume(raw.record_len);
        if fits {
            Next::Frame(record)
        } else {
            Next::Oversized(record)
        }
    }

    fn next_place(&self) -> Location {
        Location {
            record: self.records + 1,
            offset: self.window.offset(),
        }
    }
}

enum Format {
    Pcap(PcapFormat),
    Pcapng(PcapngFormat),
}

impl Format {
    fn start(window: &mut Window) -> Result<Self, Fault> {
        window.fill(MAGIC_LEN)?;
        match window.data().first_chunk() {
            Some(&PCAPNG_MAGIC) => PcapngFormat::start(window).map(Format::Pcapng),
            Some(magic) if PCAP_MAGICS.contains(&u32::from_le_bytes(*magic)) => {
                PcapFormat::start(window).map(Format::Pcap)
            }
            _ => Err(Fault::NotACapture(window.head(MAGIC_LEN).to_vec())),
        }
    }

    fn interfaces(&self) -> &[Interface] {
        match self {
            Format::Pcap(format) => format.interfaces(),
            Format::Pcapng(format) => format.interfaces(),
        }
    }

    fn next(&mut self, window: &mut Window) -> Result<Option<RawRecord>, Fault> {
        match self {
            Format::Pcap(format) => format.next(window),
            Format::Pcapng(format) => format.next(window),
        }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
