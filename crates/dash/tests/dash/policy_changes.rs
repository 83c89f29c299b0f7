//! Policies that change between packets: every packet of a known connection leaves as if nothing were
//! remembered of what was decided before. A DPU that keeps decisions, one that judges each packet
//! anew, and the specification read aloud take the same packets.

use crate::common::changes::change;
use crate::common::connections::Connections;
use crate::common::leaving::{compare, process};
use crate::common::packets::{self, Dice, eni_id};
use crate::common::traffic::{Coming, Kind, Traffic, inner, is_reply};
use crate::common::versions::ByVersions;
use proptest::prelude::*;
use twinpath_core::Instant;
use twinpath_dash::objects::{EniMode, InboundAction, Key, RoutingType};
use twinpath_dash::samples::Objects;
use twinpath_dash::{Dpu, Reason, Settings};

const ENIS: u8 = 4;

/// What a run has come to.
#[derive(Copy, Clone, Debug, Default)]
struct RunTotals {
    /// Packets that were forwarded.
    sent: ByVersions,
    /// Those of known flows that followed what was decided before.
    kept: ByVersions,
    /// Flows that were judged anew.
    anew: u64,
    /// Packets of known connections to which something else was done than to the one before.
    changed: usize,
    /// Connections that a change has ended.
    ended: usize,
    /// Packets whose fate the specification was asked about.
    judged: usize,
    /// Fragments and errors that were forwarded.
    parts: usize,
}

