use super::v6::LineKeyV6;
use super::*;
use crate::action::{Action, Rewrites, settle};
use crate::field::{Field, Fields};
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;
use twinpath_core::DropReason;
use twinpath_core::probing::LONGEST_RUN;
use twinpath_core::wire::{Endpoint, MacAddress};

/// A flow's key over IPv4, as of a packet with these TCP flags.
fn key(flow: u64, flags: u64) -> MatchKey {
    let ends = 0xffff_0a00_0000 | flow >> 4;
    MatchKey([
        0,
        ends,
        0,
        0xffff_0a01_0101,
        (flow & 15) << 48 | 80 << 32 | 6 << 24 | flags << 16,
        0,
    ])
}

/// The same over IPv6, which differs from others in one word more.
fn key_v6(flow: u64, flags: u64) -> MatchKey {
    let mut key = key(flow, flags);
    key.0[0] = 0x2001_0db8_0000_0000 | (flow % 3);
    key.0[4] |= 1;
    key
}

fn plain_key(key: &MatchKey) -> LineKey {
    LineKey::of(&key.0).expect("TCP over IPv4")
}

fn action(id: u64, guard: u64) -> (MatchKey, MatchKey, Action) {
    let mut mask = MatchKey::EXACT;
    mask.0[4] |= guard << 16;
    let rewrites = Rewrites {
        written: Fields::of(&[Field::SourcePort, Field::SourceMac, Field::Egress]),
        source: Endpoint::v4([1, 2, 3, 4], id as u16),
        source_mac: MacAddress([2, 0, 0, 0, 0, (id % 5) as u8]),
        egress: id as u16,
        ..Rewrites::default()
    };
    let drop = match id % 7 {
        0 => Some(DropReason::Denied),
        _ => None,
    };
    let idle = Some(Duration::from_secs(id % 3)).filter(|idle| !idle.is_zero());
    (
        mask,
        MatchKey::NONE,
        Action {
            rewrites,
            drop,
            idle,
            tells_progress: id.is_multiple_of(2),
        },
    )
}

/// Nothing else may be left out for packets that are counted alone.
#[test]
fn a_rule_that_changes_nothing_counts_alone() {
    let counts = |change: &dyn Fn(&mut Action)| {
        let mut action = Action {
            rewrites: Rewrites::default(),
            drop: None,
            idle: None,
            tells_progress: false,
        };
        change(&mut action);
        let (mask, value) = (MatchKey::EXACT, key(7, 0));
        let mut table = FlowTable::<LineKey>::new(1, 1, 0);
        let words = settle(&action, &mask, &value);
        assert!(table.insert(0, (&mask, &value), &words, Instant(0)));
        counts_alone(table.line(table.find(plain_key(&value)).expect("there")))
    };
    let writes = |field| counts(&move |action| action.rewrites.written.add(field));
    assert!(counts(&|_| ()));
    assert!(counts(&|action| action.drop = Some(DropReason::Denied)));
    assert!(!counts(&|action| action.rewrites.decrements = 1));
    assert!(!counts(&|action| action.tells_progress = true));
    assert!(writes(Field::Egress));
    for field in [
        Field::SourceAddress,
        Field::DestinationPort,
        Field::DestinationMac,
        Field::Identification,
    ] {
        assert!(!writes(field), "{field:?}");
    }
}

#[derive(Default)]
struct Expected {
    id: u32,
    guard: u64,
    uses: Uses,
}

