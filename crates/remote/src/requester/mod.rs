//! A memory server, from the switch: WRITE, READ and what goes wrong with them (Ribosome §3.2,
//! Appendix C).
//!
//! Each queue pair has a ring in the server's memory, and one sequence of requests that WRITEs and
//! READs share. A switch does not keep payloads, so a WRITE that was lost is a packet that was lost; but
//! it takes no other with it than those behind it on the same queue pair. What becomes of errors:
//!
//! | what is noticed | what is done |
//! |---|---|
//! | NAK "sequence": a request was lost | WRITEs from there on are lost; each leaves an empty WRITE in its place, so that no number is ever used for two things, and READs are asked again |
//! | an answer to a later request: an answer was lost | READs without an answer are asked again |
//! | READs wait longer than the server's answers let them | WRITEs are refused, and packets travel whole |
//! | nothing for [`Config::timeout`] or as long as answers take, if that is more; then for twice as long, and so on | READs and empty WRITEs are asked again, or an empty WRITE is added: its acknowledgement, or a NAK, tells what the server has |
//! | nothing for [`Config::read_timeout`]; any NAK but "sequence" | what is not known to be written is given up, and the queue pair begins a new life: another epoch, other numbers |
//! | the same in a life in which the server has served nothing | the next one waits, twice as long each time, up to a second |
//! | NAK "receiver not ready" | as "sequence", after the time that it says |
//! | answers to a former life, or to no request | counted; a late NAK disables nothing |
//! | the server announces another incarnation | all payloads are lost, all queue pairs begin new lives |
//! | another server announces itself under the same number | it is refused while the first one announces itself |
//! | no announcement for [`LONGEST_SILENCE`] | the server takes no payloads until there is one again: its flows are others' |
//!
//! Of these the paper has one, that a queue pair in error begins a new life, by a loop of one second. Payloads that a server has
//! outlive a queue pair's life, and READs that were under way are asked again in the next one.
//!
//! Why a READ never yields other bytes than were written: a payload's place is not used again while it is
//! being read; a queue pair's requests are executed in the order of their numbers, each number means
//! one thing for a whole life, and a request of a former life goes to a queue pair that is not there any
//! more. What comes is held against length, Header Info and a [keyed hash](Config::authenticates) nevertheless.

mod counters;
mod queue_pair;
mod shard;
mod tags;

pub use counters::Counters;
pub use shard::{Receiver, Shard};

use crate::handle::{Handle, Sequence, front_bytes, header_info, stored_bytes};
use crate::payloads::{
    AnnouncementRefusal, Event, Losses, Lost, Output, PayloadMemory, QueuePairStatus, QueuePairs,
    Refusal, Returned,
};
use crate::registration::{self, MAX_FRAME_BYTES, Memory, Message, Restore};
use crate::ring::{MAX_RECORDS, Ring};
use crate::server::Draws;
use queue_pair::{QueuePair, Read};
use std::collections::VecDeque;
use std::time::Duration;
use tags::Tags;
use twinpath_core::wire::roce::{Header, Opcode, Path, Psn, Reth, RocePacket, is_roce};
use twinpath_core::wire::{Address, MacAddress, dissect, fields};
use twinpath_core::{Frame, Instant, Pools, Ticket};

/// What a requester is like.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The server's number.
    pub server: u16,
    /// The switch on the link to it.
    pub mac: MacAddress,
    /// The switch's address there.
    pub ip: Address,
    /// The server's address, if only that one is to be taken for it.
    pub expected: Option<Address>,
    /// How many queue pairs: those of all shards are at most [`MAX_QUEUE_PAIRS`], and as many as the
    /// server has.
    pub queue_pairs: u16,
    /// Which of the requesters that share the server.
    pub shard: Shard,
    /// The most payload of a packet that the link to the server carries.
    pub mtu: u16,
    /// How many requests of a queue pair may be under way, at least 4.
    pub window: usize,
    /// How many READs of a queue pair may wait to be asked.
    pub waiting: usize,
    /// How many payloads a queue pair's ring may hold.
    pub records: usize,
    /// Every so many WRITEs an acknowledgement is asked for.
    pub ack_every: u32,
    /// How long nothing may come before something is done about it, for the first time.
    pub timeout: Duration,
    /// How long a payload may take from the READ to its arrival, and a queue pair may say nothing.
    pub read_timeout: Duration,
    /// Whether a keyed hash of each payload is kept, and what comes back is held against it: key, address, length
    /// and Header Info can all be read on the cable.
    pub authenticates: bool,
    /// What nobody outside knows: sequence numbers are drawn from it, and from what follows.
    pub seed: u64,
    /// Which run of the switch this is: another each time that it starts. To one that starts again under
    /// the same numbers a server would take new requests for former ones that come again.
    pub life: u64,
}

