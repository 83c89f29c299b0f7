//! What a rule does to a packet.
//!
//! An action is eight 64-bit words, one cache line: so the table holds it, and so it crosses the
//! link.
//!
//! | word | bits from the top |
//! |---|---|
//! | 0, 1 | source address |
//! | 2, 3 | destination address |
//! | 4 | source port 16, destination port 16, egress port 16, fields written 16 |
//! | 5 | source MAC 48, TTL decrements 8, verdict 8 (0 forward, else drop reason + 1) |
//! | 6 | destination MAC 48, [`Action::tells_progress`] 1, [`Rewrites::again`] 15 |
//! | 7 | idle time-out, ns; 0 for none |

mod plain;

pub(crate) use plain::{is_settled, macs_in, settle};

use crate::field::{Field, Fields};
use crate::key::MatchKey;
use std::time::Duration;
use twinpath_core::DropReason;
use twinpath_core::wire::layout::{Layout, Network, Transport};
use twinpath_core::wire::{
    Address, Endpoint, MacAddress, ethernet, fields, icmp, ipv4, rewrite, tcp, udp,
};

/// An action as words.
pub type ActionWords = [u64; 8];

/// New values of fields.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rewrites {
    /// The fields that are rewritten; the values of others mean nothing.
    pub written: Fields,
    /// New source address and port.
    pub source: Endpoint,
    /// New destination address and port.
    pub destination: Endpoint,
    /// New source MAC address.
    pub source_mac: MacAddress,
    /// New destination MAC address.
    pub destination_mac: MacAddress,
    /// The port that the packet leaves by.
    pub egress: u16,
    /// How many functions counted the time to live down.
    pub decrements: u8,
    /// Addresses and ports that were written more than once, with different values: their
    /// checksum has been mended on the way even if the last value is the packet's own, which
    /// shows in a checksum that was `ffff`.
    pub again: Fields,
}

impl Default for Rewrites {
    fn default() -> Self {
        let nowhere = Endpoint::new(Address::UNSPECIFIED_V6, 0);
        Self {
            written: Fields::NONE,
            source: nowhere,
            destination: nowhere,
            source_mac: MacAddress::ZERO,
            destination_mac: MacAddress::ZERO,
            egress: 0,
            decrements: 0,
            again: Fields::NONE,
        }
    }
}

/// What a rule does to a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Changed fields.
    pub rewrites: Rewrites,
    /// Why the packet is dropped; none if it goes on.
    pub drop: Option<DropReason>,
    /// The rule ends when it was not used for longer than this.
    pub idle: Option<Duration>,
    /// Of TCP segments the numbers of the last one are reported with the rule's uses.
    pub tells_progress: bool,
}

/// [`Action::tells_progress`] in word 6, where no field has its bit.
const TELLS_PROGRESS: u64 = 1 << 15;

const SOURCE: Fields = Fields::of(&[Field::SourceAddress, Field::SourcePort]);
const DESTINATION: Fields = Fields::of(&[Field::DestinationAddress, Field::DestinationPort]);
const MACS: Fields = Fields::of(&[Field::SourceMac, Field::DestinationMac]);
const ADDRESSES: Fields = Fields::of(&[Field::SourceAddress, Field::DestinationAddress]);
const PORTS: Fields = Fields::of(&[Field::SourcePort, Field::DestinationPort]);

impl Rewrites {
    /// Whether the packet's time to live allows the decrements; a packet whose does not is for
    /// the workers.
    #[inline(always)]
    pub fn allows(&self, frame: &[u8], layout: &Layout) -> bool {
        self.decrements == 0 || fields::ttl(frame, layout) > self.decrements
    }

    /// Whether addresses or ports are written.
    pub(crate) fn writes_ends(&self) -> bool {
        self.written.has_any(SOURCE) || self.written.has_any(DESTINATION)
    }

    /// The port that the packet leaves by, if a function said so.
    pub fn egress(&self) -> Option<u16> {
        self.written.has(Field::Egress).then_some(self.egress)
    }

    /// Where packets go whose key is this, or has these bits where a rule looks: addresses of which it
    /// looks at some bits end with zeros.
    pub fn destination_of(&self, key: &MatchKey) -> Address {
        let version = match key.is_v6() {
            true => 0,
            false => Address::UNSPECIFIED_V4.0,
        };
        match self.written.has(Field::DestinationAddress) {
            true => self.destination.address,
            false => Address(Field::DestinationAddress.of(key) | version),
        }
    }

    /// Whether an identification is [drawn](twinpath_core::Identifications) for packets that are not atomic.
    pub fn numbers(&self) -> bool {
        self.written.has(Field::Identification)
    }