#[derive(Clone, Debug)]
enum Step {
    Insert { flow: u64, guard: u64 },
    Remove(u64),
    Packet { flow: u64, flags: u64 },
    Take(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let flow = 0u64..40;
    let guard = prop::sample::select(vec![0, 0, 7]);
    let flags = prop::sample::select(vec![0x10, 0x10, 0x10, 0x12]);
    prop_oneof![
        3 => (flow.clone(), guard).prop_map(|(flow, guard)| Step::Insert { flow, guard }),
        1 => flow.clone().prop_map(Step::Remove),
        6 => (flow.clone(), flags).prop_map(|(flow, flags)| Step::Packet { flow, flags }),
        1 => flow.prop_map(Step::Take),
    ]
}

/// Whether a table does what a map does, whose flows show these keys.
fn agrees_with_a_map<K: FlowOfLine>(
    (seed, steps): (u64, Vec<Step>),
    key: fn(u64, u64) -> MatchKey,
    mut note: impl FnMut(&mut FlowTable<K>, u32, TcpProgress) -> bool,
) -> Result<(), TestCaseError> {
    const LIMIT: usize = 20;
    let mut table = FlowTable::<K>::new(LIMIT, 1000, seed);
    let mut reference: HashMap<u64, Expected> = HashMap::new();
    let has_macs = LineKey::of(&key(0, 0).0).is_some();
    for (number, step) in (1u32..).zip(steps) {
        let now = Instant(u64::from(number) * 100_000_000);
        match step {
            Step::Insert { flow, guard } => {
                let (mask, _, action) = action(number.into(), guard);
                let value = key(flow, 0);
                let words = settle(&action, &mask, &value);
                let is_new = !reference.contains_key(&flow);
                if reference.len() < LIMIT {
                    prop_assert_eq!(table.insert(number, (&mask, &value), &words, now), is_new);
                    reference.entry(flow).or_insert(Expected {
                        id: number,
                        guard,
                        uses: Uses {
                            last: now,
                            ..Uses::default()
                        },
                    });
                }
            }
            Step::Remove(flow) => {
                let expected = reference.remove(&flow);
                let id = expected.as_ref().map_or(999, |expected| expected.id);
                prop_assert_eq!(table.remove(id), expected.map(|expected| expected.uses));
            }
            Step::Packet { flow, flags } => {
                let key = K::of(&key(flow, flags).0).expect("TCP");
                let expected = reference.get_mut(&flow);
                prop_assert_eq!(table.rule_of(key), expected.as_ref().map(|rule| rule.id));
                let expected = expected.filter(|rule| rule.guard & flags == 0);
                let found = table.find(key);
                prop_assert_eq!(
                    found.map(|place| table.rule_at(place)),
                    expected.as_ref().map(|rule| rule.id)
                );
                let usable = table.usable_from(table.prefetch(key), key, now);
                if let (Some(place), Some(rule)) = (found, expected) {
                    let idle = u64::from(rule.id % 3) * 1_000_000_000;
                    let is_idle = idle > 0 && now.0 - rule.uses.last.0 > idle;
                    let look = if is_idle { Look::Idle } else { Look::Meets };
                    prop_assert_eq!(table.look(place, key, now), look);
                    prop_assert_eq!(usable, (!is_idle).then_some(place));
                    let progress = TcpProgress {
                        sequence: number,
                        acknowledgement: number << 9,
                    };
                    let keeps = note(&mut table, place, progress) && rule.id.is_multiple_of(2);
                    let verdict = match rule.id % 7 {
                        0 => Decision::Drop(DropReason::Denied),
                        _ => Decision::Forward {
                            egress: Some(rule.id as u16),
                        },
                    };
                    prop_assert_eq!(table.count(place, 60, now), verdict);
                    let macs = table
                        .macs(table.line(place))
                        .map(|macs| u32::from(macs.bytes[11]));
                    prop_assert_eq!(macs, has_macs.then_some(rule.id % 5));
                    rule.uses.packets += 1;
                    rule.uses.bytes += 60;
                    rule.uses.last = now;
                    rule.uses.progress = keeps.then_some(progress);
                } else {
                    prop_assert_eq!(usable, None);
                }
            }
            Step::Take(flow) => {
                let Some(rule) = reference.get_mut(&flow) else {
                    continue;
                };
                let expected = (rule.uses.packets > 0).then_some(rule.uses);
                prop_assert_eq!(table.take_uses(rule.id), expected);
                rule.uses = Uses {
                    last: rule.uses.last,
                    ..Uses::default()
                };
            }
        }
        prop_assert_eq!(table.len(), reference.len());
        prop_assert_eq!(
            table.has_guards(),
            reference.values().any(|rule| rule.guard > 0)
        );
        for rule in reference.values() {
            prop_assert_eq!(table.uses(rule.id), Some(rule.uses));
        }
    }
    Ok(())
}

proptest! {
    /// Few lines, so that searches are long and run past the end.
    #[test]
    fn both_behave_like_a_map(seed: u64, steps in prop::collection::vec(step(), 1..400)) {
        agrees_with_a_map::<LineKey>((seed, steps.clone()), key, |table, place, progress| {
            table.note(place, progress);
            true
        })?;
        agrees_with_a_map::<LineKeyV6>((seed, steps), key_v6, |_, _, _| false)?;
    }
}

/// Lines of both tables have numbers of their own.
#[test]
fn lines_of_both_versions_are_told_apart() {
    let mut tables = FlowTables::new(2, 8, 7);
    let (mask, _, action) = action(1, 0);
    let values = [key(1, 0), key_v6(1, 0), key_v6(2, 0)];
    for (id, value) in (0..).zip(&values) {
        let words = settle(&action, &mask, value);
        assert!(tables.insert(id, (&mask, value), &words, Instant(0)));
    }
    for (id, value) in (0..).zip(&values) {
        let line = tables.find(value).expect("there");
        assert_eq!(
            (tables.rule_at(line), tables.rule_of(value)),
            (id, Some(id))
        );
        assert_eq!(matches!(tables.at(line), Place::V6(_)), id > 0);
        let near = tables.fetch(value).expect("of a flow");
        let usable = tables.usable_from(near, value, Instant(0));
        assert_eq!(usable, Some(tables.at(line)));
        for other in &values {
            assert_eq!(tables.is_met(line, other), other == value);
            let look = tables.look(line, other, Instant(0));
            assert_eq!(look == Look::Meets, other == value);
        }
    }
    let used = values
        .iter()
        .map(|value| tables.find(value).map(|line| tables.at(line)));
    for place in used.flatten().collect::<Vec<_>>() {
        match place {
            Place::V4(line) => tables.v4.count(line, 60, Instant(5)),
            Place::V6(line) => tables.v6.count(line, 60, Instant(5)),
        };
    }
    assert_eq!(tables.len(), 3);
    for id in 0..3 {
        assert_eq!(tables.take_uses(id).map(|uses| uses.packets), Some(1));
        assert_eq!(tables.take_uses(id), None);
        assert_eq!(tables.remove(id).map(|uses| uses.packets), Some(0));
    }
    assert_eq!((tables.len(), tables.remove(0)), (0, None));
}

/// Neighbouring clients and ports, the worst realistic case, fill lines as by chance.
#[test]
fn neighbours_spread_over_lines() {
    const PARTS: usize = 4096;
    for seed in [0, 1, 0x0123_4567_89ab_cdef] {
        let table = FlowTable::<LineKey>::new(1 << 15, 1, seed);
        let part = |home: usize| home * PARTS / table.lines.len();
        for step in [1u64, 16, 256, 4096] {
            let mut load = vec![0u32; PARTS];
            for flow in 0..65_536 {
                load[part(table.home(plain_key(&key(flow * step, 0))))] += 1;
            }
            let variance = load
                .iter()
                .map(|&n| (f64::from(n) - 16.0).powi(2))
                .sum::<f64>()
                / PARTS as f64;
            assert!((12.0..20.0).contains(&variance), "{variance}, by chance 16");
        }
    }
}

/// Flows whose lines are the same under one seed: a run of them is bounded, and under another
/// seed they are like others.
#[test]
fn chosen_flows_are_bounded_under_their_seed_and_spread_under_another() {
    const LIMIT: usize = 1 << 12;
    let [mut own, mut other] = [1, 2].map(|seed| FlowTable::<LineKey>::new(LIMIT, LIMIT, seed));
    let part = |home: usize| home / (own.lines.len() / 64);
    let at_part = |flow: &u64| part(own.home(plain_key(&key(*flow, 0)))) == 0;
    let flows: Vec<u64> = (0..).filter(at_part).take(LIMIT).collect();
    let put = |table: &mut FlowTable<LineKey>| {
        let all = flows.iter().zip(0..);
        let put = all.filter(|&(&flow, id)| {
            let (mask, _, action) = action(1, 0);
            let value = key(flow, 0);
            let words = settle(&action, &mask, &value);
            table.insert(id, (&mask, &value), &words, Instant(0))
        });
        put.count()
    };
    let looks = |table: &FlowTable<LineKey>, flow: u64| {
        let key = plain_key(&key(flow, 0));
        let distance = table.search(key) + table.lines.len() - table.home(key);
        distance % table.lines.len()
    };
    let most = |table: &FlowTable<LineKey>| flows.iter().map(|&flow| looks(table, flow)).max();
    let in_one_run = 256 + LONGEST_RUN;
    assert!(put(&mut own) <= in_one_run);
    assert!(most(&own) <= Some(LONGEST_RUN), "{:?}", most(&own));
    assert_eq!(put(&mut other), LIMIT);
    assert!(most(&other) < Some(16), "{:?}", most(&other));
    (0..LIMIT as u32).for_each(|id| _ = own.remove(id));
    assert_eq!(own.len(), 0);
    assert!(own.lines.iter().all(|line| line.0[1] == 0));
}

#[test]
fn what_does_not_fit_a_line_is_refused() {
    let mut table = FlowTables::new(8, 8, 1);
    let (mask, _, action) = action(1, 0);
    let value = key(1, 0);
    let words = settle(&action, &mask, &value);
    let mut echo = value;
    echo.0[4] |= 2;
    for shape in [0, 1] {
        echo.0[4] |= shape;
        assert!(!table.insert(0, (&mask, &echo), &words, Instant(0)));
    }
    assert!(
        !table.insert(0, (&mask, &value), &action.pack(), Instant(0)),
        "not settled"
    );
    let by_port = mask.or(&Field::Ingress.mask());
    assert!(!table.insert(0, (&by_port, &value), &words, Instant(0)));
    assert!(table.insert(0, (&mask, &value), &words, Instant(0)));
    assert!(
        !table.insert(1, (&mask, &value), &words, Instant(0)),
        "one rule for a flow"
    );
}
