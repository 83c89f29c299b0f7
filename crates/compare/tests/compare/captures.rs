//! Real captures, in files and renamed.

use crate::common::{SECOND, capture, renamed, text, udp};
use std::collections::BTreeMap;
use std::path::PathBuf;
use twinpath_compare::{Comparison, Options};
use twinpath_core::wire::{Address, Endpoint, Transport, dissect, fields, rewrite};
use twinpath_io::{CaptureWriter, Trace};

/// All shared captures that can be read to their end; none, with a notice, where there are none.
fn captures() -> Vec<PathBuf> {
    let mut paths = twinpath_captures::captures();
    paths.retain(|path| Trace::load(path).is_ok());
    paths
}

fn write(path: &std::path::Path, packets: &crate::common::Packets) {
    let mut writer = CaptureWriter::create(path).expect("a capture");
    for (time, frame) in packets {
        writer.write(*time, frame).expect("written");
    }
    writer.finish().expect("finished");
}

#[test]
fn every_capture_is_the_same_as_itself() {
    let options = Options {
        timestamps: true,
        ..renamed("0.0.0.0/1,2000::/3")
    };
    for path in captures() {
        let name = path.display();
        let plain = Comparison::new(Options::default()).compare_captures(&path, &path);
        let plain = plain.expect("a capture").expect("the same");
        assert!(plain.packets > 0 && plain.flows > 0, "{name}");
        let renamed = Comparison::new(options.clone()).compare_captures(&path, &path);
        let renamed = renamed.expect("a capture").expect("the same");
        assert_eq!(renamed.packets, plain.packets, "{name}");
        assert!(
            renamed.flows >= plain.flows && renamed.renamed == 0,
            "{name}"
        );
    }
}

/// The host that sends most, as if it were a translation's external address.
fn busiest(trace: &Trace) -> Option<Address> {
    let mut counts = BTreeMap::<Address, usize>::new();
    for packet in trace.iter() {
        if let Ok(layout) = dissect(packet.frame)
            && layout.is_ip()
        {
            *counts
                .entry(fields::source_address(packet.frame, &layout))
                .or_default() += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(address, _)| address)
}

/// Gives a host's ports other numbers, wherever they stand.
fn with_ports(frame: &[u8], host: Address, port: impl Fn(u16) -> u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let Ok(layout) = dissect(&frame) else {
        return frame;
    };
    let renamed =
        |end: Endpoint| (end.address == host).then(|| Endpoint::new(host, port(end.port)));
    let (source, destination) = (
        fields::source(&frame, &layout),
        fields::destination(&frame, &layout),
    );
    if let Some(end) = renamed(source) {
        rewrite::set_source(&mut frame, &layout, end).expect("fits");
    }
    // The identifier of an echo to oneself has been renamed.
    let is_done = source.address == host && layout.transport == Transport::Icmp;
    if let Some(end) = renamed(destination).filter(|_| !is_done) {
        rewrite::set_destination(&mut frame, &layout, end).expect("fits");
    }
    if let Some(end) = fields::inner_source(&frame, &layout).and_then(renamed) {
        rewrite::set_inner_source(&mut frame, &layout, end).expect("fits");
    }
    if let Some(end) = fields::inner_destination(&frame, &layout).and_then(renamed) {
        rewrite::set_inner_destination(&mut frame, &layout, end).expect("fits");
    }
    frame
}

#[test]
fn captures_with_other_ports_are_the_same_and_with_fewer_are_not() {
    for path in captures() {
        let trace = Trace::load(&path).expect("a capture");
        let Some(host) = busiest(&trace) else {
            continue;
        };
        let with = |port: &dyn Fn(u16) -> u16| -> crate::common::Packets {
            let packets = trace.iter();
            packets
                .map(|packet| (packet.timestamp_ns, with_ports(packet.frame, host, port)))
                .collect()
        };
        let options = renamed(&host.to_string());
        let same = with(&|port| port);
        let others = crate::common::compare(&same, &with(&|port| port ^ 0x5555), options.clone());
        let name = path.display();
        let summary = others.unwrap_or_else(|difference| panic!("{name}: {difference}"));
        println!("{name}: {host}: {summary:?}");
        let ports = ports_at_once(&same, host);
        let merged = crate::common::compare(&same, &with(&|_| 7), options);
        assert_eq!(merged.is_err(), ports, "{name}: {}", text(merged));
    }
}

/// Whether a host uses several ports of one protocol without a long silence between them.
fn ports_at_once(packets: &crate::common::Packets, host: Address) -> bool {
    let mut latest = BTreeMap::<u8, (u16, u64)>::new();
    packets.iter().any(|(time, frame)| {
        let Ok(layout) = dissect(frame) else {
            return false;
        };
        let ends = [
            fields::source(frame, &layout),
            fields::destination(frame, &layout),
        ];
        let mut own = ends
            .iter()
            .filter(|end| end.address == host && end.port != 0);
        own.any(|end| {
            let before = latest.insert(layout.protocol, (end.port, *time));
            before.is_some_and(|(port, then)| {
                port != end.port && time.saturating_sub(then) <= 120 * SECOND
            })
        })
    })
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let place = tempfile::tempdir().expect("a folder");
    let [good, bad, none] =
        ["good.pcap", "bad.pcap", "none.pcap"].map(|name| place.path().join(name));
    write(&good, &capture([udp("10.0.0.1:1", "10.0.0.2:2")]));
    let bytes = std::fs::read(&good).expect("a file");
    std::fs::write(&bad, &bytes[..bytes.len() - 1]).expect("written");
    let comparison = Comparison::default();
    for (a, b, why) in [
        (&good, &none, "cannot open "),
        (&none, &good, "none.pcap: No such file"),
        (
            &good,
            &bad,
            "bad.pcap is truncated: the file ends within record 1",
        ),
    ] {
        let error = comparison
            .compare_captures(a, b)
            .expect_err("unreadable")
            .to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn files_are_read_again_to_tell_what_differs() {
    let place = tempfile::tempdir().expect("a folder");
    let [a, b] = ["a.pcap.gz", "b.pcap"].map(|name| place.path().join(name));
    let packet = udp("10.0.0.1:1", "10.0.0.2:2");
    write(&a, &capture([packet, packet.ttl(5)]));
    write(&b, &capture([packet, packet.ttl(6)]));
    let result = Comparison::default()
        .compare_captures(&a, &b)
        .expect("readable");
    let told = result.expect_err("different").to_string();
    assert!(told.contains("packet 2 of the flow (packet 2 of A, packet 2 of B) differs: time to live is 5 in A and 6 in B"), "{told}");
}
