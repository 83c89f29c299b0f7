//! The router at work.

use super::config::{Config, NextHop, NoRoute};
use super::errors::{Cause, Errors};
use super::region::Regions;
use super::route_file::DISCARD;
use super::routes::{self, RouterError};
use std::error::Error;
use std::path::Path;
use twinpath_classify::Prefix;
use twinpath_classify::lpm::RouteTable;
use twinpath_core::wire::Network;
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::{Affected, Answers, Hits, Reconfigure, Recorded, RuleFunction, Verdict};

/// What packets without a route are credited to; next hops and regions have other numbers.
const NO_ROUTE: u32 = DISCARD - 1;

/// Addresses are examined in steps of so many bits, so that cached rules share few masks.
const STEP_BITS: u8 = 8;

/// An IP router; see the [module](super).
pub struct Router {
    table: RouteTable,
    hops: Vec<Hop>,
    regions: Regions,
    /// Whether packets without a route may be answered.
    quotes_payloads: bool,
    no_route: NoRoute,
    errors: Errors,
    counters: Counters,
}

/// A next hop with what it was sent.
#[derive(Debug)]
struct Hop {
    next_hop: NextHop,
    packets: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Counters {
    no_route: u64,
    discarded: u64,
    expired: u64,
    not_ip: u64,
    /// What next hops got that are no more.
    retired_packets: u64,
    retired_bytes: u64,
}

/// A change of the routes or of a next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Packets to the prefix go to the next hop with this number, or nowhere.
    SetRoute(Prefix, Option<u32>),
    /// There is no route to the prefix any more.
    RemoveRoute(Prefix),
    /// The next hop with this number is another one.
    SetNextHop(u32, NextHop),
}

/// What becomes of the routes while packets flow.
pub enum NewRoutes {
    /// Another router takes this one's place; counts go on, those of next hops by name.
    Whole(Box<Router>),
    /// These changes are made in order, all of them or, if one cannot be made, none.
    Changes(Vec<Change>),
}

const fn route_before(prefix: Prefix, number: Option<u32>) -> Change {
    match number {
        None => Change::RemoveRoute(prefix),
        Some(DISCARD) => Change::SetRoute(prefix, None),
        number => Change::SetRoute(prefix, number),
    }
}

impl Router {
    /// A router with the routes of its configuration; relative paths start from `folder`.
    ///
    /// # Errors
    /// A file of routes that cannot be read or is wrong, or more routes than there may be.
    pub fn new(config: &Config, folder: &Path) -> Result<Self, RouterError> {
        let table = routes::fill(config, folder)?;
        let hop = |next_hop: &NextHop| Hop {
            next_hop: next_hop.clone(),
            packets: 0,
            bytes: 0,
        };
        Ok(Self {
            regions: Regions::for_routes(table.len()),
            table,
            hops: config.next_hops.iter().map(hop).collect(),
            no_route: config.no_route,
            quotes_payloads: config.quotes_payloads(),
            errors: Errors::new(config.address, config.address6, config.errors_per_second),
            counters: Counters::default(),
        })
    }

    /// The next hops in the order of their numbers, with the packets and bytes that each was sent.
    pub fn next_hops(&self) -> impl Iterator<Item = (&NextHop, u64, u64)> {
        self.hops
            .iter()
            .map(|hop| (&hop.next_hop, hop.packets, hop.bytes))
    }

    /// The number of the next hop with this name.
    pub fn next_hop(&self, name: &str) -> Option<u32> {
        let place = self.hops.iter().position(|hop| hop.next_hop.name == name);
        place.and_then(|place| u32::try_from(place).ok())
    }

    /// Calls `each` with the entries that a change concerns.
    fn each_entry(&self, change: &Change, each: &mut dyn FnMut(u32)) {
        match change {
            Change::SetRoute(prefix, _) | Change::RemoveRoute(prefix) => {
                self.regions.each_in(*prefix, each)
            }
            Change::SetNextHop(number, _) => each(*number),
        }
    }

    /// Makes a change; returns the one that takes it back.
    fn make(&mut self, change: &Change) -> Result<Change, RouterError> {
        match change {
            Change::SetRoute(prefix, number) => {
                if let Some(number) = number {
                    self.hop(*number)?;
                }
                let next_hop = number.unwrap_or(DISCARD);
                let before = routes::insert(&mut self.table, *prefix, next_hop)?;
                Ok(route_before(*prefix, before))
            }
            Change::RemoveRoute(prefix) => {
                let before = self.table.remove(*prefix);
                Ok(route_before(*prefix, before))
            }
            Change::SetNextHop(number, next_hop) => {
                let hop = self.hop(*number)?;
                let before = std::mem::replace(&mut hop.next_hop, next_hop.clone());
                Ok(Change::SetNextHop(*number, before))
            }
        }
    }

