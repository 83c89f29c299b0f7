//! The server's end of RDMA: queue pairs of reliable connections over memory regions.
//!
//! It does what a network card would: WRITEs are executed as they come, READs are answered from
//! memory, in order, and whatever does not fit the InfiniBand specification is refused with the NAK
//! that it asks for. Requests come as frames, answers are taken with [`Endpoint::transmit`] when there
//! is room for them. Meanwhile READs wait, at most [`Config::reads`] of a queue pair.
//!
//! | request's number | what is done |
//! |---|---|
//! | the expected one | it is checked and executed |
//! | a former one (duplicate) | a WRITE is acknowledged again and not executed; a READ that is one of the last ones, or the rest of one, is answered again from memory |
//! | a later one | NAK "sequence" with the expected number, once until order returns |
//!
//! After a NAK of another kind a queue pair is silent until it is [restored](Endpoint::restore).

mod queue_pair;
mod region;

pub use region::{Access, Region, RegionError};

use crate::counters::counters;
use crate::endpoint::{BoxedError, Endpoint};
use queue_pair::QueuePair;
use region::Regions;
use std::collections::VecDeque;
use twinpath_core::wire::roce::{self, Header, Nak, Opcode, Path, Psn, RoceMalformed, RocePacket};
use twinpath_core::wire::{Address, Layout, MacAddress, dissect, fields};
use twinpath_core::{Frame, Pools};

/// What a responder is like.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its address on the link.
    pub mac: MacAddress,
    /// Its address.
    pub ip: Address,
    /// The most payload of a packet; a multiple of four.
    pub mtu: u16,
    /// How many queue pairs there are, at most [`MAX_QUEUE_PAIRS`].
    pub queue_pairs: u16,
    /// How many READs of a queue pair may be outstanding.
    pub reads: u8,
    /// The longest message.
    pub message_bytes: u32,
}

/// The most queue pairs, so that a number holds an index and the life that it belongs to.
pub const MAX_QUEUE_PAIRS: u16 = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 10;

counters! {
    /// What a responder has counted.
    =>
    /// WRITEs that were executed.
    writes,
    /// Bytes that they wrote.
    written_bytes,
    /// READs that were accepted.
    reads,
    /// Bytes that were read, answers that were repeated included.
    read_bytes,
    /// Acknowledgements sent.
    acknowledgements,
    /// Requests that came again.
    duplicates,
    /// READs that were answered again.
    replays,
    /// READs that came again and were none of the last ones, or found no room.
    replays_refused,
    /// NAKs "sequence".
    naks_sequence,
    /// NAKs "invalid request".
    naks_invalid,
    /// NAKs "remote access".
    naks_access,
    /// NAKs "remote operation".
    naks_operation,
    /// Later requests while a NAK "sequence" stood.
    out_of_order,
    /// Packets whose ICRC did not hold.
    bad_icrc,
    /// RoCE packets that are malformed otherwise.
    malformed,
    /// Packets to a queue pair that is not there, or to a former life of one.
    unknown_queue_pair,
    /// Packets from somebody else than the queue pair's peer, or in another partition.
    foreign,
    /// Packets to a queue pair that is in error.
    in_error,
    /// Requests that found no room for their answers.
    no_room,
    /// Answers, and acknowledgements, that came to the wrong end.
    not_requests,
}

/// The server's end.
pub struct Responder {
    config: Config,
    regions: Regions,
    queue_pairs: Vec<QueuePair>,
    /// Those with answers to send, each once.
    active: VecDeque<u16>,
    counters: Counters,
    /// Counts lives of queue pairs.
    lives: u32,
    /// What every request of a kind meets from now on; for tests of what a requester makes of it.
    is_failing: bool,
}

