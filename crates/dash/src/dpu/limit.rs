//! How many flows an ENI with a limit has: as many as are not over, swept or not.

use twinpath_core::Instant;

use super::Dpu;
use crate::flows::{Deadlines, EntryNumber, State};

/// Ticks that are added to others, so that the sum is not taken for an earlier one.
const FARTHEST: u32 = 1 << 30;
/// Places of the table of flows that are looked at with the change by which an ENI first gets a limit:
/// packets wait meanwhile, for less than a millisecond.
const LEARNED_AT_FIRST: usize = 1 << 16;
/// Places that are looked at each time when time passes, until it was all of them; more where a sweep looks
/// at more.
const LEARNED_AT_ONCE: usize = 64;
/// Flows that are looked at for one packet, while time passes in small steps, whether they are over: it waits
/// meanwhile, and those behind it.
const MOST_LOOKED_AT: usize = 256;

impl Dpu {
    /// How many flows an ENI has, of which those that are over end if there are not less than `limit`. Of
    /// very many that were due at once a part is looked at, and the rest for the next packets, unless the
    /// sweep comes by first.
    pub(super) fn flows_below(&mut self, limit: u32, number: u16, now: Instant) -> u32 {
        let is_learning = self
            .enis
            .get(usize::from(number))
            .is_some_and(|state| state.is_learning);
        if is_learning && self.flows_of(number) >= limit && self.has_made_a_step(now) {
            self.learn_deadlines(self.flows.places());
        }
        let mut left = match self.has_made_a_step(now) {
            true => usize::MAX,
            false => MOST_LOOKED_AT,
        };
        while self.flows_of(number) >= limit
            && left > 0
            && let Some(place) = self.next_due(number, now)
        {
            left -= 1;
            let Some(tick) = self.earliest_end(place, number) else {
                continue;
            };
            let (entry, key) = (self.flows.get(place), self.flows.key(place));
            match self.is_over(&entry, key.protocol(), now) {
                true => self.end(place, |counters| counters.flows_aged += 1),
                false => {
                    let next = now.ticks().wrapping_add(1);
                    self.push_deadline(number, later(tick, next), place);
                }
            }
        }
        self.flows_of(number)
    }

    fn next_due(&mut self, number: u16, now: Instant) -> Option<EntryNumber> {
        let state = self.enis.get_mut(usize::from(number))?;
        state.deadlines.as_mut()?.pop(now.ticks())
    }

    /// The first tick at which the flow is over that has its forward entry at a place, if no packet
    /// comes, or an earlier one; nothing if it is none of the ENI's.
    fn earliest_end(&self, place: EntryNumber, number: u16) -> Option<u32> {
        let entry = self.flows.forward_at(place)?;
        let key = self.flows.key(place);
        let serial = self.enis.get(usize::from(number))?.serial;
        if key.serial() != serial {
            return None;
        }
        let idle = self.idle.of(key.protocol(), State::of(entry.state));
        let idle = idle.min(FARTHEST);
        let seen = later(entry.last_seen, self.flows.get(entry.peer).last_seen);
        Some(seen.wrapping_add(idle).wrapping_add(1))
    }

    fn push_deadline(&mut self, number: u16, tick: u32, place: EntryNumber) {
        let state = self.enis.get_mut(usize::from(number));
        if let Some(deadlines) = state.and_then(|state| state.deadlines.as_mut()) {
            deadlines.push(tick, place);
        }
    }

    /// A flow is new, has moved, or is over earlier than it would have been.
    #[inline]
    pub(super) fn keep_deadline(&mut self, forward: EntryNumber) {
        let number = self.flows.get(forward).eni;
        let state = self.enis.get(usize::from(number));
        if state.is_some_and(|state| state.deadlines.is_some()) {
            self.keep_deadline_of(number, forward);
        }
    }

    #[inline(never)]
    fn keep_deadline_of(&mut self, number: u16, forward: EntryNumber) {
        if let Some(tick) = self.earliest_end(forward, number) {
            self.push_deadline(number, tick, forward);
        }
        let flows = self.flows_of(number);
        let state = &mut self.enis[usize::from(number)];
        if let Some(mut deadlines) = state.deadlines.take_if(|all| all.are_stale(flows)) {
            deadlines.renew(|place| self.earliest_end(place, number));
            self.enis[usize::from(number)].deadlines = Some(deadlines);
        }
    }

