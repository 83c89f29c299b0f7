//! Limits and time-outs: nothing is lost, nothing is kept too long, nothing grows too large.

use super::bench::{BUFFERS, Bench, Released, Sent};
use crate::duration::Human;
use crate::reassembler::{Config, Overlap, Retransmissions};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashSet;
use std::time::Duration;
use twinpath_core::wire::tcp::flags;
use twinpath_core::{Direction, FlowKey, Frame, Instant, Side};
use twinpath_slowpath::{Eviction, Flow, NetworkFunction};

const GAP: Duration = Duration::from_millis(500);

/// Where the random streams end.
const MOST_OFFSET: u32 = 330;

/// Leaves only so many buffers free.
fn hoard(bench: &mut Bench, left: usize) -> Vec<Frame> {
    (left..BUFFERS)
        .map(|_| bench.pools.take(100).expect("there are enough"))
        .collect()
}

fn opened(config: &Config) -> Bench {
    let mut bench = Bench::new(config, false);
    bench.send(&Sent::syn(Direction::Original, 100));
    bench.send(&Sent::syn(Direction::Reply, 500));
    bench
}

fn data(sequence: u32, payload: &str) -> Sent {
    Sent::data(Direction::Original, sequence, payload.as_bytes())
}

fn sequences(seen: &[Released]) -> Vec<u32> {
    seen.iter().map(|seen| seen.sent.sequence).collect()
}

fn counter(bench: &Bench, wanted: &str) -> u64 {
    let mut found = None;
    bench.function.counters(&mut |name, value| {
        if name == wanted {
            found = Some(value)
        }
    });
    found.expect("a counter")
}

#[test]
fn at_a_flows_limit_its_gap_is_given_up_in_order() {
    let by_segments = Config {
        most_segments_per_flow: 2,
        ..Config::default()
    };
    let by_bytes = Config {
        most_bytes_per_flow: 6,
        ..Config::default()
    };
    let in_all = Config {
        most_segments: 2,
        ..Config::default()
    };
    for config in [by_segments, by_bytes, in_all] {
        let mut bench = opened(&config);
        assert!(bench.send(&data(103, "def")).is_empty());
        assert!(bench.send(&data(109, "jkl")).is_empty());
        assert_eq!(sequences(&bench.send(&data(115, "pqr"))), [103, 109, 115]);
        assert_eq!(bench.handle, 0);
        assert_eq!(sequences(&bench.send(&data(118, "stu"))), [118]);
        assert_eq!(counter(&bench, "limits_reached"), 1);
        bench.assert_no_buffer_lost();
    }
}

#[test]
fn long_segments_have_a_limit_of_their_own() {
    let mut bench = opened(&Config {
        most_long_segments: 1,
        ..Config::default()
    });
    let long = |sequence| Sent::data(Direction::Original, sequence, &[7; 3000]);
    assert!(bench.send(&data(103, "def")).is_empty());
    assert!(bench.send(&long(200)).is_empty());
    assert!(bench.send(&data(4000, "xyz")).is_empty());
    assert_eq!(sequences(&bench.send(&long(5000))), [103, 200, 4000, 5000]);
    bench.assert_no_buffer_lost();
}

#[test]
fn a_segment_that_closes_the_gap_is_never_one_too_many() {
    let config = Config {
        most_segments_per_flow: 1,
        ..Config::default()
    };
    let mut bench = opened(&config);
    assert!(bench.send(&data(103, "def")).is_empty());
    assert_eq!(sequences(&bench.send(&data(100, "abc"))), [100, 103]);
    assert_eq!(counter(&bench, "limits_reached"), 0);
}

#[test]
fn the_global_limit_gives_up_the_gap_of_the_flow_that_meets_it() {
    let config = Config {
        most_segments: 1,
        ..Config::default()
    };
    let mut bench = opened(&config);
    bench.send(&data(103, "def"));
    let (words, handle) = (bench.words, bench.handle);
    (bench.words, bench.handle) = ([0; 4], 0);
    other_flow(&mut bench);
    assert_eq!(
        bench.function.held_segments(),
        1,
        "the first flow still holds its segment"
    );
    (bench.words, bench.handle) = (words, handle);
    assert_eq!(sequences(&bench.send(&data(100, "abc"))), [100, 103]);
}

