//! Fragments (RFC 4787 REQ-14). Only the first of a datagram has ports: it is translated like a
//! whole packet, and what became of its addresses is remembered for those that follow. Where a host
//! has one external address, what it sends needs no ports. Others that come before the first of their
//! datagram are [held](Held) until it comes.
//!
//! Fragments of what leaves bear a number that is [drawn](twinpath_core::identifications) for
//! their datagram: with the one that comes first, whichever part it is.

use super::super::sides::Course;
use super::Napt;
use super::datagram::Datagram;
use super::held::Held;
use crate::records::Kind;
use crate::seeded::{Seed, SeededMap};
use std::collections::VecDeque;
use std::time::Duration;
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

/// What the fragments of a datagram get.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct FragmentTranslation {
    pub source: Address,
    pub destination: Address,
    /// Theirs if there is none.
    pub identification: Option<u16>,
    /// Whether its first has come: another is that of another datagram.
    pub is_led: bool,
    /// The other shard that they go on in, if they do.
    pub shard: Option<u16>,
}

/// What became of datagrams whose fragments come.
#[derive(Debug)]
pub(crate) struct Fragments {
    known: SeededMap<Datagram, FragmentTranslation>,
    /// In the order of their first fragments.
    since: VecDeque<(Instant, Datagram)>,
    pub held: Held,
}

impl Fragments {
    pub fn new(seed: u64) -> Self {
        Self {
            known: SeededMap::with_hasher(Seed::new(seed)),
            since: VecDeque::new(),
            held: Held::default(),
        }
    }

    pub fn remember(&mut self, datagram: Datagram, became: FragmentTranslation, now: Instant) {
        self.forget_old(now);
        if self.known.insert(datagram, became).is_none() {
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

    /// What became of a datagram.
    pub fn became(&mut self, datagram: &Datagram, now: Instant) -> Option<FragmentTranslation> {
        self.forget_old(now);
        self.known.get(datagram).copied()
    }

    /// Remembers what became of the first of a datagram, which has this number. Returns the number
    /// of those that came before it, if there were any.
    pub fn lead(
        &mut self,
        datagram: Datagram,
        became: FragmentTranslation,
        now: Instant,
    ) -> FragmentTranslation {
        let known = self.became(&datagram, now).filter(|known| !known.is_led);
        let identification = known.and_then(|known| known.identification);
        let became = FragmentTranslation {
            identification: identification.or(became.identification),
            is_led: true,
            ..became
        };
        self.remember(datagram, became, now);
        became
    }
}

impl FragmentTranslation {
    /// Rewrites a fragment.
    pub fn rewrite(&self, bytes: &mut [u8], layout: &Layout) {
        // They are of the version of the first.
        let _ = rewrite::set_source(bytes, layout, Endpoint::new(self.source, 0));
        let _ = rewrite::set_destination(bytes, layout, Endpoint::new(self.destination, 0));
        self.number(bytes, layout);
    }

    /// Gives it the datagram's number.
    pub fn number(&self, bytes: &mut [u8], layout: &Layout) {
        if let Some(identification) = self.identification {
            // Only what is IPv4 has one.
            let _ = rewrite::set_identification(bytes, layout, identification);
        }
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
                if kind.is_some() {
                    self.let_go(&datagram, now, answers);
                }
            }
            Verdict::Drop(_) if kind.is_some() => self.fragments.held.give_up(&datagram, now),
            _ => {}
        }
        verdict
    }

    /// What came before the first of its datagram follows it, with its addresses.
    fn let_go(&mut self, datagram: &Datagram, now: Instant, answers: &mut Answers<'_>) {
        let Some(became) = self.fragments.became(datagram, now) else {
            return;
        };
        let mut held = std::mem::take(&mut self.fragments.held);
        held.release(datagram, now, |bytes| {
            if let Ok(layout) = dissect(bytes) {
                became.rewrite(bytes, &layout);
                self.counters.fragments_translated += u64::from(answers.release(bytes));
            }
        });
        self.fragments.held = held;
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
            let packet = packet.whole();
            let became = self.became(packet, course, datagram);
            let became = self.fragments.lead(*datagram, became, now);
            let layout = packet.layout;
            became.number(packet.frame.bytes_mut(), &layout);
        }
        verdict
    }

    /// What a fragment became that has its addresses and, if any is drawn, its number.
    fn became(&self, packet: &Packet, course: Course, datagram: &Datagram) -> FragmentTranslation {
        let leaves = matches!(course, Course::Out | Course::Hairpin(_) | Course::Across(_));
        let is_numbered = leaves && self.external.shares_address(datagram.source);
        let identification = fields::identification(packet.bytes(), &packet.layout);
        FragmentTranslation {
            source: packet.source().address,
            destination: packet.destination().address,
            identification: identification.filter(|_| is_numbered),
            is_led: false,
            shard: match course {
                Course::Across(shard) => Some(shard),
                _ => None,
            },
        }
    }

    /// Translates another one.
    fn follow(
        &mut self,
        packet: &mut Recorded<'_>,
        course: Course,
        datagram: &Datagram,
        now: Instant,
    ) -> Verdict {
        if let Some(known) = self.fragments.became(datagram, now) {
            let packet = packet.whole();
            let layout = packet.layout;
            known.rewrite(packet.frame.bytes_mut(), &layout);
            return Verdict::Forward;
        }
        let Some((source, destination)) = self.without_ports(course, datagram) else {
            let bytes = packet.quote().bytes();
            self.fragments.held.keep(*datagram, bytes, now);
            return Verdict::Consumed;
        };
        packet.set_source_address(source);
        packet.set_destination_address(destination);
        self.number(packet, datagram.source);
        let became = self.became(packet.whole(), course, datagram);
        self.fragments.remember(*datagram, became, now);
        Verdict::Forward
    }

    /// The addresses of a datagram whose first fragment has not come, where they follow from those
    /// that it has.
    fn without_ports(&self, course: Course, datagram: &Datagram) -> Option<(Address, Address)> {
        let own = |host| self.external.only_address(host);
        let host = |external| self.external.forwards().host(external);
        match course {
            Course::Past | Course::Direct | Course::Across(_) => None,
            Course::Out => Some((own(datagram.source)?, datagram.destination)),
            Course::In(_) => Some((datagram.source, host(datagram.destination)?)),
            Course::Hairpin(_) => Some((own(datagram.source)?, host(datagram.destination)?)),
        }
    }
}
