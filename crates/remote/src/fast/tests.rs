use super::*;
use crate::store::Store;
use twinpath_core::split::{Left, PendingHeaders, Sent};
use twinpath_core::wire::rewrite::{set_destination, set_source};
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, verify_transport_checksum};
use twinpath_core::{Metadata, Pools, Ticket};

const NOW: Instant = Instant(5_000_000);

/// A stage with memory of this process.
struct Switch {
    stage: Stage,
    pools: Pools,
}

fn end(text: &str) -> Endpoint {
    text.parse().expect("an endpoint")
}

fn packet(version: u8, number: u8, payload_bytes: usize) -> Vec<u8> {
    let (from, to) = match version {
        4 => (end("10.0.0.1:7"), end("192.0.2.2:80")),
        _ => (end("[2001:db8::1]:7"), end("[2001:db8::2]:80")),
    };
    let payload: Vec<u8> = (0..payload_bytes)
        .map(|at| (at as u8).wrapping_mul(7).wrapping_add(number))
        .collect();
    let builder = PacketBuilder::tcp(from, to);
    builder.payload(&payload).to_vec().expect("it fits")
}

impl Switch {
    fn new(config: Config, payloads: usize) -> Self {
        let store = Server {
            name: "store".into(),
            port: None,
            memory: Box::new(Store::new(0, payloads)),
        };
        Self {
            stage: Stage::new(config, vec![store]),
            pools: Pools::new(64, 2),
        }
    }

    fn send(&mut self, packet: &[u8], now: Instant) -> Sent {
        let frame = self.pools.take_filled(packet).expect("a buffer");
        let layout = dissect(packet).expect("a packet");
        self.stage.send(frame, &layout, 3, now, &mut self.pools)
    }

    fn split(&mut self, packet: &[u8]) -> Frame {
        match self.send(packet, NOW) {
            Sent::Header(header) => header,
            other => panic!("{other:?}"),
        }
    }

    fn whole(&mut self, packet: &[u8]) -> Frame {
        match self.send(packet, NOW) {
            Sent::Whole(frame) => {
                assert_eq!(frame.bytes(), packet, "it goes as it was");
                assert_eq!(frame.metadata().parked_bytes, 0);
                frame
            }
            other => panic!("{other:?}"),
        }
    }

    fn leave(&mut self, frame: Frame) -> Left {
        let parcel = Parcel {
            frame,
            is_reply: false,
        };
        self.stage.leave(parcel, 3, NOW, &mut self.pools)
    }

    fn leaves(&mut self, frame: Frame) -> Frame {
        match self.leave(frame) {
            Left::Now(parcel) => parcel.frame,
            other => panic!("{other:?}"),
        }
    }
}

/// A function sees the header as long as its packet, and gives another one back.
fn functions(mut header: Frame, rewrite: impl FnOnce(&mut Frame)) -> Frame {
    let mut pending = PendingHeaders::default();
    assert!(pending.receive(&mut header));
    rewrite(&mut header);
    assert!(pending.give_back(&mut header) && pending.is_empty());
    assert!(twinpath_core::split::stretch(&mut header));
    header
}

fn any_config() -> Config {
    Config {
        header_slots: 4,
        ..Config::default()
    }
}

/// Whatever functions write, lengths and checksums are right in the end, in either IP version.
#[test]
fn packets_are_whole_again_with_their_new_headers() {
    for version in [4, 6] {
        let mut switch = Switch::new(any_config(), 4);
        let mut whole = packet(version, 1, 900);
        let header = switch.split(&whole);
        assert!(header.len() < 80 && header.metadata().parked_bytes == 900);
        let new = match version {
            4 => [end("198.51.100.9:4000"), end("203.0.113.1:8080")],
            _ => [end("[2001:db8:7::1]:4000"), end("[2001:db8:8::1]:8080")],
        };
        let rewrite = |bytes: &mut [u8]| {
            let layout = dissect(bytes).expect("a packet");
            set_source(bytes, &layout, new[0]).expect("it has ports");
            set_destination(bytes, &layout, new[1]).expect("it has ports");
        };
        let header = functions(header, |frame| rewrite(frame.bytes_mut()));
        let left = switch.leaves(header);
        rewrite(&mut whole);
        assert_eq!(left.bytes(), whole);
        let layout = dissect(left.bytes()).expect("a packet");
        assert!(verify_transport_checksum(left.bytes(), &layout));
        let counters = switch.stage.counters();
        assert_eq!(
            (counters.packets, counters.merged, counters.bytes),
            (1, 1, 900)
        );
        assert_eq!(counters.ended(), 1);
    }
}

