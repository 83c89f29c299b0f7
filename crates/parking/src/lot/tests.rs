use super::*;
use crate::config::{Correction, Multicast, Target};
use std::time::Duration;

type Sizes = Lot<u32, &'static str>;

const NOW: Instant = Instant(0);

fn lot(change: impl FnOnce(&mut Config)) -> Sizes {
    let mut config = Config {
        limit_bytes: 3000,
        slots: 4,
        patience: Duration::from_nanos(100),
        ..Config::default()
    };
    change(&mut config);
    Lot::new(config).unwrap()
}

fn ordered() -> Order {
    Order::ByFlow {
        partitions: 1,
        window: 64,
    }
}

fn multicast(target: Target, late: Late) -> Variant {
    Variant::Multicast(Multicast {
        target,
        gain: 1.0,
        correction: Correction::Exact,
        drain_bps: 8_000_000_000,
        most_copies: 8,
        late,
    })
}

/// Dequeues, and puts what goes round back at once.
fn step(lot: &mut Sizes, now: u64) -> &'static str {
    match lot.dequeue(Instant(now)) {
        None => "empty",
        Some(Dequeued::Copy) => "copy",
        Some(Dequeued::Depart { header, .. }) => header,
        Some(Dequeued::Whole(_)) => "whole",
        Some(Dequeued::Ended { end, .. }) => match end {
            End::Declined => "declined",
            End::Expired => "expired",
            End::Late => "late",
        },
        Some(Dequeued::Again(resident)) => {
            lot.recirculated(resident);
            "again"
        }
    }
}

#[test]
fn a_payload_waits_for_its_header() {
    let mut lot = lot(|_| ());
    let ticket = lot.park(1000, 0, NOW).unwrap();
    assert_eq!([step(&mut lot, 1), step(&mut lot, 2)], ["again", "again"]);
    assert_eq!(
        lot.answered(ticket, Answer::Header("h"), NOW),
        Received::Kept
    );
    assert_eq!([step(&mut lot, 3), step(&mut lot, 4)], ["h", "empty"]);
    assert_eq!((lot.stats().departed, lot.stats().recirculations), (1, 2));
}

#[test]
fn a_lost_header_costs_its_packet_alone() {
    let mut lot = lot(|config| config.order = ordered());
    let lost = lot.park(1000, 0, NOW).unwrap();
    let next = lot.park(1000, 0, Instant(50)).unwrap();
    lot.answered(next, Answer::Header("next"), Instant(60));
    assert_eq!([step(&mut lot, 98), step(&mut lot, 99)], ["again", "again"]);
    assert_eq!(
        [step(&mut lot, 100), step(&mut lot, 101)],
        ["expired", "next"]
    );
    assert_eq!(
        lot.answered(lost, Answer::Header("old"), Instant(102)),
        Received::Stale
    );
    assert_eq!((lot.stats().expired, lot.stats().headers_stale), (1, 1));
}

#[test]
fn an_old_header_does_not_meet_the_next_payload_in_its_slot() {
    let mut lot = lot(|config| config.slots = 1);
    let first = lot.park(1000, 0, NOW).unwrap();
    lot.answered(first, Answer::Header("first"), NOW);
    step(&mut lot, 1);
    let second = lot.park(1000, 0, NOW).unwrap();
    assert_eq!(second.slot, first.slot);
    assert_eq!(
        lot.answered(first, Answer::Header("first"), NOW),
        Received::Stale
    );
    assert_eq!(step(&mut lot, 2), "again");
}

#[test]
fn the_first_of_two_headers_counts() {
    let mut lot = lot(|_| ());
    let ticket = lot.park(1000, 0, NOW).unwrap();
    lot.answered(ticket, Answer::Header("one"), NOW);
    assert_eq!(
        lot.answered(ticket, Answer::Header("two"), NOW),
        Received::Doubled
    );
    assert_eq!(step(&mut lot, 1), "one");
}

#[test]
fn each_refusal_is_told_and_counted() {
    let mut full = lot(|_| ());
    for _ in 0..3 {
        full.park(1000, 0, NOW).unwrap();
    }
    let refused = full.park(1, 0, NOW).unwrap_err();
    assert_eq!((refused.refusal, refused.payload), (Refusal::QueueFull, 1));
    let mut slots = lot(|config| config.slots = 1);
    slots.park(64, 0, NOW).unwrap();
    assert_eq!(slots.park(64, 0, NOW).unwrap_err().refusal, Refusal::NoSlot);
    let mut window = lot(|config| {
        (config.order, config.slots, config.limit_bytes) = (ordered(), 100, 10_000);
    });
    let parked = (0..100).filter(|_| window.park(64, 0, NOW).is_ok()).count();
    assert_eq!((parked, window.stats().window_full), (64, 36));
}

