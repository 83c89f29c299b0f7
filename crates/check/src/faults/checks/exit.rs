//! Packets that come out of the fast path or of the slow path.

use crate::faults::scenario::Elements;
use crate::faults::world::number_of;
use twinpath_core::wire::{Address, Endpoint, protocol};
use twinpath_core::{Direction, Frame};
use twinpath_link::Header;

/// Where a packet comes out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// It leaves.
    Leaves,
    /// It goes to the slow path.
    Punted,
    /// It comes from the slow path.
    FromWorker,
}

/// A packet that came out.
pub struct Exit {
    pub number: u32,
    /// How many elements it has passed.
    pub passed: usize,
    pub kind: ExitKind,
    /// Bytes that are not there but parked.
    pub parked: usize,
}

impl Exit {
    /// A packet leaves that is of a flow or of none: what is no IP passes no element.
    pub fn leaving(frame: &Frame, elements: Elements, is_of_flow: bool) -> Self {
        Self {
            number: number_of(frame),
            passed: usize::from(is_of_flow) * elements.list().len(),
            kind: ExitKind::Leaves,
            parked: frame.metadata().parked_bytes.into(),
        }
    }

    /// A packet goes to the slow path on a frame, or comes from there.
    pub fn on_link(frame: &Frame, elements: Elements, kind: ExitKind) -> Option<Self> {
        let header = Header::read(frame.bytes()).ok()?;
        let in_front = elements.position(header.element, header.metadata.direction);
        header.has_packet.then(|| Self {
            number: number_of(frame),
            // What a DPU's policies have judged goes on where it stopped.
            passed: in_front
                + usize::from(kind == ExitKind::FromWorker && elements != Elements::Dpu),
            kind,
            parked: header.metadata.parked_bytes.into(),
        })
    }
}

/// The client's end of a packet over IPv4, also of one whose payload is parked.
pub fn end_of(bytes: &[u8], direction: Direction) -> Option<Endpoint> {
    let (address, port) = match direction {
        Direction::Original => (26, 34),
        Direction::Reply => (30, 36),
    };
    let address = bytes.get(address..)?.first_chunk()?;
    let port = bytes.get(port..)?.first_chunk()?;
    Some(Endpoint::v4(*address, u16::from_be_bytes(*port)))
}

/// The same of a packet of either version.
pub fn client_of(bytes: &[u8], direction: Direction) -> Option<Endpoint> {
    let ether_type = bytes.get(12..)?.first_chunk().copied();
    if ether_type.map(u16::from_be_bytes) != Some(protocol::ETHER_IPV6) {
        return end_of(bytes, direction);
    }
    let (address, port) = match direction {
        Direction::Original => (22, 54),
        Direction::Reply => (38, 56),
    };
    let address = bytes.get(address..)?.first_chunk().copied()?;
    let port = bytes.get(port..)?.first_chunk().copied()?;
    let address = Address::from_v6(address);
    Some(Endpoint::new(address, u16::from_be_bytes(port)))
}
