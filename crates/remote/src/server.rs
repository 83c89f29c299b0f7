//! A memory server: an end of RDMA with memory, and the registration that tells switches of it.
//!
//! It reads no clock and opens no socket: frames and the time go in, frames and the next deadline come
//! out. `twinpath memory-server` gives it a network interface. Who executes requests is an [`Endpoint`]:
//! the [`Responder`] in software, or a network card.

mod switches;

pub use switches::{Switch, SwitchEvent};

use crate::counters::counters;
use crate::endpoint::{BoxedError, Endpoint};
use crate::registration::{
    self, MAX_FRAME_BYTES, Memory, Message, QueuePair, RegistrationError, Restore,
};
use crate::responder::{self, Access, Region, Responder};
use std::time::Duration;
use switches::Switches;
use twinpath_core::wire::MacAddress;
use twinpath_core::wire::roce::Path;
use twinpath_core::{Frame, Instant, Pools};

/// What a memory server is like.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its number among servers.
    pub server: u16,
    /// How much memory it has, in bytes.
    pub memory_bytes: usize,
    /// What its queue pairs are like, and where it is.
    pub responder: responder::Config,
    /// What nobody outside knows: its incarnation, its memory's address and key are drawn from it.
    pub seed: u64,
}

counters! {
    /// What a server has counted of registration.
    =>
    /// Announcements of its memory.
    announcements,
    /// Queue pairs that began a new life.
    restores,
    /// Requests for a life that a queue pair has begun already, which were answered again.
    restores_repeated,
    /// Requests about a former life, another server, or a queue pair that is not there.
    restores_refused,
    /// Queue pairs that could not begin the life that was asked for.
    restores_failed,
    /// Queue pairs that another switch has taken from the one that had them.
    restores_taken,
    /// Registration messages that were changed on their way or make no sense.
    bad_messages,
    /// Frames that are neither about registration nor RoCE, and announcements of other servers.
    other_frames,
}

/// The life that a queue pair is in: what asked for it, and the number that it got.
#[derive(Copy, Clone)]
struct Life {
    asked: Restore,
    qpn: u32,
}

/// A server.
pub struct MemoryServer<E = Responder> {
    memory: Memory,
    /// The most payload of a packet at the start.
    most_mtu: u16,
    endpoint: E,
    lives: Vec<Option<Life>>,
    switches: Switches,
    /// The last queue pair that could not begin a life, and why, until somebody takes it.
    failure: Option<(u16, BoxedError)>,
    /// What is to be said to whom, at most one message for each queue pair.
    answers: Vec<(MacAddress, QueuePair)>,
    next_announcement: Instant,
    counters: Counters,
}

const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_secs(1);
/// At least so much time is between two announcements, whatever is asked.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
/// Memory begins at a multiple of it, somewhere below 2^47.
const ADDRESS_STEP: u64 = 1 << 21;

impl MemoryServer {
    /// A server in software that begins at `now`.
    #[must_use]
    pub fn new(config: Config, now: Instant) -> Self {
        let mut draws = Draws(config.seed);
        let mut responder = Responder::new(config.responder);
        let address = (draws.next() >> 17) / ADDRESS_STEP * ADDRESS_STEP;
        let (rkey, incarnation) = (draws.next() as u32, draws.next() as u32);
        let region = Region::new(address, config.memory_bytes, rkey, Access::ReadWrite);
        // It is the only one, and ends below 2^64.
        let registered = responder.register(region);
        debug_assert!(registered.is_ok(), "{registered:?}");
        let used = responder.config();
        let memory = Memory {
            server: config.server,
            incarnation,
            address,
            bytes: config.memory_bytes as u64,
            rkey,
            mtu: used.mtu,
            queue_pairs: used.queue_pairs,
            reads: used.reads,
            mac: used.mac,
            ip: used.ip,
        };
        Self::with_endpoint(responder, memory, now)
    }
}

impl<E: Endpoint> MemoryServer<E> {
    /// A server that begins at `now`, announces this memory and has requests executed by `endpoint`.
    #[must_use]
    pub fn with_endpoint(endpoint: E, memory: Memory, now: Instant) -> Self {
        Self {
            lives: vec![None; memory.queue_pairs.into()],
            switches: Switches::default(),
            most_mtu: memory.mtu,
            memory,
            endpoint,
            failure: None,
            answers: Vec::new(),
            next_announcement: now,
            counters: Counters::default(),
        }
    }

    /// What it announces.
    #[must_use]
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Its end of RDMA.
    #[must_use]
    pub const fn endpoint(&self) -> &E {
        &self.endpoint
    }

    /// The same, to change.
    pub fn endpoint_mut(&mut self) -> &mut E {
        &mut self.endpoint
    }

    /// The link carries packets of RDMA with so much payload now. More than at the start is not announced:
    /// queue pairs began with that.
    pub fn set_mtu(&mut self, mtu: u16, now: Instant) {
        let mtu = mtu.min(self.most_mtu);
        if mtu != self.memory.mtu {
            self.memory.mtu = mtu;
            self.announce_soon(now);
        }
    }

