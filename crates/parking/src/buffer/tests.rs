use super::*;
use crate::config::{Correction, Multicast, Target};
use std::time::Duration;

type Sizes = PayloadBuffer<u32, &'static str>;

const NOW: Instant = Instant(0);

fn buffer(change: impl FnOnce(&mut Config)) -> Sizes {
    let mut config = Config {
        limit_bytes: 3000,
        slots: 4,
        header_timeout: Duration::from_nanos(100),
        ..Config::default()
    };
    change(&mut config);
    PayloadBuffer::new(config).unwrap()
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
fn step(buffer: &mut Sizes, now: u64) -> &'static str {
    match buffer.dequeue(Instant(now)) {
        None => "empty",
        Some(Dequeued::Copy) => "copy",
        Some(Dequeued::Depart { header, .. }) => header,
        Some(Dequeued::Whole(_)) => "whole",
        Some(Dequeued::Ended { end, .. }) => match end {
            End::Declined => "declined",
            End::Expired => "expired",
            End::Late => "late",
        },
        Some(Dequeued::Again(parked_payload)) => {
            buffer.recirculated(parked_payload);
            "again"
        }
    }
}

#[test]
fn a_payload_waits_for_its_header() {
    let mut buffer = buffer(|_| ());
    let ticket = buffer.park(1000, 0, NOW).unwrap();
    assert_eq!(
        [step(&mut buffer, 1), step(&mut buffer, 2)],
        ["again", "again"]
    );
    assert_eq!(
        buffer.answered(ticket, Answer::Header("h"), NOW),
        Received::Kept
    );
    assert_eq!([step(&mut buffer, 3), step(&mut buffer, 4)], ["h", "empty"]);
    assert_eq!(
        (buffer.counters().departed, buffer.counters().recirculations),
        (1, 2)
    );
}

#[test]
fn a_lost_header_costs_its_packet_alone() {
    let mut buffer = buffer(|config| config.order = ordered());
    let lost = buffer.park(1000, 0, NOW).unwrap();
    let next = buffer.park(1000, 0, Instant(50)).unwrap();
    buffer.answered(next, Answer::Header("next"), Instant(60));
    assert_eq!(
        [step(&mut buffer, 98), step(&mut buffer, 99)],
        ["again", "again"]
    );
    assert_eq!(
        [step(&mut buffer, 100), step(&mut buffer, 101)],
        ["expired", "next"]
    );
    assert_eq!(
        buffer.answered(lost, Answer::Header("old"), Instant(102)),
        Received::Stale
    );
    assert_eq!(
        (buffer.counters().expired, buffer.counters().headers_stale),
        (1, 1)
    );
}

#[test]
fn an_old_header_does_not_meet_the_next_payload_in_its_slot() {
    let mut buffer = buffer(|config| config.slots = 1);
    let first = buffer.park(1000, 0, NOW).unwrap();
    buffer.answered(first, Answer::Header("first"), NOW);
    step(&mut buffer, 1);
    let second = buffer.park(1000, 0, NOW).unwrap();
    assert_eq!(second.slot, first.slot);
    assert_eq!(
        buffer.answered(first, Answer::Header("first"), NOW),
        Received::Stale
    );
    assert_eq!(step(&mut buffer, 2), "again");
}

#[test]
fn the_first_of_two_headers_counts() {
    let mut buffer = buffer(|_| ());
    let ticket = buffer.park(1000, 0, NOW).unwrap();
    buffer.answered(ticket, Answer::Header("one"), NOW);
    assert_eq!(
        buffer.answered(ticket, Answer::Header("two"), NOW),
        Received::Doubled
    );
    assert_eq!(step(&mut buffer, 1), "one");
}

#[test]
fn each_refusal_is_told_and_counted() {
    let mut full = buffer(|_| ());
    for _ in 0..3 {
        full.park(1000, 0, NOW).unwrap();
    }
    let refused = full.park(1, 0, NOW).unwrap_err();
    assert_eq!((refused.refusal, refused.payload), (Refusal::QueueFull, 1));
    let mut slots = buffer(|config| config.slots = 1);
    slots.park(64, 0, NOW).unwrap();
    assert_eq!(slots.park(64, 0, NOW).unwrap_err().refusal, Refusal::NoSlot);
    let mut window = buffer(|config| {
        (config.order, config.slots, config.limit_bytes) = (ordered(), 100, 10_000);
    });
    let parked = (0..100).filter(|_| window.park(64, 0, NOW).is_ok()).count();
    assert_eq!((parked, window.counters().window_full), (64, 36));
}

