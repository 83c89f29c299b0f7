//! The router at work.

use super::config::{Config, NextHop, NoRoute, Reached};
use super::group::Group;
use super::numbers::{
    BROADCAST, DISCARD, DISCARD_NAME, FIRST_GROUP, LOCAL, NO_ROUTE, PROHIBITED, UNREACHABLE,
};
use super::routes::{self, RouterError};
use crate::files::Disk;
use crate::icmp_messages::{Cause, Icmp};
use crate::rate_limit::RateLimit;
use crate::records::EntryHits;
use std::collections::HashMap;
use std::path::Path;
use twinpath_classify::lpm::RouteTable;
use twinpath_core::wire::{Address, protocol};
use twinpath_core::{DropReason, HashKey, Instant};
use twinpath_rulecache::{Answers, EntryText, Hits, Recorded, RuleFunction, Verdict};

/// Addresses are examined in steps of so many bits, so that cached rules share few masks.
const STEP_BITS: u8 = 8;

/// An IP router; see the [module](super).
pub struct Router {
    pub(super) table: RouteTable,
    /// By number, which one keeps for as long as it is there.
    pub(super) hops: Vec<Option<Hop>>,
    /// Next hops that share the flows of routes, each by its number above [`FIRST_GROUP`].
    pub(super) groups: Vec<Option<Group>>,
    /// Under it flows are spread over next hops.
    pub(super) key: HashKey,
    pub(super) no_route: NoRoute,
    pub(super) icmp: Icmp,
    pub(super) counters: Counters,
}

/// A next hop with what it was sent.
#[derive(Debug)]
pub(super) struct Hop {
    pub next_hop: NextHop,
    pub packets: u64,
    pub bytes: u64,
}

/// A next hop's place, and that of a group behind all of them.
fn number_of(hops: &[Option<Hop>], groups: &[Option<Group>], name: &str) -> Option<u32> {
    let is_hop = |hop: &Option<Hop>| hop.as_ref().is_some_and(|hop| hop.next_hop.name == name);
    let is_group = |group: &Option<Group>| group.as_ref().is_some_and(|group| group.name == name);
    let hop = hops.iter().position(is_hop).map(|place| place as u32);
    let group = || groups.iter().position(is_group);
    hop.or_else(|| group().map(|place| FIRST_GROUP + place as u32))
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    no_route: u64,
    discarded: u64,
    broadcasts: u64,
    unreachable: u64,
    prohibited: u64,
    expired: u64,
    local: u64,
    /// What next hops got that are no more.
    retired_packets: u64,
    retired_bytes: u64,
}

impl Hop {
    pub fn new(next_hop: &NextHop) -> Self {
        Self {
            next_hop: next_hop.clone(),
            packets: 0,
            bytes: 0,
        }
    }
}

impl Counters {
    /// A next hop is no more; what it was sent stays counted.
    pub fn retire(&mut self, hop: &Hop) {
        self.retired_packets += hop.packets;
        self.retired_bytes += hop.bytes;
    }
}

impl Router {
    /// A router with the routes of its configuration; relative paths start from `folder`. Under the
    /// seed senders are told apart that answers are limited to.
    ///
    /// # Errors
    /// A file of routes that cannot be read or is wrong, or more routes than there may be.
    pub fn new(config: &Config, folder: &Path, seed: u64) -> Result<Self, RouterError> {
        let config = &routes::with_file(config, folder, &Disk)?;
        let names = config.next_hop_names();
        let groups = config.groups.iter();
        let groups = groups.map(|group| Some(Group::new(group, |name| names.number(name))));
        let places = (FIRST_GROUP..).zip(&config.groups);
        let group_numbers: HashMap<&str, u32> = places
            .map(|(number, group)| (&*group.name, number))
            .collect();
        let number = |name: &str| {
            let group = || group_numbers.get(name).copied();
            names.number(name).or_else(group)
        };
        Ok(Self {
            table: routes::fill(config, number)?,
            hops: config.next_hops.iter().map(Hop::new).map(Some).collect(),
            groups: groups.collect(),
            key: HashKey::new(seed),
            no_route: config.no_route,
            icmp: Icmp::new(
                [config.address, config.address6],
                RateLimit::new(config.errors_per_second, config.errors_per_source, seed),
            ),
            counters: Counters::default(),
        })
    }

