//! A function with rules made to be checked: each packet bears the version of the entry that
//! decided on it.
//!
//! An entry is a class of clients. Its version grows whenever the entry changes: when a packet
//! with the flag URG asks for it, or when the entry has been idle for too long. One version of
//! five denies; with all others the packet gets a [`Mark`] in one of its MAC addresses, and its
//! time to live is counted down. So what leaves tells which decision it met, and a bystander who
//! hears of every change knows whether that was the one in force.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use twinpath_core::wire::MacAddress;
use twinpath_core::wire::tcp::flags;
use twinpath_core::{Direction, DropReason, Instant};
use twinpath_rulecache::{Answers, Field, Hits, Obstacle, Recorded, RuleFunction, Verdict};

/// Every so many versions one denies.
const DENIES_EVERY: u32 = 5;

/// Most entries of one gate.
pub(super) const MOST_ENTRIES: u32 = 8;

/// Whether packets of an entry are dropped in this version.
pub(super) const fn denies(version: u32) -> bool {
    version % DENIES_EVERY == DENIES_EVERY - 1
}

/// How a gate looks at packets.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct GateConfig {
    /// Entries: a power of two, at most eight. The lowest bits of the client's address tell which.
    pub entries: u32,
    /// Whether all of both addresses and ports are examined: rules are then of one flow each.
    pub looks_whole: bool,
    /// An entry ends when it was not used for longer than this, by the packet clock.
    pub idle: Option<Duration>,
}

/// What a gate writes into a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub gate: u8,
    pub entry: u8,
    pub version: u32,
}

impl Mark {
    fn address(self) -> MacAddress {
        let [_, high, middle, low] = self.version.to_be_bytes();
        MacAddress([0x02, self.gate, self.entry, high, middle, low])
    }

    /// Reads the mark of a gate.
    pub fn read(gate: usize, frame: &[u8]) -> Option<Self> {
        let place = place_of(gate);
        let &[_, gate, entry, high, middle, low] = frame.get(place..place + 6)?.first_chunk()?;
        Some(Self {
            gate,
            entry,
            version: u32::from_be_bytes([0, high, middle, low]),
        })
    }

    /// Writes it, as the gate does.
    pub fn write(self, frame: &mut [u8]) {
        let place = place_of(self.gate.into());
        if let Some(bytes) = frame.get_mut(place..place + 6) {
            bytes.copy_from_slice(&self.address().0);
        }
    }
}

/// Where a gate's mark is: the source MAC address, or the destination's.
const fn place_of(gate: usize) -> usize {
    if gate == 0 { 6 } else { 0 }
}

/// Why an entry has changed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Why {
    /// A packet asked for it.
    Asked,
    /// It was idle for too long, by this time of the cores.
    Idle { now: Instant },
    /// The gate is a new one: its worker has crashed, or the chain has changed.
    Anew,
}

/// An entry has changed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub gate: usize,
    pub entry: u32,
    pub version: u32,
    pub why: Why,
}

/// What gates tell, in order, and how many versions each entry has had, whatever became of its gate.
#[derive(Default)]
pub(super) struct Telling {
    said: Vec<Changed>,
    versions: [[u32; MOST_ENTRIES as usize]; 2],
}

/// Where changes are told.
pub(super) type Changes = Arc<Mutex<Telling>>;

/// Takes what was told.
pub(super) fn take_changes(changes: &Changes) -> Vec<Changed> {
    std::mem::take(&mut heard(changes).said)
}

fn heard(changes: &Changes) -> MutexGuard<'_, Telling> {
    changes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Copy, Clone, Debug, Default)]
struct Entry {
    version: u32,
    /// Its last use; `None` if it is not in use.
    last: Option<Instant>,
}

/// The function.
pub(super) struct Gate {
    number: usize,
    config: GateConfig,
    entries: Vec<Entry>,
    changes: Changes,
}

impl Gate {
    pub fn new(number: usize, config: GateConfig, changes: &Changes) -> Self {
        Self {
            number,
            config,
            entries: Vec::new(),
            changes: Arc::clone(changes),
        }
    }

    /// The entry of a packet, by the client's address.
    fn entry(&self, packet: &mut Recorded<'_>) -> u32 {
        let field = match packet.direction() {
            Direction::Original => Field::SourceAddress,
            Direction::Reply => Field::DestinationAddress,
        };
        if self.config.looks_whole {
            packet.source();
            packet.destination();
            packet.protocol();
        }
        packet.bits(field, u128::from(self.config.entries - 1)) as u32
    }

    fn is_idle(&self, entry: u32, now: Instant) -> bool {
        let last = self.entries[entry as usize].last;
        let too_long = |(idle, last)| now.since(last) > idle;
        self.config.idle.zip(last).is_some_and(too_long)
    }

    fn change(&mut self, entry: u32, why: Why) {
        let (gate, mut changes) = (self.number, heard(&self.changes));
        changes.versions[gate][entry as usize] += 1;
        let version = changes.versions[gate][entry as usize];
        self.entries[entry as usize] = Entry {
            version,
            last: None,
        };
        changes.said.push(Changed {
            gate,
            entry,
            version,
            why,
        });
    }

    fn refresh(&mut self, entry: u32, now: Instant) {
        let last = &mut self.entries[entry as usize].last;
        *last = Some(last.map_or(now, |last| last.max(now)));
    }

    fn decide(&self, packet: &mut Recorded<'_>, entry: u32) -> Verdict {
        let version = self.entries[entry as usize].version;
        if denies(version) {
            return Verdict::Drop(DropReason::Banned);
        }
        let (gate, entry) = (self.number as u8, entry as u8);
        let address = Mark {
            gate,
            entry,
            version,
        }
        .address();
        match self.number {
            0 => packet.set_source_mac(address),
            _ => packet.set_destination_mac(address),
        }
        match packet.decrement_ttl() {
            true => Verdict::Forward,
            false => Verdict::Drop(DropReason::InvalidState),
        }
    }
}

impl RuleFunction for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    /// No two gates ever have the same version of an entry.
    fn start(&mut self, _now: Instant) {
        self.entries = vec![Entry::default(); self.config.entries as usize];
        (0..self.config.entries).for_each(|entry| self.change(entry, Why::Anew));
    }

    fn handle(
        &mut self,
        packet: &mut Recorded<'_>,
        now: Instant,
        _answers: &mut Answers<'_>,
    ) -> Verdict {
        let entry = self.entry(packet);
        let is_asked = packet.tcp_flags(flags::URG) != 0;
        let is_idle = self.is_idle(entry, now);
        if is_asked || is_idle {
            if !packet.is_free(entry) {
                return Verdict::Wait(entry);
            }
            let why = match is_idle {
                true => Why::Idle { now },
                false => Why::Asked,
            };
            self.change(entry, why);
            packet.uncacheable(Obstacle::StateChanged);
        }
        self.refresh(entry, now);
        packet.depends_on(entry, self.config.idle);
        self.decide(packet, entry)
    }

    fn credit(&mut self, entry: u32, hits: &Hits) {
        self.refresh(entry, hits.last);
    }

    fn each_expired(&mut self, now: Instant, each: &mut dyn FnMut(u32)) {
        (0..self.config.entries)
            .filter(|&entry| self.is_idle(entry, now))
            .for_each(each);
    }

    fn forget(&mut self, entry: u32, now: Instant) {
        self.change(entry, Why::Idle { now });
    }

    fn reads_payload(&self) -> bool {
        false
    }
}
