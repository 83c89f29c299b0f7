//! Excess that is delayed.

use super::*;
use twinpath_core::key::Role;
use twinpath_core::wire::dissect;
use twinpath_core::{Direction, DropCounters, DropReason, FlowKey, Packet, Pools, Side};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox};

/// A limiter with one flow.
struct Bench {
    limiter: RateLimiter,
    words: Vec<u32>,
    handle: u32,
    pools: Pools,
    onward: Vec<Packet>,
    drops: DropCounters,
}

impl Bench {
    fn new(text: &str) -> Self {
        let limiter = limiter(text);
        Self {
            words: vec![0; limiter.program().words.len()],
            limiter,
            handle: 0,
            pools: Pools::new(64, 4),
            onward: Vec::new(),
            drops: DropCounters::default(),
        }
    }

    fn act(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut RateLimiter, &mut Flow<'_>, &mut Outbox<'_>),
    ) {
        let mut replies = Vec::new();
        let mut out = Outbox::new(
            &mut self.onward,
            &mut replies,
            &mut self.drops,
            &mut self.pools,
        );
        let mut flow = Flow {
            key: &FlowKey::default(),
            initiator: &mut Side::Low,
            words: &mut self.words,
            handle: &mut self.handle,
            now,
        };
        act(&mut self.limiter, &mut flow, &mut out);
    }

    fn send(&mut self, way: Direction, bytes: usize, now: Instant) {
        let bytes = datagram(ends(false, 0), bytes);
        let packet = Packet {
            layout: dissect(&bytes).expect("a packet"),
            frame: self.pools.take_filled(&bytes).expect("room"),
            direction: way,
            role: Role::Member,
            alias_row: 0,
        };
        self.act(now, |limiter, flow, out| limiter.handle(packet, flow, out));
    }

    /// The deadline comes: when it was, and how many packets left.
    fn wake(&mut self) -> (u64, usize) {
        let (at, before) = (self.limiter.deadline(self.handle), self.onward.len());
        self.act(at, |limiter, flow, out| limiter.wake(flow, out));
        (at.0 - START.0, self.onward.len() - before)
    }

    fn sizes(&self) -> Vec<u32> {
        self.onward.iter().map(Packet::packet_bytes).collect()
    }
}

const DELAY: &str = "excess = \"delay\"\n";

/// A thousand packets a second, two at once: the others leave a millisecond apart, in order.
#[test]
fn packets_leave_when_their_bucket_has_enough() {
    let mut bench = Bench::new(&format!("rate_pps = 1000\nburst_packets = 2\n{DELAY}"));
    for bytes in [101, 102, 103, 104, 105] {
        bench.send(Direction::Original, bytes, START);
    }
    assert_eq!(bench.sizes(), [101, 102]);
    assert!(bench.limiter.is_pending(&bench.words, bench.handle));
    let (mut last, mut times) = (0, Vec::new());
    while bench.handle != 0 {
        let (at, left) = bench.wake();
        assert_eq!(left, 1);
        times.push(at - last);
        last = at;
    }
    assert!(
        times
            .iter()
            .all(|apart| (1_000_000..1_001_000).contains(apart)),
        "{times:?}"
    );
    assert_eq!(bench.sizes(), [101, 102, 103, 104, 105]);
    // The bucket is as empty as before: time alone fills it.
    bench.send(Direction::Original, 106, at(last));
    assert_eq!(bench.sizes().len(), 5);
    assert_eq!(bench.limiter.statistics().delayed, 4);
}

#[test]
fn directions_wait_apart() {
    let mut bench = Bench::new(&format!("rate_pps = 1000\nburst_packets = 1\n{DELAY}"));
    for _ in 0..2 {
        bench.send(Direction::Original, 90, START);
        bench.send(Direction::Reply, 91, at(400_000));
    }
    assert_eq!(bench.sizes(), [90, 91]);
    bench.wake();
    assert_eq!(bench.sizes(), [90, 91, 90]);
    let (at, _) = bench.wake();
    assert!((1_400_000..1_401_000).contains(&at), "{at}");
}

/// A flow's packets and bytes, what may wait for how long, and all flows together.
#[test]
fn lines_are_bounded() {
    let text = |more: &str| format!("rate_pps = 1000\nburst_packets = 1\n{DELAY}{more}");
    let cases = [
        ("most_packets_per_flow = 3\n", 3, DropReason::RateLimited),
        ("most_bytes_per_flow = 300\n", 2, DropReason::RateLimited),
        ("longest_delay = \"5ms\"\n", 5, DropReason::RateLimited),
        ("most_packets = 4\n", 4, DropReason::BufferFull),
    ];
    for (more, waiting, reason) in cases {
        let mut bench = Bench::new(&text(more));
        for _ in 0..11 {
            bench.send(Direction::Original, 100, START);
        }
        assert_eq!(bench.limiter.kept_packets(), waiting, "{more}");
        let drops: Vec<_> = bench.drops.nonzero().collect();
        assert_eq!(drops, [(reason, 10 - waiting as u64)], "{more}");
        while bench.handle != 0 {
            bench.wake();
        }
        assert_eq!(
            bench.onward.len(),
            1 + waiting,
            "what is dropped takes nothing"
        );
    }
}

#[test]
fn what_is_longer_than_a_burst_waits_for_nothing() {
    let mut bench = Bench::new(&format!("rate_bps = 1_000_000\nburst_bytes = 500\n{DELAY}"));
    bench.send(Direction::Original, 501, START);
    assert_eq!((bench.handle, bench.onward.len()), (0, 0));
    bench.send(Direction::Original, 500, START);
    assert_eq!(bench.onward.len(), 1);
}

#[test]
fn what_waits_leaves_before_the_chain_changes_and_other_buckets_are_full() {
    let mut bench = Bench::new(&format!(
        "rate_pps = 1\nburst_packets = 1\n{DELAY}longest_delay = \"9s\"\n"
    ));
    for bytes in [101, 102, 103] {
        bench.send(Direction::Original, bytes, START);
    }
    bench.act(START, |limiter, flow, out| limiter.release(flow, out));
    assert_eq!((bench.sizes(), bench.handle), (vec![101, 102, 103], 0));
    let mut other = limiter("rate_pps = 1\nburst_packets = 2\n");
    assert!(bench.limiter.reconfigure(&mut other));
    bench.limiter.adapt(&mut bench.words, &mut bench.handle);
    assert!(bench.words.iter().all(|word| *word == 0));
}

#[test]
fn a_flow_that_is_reset_loses_what_waits() {
    let mut bench = Bench::new(&format!("rate_pps = 1\nburst_packets = 1\n{DELAY}"));
    bench.send(Direction::Original, 100, START);
    bench.send(Direction::Reply, 100, START);
    bench.send(Direction::Reply, 100, at(950_000_000));
    assert_eq!(bench.limiter.kept_packets(), 1);
    bench.limiter.forget(bench.handle);
    assert_eq!(
        (
            bench.limiter.kept_packets(),
            bench.limiter.statistics().forgotten
        ),
        (0, 1)
    );
}