impl Config {
    /// Sizes and times for a link within a rack, to a server's number from the switch's addresses.
    #[must_use]
    pub const fn new(server: u16, mac: MacAddress, ip: Address, seed: u64) -> Self {
        Self {
            server,
            mac,
            ip,
            expected: None,
            queue_pairs: 8,
            shard: Shard::ONLY,
            mtu: 4096,
            window: 256,
            waiting: 256,
            records: MAX_RECORDS,
            ack_every: 8,
            timeout: Duration::from_millis(1),
            read_timeout: Duration::from_millis(200),
            authenticates: true,
            seed,
            life: 0,
        }
    }
}

/// A server announces itself every second. After so long without it, it is taken for dead.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(3);
/// The most queue pairs of a requester, so that a number holds an index, a server and an epoch.
pub const MAX_QUEUE_PAIRS: u16 = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 10;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const SERVER_BITS: u32 = 6;

/// What the server has said of itself.
struct Peer {
    memory: Memory,
    path: Path,
    /// The most that is stored in one packet.
    mtu: u16,
    /// How much memory each queue pair has.
    share: u64,
}

impl Peer {
    /// Whether an announcement is this one's, with another MTU at most.
    fn is(&self, memory: &Memory) -> bool {
        let same = Memory {
            mtu: self.memory.mtu,
            ..*memory
        };
        same == self.memory
    }
}

/// Servers that were taken for this one before, and are not taken again while it is there: two that have one
/// number would take each other's place with each announcement.
const FORMER: usize = 4;

/// A memory server, as the switch sees it.
pub struct Requester {
    config: Config,
    /// Which run of the switch this is.
    life: u32,
    draws: Draws,
    tags: Tags,
    peer: Option<Peer>,
    /// Incarnations that others have taken the place of.
    former: VecDeque<u32>,
    /// When the server last announced itself; before that, since when it is waited for.
    heard: Option<Instant>,
    /// Whether that is too long ago.
    is_silent: bool,
    /// Whether all its queue pairs take payloads, and that was told.
    is_told_up: bool,
    queue_pairs: Vec<QueuePair>,
    /// Those of the queue pairs.
    rings: Vec<Ring>,
    counters: Counters,
}

/// What a queue pair works with.
struct Context<'a> {
    config: &'a Config,
    peer: &'a Peer,
    tags: &'a Tags,
    rings: &'a mut [Ring],
    counters: &'a mut Counters,
    output: &'a mut Output,
    now: Instant,
}

impl Context<'_> {
    fn lose(&mut self, header: Ticket, why: Lost) {
        lose(self.counters, self.output, header, why);
    }

    /// Sends a frame that is complete.
    fn send(&mut self, frame: Frame) {
        self.counters.transmitted_bytes += frame.len() as u64;
        self.output.frames.push(frame);
    }

    /// Sends a request without a payload, if there is a buffer for it.
    fn request(&mut self, index: u16, header: &Header, pools: &mut Pools) -> bool {
        let path = path_of(self.peer, index);
        let length = path.frame_bytes(header, 0);
        let Some(mut frame) = pools.take(length) else {
            self.counters.no_buffer += 1;
            return false;
        };
        let is_written = frame.set_len(length) && path.emit(header, 0, frame.bytes_mut()).is_ok();
        debug_assert!(is_written);
        self.send(frame);
        true
    }
}

fn lose(counters: &mut Counters, output: &mut Output, header: Ticket, why: Lost) {
    *match why {
        Lost::Write => &mut counters.lost_write,
        Lost::Timeout => &mut counters.lost_timeout,
        Lost::Mismatch => &mut counters.lost_mismatch,
        Lost::Server => &mut counters.lost_server,
    } += 1;
    let payload = Err(why);
    output.payloads.push(Returned { header, payload });
}