    /// All changes, or none of them.
    fn make_all(&mut self, changes: &[Change]) -> Result<(), RouterError> {
        let mut made = Vec::new();
        for change in changes {
            match self.make(change) {
                Ok(back) => made.push(back),
                Err(error) => {
                    for back in made.iter().rev() {
                        // There is room for what was there before.
                        let _ = self.make(back);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The counts go on from those of the router before.
    fn continue_from(&mut self, before: &mut Self) {
        self.counters = std::mem::take(&mut before.counters);
        self.errors.continue_from(&before.errors);
        for old in &before.hops {
            let is_same = |hop: &&mut Hop| hop.next_hop.name == old.next_hop.name;
            match self.hops.iter_mut().find(is_same) {
                Some(hop) => (hop.packets, hop.bytes) = (old.packets, old.bytes),
                None => {
                    self.counters.retired_packets += old.packets;
                    self.counters.retired_bytes += old.bytes;
                }
            }
        }
    }

    fn hop(&mut self, number: u32) -> Result<&mut Hop, RouterError> {
        let hop = self.hops.get_mut(number as usize);
        hop.ok_or(RouterError::NoSuchNextHop(number))
    }

    /// The number of the packet's next hop, with all that decided it recorded.
    fn route(&self, packet: &mut Recorded<'_>) -> u32 {
        let destination = packet.headers().destination;
        let decision = self.table.lookup_examined(destination);
        let region_bits = self.regions.examined_bits(destination);
        let bits = decision.examined_bits.max(region_bits);
        packet.examined_destination(bits.next_multiple_of(STEP_BITS).min(128));
        packet.depends_on(self.regions.entry(destination), None);
        let number = decision.next_hop.unwrap_or(NO_ROUTE);
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
            self.answer(packet, Cause::TimeToLive, now, answers);
            return Verdict::Drop(DropReason::TimeToLive);
        }
        self.count(number, 1, packet.frame_bytes() as u64);
        if let Some(Hop { next_hop, .. }) = self.hops.get(number as usize) {
            packet.set_source_mac(next_hop.source_mac);
            packet.set_destination_mac(next_hop.mac);
            packet.set_egress(next_hop.port);
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
            self.answer(packet, Cause::NoRoute, now, answers);
        }
        Verdict::Drop(DropReason::NoRoute)
    }

    fn answer(
        &mut self,
        packet: &mut Recorded<'_>,
        cause: Cause,
        now: Instant,
        answers: &mut Answers<'_>,
    ) {
        if let Some(error) = self.errors.about(packet.quote(), cause, now)
            && answers.reply(error)
        {
            self.errors.sent += 1;
        }
    }

    fn count(&mut self, entry: u32, packets: u64, bytes: u64) {
        match entry {
            NO_ROUTE => self.counters.no_route += packets,
            DISCARD => self.counters.discarded += packets,
            number => {
                if let Some(hop) = self.hops.get_mut(number as usize) {
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
        if !packet.is_plain() && packet.quote().layout.network == Network::None {
            self.counters.not_ip += 1;
            return Verdict::Drop(DropReason::NoRoute);
        }
        match self.route(packet) {
            NO_ROUTE => self.drop_without_route(packet, now, answers),
            DISCARD => {
                self.count(DISCARD, 1, 0);
                Verdict::Drop(DropReason::NoRoute)
            }
            number => self.forward(packet, number, now, answers),
        }
    }

    fn credit(&mut self, entry: u32, hits: &Hits) {
        self.count(entry, hits.packets, hits.bytes);
    }

    fn reads_payload(&self) -> bool {
        self.quotes_payloads
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let packets: u64 = self.hops.iter().map(|hop| hop.packets).sum();
        let bytes: u64 = self.hops.iter().map(|hop| hop.bytes).sum();
        each("forwarded", packets + self.counters.retired_packets);
        each("forwarded_bytes", bytes + self.counters.retired_bytes);
        each("no_route", self.counters.no_route);
        each("discarded", self.counters.discarded);
        each("expired", self.counters.expired);
        each("errors_sent", self.errors.sent);
        each("errors_limited", self.errors.limited);
        each("not_ip", self.counters.not_ip);
        each("routes", self.table.len() as u64);
    }
}

impl Reconfigure for Router {
    type New = NewRoutes;

    fn affected_by(&self, new: &NewRoutes) -> Affected {
        let NewRoutes::Changes(changes) = new else {
            return Affected::Everything;
        };
        let mut entries = Vec::new();
        for change in changes {
            self.each_entry(change, &mut |entry| entries.push(entry));
        }
        entries.sort_unstable();
        entries.dedup();
        Affected::Entries(entries)
    }

    fn apply(&mut self, new: &mut NewRoutes) -> Result<(), Box<dyn Error + Send + Sync>> {
        match new {
            NewRoutes::Changes(changes) => self.make_all(changes)?,
            NewRoutes::Whole(router) => {
                std::mem::swap(self, router);
                self.continue_from(router);
            }
        }
        Ok(())
    }
}
