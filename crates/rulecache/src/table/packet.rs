//! What becomes of a packet: the way from the rule that was found for it to the decision.

use super::{Found, LINE, RuleTable};
use crate::action;
use crate::flows::{self, LineKey, Look, Place};
use crate::headers::Headers;
use crate::key::MatchKey;
use crate::message::{Gone, RuleId};
use crate::progress::TcpProgress;
use crate::slots::Usable;
use twinpath_core::wire::layout::{Layout, Plain, PlainEnds, Transport};
use twinpath_core::wire::{fields, tcp, udp};
use twinpath_core::{Decision, Direction, Instant};

impl RuleTable {
    /// Decides on a packet that arrived at `now`, with what [`Self::find`] has
    /// found since the last message was taken, and rewrites it.
    #[inline(always)]
    pub fn packet(
        &mut self,
        key: &MatchKey,
        found: Option<Found>,
        frame: &mut [u8],
        layout: &Layout,
        now: Instant,
    ) -> Decision {
        if !self.behind.is_empty() && self.waits_behind(key) {
            return Decision::Hold;
        }
        if let Some(Ok(line)) = found.map(Found::place)
            && self.flows.look(line, key, now) == Look::Meets
        {
            return self.meet_line(self.flows.at(line), frame, layout, now);
        }
        self.packet_elsewhere(key, found, frame, layout, now)
    }

    /// Where a flow's own rule is, if it has one, probably; what lies there is on its way.
    #[inline(always)]
    pub fn fetch(&self, flow: LineKey) -> Found {
        Found::at(self.flows.v4.prefetch(flow) | LINE)
    }

    /// The same for any packet; `None` if its flow can have no rule of its own there.
    #[inline(always)]
    pub fn fetch_other(&self, key: &MatchKey) -> Option<Found> {
        Some(Found::at(self.flows.fetch(key)? | LINE))
    }

    /// Decides on a plain packet, with the ends that it has now, that arrived at `now` on port `ingress` and is
    /// about to enter an element of the chain, and rewrites it, if it meets the rule that an earlier one of its flow
    /// has met. `None` if [`Self::packet`] is to be asked.
    #[inline(always)]
    pub fn plain_packet(
        &mut self,
        earlier: Option<Found>,
        frame: &mut [u8],
        (plain, ends): (Plain, PlainEnds),
        (ingress, direction): (u16, Direction),
        now: Instant,
    ) -> Option<Decision> {
        match earlier.filter(|_| self.behind.is_empty())?.place() {
            Ok(near) => {
                let flow = LineKey::of_plain(frame, (plain, ends), direction);
                let line = self.flows.v4.usable_from(near, flow, now)?;
                Some(self.meet_v4(line, frame, &plain.layout(), now))
            }
            Err(id) => {
                let key = MatchKey::of_plain(frame, plain, ingress, direction);
                let meets = self.slots.is_met(id, &key);
                let is_usable = meets && self.slots.usable(id, now) == Usable::Yes;
                is_usable.then(|| self.meet_slot(id, frame, &plain.layout(), now))
            }
        }
    }

    /// The same for any packet.
    #[inline(never)]
    pub fn other_packet(
        &mut self,
        earlier: Option<Found>,
        frame: &mut [u8],
        layout: &Layout,
        (ingress, direction): (u16, Direction),
        now: Instant,
    ) -> Option<Decision> {
        let earlier = earlier.filter(|_| self.behind.is_empty())?;
        let key = MatchKey::of(frame, layout, ingress, direction)?;
        match earlier.place() {
            Ok(near) => {
                let line = self.flows.usable_from(near, &key, now)?;
                Some(self.meet_line(line, frame, layout, now))
            }
            Err(id) => {
                let is_met = self.slots.is_met(id, &key);
                let is_usable = is_met && self.slots.usable(id, now) == Usable::Yes;
                is_usable.then(|| self.meet_slot(id, frame, layout, now))
            }
        }
    }

    /// A packet meets the rule of a line.
    #[inline(always)]
    fn meet_line(
        &mut self,
        line: Place,
        frame: &mut [u8],
        layout: &Layout,
        now: Instant,
    ) -> Decision {
        match line {
            Place::V4(line) => self.meet_v4(line, frame, layout, now),
            Place::V6(line) => self.meet_v6(line, frame, layout, now),
        }
    }