/// The most payload of a request in an IP packet of so many bytes.
fn payload_of(packet_bytes: usize, ip: Address) -> u16 {
    /// UDP, BTH, RETH, ICRC.
    const HEADERS: usize = 8 + 12 + 16 + 4;
    let ip_header = if ip.is_v4() { 20 } else { 40 };
    let payload = packet_bytes.saturating_sub(ip_header + HEADERS);
    payload.min(usize::from(u16::MAX)) as u16
}

/// The most that is stored in one packet, which both ends of the link carry.
fn stored_in(memory: &Memory, config: &Config) -> u16 {
    memory.mtu.min(config.mtu) / 4 * 4
}

/// Queue pairs have source ports of their own, so that networks spread them.
fn path_of(peer: &Peer, index: u16) -> Path {
    Path {
        source_port: 0xc000 | index,
        ..peer.path
    }
}

impl Requester {
    /// A requester that waits for its server's announcement.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let mut draws = Draws(config.seed ^ Draws(config.life).next());
        let of = config.shard.of.clamp(1, MAX_QUEUE_PAIRS);
        let number = config.shard.number.min(of - 1);
        let queue_pairs = config.queue_pairs.clamp(1, MAX_QUEUE_PAIRS / of);
        let config = Config {
            queue_pairs,
            shard: Shard { number, of },
            window: config.window.max(4),
            ..config
        };
        // The numbers that answers go to are others than those of the run before.
        let queue_pair = |own| {
            let number = config.shard.index(own);
            QueuePair::new(own, number, draws.next() as u16)
        };
        Self {
            queue_pairs: (0..queue_pairs).map(queue_pair).collect(),
            life: Draws(config.life).next() as u32,
            tags: Tags::new(&mut draws, config.authenticates),
            peer: None,
            former: VecDeque::with_capacity(FORMER),
            heard: None,
            is_silent: false,
            is_told_up: false,
            rings: (0..queue_pairs)
                .map(|_| Ring::new(0, 0, config.records, Sequence::new(draws.next() as u32)))
                .collect(),
            counters: Counters::default(),
            draws,
            config,
        }
    }

    /// What it is like.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            overtaken: self.rings.iter().map(Ring::overtaken).sum(),
            ..self.counters
        }
    }

    fn message(&mut self, message: &Message, now: Instant, output: &mut Output) -> bool {
        match message {
            Message::Memory(memory) if memory.server == self.config.server => {
                self.announced(memory, now, output);
            }
            Message::QueuePair(answer) if answer.server == self.config.server => {
                let known = self.peer.as_ref().map(|peer| peer.memory.incarnation);
                let is_ours = answer.life == self.life && known == Some(answer.incarnation);
                let own = self.config.shard.own(answer.index.into());
                let queue_pair = own.and_then(|own| self.queue_pairs.get_mut(own));
                let begins = queue_pair.filter(|_| is_ours);
                let has_begun = begins.is_some_and(|one| one.begin(answer.epoch, answer.qpn, now));
                *match has_begun {
                    true => &mut self.counters.lives,
                    false => &mut self.counters.stale,
                } += 1;
                self.tell_if_up(output);
            }
            _ => return false,
        }
        true
    }

    /// All queue pairs of this requester, for people.
    fn all_queue_pairs(&self) -> QueuePairs {
        QueuePairs::of(&self.queue_pair_figures())
    }

    /// Told once for all queue pairs that are used.
    fn tell_if_up(&mut self, output: &mut Output) {
        let used = self.used();
        let are_all_up = used > 0 && self.queue_pairs[..used].iter().all(QueuePair::is_ready);
        if are_all_up && !std::mem::replace(&mut self.is_told_up, true) {
            let known = self.queue_pair_figures();
            let whose = QueuePairs::of(&known[..used]);
            let most = self.peer.as_ref().map_or(0, |peer| peer.mtu);
            let most = most.saturating_sub(front_bytes(0) as u16);
            output.events.push(Event::Up(whose, most));
        }
    }

    /// Whether any queue pair takes payloads, as far as that one knows.
    fn has_ready(&self) -> bool {
        let mut used = self.queue_pairs[..self.used()].iter();
        used.any(QueuePair::is_ready)
    }

    /// How many queue pairs the server has for this requester.
    fn used(&self) -> usize {
        let peer = self.peer.as_ref();
        peer.map_or(0, |peer| usize::from(self.queue_pairs_of(&peer.memory)))
    }

    fn announced(&mut self, memory: &Memory, now: Instant, output: &mut Output) {
        let is_missed = self.is_silent && self.has_ready();
        if let Some(peer) = self.peer.as_mut().filter(|peer| peer.is(memory)) {
            peer.memory.mtu = memory.mtu;
            peer.mtu = stored_in(memory, &self.config);
            self.is_heard(now);
            output.events.extend(is_missed.then_some(Event::Heard));
            return;
        }
        let peer = self.peer_of(memory);
        match peer.and_then(|peer| self.may_replace(memory).map(|()| peer)) {
            Ok(peer) => self.replace_peer(peer, now, output),
            Err(why) => {
                self.counters.announcements_refused += 1;
                let whose = self.all_queue_pairs();
                output.events.push(Event::AnnouncementRefused(whose, why));
            }
        }
    }

    fn is_heard(&mut self, now: Instant) {
        self.heard = Some(now);
        self.is_silent = false;
    }

    /// Whether a server may take the place of the one that is known: where that was, and while it is silent.
    fn may_replace(&self, memory: &Memory) -> Result<(), AnnouncementRefusal> {
        let Some(known) = self.peer.as_ref().filter(|_| !self.is_silent) else {
            return Ok(());
        };
        let known = &known.memory;
        let is_new_run =
            memory.incarnation != known.incarnation && !self.former.contains(&memory.incarnation);
        let (known, found) = (known.mac, memory.mac);
        match (known == found, is_new_run) {
            (true, true) => Ok(()),
            (true, false) => Err(AnnouncementRefusal::Former { mac: found }),
            (false, _) => Err(AnnouncementRefusal::Another { known, found }),
        }
    }

    fn replace_peer(&mut self, peer: Peer, now: Instant, output: &mut Output) {
        self.counters.incarnations += 1;
        output.events.push(Event::Announced);
        self.is_heard(now);
        self.is_told_up = false;
        let memory = &peer.memory;
        let used = self.queue_pairs_of(memory);
        for (own, ring) in (0..).zip(&mut self.rings) {
            let index = u64::from(self.config.shard.index(own));
            match own < used {
                true => ring.move_to(memory.address + index * peer.share, peer.share),
                false => ring.move_to(memory.address, 0),
            }
        }
        for queue_pair in &mut self.queue_pairs {
            let lost = queue_pair.forget(now);
            lost.for_each(|header| lose(&mut self.counters, output, header, Lost::Server));
        }
        if let Some(former) = self.peer.replace(peer) {
            self.former.truncate(FORMER - 1);
            self.former.push_front(former.memory.incarnation);
        }
    }

    /// Looks whether the server has been silent for too long.
    fn note_silence(&mut self, now: Instant, output: &mut Output) {
        let heard = *self.heard.get_or_insert(now);
        if self.is_silent || now.since(heard) < LONGEST_SILENCE {
            return;
        }
        self.is_silent = true;
        let whose = self.all_queue_pairs();
        match self.peer {
            Some(_) if self.has_ready() => output.events.push(Event::Gone(whose)),
            // Why its queue pairs are down, or why nobody is known, was told.
            Some(_) => {}
            None if self.counters.announcements_refused > 0 => {}
            None => output.events.push(Event::Silent(whose, self.config.server)),
        }
    }

    /// How many queue pairs of a server all shards use together.
    fn all_queue_pairs_of(&self, memory: &Memory) -> u16 {
        let Config {
            queue_pairs, shard, ..
        } = self.config;
        memory.queue_pairs.min(queue_pairs * shard.of)
    }

    /// How many of them are this one's.
    fn queue_pairs_of(&self, memory: &Memory) -> u16 {
        self.config.shard.count(self.all_queue_pairs_of(memory))
    }

    /// What the server says, if it is of use.
    fn peer_of(&self, memory: &Memory) -> Result<Peer, AnnouncementRefusal> {
        const SHARE_STEP: u64 = 64;
        if let Some(expected) = self.config.expected.filter(|&known| known != memory.ip) {
            let found = memory.ip;
            return Err(AnnouncementRefusal::Address { found, expected });
        }
        if memory.ip.is_v4() != self.config.ip.is_v4() {
            return Err(AnnouncementRefusal::Version);
        }
        if memory.queue_pairs > 0 && self.queue_pairs_of(memory) == 0 {
            return Err(AnnouncementRefusal::QueuePairs);
        }
        let mtu = stored_in(memory, &self.config);
        let queue_pairs = u64::from(self.all_queue_pairs_of(memory));
        let share = memory.bytes.checked_div(queue_pairs).unwrap_or_default();
        let share = share / SHARE_STEP * SHARE_STEP;
        let is_of_use = mtu >= 64
            && share >= u64::from(mtu)
            && memory.reads > 0
            && memory.address.checked_add(memory.bytes).is_some();
        if !is_of_use {
            return Err(AnnouncementRefusal::Memory);
        }
        Ok(Peer {
            memory: *memory,
            path: Path {
                source_mac: self.config.mac,
                destination_mac: memory.mac,
                source: self.config.ip,
                destination: memory.ip,
                source_port: 0,
            },
            mtu,
            share,
        })
    }

    /// Which of the queue pairs' rings an address lies in.
    fn ring_of(&self, address: u64) -> Option<usize> {
        let peer = self.peer.as_ref()?;
        let from = address.checked_sub(peer.memory.address)?;
        let own = self.config.shard.own(from / peer.share)?;
        (own < self.rings.len()).then_some(own)
    }

    /// A RoCE packet from the server to this switch.
    fn answer(
        &mut self,
        frame: Frame,
        packet: &RocePacket,
        now: Instant,
        pools: &mut Pools,
        output: &mut Output,
    ) {
        let Self {
            config,
            peer: Some(peer),
            tags,
            queue_pairs,
            rings,
            counters,
            ..
        } = self
        else {
            pools.give(frame);
            return;
        };
        let qpn = packet.header.destination_qp;
        let own = config.shard.own((qpn & INDEX_MASK).into());
        let queue_pair = own.and_then(|own| queue_pairs.get_mut(own));
        let Some(queue_pair) = queue_pair.filter(|one| one.is(qpn)) else {
            counters.stale += 1;
            pools.give(frame);
            return;
        };
        let mut context = Context {
            config,
            peer,
            tags,
            rings,
            counters,
            output,
            now,
        };
        queue_pair.answer(frame, packet, &mut context, pools);
    }

    /// Asks for a queue pair's next life.
    fn ask(&mut self, index: usize, now: Instant, pools: &mut Pools, output: &mut Output) {
        let Some(peer) = &self.peer else { return };
        let queue_pair = &mut self.queue_pairs[index];
        let asked = queue_pair.ask(&self.config, &mut self.draws, now);
        let Some((epoch, qpn, psn)) = asked else {
            return;
        };
        let message = Message::Restore(Restore {
            server: self.config.server,
            incarnation: peer.memory.incarnation,
            life: self.life,
            index: queue_pair.number(),
            epoch,
            qpn,
            psn,
            mac: self.config.mac,
            ip: self.config.ip,
        });
        let mut bytes = [0; MAX_FRAME_BYTES];
        let length = message.write(self.config.mac, peer.memory.mac, &mut bytes);
        self.counters.restores += 1;
        output.frames.extend(pools.take_filled(&bytes[..length]));
    }
}

