//! What frames say.

use twinpath_core::{FlowKey, Frame, Side};
use twinpath_link::{Header, Message};

/// What a frame said when it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    pub message: Message,
    pub key: FlowKey,
    pub generation: u32,
    pub slot: u32,
    pub epoch: u32,
    pub initiator: Side,
    /// The element of the chain that it is about.
    pub element: u8,
    /// The packet on board, by its number.
    pub packet: Option<u32>,
    pub words: Vec<u32>,
}

impl Contents {
    /// Reads what a frame says; `None` if it is no frame of the link.
    pub fn of(frame: &Frame) -> Option<Self> {
        let header = Header::read(frame.bytes()).ok()?;
        Some(Self {
            message: header.message,
            key: header.key,
            generation: header.generation,
            slot: header.slot,
            epoch: header.epoch,
            initiator: header.initiator,
            element: header.element,
            packet: header.has_packet.then(|| number_of(frame)),
            words: header.words().to_vec(),
        })
    }
}

/// The number of the packet on board.
pub fn number_of(frame: &Frame) -> u32 {
    frame.received_ns() as u32
}

/// What is behind a frame's header.
pub fn behind_header(frame: &Frame) -> &[u8] {
    let bytes = frame.bytes();
    let header = Header::read(bytes).map_or(0, |header| header.bytes());
    bytes.get(header..).unwrap_or_default()
}

/// Writes over a part of a frame, if it is as long as that.
pub fn overwrite(frame: &mut Frame, at: usize, bytes: &[u8]) {
    if let Some(place) = frame.bytes_mut().get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}
