//! Fragments of translated datagrams.

use super::*;
use twinpath_core::wire::{Network, dissect, protocol, verify_ipv4_checksum};

/// Two fragments of one datagram.
fn fragments(from: &str, to: &str, identification: u32) -> [Vec<u8>; 2] {
    let whole = PacketBuilder::udp(end(from), end(to))
        .payload(&[7; 100])
        .identification(identification);
    [whole.fragment(0, true), whole.fragment(48, false)]
        .map(|fragment| fragment.to_vec().expect("fits"))
}

fn process(bench: &mut Bench, frame: &[u8], seconds: u64) -> Result<Vec<u8>, DropReason> {
    let outcome = bench.process(frame, 0, at(seconds));
    outcome.packet.map(|(bytes, _)| bytes)
}

#[test]
fn a_translated_datagram_s_fragments_are_those_of_the_datagram_translated() {
    let mut bench = bench(BASIC);
    let v4 = ["10.0.0.1", "10.0.0.2", "8.8.8.8:53", "192.0.2.1:0"];
    let v6 = [
        "[fd00::1]",
        "[fd00::2]",
        "[2001:db8:8::8]:53",
        "[2001:db8::1]:0",
    ];
    for [host, other, server, external] in [v4, v6] {
        // Another host has that port outside, so that the port changes too.
        udp(&mut bench, &format!("{other}:5000"), server, 0).expect("translated");
        for id in [1, 2, 0x0005_0001] {
            let host = format!("{host}:5000");
            let out = fragments(&host, server, id);
            let sent = out.map(|frame| process(&mut bench, &frame, 0).expect("translated"));
            let layout = dissect(&sent[0]).expect("well formed");
            let source = fields::source(&sent[0], &layout);
            assert_eq!(source.address, end(external).address);
            assert_ne!(source.port, 5000);
            let expected = fragments(&source.to_string(), server, id);
            assert_eq!(sent, expected, "as if sent by the external endpoint");
            let back = fragments(server, &source.to_string(), id);
            let back = back.map(|frame| process(&mut bench, &frame, 0).expect("let in"));
            assert_eq!(back, fragments(server, &host, id));
        }
    }
    assert_eq!(bench.counter(0, "fragments_translated"), 24);
    assert_eq!(bench.rules(), 2, "those of the other hosts alone");
}

/// Options follow the fragment header, and are all that the later fragment's header names.
#[test]
fn extension_headers_of_a_fragmented_datagram_are_walked() {
    let mut bench = bench(BASIC);
    let whole = PacketBuilder::udp(end("[fd00::1]:5000"), end("[2001:db8:8::8]:53"))
        .payload(&[7; 100])
        .identification(9);
    let named_at = 14 + 40;
    let mut first = whole.fragment(0, true).to_vec().expect("fits");
    let options = [protocol::UDP, 0, 1, 4, 0, 0, 0, 0];
    first.splice(named_at + 8..named_at + 8, options);
    let payload = u16::try_from(first.len() - named_at).expect("fits");
    first[named_at - 36..named_at - 34].copy_from_slice(&payload.to_be_bytes());
    let mut later = whole.fragment(48, false).to_vec().expect("fits");
    for frame in [&mut first, &mut later] {
        frame[named_at] = protocol::DESTINATION_OPTIONS;
    }
    for frame in [first, later] {
        let sent = process(&mut bench, &frame, 0).expect("translated");
        let layout = dissect(&sent).expect("well formed");
        let source = fields::source(&sent, &layout).address;
        assert_eq!(source, end("[2001:db8::1]:0").address);
    }
    assert_eq!(bench.counter(0, "fragments_translated"), 2);
}

#[test]
fn fragments_before_the_first_or_long_after_it_are_dropped() {
    let mut bench = bench(BASIC);
    let [first, second] = fragments("10.0.0.1:5000", "8.8.8.8:53", 1);
    assert_eq!(process(&mut bench, &second, 0), Err(DropReason::Fragment));
    process(&mut bench, &first, 0).expect("translated");
    process(&mut bench, &second, 60).expect("in time");
    assert_eq!(process(&mut bench, &second, 61), Err(DropReason::Fragment));
    let [_, other] = fragments("10.0.0.1:5000", "8.8.8.8:53", 2);
    process(&mut bench, &first, 62).expect("translated");
    assert_eq!(process(&mut bench, &other, 62), Err(DropReason::Fragment));
    assert_eq!(bench.counter(0, "fragments_early"), 3);
}

#[test]
fn the_oldest_datagram_gives_way() {
    let mut bench = bench(BASIC);
    for id in 0..4097 {
        let [first, _] = fragments("10.0.0.1:5000", "8.8.8.8:53", id);
        process(&mut bench, &first, 0).expect("translated");
    }
    let [_, oldest] = fragments("10.0.0.1:5000", "8.8.8.8:53", 0);
    let [_, newest] = fragments("10.0.0.1:5000", "8.8.8.8:53", 4096);
    assert_eq!(process(&mut bench, &oldest, 0), Err(DropReason::Fragment));
    process(&mut bench, &newest, 0).expect("remembered");
}

#[test]
fn fragments_of_echoes_and_between_hosts_inside_are_translated() {
    let mut bench = bench(BASIC);
    udp(&mut bench, "10.0.0.2:2222", "8.8.8.8:53", 0).expect("translated");
    let hairpin = fragments("10.0.0.1:1111", "192.0.2.1:2222", 9);
    let sent = hairpin.map(|frame| process(&mut bench, &frame, 0).expect("translated"));
    assert_eq!(sent, fragments("192.0.2.1:1111", "10.0.0.2:2222", 9));
    let echo = PacketBuilder::icmp_echo(end("10.0.0.1:77"), end("8.8.8.8:0")).payload_len(100);
    let parts = [echo.fragment(0, true), echo.fragment(48, false)];
    for part in parts {
        let sent = process(&mut bench, &part.to_vec().expect("fits"), 0).expect("translated");
        let layout = dissect(&sent).expect("well formed");
        assert_eq!(layout.network, Network::V4);
        assert!(verify_ipv4_checksum(&sent, &layout));
        let source = fields::source(&sent, &layout).address;
        assert_eq!(source, end("192.0.2.1:0").address);
    }
    let others = fragments("7.7.7.7:1", "8.8.8.8:2", 1);
    for frame in others {
        assert_eq!(
            process(&mut bench, &frame, 0),
            Ok(frame.clone()),
            "they pass"
        );
    }
}
