use super::*;
use crate::payloads::{Lost, Refusal, Returned};
use crate::store::Store;
use twinpath_core::split::{cut, stretch};
use twinpath_core::wire::rewrite::{set_destination, set_source};
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect, verify_transport_checksum};
use twinpath_core::{DropReason, Metadata};

const NOW: Instant = Instant(5_000_000);

/// A stage with memory of this process.
struct Switch {
    stage: SplitStage,
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
        Self::with(config, None, Store::new(0, payloads))
    }

    fn with(
        config: Config,
        port: Option<u16>,
        memory: impl PayloadMemory + Send + 'static,
    ) -> Self {
        let server = Server {
            name: "store".into(),
            port,
            memory: Box::new(memory),
        };
        Self {
            stage: SplitStage::new(config, vec![server]),
            pools: Pools::new(64, 2),
        }
    }

    fn send(&mut self, packet: &[u8], now: Instant) -> Sent {
        let frame = self.pools.take_filled(packet).expect("a buffer");
        let layout = dissect(packet).expect("a packet");
        let outgoing = Outgoing {
            frame,
            layout: &layout,
            flow: 3,
            has_state: false,
        };
        self.stage.send(outgoing, now, &mut self.pools)
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
        self.leave_of(3, frame)
    }

    fn leave_of(&mut self, flow: u64, frame: Frame) -> Left {
        let departing = DepartingFrame {
            frame,
            is_reply: false,
        };
        self.stage.leave(departing, flow, NOW, &mut self.pools)
    }

    fn leaves(&mut self, frame: Frame) -> Frame {
        match self.leave(frame) {
            Left::Now(departing) => departing.frame,
            other => panic!("{other:?}"),
        }
    }
}

