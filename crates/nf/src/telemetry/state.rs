//! The flow's state words, by name.

use crate::records::{Count, FlowRecord};
use std::time::Duration;
use twinpath_core::wire::tcp::flags;
use twinpath_core::{Direction, FlowKey, Instant, Side};

/// Whether there is a record, and the TCP flags of either direction: see [`KNOWN`] and [`flags_at`].
pub(super) const FLAGS: usize = 0;
/// When the record's first packet came, in units.
pub(super) const FIRST: usize = 1;
/// When its last packet came, in units.
pub(super) const LAST: usize = 2;
/// How many words there are.
pub(super) const WORDS: usize = 7;

/// The bit that says that there is a record.
pub(super) const KNOWN: u32 = 1;

/// The word with a direction's packets.
pub(super) const fn packets(way: Direction) -> usize {
    3 + way.index()
}

/// The word with a direction's bytes.
pub(super) const fn bytes(way: Direction) -> usize {
    5 + way.index()
}

/// By how many bits a direction's TCP flags are shifted.
pub(super) const fn flags_at(way: Direction) -> u32 {
    8 + 8 * way.index() as u32
}

/// A record has no more bytes than this, and one packet, in either direction.
pub(super) const MOST_BYTES: u32 = 1 << 31;

/// A unit of time is 2^20 nanoseconds, about a millisecond: 32 bits of them are 52 days.
pub(super) const UNIT_SHIFT: u32 = 20;

/// What is ahead by no more lies in the future: six days.
const FUTURE_UNITS: u32 = 1 << 29;

/// A time in units.
pub(super) const fn units(at: Instant) -> u32 {
    (at.0 >> UNIT_SHIFT) as u32
}

/// A time span in units, rounded up.
pub(super) fn units_of(time: Duration) -> u32 {
    let units = time.as_nanos().div_ceil(1 << UNIT_SHIFT);
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// Units from then to now; 0 if that lies in the future.
pub(super) const fn units_since(then: u32, now: Instant) -> u32 {
    let passed = units(now).wrapping_sub(then);
    match passed > u32::MAX - FUTURE_UNITS {
        true => 0,
        false => passed,
    }
}

/// The time that a word tells, as of now.
const fn instant(then: u32, now: Instant) -> Instant {
    let units = now.0 >> UNIT_SHIFT;
    // The difference as a signed number: the time may lie a little ahead.
    let ahead = then.wrapping_sub(units as u32).cast_signed() as i64;
    Instant(units.saturating_add_signed(ahead) << UNIT_SHIFT)
}

/// A flow's record as its words tell it; `None` if there is none. `initiator` is the end that opened it.
pub(super) fn record(
    key: &FlowKey,
    initiator: Side,
    words: &[u32],
    now: Instant,
) -> Option<FlowRecord> {
    if words.len() != WORDS || words[FLAGS] & KNOWN == 0 {
        return None;
    }
    let mut sent = [Count::default(); 2];
    let mut tcp_flags = [0; 2];
    for way in Direction::BOTH {
        let side = match way {
            Direction::Original => initiator,
            Direction::Reply => initiator.other(),
        };
        sent[side as usize] = Count {
            packets: words[packets(way)].into(),
            bytes: words[bytes(way)].into(),
        };
        tcp_flags[side as usize] = (words[FLAGS] >> flags_at(way)) as u8;
    }
    Some(FlowRecord {
        key: *key,
        first: instant(words[FIRST], now),
        last: instant(words[LAST], now),
        sent,
        tcp_flags,
    })
}

/// What TCP flags are called, in the order in which they are sent.
const NAMES: [(u8, &str); 6] = [
    (flags::SYN, "SYN"),
    (flags::FIN, "FIN"),
    (flags::RST, "RST"),
    (flags::PSH, "PSH"),
    (flags::ACK, "ACK"),
    (flags::URG, "URG"),
];

/// TCP flags by their names.
pub(super) fn flag_names(all: u8) -> String {
    let set = NAMES.iter().filter(|(flag, _)| all & flag != 0);
    let names: Vec<&str> = set.map(|(_, name)| *name).collect();
    names.join(" ")
}