    /// Over IPv6.
    #[inline(always)]
    fn meet_v6(&mut self, line: u32, frame: &mut [u8], layout: &Layout, now: Instant) -> Decision {
        if flows::counts_alone(self.flows.v6.line(line)) {
            self.counters.hits += 1;
            return self.flows.v6.count(line, frame.len(), now);
        }
        self.rewrite_v6(line, frame, layout, now)
    }

    #[inline(never)]
    fn rewrite_v6(
        &mut self,
        line: u32,
        frame: &mut [u8],
        layout: &Layout,
        now: Instant,
    ) -> Decision {
        let decrements = flows::decrements(self.flows.v6.line(line));
        if decrements > 0 && fields::ttl(frame, layout) <= decrements {
            self.counters.guarded += 1;
            return Decision::Punt;
        }
        self.counters.hits += 1;
        let id = self.flows.v6.rule_at(line);
        if flows::tells(self.flows.v6.line(line)) {
            self.slots.note_progress(id, progress_of(frame, layout));
        }
        let decision = self.flows.v6.count(line, frame.len(), now);
        if matches!(decision, Decision::Forward { .. }) {
            action::apply(self.slots.action(id), frame, layout);
        }
        decision
    }

    /// Over IPv4.
    #[inline(always)]
    fn meet_v4(&mut self, line: u32, frame: &mut [u8], layout: &Layout, now: Instant) -> Decision {
        if flows::counts_alone(self.flows.v4.line(line)) {
            self.counters.hits += 1;
            return self.flows.v4.count(line, frame.len(), now);
        }
        match layout.transport {
            Transport::Tcp => self.rewrite::<{ tcp::CHECKSUM_AT }>(line, frame, layout, now),
            _ => self.rewrite::<{ udp::CHECKSUM_AT }>(line, frame, layout, now),
        }
    }

    #[inline(always)]
    fn rewrite<const CHECKSUM_AT: usize>(
        &mut self,
        line: u32,
        frame: &mut [u8],
        layout: &Layout,
        now: Instant,
    ) -> Decision {
        let bytes = frame.len();
        let Some(mut headers) = Headers::of::<CHECKSUM_AT>(frame, layout) else {
            // What shows a flow's key has all of them.
            return Decision::Punt;
        };
        let decrements = flows::decrements(self.flows.v4.line(line));
        if decrements > 0 && headers.ttl() <= decrements {
            self.counters.guarded += 1;
            return Decision::Punt;
        }
        self.counters.hits += 1;
        if CHECKSUM_AT == tcp::CHECKSUM_AT {
            self.flows.v4.note(line, headers.progress());
        }
        match self.flows.v4.count(line, bytes, now) {
            Decision::Forward { egress } => {
                let line = self.flows.v4.line(line);
                if let Some(macs) = self.flows.v4.macs(line) {
                    macs.write(headers.macs);
                }
                let new = flows::new_headers(line);
                if flows::numbers(line) && headers.may_fragment() {
                    let numbers = &mut self.identifications;
                    headers.number(numbers.draw_between(new.addresses, layout.protocol));
                }
                headers.write::<CHECKSUM_AT>(new);
                Decision::Forward { egress }
            }
            decision => decision,
        }
    }

    /// A packet that does not meet the line that was found for it, if any: it may meet another
    /// rule.
    #[inline(never)]
    fn packet_elsewhere(
        &mut self,
        key: &MatchKey,
        found: Option<Found>,
        frame: &mut [u8],
        layout: &Layout,
        now: Instant,
    ) -> Decision {
        match self.usable(found, key, now).map(Found::place) {
            None => self.miss(key),
            Some(Ok(line)) => self.meet_line(self.flows.at(line), frame, layout, now),
            Some(Err(id)) => self.meet_slot(id, frame, layout, now),
        }
    }

    fn meet_slot(
        &mut self,
        id: RuleId,
        frame: &mut [u8],
        layout: &Layout,
        now: Instant,
    ) -> Decision {
        let decrements = action::decrements_in(self.slots.action(id));
        if decrements > 0 && fields::ttl(frame, layout) <= decrements {
            self.counters.guarded += 1;
            return Decision::Punt;
        }
        self.counters.hits += 1;
        let progress = progress_of(frame, layout);
        self.slots.count(id, (frame.len(), progress), now);
        let words = self.slots.action(id);
        if let Some(Some(reason)) = action::drop_in(words) {
            return Decision::Drop(reason);
        }
        action::apply(words, frame, layout);
        let egress = action::egress_in(words);
        if action::numbers_in(words) {
            self.number(frame, layout);
        }
        Decision::Forward { egress }
    }

