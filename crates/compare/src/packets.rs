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

    /// Shows each packet until `see` has seen enough and says `false`. Returns the names of all ports
    /// that packets may have, by number; an empty one for a port without.
    fn walk(
        &self,
        see: &mut dyn FnMut(CapturedPacket<'_>) -> bool,
    ) -> Result<Vec<String>, Self::Error>;

    /// The packet with this number, counted from 1; empty if it is not there.
    fn pick(&self, number: u64) -> Result<Picked, Self::Error> {
        let (mut before, mut found) = (0, Picked::default());
        let ports = self.walk(&mut |seen| {
            before += 1;
            if before == number {
                found.frame = seen.frame.to_vec();
                (found.timestamp_ns, found.port) = (seen.timestamp_ns, seen.port);
            }
            before < number
        })?;
        let name = ports.get(found.port as usize).cloned();
        found.port_name = name.unwrap_or_default();
        Ok(found)
    }
}

/// A packet of a capture.
#[derive(Copy, Clone, Debug)]
pub(crate) struct CapturedPacket<'p> {
    pub timestamp_ns: u64,
    /// The number of the port that it was captured at.
    pub port: u32,
    /// From the Ethernet header on.
    pub frame: &'p [u8],
}

/// A packet that is looked at again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picked {
    pub timestamp_ns: u64,
    port: u32,
    pub port_name: String,
    pub frame: Vec<u8>,
}

/// Packets in memory.
pub(crate) struct InMemory<I>(pub I);

impl<'p, I: Iterator<Item = (u64, &'p [u8])> + Clone> Packets for InMemory<I> {
    type Error = Infallible;

    fn walk(
        &self,
        see: &mut dyn FnMut(CapturedPacket<'_>) -> bool,
    ) -> Result<Vec<String>, Infallible> {
        self.0.clone().all(|(timestamp_ns, frame)| {
            see(CapturedPacket {
                timestamp_ns,
                port: 0,
                frame,
            })
        });
        Ok(Vec::new())
    }
}

/// A capture in a file.
pub(crate) struct InFile<'p>(pub &'p Path);

impl Packets for InFile<'_> {
    type Error = CaptureError;

    fn walk(
        &self,
        see: &mut dyn FnMut(CapturedPacket<'_>) -> bool,
    ) -> Result<Vec<String>, CaptureError> {
        let mut reader = CaptureReader::open(self.0)?;
        let mut buffer = vec![0; LONGEST_FRAME_BYTES];
        while let Next::Frame(record) = reader.next_into(&mut buffer)? {
            let seen = CapturedPacket {
                timestamp_ns: record.timestamp_ns,
                port: record.interface,
                frame: buffer.get(..record.captured_len).unwrap_or(&[]),
            };
            if !see(seen) {
                break;
            }
        }
        let ports = reader.interfaces().iter();
        Ok(ports
            .map(|port| port.name.clone().unwrap_or_default())
            .collect())
    }
}
