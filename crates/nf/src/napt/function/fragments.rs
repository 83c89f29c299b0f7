//! Fragments (RFC 4787 REQ-14). Only the first of a datagram has ports: it is translated like a
//! whole packet, and what became of its addresses is remembered for those that follow.

use super::super::ports::Kind;
use super::super::sides::Course;
use super::Napt;
use crate::seeded::{Seed, SeededMap};
use std::collections::VecDeque;
use std::time::Duration;
use twinpath_core::wire::ipv4::Ipv4View;
use twinpath_core::wire::ipv6::Ipv6View;
use twinpath_core::wire::{Address, Fragment, Network, Transport, fields, icmp};
use twinpath_core::{DropReason, Instant, Packet};
use twinpath_rulecache::{Recorded, Verdict};

/// Most datagrams whose further fragments are waited for; the oldest gives way.
const MAX_DATAGRAMS: usize = 4096;
/// How long they are waited for after the first: what a receiver waits at least (RFC 1122
/// §3.3.2).
const LIFETIME: Duration = Duration::from_secs(60);

/// What fragments of one datagram have in common.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Datagram {
    source: Address,
    destination: Address,
    /// Of IPv4 alone: that of a later fragment of IPv6 may be another than the first one's.
    protocol: Option<u8>,
    identification: u32,
}

/// A fragment of a datagram.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    datagram: Datagram,
    /// Of the first, whose ports count; others have none.
    kind: Option<Kind>,
}

impl Part {
    /// What a packet is a fragment of; `None` for a first one without ports.
    pub fn of(packet: &Packet, kind: Option<Kind>) -> Option<Self> {
        let layout = &packet.layout;
        let is_first = layout.fragment == Fragment::First;
        let kind = kind.filter(|_| is_first && has_ports(packet));
        let is_v4 = layout.network == Network::V4;
        let datagram = Datagram {
            source: packet.source().address,
            destination: packet.destination().address,
            protocol: is_v4.then_some(layout.protocol),
            identification: identification(packet)?,
        };
        (kind.is_some() || !is_first).then_some(Self { datagram, kind })
    }
}

fn identification(packet: &Packet) -> Option<u32> {
    let datagram = packet.bytes().get(usize::from(packet.layout.l3)..)?;
    match packet.layout.network {
        Network::V4 => Some(Ipv4View::new_quoted(datagram).ok()?.identification().into()),
        Network::V6 => {
            let view = Ipv6View::new_quoted(datagram).ok()?;
            view.extensions().ok()?.identification
        }
        Network::None => None,
    }
}

fn has_ports(packet: &Packet) -> bool {
    let (bytes, layout) = (packet.bytes(), &packet.layout);
    match layout.transport {
        Transport::Tcp | Transport::Udp => true,
        _ => fields::icmp_kind(bytes, layout)
            .is_some_and(|(kind, _)| icmp::is_echo(layout.network, kind)),
    }
}

/// The addresses that fragments get.
#[derive(Debug)]
pub(super) struct Fragments {
    known: SeededMap<Datagram, (Address, Address)>,
    /// In the order of their first fragments.
    since: VecDeque<(Instant, Datagram)>,
}

impl Fragments {
    pub fn new(seed: u64) -> Self {
        Self {
            known: SeededMap::with_hasher(Seed::new(seed)),
            since: VecDeque::new(),
        }
    }

    fn remember(&mut self, datagram: Datagram, addresses: (Address, Address), now: Instant) {
        self.forget_old(now);
        if self.known.insert(datagram, addresses).is_none() {
            self.since.push_back((now, datagram));
        }
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some(&(since, oldest)) = self.since.front()
            && (now.since(since) > LIFETIME || self.since.len() >= MAX_DATAGRAMS)
        {
            self.since.pop_front();
            self.known.remove(&oldest);
        }
    }

    fn addresses(&mut self, datagram: &Datagram, now: Instant) -> Option<(Address, Address)> {
        self.forget_old(now);
        self.known.get(datagram).copied()
    }
}

impl Napt {
    /// Translates a fragment of a datagram whose first one has come, or is this.
    pub(super) fn translate_fragment(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        part: Part,
        now: Instant,
    ) -> Verdict {
        let Part { datagram, kind } = part;
        let Some(kind) = kind else {
            return self.follow(packet, course, &datagram, now);
        };
        let verdict = self.translate(packet, course, kind, now);
        if verdict == Verdict::Forward && course != Course::Past {
            let headers = packet.headers();
            let addresses = (headers.source, headers.destination);
            self.fragments.remember(datagram, addresses, now);
            self.counters.fragments_translated += 1;
        }
        verdict
    }

    fn follow(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        datagram: &Datagram,
        now: Instant,
    ) -> Verdict {
        if course == Course::Past {
            return Verdict::Forward;
        }
        let Some((source, destination)) = self.fragments.addresses(datagram, now) else {
            self.counters.fragments_early += 1;
            return Verdict::Drop(DropReason::Fragment);
        };
        packet.set_source_address(source);
        packet.set_destination_address(destination);
        self.counters.fragments_translated += 1;
        Verdict::Forward
    }
}