    /// Draws an identification for a packet that was rewritten, unless it is atomic.
    #[inline(never)]
    fn number(&mut self, frame: &mut [u8], layout: &Layout) {
        self.identifications.number(frame, layout);
    }

    /// The rule that was found, or another if it is gone meanwhile; an idle one is taken out, so
    /// that whatever is found next is the same for all packets to come.
    #[inline]
    fn usable(&mut self, mut found: Option<Found>, key: &MatchKey, now: Instant) -> Option<Found> {
        // Every turn but the first takes a rule out, so this ends.
        loop {
            match self.look(found?, key, now) {
                (_, Usable::Yes) => return found,
                (id, Usable::Idle) => {
                    self.counters.idle += 1;
                    self.take_out_active(id);
                    self.quarantine(id, Gone::Idle);
                }
                (_, Usable::NotActive) => {}
            }
            found = self.find(key);
        }
    }

    /// A rule that was found, and whether the packet may use it.
    fn look(&self, found: Found, key: &MatchKey, now: Instant) -> (RuleId, Usable) {
        let line = match found.place() {
            Ok(line) => line,
            Err(id) => return (id, self.slots.usable(id, now)),
        };
        let usable = match self.flows.look(line, key, now) {
            Look::Meets => Usable::Yes,
            Look::Idle => Usable::Idle,
            Look::Another => Usable::NotActive,
        };
        (self.flows.rule_at(line), usable)
    }

    /// Whether a packet waits for a fragment of its flow that is on the slow path: it would meet a rule,
    /// or others wait already.
    #[cold]
    pub(super) fn waits_behind(&mut self, key: &MatchKey) -> bool {
        match self.behind.waiting(key) {
            None => false,
            Some(0) => self.find(key).is_some(),
            Some(_) => true,
        }
    }

    /// A fragment goes to the slow path, behind what is held of its flow. Packets that would meet a rule
    /// wait for it.
    #[cold]
    fn fragment(&mut self, whole: &MatchKey) -> Decision {
        let is_held = self.promotion.concerns(whole);
        if is_held && self.promotion.holds_of_flow(whole) {
            return Decision::Hold;
        }
        self.counters.misses += 1;
        let may_be_overtaken =
            is_held || self.variant(whole).is_some() || self.find(whole).is_some();
        if may_be_overtaken && !self.behind.await_return(whole) {
            self.counters.fragments_alone += 1;
        }
        Decision::Punt
    }

    fn miss(&mut self, key: &MatchKey) -> Decision {
        if key.is_fragment() {
            return self.fragment(&key.as_whole());
        }
        let is_held = self.promotion.concerns(key);
        let has_guards = self.flows.has_guards() || self.exact.has_guards();
        if has_guards || !self.sensitive.is_empty() {
            self.demote_variants(key, !is_held);
        }
        if is_held {
            return Decision::Hold;
        }
        self.counters.misses += 1;
        Decision::Punt
    }

    /// A packet is held or goes to the slow path: active rules for others of its flow wait with it,
    /// or for its return.
    fn demote_variants(&mut self, key: &MatchKey, is_punted: bool) {
        while let Some(id) = self.variant(key) {
            self.take_out_active(id);
            let (mask, value) = self.slots.matched(id);
            let has_room = match is_punted {
                true => self.promotion.join(id, &mask, &value),
                false => self.promotion.join_behind(key, id, &mask, &value),
            };
            self.counters.demoted += u64::from(has_room);
            self.begin_holding(id, has_room);
        }
    }

    /// An active rule for packets that differ from this one in nothing but bits that differ within
    /// a flow.
    fn variant(&self, key: &MatchKey) -> Option<RuleId> {
        let flow = self.flows.rule_of(key);
        flow.or_else(|| self.exact.find_any(&key.0))
            .or_else(|| self.sensitive.find(key))
    }
}

/// How far a TCP segment says that its connection is.
#[inline(always)]
fn progress_of(frame: &[u8], layout: &Layout) -> Option<TcpProgress> {
    let is_tcp = layout.transport == Transport::Tcp;
    is_tcp.then(|| TcpProgress {
        sequence: fields::tcp_seq(frame, layout),
        acknowledgement: fields::tcp_ack(frame, layout),
    })
}