#[test]
fn a_payload_going_round_keeps_its_room() {
    let mut buffer = buffer(|_| ());
    for _ in 0..3 {
        buffer.park(1000, 0, NOW).unwrap();
    }
    let Some(Dequeued::Again(parked_payload)) = buffer.dequeue(NOW) else {
        panic!("no header is back");
    };
    assert_eq!(buffer.queue_bytes(), 2000);
    assert!(buffer.park(1000, 0, NOW).is_err());
    buffer.recirculated(parked_payload);
    assert_eq!(buffer.queue_bytes(), 3000);
}

#[test]
fn a_flow_keeps_its_order_and_others_do_not_wait() {
    let partitions = Order::ByFlow {
        partitions: 2,
        window: 64,
    };
    let mut buffer = buffer(|config| config.order = partitions);
    let hashes = [0, 0, u64::MAX];
    let tickets = hashes.map(|hash| buffer.park(500, hash, NOW).unwrap());
    buffer.answered(tickets[1], Answer::Header("second"), NOW);
    buffer.answered(tickets[2], Answer::Header("other"), NOW);
    let first_round = [(); 3].map(|()| step(&mut buffer, 1));
    assert_eq!(first_round, ["again", "again", "other"]);
    buffer.answered(tickets[0], Answer::Header("first"), NOW);
    assert_eq!(
        [step(&mut buffer, 2), step(&mut buffer, 3)],
        ["first", "second"]
    );
}

#[test]
fn who_is_declined_holds_nobody_up() {
    let mut buffer = buffer(|config| config.order = ordered());
    let tickets = [(); 2].map(|()| buffer.park(500, 0, NOW).unwrap());
    step(&mut buffer, 1);
    buffer.answered(tickets[1], Answer::Header("second"), NOW);
    buffer.answered(tickets[0], Answer::Dropped, NOW);
    assert_eq!(
        [step(&mut buffer, 2), step(&mut buffer, 3)],
        ["second", "declined"]
    );
    assert_eq!(buffer.counters().ended(), 2);
}

/// The second header is back first, so its packet is the first; a whole packet of the flow comes
/// behind both, one of another flow behind none, and the third header never comes back.
#[test]
fn packets_leave_as_their_headers_came_back() {
    let mut buffer = buffer(|config| config.order = Order::AsReturned);
    let tickets = [(); 3].map(|()| buffer.park(500, 0, NOW).unwrap());
    assert!(matches!(
        buffer.wait_behind(64, 0, NOW),
        Followed::Leaves(64)
    ));
    buffer.answered_for(tickets[1], Answer::Header("second"), 0, NOW);
    buffer.answered_for(tickets[0], Answer::Header("first"), 0, NOW);
    assert!(matches!(buffer.wait_behind(64, 0, NOW), Followed::Waits));
    assert!(matches!(
        buffer.wait_behind(64, u64::MAX, NOW),
        Followed::Leaves(64)
    ));
    assert!(matches!(
        buffer.wait_behind(3000, 0, NOW),
        Followed::Refused(3000)
    ));
    let left: Vec<_> = (1..=6).map(|now| step(&mut buffer, now)).collect();
    assert_eq!(
        left,
        ["again", "second", "again", "again", "first", "again"]
    );
    assert_eq!(
        [step(&mut buffer, 7), step(&mut buffer, 100)],
        ["whole", "expired"]
    );
    assert!(!buffer.may_hold_back());
    assert_eq!(
        (
            buffer.counters().followers,
            buffer.counters().followers_refused
        ),
        (1, 1)
    );
}

#[test]
fn a_port_chosen_by_the_slow_path_costs_one_more_pass() {
    let mut buffer = buffer(|config| config.slow_path_chooses_port = true);
    let ticket = buffer.park(1000, 0, NOW).unwrap();
    buffer.answered(ticket, Answer::Header("h"), NOW);
    assert_eq!([step(&mut buffer, 1), step(&mut buffer, 2)], ["again", "h"]);
    assert_eq!(buffer.counters().port_passes, 1);
}

/// The controller keeps 2048 bytes below the limit.
fn filled(limit_bytes: u64, variant: Variant) -> Sizes {
    buffer(|config| (config.limit_bytes, config.variant) = (limit_bytes, variant))
}

