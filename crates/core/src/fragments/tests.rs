use super::*;
use crate::pool::Pools;
use crate::wire::fragment::cut;
use crate::wire::{Endpoint, PacketBuilder, dissect};

const START: Instant = Instant(1 << 40);

fn host(number: u32) -> Endpoint {
    Endpoint::v4(number.to_be_bytes(), 1000)
}

/// A datagram of so many parts.
fn parts(from: Endpoint, count: usize, identification: u32) -> Vec<Vec<u8>> {
    let whole = PacketBuilder::udp(from, host(1)).payload_len(64 * count - 8);
    let whole = whole.to_vec().expect("valid");
    let layout = dissect(&whole).expect("valid");
    cut(&whole, &layout, 64, identification).expect("long enough")
}

struct Bench {
    fragments: Fragments,
    pools: Pools,
}

#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It goes on, and so many behind it.
    Known(usize),
    Held,
    Refused(DropReason),
}

impl Bench {
    fn new() -> Self {
        Self {
            fragments: Fragments::new(HashKey::new(7)),
            pools: Pools::new(2 * MAX_HELD, 1),
        }
    }

    /// What becomes of a fragment, and how many were given up.
    fn meet(&mut self, bytes: &[u8], at: Instant) -> (Fate, usize) {
        let (fate, given_up) = self.meet_told(bytes, at);
        (fate, given_up.len())
    }

    /// The same, with why they were.
    fn meet_told(&mut self, bytes: &[u8], at: Instant) -> (Fate, Vec<DropReason>) {
        let mut frame = self.pools.take_filled(bytes).expect("room");
        frame.set_timestamp(at);
        let layout = dissect(bytes).expect("valid");
        let met = self.fragments.meet(frame, &layout);
        let given_up = self.fragments.given_up().map(|(_, why)| why).collect();
        let fate = match met {
            FragmentOutcome::Held => Fate::Held,
            FragmentOutcome::Refused(_, reason) => Fate::Refused(reason),
            FragmentOutcome::Known(_) => {
                let followers = std::iter::from_fn(|| self.fragments.next_follower());
                Fate::Known(followers.count())
            }
        };
        (fate, given_up)
    }
}

#[test]
fn a_datagram_that_is_complete_is_forgotten() {
    let mut bench = Bench::new();
    let parts = parts(host(2), 3, 5);
    for _ in 0..2 {
        assert_eq!(bench.meet(&parts[2], START), (Fate::Held, 0));
        assert_eq!(bench.meet(&parts[0], START), (Fate::Known(1), 0));
        assert_eq!(bench.meet(&parts[1], START), (Fate::Known(0), 0));
    }
    assert_eq!(bench.fragments.held(), 0);
}

#[test]
fn what_comes_twice_is_refused() {
    let mut bench = Bench::new();
    let parts = parts(host(2), 3, 5);
    let misfit = (Fate::Refused(DropReason::FragmentMisfit), 0);
    assert_eq!(bench.meet(&parts[1], START), (Fate::Held, 0));
    assert_eq!(bench.meet(&parts[1], START), misfit);
    assert_eq!(bench.meet(&parts[0], START), (Fate::Known(1), 0));
    assert_eq!(bench.meet(&parts[0], START), misfit);
}

#[test]
fn one_sender_displaces_its_own() {
    let mut bench = Bench::new();
    let other = parts(host(99), 2, 1);
    assert_eq!(bench.meet(&other[1], START), (Fate::Held, 0));
    let mut given_up = 0;
    for identification in 0..2 * MAX_HELD_OF_HOST as u32 {
        let later = &parts(host(2), 2, identification)[1];
        let at = START + Duration::from_nanos(identification.into());
        let (fate, gone) = bench.meet_told(later, at);
        assert_eq!(fate, Fate::Held);
        let for_room = |why: &DropReason| *why == DropReason::FragmentBacklogFull;
        assert!(gone.iter().all(for_room), "{gone:?}");
        given_up += gone.len();
        assert!(bench.fragments.held() <= MAX_HELD_OF_HOST + 1);
    }
    assert_eq!(given_up, MAX_HELD_OF_HOST);
    assert_eq!(bench.meet(&other[0], START), (Fate::Known(1), 0));
    // The oldest of its own went first.
    let last = parts(host(2), 2, 2 * MAX_HELD_OF_HOST as u32 - 1);
    assert_eq!(bench.meet(&last[0], START).0, Fate::Known(1));
    let first = parts(host(2), 2, 0);
    assert_eq!(bench.meet(&first[0], START).0, Fate::Known(0));
}

#[test]
fn many_senders_hold_no_more_than_there_is_room_for() {
    let mut bench = Bench::new();
    for sender in 0..4 * MAX_HELD as u32 {
        let later = &parts(host(0x0a00_0000 + sender), 2, 1)[1];
        bench.meet(later, START);
        assert!(bench.fragments.held() <= MAX_HELD);
    }
    bench.fragments.hold_at_most(MAX_HELD - 10);
    assert_eq!(bench.fragments.given_up().count(), 10);
    bench.fragments.clear();
    assert_eq!(bench.fragments.given_up().count(), MAX_HELD - 10);
    assert_eq!(bench.fragments.held(), 0);
}

#[test]
fn what_has_waited_too_long_is_given_up() {
    let mut bench = Bench::new();
    let parts = parts(host(2), 3, 5);
    assert_eq!(bench.meet(&parts[1], START), (Fate::Held, 0));
    let late = START + LIFETIME + Duration::from_nanos(1);
    let alone = vec![DropReason::FragmentAlone];
    assert_eq!(bench.meet_told(&parts[0], late), (Fate::Known(0), alone));
    assert_eq!(bench.meet(&parts[1], late), (Fate::Known(0), 0), "anew");
}