#[test]
fn a_payload_going_round_keeps_its_room() {
    let mut lot = lot(|_| ());
    for _ in 0..3 {
        lot.park(1000, 0, NOW).unwrap();
    }
    let Some(Dequeued::Again(resident)) = lot.dequeue(NOW) else {
        panic!("no header is back");
    };
    assert_eq!(lot.queue_bytes(), 2000);
    assert!(lot.park(1000, 0, NOW).is_err());
    lot.recirculated(resident);
    assert_eq!(lot.queue_bytes(), 3000);
}

#[test]
fn a_flow_keeps_its_order_and_others_do_not_wait() {
    let partitions = Order::ByFlow {
        partitions: 2,
        window: 64,
    };
    let mut lot = lot(|config| config.order = partitions);
    let hashes = [0, 0, u64::MAX];
    let tickets = hashes.map(|hash| lot.park(500, hash, NOW).unwrap());
    lot.answered(tickets[1], Answer::Header("second"), NOW);
    lot.answered(tickets[2], Answer::Header("other"), NOW);
    let first_round = [(); 3].map(|()| step(&mut lot, 1));
    assert_eq!(first_round, ["again", "again", "other"]);
    lot.answered(tickets[0], Answer::Header("first"), NOW);
    assert_eq!([step(&mut lot, 2), step(&mut lot, 3)], ["first", "second"]);
}

#[test]
fn who_is_declined_holds_nobody_up() {
    let mut lot = lot(|config| config.order = ordered());
    let tickets = [(); 2].map(|()| lot.park(500, 0, NOW).unwrap());
    step(&mut lot, 1);
    lot.answered(tickets[1], Answer::Header("second"), NOW);
    lot.answered(tickets[0], Answer::Dropped, NOW);
    assert_eq!(
        [step(&mut lot, 2), step(&mut lot, 3)],
        ["second", "declined"]
    );
    assert_eq!(lot.stats().ended(), 2);
}

/// The second header is back first, so its packet is the first; a whole packet of the flow comes
/// behind both, one of another flow behind none, and the third header never comes back.
#[test]
fn packets_leave_as_their_headers_came_back() {
    let mut lot = lot(|config| config.order = Order::AsReturned { partitions: 2 });
    let tickets = [(); 3].map(|()| lot.park(500, 0, NOW).unwrap());
    assert!(matches!(lot.follow(64, 0, NOW), Followed::Leaves(64)));
    lot.answered_for(tickets[1], Answer::Header("second"), 0, NOW);
    lot.answered_for(tickets[0], Answer::Header("first"), 0, NOW);
    assert!(matches!(lot.follow(64, 0, NOW), Followed::Waits));
    assert!(matches!(
        lot.follow(64, u64::MAX, NOW),
        Followed::Leaves(64)
    ));
    assert!(matches!(lot.follow(3000, 0, NOW), Followed::Refused(3000)));
    let left: Vec<_> = (1..=6).map(|now| step(&mut lot, now)).collect();
    assert_eq!(
        left,
        ["again", "second", "again", "again", "first", "again"]
    );
    assert_eq!(
        [step(&mut lot, 7), step(&mut lot, 100)],
        ["whole", "expired"]
    );
    assert!(!lot.may_hold_back());
    assert_eq!(
        (lot.stats().followers, lot.stats().followers_refused),
        (1, 1)
    );
}

#[test]
fn a_port_chosen_by_the_cores_costs_one_more_pass() {
    let mut lot = lot(|config| config.cores_choose_port = true);
    let ticket = lot.park(1000, 0, NOW).unwrap();
    lot.answered(ticket, Answer::Header("h"), NOW);
    assert_eq!([step(&mut lot, 1), step(&mut lot, 2)], ["again", "h"]);
    assert_eq!(lot.stats().port_passes, 1);
}

/// The controller keeps 2048 bytes below the limit.
fn filled(limit_bytes: u64, variant: Variant) -> Sizes {
    lot(|config| (config.limit_bytes, config.variant) = (limit_bytes, variant))
}

#[test]
fn copies_go_in_front_and_end_at_the_other_side() {
    let target = Target::Fixed { bytes: 2000 };
    let mut lot = filled(4048, multicast(target, Late::Discard));
    let ticket = lot.park(500, 0, NOW).unwrap();
    assert_eq!((lot.stats().copies, lot.queue_bytes()), (4, 2500));
    lot.answered(ticket, Answer::Header("h"), NOW);
    let out: Vec<_> = (0..6).map(|_| step(&mut lot, 1)).collect();
    assert_eq!(out, ["copy", "copy", "copy", "copy", "h", "empty"]);
}

