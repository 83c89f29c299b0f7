//! What the switch does with frames: splits packets, takes headers back, asks for payloads, and makes
//! packets whole again (Ribosome §3.1).
//!
//! | what happens | what becomes of the packet | counted |
//! |---|---|---|
//! | too short; a fragment; neither TCP nor UDP; a time to live that may end in the chain; a class that is never split | travels whole | `whole_small`, `whole_unsuited`, `whole_class` |
//! | no buffer, no slot, no server, a queue pair that is down, no room | travels whole | `whole_no_buffer` and so on |
//! | its header has passed the chain | the payload is asked for; it leaves when that is here and others of its flow have left | `merged` |
//! | a function drops it | the payload's place is free | `declined` |
//! | its header does not come back | its slot is another's one day, not before [`Config::header_timeout`]; or nothing is under way any more | `missing` |
//! | its payload is lost, or was overtaken in remote memory | dropped | `payload_lost`, `payload_gone` |
//! | a late or doubled header | freed; it never meets another payload | `headers_stale`, `headers_doubled` |
//! | a whole packet would overtake others of its flow | waits for them | `followers` |
//! | too many wait for others | those in front of them in their flow are lost: nothing whole is, and nothing waits without bound | `payload_late` |
//!
//! Who owns what: the payload's [`Handle`] stays with the stage, in the header slot; what travels is the
//! [`Ticket`], which names the slot and its use. So nothing that a worker or somebody on the link writes
//! can name another packet's payload. A worker that crashes loses headers, whose slots are found to be
//! lost as those of any lost header. Nothing is under way while a chain becomes another.

mod classes;
mod counters;
mod departures;
mod rebuilding;
mod servers;
mod splitting;

pub use classes::Class;
pub use counters::Counters;
pub use servers::BACK_OFFS;

use crate::back_off::{self, BackOff};
use crate::handle::{Handle, LEAST_PAYLOAD_BYTES};
use crate::header_slots::HeaderSlots;
use crate::payloads::{self, Event, Losses, PayloadMemory, QueuePairStatus};
use departures::{DepartureNumber, Departures};
use std::collections::VecDeque;
use std::time::Duration;
use twinpath_core::split::{DepartingFrame, Left, Outgoing, Output, PayloadStage, Sent};
use twinpath_core::wire::MacAddress;
use twinpath_core::{Frame, Instant, Pools, Ticket};

/// What a stage is like.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Packets of at least so many bytes are split.
    pub threshold_bytes: usize,
    /// Packets with less payload are not: it would take more to name it.
    pub least_payload_bytes: usize,
    /// How many packets may be split at a time (2000 in the paper).
    pub header_slots: usize,
    /// So long no slot and no payload loses its place to another. At zero they do at once, as in the
    /// paper, where the ring has to be long enough.
    pub header_timeout: Duration,
    /// Packets that may wait for others of their flow, whole or made whole again; beyond it those that
    /// they wait for are lost.
    pub followers: usize,
    /// What is never split.
    pub never: Vec<Class>,
    /// When servers are left alone; `None` if never.
    pub back_off: Option<back_off::Config>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            threshold_bytes: 128,
            least_payload_bytes: LEAST_PAYLOAD_BYTES,
            header_slots: 2000,
            header_timeout: Duration::from_millis(50),
            followers: 4096,
            never: Vec::new(),
            back_off: None,
        }
    }
}

/// A place where payloads wait, as a service names it.
pub struct Server {
    /// Its name.
    pub name: String,
    /// The port that leads to it; `None` if it is in this process.
    pub port: Option<u16>,
    /// What is behind it.
    pub memory: Box<dyn PayloadMemory + Send>,
}

struct Member {
    name: String,
    port: Option<u16>,
    memory: Box<dyn PayloadMemory + Send>,
    /// What went wrong last, and when.
    last_error: Option<(Event, Instant)>,
    /// The refusal of an announcement that was last told, and when.
    told_refusal: Option<(Event, Instant)>,
    /// Of its losses those that were told, and when.
    losses: Losses,
    losses_told: Option<Instant>,
    /// How much is still told of it until links are looked at again.
    events_left: u16,
}

/// A packet that is split.
struct Record {
    member: u16,
    handle: Handle,
    state: State,
    received_ns: u64,
    segment_bytes: u16,
}

#[derive(Copy, Clone)]
enum State {
    /// The workers have its header, since then.
    Away(Instant),
    /// Its header is back, and goes on, or waits on the fast path for something.
    Between,
    /// Its header has passed the chain and waits at this place.
    Waits(DepartureNumber),
}

/// What is known of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFigures {
    /// Its name.
    pub name: String,
    /// Whether it takes payloads.
    pub is_up: bool,
    /// The share of its flows that it takes, in thousandths.
    pub share_per_mille: u64,
    /// What its link carried when it was last looked at, in bits a second.
    pub rate_bps: u64,
    /// What went wrong last, in words.
    pub last_error: Option<String>,
    /// How long ago that was.
    pub last_error_age: Option<Duration>,
    /// All that was counted, by name.
    pub counters: Vec<(&'static str, u64)>,
    /// Its queue pairs, by number.
    pub queue_pairs: Vec<QueuePairStatus>,
}

/// Something happened at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEvent {
    /// Which of the servers, by number in the service.
    pub server: usize,
    /// What.
    pub event: Event,
    /// Whether packets go on unsplit for it, as far as no other server takes them.
    pub leaves_whole: bool,
}