/// A function sees the header as long as its packet, and gives another one back.
fn functions(mut header: Frame, rewrite: impl FnOnce(&mut Frame)) -> Frame {
    assert!(stretch(&mut header));
    rewrite(&mut header);
    assert!(cut(&mut header) && stretch(&mut header));
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
    let output = switch.stage.pass(NOW).map(|(_, output)| output);
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
        let Some(Left::Now(departing)) = left.next() else {
            panic!("it has its slot");
        };
        assert_eq!(departing.frame.bytes(), expected);
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
            Left::Now(departing) => assert_eq!(departing.frame.bytes(), expected),
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
    switch.stage.dropped(dropped.ticket(), NOW);
    switch.stage.dropped(dropped.ticket(), NOW);
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

/// Memory from which payloads come when a frame from there says so: the payload's place is the frame's
/// only byte, and it is lost if that is more than a hundred more.
#[derive(Default)]
struct Distant {
    payloads: Vec<Option<(Frame, Ticket)>>,
    written: Vec<Option<Frame>>,
}

impl PayloadMemory for Distant {
    fn queue_pairs(&self) -> u16 {
        1
    }

    fn is_ready(&self, _: u16) -> bool {
        true
    }

    fn write(
        &mut self,
        queue_pair: u16,
        payload: Frame,
        _: Instant,
        _: &mut payloads::Output,
    ) -> Result<Handle, (Frame, Refusal)> {
        let handle = Handle {
            address: self.written.len() as u64,
            bytes: payload.len() as u16,
            queue_pair,
            server: 0,
            sequence: crate::Sequence::default(),
        };
        self.written.push(Some(payload));
        Ok(handle)
    }

    fn read(
        &mut self,
        handle: &Handle,
        header: Ticket,
        _: Instant,
        _: &mut Pools,
        _: &mut payloads::Output,
    ) -> Result<(), Refusal> {
        let payload = self.written[handle.address as usize].take();
        self.payloads.push(payload.map(|payload| (payload, header)));
        Ok(())
    }

    fn discard(&mut self, _: &Handle) {}

    fn receive(
        &mut self,
        frame: Frame,
        _: Instant,
        pools: &mut Pools,
        output: &mut payloads::Output,
    ) -> Option<Frame> {
        let place = usize::from(frame.bytes()[0]);
        let (payload, header) = self.payloads[place % 100].take().expect("it was asked for");
        let payload = match place {
            0..100 => Ok(payload),
            _ => Err(Lost::Timeout),
        };
        output.payloads.push(Returned { header, payload });
        pools.give(frame);
        None
    }

    fn poll(&mut self, _: Instant, _: &mut Pools, _: &mut payloads::Output) {}

    fn deadline(&self) -> Instant {
        Instant::NEVER
    }

    fn protect(&mut self, _: Duration) {}

    fn named_counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl Switch {
    fn distant(config: Config) -> Self {
        Self::with(config, Some(0), Distant::default())
    }

    /// A packet is split, its header passes the chain, and its payload is on its way.
    fn waits(&mut self, flow: u64, packet: &[u8]) {
        let header = functions(self.split(packet), |_| ());
        let left = self.leave_of(flow, header);
        assert!(matches!(left, Left::Waits), "{left:?}");
    }

    /// A whole packet of a flow is about to leave: whether it does.
    fn follows(&mut self, flow: u64, packet: &[u8]) -> bool {
        let frame = self.pools.take_filled(packet).expect("a buffer");
        match self.leave_of(flow, frame) {
            Left::Now(_) => true,
            Left::Waits => false,
            other => panic!("{other:?}"),
        }
    }

    /// A payload comes, or does not.
    fn comes(&mut self, place: u8) {
        let mut frame = self.pools.take_filled(&[place]).expect("a buffer");
        frame.set_port(0);
        self.stage.receive(frame, NOW, &mut self.pools);
    }

    /// What leaves, or is lost.
    fn left(&mut self) -> Vec<Result<Vec<u8>, DropReason>> {
        let outputs = std::iter::from_fn(|| self.stage.pass(NOW));
        let told = |(_, output)| match output {
            Output::Packet(departing, _) => Ok(departing.frame.bytes().to_vec()),
            Output::Lost(_, reason) => Err(reason),
            other => panic!("{other:?}"),
        };
        outputs.map(told).collect()
    }
}

/// As many flows as there may be, of which one waits: no other does, nor does the other direction.
#[test]
fn nobody_waits_for_another_flow() {
    let mut switch = Switch::distant(any_config());
    let (long, short) = (packet(4, 1, 300), packet(4, 2, 4));
    switch.waits(7 << 40, &long);
    for flow in (0..20_000u64).map(|flow| flow << 32 | 1) {
        assert!(switch.follows(flow, &short), "{flow}");
    }
    assert!(!switch.follows(7 << 40, &short));
    switch.comes(0);
    assert_eq!(switch.left(), [Ok(long), Ok(short)]);
    assert_eq!(switch.stage.counters().followers, 1);
}

/// Where too many would wait, those that are waited for are lost and no whole packet is; also where they
/// have become whole behind others.
#[test]
fn what_is_whole_is_never_lost_for_want_of_room() {
    let config = Config {
        followers: 2,
        ..any_config()
    };
    let mut switch = Switch::distant(config);
    let packets: Vec<_> = (0..4).map(|number| packet(4, number, 300)).collect();
    let short = packet(4, 9, 4);
    switch.waits(1, &packets[0]);
    switch.waits(2, &packets[1]);
    assert!(!switch.follows(1, &short) && !switch.follows(2, &short));
    assert!(switch.left().is_empty());
    // A third one: the header of its flow is given up, that of the other is not.
    assert!(!switch.follows(2, &short));
    let lost = Err(DropReason::PayloadLost);
    assert_eq!(
        switch.left(),
        [lost.clone(), Ok(short.clone()), Ok(short.clone())]
    );
    // Its payload comes too late, for nobody.
    switch.comes(1);
    assert!(switch.left().is_empty());
    switch.waits(1, &packets[2]);
    switch.waits(1, &packets[3]);
    switch.comes(2);
    assert!(switch.left().is_empty());
    switch.comes(3);
    let whole = |number: usize| Ok(packets[number].clone());
    assert_eq!(switch.left(), [lost, Ok(short), whole(2), whole(3)]);
    let counters = *switch.stage.counters();
    assert_eq!((counters.payload_late, counters.merged), (2, 2));
    assert_eq!((counters.packets, counters.ended()), (4, 4));
    assert!(switch.stage.is_empty());
    assert_eq!(switch.stage.headers_away(), 0);
}

/// In a run that must lose nothing they wait as long as it takes.
#[test]
fn a_lossless_run_has_no_bound_on_who_waits() {
    let config = Config {
        followers: 1,
        ..any_config()
    };
    let mut switch = Switch::distant(config);
    switch.stage.set_lossless(true);
    let (long, short) = (packet(4, 1, 300), packet(4, 9, 4));
    switch.waits(1, &long);
    (0..20).for_each(|_| assert!(!switch.follows(1, &short)));
    assert!(switch.left().is_empty());
    switch.comes(100);
    assert_eq!(switch.left().len(), 21);
    assert_eq!(switch.stage.counters().payload_lost, 1);
}
