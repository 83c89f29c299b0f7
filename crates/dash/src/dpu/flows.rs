//! From a packet to its flow, or to a new one.

use twinpath_core::Instant;
use twinpath_core::icmp_errors::{Refusal, judge};
use twinpath_core::wire::layout::{Fragment, Layout, Transport};
use twinpath_core::wire::tunnel::entropy_of;
use twinpath_core::wire::{fields, protocol};

use super::asking::datagram_of;
use super::errors::Translation;
use super::icmp::IcmpRole;
use super::limit::later;
use super::{CONNECTION_BURST_NS, Dpu, Stop, Treated, Treatment};
use crate::counters::EniCounters;
use crate::flows::{Entry, EntryKey, EntryNumber, FirstFragment, State, opens};
use crate::headers::{Direction, Headers};
use crate::pipeline::{Action, Arrival, Policies, PolicyDecision, Received};
use crate::reason::Reason;
use crate::settings::Stray;
use crate::tables::{EniEntry, epochs};

/// A flow, as reports show it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FlowView {
    /// Its key in the direction that opened it, and in the other.
    pub keys: [EntryKey; 2],
    /// What is done in either direction.
    pub actions: [Action; 2],
    /// The number of its ENI.
    pub eni: u16,
    /// How far it has come.
    pub state: State,
    /// When a packet last came, in ticks.
    pub last_seen: u32,
}

impl Dpu {
    /// How many flows there are.
    #[must_use]
    pub const fn flow_count(&self) -> usize {
        self.flows.len() / 2
    }

    /// How many flows an ENI has.
    #[must_use]
    pub fn flows_of(&self, number: u16) -> u32 {
        self.flow_counts.of(number)
    }

    /// Memory that flows take, in bytes, with the actions that they share.
    #[must_use]
    pub fn flow_memory_bytes(&self) -> usize {
        self.flows.memory_bytes() + self.actions.memory_bytes()
    }

    /// Takes the memory of flows now, before packets could wait for it.
    pub fn touch(&mut self) {
        self.flows.touch();
    }

