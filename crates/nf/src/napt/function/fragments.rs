//! Fragments (RFC 4787 REQ-14). Only the first of a datagram has ports: it is translated like a
//! whole packet, and what became of its addresses is remembered for those that follow. Where a host
//! has one external address, what it sends needs no ports. Others that come before the first of their
//! datagram are [held](Held) until it comes.
//!
//! Hosts that share an address number their datagrams as they like, so that fragments of two of them
//! could be put together. Those that leave get other identifications, by a difference that
//! follows from both ends (RFC 7857 §10, RFC 6864 §5.3.1): datagrams of a host stay apart, and two
//! hosts' numbers meet no more often than random ones. Whole packets keep theirs.

use super::super::kind::Kind;
use super::super::sides::Course;
use super::Napt;
use super::datagram::Datagram;
use super::held::Held;
use crate::seeded::{Seed, SeededMap};
use std::collections::VecDeque;
use std::time::Duration;
use twinpath_core::HashKey;
use twinpath_core::wire::ipv4::Ipv4View;
use twinpath_core::wire::ipv6::Ipv6View;
use twinpath_core::wire::{
    Address, Endpoint, Fragment, Layout, Network, Transport, dissect, fields, icmp, rewrite,
};
use twinpath_core::{Instant, Packet};
use twinpath_rulecache::{Answers, Recorded, Verdict};

/// Most datagrams whose further fragments are waited for; the oldest gives way.
const MAX_DATAGRAMS: usize = 4096;
/// How long they are waited for after the first: what a receiver waits at least (RFC 1122
/// §3.3.2).
const LIFETIME: Duration = Duration::from_secs(60);

/// A fragment of a datagram.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub datagram: Datagram,
    /// Of the first, whose ports count; others have none.
    pub kind: Option<Kind>,
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
pub(crate) struct Fragments {
    known: SeededMap<Datagram, (Address, Address)>,
    /// In the order of their first fragments.
    since: VecDeque<(Instant, Datagram)>,
    pub held: Held,
    hash_key: HashKey,
}

impl Fragments {
    pub fn new(seed: u64) -> Self {
        Self {
            hash_key: HashKey::new(seed),
            known: SeededMap::with_hasher(Seed::new(seed)),
            since: VecDeque::new(),
            held: Held::default(),
        }
    }

    pub fn remember(&mut self, datagram: Datagram, addresses: (Address, Address), now: Instant) {
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

    pub fn addresses(&mut self, datagram: &Datagram, now: Instant) -> Option<(Address, Address)> {
        self.forget_old(now);
        self.known.get(datagram).copied()
    }
}

impl Fragments {
    /// The difference between identifications inside and outside of what one host sends another.
    fn difference(&self, datagram: &Datagram) -> u16 {
        let [source, destination] = [datagram.source.0, datagram.destination.0];
        let halves = |address: u128| [(address >> 64) as u64, address as u64];
        let ([a, b], [c, d]) = (halves(source), halves(destination));
        let protocol = datagram.protocol.unwrap_or(0).into();
        self.hash_key.hash([a, b, c, d, protocol]) as u16
    }
}

impl Napt {
    /// Translates a fragment of a datagram whose first one has come, or is this, or that needs none.
    pub(super) fn translate_fragment(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        part: Part,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Verdict {
        if course.is_past() {
            return Verdict::Forward;
        }
        let Part { datagram, kind } = part;
        let verdict = match kind {
            Some(kind) => self.lead(packet, course, kind, &datagram, now),
            None => self.follow(packet, course, &datagram, now),
        };
        match verdict {
            Verdict::Forward => {
                self.counters.fragments_translated += 1;
                let packet = packet.whole();
                let layout = packet.layout;
                self.renumber(packet.frame.bytes_mut(), &layout, course, &datagram);
                if kind.is_some() {
                    self.let_go(packet, course, &datagram, now, answers);
                }
            }
            Verdict::Drop(_) if kind.is_some() => self.fragments.held.give_up(&datagram, now),
            _ => {}
        }
        verdict
    }

    /// What came before the first of its datagram follows it, with its addresses.
    fn let_go(
        &mut self,
        first: &Packet,
        course: Course,
        datagram: &Datagram,
        now: Instant,
        answers: &mut Answers<'_>,
    ) {
        let [source, destination] = [first.source().address, first.destination().address];
        let mut held = std::mem::take(&mut self.fragments.held);
        held.release(datagram, now, |bytes| {
            let Ok(layout) = dissect(bytes) else {
                return;
            };
            // They are of the version of the first.
            let _ = rewrite::set_source(bytes, &layout, Endpoint::new(source, 0));
            let _ = rewrite::set_destination(bytes, &layout, Endpoint::new(destination, 0));
            self.renumber(bytes, &layout, course, datagram);
            self.counters.fragments_translated += u64::from(answers.follow(bytes));
        });
        self.fragments.held = held;
    }

    /// Gives what leaves another identification, if it is IPv4: one of IPv6 has 32 bits, and is chosen
    /// at random.
    fn renumber(&self, bytes: &mut [u8], layout: &Layout, course: Course, datagram: &Datagram) {
        if matches!(course, Course::Out | Course::Hairpin(_)) {
            let difference = self.fragments.difference(datagram);
            let identification = datagram.identification as u16 ^ difference;
            // Others are left as they are.
            let _ = rewrite::set_identification(bytes, layout, identification);
        }
    }

    /// Translates the first of a datagram.
    fn lead(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        kind: Kind,
        datagram: &Datagram,
        now: Instant,
    ) -> Verdict {
        let verdict = self.translate(packet, course, kind, now);
        if verdict == Verdict::Forward {
            let headers = packet.headers();
            let addresses = (headers.source, headers.destination);
            self.fragments.remember(*datagram, addresses, now);
        }
        verdict
    }

    /// Translates another one.
    fn follow(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        datagram: &Datagram,
        now: Instant,
    ) -> Verdict {
        let known = self.fragments.addresses(datagram, now);
        let Some((source, destination)) = known.or_else(|| self.without_ports(course, datagram))
        else {
            self.fragments
                .held
                .keep(*datagram, packet.quote().bytes(), now);
            return Verdict::Consumed;
        };
        packet.set_source_address(source);
        packet.set_destination_address(destination);
        Verdict::Forward
    }

    /// The addresses of a datagram whose first fragment has not come, where they follow from those
    /// that it has.
    fn without_ports(&self, course: Course, datagram: &Datagram) -> Option<(Address, Address)> {
        let own = |host| self.external.only_address(host);
        let host = |external| self.external.forwards().host(external);
        match course {
            Course::Past | Course::Direct => None,
            Course::Out => Some((own(datagram.source)?, datagram.destination)),
            Course::In(_) => Some((datagram.source, host(datagram.destination)?)),
            Course::Hairpin(_) => Some((own(datagram.source)?, host(datagram.destination)?)),
        }
    }
}