/// A tag that a function puts in front, and one that it takes away.
#[test]
fn headers_may_grow_and_shrink() {
    let mut switch = Switch::new(any_config(), 4);
    let plain = packet(4, 2, 400);
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let header = switch.split(&plain);
    let header = functions(header, |frame| {
        let bytes = frame.bytes()[..12].to_vec();
        frame
            .push_front(4)
            .expect("room")
            .copy_from_slice(&bytes[..4]);
        frame.bytes_mut()[..12].copy_from_slice(&bytes);
        frame.bytes_mut()[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
    });
    assert_eq!(switch.leaves(header).bytes(), tagged);
    let header = switch.split(&tagged);
    let header = functions(header, |frame| {
        let bytes = frame.bytes()[..12].to_vec();
        assert!(frame.pull_front(4));
        frame.bytes_mut()[..12].copy_from_slice(&bytes);
    });
    assert_eq!(switch.leaves(header).bytes(), plain);
    // More than there is room for.
    let header = switch.split(&plain);
    let ticket = header.ticket();
    let mut long = switch.pools.take(1500).expect("a buffer");
    assert!(long.set_len(1500));
    long.set_metadata(header.metadata());
    long.set_ticket(ticket);
    let left = switch.leave(long);
    assert!(matches!(left, Left::Waits), "{left:?}");
    let output = switch.stage.pop();
    assert!(matches!(output, Some(Output::HeaderTooLong(..))));
    assert_eq!(switch.stage.counters().header_too_long, 1);
}

#[test]
fn what_is_not_split_travels_as_it_is() {
    let config = Config {
        threshold_bytes: 200,
        never: vec![Class {
            ports: vec![80..=80],
            addresses: Some(end("192.0.2.2:1").address..=end("192.0.2.2:1").address),
            ..Class::default()
        }],
        ..any_config()
    };
    let mut switch = Switch::new(config, 4);
    switch.whole(&packet(6, 1, 100));
    switch.whole(&packet(4, 1, 900));
    let mut last_hop = packet(6, 1, 900);
    last_hop[21] = 1;
    switch.whole(&last_hop);
    let counters = *switch.stage.counters();
    assert_eq!((counters.whole_small, counters.whole_class), (1, 1));
    assert_eq!((counters.whole_unsuited, counters.whole()), (1, 3));
    switch.stage.set_active(false);
    switch.whole(&packet(6, 1, 900));
    switch.stage.set_active(true);
    switch.split(&packet(6, 1, 900));
    assert_eq!(switch.stage.counters().whole_chain, 1);
}

/// At once where nothing is protected, as in the paper: the slot's new packet never gets the payload of
/// the former one, nor the other way round.
#[test]
fn overtaken_slots_are_noticed() {
    let config = Config {
        header_slots: 2,
        header_timeout: Duration::ZERO,
        ..Config::default()
    };
    let mut switch = Switch::new(config, 16);
    let packets: Vec<_> = (0..3).map(|number| packet(4, number, 300)).collect();
    let headers: Vec<_> = packets.iter().map(|packet| switch.split(packet)).collect();
    assert_eq!(switch.stage.take_given_up(), 1);
    assert_eq!(headers[0].ticket().slot, headers[2].ticket().slot);
    let mut left = headers.into_iter().map(|header| {
        let header = functions(header, |_| ());
        switch.leave(header)
    });
    assert!(matches!(left.next(), Some(Left::Stale)));
    for expected in &packets[1..] {
        let Some(Left::Now(parcel)) = left.next() else {
            panic!("it has its slot");
        };
        assert_eq!(parcel.frame.bytes(), expected);
    }
    drop(left);
    let counters = switch.stage.counters();
    assert_eq!((counters.missing, counters.headers_stale), (1, 1));
    assert_eq!((counters.merged, counters.ended()), (2, 3));
}

/// The same of the places in memory.
#[test]
fn overtaken_payloads_are_noticed() {
    let config = Config {
        header_timeout: Duration::ZERO,
        ..any_config()
    };
    let mut switch = Switch::new(config, 2);
    let packets: Vec<_> = (0..3).map(|number| packet(4, number, 300)).collect();
    let headers: Vec<_> = packets.iter().map(|packet| switch.split(packet)).collect();
    for (header, expected) in headers.into_iter().zip(&packets) {
        let header = functions(header, |_| ());
        match switch.leave(header) {
            Left::Dropped(frame, DropReason::PayloadLost) => {
                assert_eq!(frame.metadata().parked_bytes, 0);
                assert_eq!(expected, &packets[0]);
            }
            Left::Now(parcel) => assert_eq!(parcel.frame.bytes(), expected),
            other => panic!("{other:?}"),
        }
    }
    let counters = switch.stage.counters();
    assert_eq!((counters.payload_gone, counters.merged), (1, 2));
}

#[test]
fn what_is_protected_makes_others_travel_whole() {
    let config = Config {
        header_slots: 1,
        header_timeout: Duration::from_millis(1),
        ..Config::default()
    };
    let mut switch = Switch::new(config, 4);
    let whole = packet(4, 1, 300);
    let first = switch.split(&whole);
    switch.whole(&whole);
    assert_eq!(switch.stage.counters().whole_no_slot, 1);
    // Its header is late by now.
    let late = NOW + Duration::from_millis(1);
    switch.stage.set_lossless(true);
    assert!(matches!(switch.send(&whole, late), Sent::Whole(_)));
    switch.stage.set_lossless(false);
    assert!(matches!(switch.send(&whole, late), Sent::Header(_)));
    let first = functions(first, |_| ());
    assert!(matches!(switch.leave(first), Left::Stale));
    // Between two visits to the slow path no time-out runs.
    let mut switch = Switch::new(
        Config {
            header_slots: 1,
            header_timeout: Duration::ZERO,
            ..Config::default()
        },
        4,
    );
    let header = switch.split(&whole);
    switch.stage.came_back(header.ticket());
    switch.whole(&whole);
    switch.stage.goes_again(header.ticket(), NOW);
    switch.split(&whole);
}

#[test]
fn dropped_doubled_and_lost_headers_come_to_one_end() {
    let mut switch = Switch::new(any_config(), 4);
    let packets: Vec<_> = (0..4).map(|number| packet(4, number, 300)).collect();
    let mut headers: Vec<_> = packets.iter().map(|packet| switch.split(packet)).collect();
    let free = switch.pools.small().available();
    // Dropped, and the notice comes twice.
    let dropped = headers.remove(0);
    switch.stage.dropped(dropped.ticket());
    switch.stage.dropped(dropped.ticket());
    // Doubled.
    let ticket = headers[0].ticket();
    let first = functions(headers.remove(0), |_| ());
    let mut second = switch.pools.take_filled(first.bytes()).expect("a buffer");
    second.set_metadata(first.metadata());
    second.set_ticket(ticket);
    switch.leaves(first);
    assert!(matches!(switch.leave(second), Left::Stale));
    // Shorter than its payload.
    let mut short = headers.remove(0);
    let metadata = Metadata {
        parked_bytes: 2000,
        ..short.metadata()
    };
    short.set_metadata(metadata);
    assert!(matches!(switch.leave(short), Left::Stale));
    // Lost.
    assert_eq!(switch.stage.headers_away(), 1);
    switch.stage.release_lost();
    assert_eq!(switch.stage.headers_away(), 0);
    assert_eq!(switch.stage.take_given_up(), 1);
    switch.stage.poll(NOW, &mut switch.pools);
    let counters = *switch.stage.counters();
    assert_eq!(
        (counters.declined, counters.merged, counters.missing),
        (2, 1, 1)
    );
    assert_eq!((counters.headers_stale, counters.dropped_late), (2, 1));
    assert_eq!(counters.ended(), counters.packets);
    assert!(switch.pools.small().available() > free, "payloads are free");
}

/// A header that was made up, or bears another packet's ticket, gets no payload that is not its own.
#[test]
fn invented_tickets_get_nothing() {
    let mut switch = Switch::new(any_config(), 4);
    let header = switch.split(&packet(4, 1, 300));
    let right = header.ticket();
    for (slot, generation) in [(1, 1), (0, 0), (0, 2), (u32::MAX, 1)] {
        let mut forged = switch.pools.take_filled(header.bytes()).expect("a buffer");
        forged.set_metadata(header.metadata());
        forged.set_ticket(Ticket { slot, generation });
        assert_ne!(forged.ticket(), right);
        let forged = functions(forged, |_| ());
        assert!(matches!(switch.leave(forged), Left::Stale));
    }
    switch.leaves(functions(header, |_| ()));
}
