//! Both paths do the same, and the fast one does what it should.

use super::bench::{Bench, Released, Sent, ends};
use crate::reassembler::Config;
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;
use twinpath_core::program::Exit;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::{PacketBuilder, dissect};
use twinpath_core::{Direction, Packet, Side, Steering};
use twinpath_fastpath::{Interpreter, PacketView};
use twinpath_slowpath::NetworkFunction;

fn interpreter(bench: &Bench) -> Interpreter {
    Interpreter::new(&[bench.function.program()]).expect("a valid program")
}

/// What the fast path makes of a packet.
fn decide(bench: &Bench, interpreter: &mut Interpreter, packet: &Packet) -> Exit {
    let keyed = Steering::new(1)
        .key(packet.bytes(), &packet.layout)
        .expect("an IP packet");
    let view = PacketView {
        bytes: packet.bytes(),
        layout: &packet.layout,
        keyed: &keyed,
        direction: packet.direction,
        now: bench.now,
    };
    interpreter.run(&view, &bench.words)
}

/// Sends a frame along the fast path if it may go there. Also says whether it did. The state of a
/// flow that holds something is not granted, and its words say so too.
fn send_fast(
    bench: &mut Bench,
    interpreter: &mut Interpreter,
    bytes: &[u8],
) -> (Vec<Released>, bool) {
    let packet = bench.packet(bytes);
    if decide(bench, interpreter, &packet) == Exit::Continue {
        assert_eq!(bench.handle, 0, "nothing is held");
        bench.words.copy_from_slice(interpreter.words());
        return (vec![bench.seen(packet)], true);
    }
    (bench.handle(packet), false)
}

/// One packet, its number relative to what is expected.
#[derive(Clone, Debug)]
struct Event {
    way: Direction,
    offset: i32,
    bytes: usize,
    tcp_flags: u8,
    wait_ms: u64,
}

fn event() -> impl Strategy<Value = Event> {
    let way = prop_oneof![Just(Direction::Original), Just(Direction::Reply)];
    let offset = prop_oneof![8 => Just(0), 2 => -20..20, 1 => any::<i32>()];
    let tcp_flags = prop_oneof![20 => Just(flags::ACK), 2 => Just(flags::SYN), 1 => Just(flags::SYN | flags::ACK), 3 => Just(flags::FIN | flags::ACK), 4 => any::<u8>()];
    let wait_ms = prop_oneof![10 => Just(0), 5 => 0..200u64, 2 => 400..900u64];
    (way, offset, 0..6usize, tcp_flags, wait_ms).prop_map(
        |(way, offset, bytes, tcp_flags, wait_ms)| Event {
            way,
            offset,
            bytes,
            tcp_flags,
            wait_ms,
        },
    )
}

impl Event {
    fn frame(&self, words: &[u32]) -> Vec<u8> {
        let sequence = words[1 + self.way.index()].wrapping_add_signed(self.offset);
        Sent {
            way: self.way,
            sequence,
            flags: self.tcp_flags,
            payload: vec![7; self.bytes],
            acknowledged: None,
        }
        .frame(false, words[2 - self.way.index()])
    }
}

fn same(a: &[Released], b: &[Released]) -> bool {
    let plain = |seen: &Released| (seen.sent.clone(), seen.released, seen.ordinal);
    a.iter().map(plain).eq(b.iter().map(plain))
}

proptest! {
    #[test]
    fn both_paths_agree(events in vec(event(), 1..60)) {
        let config = Config {
            idle_timeout: crate::duration::Human::milliseconds(600),
            half_open_timeout: crate::duration::Human::milliseconds(300),
            ..Config::default()
        };
        let (mut slow, mut both) = (Bench::new(&config, false), Bench::new(&config, false));
        let mut interpreter = interpreter(&both);
        (slow.initiator, both.initiator) = (Some(Side::Low), Some(Side::Low));
        for event in events {
            let wait = Duration::from_millis(event.wait_ms);
            prop_assert!(same(&slow.pass(wait), &both.pass(wait)));
            let frame = event.frame(&slow.words);
            let from_slow = slow.send_frame(&frame);
            let (from_both, _) = send_fast(&mut both, &mut interpreter, &frame);
            prop_assert!(same(&from_slow, &from_both), "{:?} {:?}", from_slow, from_both);
            prop_assert_eq!(slow.words, both.words);
            prop_assert_eq!((slow.handle, slow.initiator, slow.deadline()), (both.handle, both.initiator, both.deadline()));
            prop_assert_eq!(&slow.drops, &both.drops);
        }
    }
}