    /// All flows.
    pub fn flows(&self) -> impl Iterator<Item = FlowView> + '_ {
        self.flows_from(0, self.flows.places())
    }

    /// How many places the table of flows has.
    #[must_use]
    pub fn flow_places(&self) -> usize {
        self.flows.places()
    }

    /// The flows in so many places of the table from one on.
    pub fn flows_from(&self, from: usize, count: usize) -> impl Iterator<Item = FlowView> + '_ {
        let of_enis = |place: &EntryNumber| !self.is_orphan(*place);
        self.flows
            .iter_from(from, count)
            .filter(of_enis)
            .filter_map(|place| {
                let entry = self.flows.get(place);
                let peer = self.flows.get(entry.peer);
                Some(FlowView {
                    keys: [self.flows.key(place), self.flows.key(entry.peer)],
                    actions: [
                        *self.actions.get(entry.action)?,
                        *self.actions.get(peer.action)?,
                    ],
                    eni: entry.eni,
                    state: State::of(entry.state),
                    last_seen: later(entry.last_seen, peer.last_seen),
                })
            })
    }

    /// The hash of a packet's flow, as far as it can be known before it is treated.
    #[inline]
    pub(super) fn hash(&self, frame: &[u8], received: &Received) -> u64 {
        let inside = frame.get(received.tunnel.inner()).unwrap_or(&[]);
        let arrival = &received.arrival;
        let serial = self.tables.eni(arrival.eni).map_or(0, |eni| eni.serial);
        let ports = received.key_ports(inside);
        let key = EntryKey::new(serial, received.arrival.way, &arrival.headers, ports);
        self.flows.hash(&key)
    }

    /// Asks the processor to fetch what a packet will probably need that opens a flow: room for it, what
    /// answers are looked for by, and the mapping of its destination in the ENI's own network. Returns the
    /// hash that answers will probably have.
    pub(super) fn fetch_for_new(
        &self,
        (way, eni): (Direction, u16),
        headers: &Headers,
        hash: u64,
    ) -> Option<u64> {
        let eni = self.tables.eni(eni)?;
        let ports = headers.ports.unwrap_or([0; 2]);
        let key = EntryKey::new(eni.serial, way, headers, ports);
        let answers = self.flows.hash(&key.turned(way.turned()));
        self.flows.prefetch_tags(answers);
        self.flows.prefetch_room(hash);
        let far_end = match way {
            Direction::Outbound => headers.destination,
            Direction::Inbound => headers.source,
        };
        self.tables.mappings().prefetch(eni.vnet, far_end);
        Some(answers)
    }

    /// What is done to a packet. Its [`hash`](Self::hash) may be known already.
    pub(super) fn treatment(
        &mut self,
        inside: &[u8],
        received: &mut Received,
        known_hash: Option<u64>,
        now: Instant,
    ) -> Result<Treatment, Stop> {
        let number = received.arrival.eni;
        let eni = self.tables.eni(number).ok_or(Reason::EniMiss)?;
        let serial = eni.serial;
        if matches!(received.inner.transport, Transport::Icmp | Transport::Icmp6) {
            if let Some(redirect) = self.redirect_in(inside, received) {
                return Err(self.redirected(&redirect, &received.arrival, now));
            }
            if received.inner.inner.is_some() {
                return self.treatment_of_error(inside, received, now);
            }
        }
        let role = match received.inner.fragment {
            Fragment::Later => None,
            _ => IcmpRole::of(inside, &received.inner)?,
        };
        let ports = match received.inner.fragment {
            Fragment::Later => {
                let first = self.first_of_later(inside, received, now)?;
                received.arrival.headers.protocol = first.protocol;
                first.ports
            }
            _ => received.key_ports(inside),
        };
        let headers = received.arrival.headers;
        let addresses = [headers.source, headers.destination];
        received.arrival.entropy = entropy_of(addresses, ports, headers.protocol);
        let key = EntryKey::new(serial, received.arrival.way, &headers, ports);
        let tcp_flags = fields::tcp_flags(inside, &received.inner);
        // Before its datagram was known a later fragment had no ports.
        let hash = match (known_hash, received.inner.fragment) {
            (Some(hash), Fragment::Whole | Fragment::First) => hash,
            _ => self.flows.hash(&key),
        };
        let (key, hash) = self.own_or_answered(key, hash, &received.arrival);
        // Also where the other direction has opened the flow meanwhile.
        self.wait_for_others(&key)?;
        let known = self.live_flow(&key, hash, tcp_flags, now);
        let goes = |place: &EntryNumber| {
            role.is_none_or(|role| role.goes(self.flows.get(*place).is_forward))
        };
        let treatment = match known.filter(goes) {
            Some(place) => self.hit(place, received, tcp_flags, now),
            None => {
                let opens = match role {
                    // The other end's questions may have its key already.
                    Some(role) => role == IcmpRole::Question && known.is_none(),
                    None => headers.protocol != protocol::TCP || opens(tcp_flags),
                };
                self.miss(&key, hash, received, (tcp_flags, opens), now)
            }
        }?;
        if received.inner.fragment == Fragment::First
            && let Some(name) = datagram_of(inside, received)
        {
            let protocol = headers.protocol;
            let first = FirstFragment { ports, protocol };
            let fragments = &mut self.enis[usize::from(number)].fragments;
            fragments[received.arrival.way as usize].learn(name, first, now);
        }
        Ok(treatment)
    }

    /// What the first fragment has told of a later one's datagram.
    fn first_of_later(
        &self,
        inside: &[u8],
        received: &Received,
        now: Instant,
    ) -> Result<FirstFragment, Stop> {
        let name = datagram_of(inside, received).ok_or(Reason::InnerMalformed)?;
        let arrival = &received.arrival;
        // A first fragment that waits is later than any that is known.
        let eni = self.tables.eni(arrival.eni).ok_or(Reason::EniMiss)?;
        self.wait_for_first(&(eni.serial, name))?;
        let fragments = &self.enis[usize::from(arrival.eni)].fragments;
        let first = fragments[received.arrival.way as usize].first(&name, now);
        Ok(first.ok_or(Reason::FragmentAlone)?)
    }

    /// The key of what is of a flow, and its hash. Others may be on a floating NIC's machine's host, or be
    /// brought with its VNI: what is of no flow as the machine's own may be an answer to it.
    pub(super) fn own_or_answered(
        &self,
        key: EntryKey,
        hash: u64,
        arrival: &Arrival,
    ) -> (EntryKey, u64) {
        let may_be_others =
            arrival.direction == Direction::Inbound && key.direction() == Direction::Outbound;
        if !may_be_others || self.flows.find(&key, hash).is_some() {
            return (key, hash);
        }
        let answer = key.going(Direction::Inbound);
        let answer_hash = self.flows.hash(&answer);
        let found = self.flows.find(&answer, answer_hash);
        match found.is_some_and(|place| !self.flows.get(place).is_forward) {
            true => (answer, answer_hash),
            false => (key, hash),
        }
    }

    /// The entry of a key, if its flow is not over.
    fn live_flow(
        &mut self,
        key: &EntryKey,
        hash: u64,
        tcp_flags: u8,
        now: Instant,
    ) -> Option<EntryNumber> {
        let place = self.flows.find(key, hash)?;
        let entry = self.flows.get(place);
        if self.is_over(&entry, key.protocol(), now) {
            self.end(place, |counters| counters.flows_aged += 1);
            return None;
        }
        let is_new = key.protocol() == protocol::TCP && opens(tcp_flags);
        if is_new && State::of(entry.state).has_ended() {
            self.end(place, |_| ());
            return None;
        }
        Some(place)
    }

    pub(super) fn is_over(&self, entry: &Entry, number: u8, now: Instant) -> bool {
        let idle = self.idle.of(number, State::of(entry.state));
        now.ticks_since(entry.last_seen) > idle
            && now.ticks_since(self.flows.get(entry.peer).last_seen) > idle
    }

    /// Whether a flow's ENI is gone: another one may have its number, and no packet has the flow's key any more.
    pub(super) fn is_orphan(&self, place: EntryNumber) -> bool {
        let state = self.enis.get(usize::from(self.flows.get(place).eni));
        state.is_none_or(|state| state.serial != self.flows.key(place).serial())
    }

    /// Ends a flow; `count` tells why, unless its connection has ended itself, which was counted then.
    pub(super) fn end(&mut self, place: EntryNumber, count: impl Fn(&mut EniCounters)) {
        let entry = self.flows.get(place);
        let peer = self.flows.get(entry.peer);
        let serial = self.flows.key(place).serial();
        self.flows.remove(place);
        self.actions.give(entry.action);
        self.actions.give(peer.action);
        let state = self.enis.get_mut(usize::from(entry.eni));
        // A later ENI with the same number has nothing to do with it.
        if let Some(state) = state.filter(|state| state.serial == serial) {
            self.flow_counts.take(entry.eni);
            if !State::of(entry.state).has_ended() {
                count(&mut state.counters);
            }
        }
    }

    /// A packet of a known flow.
    fn hit(
        &mut self,
        place: EntryNumber,
        received: &Received,
        tcp_flags: u8,
        now: Instant,
    ) -> Result<Treatment, Stop> {
        let arrival = &received.arrival;
        let (place, entry) = self.up_to_date(place, arrival, now)?;
        self.saw(place, &entry, received, tcp_flags, now);
        self.enis[usize::from(arrival.eni)].counters.flow_hits += 1;
        Ok(Treatment {
            action: Treated::Flow(entry.action),
            bucket: entry.bucket,
        })
    }

    /// The entry of a packet's flow, as what policies say now, if the packet may come as it does.
    #[inline]
    pub(super) fn up_to_date(
        &mut self,
        place: EntryNumber,
        arrival: &Arrival,
        now: Instant,
    ) -> Result<(EntryNumber, Entry), Stop> {
        let (place, entry) = self.judged_anew(place, arrival.eni, now)?;
        let eni = self.tables.eni(arrival.eni).ok_or(Reason::EniMiss)?;
        let accepts = self.actions.accepts(entry.action);
        let accepts = accepts.ok_or(Reason::NoFlow)?;
        match self
            .policies(eni)
            .accepts(arrival.direction, arrival.key, &accepts)
        {
            true => Ok((place, entry)),
            false => Err(Reason::FlowVni.into()),
        }
    }

    /// The entry of a flow of an ENI's, as what policies say now.
    #[inline]
    pub(super) fn judged_anew(
        &mut self,
        mut place: EntryNumber,
        number: u16,
        now: Instant,
    ) -> Result<(EntryNumber, Entry), Stop> {
        let eni = self.tables.eni(number).ok_or(Reason::EniMiss)?;
        let mut entry = self.flows.get(place);
        let is_stale = entry.stamp != self.tables.stamp(eni, entry.mapping_epoch);
        if is_stale || !self.settings.caching {
            place = self.resimulate(place, &entry, number, now)?;
            entry = self.flows.get(place);
            let is_counted = is_stale && !self.is_moved(place);
            let counters = &mut self.enis[usize::from(number)].counters;
            counters.flows_resimulated += u64::from(is_counted);
        }
        Ok((place, entry))
    }

    /// A packet of a flow came.
    #[inline]
    fn saw(
        &mut self,
        place: EntryNumber,
        entry: &Entry,
        received: &Received,
        tcp_flags: u8,
        now: Instant,
    ) {
        self.flows.touch_entry(place, now.ticks());
        if received.arrival.headers.protocol != protocol::TCP {
            return;
        }
        let before = State::of(entry.state);
        let state = before.after(tcp_flags, entry.is_forward);
        if state.bits() != entry.state {
            for place in [place, entry.peer] {
                let mut entry = self.flows.get(place);
                entry.state = state.bits();
                self.flows.set(place, &entry);
            }
            if state.has_ended() {
                let counters = &mut self.enis[usize::from(entry.eni)].counters;
                counters.flows_closed += u64::from(!before.has_ended());
                let forward = if entry.is_forward { place } else { entry.peer };
                self.keep_deadline(forward);
            }
        }
    }

    pub(super) fn policies<'a>(&'a self, eni: &'a EniEntry) -> Policies<'a> {
        Policies {
            tables: &self.tables,
            settings: &self.settings,
            eni,
            notes: None,
        }
    }

    /// Judges a flow anew. Returns where the entry of the packet is now.
    fn resimulate(
        &mut self,
        place: EntryNumber,
        entry: &Entry,
        number: u16,
        now: Instant,
    ) -> Result<EntryNumber, Stop> {
        let (forward, reverse) = match entry.is_forward {
            true => (place, entry.peer),
            false => (entry.peer, place),
        };
        let opening = self.opening(forward).ok_or(Reason::NoFlow)?;
        let removed = |counters: &mut EniCounters| counters.flows_removed += 1;
        let key = self.flows.key(place);
        self.may_judge(&key, &opening)?;
        let judged = self.judged(&opening);
        let is_refused = matches!(judged, Err(Reason::AclOutbound | Reason::AclInbound));
        // The way that a load balancer has told stays, whatever else policies say.
        if self.is_moved(place) && !is_refused {
            self.keep(place);
            return Ok(place);
        }
        let mut decision = match judged {
            Ok(decision) => decision,
            Err(reason) => {
                self.end(place, removed);
                return Err(reason.into());
            }
        };
        if !self.keep_port(reverse, &mut decision) {
            let key = self.flows.key(forward);
            let chosen = self.choose_port(&key, &mut decision, now);
            chosen.inspect_err(|_| self.end(place, removed))?;
        }
        let keys = [
            self.flows.key(forward),
            answer_key(&self.flows.key(forward), &decision),
        ];
        if keys[1] == self.flows.key(reverse) {
            self.replace(forward, &decision);
            return Ok(place);
        }
        self.end(place, |_| ());
        let inserted = self.insert(keys, number, &decision, entry.state, now);
        let [forward, _] = inserted.inspect_err(|_| {
            if !State::of(entry.state).has_ended() {
                removed(&mut self.enis[usize::from(number)].counters);
            }
        })?;
        match entry.is_forward {
            true => Ok(forward),
            // Answers have other addresses now.
            false => Err(Reason::NoFlow.into()),
        }
    }

    /// The packet that opened a flow, as policies see it.
    pub(super) fn opening(&self, forward: EntryNumber) -> Option<Arrival> {
        let (key, entry) = (self.flows.key(forward), self.flows.get(forward));
        let forward_action = self.actions.get(entry.action)?;
        let reverse = self.actions.get(self.flows.get(entry.peer).action)?;
        let origin = reverse.origin?;
        Some(Arrival {
            direction: origin.direction,
            way: key.direction(),
            eni: entry.eni,
            encapsulation: origin.encapsulation,
            key: origin.key,
            outer_source: origin.outer_source,
            source_mac: origin.source_mac,
            headers: key.headers(),
            entropy: entropy_of(key.addresses(), key.ports(), key.protocol()),
            backend: forward_action.backend(),
        })
    }

    /// Whether a load balancer has told the way of a flow's packets, of either direction.
    fn is_moved(&self, place: EntryNumber) -> bool {
        let entry = self.flows.get(place);
        let numbers = [entry.action, self.flows.get(entry.peer).action];
        let mut actions = numbers
            .into_iter()
            .filter_map(|number| self.actions.get(number));
        actions.any(|action| action.detour.is_some())
    }

    /// Leaves a flow as it is, whatever policies say now. No mapping decides about it any more.
    pub(super) fn keep(&mut self, place: EntryNumber) {
        let entry = self.flows.get(place);
        let Some(eni) = self.tables.eni(entry.eni) else {
            return;
        };
        let stamp = self.tables.stamp(eni, epochs::NONE);
        for place in [place, entry.peer] {
            let entry = Entry {
                stamp,
                mapping_epoch: epochs::NONE,
                ..self.flows.get(place)
            };
            self.flows.set(place, &entry);
        }
    }

    /// What is done from now on to packets of a flow and direction.
    pub(super) fn set_action(&mut self, place: EntryNumber, action: &Action) {
        let before = self.flows.get(place);
        let action = self.actions.take(action);
        self.actions.give(before.action);
        self.flows.set(place, &Entry { action, ..before });
    }

    /// What is done to a flow's packets from now on.
    fn replace(&mut self, forward: EntryNumber, decision: &PolicyDecision) {
        let mut first = self.flows.get(forward);
        let mut second = self.flows.get(first.peer);
        let Some(eni) = self.tables.eni(first.eni) else {
            return;
        };
        let mapping_epoch = decision.mapping_epoch.unwrap_or(epochs::NONE);
        let stamp = self.tables.stamp(eni, mapping_epoch);
        let meters = &mut self.enis[usize::from(first.eni)].counters.meters;
        let bucket = meters.number(decision.meter_class);
        let actions = [&decision.forward, &decision.reverse];
        for (entry, action) in [&mut first, &mut second].into_iter().zip(actions) {
            let number = self.actions.take(action);
            self.actions.give(entry.action);
            entry.action = number;
            (entry.stamp, entry.mapping_epoch, entry.bucket) = (stamp, mapping_epoch, bucket);
        }
        let peer = first.peer;
        self.flows.set(forward, &first);
        self.flows.set(peer, &second);
    }

    /// A packet of no known flow.
    fn miss(
        &mut self,
        key: &EntryKey,
        hash: u64,
        received: &Received,
        (tcp_flags, opens): (u8, bool),
        now: Instant,
    ) -> Result<Treatment, Stop> {
        let arrival = &received.arrival;
        let number = arrival.eni;
        let is_stray = !opens && arrival.headers.protocol == protocol::TCP;
        let refusal = match received.inner.fragment {
            Fragment::Later => Some(Reason::FragmentAlone),
            _ if is_stray && self.settings.stray_tcp == Stray::Drop => Some(Reason::NoFlow),
            _ => None,
        };
        match refusal {
            None => self.may_judge(key, arrival)?,
            Some(Reason::NoFlow) => self.wait_for_opening(key)?,
            Some(_) => {}
        }
        self.enis[usize::from(number)].counters.flow_misses += 1;
        if let Some(reason) = refusal {
            return Err(reason.into());
        }
        if opens {
            self.flows.prefetch_room(hash);
        }
        // What policies refuse is told so, whatever limits say of a flow that it would not get.
        let mut decision = self.judged(arrival)?;
        if !opens {
            // There is no flow that a port could be given to.
            if decision.source_ports.is_some() {
                let is_tcp = arrival.headers.protocol == protocol::TCP;
                let reason = if is_tcp {
                    Reason::NoFlow
                } else {
                    Reason::NatProtocol
                };
                return Err(reason.into());
            }
            let meters = &mut self.enis[usize::from(number)].counters.meters;
            return Ok(Treatment {
                action: Treated::Once(Box::new(decision.forward)),
                bucket: meters.number(decision.meter_class),
            });
        }
        self.has_room(number, now)?;
        self.choose_port(key, &mut decision, now)?;
        self.may_open(number, now)?;
        let state = State::default().after(tcp_flags, true);
        let keys = [*key, answer_key(key, &decision)];
        let [place, _] = self.insert(keys, number, &decision, state.bits(), now)?;
        self.enis[usize::from(number)].counters.flows_created += 1;
        let entry = self.flows.get(place);
        Ok(Treatment {
            action: Treated::Flow(entry.action),
            bucket: entry.bucket,
        })
    }

    /// Whether an ENI may have another flow.
    fn has_room(&mut self, number: u16, now: Instant) -> Result<(), Reason> {
        let eni = self.tables.eni(number).ok_or(Reason::EniMiss)?;
        let limit = eni.limits.flows;
        if limit != 0 && self.flows_below(limit, number, now) >= limit {
            return Err(Reason::FlowLimit);
        }
        let has_room = self.has_room_for(number);
        has_room.then_some(()).ok_or(Reason::FlowTableFull)
    }

    /// Whether the table has room for another flow of an ENI. A quarter of it is divided among all ENIs:
    /// that part is each one's own, whoever else opens how many. When the table is three quarters full, the
    /// rest is for those that have less than their share of the whole.
    fn has_room_for(&self, number: u16) -> bool {
        let (count, most) = (self.flows.len() / 2, self.settings.flows);
        let own = self.flows_of(number);
        if own < self.flow_counts.part() {
            return count < most;
        }
        let is_crowded = count.saturating_mul(4) >= most.saturating_mul(3);
        let share = (most / self.enis_here()).max(1);
        // Each shard knows all ENIs, and has its part of them.
        let kept = self.flow_counts.unused() / self.settings.shards.max(1);
        most.saturating_sub(count) > kept && (!is_crowded || (own as usize) < share)
    }

    /// How many ENIs there are to a shard.
    pub(super) fn enis_here(&self) -> usize {
        let enis = self.tables.eni_count();
        enis.div_ceil(self.settings.shards.max(1)).max(1)
    }

    /// Whether an ENI may open a connection now. What policies refuse does not count: nobody else can
    /// use up what a machine may open.
    fn may_open(&mut self, number: u16, now: Instant) -> Result<(), Reason> {
        let eni = self.tables.eni(number).ok_or(Reason::EniMiss)?;
        let per_second = eni.limits.connections_per_second.into();
        let rate = &mut self.enis[usize::from(number)].connections;
        let passes = rate.take(1, per_second, CONNECTION_BURST_NS, now);
        passes.then_some(()).ok_or(Reason::ConnectionRate)
    }

    /// Whether a flow that is not over has a key.
    pub(super) fn is_taken(&mut self, key: &EntryKey, hash: u64, now: Instant) -> bool {
        let Some(place) = self.flows.find(key, hash) else {
            return false;
        };
        let is_over = self.is_over(&self.flows.get(place), key.protocol(), now);
        if is_over {
            self.end(place, |counters| counters.flows_aged += 1);
        }
        !is_over
    }

    /// Makes both entries of a flow, of which the first key has none.
    fn insert(
        &mut self,
        keys: [EntryKey; 2],
        number: u16,
        decision: &PolicyDecision,
        state: u8,
        now: Instant,
    ) -> Result<[EntryNumber; 2], Reason> {
        let actions = [&decision.forward, &decision.reverse];
        // Reads of memory are under way together.
        let sought = actions.map(|action| self.actions.seek(action));
        let hashes = keys.map(|key| self.flows.hash(&key));
        if keys[0] == keys[1] || self.is_taken(&keys[1], hashes[1], now) {
            return Err(Reason::FlowClash);
        }
        self.flows.prefetch_room(hashes[1]);
        sought.iter().for_each(|hash| self.actions.seek_on(*hash));
        let eni = self.tables.eni(number).ok_or(Reason::EniMiss)?;
        let mapping_epoch = decision.mapping_epoch.unwrap_or(epochs::NONE);
        let stamp = self.tables.stamp(eni, mapping_epoch);
        let meters = &mut self.enis[usize::from(number)].counters.meters;
        let bucket = meters.number(decision.meter_class);
        let actions = [0, 1].map(|way| self.actions.take_sought(actions[way], sought[way]));
        let mut is_forward = true;
        let entries = actions.map(|action| Entry {
            action,
            stamp,
            last_seen: now.ticks(),
            peer: EntryNumber::default(),
            bucket,
            mapping_epoch,
            eni: number,
            state,
            is_forward: std::mem::take(&mut is_forward),
        });
        let Some(places) = self.flows.insert(keys, hashes, entries) else {
            for action in actions {
                self.actions.give(action);
            }
            self.keep_moved();
            return Err(Reason::FlowTableFull);
        };
        self.flow_counts.add(number);
        self.keep_moved();
        self.keep_deadline(places[0]);
        Ok(places)
    }

    /// An ICMP error goes the way of the flow that the packet in it is of, in the other direction.
    fn treatment_of_error(
        &mut self,
        inside: &[u8],
        received: &mut Received,
        now: Instant,
    ) -> Result<Treatment, Stop> {
        // No policy is asked about an error: it goes to whom the quoted packet came from, and nowhere else.
        if !self.is_believed(inside, received) {
            return Err(Reason::IcmpError.into());
        }
        let arrival = &mut received.arrival;
        let eni = self.tables.eni(arrival.eni).ok_or(Reason::EniMiss)?;
        let key = key_of_quoted(eni.serial, arrival.way, inside, &received.inner);
        let key = key.ok_or(Reason::IcmpError)?;
        let (key, hash) = self.own_or_answered(key, self.flows.hash(&key), arrival);
        arrival.entropy = entropy_of(key.addresses(), key.ports(), key.protocol());
        self.wait_for_others(&key)?;
        let Some(place) = self.flows.find(&key, hash) else {
            self.wait_for_opening(&key)?;
            return Err(Reason::IcmpError.into());
        };
        if self.is_over(&self.flows.get(place), key.protocol(), now) {
            return Err(Reason::IcmpError.into());
        }
        let (_, entry) = self.up_to_date(place, &received.arrival, now)?;
        let action = self.actions.get(entry.action).ok_or(Reason::IcmpError)?;
        let action = match action.changes_inside() {
            false => Treated::Flow(entry.action),
            true => Treated::Error(Box::new(Translation::of(inside, &received.inner, action)?)),
        };
        Ok(Treatment {
            action,
            bucket: entry.bucket,
        })
    }

    /// Whether an error may be what it says. A load balancer's redirect, which has the addresses of the
    /// packet in it, may also come to a machine whose ENI does not listen to it.
    fn is_believed(&self, inside: &[u8], received: &Received) -> bool {
        let judged = judge(inside, &received.inner, false);
        let is_redirect = judged == Err(Refusal::Redirect);
        let is_others = is_redirect && received.arrival.way == Direction::Inbound;
        received.inner.fragment == Fragment::Whole && (judged.is_ok() || is_others)
    }
}

/// The key of an ICMP error: that of answers to the packet that it quotes.
pub(super) fn key_of_quoted(
    serial: u32,
    direction: Direction,
    inside: &[u8],
    inner: &Layout,
) -> Option<EntryKey> {
    let source = fields::inner_source(inside, inner)?;
    let destination = fields::inner_destination(inside, inner)?;
    let headers = Headers {
        source: destination.address,
        destination: source.address,
        ports: None,
        protocol: inner.inner?.protocol,
    };
    let ports = [destination.port, source.port];
    Some(EntryKey::new(serial, direction, &headers, ports))
}

/// The key of answers to a flow's packets.
pub(super) fn answer_key(forward: &EntryKey, decision: &PolicyDecision) -> EntryKey {
    let [source, destination] = forward.ports();
    let ports = decision.answers.ports.unwrap_or([destination, source]);
    let way = forward.direction().turned();
    EntryKey::new(forward.serial(), way, &decision.answers, ports)
}
