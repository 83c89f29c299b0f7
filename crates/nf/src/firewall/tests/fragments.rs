//! Fragments: of what was allowed, of what was not, and of what somebody would like to pass for it.

use std::time::Duration;

use twinpath_core::DropReason::{self, Denied, Fragment, FragmentMisfit, InvalidState};
use twinpath_core::wire::fragment::cut;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};
use twinpath_core::wire::{Address, Endpoint, PacketBuilder, dissect};

use super::talk::{START, Twins};
use crate::two_paths::Fate;

const A: [Endpoint; 2] = [
    Endpoint::v4([10, 0, 0, 1], 40_000),
    Endpoint::new(Address(0x2001_0db8 << 96 | 1), 40_000),
];
const B: [Endpoint; 2] = [
    Endpoint::v4([192, 0, 2, 1], 53),
    Endpoint::new(Address(0x2001_0db8_0002 << 80 | 1), 53),
];

/// A's network may ask port 53.
const QUESTIONS: &str = r#"rules = [
    { action = "allow", from = "10.0.0.0/8", protocol = "udp", to_port = 53 },
    { action = "allow", from = "10.0.0.0/8", protocol = "tcp", to_port = 53 },
    { action = "allow", from = "2001:db8::/48", protocol = "udp", to_port = 53 },
    { action = "allow", from = "2001:db8::/48", protocol = "tcp", to_port = 53 },
]"#;

fn udp(from: Endpoint, to: Endpoint, bytes: usize) -> Vec<u8> {
    let builder = PacketBuilder::udp(from, to).payload_len(bytes);
    builder.to_vec().expect("a packet")
}

fn tcp(from: Endpoint, to: Endpoint, numbers: (u8, u32, u32), bytes: usize) -> Vec<u8> {
    let (flags, sequence, acknowledgement) = numbers;
    PacketBuilder::tcp(from, to)
        .flags(flags)
        .seq(sequence)
        .ack(acknowledgement)
        .window(10_000)
        .payload_len(bytes)
        .to_vec()
        .expect("a packet")
}

/// In parts of 400 bytes.
fn parts(whole: &[u8], identification: u32) -> Vec<Vec<u8>> {
    let layout = dissect(whole).expect("a packet");
    cut(whole, &layout, 400, identification).expect("long enough")
}

/// Fates of packets that come at once.
fn fates(twins: &mut Twins, packets: &[Vec<u8>]) -> Vec<Fate> {
    let fate = |frame: &Vec<u8>| twins.process(frame, START);
    packets.iter().map(fate).collect()
}

fn forwarded(fates: &[Fate]) -> Vec<Vec<u8>> {
    fates.iter().flat_map(|fate| fate.onward.clone()).collect()
}

fn drops(fates: &[Fate]) -> Vec<DropReason> {
    let drops = fates.iter().flat_map(|fate| fate.drops.iter());
    drops.map(|&(reason, _)| reason).collect()
}

/// The question is one packet, the answer three, in whatever order.
#[test]
fn fragmented_answers_pass_with_their_question() {
    for (a, b) in A.into_iter().zip(B) {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]] {
            let mut twins = Twins::new(QUESTIONS);
            fates(&mut twins, &[udp(a, b, 40)]);
            let answer = parts(&udp(b, a, 1000), 7);
            let sent = order.map(|place| answer[place].clone());
            let fates = fates(&mut twins, &sent);
            assert_eq!(drops(&fates), []);
            let mut passed = forwarded(&fates);
            assert_eq!(passed[0][..], answer[0], "the first goes first");
            passed.sort();
            let mut all = answer.clone();
            all.sort();
            assert_eq!(passed, all);
        }
    }
}