    /// No next hop's number is this large, or larger.
    pub fn hop_bound(&self) -> usize {
        self.hops.len()
    }

    /// What a next hop was sent.
    pub fn hop_hits(&self, number: usize) -> Option<EntryHits> {
        let hop = self.hops.get(number)?.as_ref()?;
        Some(EntryHits {
            rule: None,
            text: format!("next hop {}", hop.next_hop.name),
            packets: hop.packets,
            bytes: Some(hop.bytes),
        })
    }

    /// The next hops in the order of their numbers, with the packets and bytes that each was sent.
    pub fn next_hops(&self) -> impl Iterator<Item = (&NextHop, u64, u64)> {
        let hops = self.hops.iter().flatten();
        hops.map(|hop| (&hop.next_hop, hop.packets, hop.bytes))
    }

    /// The number of the next hop with this name, or of the group.
    pub fn next_hop(&self, name: &str) -> Option<u32> {
        number_of(&self.hops, &self.groups, name)
    }

    /// What routes call the next hop or group with this number, or nowhere.
    fn name_of(&self, number: u32) -> Option<&str> {
        if number == DISCARD {
            return Some(DISCARD_NAME);
        }
        let hop = self.hops.get(number as usize).and_then(Option::as_ref);
        let group = number.checked_sub(FIRST_GROUP);
        let group = group.and_then(|place| self.groups.get(place as usize)?.as_ref());
        let hop = hop.map(|hop| hop.next_hop.name.as_str());
        hop.or_else(|| group.map(|group| group.name.as_str()))
    }

    /// The number of the packet's next hop, with all that decided it recorded.
    fn route(&self, packet: &mut Recorded<'_>) -> u32 {
        let destination = packet.headers().destination;
        let decision = self.table.lookup_examined(destination);
        let bits = decision.examined_bits;
        packet.examined_destination(bits.next_multiple_of(STEP_BITS).min(128));
        let number = decision.next_hop.unwrap_or(NO_ROUTE);
        packet.depends_on(number, None);
        match number.checked_sub(FIRST_GROUP) {
            Some(place) if number < DISCARD - 16 => self.member(packet, place),
            _ => number,
        }
    }

    /// The number of the next hop that is the packet's among those of a group.
    fn member(&self, packet: &mut Recorded<'_>, group: u32) -> u32 {
        let headers = packet.headers();
        packet.examined_source(128);
        packet.examined_destination(128);
        let (from, to) = (headers.source, headers.destination);
        let group = self.groups.get(group as usize).and_then(Option::as_ref);
        let chosen = group.and_then(|group| group.choose(&self.key, from, to));
        let number = chosen.unwrap_or(DISCARD);
        packet.depends_on(number, None);
        number
    }

