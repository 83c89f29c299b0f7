//! Packets may come late: in a chain of several elements they may have waited at an earlier one
//! while the clock went on with those of other flows.

use std::time::Duration;
use twinpath_coherence::SlowFlows;
use twinpath_coherence::slow::Outgoing;
use twinpath_core::program::{FastProgram, Word};
use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};
use twinpath_core::{Instant, Packet, Pools};
use twinpath_link::{Header, Message};
use twinpath_slowpath::{Chain, Flow, NetworkFunction, NextFunction, Outbox, Slab};

/// Keeps each packet for a while; a flow's only word is the time of its last one.
struct Keeper(Slab<Packet>);

const KEPT_FOR: Duration = Duration::from_millis(1);
const IDLE: Duration = Duration::from_secs(10);

impl NetworkFunction for Keeper {
    fn name(&self) -> &'static str {
        "keeper"
    }

    fn program(&self) -> FastProgram {
        let (name, meaning) = ("last", "when the last came, in ticks");
        FastProgram {
            name: "keeper".into(),
            words: vec![Word { name, meaning }],
            always_complex: vec![vec![]],
            ..FastProgram::default()
        }
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, _out: &mut Outbox<'_>) {
        flow.words[0] = packet.timestamp().ticks();
        *flow.handle = self.0.insert(packet).unwrap_or_default();
    }

    fn deadline(&self, handle: u32) -> Instant {
        let kept = self.0.at(handle);
        kept.map_or(Instant::NEVER, |packet| packet.timestamp() + KEPT_FOR)
    }

    fn wake(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        if let Some(packet) = self.0.remove(std::mem::take(flow.handle)) {
            out.forward(packet);
        }
    }

    fn is_pending(&self, _words: &[u32], handle: u32) -> bool {
        handle != 0
    }

    fn is_expired(&self, words: &[u32], now: Instant) -> bool {
        now.ticks_since(words[0]) > Instant(IDLE.as_nanos() as u64).ticks()
    }

    fn forget(&mut self, handle: u32) {
        self.0.remove(handle);
    }

    fn most_held_frames(&self) -> usize {
        8
    }

    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}

/// The numbers of the packets that come out when these come in, each with its time.
fn put_out(packets: &[(u64, Instant)]) -> Vec<u64> {
    let (mut slow, mut pools, mut out) = met(packets);
    slow.advance(Instant::NEVER, &mut pools, &mut out);
    let frames = out.iter().filter_map(|outgoing| outgoing.frame.as_ref());
    frames.map(|frame| frame.ordinal()).collect()
}

/// A worker's flows that have met these packets, and what came out until then.
fn met(packets: &[(u64, Instant)]) -> (SlowFlows, Pools, Vec<Outgoing>) {
    let chain = Chain::new(vec![Box::new(Keeper(Slab::new(8)))]);
    let steering = chain.steering(7).expect("one function");
    let mut slow = SlowFlows::new(chain, 16, 1, 7);
    slow.start(packets[0].1);
    let (mut pools, mut out): (_, Vec<Outgoing>) = (Pools::new(16, 1), Vec::new());
    for &(number, at) in packets {
        let client = Endpoint::v4([10, 0, 0, number as u8], 1000);
        let packet = PacketBuilder::udp(client, Endpoint::v4([192, 0, 2, 1], 80));
        let bytes = packet.to_vec().expect("a packet");
        let mut frame = pools.take_filled(&bytes).expect("a buffer");
        frame.set_timestamp(at);
        frame.set_ordinal(number);
        let layout = dissect(&bytes).expect("sound");
        let keyed = steering.key(&bytes, &layout).expect("a flow");
        let header = Header::of_packet(Message::Plain, &frame, &keyed);
        slow.receive(&header, frame, &mut pools, &mut out);
    }
    (slow, pools, out)
}

/// What is over is forgotten as time goes by, where no packet comes.
#[test]
fn flows_that_are_over_are_forgotten_in_silence() {
    let start = Instant(1_700_000_000_000_000_000);
    let (mut slow, mut pools, mut out) = met(&[(1, start), (2, start), (3, start)]);
    slow.advance(start + IDLE / 2, &mut pools, &mut out);
    assert_eq!((slow.store().len(), out.len()), (3, 3));
    slow.advance(start + 2 * IDLE, &mut pools, &mut out);
    assert_eq!(slow.store().len(), 0);
}

/// Flows follow to another chain with their packets, and earlier where somebody looks at them.
#[test]
fn flows_that_are_looked_at_follow_at_once() {
    let start = Instant(1_700_000_000_000_000_000);
    let (mut slow, mut pools, mut out) = met(&[(1, start), (2, start)]);
    slow.advance(start + IDLE / 2, &mut pools, &mut out);
    slow.succeed(vec![NextFunction::Same(0)], start);
    let have_followed = |slow: &SlowFlows| {
        let store = slow.store();
        store.ids().all(|id| store.has_moved(id))
    };
    assert!(!have_followed(&slow));
    slow.catch_up_among(0..1);
    assert!(have_followed(&slow), "with those beside it");
}

/// What a function keeps of a late packet is not forgotten because the flow, by the time of that
/// packet, has been silent for long: its deadline has passed too, and comes first.
#[test]
fn what_is_kept_of_a_late_packet_comes_out() {
    let start = Instant(1_700_000_000_000_000_000);
    let late = put_out(&[(1, start + 10 * IDLE), (2, start)]);
    assert_eq!(late, [2, 1]);
}
