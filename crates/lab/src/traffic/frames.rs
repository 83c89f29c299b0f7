//! Frames of flows that are no more than a number.

use crate::model::ParameterError;
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, layout::Layout, rewrite};

/// What a frame takes of a wire besides its own bytes: preamble, gap and checksum.
pub(super) const WIRE_BYTES: f64 = 24.0;

/// Headers of a UDP packet.
const HEADERS: usize = 14 + 20 + 8;

/// The flows' common destination: what plans' balancers have their service at.
pub(crate) const SERVICE: ([u8; 4], u16) = ([192, 0, 2, 10], 53);

/// A UDP packet that is every flow's but for its source.
pub(super) struct Template {
    bytes: Vec<u8>,
    layout: Layout,
}

impl Template {
    /// A packet of this length.
    pub(super) fn new(frame_bytes: usize) -> Result<Self, ParameterError> {
        check_length(frame_bytes)?;
        let wrong = || ParameterError::new("frame_bytes", "cannot be built");
        let payload = vec![0; frame_bytes.saturating_sub(HEADERS)];
        let (to, port) = SERVICE;
        let packet = PacketBuilder::udp(source(0), Endpoint::v4(to, port)).payload(&payload);
        let bytes = packet.to_vec().map_err(|_| wrong())?;
        let layout = dissect(&bytes).map_err(|_| wrong())?;
        Ok(Self { bytes, layout })
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Writes a packet of this flow to the start of the buffer.
    pub(super) fn write(&self, flow: u64, buffer: &mut [u8]) {
        let Some(place) = buffer.get_mut(..self.bytes.len()) else {
            return;
        };
        place.copy_from_slice(&self.bytes);
        rewrite::set_source(place, &self.layout, source(flow)).expect("both are IPv4");
    }
}

/// Whether frames have such a length.
pub(super) fn check_length(frame_bytes: usize) -> Result<(), ParameterError> {
    match (60..=9000).contains(&frame_bytes) {
        true => Ok(()),
        false => Err(ParameterError::new("frame_bytes", "must be 60 to 9000")),
    }
}

/// A host in 10.0.0.0/8 and a port: 2^24 hosts before a port is used again.
fn source(flow: u64) -> Endpoint {
    let [.., a, b, c] = flow.to_be_bytes();
    Endpoint::v4([10, a, b, c], 1024 + (flow >> 24) as u16 % 60_000)
}