    /// Entries have made room for one that was inserted.
    #[inline]
    pub(super) fn keep_moved(&mut self) {
        while let Some(place) = self.flows.next_moved() {
            if self.flows.forward_at(place).is_some() {
                self.keep_deadline(place);
            }
        }
    }

    /// An ENI may have so many flows now; 0 does not limit. Flows that were there before are looked for
    /// piece by piece where the table is large: until then those of them that are over count until they
    /// are swept.
    pub(super) fn set_limit(&mut self, number: u16, flows: u32) {
        let has_flows = self.flows_of(number) > 0;
        let state = &mut self.enis[usize::from(number)];
        match (flows, &state.deadlines) {
            (0, _) => state.deadlines = None,
            (_, Some(_)) => {}
            (_, None) => {
                state.deadlines = Some(Deadlines::default());
                if has_flows && !std::mem::replace(&mut state.is_learning, true) {
                    self.learning.push(number);
                }
                self.is_limit_new |= has_flows;
            }
        }
    }

    /// Begins to look for the flows of ENIs that have limits and had none.
    pub(super) fn learn_new_limits(&mut self) {
        if std::mem::take(&mut self.is_limit_new) {
            self.learned = 0;
            self.learn_deadlines(LEARNED_AT_FIRST);
        }
    }

    /// Time passes, in which so many places were swept: looks for flows that were there before their ENIs
    /// had limits.
    #[inline]
    pub(super) fn go_on_learning(&mut self, swept: usize) {
        if self.learned < self.flows.places() {
            self.learn_deadlines(swept.max(LEARNED_AT_ONCE));
        }
    }

    /// Looks at so many places more. A flow that moves meanwhile is kept where it moves to.
    fn learn_deadlines(&mut self, count: usize) {
        let forward: Vec<EntryNumber> = self.flows.iter_from(self.learned, count).collect();
        for place in forward {
            let state = self.enis.get(usize::from(self.flows.get(place).eni));
            if state.is_some_and(|state| state.is_learning) {
                self.keep_deadline(place);
            }
        }
        self.learned = self.learned.saturating_add(count);
        if self.learned >= self.flows.places() {
            for number in self.learning.drain(..) {
                self.enis[usize::from(number)].is_learning = false;
            }
        }
    }
}

/// The later of two times in ticks that are not far apart.
pub(super) const fn later(one: u32, other: u32) -> u32 {
    match (one.wrapping_sub(other) as i32) < 0 {
        true => other,
        false => one,
    }
}

