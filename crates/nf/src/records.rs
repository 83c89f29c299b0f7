//! What functions tell of what they have, a part at a time: whoever asks may ask for millions, and
//! the function does nothing else while it tells.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use twinpath_core::wire::{Endpoint, MacAddress, protocol};
use twinpath_core::{FlowKey, Instant};

/// Part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is in it.
    pub items: Vec<T>,
    /// Where the next part begins, if there is one.
    pub next: Option<u32>,
}

impl<T> Page<T> {
    /// The items that there are from a place on, of those that have so many numbers: at most `most`
    /// numbers are looked at.
    pub fn of(from: u32, most: u32, bound: usize, at: impl FnMut(u32) -> Option<T>) -> Self {
        let end = (from as usize).saturating_add(most as usize).min(bound) as u32;
        Self {
            items: (from..end).filter_map(at).collect(),
            next: ((end as usize) < bound).then_some(end),
        }
    }
}

/// What has ports of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// TCP.
    Tcp = 0,
    /// UDP.
    Udp = 1,
    /// Echoes, whose identifiers are as ports.
    Icmp = 2,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Icmp];

    /// The number of its protocol over IPv4.
    pub(crate) const fn protocol(self) -> u8 {
        match self {
            Self::Tcp => protocol::TCP,
            Self::Udp => protocol::UDP,
            Self::Icmp => protocol::ICMP,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
        })
    }
}

/// A word that is no kind.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not tcp, udp or icmp")]
pub struct KindError;

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        let mut kinds = Self::ALL.into_iter();
        kinds.find(|kind| kind.to_string() == text).ok_or(KindError)
    }
}

/// Packets and the bytes of their frames.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// What is known of one flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// The flow. Of a flow by hosts, ports and protocol are 0; of one by source or destination,
    /// the low end is `::` as well.
    pub key: FlowKey,
    /// When its first packet arrived.
    pub first: Instant,
    /// When its last packet arrived, as far as is known.
    pub last: Instant,
    /// What its low end sent, and its high end.
    pub sent: [Count; 2],
    /// The TCP flags of all that either end sent, if they are counted.
    pub tcp_flags: [u8; 2],
}

/// A binding of a translation.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BindingRecord {
    /// What has ports.
    pub kind: Kind,
    /// The endpoint inside.
    pub internal: Endpoint,
    /// What stands for it outside.
    pub external: Endpoint,
    /// With how many others it speaks.
    pub sessions: u32,
}

/// What became of a binding, or of a host's block of ports.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BindingEvent {
    /// The binding.
    pub binding: BindingRecord,
    /// When, on the packet clock.
    pub at: Instant,
    /// Whether it began; else it ended.
    pub is_new: bool,
    /// Of a block of ports of all protocols, which begins with the external one, its last port.
    pub last_port: Option<u16>,
}

/// What became of bindings since it was asked last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindingEvents {
    /// In order.
    pub events: Vec<BindingEvent>,
    /// How many were let go since the start, because nobody took them.
    pub lost: u64,
}

/// Most events that wait to be taken.
const MOST_EVENTS: usize = 65_536;

/// What becomes of bindings is kept for whoever takes it; nothing is until somebody has.
#[derive(Debug, Default)]
pub(crate) struct BindingLog {
    events: Option<VecDeque<BindingEvent>>,
    lost: u64,
}

impl BindingLog {
    /// Keeps an event, if somebody takes them. The oldest make room.
    pub fn keep(&mut self, event: impl FnOnce() -> BindingEvent) {
        let Some(events) = &mut self.events else {
            return;
        };
        if events.len() == MOST_EVENTS {
            events.pop_front();
            self.lost += 1;
        }
        events.push_back(event());
    }

    /// Takes the oldest events, at most so many. From the first time on they are kept, also if none are taken.
    pub fn take(&mut self, most: usize) -> BindingEvents {
        let begin = || VecDeque::with_capacity(MOST_EVENTS);
        let events = self.events.get_or_insert_with(begin);
        let count = events.len().min(most);
        BindingEvents {
            events: events.drain(..count).collect(),
            lost: self.lost,
        }
    }
}

/// How often an entry of a function's table decided, on either path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryHits {
    /// Where it is a rule of a list: its number, counted from 1.
    pub rule: Option<usize>,
    /// What it is, on one line.
    pub text: String,
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames, if they are counted.
    pub bytes: Option<u64>,
}

/// What a flow's state words say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowText {
    /// Where the flow is in its life.
    pub state: String,
    /// How long no packet has come that counted.
    pub unused: Duration,
    /// The place of its backend among all, if it has one.
    pub backend: Option<usize>,
    /// Its packets, if they are counted.
    pub counted: Option<FlowRecord>,
}

/// A backend as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendText {
    /// Its place among all, as in [`FlowText::backend`].
    pub row: usize,
    /// The service that it serves.
    pub service: String,
    /// Where it is.
    pub endpoint: Endpoint,
    /// Its share of new connections, relative to others'.
    pub weight: u32,
    /// Where packets for it are sent, for direct return.
    pub mac: Option<MacAddress>,
    /// Whether it gets no new connections.
    pub is_drained: bool,
    /// The function's counter of connections that it was given.
    pub counter: &'static str,
}

/// How long ago something was that a word of flow state tells in [ticks](twinpath_core::Instant::ticks).
pub(crate) fn since_tick(now: Instant, tick: u32) -> Duration {
    Duration::from_nanos(u64::from(now.ticks_since(tick)) << twinpath_core::time::TICK_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_once_somebody_takes_them() {
        let mut log = BindingLog::default();
        let end = Endpoint::v4([10, 0, 0, 1], 5);
        let event = |at| BindingEvent {
            binding: BindingRecord {
                kind: Kind::Tcp,
                internal: end,
                external: end,
                sessions: 0,
            },
            at: Instant(at),
            is_new: true,
            last_port: None,
        };
        log.keep(|| event(1));
        assert_eq!(log.take(9), BindingEvents::default());
        (0..MOST_EVENTS as u64 + 3).for_each(|at| log.keep(|| event(at)));
        let taken = log.take(2);
        assert_eq!((taken.events, taken.lost), (vec![event(3), event(4)], 3));
    }

    #[test]
    fn pages_make_up_the_whole() {
        let odd = |number: u32| (number % 2 == 1).then_some(number);
        for most in 1..12 {
            let (mut all, mut from) = (Vec::new(), Some(0));
            while let Some(place) = from {
                let page = Page::of(place, most, 10, odd);
                all.extend(page.items);
                from = page.next;
            }
            assert_eq!(all, [1, 3, 5, 7, 9]);
        }
        assert_eq!(
            Page::of(7, 4, 0, odd),
            Page {
                items: vec![],
                next: None
            }
        );
    }
}