/// Another connection's segments while the first one holds all that may be held.
fn other_flow(bench: &mut Bench) {
    let held = bench.function.held_segments();
    bench.held_by_others = held;
    let seen: Vec<_> = [
        Sent::syn(Direction::Original, 100),
        data(103, "def"),
        data(106, "ghi"),
    ]
    .iter()
    .flat_map(|sent| bench.send(sent))
    .collect();
    assert_eq!(sequences(&seen), [99, 103, 106]);
    assert_eq!((bench.handle, bench.function.held_segments()), (0, held));
    bench.held_by_others = 0;
}

#[test]
fn released_segments_carry_the_time_of_their_release() {
    let mut bench = opened(&Config::default());
    bench.send(&data(103, "def"));
    let held_at = bench.now;
    bench.send(&data(109, "jkl"));
    bench.pass(Duration::from_millis(20));
    let seen = bench.send(&data(100, "abc"));
    assert!(seen.iter().all(|seen| seen.released == bench.now) && seen.len() == 2);
    let seen = bench.pass(Duration::from_secs(1));
    assert_eq!(
        seen.iter().map(|seen| seen.released).collect::<Vec<_>>(),
        [held_at + GAP],
        "the time of the timer"
    );
}

#[test]
fn what_holds_something_does_not_expire() {
    let mut bench = opened(&Config::default());
    let later = bench.now + Duration::from_secs(3 * 3600);
    assert!(bench.function.is_expired(&bench.words, later));
    bench.send(&data(103, "def"));
    assert!(!bench.function.is_expired(&bench.words, later));
    bench.send(&data(100, "abc"));
    assert!(bench.function.is_expired(&bench.words, later));
    assert!(!bench.function.is_expired(&[0; 4], later));
}

/// Who has not shown that it is there holds nothing while much is held, and is the first to go.
#[test]
fn half_open_connections_go_without() {
    let config = Config {
        most_segments: 8,
        ..Config::default()
    };
    let eviction = |bench: &Bench| bench.function.eviction(&bench.words);
    let mut bench = Bench::new(&config, false);
    assert_eq!(eviction(&bench), None);
    bench.send(&Sent::syn(Direction::Original, 100));
    bench.send(&data(103, "1"));
    assert_eq!(eviction(&bench), Some(Eviction::Never), "it keeps a packet");
    assert_eq!(sequences(&bench.send(&data(105, "2"))), [0u32; 0]);
    assert_eq!(sequences(&bench.send(&data(107, "3"))), [103, 105, 107]);
    assert_eq!(eviction(&bench), Some(Eviction::HalfOpen));
    let later = bench.now + Duration::from_secs(31);
    assert!(bench.function.is_expired(&bench.words, later));
    let answer = Sent {
        acknowledged: Some(100),
        ..Sent::syn(Direction::Reply, 500)
    };
    bench.send(&Sent {
        flags: flags::SYN | flags::ACK,
        ..answer
    });
    assert_eq!(
        eviction(&bench),
        Some(Eviction::HalfOpen),
        "anybody is answered"
    );
    let acknowledgement = |number| Sent {
        acknowledged: Some(number),
        ..data(108, "")
    };
    bench.send(&acknowledgement(1_000_000));
    assert_eq!(eviction(&bench), Some(Eviction::HalfOpen), "a guess");
    bench.send(&acknowledgement(500));
    assert_eq!(eviction(&bench), Some(Eviction::Never));
    assert!(!bench.function.is_expired(&bench.words, later));
    for number in 0..7 {
        assert_eq!(
            sequences(&bench.send(&data(110 + 2 * number, "x"))),
            [0u32; 0]
        );
    }
}

/// What a function behind has refused is let pass again, also where repetitions are dropped.
#[test]
fn what_is_refused_behind_passes_again() {
    let config = Config {
        retransmissions: Retransmissions::Drop,
        ..Config::default()
    };
    let mut bench = opened(&config);
    bench.send(&data(100, "abc"));
    assert_eq!(sequences(&bench.send(&data(100, "abc"))), [0u32; 0]);
    let (mut handle, mut initiator) = (0, Side::Low);
    let mut flow = Flow {
        key: &FlowKey::default(),
        initiator: &mut initiator,
        words: &mut bench.words,
        handle: &mut handle,
        now: bench.now,
    };
    bench
        .function
        .refused_behind(Direction::Original, &mut flow);
    assert_eq!(sequences(&bench.send(&data(100, "abc"))), [100]);
}