impl PayloadMemory for Requester {
    /// Those that the server has: no flow is left to others.
    fn queue_pairs(&self) -> u16 {
        match &self.peer {
            Some(peer) => self.queue_pairs_of(&peer.memory),
            None => self.config.queue_pairs,
        }
    }

    fn is_ready(&self, queue_pair: u16) -> bool {
        let queue_pair = self.queue_pairs.get(usize::from(queue_pair));
        queue_pair.is_some_and(QueuePair::is_ready)
    }

    fn write(
        &mut self,
        queue_pair: u16,
        payload: Frame,
        now: Instant,
        output: &mut Output,
    ) -> Result<Handle, (Frame, Refusal)> {
        let index = usize::from(queue_pair);
        let Some(pair) = self.queue_pairs.get_mut(index) else {
            return Err((payload, Refusal::QueuePair));
        };
        let Some(peer) = self.peer.as_ref().filter(|_| pair.is_ready()) else {
            self.counters.refused_down += 1;
            return Err((payload, Refusal::Down));
        };
        let stored = stored_bytes(payload.len());
        if stored > usize::from(peer.mtu) {
            self.counters.refused_too_long += 1;
            return Err((payload, Refusal::TooLong));
        }
        if !pair.may_write(&self.config, peer.memory.reads, now) {
            self.counters.refused_window += 1;
            return Err((payload, Refusal::Window));
        }
        let bytes = payload.len() as u16;
        let Some((sequence, address)) = self.rings[index].take(bytes, now) else {
            self.counters.refused_memory += 1;
            return Err((payload, Refusal::Memory));
        };
        let header = pair.write_header(address, peer.memory.rkey, stored as u32, &self.config);
        let info = header_info(sequence, bytes);
        self.rings[index].mark(sequence, self.tags.of(payload.bytes()));
        let written = written(payload, &info, &header, &path_of(peer, pair.number()));
        let frame = written.map_err(|payload| {
            self.rings[index].free(sequence);
            (payload, Refusal::Headroom)
        })?;
        pair.wrote(sequence, now, header.ack_request);
        self.counters.writes += 1;
        self.counters.transmitted_bytes += frame.len() as u64;
        output.frames.push(frame);
        Ok(Handle {
            address,
            bytes,
            queue_pair,
            server: self.config.server,
            sequence,
        })
    }