#[test]
fn copies_go_in_front_and_end_at_the_other_side() {
    let target = Target::Fixed { bytes: 2000 };
    let mut buffer = filled(4048, multicast(target, Late::Discard));
    let ticket = buffer.park(500, 0, NOW).unwrap();
    assert_eq!((buffer.counters().copies, buffer.queue_bytes()), (4, 2500));
    buffer.answered(ticket, Answer::Header("h"), NOW);
    let out: Vec<_> = (0..6).map(|_| step(&mut buffer, 1)).collect();
    assert_eq!(out, ["copy", "copy", "copy", "copy", "h", "empty"]);
}

#[test]
fn copies_end_where_the_multicast_engine_does() {
    let target = Target::Fixed { bytes: 2000 };
    let mut buffer = filled(4048, multicast(target, Late::Discard));
    buffer.park(64, 0, NOW).unwrap();
    assert_eq!(
        (buffer.counters().copies, buffer.counters().copies_limited),
        (8, 1)
    );
}

/// A controller that is told nothing and corrects nothing fills up to the limit, not beyond.
#[test]
fn copies_end_where_the_queue_does() {
    let Variant::Multicast(blind) = multicast(Target::Fixed { bytes: 2000 }, Late::Discard) else {
        unreachable!()
    };
    let mut buffer = filled(
        4048,
        Variant::Multicast(Multicast {
            correction: Correction::None,
            ..blind
        }),
    );
    assert!(buffer.park(500, 0, NOW).is_ok() && buffer.park(500, 0, NOW).is_ok());
    assert_eq!(
        (buffer.counters().copies, buffer.counters().copies_no_room),
        (6, 1)
    );
    assert_eq!(buffer.queue_bytes(), 4000);
}

#[test]
fn without_a_second_pass_the_late_are_given_up() {
    let target = Target::Fixed { bytes: 0 };
    let mut once = buffer(|config| config.variant = multicast(target, Late::Discard));
    once.park(500, 0, NOW).unwrap();
    assert_eq!([step(&mut once, 1), step(&mut once, 2)], ["late", "empty"]);
    let mut twice = buffer(|config| config.variant = multicast(target, Late::Again));
    twice.park(500, 0, NOW).unwrap();
    assert_eq!(step(&mut twice, 1), "again");
}

/// A header that passes several workers may wait for others between them; only the time on the slow path
/// counts against the header timeout of 100 ns.
#[test]
fn the_header_timeout_runs_with_the_slow_path_alone() {
    let mut buffer = buffer(|_| ());
    let ticket = buffer.park(1000, 0, NOW).unwrap();
    assert_eq!(buffer.next_expiry(), Some(Instant(100)));
    assert!(!buffer.is_any_between());
    buffer.came_back(ticket);
    assert_eq!(buffer.next_expiry(), None);
    assert!(buffer.is_any_between());
    assert_eq!(step(&mut buffer, 5000), "again");
    buffer.goes_again(ticket, Instant(6000));
    assert_eq!(buffer.next_expiry(), Some(Instant(6100)));
    assert!(!buffer.is_any_between());
    assert_eq!(step(&mut buffer, 6099), "again");
    assert_eq!(step(&mut buffer, 6100), "expired");
    // News of a payload that is gone changes nothing.
    buffer.came_back(ticket);
    buffer.goes_again(ticket, Instant(7000));
    assert_eq!(buffer.next_expiry(), None);

    let ticket = buffer.park(1000, 0, Instant(8000)).unwrap();
    buffer.came_back(ticket);
    let answer = Answer::Header("header");
    assert_eq!(
        buffer.answered(ticket, answer, Instant(9000)),
        Received::Kept,
        "it went on by itself"
    );
    buffer.came_back(ticket);
    assert_eq!(step(&mut buffer, 9000), "header");
}