    /// Rewrites a packet that the rule matches, checksums included: the same bytes that the
    /// functions would leave, but for an identification that is drawn.
    #[inline]
    pub fn apply(&self, frame: &mut [u8], layout: &Layout) {
        if self.written.has_any(SOURCE) {
            let old = fields::source(frame, layout);
            let new = self.end(old, self.source, Field::SourceAddress, Field::SourcePort);
            // The shape in the rule's mask makes the IP versions agree.
            let _ = rewrite::set_source(frame, layout, new);
        }
        if self.written.has_any(DESTINATION) {
            let old = fields::destination(frame, layout);
            let (address, port) = (Field::DestinationAddress, Field::DestinationPort);
            let new = self.end(old, self.destination, address, port);
            let _ = rewrite::set_destination(frame, layout, new);
        }
        if self.decrements > 0 {
            let ttl = fields::ttl(frame, layout).saturating_sub(self.decrements);
            let _ = rewrite::set_ttl(frame, layout, ttl);
        }
        if self.written.has_any(MACS) {
            self.set_macs(frame);
        }
        if !self.again.is_none() {
            self.mend_again(frame, layout);
        }
    }

    #[inline(always)]
    fn end(&self, old: Endpoint, new: Endpoint, address: Field, port: Field) -> Endpoint {
        Endpoint {
            address: if self.written.has(address) {
                new.address
            } else {
                old.address
            },
            port: if self.written.has(port) {
                new.port
            } else {
                old.port
            },
        }
    }

    #[inline(always)]
    fn set_macs(&self, frame: &mut [u8]) {
        if self.written.has(Field::SourceMac) {
            ethernet::set_source(frame, self.source_mac);
        }
        if self.written.has(Field::DestinationMac) {
            ethernet::set_destination(frame, self.destination_mac);
        }
    }

    /// A checksum that was mended at least once is never `ffff` (the UDP one is never anything
    /// but `ffff` for zero).
    #[cold]
    fn mend_again(&self, frame: &mut [u8], layout: &Layout) {
        let addresses = self.again.has_any(ADDRESSES);
        if addresses && layout.network == Network::V4 {
            clear_minus_zero(frame, usize::from(layout.l3) + ipv4::CHECKSUM_AT);
        }
        let covered = match layout.transport {
            Transport::Tcp => Some(tcp::CHECKSUM_AT),
            Transport::Icmp6 => Some(icmp::CHECKSUM_AT),
            Transport::Icmp if self.again.has_any(PORTS) => Some(icmp::CHECKSUM_AT),
            _ => None,
        };
        if let Some(at) = covered {
            clear_minus_zero(frame, usize::from(layout.l4) + at);
        }
    }
}

fn clear_minus_zero(frame: &mut [u8], at: usize) {
    if let Some(checksum) = frame.get_mut(at..at + 2)
        && *checksum == [0xff, 0xff]
    {
        checksum.fill(0);
    }
}

impl Action {
    /// The action as words.
    pub fn pack(&self) -> ActionWords {
        let rewrites = &self.rewrites;
        let (source, destination) = (rewrites.source, rewrites.destination);
        let drop = self.drop.map_or(0, |reason| reason.index() as u64 + 1);
        let idle_ns = self.idle.map_or(0, |idle| idle.as_nanos().max(1));
        [
            (source.address.0 >> 64) as u64,
            source.address.0 as u64,
            (destination.address.0 >> 64) as u64,
            destination.address.0 as u64,
            u64::from(source.port) << 48
                | u64::from(destination.port) << 32
                | u64::from(rewrites.egress) << 16
                | u64::from(rewrites.written.bits()),
            mac_bits(rewrites.source_mac) | u64::from(rewrites.decrements) << 8 | drop,
            mac_bits(rewrites.destination_mac)
                | if self.tells_progress {
                    TELLS_PROGRESS
                } else {
                    0
                }
                | u64::from(rewrites.again.bits()),
            u64::try_from(idle_ns).unwrap_or(0),
        ]
    }

    /// The action with these words; `None` for a reason to drop that there is none of.
    pub fn unpack(words: &ActionWords) -> Option<Self> {
        Some(Self {
            rewrites: rewrites_of(words),
            drop: drop_in(words)?,
            idle: (words[7] > 0).then(|| Duration::from_nanos(words[7])),
            tells_progress: tells_progress(words),
        })
    }
}

/// Why an action drops its packets, if it does; `None` if there is no such reason.
#[inline(always)]
pub(crate) fn drop_in(words: &ActionWords) -> Option<Option<DropReason>> {
    match words[5] as u8 {
        0 => Some(None),
        number => reason(number),
    }
}

#[inline(never)]
fn reason(number: u8) -> Option<Option<DropReason>> {
    let reason = DropReason::all().nth(usize::from(number) - 1);
    reason.map(Some)
}