    fn announce_soon(&mut self, now: Instant) {
        let soon = now + SHORTEST_INTERVAL;
        self.next_announcement = self.next_announcement.min(soon);
    }

    /// Which switches came since this was called last.
    pub fn take_switch_events(&mut self) -> Vec<SwitchEvent> {
        self.switches.take_events()
    }

    /// The last queue pair that could not begin a life, and why; it is told once.
    pub fn take_failure(&mut self) -> Option<(u16, BoxedError)> {
        self.failure.take()
    }

    /// What was counted of registration.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a frame.
    pub fn receive(&mut self, frame: &[u8], now: Instant) {
        if self.endpoint.receive(frame) {
            return;
        }
        if !registration::is_registration(frame) {
            self.counters.other_frames += 1;
            return;
        }
        match Message::read(frame) {
            Ok(Message::Restore(restore)) => self.restore(&restore, now),
            // Other servers on the same cable announce themselves, too.
            Ok(_) => self.counters.other_frames += 1,
            Err(RegistrationError::NotRegistration) => self.counters.other_frames += 1,
            Err(_) => self.counters.bad_messages += 1,
        }
    }

    fn restore(&mut self, asked: &Restore, now: Instant) {
        let is_ours = asked.server == self.memory.server;
        if is_ours && asked.incarnation != self.memory.incarnation {
            // Who asks does not know that this is another run.
            self.announce_soon(now);
        }
        let index = usize::from(asked.index);
        let is_ours = is_ours && asked.incarnation == self.memory.incarnation;
        let Some(known) = self.lives.get_mut(index).filter(|_| is_ours) else {
            self.counters.restores_refused += 1;
            return;
        };
        let qpn = match known.filter(|known| known.asked.life == asked.life) {
            // Who asks for the same with other numbers, or from elsewhere, is somebody else.
            Some(known) if known.asked == *asked => {
                self.counters.restores_repeated += 1;
                known.qpn
            }
            Some(known) if is_former(asked.epoch, known.asked.epoch) => {
                self.counters.restores_refused += 1;
                return;
            }
            _ => {
                let path = self.path_to(asked);
                match self
                    .endpoint
                    .restore(asked.index, path, asked.qpn, asked.psn)
                {
                    Ok(qpn) => {
                        self.begun(asked, index);
                        qpn
                    }
                    Err(why) => {
                        self.counters.restores_failed += 1;
                        self.failure = Some((asked.index, why));
                        return;
                    }
                }
            }
        };
        self.lives[index] = Some(Life { asked: *asked, qpn });
        let answer = QueuePair {
            server: asked.server,
            incarnation: asked.incarnation,
            life: asked.life,
            index: asked.index,
            epoch: asked.epoch,
            qpn,
        };
        self.answers.retain(|(_, other)| other.index != asked.index);
        self.answers.push((asked.mac, answer));
    }

    fn begun(&mut self, asked: &Restore, index: usize) {
        let former = self.lives[index].map(|life| life.asked);
        let is_taken =
            former.is_some_and(|former| (former.mac, former.ip) != (asked.mac, asked.ip));
        self.counters.restores += 1;
        self.counters.restores_taken += u64::from(is_taken);
        self.switches.begun(asked, former.as_ref());
    }

    fn path_to(&self, asked: &Restore) -> Path {
        Path {
            source_mac: self.memory.mac,
            destination_mac: asked.mac,
            source: self.memory.ip,
            destination: asked.ip,
            source_port: 0xc000 | asked.index & 0x3fff,
        }
    }

    /// Sends up to `most` frames, as long as there are buffers, appended to `out`.
    pub fn transmit(&mut self, now: Instant, pools: &mut Pools, out: &mut Vec<Frame>, most: usize) {
        let from = out.len();
        if now >= self.next_announcement {
            let message = Message::Memory(self.memory);
            if self.say(&message, MacAddress([0xff; 6]), pools, out) {
                self.next_announcement = now + ANNOUNCEMENT_INTERVAL;
                self.counters.announcements += 1;
            }
        }
        while let Some((to, answer)) = self.answers.pop() {
            if !self.say(&Message::QueuePair(answer), to, pools, out) {
                self.answers.push((to, answer));
                break;
            }
        }
        let rest = most.saturating_sub(out.len() - from);
        self.endpoint.transmit(pools, out, rest);
    }

    fn say(
        &self,
        message: &Message,
        to: MacAddress,
        pools: &mut Pools,
        out: &mut Vec<Frame>,
    ) -> bool {
        let mut bytes = [0; MAX_FRAME_BYTES];
        let length = message.write(self.memory.mac, to, &mut bytes);
        let frame = pools.take_filled(&bytes[..length]);
        let is_said = frame.is_some();
        out.extend(frame);
        is_said
    }

    /// When [`Self::transmit`] is to be called at the latest.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        match self.answers.is_empty() && !self.endpoint.has_answers() {
            true => self.next_announcement,
            false => Instant::ZERO,
        }
    }
}

/// Whether an epoch is before another: half of all are.
const fn is_former(epoch: u16, other: u16) -> bool {
    (epoch.wrapping_sub(other) as i16) < 0
}

/// Numbers that follow from a seed: splitmix64.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