#[test]
fn in_order_segments_and_acknowledgements_stay_on_the_fast_path() {
    let mut bench = Bench::new(&Config::default(), true);
    let mut interpreter = interpreter(&bench);
    let mut go = |way, sequence, tcp_flags, payload: &[u8]| {
        let sent = Sent {
            way,
            sequence,
            flags: tcp_flags,
            payload: payload.to_vec(),
            acknowledged: None,
        };
        let frame = sent.frame(true, bench.words[2 - way.index()]);
        send_fast(&mut bench, &mut interpreter, &frame).1
    };
    use Direction::{Original, Reply};
    assert!(!go(Original, 99, flags::SYN, b""));
    assert!(!go(Reply, 499, flags::SYN | flags::ACK, b""));
    assert!(!go(Original, 100, flags::ACK, b""), "now both were heard");
    assert!(go(Original, 100, flags::ACK | flags::PSH, b"abc"));
    assert!(!go(Reply, 500, flags::ACK | flags::URG, b"x"), "urgent");
    assert!(!go(Reply, 501, flags::PSH, b"y"), "without ACK");
    assert!(go(Reply, 501, flags::ACK, b"yz"));
    assert!(go(Reply, 503, flags::ACK, b""));
    assert!(!go(Original, 106, flags::ACK, b"ghi"), "ahead");
    assert!(!go(Reply, 503, flags::ACK, b"uvw"), "something is held");
    assert!(!go(Original, 103, flags::ACK, b"def"));
    assert!(go(Original, 109, flags::ACK, b"jkl"));
    assert!(!go(Original, 108, flags::ACK, b""), "behind");
    assert!(!go(Original, 112, flags::FIN | flags::ACK, b""));
}

/// Until the other end is heard; from then on until one has acknowledged what the other has sent.
#[test]
fn one_end_alone_stays_on_the_fast_path() {
    let mut bench = Bench::new(&Config::default(), false);
    let mut interpreter = interpreter(&bench);
    use Direction::{Original, Reply};
    let mut go = |sent: Sent| {
        let other = bench.words[2 - sent.way.index()];
        send_fast(&mut bench, &mut interpreter, &sent.frame(false, other)).1
    };
    assert!(!go(Sent::syn(Original, 100)));
    assert!(go(Sent::data(Original, 100, b"abc")));
    assert!(!go(Sent {
        flags: flags::SYN | flags::ACK,
        ..Sent::syn(Reply, 500)
    }));
    assert!(!go(Sent::data(Original, 103, b"def")), "it shows itself");
    assert!(go(Sent::data(Original, 106, b"ghi")));
    assert!(go(Sent::data(Reply, 500, b"")));
}

#[test]
fn an_idle_flow_is_no_business_of_the_fast_path() {
    let mut bench = Bench::new(&Config::default(), false);
    let mut interpreter = interpreter(&bench);
    bench.send(&Sent::data(Direction::Original, 99, b"x"));
    bench.send(&Sent::data(Direction::Reply, 0, b""));
    bench.pass(Duration::from_secs(3599));
    assert!(
        send_fast(
            &mut bench,
            &mut interpreter,
            &Sent::data(Direction::Original, 100, b"abc").frame(false, 0)
        )
        .1
    );
    bench.pass(Duration::from_secs(7441));
    assert!(
        !send_fast(
            &mut bench,
            &mut interpreter,
            &Sent::data(Direction::Original, 103, b"def").frame(false, 0)
        )
        .1
    );
    assert_eq!(bench.function.statistics().picked_up, 3);
}

#[test]
fn what_is_not_tcp_passes_on_either_path() {
    let (client, server) = ends(false);
    let frame = PacketBuilder::udp(client, server)
        .payload(b"datagram")
        .to_vec()
        .expect("a frame");
    let mut bench = Bench::new(&Config::default(), false);
    let packet = bench.packet(&frame);
    let mut interpreter = interpreter(&bench);
    assert_eq!(decide(&bench, &mut interpreter, &packet), Exit::Continue);
    assert_eq!(interpreter.words(), [0; 4]);
    bench.pools.give(packet.frame);
    assert_eq!(bench.pass_through(&frame), frame);
}

#[test]
fn fragments_and_errors_pass_and_leave_no_trace() {
    let (client, server) = ends(false);
    let segment = PacketBuilder::tcp(client, server)
        .seq(900)
        .payload(b"0123456789abcdef");
    let first = segment.fragment(0, true).to_vec().expect("a frame");
    let later = segment.fragment(16, false).to_vec().expect("a frame");
    let quoted = segment.to_vec().expect("a frame");
    let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 1 }, &quoted)
        .to_vec()
        .expect("a frame");
    let mut bench = Bench::new(&Config::default(), false);
    bench.send(&Sent::syn(Direction::Original, 100));
    bench.send(&Sent::data(Direction::Original, 103, b"def"));
    let words = bench.words;
    for frame in [first, later, error] {
        assert!(dissect(&frame).is_ok());
        assert_eq!(bench.pass_through(&frame), frame);
        assert_eq!(bench.words, words);
    }
    assert_eq!(bench.function.held_segments(), 1);
}
