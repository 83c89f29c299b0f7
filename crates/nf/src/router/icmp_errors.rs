//! ICMP errors that a router sends, or a translation.

use super::config::Config;
use twinpath_core::wire::icmp::{self, IcmpError};
use twinpath_core::wire::{Address, Fragment, MacAddress, PacketBuilder, fields};
use twinpath_core::{Instant, Packet};

/// Room for the longest error, with its link header.
const ERROR_BYTES: usize = 1500;

/// Writes ICMP errors, at most so many in a second.
#[derive(Debug)]
pub(crate) struct Errors {
    address: Option<Address>,
    address6: Option<Address>,
    per_second: u32,
    second: u64,
    in_second: u32,
    buffer: Box<[u8; ERROR_BYTES]>,
    pub sent: u64,
    pub limited: u64,
}

/// Why a packet is answered.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// No route.
    NoRoute,
    /// The time to live has ended.
    TimeToLive,
    /// The packet is too long for the way that it has to go, and may not be fragmented.
    TooLong {
        /// What it may be.
        mtu: u32,
    },
    /// The host gets no more of what is limited. No more than headers are quoted, so that nobody
    /// has to have the payload.
    Prohibited,
}

impl Errors {
    pub fn new(address: Option<Address>, address6: Option<Address>, per_second: u32) -> Self {
        Self {
            address,
            address6,
            per_second,
            second: 0,
            in_second: 0,
            buffer: Box::new([0; ERROR_BYTES]),
            sent: 0,
            limited: 0,
        }
    }

    /// The error about a packet, if one may be sent; count it with [`Self::sent`].
    pub fn about(&mut self, packet: &Packet, cause: Cause, now: Instant) -> Option<&[u8]> {
        let from = match packet.source().address.is_v4() {
            true => self.address?,
            false => self.address6?,
        };
        if !may_be_answered(packet) || !self.has_allowance(now) {
            return None;
        }
        let kind = kind(cause, from.is_v4());
        let bytes = packet.bytes();
        let (own, sender) = (fields::destination_mac(bytes), fields::source_mac(bytes));
        let error = PacketBuilder::icmp_error(kind, bytes);
        let headers = usize::from(packet.layout.l3)..usize::from(packet.layout.payload);
        let error = match cause {
            Cause::Prohibited => error.payload(bytes.get(headers).unwrap_or(&[])),
            Cause::NoRoute | Cause::TimeToLive | Cause::TooLong { .. } => error,
        };
        let length = error
            .source_address(from)
            .macs(own, sender)
            .write(self.buffer.as_mut_slice())
            .ok()?;
        self.buffer.get(..length)
    }

    /// Other addresses and another limit.
    pub fn configure(&mut self, config: &Config) {
        (self.address, self.address6) = (config.address, config.address6);
        self.per_second = config.errors_per_second;
    }

    /// Counts and allowance go on from those before.
    pub fn continue_from(&mut self, before: &Self) {
        (self.sent, self.limited) = (before.sent, before.limited);
        (self.second, self.in_second) = (before.second, before.in_second);
    }

    fn has_allowance(&mut self, now: Instant) -> bool {
        let second = now.0 / 1_000_000_000;
        if self.second != second {
            (self.second, self.in_second) = (second, 0);
        }
        let has = self.in_second < self.per_second;
        match has {
            true => self.in_second += 1,
            false => self.limited += 1,
        }
        has
    }
}

/// No route is "network unreachable" in IPv4 and "no route to destination" in IPv6; "communication
/// administratively prohibited" has another code in each.
const fn kind(cause: Cause, is_v4: bool) -> IcmpError {
    match cause {
        Cause::TooLong { mtu } => IcmpError::PacketTooBig { mtu },
        Cause::Prohibited if is_v4 => IcmpError::Unreachable { code: 13 },
        Cause::Prohibited => IcmpError::Unreachable { code: 1 },
        Cause::NoRoute => IcmpError::Unreachable { code: 0 },
        Cause::TimeToLive => IcmpError::TimeExceeded { code: 0 },
    }
}

/// RFC 1812 §4.3.2.7 and RFC 4443 §2.4 e.
fn may_be_answered(packet: &Packet) -> bool {
    let layout = &packet.layout;
    let is_error = fields::icmp_kind(packet.bytes(), layout)
        .is_some_and(|(kind, _)| icmp::is_error(layout.network, kind));
    let MacAddress([first, ..]) = fields::destination_mac(packet.bytes());
    layout.fragment != Fragment::Later
        && !is_error
        && first & 1 == 0
        && is_one_host(packet.source().address)
        && is_one_host(packet.destination().address)
}

/// Not unspecified, multicast or broadcast.
fn is_one_host(address: Address) -> bool {
    match address.is_v4() {
        true => !matches!(address.octets4()[0], 0 | 224..),
        false => address != Address::UNSPECIFIED_V6 && address.octets16()[0] != 0xff,
    }
}