#[cfg(all(test, feature = "samples"))]
mod tests {
    use twinpath_core::wire::tcp::flags;
    use twinpath_core::wire::tunnel::Varying;
    use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder};

    use super::*;
    use crate::objects::{Key, Qos};
    use crate::samples::{Large, Objects, large};
    use crate::{Settings, Verdict};

    const FLOWS: u16 = 500;
    const SECOND: u64 = 1_000_000_000;

    fn objects(flows: u32) -> Objects {
        let mut objects = large(&Large {
            enis: 1,
            acl_stages: 0,
            acl_rules: 0,
            acl_prefixes: 0,
            routes: 1,
            mappings: 1,
        });
        let qos = Qos {
            qos_id: "qos".into(),
            bandwidth_kbps: 0,
            connections_per_second: 0,
            flows,
        };
        objects.qos.insert("qos".into(), qos);
        let mut enis = objects.enis.values_mut();
        enis.next().expect("one").qos = Some("qos".into());
        objects
    }

    fn opens(dpu: &mut Dpu, port: u16, now: u64) -> bool {
        let ends = [
            Endpoint::new(Large::machine(1), port),
            Endpoint::new(Large::mapped(0), 80),
        ];
        let inner = PacketBuilder::udp(ends[0], ends[1]).macs(Large::mac(0), MacAddress([2; 6]));
        let inner = inner.to_vec().expect("a packet");
        let frame = Large::outbound(0, &inner, &Varying::default());
        let mut buffer = [vec![0; 128], frame].concat();
        matches!(
            dpu.process(&mut buffer, 128, Instant(now)),
            Verdict::Forward(_)
        )
    }

    /// However large the table is, a first limit looks at a part of it, and as exactly as ever knows which
    /// flows are over when all of it has been looked at.
    #[test]
    fn a_first_limit_does_not_wait_for_the_whole_table() {
        let mut objects = objects(0);
        let settings = Settings {
            flows: LEARNED_AT_FIRST,
            ..Settings::default()
        };
        let mut dpu = Dpu::new(settings, 1);
        dpu.update(&objects, &objects.keys());
        assert!((0..FLOWS).all(|port| opens(&mut dpu, port, SECOND)));
        objects.qos.get_mut("qos").expect("there").flows = FLOWS.into();
        dpu.update(&objects, [&Key::Qos("qos".into())]);
        assert_eq!(dpu.learned, LEARNED_AT_FIRST);
        assert!(dpu.learned < dpu.flow_places());
        assert!(!opens(&mut dpu, FLOWS, 2 * SECOND), "as many as may be");
        while dpu.learned < dpu.flow_places() {
            dpu.tick(Instant(2 * SECOND));
        }
        // All are over, and nothing has swept them.
        let opened = (0..2 * FLOWS).filter(|&port| opens(&mut dpu, 1000 + port, 200 * SECOND));
        assert_eq!(opened.count(), usize::from(FLOWS));
    }

    /// What is kept of flows that have ended, at most, is as much as of those that are there.
    #[test]
    fn deadlines_of_flows_that_have_ended_are_forgotten() {
        let objects = objects(FLOWS.into());
        let mut dpu = Dpu::new(Settings::default(), 1);
        dpu.update(&objects, &objects.keys());
        let ends = [Large::machine(1), Large::mapped(0)].map(|end| Endpoint::new(end, 80));
        for _ in 0..1000 {
            for tcp_flags in [flags::SYN, flags::RST] {
                let segment = PacketBuilder::tcp(ends[0], ends[1]).flags(tcp_flags);
                let inner = segment.macs(Large::mac(0), MacAddress([2; 6])).to_vec();
                let frame = Large::outbound(0, &inner.expect("a packet"), &Varying::default());
                let mut buffer = [vec![0; 128], frame].concat();
                let verdict = dpu.process(&mut buffer, 128, Instant(SECOND));
                assert!(matches!(verdict, Verdict::Forward(_)));
            }
        }
        assert_eq!(dpu.flow_count(), 1);
        let mut deadlines = dpu.enis[0].deadlines.clone().expect("it has a limit");
        let all = std::iter::from_fn(|| deadlines.pop(Instant(3 * 3600 * SECOND).ticks()));
        assert!((1..100).contains(&all.count()));
    }

    /// One packet looks at so many flows at most; the next one looks on.
    #[test]
    fn a_packet_at_the_limit_does_not_look_at_all_flows() {
        let objects = objects(FLOWS.into());
        let mut dpu = Dpu::new(Settings::default(), 1);
        dpu.update(&objects, &objects.keys());
        let (first, last) = (SECOND, 3 * SECOND);
        assert!((1..FLOWS).all(|port| opens(&mut dpu, port, first)));
        assert!(opens(&mut dpu, 0, last));
        // All but the last were used once more, and by the time they were opened all are due.
        let idle = dpu.settings.idle.udp.as_nanos() as u64;
        let due = last + idle + SECOND;
        assert!((1..FLOWS).all(|port| opens(&mut dpu, port, first + idle / 2)));
        dpu.swept_until = Instant(due);
        let still_due = |dpu: &Dpu| {
            let mut deadlines = dpu.enis[0].deadlines.clone().expect("it has a limit");
            std::iter::from_fn(|| deadlines.pop(Instant(due).ticks())).count()
        };
        assert_eq!(still_due(&dpu), usize::from(FLOWS));
        assert!(!opens(&mut dpu, FLOWS, due));
        assert_eq!(still_due(&dpu), usize::from(FLOWS) - MOST_LOOKED_AT);
        assert!(opens(&mut dpu, FLOWS, due), "the one that is over is found");
    }
}
