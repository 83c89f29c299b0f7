use super::*;
use crate::field::Field;
use crate::message::Gone;
use crate::recording::{Dependency, Recording};
use crate::synthesis::synthesise;
use std::time::Duration;

const SHARED: EntryId = EntryId {
    function: 1,
    entry: 0,
};

fn own(number: u32) -> EntryId {
    EntryId {
        function: 0,
        entry: number,
    }
}

fn key(number: u32) -> MatchKey {
    Field::SourceAddress.place(number.into())
}

/// A rule of one flow, with an entry of its own and a shared one; exact or not.
fn rule(number: u32, exact: bool) -> Rule {
    let mut recording = Recording::new(Some(key(number)));
    recording.examine(Field::SourceAddress.mask());
    for entry in [own(number), SHARED] {
        recording.depend(Dependency {
            entry,
            ..Dependency::default()
        });
    }
    let rule = synthesise(&recording, None, Instant(5)).expect("cacheable");
    match exact {
        true => rule.exact(&key(number)),
        false => rule,
    }
}

struct Bench {
    manager: Manager,
    sent: Vec<CacheMessage>,
    credited: Vec<(EntryId, u64)>,
}

impl Bench {
    fn new(exact: usize, masked: usize, masks: usize) -> Self {
        Self {
            manager: Manager::new(ManagerConfig {
                exact,
                masked,
                masks,
                retry: Duration::from_nanos(10),
                window: Duration::from_nanos(1000),
                ..ManagerConfig::default()
            }),
            sent: Vec::new(),
            credited: Vec::new(),
        }
    }

    fn offer(&mut self, rule: Rule, number: u32, hotness: u32) -> Offer {
        let sent = &mut self.sent;
        self.manager
            .offer(rule, &key(number), hotness, Instant(0), sent)
    }

    fn hear(&mut self, message: CacheMessage) {
        let credited = &mut self.credited;
        let mut credit = |entry, hits: &Hits| credited.push((entry, hits.packets));
        self.manager
            .message(&message, Instant(0), &mut credit, &mut self.sent);
    }

    fn tick(&mut self, now: u64) {
        self.manager.tick(Instant(now), &mut self.sent);
    }

    /// What was sent, in short.
    fn said(&mut self) -> Vec<String> {
        let short = |message: CacheMessage| match message {
            CacheMessage::Add(name, _) => format!("add {} {}", name.id, name.generation),
            CacheMessage::Clear(name) => format!("clear {} {}", name.id, name.generation),
            CacheMessage::Query(name) => format!("query {} {}", name.id, name.generation),
            other => format!("{other:?}"),
        };
        self.sent.drain(..).map(short).collect()
    }

    fn install(&mut self, number: u32, exact: bool, hotness: u32) -> RuleName {
        let Offer::Added(id) = self.offer(rule(number, exact), number, hotness) else {
            panic!("there is room")
        };
        let generation = self.manager.slots[id as usize].generation;
        let name = RuleName { id, generation };
        self.hear(CacheMessage::Installed(name));
        self.sent.clear();
        name
    }
}

fn uses(packets: u64) -> Uses {
    Uses {
        packets,
        bytes: 100 * packets,
        last: Instant(9),
        progress: None,
    }
}

#[test]
fn requests_are_repeated_until_answered() {
    let mut bench = Bench::new(4, 0, 0);
    let offer = bench.offer(rule(1, true), 1, 9);
    assert_eq!(offer, Offer::Added(0));
    assert_eq!(bench.offer(rule(1, true), 1, 9), Offer::Known);
    bench.tick(9);
    assert_eq!(bench.said(), ["add 0 1"]);
    bench.tick(10);
    bench.tick(15);
    assert_eq!(bench.said(), ["add 0 1"]);
    let name = RuleName {
        id: 0,
        generation: 1,
    };
    bench.hear(CacheMessage::Installed(name));
    bench.hear(CacheMessage::Installed(name));
    bench.tick(50);
    assert!(bench.said().is_empty());
    assert_eq!(bench.manager.counters().repeated, 1);
}

#[test]
fn a_closed_entry_is_free_when_the_last_rule_is_gone() {
    let mut bench = Bench::new(4, 0, 0);
    let (one, two) = (bench.install(1, true, 9), bench.install(2, true, 9));
    bench.manager.close(SHARED, Instant(0), &mut bench.sent);
    assert_eq!(bench.said().len(), 2);
    assert_eq!(bench.offer(rule(3, true), 3, 9), Offer::Closed);
    bench.hear(CacheMessage::Gone(one, uses(3), Gone::Cleared));
    bench.hear(CacheMessage::Gone(one, uses(3), Gone::Cleared));
    assert!(bench.manager.is_free(own(1)) && !bench.manager.is_free(own(2)));
    assert!(!bench.manager.is_free(SHARED));
    bench.hear(CacheMessage::Gone(two, uses(0), Gone::Idle));
    assert!(bench.manager.is_free(SHARED));
    assert_eq!(bench.credited, [(own(1), 3), (SHARED, 3)]);
    bench.manager.open(SHARED);
    // The place is used again, by the next generation; late news of the last one is nothing.
    let again = bench.install(4, true, 9);
    assert_eq!((again.id, again.generation), (two.id, two.generation + 1));
    bench.hear(CacheMessage::Gone(two, uses(7), Gone::Idle));
    assert!(!bench.manager.is_free(SHARED));
    assert_eq!(bench.manager.counters().stale, 2);
}