/// The rewrites in an action's words.
#[inline]
fn rewrites_of(words: &ActionWords) -> Rewrites {
    // The upper half of an IPv4 address is empty, and a settled action has other things there.
    let upper = |word: usize| match plain::is_settled(words) {
        true => 0,
        false => u128::from(words[word]),
    };
    let address = |word: usize| Address(upper(word) << 64 | u128::from(words[word + 1]));
    Rewrites {
        written: written_in(words),
        source: Endpoint::new(address(0), (words[4] >> 48) as u16),
        destination: Endpoint::new(address(2), (words[4] >> 32) as u16),
        source_mac: mac_of(words[5]),
        destination_mac: mac_of(words[6]),
        egress: (words[4] >> 16) as u16,
        decrements: decrements_in(words),
        again: again_in(words),
    }
}

#[inline(always)]
pub(crate) const fn written_in(words: &ActionWords) -> Fields {
    Fields::from_bits(words[4] as u16)
}

#[inline(always)]
const fn again_in(words: &ActionWords) -> Fields {
    Fields::from_bits((words[6] & !TELLS_PROGRESS) as u16)
}

/// [`Action::tells_progress`] of an action's words.
#[inline(always)]
pub(crate) const fn tells_progress(words: &ActionWords) -> bool {
    words[6] & TELLS_PROGRESS != 0
}

#[inline(always)]
pub(crate) const fn decrements_in(words: &ActionWords) -> u8 {
    (words[5] >> 8) as u8
}

/// [`Rewrites::egress`] of an action's words.
#[inline(always)]
pub(crate) const fn egress_in(words: &ActionWords) -> Option<u16> {
    match written_in(words).has(Field::Egress) {
        true => Some((words[4] >> 16) as u16),
        false => None,
    }
}

/// Whether an identification is drawn for packets that are not atomic.
#[inline(always)]
pub(crate) const fn numbers_in(words: &ActionWords) -> bool {
    written_in(words).has(Field::Identification)
}

/// [`Rewrites::apply`] of an action's words.
#[inline(always)]
pub(crate) fn apply(words: &ActionWords, frame: &mut [u8], layout: &Layout) {
    if !is_nothing(words) {
        rewrite_packet(words, frame, layout);
    }
}

#[inline(never)]
fn rewrite_packet(words: &ActionWords, frame: &mut [u8], layout: &Layout) {
    let is_plain = again_in(words).is_none() && layout.network == Network::V4;
    let done = is_plain
        && match layout.transport {
            Transport::Tcp => plain::apply::<{ tcp::CHECKSUM_AT }>(words, frame, layout),
            Transport::Udp => plain::apply::<{ udp::CHECKSUM_AT }>(words, frame, layout),
            _ => false,
        };
    if !done {
        apply_any(words, frame, layout);
    }
}

/// Whether the packet stays as it is, but for where it leaves.
#[inline(always)]
fn is_nothing(words: &ActionWords) -> bool {
    const EGRESS: u16 = Fields::of(&[Field::Egress]).bits();
    let written = written_in(words).bits() & !EGRESS;
    let again = again_in(words).bits();
    written | again == 0 && decrements_in(words) == 0
}

#[inline(never)]
fn apply_any(words: &ActionWords, frame: &mut [u8], layout: &Layout) {
    rewrites_of(words).apply(frame, layout);
}

fn mac_bits(mac: MacAddress) -> u64 {
    let [a, b, c, d, e, g] = mac.0;
    u64::from_be_bytes([a, b, c, d, e, g, 0, 0])
}

#[inline(always)]
const fn mac_of(word: u64) -> MacAddress {
    let [a, b, c, d, e, g, _, _] = word.to_be_bytes();
    MacAddress([a, b, c, d, e, g])
}

const _: () = assert!(DropReason::COUNT < 255, "a verdict is one byte");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_hold_everything() {
        let mut rewrites = Rewrites {
            source: "10.0.0.1:80".parse().expect("v4"),
            destination: "[2001:db8::1]:443".parse().expect("v6"),
            source_mac: MacAddress([1, 2, 3, 4, 5, 6]),
            destination_mac: MacAddress([7, 8, 9, 10, 11, 12]),
            egress: 513,
            decrements: 3,
            written: Fields::of(&[Field::SourceMac, Field::Egress]),
            again: Fields::of(&[Field::SourcePort]),
        };
        for idle in [None, Some(Duration::from_secs(300))] {
            for drop in DropReason::all().map(Some).chain([None]) {
                rewrites.egress += 1;
                let action = Action {
                    rewrites,
                    drop,
                    idle,
                    tells_progress: idle.is_some(),
                };
                assert_eq!(Action::unpack(&action.pack()), Some(action));
            }
        }
    }

    proptest! {
        #[test]
        fn any_words_are_read_without_panic(words: ActionWords) {
            let action = Action::unpack(&words);
            let has_reason = usize::from(words[5] as u8) <= DropReason::COUNT;
            prop_assert_eq!(action.is_some(), has_reason);
        }
    }
}
