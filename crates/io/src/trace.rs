//! A capture held in memory, frames back to back.

use std::path::Path;

use crate::error::CaptureError;
use crate::reader::{CaptureReader, Next};
use crate::writer::FrameSink;
use crate::{MAX_RECORD_BYTES, link_type::ETHERNET_HEADER_LEN};

/// What [`Trace::load`] allows, in bytes of frames.
const DEFAULT_LIMIT_BYTES: usize = 4 << 30;

/// Ethernet frames in memory, one after the other in a single allocation, so
/// that going through them touches memory in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// A frame of a [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFrame<'a> {
    /// The interface that the frame came from or leaves by.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub timestamp_ns: u64,
    /// The Ethernet frame.
    pub frame: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    interface: u32,
    timestamp_ns: u64,
    end: usize,
}

impl Trace {
    /// A trace without frames.
    pub fn new() -> Self {
        Self::default()
    }

    /// Loads every frame of a capture, as [`CaptureReader`] gives them, up to
    /// 4 GiB.
    ///
    /// # Errors
    /// Those of [`CaptureReader`], and [`CaptureError::TraceTooLarge`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        Self::load_at_most(path, DEFAULT_LIMIT_BYTES)
    }

    /// Like [`Self::load`], for frames of at most `limit_bytes` altogether.
    ///
    /// # Errors
    /// Those of [`CaptureReader`], and [`CaptureError::TraceTooLarge`].
    pub fn load_at_most(path: impl AsRef<Path>, limit_bytes: usize) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let mut reader = CaptureReader::open(path)?;
        let mut buffer = vec![0; MAX_RECORD_BYTES + ETHERNET_HEADER_LEN];
        let mut trace = Self::new();
        while let Next::Frame(record) = reader.next_into(&mut buffer)? {
            if record.captured_len > limit_bytes.saturating_sub(trace.bytes()) {
                return Err(CaptureError::TraceTooLarge {
                    path: path.to_owned(),
                    limit_bytes,
                });
            }
            let frame = &buffer[..record.captured_len];
            trace.push_on(record.interface, record.timestamp_ns, frame);
        }
        Ok(trace)
    }

    /// Appends a frame of interface 0, stamped in nanoseconds since 1970.
    pub fn push(&mut self, timestamp_ns: u64, frame: &[u8]) {
        self.push_on(0, timestamp_ns, frame);
    }

    /// Appends a frame of an interface, stamped in nanoseconds since 1970.
    pub fn push_on(&mut self, interface: u32, timestamp_ns: u64, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.entries.push(Entry {
            interface,
            timestamp_ns,
            end: self.bytes.len(),
        });
    }

    /// The frames in the order in which they were pushed.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = TraceFrame<'_>> + Clone {
        let mut start = 0;
        self.entries.iter().map(move |entry| {
            let frame = self.frame(start, entry);
            start = entry.end;
            frame
        })
    }

    /// The frame at `index`, counted from 0.
    pub fn at(&self, index: usize) -> Option<TraceFrame<'_>> {
        let entry = self.entries.get(index)?;
        let start = index
            .checked_sub(1)
            .map_or(0, |before| self.entries[before].end);
        Some(self.frame(start, entry))
    }

    fn frame(&self, start: usize, entry: &Entry) -> TraceFrame<'_> {
        TraceFrame {
            interface: entry.interface,
            timestamp_ns: entry.timestamp_ns,
            frame: &self.bytes[start..entry.end],
        }
    }

    /// Number of frames.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all frames together.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl FrameSink for Trace {
    type Finished = Self;

    fn write_on(
        &mut self,
        interface: u32,
        timestamp_ns: u64,
        frame: &[u8],
    ) -> Result<(), CaptureError> {
        self.push_on(interface, timestamp_ns, frame);
        Ok(())
    }

    fn finish(self) -> Result<Self, CaptureError> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Packet, PcapFile};

    #[test]
    fn frames_come_back_in_order_and_whole() {
        let frames = [(5, &b"first"[..]), (3, b""), (9, b"third frame")];
        let mut trace = Trace::new();
        assert!(trace.is_empty());
        frames
            .iter()
            .for_each(|(timestamp_ns, frame)| trace.push(*timestamp_ns, frame));
        let back: Vec<(u64, &[u8])> = trace
            .iter()
            .map(|entry| (entry.timestamp_ns, entry.frame))
            .collect();
        assert_eq!(back, frames);
        assert_eq!(
            (trace.len(), trace.bytes(), trace.is_empty()),
            (3, 16, false)
        );
    }

    #[test]
    fn frames_keep_their_interface() {
        let mut trace = Trace::new();
        trace.push(1, b"a");
        trace.push_on(7, 2, b"b");
        let interfaces: Vec<u32> = trace.iter().map(|entry| entry.interface).collect();
        assert_eq!(interfaces, [0, 7]);
        assert_eq!(trace.at(1).unwrap().interface, 7);
    }

    #[test]
    fn loads_up_to_its_limit_and_no_further() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        let packet = |fill: u8| Packet {
            timestamp_ns: u64::from(fill),
            bytes: vec![fill; 60],
            original_len: 60,
        };
        std::fs::write(&path, PcapFile::default().bytes(&[packet(1), packet(2)])).unwrap();
        let trace = Trace::load_at_most(&path, 120).unwrap();
        assert_eq!((trace.len(), trace.bytes()), (2, 120));
        assert_eq!(
            trace.iter().nth(1).unwrap(),
            TraceFrame {
                interface: 0,
                timestamp_ns: 2,
                frame: &[2; 60]
            }
        );
        assert_eq!(Trace::load(&path).unwrap(), trace);
        let error = Trace::load_at_most(&path, 119).unwrap_err();
        assert!(
            matches!(
                error,
                CaptureError::TraceTooLarge {
                    limit_bytes: 119,
                    ..
                }
            ),
            "{error}"
        );
    }
}