impl Responder {
    /// A responder without memory, all of whose queue pairs wait to be restored.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let queue_pairs = config.queue_pairs.min(MAX_QUEUE_PAIRS);
        Self {
            regions: Regions::default(),
            queue_pairs: (0..queue_pairs).map(|_| QueuePair::default()).collect(),
            active: VecDeque::with_capacity(queue_pairs.into()),
            counters: Counters::default(),
            lives: 0,
            is_failing: false,
            config: Config {
                queue_pairs,
                mtu: config.mtu / 4 * 4,
                ..config
            },
        }
    }

    /// What it is like.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What was counted.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Registers memory.
    ///
    /// # Errors
    /// It has no room among the addresses, or its key is taken.
    pub fn register(&mut self, region: Region) -> Result<(), RegionError> {
        self.regions.register(region)
    }

    /// Memory is registered no more: requests with its key get NAK "remote access". Tells whether there was
    /// any.
    pub fn withdraw(&mut self, rkey: u32) -> bool {
        self.regions.withdraw(rkey)
    }

    /// From now on memory cannot be read or written, or can again: requests get NAK "remote operation",
    /// as from a card whose memory has failed.
    pub fn set_failing(&mut self, is_failing: bool) {
        self.is_failing = is_failing;
    }

    /// [`Endpoint::receive`] of a frame that was dissected.
    pub fn receive_dissected(&mut self, frame: &[u8], layout: &Layout) -> bool {
        match RocePacket::read(frame, layout) {
            Err(RoceMalformed::NotRoce) => return false,
            Err(RoceMalformed::Icrc) => self.counters.bad_icrc += 1,
            Err(_) => self.counters.malformed += 1,
            Ok(packet) => self.packet(frame, layout, &packet),
        }
        true
    }

    fn packet(&mut self, frame: &[u8], layout: &Layout, packet: &RocePacket) {
        let header = &packet.header;
        let index = header.destination_qp & (u32::from(MAX_QUEUE_PAIRS) - 1);
        let queue_pair = self.queue_pairs.get_mut(index as usize);
        let Some(queue_pair) = queue_pair.filter(|one| one.is(header.destination_qp)) else {
            self.counters.unknown_queue_pair += 1;
            return;
        };
        let is_to_us = fields::destination_address(frame, layout) == self.config.ip;
        let source = fields::source_address(frame, layout);
        if !is_to_us || !queue_pair.has_peer(source) || !is_default(header.partition) {
            self.counters.foreign += 1;
            return;
        }
        if is_answer(header.opcode) {
            self.counters.not_requests += 1;
            return;
        }
        if queue_pair.is_in_error() {
            self.counters.in_error += 1;
            return;
        }
        let request = Request {
            header,
            payload: packet.payload(frame),
            pad_bytes: packet.pad_bytes,
        };
        let mut device = Device {
            config: &self.config,
            regions: &mut self.regions,
            counters: &mut self.counters,
            is_failing: self.is_failing,
        };
        queue_pair.request(&request, &mut device);
        if queue_pair.becomes_active() {
            self.active.push_back(index as u16);
        }
    }
}

impl Endpoint for Responder {
    /// What waited in the queue pair is forgotten.
    fn restore(&mut self, index: u16, path: Path, peer: u32, psn: Psn) -> Result<u32, BoxedError> {
        let queue_pair = self.queue_pairs.get_mut(usize::from(index));
        let queue_pair = queue_pair.ok_or("there is no such queue pair")?;
        // Numbers 0 and 1 are for management, so lives begin at 1.
        const LIVES: u32 = (1 << (roce::NUMBER_BITS - INDEX_BITS)) - 1;
        self.lives = self.lives % LIVES + 1;
        let qpn = self.lives << INDEX_BITS | u32::from(index);
        queue_pair.restore(qpn, path, peer, psn);
        Ok(qpn)
    }

    fn receive(&mut self, frame: &[u8]) -> bool {
        dissect(frame).is_ok_and(|layout| self.receive_dissected(frame, &layout))
    }

    fn has_answers(&self) -> bool {
        !self.active.is_empty()
    }

    /// Queue pairs take turns, a packet each.
    fn transmit(&mut self, pools: &mut Pools, out: &mut Vec<Frame>, most: usize) {
        for _ in 0..most {
            let Some(index) = self.active.pop_front() else {
                return;
            };
            let queue_pair = &mut self.queue_pairs[usize::from(index)];
            let sent = queue_pair.answer(&self.config, &self.regions, &mut self.counters, pools);
            let Some(frame) = sent else {
                self.active.push_front(index);
                return;
            };
            out.extend(frame);
            if queue_pair.stays_active() {
                self.active.push_back(index);
            }
        }
    }
}

/// What a queue pair works with.
struct Device<'a> {
    config: &'a Config,
    regions: &'a mut Regions,
    counters: &'a mut Counters,
    is_failing: bool,
}

impl Device<'_> {
    fn count(&mut self, nak: Nak) {
        *match nak {
            Nak::Sequence => &mut self.counters.naks_sequence,
            Nak::InvalidRequest | Nak::InvalidDatagram => &mut self.counters.naks_invalid,
            Nak::RemoteAccess => &mut self.counters.naks_access,
            Nak::RemoteOperation => &mut self.counters.naks_operation,
        } += 1;
    }
}

/// One packet of a request.
struct Request<'a> {
    header: &'a Header,
    payload: &'a [u8],
    pad_bytes: usize,
}

/// A full member's key and a limited member's differ in the first bit.
const fn is_default(partition: u16) -> bool {
    partition & 0x7fff == roce::DEFAULT_PARTITION & 0x7fff
}

const fn is_answer(opcode: Opcode) -> bool {
    opcode.has_aeth() || matches!(opcode, Opcode::READ_RESPONSE_MIDDLE)
}

#[cfg(test)]
mod tests;