    fn read(
        &mut self,
        handle: &Handle,
        header: Ticket,
        now: Instant,
        pools: &mut Pools,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        let ring = self.ring_of(handle.address);
        let place = ring.and_then(|ring| self.rings[ring].place_of(handle));
        let place = place.filter(|place| !place.is_read && handle.server == self.config.server);
        let (Some(ring), Some(_)) = (ring, place) else {
            self.counters.reads_unknown += 1;
            return Err(Refusal::Unknown);
        };
        let Self {
            config,
            peer: Some(peer),
            tags,
            queue_pairs,
            rings,
            counters,
            ..
        } = self
        else {
            return Err(Refusal::Down);
        };
        let queue_pair = queue_pairs.get_mut(usize::from(handle.queue_pair));
        let queue_pair = queue_pair.ok_or(Refusal::QueuePair)?;
        if queue_pair.is_dead(now, config) {
            counters.lost_timeout += 1;
            return Err(Refusal::Down);
        }
        if !queue_pair.may_wait(config) {
            counters.reads_refused += 1;
            return Err(Refusal::Window);
        }
        rings[ring].reading(handle.sequence);
        counters.reads += 1;
        let mut context = Context {
            config,
            peer,
            tags,
            rings,
            counters,
            output,
            now,
        };
        let read = Read {
            ring: ring as u16,
            sequence: handle.sequence,
            header,
            deadline: now + context.config.read_timeout,
            sent: None,
        };
        queue_pair.read(read, &mut context, pools);
        Ok(())
    }