struct Run {
    dice: Dice,
    objects: Objects,
    settings: Settings,
    caching: Dpu,
    plain: Dpu,
    connections: Connections,
    traffic: Traffic,
    now: Instant,
    seen: RunTotals,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let objects = packets::configuration(&mut dice, ENIS);
        let objects = usable(objects, &mut dice);
        let settings = Settings {
            flows: 4096,
            port_map_must_match: dice.one_in(3),
            ..Settings::default()
        };
        let dpu = |caching| {
            let settings = Settings {
                caching,
                ..settings.clone()
            };
            let mut dpu = Dpu::new(settings, 7);
            dpu.update(&objects, &objects.keys());
            dpu
        };
        Self {
            caching: dpu(true),
            plain: dpu(false),
            dice,
            objects,
            settings,
            connections: Connections::default(),
            traffic: Traffic::default(),
            now: Instant(1),
            seen: RunTotals::default(),
        }
    }

    fn step(&mut self) -> Result<(), TestCaseError> {
        // All together less than any time-out.
        self.now = Instant(self.now.0 + self.dice.below(50_000_000));
        if self.dice.one_in(12) {
            self.change();
        }
        self.packet()
    }

    fn change(&mut self) {
        if self.dice.one_in(30) {
            return self.another_eni();
        }
        let changed = change(&mut self.dice, &mut self.objects, ENIS);
        self.update(&changed);
    }

    /// An ENI goes, and one like it comes.
    fn another_eni(&mut self) {
        let id = eni_id(self.dice.below(ENIS.into()) as u8);
        let Some(eni) = self.objects.enis.remove(&id) else {
            return;
        };
        self.update(&[Key::Eni(id.clone())]);
        self.objects.enis.insert(id.clone(), eni);
        self.update(&[Key::Eni(id.clone())]);
        self.connections.forget(&id);
    }

    fn update(&mut self, changed: &[Key]) {
        self.caching.update(&self.objects, changed);
        self.plain.update(&self.objects, changed);
    }

    fn packet(&mut self) -> Result<(), TestCaseError> {
        let coming = self.traffic.next(&mut self.dice, &self.objects, ENIS);
        let before = self.decided(&coming);
        let result = process(&mut self.caching, &coming.bytes, self.now);
        if result.is_ok() {
            let [hits, anew] = self.decided(&coming);
            let is_kept = hits > before[0] && anew == before[1];
            self.seen.sent.count(&coming.packet, 1);
            self.seen.kept.count(&coming.packet, is_kept.into());
        }
        let plain = process(&mut self.plain, &coming.bytes, self.now);
        prop_assert_eq!(&result, &plain, "with decisions kept, and without");
        self.judge(&coming, &result)
            .inspect_err(|_| eprintln!("{coming:?}"))
    }

    /// How many packets of a packet's ENI were of known flows, and how many flows were judged anew.
    fn decided(&self, coming: &Coming) -> [u64; 2] {
        let counters = self.caching.counters(&coming.packet.eni);
        counters.map_or([0; 2], |eni| [eni.flow_hits, eni.flows_resimulated])
    }

    /// Holds what became of a packet against the specification.
    fn judge(
        &mut self,
        coming: &Coming,
        result: &Result<Vec<u8>, Reason>,
    ) -> Result<(), TestCaseError> {
        let (packet, objects, settings) = (&coming.packet, &self.objects, &self.settings);
        let connections = &mut self.connections;
        let expected = match coming.kind {
            Kind::Whole(tcp_flags) => {
                let seen = (tcp_flags, is_reply(inner(coming)));
                connections.packet(objects, settings, packet, seen)
            }
            // Which datagrams are remembered is not the specification's.
            Kind::Later if *result == Err(Reason::FragmentAlone) => return Ok(()),
            Kind::First | Kind::Later => connections.packet(objects, settings, packet, (0, false)),
            Kind::Error => {
                let expected = connections.error(objects, settings, packet);
                if *result != Err(Reason::IcmpError) {
                    prop_assert_eq!(result.as_ref().map(|_| ()), expected.as_ref().map(|_| ()));
                    self.seen.parts += 1;
                }
                return Ok(());
            }
        };
        self.seen.judged += 1;
        match (result, &expected) {
            (Ok(frame), Ok(sent)) if matches!(coming.kind, Kind::Whole(_)) => {
                compare(frame, sent, inner(coming))?;
                self.traffic.left(&mut self.dice, frame, packet);
            }
            (Ok(_), Ok(_)) => self.seen.parts += 1,
            (Err(reason), Err(expected)) => prop_assert_eq!(reason, expected),
            _ => prop_assert!(false, "{:?} instead of {:?}", result, expected),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<RunTotals, TestCaseError> {
        for number in 0..ENIS {
            let id = eni_id(number);
            let [one, other] =
                [&self.caching, &self.plain].map(|dpu| dpu.counters(&id).expect("there"));
            prop_assert_eq!(&one.sent, &other.sent);
            prop_assert_eq!(&one.drops, &other.drops);
            prop_assert_eq!(&one.meters, &other.meters);
            prop_assert_eq!(one.flow_hits, other.flow_hits);
            self.seen.anew += one.flows_resimulated;
        }
        prop_assert_eq!(self.caching.flow_count(), self.plain.flow_count());
        self.seen.changed = self.connections.changed;
        self.seen.ended = self.connections.ended;
        Ok(self.seen)
    }
}

/// The same configuration, but packets come through often enough to be answered; in one of three all
/// ENIs are floating NICs, whose senders must nearly always be among their networks' physical addresses.
fn usable(mut objects: Objects, dice: &mut Dice) -> Objects {
    let plain = objects.routing_types.get(&RoutingType::VnetEncap).cloned();
    if let Some(actions) = plain.filter(|actions| actions.items.len() == 1) {
        objects.routing_types.insert(RoutingType::Vnet, actions);
    }
    if dice.one_in(3) {
        for eni in objects.enis.values_mut() {
            eni.mode = EniMode::FloatingNic;
        }
        for (_, rule) in &mut objects.route_rules {
            rule.action = InboundAction::Decap;
            rule.pa_validation = Some(!dice.one_in(3));
        }
    }
    objects
}

fn run(seed: u64, steps: usize) -> Result<RunTotals, TestCaseError> {
    let mut run = Run::new(seed);
    for _ in 0..steps {
        run.step()?;
    }
    run.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn connections_follow_what_policies_say_now(seed in any::<u64>()) {
        run(seed, 300)?;
    }
}

/// The property says something only if flows are hit, over both IP versions and with both inside, and
/// changes meet flows that live.
#[test]
fn flows_are_hit_and_changes_meet_them() {
    let mut all = RunTotals::default();
    for seed in 0..120 {
        let seen = run(seed, 300).expect("as the specification has it");
        all.sent.add(&seen.sent);
        all.kept.add(&seen.kept);
        all.anew += seen.anew;
        all.changed += seen.changed;
        all.ended += seen.ended;
        all.judged += seen.judged;
        all.parts += seen.parts;
    }
    assert!(all.judged > 30_000 && all.anew > 600, "{all:?}");
    assert!(all.changed > 60 && all.ended > 60, "{all:?}");
    assert!(all.parts > 100, "{all:?}");
    assert!(all.kept.least() > 400, "{all:?}");
    for (sent, kept) in all.sent.all().zip(all.kept.all()) {
        assert!(5 * kept > 2 * sent, "{all:?}");
    }
}