    fn forward(
        &mut self,
        packet: &mut Recorded<'_>,
        number: u32,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Verdict {
        if !packet.decrement_ttl() {
            self.counters.expired += 1;
            self.icmp.answer(packet, Cause::TimeToLive, now, answers);
            return Verdict::Drop(DropReason::TimeToLive);
        }
        self.count(number, 1, packet.frame_bytes() as u64);
        if let Some(Some(Hop { next_hop, .. })) = self.hops.get(number as usize) {
            if let Reached::ByMac { mac, source_mac } = next_hop.reached {
                packet.set_source_mac(source_mac);
                packet.set_destination_mac(mac);
            }
            packet.set_egress(next_hop.egress());
        }
        Verdict::Forward
    }

    fn drop_without_route(
        &mut self,
        packet: &mut Recorded<'_>,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Verdict {
        self.count(NO_ROUTE, 1, 0);
        if self.no_route == NoRoute::Unreachable {
            self.icmp.answer(packet, Cause::NoRoute, now, answers);
        }
        Verdict::Drop(DropReason::NoRoute)
    }

    /// A route says that a packet goes nowhere, and what its sender hears.
    fn refuse(
        &mut self,
        packet: &mut Recorded<'_>,
        entry: u32,
        cause: Cause,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Verdict {
        self.count(entry, 1, 0);
        self.icmp.answer(packet, cause, now, answers);
        Verdict::Drop(DropReason::NoRoute)
    }

    /// A packet is for the router itself, which answers echoes and nothing else.
    fn deliver(
        &mut self,
        packet: &mut Recorded<'_>,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Verdict {
        self.count(LOCAL, 1, 0);
        let is_icmp = matches!(packet.protocol(), protocol::ICMP | protocol::ICMP6);
        if is_icmp
            && let Some(reply) = self.icmp.echo_of(packet.quote(), now)
            && answers.reply(reply)
        {
            self.icmp.echoes_answered += 1;
            return Verdict::Consumed;
        }
        Verdict::Drop(DropReason::ForRouter)
    }

    fn count(&mut self, entry: u32, packets: u64, bytes: u64) {
        match entry {
            NO_ROUTE => self.counters.no_route += packets,
            DISCARD => self.counters.discarded += packets,
            BROADCAST => self.counters.broadcasts += packets,
            UNREACHABLE => self.counters.unreachable += packets,
            PROHIBITED => self.counters.prohibited += packets,
            LOCAL => self.counters.local += packets,
            number => {
                if let Some(Some(hop)) = self.hops.get_mut(number as usize) {
                    hop.packets += packets;
                    hop.bytes += bytes;
                }
            }
        }
    }
}

impl RuleFunction for Router {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn handle(
        &mut self,
        packet: &mut Recorded<'_>,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Verdict {
        match self.route(packet) {
            LOCAL => self.deliver(packet, now, answers),
            NO_ROUTE => self.drop_without_route(packet, now, answers),
            DISCARD => {
                self.count(DISCARD, 1, 0);
                Verdict::Drop(DropReason::NoRoute)
            }
            BROADCAST => {
                self.count(BROADCAST, 1, 0);
                Verdict::Drop(DropReason::Broadcast)
            }
            UNREACHABLE => self.refuse(packet, UNREACHABLE, Cause::NoRoute, now, answers),
            PROHIBITED => self.refuse(packet, PROHIBITED, Cause::Prohibited, now, answers),
            number => self.forward(packet, number, now, answers),
        }
    }

    fn credit(&mut self, entry: u32, hits: &Hits) {
        self.count(entry, hits.packets, hits.bytes);
    }

    fn entry(&self, entry: u32) -> Option<EntryText> {
        let hop = self.hops.get(entry as usize).and_then(Option::as_ref);
        Some(EntryText::other(match (entry, hop) {
            (DISCARD, _) => "discard".into(),
            (NO_ROUTE, _) => "no route".into(),
            (BROADCAST, _) => "all hosts of a network".into(),
            (UNREACHABLE, _) => "unreachable".into(),
            (PROHIBITED, _) => "prohibited".into(),
            (LOCAL, _) => "an address of the router itself".into(),
            (number, None) if number >= FIRST_GROUP => {
                let place = (number - FIRST_GROUP) as usize;
                let group = self.groups.get(place).and_then(Option::as_ref);
                format!("next hops {}", group?.name)
            }
            (_, hop) => format!("next hop {}", hop?.next_hop.name),
        }))
    }

    fn entry_towards(&self, entry: u32, destination: Address) -> Option<EntryText> {
        let route = self.table.route(destination);
        // Behind a group is one of its next hops, which no route leads to by itself.
        let Some((prefix, _)) = route.filter(|(_, number)| *number == entry) else {
            return self.entry(entry);
        };
        Some(EntryText::other(match self.name_of(entry) {
            Some(name) => format!("route {prefix} via {name}"),
            None => format!("route {prefix}: {}", self.entry(entry)?.text),
        }))
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let packets: u64 = self.next_hops().map(|(_, packets, _)| packets).sum();
        let bytes: u64 = self.next_hops().map(|(_, _, bytes)| bytes).sum();
        each("forwarded", packets + self.counters.retired_packets);
        each("forwarded_bytes", bytes + self.counters.retired_bytes);
        each("no_route", self.counters.no_route);
        each("discarded", self.counters.discarded);
        each("broadcasts", self.counters.broadcasts);
        each("unreachable", self.counters.unreachable);
        each("prohibited", self.counters.prohibited);
        each("expired", self.counters.expired);
        each("local", self.counters.local);
        each("echoes_answered", self.icmp.echoes_answered);
        each("errors_sent", self.icmp.errors_sent);
        each("answers_limited", self.icmp.limited);
        each("routes", self.table.len() as u64);
    }
}