/// Somebody's segment at the far end of the window moves it, when its gap is given up; what the sender
/// sends in order is not lost behind it.
#[test]
fn what_is_far_behind_a_gap_that_was_given_up_is_not_lost() {
    let config = Config {
        window_bytes: 1000,
        ..Config::default()
    };
    let mut bench = opened(&config);
    bench.send(&data(1100, "far"));
    assert_eq!(sequences(&bench.pass(Duration::from_secs(1))), [1100]);
    assert_eq!(sequences(&bench.send(&data(100, "abc"))), [100]);
    assert_eq!(bench.function.statistics().outside_window, 0);
}

#[test]
fn a_timer_goes_off_before_the_next_packet() {
    let mut bench = opened(&Config::default());
    bench.send(&data(103, "def"));
    let given_up = bench.pass(Duration::from_secs(2));
    assert_eq!(sequences(&given_up), [103], "the gap was given up before");
    assert_eq!(sequences(&bench.send(&data(100, "abc"))), [100]);
    assert_eq!(sequences(&bench.send(&data(106, "ghi"))), [106]);
}

#[test]
fn without_a_buffer_for_a_split_the_covering_segment_wins() {
    let mut bench = opened(&Config::default());
    bench.send(&data(103, "de"));
    bench.send(&data(105, "fg"));
    let hoarded = hoard(&mut bench, 3);
    let seen = bench.send(&data(100, "ABCDEFGHI"));
    assert_eq!(
        seen.iter()
            .map(|seen| seen.sent.payload.as_slice())
            .collect::<Vec<_>>(),
        [b"ABCDEFGHI"]
    );
    assert_eq!(
        (counter(&bench, "unsplit"), counter(&bench, "already_held")),
        (1, 2)
    );
    drop(hoarded);
    bench.assert_no_buffer_lost();
}

#[test]
fn nor_with_last_wins_is_anything_lost() {
    let mut bench = opened(&Config {
        overlap: Overlap::Last,
        ..Config::default()
    });
    bench.send(&data(101, "bcdefghi"));
    let hoarded = hoard(&mut bench, 2);
    assert!(bench.send(&data(103, "DE")).is_empty());
    let seen = bench.send(&data(100, "a"));
    assert_eq!(
        seen.iter()
            .map(|seen| seen.sent.payload.as_slice())
            .collect::<Vec<_>>(),
        [&b"a"[..], b"bcdefghi"]
    );
    assert_eq!(
        (counter(&bench, "unsplit"), counter(&bench, "already_held")),
        (1, 1)
    );
    drop(hoarded);
    bench.assert_no_buffer_lost();
}

#[test]
fn a_flow_that_is_reset_gives_its_buffers_back() {
    let mut bench = opened(&Config::default());
    bench.send(&data(103, "def"));
    let handle = std::mem::take(&mut bench.handle);
    bench.function.forget(handle);
    bench.function.forget(handle);
    assert_eq!(
        (bench.function.held_segments(), counter(&bench, "forgotten")),
        (0, 1)
    );
    bench.assert_no_buffer_lost();
    // Should the words have survived, the flow goes on.
    assert_eq!(sequences(&bench.send(&data(100, "abc"))), [100]);
    assert_eq!(sequences(&bench.send(&data(103, "def"))), [103]);
    assert_eq!(bench.handle, 0);
}

/// One thing that happens to a connection.
#[derive(Clone, Debug)]
enum Event {
    Segment {
        way: Direction,
        offset: u32,
        bytes: u32,
        tcp_flags: u8,
    },
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let way = prop_oneof![Just(Direction::Original), Just(Direction::Reply)];
    let tcp_flags = prop_oneof![20 => Just(flags::ACK), 1 => Just(flags::FIN | flags::ACK), 1 => Just(flags::SYN), 1 => Just(flags::RST)];
    let segment =
        (way, 0..300u32, 0..30u32, tcp_flags).prop_map(|(way, offset, bytes, tcp_flags)| {
            Event::Segment {
                way,
                offset,
                bytes,
                tcp_flags,
            }
        });
    prop_oneof![8 => segment, 2 => (0..400u64).prop_map(Event::Wait)]
}

