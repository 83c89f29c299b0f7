//! Packets that no receiver takes.

use super::*;
use twinpath_core::wire::dissect;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};

const BROKEN: Result<(Endpoint, Endpoint), DropReason> = Err(DropReason::BadChecksum);

fn sound(packet: PacketBuilder<'_>) -> Vec<u8> {
    packet.payload_len(9).to_vec().expect("fits")
}

fn broken(packet: PacketBuilder<'_>) -> Vec<u8> {
    let mut frame = sound(packet);
    let end = dissect(&frame).expect("well formed").end as usize;
    frame[end - 1] ^= 0x11;
    frame
}

fn fate(bench: &mut Bench, frame: &[u8]) -> Result<(Endpoint, Endpoint), DropReason> {
    let outcome = bench.process(frame, 0, at(0));
    ends_unchecked(outcome)
}

fn ends_unchecked(outcome: Outcome) -> Result<(Endpoint, Endpoint), DropReason> {
    let (bytes, _) = outcome.packet?;
    let layout = dissect(&bytes).expect("well formed");
    Ok(ends_of(&bytes, &layout))
}

/// Host, server, and what stands for the host, of both IP versions.
const ALL: [[&str; 3]; 2] = [
    ["10.0.0.1:5000", "8.8.8.8:80", "192.0.2.1:5000"],
    ["[fd00::1]:5000", "[2001:db8:8::8]:80", "[2001:db8::1]:5000"],
];

#[test]
fn broken_packets_take_no_port() {
    for [host, server, _] in ALL.map(|ends| ends.map(end)) {
        let mut bench = bench(BASIC);
        for packet in [
            PacketBuilder::tcp(host, server).flags(SYN),
            PacketBuilder::tcp(host, server).flags(ACK),
            PacketBuilder::udp(host, server),
            PacketBuilder::icmp_echo(host, server),
        ] {
            assert_eq!(fate(&mut bench, &broken(packet)), BROKEN);
        }
        assert_eq!(bench.counter(0, "packets_with_bad_checksum"), 4);
        assert_eq!(
            (bench.counter(0, "bindings_created"), bench.rules()),
            (0, 0)
        );
    }
    let mut bench = bench(BASIC);
    let [host, server, _] = ALL[0].map(end);
    let mut without = sound(PacketBuilder::udp(host, server));
    without[40..42].fill(0);
    assert!(fate(&mut bench, &without).is_ok(), "none to hold");
}

#[test]
fn broken_segments_end_nothing() {
    for [host, server, external] in ALL.map(|ends| ends.map(end)) {
        let mut bench = bench(BASIC);
        let out = |flags| PacketBuilder::tcp(host, server).flags(flags);
        let back = |flags| PacketBuilder::tcp(server, external).flags(flags);
        for packet in [
            out(SYN),
            back(SYN | ACK),
            out(ACK),
            back(ACK),
            out(ACK),
            back(ACK),
        ] {
            assert!(fate(&mut bench, &sound(packet)).is_ok());
        }
        let rules = bench.rules();
        for flags in [RST, FIN | ACK, SYN] {
            assert_eq!(fate(&mut bench, &broken(out(flags))), BROKEN);
            assert_eq!(fate(&mut bench, &broken(back(flags))), BROKEN);
        }
        assert_eq!(bench.rules(), rules, "none had to go");
        // Others are left to their receiver.
        assert!(fate(&mut bench, &broken(back(ACK))).is_ok());
        let late = bench.process(&sound(back(ACK)), 0, at(7000));
        assert!(ends_unchecked(late).is_ok(), "established still");
    }
}

/// A rule that drops what nobody has asked for looks at no checksum, so nobody does.
#[test]
fn what_nobody_asked_for_is_told_as_that() {
    for rules in [0, 8] {
        let mut bench = Bench::cached(vec![napt(BASIC)], rules);
        let [host, server, external] = ALL[0].map(end);
        let opening = PacketBuilder::tcp(host, server).flags(SYN);
        assert!(fate(&mut bench, &sound(opening)).is_ok());
        let stranger = end("8.8.4.4:9");
        for flags in [RST, SYN | ACK, FIN] {
            let segment = PacketBuilder::tcp(stranger, external).flags(flags);
            for frame in [sound(segment), broken(segment)] {
                assert_eq!(fate(&mut bench, &frame), Err(DropReason::Unsolicited));
            }
        }
        assert_eq!(bench.hits, if rules == 0 { 0 } else { 3 });
    }
}

#[test]
fn between_hosts_inside_too() {
    let mut bench = bench(BASIC);
    let [host, server, external] = ALL[0].map(end);
    let other = end("10.0.0.2:80");
    assert!(
        fate(
            &mut bench,
            &sound(PacketBuilder::tcp(host, server).flags(SYN))
        )
        .is_ok()
    );
    let across = PacketBuilder::tcp(other, external).flags(SYN);
    assert_eq!(fate(&mut bench, &broken(across)), BROKEN);
    assert_eq!(bench.counter(0, "bindings_created"), 1);
}

#[test]
fn checksums_need_not_be_verified() {
    let mut bench = bench(&format!("verify_checksums = \"none\"\n{BASIC}"));
    let [host, server, _] = ALL[0].map(end);
    for packet in [
        PacketBuilder::tcp(host, server).flags(SYN),
        PacketBuilder::tcp(host, server).flags(RST),
        PacketBuilder::udp(host, server),
    ] {
        assert!(fate(&mut bench, &broken(packet)).is_ok());
    }
}