    fn discard(&mut self, handle: &Handle) {
        let Some(ring) = self.ring_of(handle.address) else {
            return;
        };
        let place = self.rings[ring].place_of(handle);
        if place.is_some_and(|place| !place.is_read) {
            self.counters.discarded += 1;
            self.rings[ring].free(handle.sequence);
        }
    }

    fn receive(
        &mut self,
        frame: Frame,
        now: Instant,
        pools: &mut Pools,
        output: &mut Output,
    ) -> Option<Frame> {
        let length = frame.len() as u64;
        if registration::is_registration(frame.bytes()) {
            match Message::read(frame.bytes()) {
                Ok(message) if !self.message(&message, now, output) => return Some(frame),
                Ok(_) => self.counters.received_bytes += length,
                Err(_) => self.counters.bad_messages += 1,
            }
            pools.give(frame);
            return None;
        }
        let Ok(layout) = dissect(frame.bytes()) else {
            return Some(frame);
        };
        let bytes = frame.bytes();
        let from = self.peer.as_ref().map(|peer| peer.memory.ip);
        let is_ours = is_roce(bytes, &layout)
            && fields::destination_address(bytes, &layout) == self.config.ip
            && Some(fields::source_address(bytes, &layout)) == from;
        if !is_ours {
            return Some(frame);
        }
        self.counters.received_bytes += length;
        match RocePacket::read(bytes, &layout) {
            Ok(packet) => self.answer(frame, &packet, now, pools, output),
            Err(_) => {
                self.counters.bad_icrc += 1;
                pools.give(frame);
            }
        }
        None
    }

