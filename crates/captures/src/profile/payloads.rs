//! The payloads of a capture, flow by flow.

use std::collections::HashMap;
use twinpath_core::key::Keyed;
use twinpath_core::{FlowKey, Side};
use twinpath_wire::{Layout, Transport, fields};

/// A payload of a whole packet.
#[derive(Copy, Clone, Debug)]
pub(super) struct Payload<'a> {
    pub flow: FlowKey,
    pub bytes: &'a [u8],
    /// The payload before it in its direction, if TCP says that it goes on there.
    pub continues: Option<usize>,
}

/// Collects payloads.
#[derive(Debug, Default)]
pub(super) struct Payloads<'a> {
    all: Vec<Payload<'a>>,
    /// The last payload of each direction, with the number of the byte behind it.
    last: HashMap<(FlowKey, Side), (usize, u32)>,
}

impl<'a> Payloads<'a> {
    pub fn add(&mut self, frame: &'a [u8], layout: &Layout, keyed: &Keyed) {
        let bytes = fields::payload(frame, layout);
        if bytes.is_empty() {
            return;
        }
        let name = (keyed.key, keyed.side);
        let first = fields::tcp_seq(frame, layout);
        let is_next = |(_, next): &&(usize, u32)| *next == first;
        let before = self
            .last
            .get(&name)
            .filter(is_next)
            .map(|(index, _)| *index);
        let end = first.wrapping_add(bytes.len() as u32);
        self.last.insert(name, (self.all.len(), end));
        self.all.push(Payload {
            flow: keyed.key,
            bytes,
            continues: before.filter(|_| layout.transport == Transport::Tcp),
        });
    }

    pub fn all(&self) -> &[Payload<'a>] {
        &self.all
    }
}
