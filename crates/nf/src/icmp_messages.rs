//! ICMP messages that a router sends, or a translation: errors, and answers to echoes.

use crate::rate_limit::RateLimit;
use twinpath_core::wire::icmp::{self, IcmpError};
use twinpath_core::wire::{
    Address, Fragment, Layout, MacAddress, Network, PacketBuilder, fields, layout,
    verify_transport_checksum,
};
use twinpath_core::{Instant, Packet};
use twinpath_rulecache::{Answers, Recorded};

/// Room for the longest message, with its link header.
const MESSAGE_BYTES: usize = 1500 + 64;

/// Where an echo has its sequence number, from the ICMP header on.
const ECHO_SEQUENCE_AT: usize = 6;

/// Writes ICMP messages, at most so many in a second.
#[derive(Debug)]
pub(crate) struct Icmp {
    address: Option<Address>,
    address6: Option<Address>,
    limit: RateLimit,
    buffer: Box<[u8; MESSAGE_BYTES]>,
    pub errors_sent: u64,
    pub echoes_answered: u64,
    pub limited: u64,
}

/// Why an error is sent.
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
    /// The next hop does not answer.
    Unreachable,
    /// The host gets no more of what is limited. No more than headers are quoted, so that nobody
    /// has to have the payload.
    Prohibited,
}

impl Icmp {
    /// Messages from these addresses, of IPv4 and IPv6; of a version without one none are sent.
    pub fn new([address, address6]: [Option<Address>; 2], limit: RateLimit) -> Self {
        Self {
            address,
            address6,
            limit,
            buffer: Box::new([0; MESSAGE_BYTES]),
            errors_sent: 0,
            echoes_answered: 0,
            limited: 0,
        }
    }

    /// Answers a packet with an error, if one may be sent and has room.
    pub fn answer(
        &mut self,
        packet: &mut Recorded<'_>,
        cause: Cause,
        now: Instant,
        answers: &mut Answers<'_>,
    ) {
        let packet = packet.quote();
        if let Some(error) = self.error_about(packet.bytes(), &packet.layout, cause, now)
            && answers.reply(error)
        {
            self.errors_sent += 1;
        }
    }

    /// The error about a packet, if one may be sent.
    pub fn error_about(
        &mut self,
        bytes: &[u8],
        layout: &Layout,
        cause: Cause,
        now: Instant,
    ) -> Option<&[u8]> {
        let sender = fields::source_address(bytes, layout);
        let from = match sender.is_v4() {
            true => self.address?,
            false => self.address6?,
        };
        // What the router itself has sent it tells nobody of.
        if sender == from || !may_be_told(bytes, layout) || !self.has_allowance(sender, now) {
            return None;
        }
        let error = PacketBuilder::icmp_error(kind(cause, from.is_v4()), bytes);
        let headers = usize::from(layout.l3)..usize::from(layout.payload);
        let error = match cause {
            Cause::Prohibited => error.payload(bytes.get(headers).unwrap_or(&[])),
            Cause::NoRoute | Cause::TimeToLive | Cause::TooLong { .. } | Cause::Unreachable => {
                error
            }
        };
        self.write(error.source_address(from), bytes, layout)
    }

    /// The reply to an echo request to the router, if one may be sent; count it when it is.
    pub fn echo_of(&mut self, packet: &Packet, now: Instant) -> Option<&[u8]> {
        let (bytes, layout) = (packet.bytes(), &packet.layout);
        let sender = packet.source().address;
        if !is_echo_request(packet) || !self.has_allowance(sender, now) {
            return None;
        }
        let at = usize::from(layout.l4) + ECHO_SEQUENCE_AT;
        let sequence = bytes.get(at..)?.first_chunk()?;
        let reply = PacketBuilder::icmp_echo(packet.destination(), packet.source())
            .echo_reply()
            .seq(u16::from_be_bytes(*sequence).into())
            .payload(fields::payload(bytes, layout));
        self.write(reply, bytes, layout)
    }