    fn poll(&mut self, now: Instant, pools: &mut Pools, output: &mut Output) {
        self.note_silence(now, output);
        let used = self.used();
        for index in 0..used {
            if self.queue_pairs[index].is_to_be_asked(now) {
                self.ask(index, now, pools, output);
            }
        }
        let Some(peer) = &self.peer else { return };
        let mut context = Context {
            config: &self.config,
            peer,
            tags: &self.tags,
            rings: &mut self.rings,
            counters: &mut self.counters,
            output,
            now,
        };
        for queue_pair in &mut self.queue_pairs[..used] {
            queue_pair.poll(&mut context, pools);
        }
        self.is_told_up &= self.queue_pairs[..used].iter().all(QueuePair::is_ready);
    }

    fn deadline(&self) -> Instant {
        let deadlines = self.queue_pairs[..self.used()].iter();
        let deadlines = deadlines.map(|one| one.deadline(&self.config));
        let heard = self.heard.filter(|_| !self.is_silent);
        let silent = heard.map(|heard| heard + LONGEST_SILENCE);
        deadlines.chain(silent).min().unwrap_or(Instant::NEVER)
    }

    /// One that has been silent for too long takes none, whatever its queue pairs think.
    fn is_up(&self) -> bool {
        !self.is_silent && self.has_ready()
    }

    fn losses(&self) -> Losses {
        Losses {
            write: self.counters.lost_write,
            timeout: self.counters.lost_timeout,
            mismatch: self.counters.lost_mismatch,
            server: self.counters.lost_server,
            gone: self.counters.reads_unknown,
        }
    }

    fn protect(&mut self, protection: Duration) {
        let rings = self.rings.iter_mut();
        rings.for_each(|ring| ring.protect(protection));
    }

    fn set_link(&mut self, mac: MacAddress, mtu: usize) {
        self.config.mac = mac;
        self.config.mtu = payload_of(mtu, self.config.ip);
        if let Some(peer) = &mut self.peer {
            peer.path.source_mac = mac;
            peer.mtu = stored_in(&peer.memory, &self.config);
        }
    }

    fn octets(&self) -> u64 {
        let Counters {
            transmitted_bytes,
            received_bytes,
            ..
        } = self.counters;
        transmitted_bytes.max(received_bytes)
    }

    fn take_fastest_read(&mut self) -> Option<Duration> {
        let queue_pairs = self.queue_pairs.iter_mut();
        queue_pairs.filter_map(QueuePair::take_fastest_read).min()
    }

    fn named_counters(&self) -> Vec<(&'static str, u64)> {
        self.counters().named().collect()
    }

    fn queue_pair_figures(&self) -> Vec<QueuePairStatus> {
        let figures = |pair: &QueuePair| QueuePairStatus {
            is_ready: pair.is_ready() && !self.is_silent,
            ..pair.figures()
        };
        self.queue_pairs.iter().map(figures).collect()
    }
}

/// The payload as a WRITE, in its own buffer.
fn written(
    mut payload: Frame,
    info: &[u8; 4],
    header: &Header,
    path: &Path,
) -> Result<Frame, Frame> {
    let bytes = payload.len();
    let front = front_bytes(bytes);
    let Some(room) = payload.push_front(front) else {
        return Err(payload);
    };
    room.fill(0);
    room[..info.len()].copy_from_slice(info);
    let lower = path.front_bytes(header);
    if payload.push_front(lower).is_none() {
        payload.pull_front(front);
        return Err(payload);
    }
    let length = path.frame_bytes(header, front + bytes);
    let is_written = payload.set_len(length)
        && path
            .emit(header, front + bytes, payload.bytes_mut())
            .is_ok();
    if !is_written {
        payload.pull_front(lower + front);
        payload.set_len(bytes);
        return Err(payload);
    }
    Ok(payload)
}

/// A READ's header.
fn read_header(qpn: u32, psn: Psn, reth: Reth) -> Header {
    Header {
        ack_request: true,
        reth: Some(reth),
        ..Header::new(Opcode::READ_REQUEST, qpn, psn)
    }
}

#[cfg(test)]
mod tests;