/// Most events that wait for somebody to take them.
const MOST_EVENTS: usize = 256;
/// Most of one server between two looks at the links: somebody on the cable may end a life again and
/// again.
const MOST_EVENTS_EACH: u16 = 32;
/// So often it is looked what was lost.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// So often it is told at most that a server's payloads are lost.
const LOSSES_INTERVAL: Duration = Duration::from_secs(10);

/// The stage.
pub struct SplitStage {
    config: Config,
    is_active: bool,
    members: Vec<Member>,
    slots: HeaderSlots<Record>,
    departures: Departures<DepartingFrame, Output>,
    back_off: BackOff,
    /// Of a call to a member; empty between.
    output: payloads::Output,
    /// Frames for servers, each by its port.
    messages: Vec<(u16, Frame)>,
    events: VecDeque<ServerEvent>,
    /// Packets that were given up because their headers did not come back, and were not told of yet.
    given_up: u64,
    /// Headers that wait for their payloads.
    waiting: usize,
    is_lossless: bool,
    /// Whether somebody may ask for checksums.
    verifies: bool,
    /// When time was last told.
    polled: Instant,
    next_look: Instant,
    counters: Counters,
}

impl SplitStage {
    /// A stage over up to [`back_off::MAX_SERVERS`] servers.
    #[must_use]
    pub fn new(config: Config, servers: Vec<Server>) -> Self {
        let member = |server: Server| Member {
            name: server.name,
            port: server.port,
            memory: server.memory,
            last_error: None,
            told_refusal: None,
            losses: Losses::default(),
            losses_told: None,
            events_left: MOST_EVENTS_EACH,
        };
        let most = servers.into_iter().take(back_off::MAX_SERVERS);
        let members: Vec<_> = most.map(member).collect();
        let shares = config.back_off.unwrap_or(back_off::Config {
            threshold_bps: u64::MAX,
            ..back_off::Config::PAPER
        });
        let mut stage = Self {
            is_active: true,
            slots: HeaderSlots::new(config.header_slots),
            departures: Departures::new(),
            back_off: BackOff::new(shares, members.len(), Instant::ZERO),
            members,
            output: payloads::Output::default(),
            messages: Vec::new(),
            events: VecDeque::new(),
            given_up: 0,
            waiting: 0,
            is_lossless: false,
            verifies: true,
            polled: Instant::ZERO,
            next_look: Instant::ZERO,
            counters: Counters::default(),
            config,
        };
        stage.set_lossless(false);
        stage.note_who_is_up();
        stage
    }

    /// Whether nothing waits here, and no header is awaited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.used() == 0 && !self.departures.is_any()
    }

    /// How it was made.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What was counted.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    const fn protection(&self) -> Duration {
        match self.is_lossless {
            true => Duration::MAX,
            false => self.config.header_timeout,
        }
    }

    /// Whether packets are split: a chain may have functions that need payloads.
    pub fn set_active(&mut self, is_active: bool) {
        self.is_active = is_active;
    }

    /// The switch has these MAC addresses at its ports, whose links carry IP packets of so many bytes.
    pub fn set_links(&mut self, macs: &[MacAddress], mtus: &[usize]) {
        for member in &mut self.members {
            let port = member.port.map(usize::from);
            let link = port.and_then(|port| macs.get(port).zip(mtus.get(port)));
            if let Some((mac, mtu)) = link {
                member.memory.set_link(*mac, *mtu);
            }
        }
    }
}

impl PayloadStage for SplitStage {
    /// Slots, payloads and packets that wait for others keep their places for ever.
    fn set_lossless(&mut self, is_lossless: bool) {
        self.is_lossless = is_lossless;
        let protection = self.protection();
        for member in &mut self.members {
            member.memory.protect(protection);
        }
    }

    fn set_verifying(&mut self, verifies: bool) {
        self.verifies = verifies;
    }

    fn send(&mut self, outgoing: Outgoing<'_>, now: Instant, pools: &mut Pools) -> Sent {
        self.split_off(outgoing, now, pools)
    }

    fn came_back(&mut self, ticket: Ticket) {
        if let Some(record) = self.slots.find(ticket)
            && matches!(record.state, State::Away(_))
        {
            record.state = State::Between;
        }
    }

    fn goes_again(&mut self, ticket: Ticket, now: Instant) {
        if let Some(record) = self.slots.find(ticket)
            && matches!(record.state, State::Between)
        {
            record.state = State::Away(now);
        }
    }

    fn dropped(&mut self, ticket: Ticket, _now: Instant) {
        self.free(ticket);
    }

    /// Payloads in this process are at hand when they are asked for.
    fn may_hold_back(&self) -> bool {
        self.has_servers()
    }

    fn fragment_alone(&mut self) {
        self.counters.fragments_alone += 1;
    }

    fn asks_for_flow(&self, frame: &Frame) -> bool {
        let may_wait = frame.metadata().parked_bytes != 0 && self.may_hold_back();
        may_wait || self.departures.is_any()
    }

    fn leave(
        &mut self,
        departing: DepartingFrame,
        flow: u64,
        now: Instant,
        pools: &mut Pools,
    ) -> Left {
        match departing.frame.metadata().parked_bytes {
            0 => self.follow(departing, flow),
            _ => self.rebuild(departing, flow, now, pools),
        }
    }

    fn pass(&mut self, until: Instant) -> Option<(Instant, Output)> {
        Some((until, self.departures.pop()?))
    }
}

#[cfg(test)]
mod tests;