#[test]
fn fragments_of_what_is_not_allowed_do_not() {
    for (a, b) in A.into_iter().zip(B) {
        let mut twins = Twins::new(QUESTIONS);
        fates(&mut twins, &[udp(a, b, 40)]);
        // Another port, the same addresses.
        let other = Endpoint { port: 5353, ..b };
        let mut sent = parts(&udp(other, a, 1000), 7);
        sent.rotate_left(1);
        let fates = fates(&mut twins, &sent);
        assert_eq!(drops(&fates), [Denied; 3]);
    }
}

/// Bytes that have passed never come again, so nobody reads another datagram than was judged.
#[test]
fn what_overlaps_is_dropped() {
    for (a, b) in A.into_iter().zip(B) {
        let mut twins = Twins::new(QUESTIONS);
        let question = parts(&udp(a, b, 1000), 7);
        let other_port = Endpoint { port: 22, ..b };
        let forged = parts(&udp(a, other_port, 1000), 7);
        let fates = fates(
            &mut twins,
            &[
                question[0].clone(),
                question[1].clone(),
                forged[0].clone(),
                forged[1].clone(),
                question[2].clone(),
            ],
        );
        assert_eq!(forwarded(&fates), question);
        assert_eq!(drops(&fates), [FragmentMisfit; 2]);
    }
}

/// What used to be "never sent".
#[test]
fn fragmented_segments_are_counted() {
    for (a, b) in A.into_iter().zip(B) {
        for order in [[0, 1, 2], [2, 1, 0]] {
            let mut twins = Twins::new(QUESTIONS);
            let data = parts(&tcp(b, a, (FIN | ACK, 5000, 1000), 1000), 7);
            let handshake = [
                tcp(a, b, (SYN, 999, 0), 0),
                tcp(b, a, (SYN | ACK, 4999, 1000), 0),
                tcp(a, b, (ACK, 1000, 5000), 0),
            ];
            assert_eq!(drops(&fates(&mut twins, &handshake)), []);
            let sent = order.map(|place| data[place].clone());
            assert_eq!(drops(&fates(&mut twins, &sent)), []);
            let too_much = tcp(a, b, (ACK, 1000, 6002), 0);
            assert_eq!(drops(&fates(&mut twins, &[too_much])), [InvalidState]);
            let all = tcp(a, b, (ACK, 1000, 6001), 0);
            assert_eq!(drops(&fates(&mut twins, &[all])), []);
        }
    }
}

#[test]
fn segments_outside_the_window_are_dropped_in_parts_too() {
    for (a, b) in A.into_iter().zip(B) {
        let mut twins = Twins::new(QUESTIONS);
        let far = parts(&tcp(b, a, (ACK, 900_000, 1000), 1000), 7);
        let unsent = parts(&tcp(b, a, (ACK, 5000, 2000), 1000), 8);
        let reset = parts(&tcp(b, a, (RST, 5000, 0), 1000), 9);
        let handshake = [
            tcp(a, b, (SYN, 999, 0), 0),
            tcp(b, a, (SYN | ACK, 4999, 1000), 0),
            tcp(a, b, (ACK, 1000, 5000), 0),
        ];
        assert_eq!(drops(&fates(&mut twins, &handshake)), []);
        assert_eq!(drops(&fates(&mut twins, &far)), [InvalidState; 3]);
        assert_eq!(drops(&fates(&mut twins, &unsent)), [InvalidState; 3]);
        assert_eq!(drops(&fates(&mut twins, &reset[..1])), [Fragment]);
        let next = tcp(b, a, (ACK, 5000, 1000), 10);
        assert_eq!(drops(&fates(&mut twins, &[next])), [], "it lives on");
    }
}

#[test]
fn what_waits_for_a_first_fragment_does_so_for_a_while() {
    for (a, b) in A.into_iter().zip(B) {
        let mut twins = Twins::new(QUESTIONS);
        let question = parts(&udp(a, b, 1000), 7);
        twins.process(&question[1], START);
        let late = twins.process(&question[0], START + Duration::from_secs(6));
        assert_eq!(late.onward, [question[0].clone()]);
        assert_eq!(late.drops, [(DropReason::FragmentAlone, 1)]);
    }
}