fn config() -> impl Strategy<Value = Config> {
    let overlap = prop_oneof![Just(Overlap::First), Just(Overlap::Last)];
    (overlap, 1..10u32, 1..100u32, 1..10u32, 400..1000u32).prop_map(
        |(overlap, per_flow, bytes, in_all, window_bytes)| Config {
            overlap,
            most_segments_per_flow: per_flow,
            most_bytes_per_flow: bytes,
            most_segments: in_all,
            window_bytes,
            idle_timeout: Human::milliseconds(700),
            half_open_timeout: Human::milliseconds(700),
            ..Config::default()
        },
    )
}

/// A segment of a stream that begins after its SYN and ends before its FIN: no data before or
/// after them.
fn segment(base: u32, way: Direction, offset: u32, bytes: u32, tcp_flags: u8) -> Sent {
    let (opens, ends) = (tcp_flags & flags::SYN != 0, tcp_flags & flags::FIN != 0);
    let first = if ends {
        base.wrapping_add(MOST_OFFSET - bytes)
    } else if opens {
        base.wrapping_sub(offset % 3)
    } else {
        base.wrapping_add(offset)
    };
    let payload = (0..bytes)
        .map(|index| content(first.wrapping_add(index)))
        .collect();
    Sent {
        way,
        sequence: first.wrapping_sub(u32::from(opens)),
        flags: tcp_flags,
        payload,
        acknowledged: None,
    }
}

/// What has gone in and come out, byte by byte: the content of each is a function of its number.
#[derive(Default)]
struct Ledger {
    sent: HashSet<(Direction, u32)>,
    seen: HashSet<(Direction, u32)>,
    arrivals: Vec<Instant>,
}

fn content(sequence: u32) -> u8 {
    (sequence.wrapping_mul(0x9e37_79b9) >> 24) as u8
}

impl Ledger {
    fn sent(&mut self, sent: &Sent) {
        self.sent.extend(numbers(sent));
    }

    fn seen(&mut self, seen: &[Released]) {
        for seen in seen {
            self.seen.extend(numbers(&seen.sent));
            assert!(
                numbers(&seen.sent)
                    .zip(&seen.sent.payload)
                    .all(|((_, number), &byte)| byte == content(number))
            );
            let arrival = self.arrivals[seen.ordinal as usize];
            assert!(
                seen.released >= arrival && seen.released <= arrival + GAP,
                "held for at most the gap time-out"
            );
        }
    }
}

/// The numbers of a segment's data; a SYN stands before it.
fn numbers(sent: &Sent) -> impl Iterator<Item = (Direction, u32)> + use<> {
    let (way, first) = (
        sent.way,
        sent.sequence
            .wrapping_add(u32::from(sent.flags & flags::SYN != 0)),
    );
    (0..sent.payload.len() as u32).map(move |offset| (way, first.wrapping_add(offset)))
}

proptest! {
    #[test]
    fn nothing_is_lost_or_kept_too_long_whatever_the_limits(
        config in config(), base in prop_oneof![any::<u32>(), Just(u32::MAX - 150)], events in vec(event(), 1..80), dropping: bool,
    ) {
        let retransmissions = if dropping { Retransmissions::Drop } else { Retransmissions::Forward };
        let config = Config { retransmissions, ..config };
        let mut bench = Bench::new(&config, false);
        let hoarded = hoard(&mut bench, config.most_segments as usize + 2);
        let mut ledger = Ledger::default();
        for event in events {
            match event {
                Event::Wait(milliseconds) => ledger.seen(&bench.pass(Duration::from_millis(milliseconds))),
                Event::Segment { way, offset, bytes, tcp_flags } => {
                    let sent = segment(base, way, offset, bytes, tcp_flags);
                    ledger.sent(&sent);
                    ledger.arrivals.push(bench.now);
                    ledger.seen(&bench.send(&sent));
                }
            }
            let held = bench.function.held_segments();
            prop_assert!(held <= config.most_segments.min(config.most_segments_per_flow) as usize);
        }
        ledger.seen(&bench.pass(GAP));
        prop_assert_eq!(bench.function.held_segments(), 0);
        prop_assert!(ledger.sent.is_subset(&ledger.seen), "every byte came out");
        drop(hoarded);
        bench.assert_no_buffer_lost();
    }
}
