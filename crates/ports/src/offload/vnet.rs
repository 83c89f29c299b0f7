//! The header in front of frames that AF_PACKET and TAP exchange with the kernel
//! (`struct virtio_net_hdr` of linux/virtio_net.h, in the host's byte order).

use super::{TCP_CHECKSUM_AT, checksum_at, complete, cut, partial_checksum, segments_inside};
use crate::PortCounters;
use twinpath_core::wire::dissect;
use twinpath_core::wire::layout::{Network, Transport};
use twinpath_core::{Frame, Pools};

/// Length of the header in bytes.
pub const VNET_BYTES: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const SEGMENTS_NONE: u8 = 0;
const SEGMENTS_TCP4: u8 = 1;
const SEGMENTS_TCP6: u8 = 4;
const SEGMENTS_UDP: u8 = 5;
/// The first of the segments tells that the sender has reduced its window (RFC 3168).
const REDUCES_WINDOW: u8 = 0x80;

/// What a frame that came in is to be cut into, if it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Segments {
    /// Segments of itself, where it leaves; or it is not to be cut.
    Own,
    /// Segments of the packet in the tunnel that it is.
    Inside,
}

impl Segments {
    /// Hands a frame on. What leaves tells the kernel of segments of the outer packet alone, so those of one
    /// inside are made here; of a tunnel that cannot be read none can be.
    pub fn hand_on(
        self,
        frame: Frame,
        pools: &mut Pools,
        burst: &mut Vec<Frame>,
        counters: &mut PortCounters,
    ) {
        let begin = burst.len();
        match self {
            Self::Own => return burst.push(frame),
            Self::Inside => {
                let made = segments_inside(frame, pools, burst);
                counters.receive_no_buffer += u64::from(made.is_err());
            }
        }
        let is_whole = burst[begin..]
            .iter()
            .any(|frame| frame.segment_bytes() != 0);
        if let Some(frame) = burst.pop_if(|_| is_whole) {
            counters.receive_malformed += 1;
            pools.give(frame);
        }
    }
}

/// What is left to be done to a frame.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    flags: u8,
    segments: u8,
    header_bytes: u16,
    segment_bytes: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

impl VnetHeader {
    /// Reads the header.
    pub fn of(bytes: &[u8; VNET_BYTES]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            segments: bytes[1],
            header_bytes: word(2),
            segment_bytes: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }

    /// Writes the header.
    pub fn to_bytes(self) -> [u8; VNET_BYTES] {
        let mut bytes = [0; VNET_BYTES];
        (bytes[0], bytes[1]) = (self.flags, self.segments);
        let words = [
            self.header_bytes,
            self.segment_bytes,
            self.checksum_start,
            self.checksum_offset,
        ];
        for (place, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Does what is left of a frame that came in: its checksum is completed, and the frame
    /// remembers what it is to be cut into. Returns nothing if the header does not fit the frame.
    pub fn accept(self, frame: &mut Frame) -> Option<Segments> {
        let (start, offset) = (self.checksum_start, self.checksum_offset);
        let is_half_made = self.flags & NEEDS_CHECKSUM != 0;
        let mut segments = Segments::Own;
        if self.segments != SEGMENTS_NONE {
            frame.set_segment_bytes(self.segment_bytes);
            // Each segment gets a checksum of its own, so its place tells whose segments they are.
            let outer = dissect(frame.bytes()).map_or(start, |layout| layout.l4);
            if is_half_made && start != outer {
                segments = Segments::Inside;
            }
        }
        let is_sound = !is_half_made || complete(frame.bytes_mut(), start.into(), offset.into());
        is_sound.then_some(segments)
    }

    /// What is left to the kernel of a frame that leaves. If it is to be cut, its checksum becomes a
    /// half-made one: each segment gets its own.
    pub fn leave(frame: &mut Frame) -> Self {
        let Some(layout) = cut(frame) else {
            return Self::default();
        };
        let Some(offset) = checksum_at(layout.transport) else {
            return Self::default();
        };
        let segment_bytes = frame.segment_bytes();
        let bytes = frame.bytes_mut();
        let start = usize::from(layout.l4);
        let partial = partial_checksum(bytes, &layout);
        bytes[start + offset..start + offset + 2].copy_from_slice(&partial.to_be_bytes());
        let segments = match (layout.transport, layout.network) {
            (Transport::Udp, _) => SEGMENTS_UDP,
            (_, Network::V6) => SEGMENTS_TCP6,
            _ => SEGMENTS_TCP4,
        };
        const REDUCED: u8 = 0x80;
        let reduces = offset == TCP_CHECKSUM_AT && bytes[start + 13] & REDUCED != 0;
        Self {
            flags: NEEDS_CHECKSUM,
            segments: segments | if reduces { REDUCES_WINDOW } else { 0 },
            header_bytes: layout.payload,
            segment_bytes,
            checksum_start: layout.l4,
            checksum_offset: offset as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{in_tunnel, packets};
    use super::*;
    use twinpath_core::wire::tunnel::Encapsulation;
    use twinpath_core::wire::verify_transport_checksum;

    #[test]
    fn what_leaves_to_be_cut_comes_in_again_as_it_was() {
        let mut pools = Pools::new(1, 1);
        for packet in packets() {
            let mut frame = pools.take_filled(&packet).expect("room");
            assert_eq!(VnetHeader::leave(&mut frame), VnetHeader::default());
            frame.set_segment_bytes(100);
            let header = VnetHeader::leave(&mut frame);
            assert_eq!(VnetHeader::of(&header.to_bytes()), header);
            assert_ne!(frame.bytes(), packet, "its checksum is half made");
            frame.set_segment_bytes(0);
            assert_eq!(header.accept(&mut frame), Some(Segments::Own));
            assert_eq!(frame.bytes(), packet);
            assert_eq!(frame.segment_bytes(), 100);
            pools.give(frame);
        }
    }

    #[test]
    fn a_header_that_does_not_fit_its_frame_is_refused() {
        let mut frame = Pools::new(1, 1).take_filled(&[0; 60]).expect("room");
        let header = VnetHeader {
            flags: NEEDS_CHECKSUM,
            checksum_start: 60,
            checksum_offset: 16,
            ..VnetHeader::default()
        };
        assert_eq!(header.accept(&mut frame), None);
    }

    /// A header of the kernel's speaks of the packet inside of a tunnel: that one is cut, not the datagram
    /// around it.
    #[test]
    fn segments_of_a_packet_in_a_tunnel_are_made_where_it_comes_in() {
        for packet in packets() {
            let whole = in_tunnel(&packet, Encapsulation::Vxlan);
            let layout = dissect(&packet).expect("sound");
            let inner = whole.len() - packet.len();
            let mut pools = Pools::new(32, 1);
            let mut frame = pools.take_filled(&whole).expect("room");
            let start = inner + usize::from(layout.l4);
            let offset = checksum_at(layout.transport).expect("one");
            let partial = partial_checksum(&packet, &layout).to_be_bytes();
            frame.bytes_mut()[start + offset..start + offset + 2].copy_from_slice(&partial);
            let header = VnetHeader {
                flags: NEEDS_CHECKSUM,
                segments: SEGMENTS_TCP4,
                segment_bytes: 300,
                checksum_start: start as u16,
                checksum_offset: offset as u16,
                ..VnetHeader::default()
            };
            let segments = header.accept(&mut frame).expect("sound");
            assert_eq!(segments, Segments::Inside);
            let (mut burst, mut counters) = (Vec::new(), PortCounters::default());
            segments.hand_on(frame, &mut pools, &mut burst, &mut counters);
            assert_eq!((burst.len(), counters.lost()), (4, 0));
            for frame in &burst {
                let bytes = frame.bytes();
                let outer = dissect(bytes).expect("sound");
                assert!(verify_transport_checksum(bytes, &outer));
                let inside = &bytes[inner..];
                assert!(verify_transport_checksum(
                    inside,
                    &dissect(inside).expect("sound")
                ));
            }
            // Of what is no tunnel that can be read none are made, which is counted.
            let mut frame = pools.take_filled(&packet).expect("room");
            frame.set_segment_bytes(300);
            burst.clear();
            Segments::Inside.hand_on(frame, &mut pools, &mut burst, &mut counters);
            assert_eq!((burst.len(), counters.receive_malformed), (0, 1));
        }
    }
}