#[test]
fn copies_end_where_the_multicast_engine_does() {
    let target = Target::Fixed { bytes: 2000 };
    let mut lot = filled(4048, multicast(target, Late::Discard));
    lot.park(64, 0, NOW).unwrap();
    assert_eq!((lot.stats().copies, lot.stats().copies_limited), (8, 1));
}

/// A controller that is told nothing and corrects nothing fills up to the limit, not beyond.
#[test]
fn copies_end_where_the_queue_does() {
    let Variant::Multicast(blind) = multicast(Target::Fixed { bytes: 2000 }, Late::Discard) else {
        unreachable!()
    };
    let mut lot = filled(
        4048,
        Variant::Multicast(Multicast {
            correction: Correction::None,
            ..blind
        }),
    );
    assert!(lot.park(500, 0, NOW).is_ok() && lot.park(500, 0, NOW).is_ok());
    assert_eq!((lot.stats().copies, lot.stats().copies_no_room), (6, 1));
    assert_eq!(lot.queue_bytes(), 4000);
}

#[test]
fn without_a_second_pass_the_late_are_given_up() {
    let target = Target::Fixed { bytes: 0 };
    let mut once = lot(|config| config.variant = multicast(target, Late::Discard));
    once.park(500, 0, NOW).unwrap();
    assert_eq!([step(&mut once, 1), step(&mut once, 2)], ["late", "empty"]);
    let mut twice = lot(|config| config.variant = multicast(target, Late::Again));
    twice.park(500, 0, NOW).unwrap();
    assert_eq!(step(&mut twice, 1), "again");
}

/// A header that passes several cores may wait for others between them; only the time on the cores
/// counts against the patience of 100 ns.
#[test]
fn patience_is_with_the_cores_alone() {
    let mut lot = lot(|_| ());
    let ticket = lot.park(1000, 0, NOW).unwrap();
    assert_eq!(lot.next_expiry(), Some(Instant(100)));
    lot.came_back(ticket);
    assert_eq!(lot.next_expiry(), None);
    assert_eq!(step(&mut lot, 5000), "again");
    lot.goes_again(ticket, Instant(6000));
    assert_eq!(lot.next_expiry(), Some(Instant(6100)));
    assert_eq!(step(&mut lot, 6099), "again");
    assert_eq!(step(&mut lot, 6100), "expired");
    // News of a payload that is gone changes nothing.
    lot.came_back(ticket);
    lot.goes_again(ticket, Instant(7000));
    assert_eq!(lot.next_expiry(), None);

    let ticket = lot.park(1000, 0, Instant(8000)).unwrap();
    lot.came_back(ticket);
    let answer = Answer::Header("header");
    assert_eq!(
        lot.answered(ticket, answer, Instant(9000)),
        Received::Kept,
        "it went on by itself"
    );
    lot.came_back(ticket);
    assert_eq!(step(&mut lot, 9000), "header");
}

/// 1 byte a nanosecond leaves, so a header that takes 1900 ns needs 1900 bytes in the queue.
#[test]
fn a_late_header_moves_the_target_and_a_small_buffer_is_told() {
    let follow = Target::Follow {
        quantile: 0.5,
        margin_bytes: 0,
        first_bytes: 0,
    };
    let mut lot = lot(|config| {
        (config.variant, config.limit_bytes) = (multicast(follow, Late::Discard), 4048);
        config.patience = Duration::from_micros(20);
    });
    let target = |lot: &Sizes| lot.fit().unwrap();
    let ticket = lot.park(500, 0, NOW).unwrap();
    assert_eq!(step(&mut lot, 500), "late");
    lot.answered(ticket, Answer::Header("late"), Instant(1900));
    assert!(
        matches!(target(&lot), Fit::Fits { target_bytes } if (1900..2140).contains(&target_bytes))
    );
    // The same header once more says nothing new of the cores.
    lot.answered(ticket, Answer::Header("late"), Instant(900_000));
    assert!(matches!(target(&lot), Fit::Fits { .. }));
    for _ in 0..2 {
        let ticket = lot.park(500, 0, Instant(2000)).unwrap();
        while step(&mut lot, 2500) != "late" {}
        lot.answered(ticket, Answer::Header("late"), Instant(10_000));
    }
    assert!(matches!(
        target(&lot),
        Fit::TooSmall {
            target_bytes: 2000,
            ..
        }
    ));
    lot.park(500, 0, Instant(10_000)).unwrap();
    assert_eq!(lot.stats().target_beyond_buffer, 1);
}