/// 1 byte a nanosecond leaves, so a header that takes 1900 ns needs 1900 bytes in the queue.
#[test]
fn a_late_header_moves_the_target_and_a_small_buffer_is_told() {
    let follow = Target::Follow {
        quantile: 0.5,
        margin_bytes: 0,
        first_bytes: 0,
    };
    let mut buffer = buffer(|config| {
        (config.variant, config.limit_bytes) = (multicast(follow, Late::Discard), 4048);
        config.header_timeout = Duration::from_micros(20);
    });
    let target = |buffer: &Sizes| buffer.fit().unwrap();
    let ticket = buffer.park(500, 0, NOW).unwrap();
    assert_eq!(step(&mut buffer, 500), "late");
    buffer.answered(ticket, Answer::Header("late"), Instant(1900));
    assert!(
        matches!(target(&buffer), Fit::Fits { target_bytes } if (1900..2140).contains(&target_bytes))
    );
    // The same header once more says nothing new of the slow path.
    buffer.answered(ticket, Answer::Header("late"), Instant(900_000));
    assert!(matches!(target(&buffer), Fit::Fits { .. }));
    for _ in 0..2 {
        let ticket = buffer.park(500, 0, Instant(2000)).unwrap();
        while step(&mut buffer, 2500) != "late" {}
        buffer.answered(ticket, Answer::Header("late"), Instant(10_000));
    }
    assert!(matches!(
        target(&buffer),
        Fit::TooSmall {
            target_bytes: 2000,
            ..
        }
    ));
    buffer.park(500, 0, Instant(10_000)).unwrap();
    assert_eq!(buffer.counters().target_beyond_buffer, 1);
}

/// A packet that crossed whole came back before the header of a later one of its flow, whose payload
/// is in front of it in a queue that nothing goes round in.
#[test]
fn a_whole_packet_leaves_before_later_payloads_of_its_flow() {
    let mut buffer = buffer(|config| {
        config.order = Order::AsReturned;
        config.variant = multicast(Target::Fixed { bytes: 1000 }, Late::Discard);
    });
    let first = buffer.park(100, 7, NOW).unwrap();
    let later = buffer.park(100, 7, NOW).unwrap();
    let other = buffer.park(100, 8, NOW).unwrap();
    buffer.answered_for(first, Answer::Header("first"), 7, NOW);
    assert!(matches!(buffer.wait_behind(50, 7, NOW), Followed::Waits));
    buffer.answered_for(other, Answer::Header("other"), 8, NOW);
    buffer.answered_for(later, Answer::Header("later"), 7, NOW);
    let left: Vec<_> = std::iter::repeat_with(|| step(&mut buffer, 1))
        .filter(|what| *what != "copy")
        .take(5)
        .collect();
    assert_eq!(left, ["first", "whole", "later", "other", "empty"]);
    assert_eq!(buffer.queue_bytes(), 0);
}

/// Of as many flows as there may be nobody waits but for packets of its own.
#[test]
fn nobody_waits_for_another_flow() {
    let mut buffer = buffer(|config| config.order = Order::AsReturned);
    let ticket = buffer.park(500, 7 << 40, NOW).unwrap();
    buffer.answered_for(ticket, Answer::Header("first"), 7 << 40, NOW);
    for flow in (0..20_000u64).map(|flow| flow << 32 | 1) {
        assert!(matches!(
            buffer.wait_behind(64, flow, NOW),
            Followed::Leaves(64)
        ));
    }
    assert!(matches!(
        buffer.wait_behind(64, 7 << 40, NOW),
        Followed::Waits
    ));
}

/// However long they are, whole packets that wait take no more than they may, wherever they wait.
#[test]
fn whole_packets_that_wait_are_bounded() {
    let discard = multicast(Target::Fixed { bytes: 1000 }, Late::Discard);
    for variant in [Variant::Recirculation, discard] {
        let mut buffer = buffer(|config| {
            config.order = Order::AsReturned;
            config.variant = variant;
        });
        buffer.set_followers_limit(6000);
        let first = buffer.park(100, 7, NOW).unwrap();
        buffer.answered_for(first, Answer::Header("first"), 7, NOW);
        let waits = (0..100)
            .filter(|_| matches!(buffer.wait_behind(1500, 7, NOW), Followed::Waits))
            .count();
        assert!((2..=3).contains(&waits), "{waits}");
        assert!(buffer.queue_bytes() <= 6000);
        assert_eq!(buffer.counters().followers_refused, 100 - waits as u64);
        let left = std::iter::repeat_with(|| step(&mut buffer, 1));
        let left: Vec<_> = left.take_while(|what| *what != "empty").collect();
        let whole = left.iter().filter(|what| **what == "whole").count();
        assert_eq!(whole, waits, "{left:?}");
        assert_eq!(buffer.queue_bytes(), 0);
    }
}
