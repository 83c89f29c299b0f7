//! Packets that can be gone through more than once: to compare them, and to look again at those
//! that differ.

use std::convert::Infallible;
use std::path::Path;
use twinpath_io::{CaptureError, CaptureReader, MAX_RECORD_BYTES, Next};

/// Room for the longest record and an Ethernet header in front of it.
const LONGEST_FRAME_BYTES: usize = MAX_RECORD_BYTES + 14;

/// A capture, in a file or in memory.
pub(crate) trait Packets {
    /// Why it cannot be read.
    type Error;

    /// Shows each packet, with its timestamp in nanoseconds, until `see` has seen enough and says
    /// `false`.
    fn walk(&self, see: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), Self::Error>;

    /// The packet with this number, counted from 1, and its timestamp; empty if it is not there.
    fn pick(&self, number: u64) -> Result<(u64, Vec<u8>), Self::Error> {
        let (mut before, mut found) = (0, (0, Vec::new()));
        self.walk(&mut |timestamp_ns, frame| {
            before += 1;
            if before == number {
                found = (timestamp_ns, frame.to_vec());
            }
            before < number
        })?;
        Ok(found)
    }
}

/// Packets in memory.
pub(crate) struct InMemory<I>(pub I);

impl<'p, I: Iterator<Item = (u64, &'p [u8])> + Clone> Packets for InMemory<I> {
    type Error = Infallible;

    fn walk(&self, see: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), Infallible> {
        self.0
            .clone()
            .all(|(timestamp_ns, frame)| see(timestamp_ns, frame));
        Ok(())
    }
}

/// A capture in a file.
pub(crate) struct InFile<'p>(pub &'p Path);

impl Packets for InFile<'_> {
    type Error = CaptureError;

    fn walk(&self, see: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), CaptureError> {
        let mut reader = CaptureReader::open(self.0)?;
        let mut buffer = vec![0; LONGEST_FRAME_BYTES];
        while let Next::Frame(record) = reader.next_into(&mut buffer)? {
            let frame = buffer.get(..record.captured_len).unwrap_or(&[]);
            if !see(record.timestamp_ns, frame) {
                break;
            }
        }
        Ok(())
    }
}