    /// Writes a message to whoever sent a frame, as that lay on its link.
    fn write(
        &mut self,
        message: PacketBuilder<'_>,
        bytes: &[u8],
        layout: &Layout,
    ) -> Option<&[u8]> {
        let (own, sender) = (fields::destination_mac(bytes), fields::source_mac(bytes));
        let length = message
            .macs(own, sender)
            .link(bytes.get(12..layout.l3.into())?)
            .write(self.buffer.as_mut_slice())
            .ok()?;
        self.buffer.get(..length)
    }

    /// Other limits.
    pub fn configure(&mut self, per_second: u32, per_source: u32) {
        self.limit.per_second = per_second;
        self.limit.per_source = per_source;
    }

    /// Other addresses.
    pub fn set_addresses(&mut self, addresses: [Option<Address>; 2]) {
        [self.address, self.address6] = addresses;
    }

    /// Counts and allowance go on from those before.
    pub fn continue_from(&mut self, before: &Self) {
        (self.errors_sent, self.echoes_answered) = (before.errors_sent, before.echoes_answered);
        self.limited = before.limited;
        self.limit.continue_from(&before.limit);
    }

    fn has_allowance(&mut self, sender: Address, now: Instant) -> bool {
        let has = self.limit.allows(sender, now);
        self.limited += u64::from(!has);
        has
    }
}

/// No route is "network unreachable" in IPv4 and "no route to destination" in IPv6; "communication
/// administratively prohibited" has another code in each, and so has a host, or an address, that is
/// unreachable.
const fn kind(cause: Cause, is_v4: bool) -> IcmpError {
    match cause {
        Cause::TooLong { mtu } => IcmpError::PacketTooBig { mtu },
        Cause::Prohibited if is_v4 => IcmpError::Unreachable { code: 13 },
        Cause::Prohibited => IcmpError::Unreachable { code: 1 },
        Cause::NoRoute => IcmpError::Unreachable { code: 0 },
        Cause::Unreachable if is_v4 => IcmpError::Unreachable { code: 1 },
        Cause::Unreachable => IcmpError::Unreachable { code: 3 },
        Cause::TimeToLive => IcmpError::TimeExceeded { code: 0 },
    }
}

/// Whether an error about a packet may be sent (RFC 1812 §4.3.2.7, RFC 4443 §2.4 e).
fn may_be_told(bytes: &[u8], layout: &Layout) -> bool {
    let is_error = fields::icmp_kind(bytes, layout)
        .is_some_and(|(kind, _)| is_error_or_redirect(layout.network, kind));
    layout.fragment != Fragment::Later
        && !is_error
        && can_be_answered(bytes, layout)
        && is_one_host(fields::destination_address(bytes, layout))
}

/// Errors of IPv6 are all messages below the first that informs; its redirect is none.
fn is_error_or_redirect(network: Network, kind: u8) -> bool {
    match network {
        Network::V6 => kind < icmp::v6::ECHO_REQUEST || kind == icmp::v6::REDIRECT,
        _ => icmp::is_error(network, kind),
    }
}

fn is_echo_request(packet: &Packet) -> bool {
    let (bytes, layout) = (packet.bytes(), &packet.layout);
    let request = match layout.network {
        Network::V6 => icmp::v6::ECHO_REQUEST,
        _ => icmp::v4::ECHO_REQUEST,
    };
    layout.fragment == Fragment::Whole
        && fields::icmp_kind(bytes, layout) == Some((request, 0))
        && can_be_answered(bytes, layout)
        && verify_transport_checksum(bytes, layout)
}

/// Whether one host sent it to one station, and the way back is known.
fn can_be_answered(bytes: &[u8], layout: &Layout) -> bool {
    let MacAddress([first, ..]) = fields::destination_mac(bytes);
    let sender = fields::source_address(bytes, layout);
    first & 1 == 0 && is_one_host(sender) && !layout::has_labels(bytes)
}

/// Not unspecified, loopback, multicast or broadcast.
fn is_one_host(address: Address) -> bool {
    match address.is_v4() {
        true => !matches!(address.octets4()[0], 0 | 127 | 224..),
        // The loopback address is 1, the unspecified one 0.
        false => address.0 > 1 && address.octets16()[0] != 0xff,
    }
}