#[test]
fn uses_are_credited_once() {
    let mut bench = Bench::new(4, 0, 0);
    let name = bench.install(1, true, 9);
    for packets in [2, 2, 5] {
        bench.hear(CacheMessage::Used(name, uses(packets)));
    }
    assert_eq!(
        bench.credited,
        [(own(1), 2), (SHARED, 2), (own(1), 3), (SHARED, 3)]
    );
    bench.manager.query(own(1), Instant(0), &mut bench.sent);
    assert_eq!(bench.said(), ["query 0 1"]);
    assert!(!bench.manager.is_answered(own(1)));
    bench.hear(CacheMessage::Used(name, uses(5)));
    assert!(bench.manager.is_answered(own(1)));
}

#[test]
fn a_full_table_keeps_the_hotter_rules() {
    let mut bench = Bench::new(2, 0, 0);
    let (hot, cold) = (bench.install(1, true, 50), bench.install(2, true, 5));
    assert_eq!(bench.offer(rule(3, true), 3, 5), Offer::NoRoom);
    assert_eq!(bench.offer(rule(3, true), 3, 20), Offer::Replaces(cold.id));
    assert_eq!(bench.said(), ["clear 1 1"]);
    assert!(!bench.manager.is_free(own(3)), "it is as good as cached");
    bench.hear(CacheMessage::Gone(cold, uses(0), Gone::Cleared));
    assert_eq!(bench.said(), ["add 1 2"]);
    assert!(bench.manager.is_free(own(2)) && !bench.manager.is_free(own(1)));
    // A rule that waits for a place is forgotten when one of its entries is to change.
    bench.hear(CacheMessage::Installed(RuleName {
        id: 1,
        generation: 2,
    }));
    let offer = bench.offer(rule(4, true), 4, 30);
    assert_eq!(offer, Offer::Replaces(1));
    bench.manager.close(own(4), Instant(0), &mut bench.sent);
    bench.manager.open(own(4));
    assert!(bench.manager.is_free(own(4)));
    bench.hear(CacheMessage::Gone(
        RuleName {
            id: 1,
            generation: 2,
        },
        uses(0),
        Gone::Cleared,
    ));
    assert_eq!(bench.manager.rules(), 1);
    assert!(!bench.manager.is_free(own(1)), "{hot:?} is still there");
}

#[test]
fn rules_without_room_for_their_mask_become_exact() {
    let mut bench = Bench::new(4, 4, 0);
    assert_eq!(bench.offer(rule(1, false), 1, 9), Offer::Added(0));
    let Some(CacheMessage::Add(_, sent)) = bench.sent.pop() else {
        panic!("sent")
    };
    assert_eq!(sent.mask, MatchKey::EXACT);
    assert!(key(1).matches(&sent.mask, &sent.value));
    let mut flags = rule(2, false);
    flags.mask = flags.mask.or(&Field::TcpFlags.mask());
    assert_eq!(bench.offer(flags, 2, 9), Offer::Added(1));
    let Some(CacheMessage::Add(_, sent)) = bench.sent.pop() else {
        panic!("sent")
    };
    assert_eq!(sent.mask, MatchKey::EXACT.or(&Field::TcpFlags.mask()));
    assert_eq!(bench.manager.counters().narrowed, 2);
}

#[test]
fn rules_that_nobody_uses_are_taken_out() {
    let mut bench = Bench::new(4, 0, 0);
    let (used, _unused) = (bench.install(1, true, 9), bench.install(2, true, 9));
    for window in 1..=4 {
        bench.hear(CacheMessage::Used(used, uses(window)));
        bench.tick(window * 1000);
    }
    assert!(bench.said().contains(&"clear 1 1".to_string()));
    assert_eq!(bench.manager.counters().aged, 1);
}

#[test]
fn everything_may_change_when_no_rule_is_left_and_none_is_admitted_meanwhile() {
    let mut bench = Bench::new(2, 1, 1);
    let names = [bench.install(1, true, 9), bench.install(2, false, 9)];
    let everything = Affected::Everything;
    let (now, sent) = (Instant(0), &mut bench.sent);
    assert_eq!(bench.manager.begin_change(0, everything, now, sent), 2);
    assert_eq!(bench.said(), ["clear 0 1", "clear 1 1"]);
    assert_eq!(bench.offer(rule(3, true), 3, 99), Offer::Closed);
    for name in names {
        assert!(!bench.manager.may_change());
        bench.hear(CacheMessage::Gone(name, uses(0), Gone::Cleared));
    }
    assert!(bench.manager.may_change());
    bench.manager.end_change();
    assert!(matches!(bench.offer(rule(3, true), 3, 99), Offer::Added(_)));
}

#[test]
fn a_new_rule_has_a_whole_window_before_it_ages() {
    let mut bench = Bench::new(4, 0, 0);
    bench.manager.config.idle_windows = 1;
    bench.install(1, true, 9);
    bench.tick(1000);
    assert_eq!(bench.manager.counters().aged, 0, "installed just now");
    bench.tick(2000);
    assert_eq!(bench.manager.counters().aged, 1);
}
