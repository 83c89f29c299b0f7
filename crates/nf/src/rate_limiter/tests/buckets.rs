//! Buckets in 32-bit units against what they are defined by.

use super::*;
use crate::rate_limiter::meter::{Meter, Rate};
use crate::two_paths::Path;
use proptest::prelude::*;

/// Packets of these sizes come at these times: which of them pass a bucket, in whole numbers of
/// billionths of a bit (or packet) that never round.
fn definition(rate: Rate, packets: &[(u64, u32)]) -> Vec<bool> {
    let (per_second, burst, of) = match rate {
        Rate::Bits {
            per_second,
            burst_bytes,
        } => (per_second, 8 * burst_bytes, 8),
        Rate::Packets { per_second, burst } => (per_second, burst, 0),
    };
    let full = i128::from(burst) * 1_000_000_000;
    let (mut tokens, mut last) = (full, 0);
    let each = packets.iter().map(|&(at, bytes)| {
        tokens = full.min(tokens + i128::from(at - last) * i128::from(per_second));
        last = at;
        let takes = i128::from(if of == 0 { 1 } else { bytes * of }) * 1_000_000_000;
        let passes = tokens >= takes;
        tokens -= if passes { takes } else { 0 };
        passes
    });
    each.collect()
}

/// The same with a meter.
pub(super) fn measured(meter: &Meter, packets: &[(u64, u32)]) -> Vec<bool> {
    let mut full_at = None;
    let each = packets.iter().map(|&(at, bytes)| {
        let (now, takes) = (meter.now(super::at(at)), meter.cost(bytes));
        let start = match full_at {
            Some(full) if (meter.now(super::at(at)).wrapping_sub(full) as i32) < 0 => full,
            _ => now,
        };
        let with = start.wrapping_add(takes);
        let passes = with.wrapping_sub(now) <= meter.depth;
        full_at = Some(if passes { with } else { start });
        passes
    });
    each.collect()
}

fn bits_of(packets: &[(u64, u32)], passed: &[bool]) -> u128 {
    let passed = packets.iter().zip(passed).filter(|(_, passed)| **passed);
    passed.map(|((_, bytes), _)| u128::from(*bytes) * 8).sum()
}

fn rate() -> impl Strategy<Value = Rate> {
    let edges = vec![
        1_000,
        64_000,
        1_000_000,
        10_000_000,
        999_999_937,
        10_000_000_000,
    ];
    let per_second = prop_oneof![prop::sample::select(edges), 1_000..10_000_000_001u64];
    prop_oneof![
        3 => (per_second, 1_500..1_000_000u64)
            .prop_map(|(per_second, burst_bytes)| Rate::Bits { per_second, burst_bytes }),
        1 => (1..1_000_000u64, 1..1000u64)
            .prop_map(|(per_second, burst)| Rate::Packets { per_second, burst }),
    ]
}

proptest! {
    /// Never more than the definition allows, and hardly less: what is rounded up is a part of each packet.
    #[test]
    fn a_bucket_gives_its_rate_and_its_burst(rate in rate(), load in 1..400u64, sizes in prop::collection::vec(40..1500u32, 300)) {
        let meter = Meter::new(rate, Duration::ZERO);
        let per_second = match rate {
            Rate::Bits { per_second, .. } => per_second as f64 / (8.0 * 770.0),
            Rate::Packets { per_second, .. } => per_second as f64,
        };
        // So many hundredths of the rate are offered.
        let apart = (1e9 / per_second * 100.0 / load as f64) as u64;
        prop_assume!(apart * 300 < 1 << 29);
        let packets: Vec<_> = (0..).map(|number: u64| number * apart).zip(sizes).collect();
        let passed = measured(&meter, &packets);
        let (bits, seconds) = (bits_of(&packets, &passed), packets[299].0 as u128);
        let count = passed.iter().filter(|passed| **passed).count() as u128;
        match rate {
            Rate::Bits { per_second, burst_bytes } => {
                let most = u128::from(burst_bytes) * 8 + seconds * u128::from(per_second) / 1_000_000_000;
                prop_assert!(bits <= most, "{bits} > {most}");
                let defined = bits_of(&packets, &definition(rate, &packets));
                // One packet may fall on the other side of its time.
                prop_assert!(bits + 16_000 + defined / 50 >= defined, "{bits} < {defined}");
            }
            Rate::Packets { per_second, burst } => {
                let most = u128::from(burst) + seconds * u128::from(per_second) / 1_000_000_000;
                prop_assert!(count <= most, "{count} > {most}");
                let defined = definition(rate, &packets).iter().filter(|passed| **passed).count() as u128;
                prop_assert!(count + 2 + defined / 100 >= defined, "{count} < {defined}");
            }
        }
    }

    /// The first time at which a packet that has to wait for so long conforms is the one that is told.
    #[test]
    fn what_waits_conforms_then_and_no_nanosecond_before(rate in rate(), now in 0..1u64 << 40, ahead in 1..1u32 << 29) {
        let meter = Meter::new(rate, Duration::from_millis(1));
        let (now, from) = (super::at(now), meter.now(super::at(now)));
        let then = meter.after(now, ahead);
        let passed = |at: Instant| meter.now(at).wrapping_sub(from);
        prop_assert!(passed(then) >= ahead);
        prop_assert!(passed(Instant(then.0 - 1)) < ahead);
    }
}

/// A million bits a second, 1500 bytes at once: a packet of 1500 bytes each 12 milliseconds.
#[test]
fn a_burst_at_once_and_then_the_rate() {
    for v6 in [false, true] {
        let limiter = limiter("rate_bps = 1_000_000\nburst_bytes = 1500");
        let mut path = Path::both(limiter, START);
        let packet = datagram(ends(v6, 0), 1500);
        let mut passes = |nanoseconds| path.process(&packet, at(nanoseconds)).onward.len() == 1;
        assert!(passes(0) && !passes(1) && !passes(11_999_000));
        assert!(passes(12_000_512), "to a unit");
        assert!(!passes(12_000_513) && passes(24_001_024));
        assert!(passes(3_600_000_000_000), "after an hour");
        assert!(!passes(3_600_000_000_001), "a burst is all that there is");
    }
}

/// A unit of time is 16 nanoseconds, in which 20 bytes come.
#[test]
fn nothing_longer_than_a_burst_passes_however_coarse_units_are() {
    let text = "rate_bps = 10_000_000_000\nburst_bytes = 1001\nexcess = \"delay\"\nlongest_delay = \"10s\"";
    let mut path = Path::both(limiter(text), START);
    let packets = [(1001, 1), (1002, 0), (1001, 1), (1020, 0), (1001, 1)];
    for (second, (bytes, expected)) in (0..).zip(packets) {
        let packet = datagram(ends(false, 0), bytes);
        let passed = path.process(&packet, at(second * 1_000_000_000));
        assert_eq!(passed.onward.len(), expected, "{bytes} bytes");
    }
}

#[test]
fn each_flow_and_direction_has_its_own() {
    let limiter = limiter("rate_pps = 10\nburst_packets = 2");
    let mut path = Path::both(limiter, START);
    for number in 0..3 {
        let there = ends(number == 2, number);
        let back = [there[1], there[0]];
        for ends in [there, back] {
            let packet = datagram(ends, 100);
            let passed = (0..5).filter(|_| path.process(&packet, at(1)).onward.len() == 1);
            assert_eq!(passed.count(), 2);
        }
    }
    let drops = path.process(&datagram(ends(false, 0), 100), at(2)).drops;
    assert_eq!(drops, [(twinpath_core::DropReason::RateLimited, 1)]);
}

#[test]
fn one_direction_may_be_limited_alone() {
    for (directions, limited) in [("from_opener", 0), ("to_opener", 1)] {
        let text = format!("rate_pps = 10\nburst_packets = 1\ndirections = \"{directions}\"");
        let mut path = Path::both(limiter(&text), START);
        let [there, back] = [ends(false, 0), {
            let [a, b] = ends(false, 0);
            [b, a]
        }];
        for (way, ends) in [there, back].into_iter().enumerate() {
            let passed =
                (0..4).filter(|_| path.process(&datagram(ends, 99), at(5)).onward.len() == 1);
            assert_eq!(
                passed.count(),
                if way == limited { 1 } else { 4 },
                "{directions}"
            );
        }
    }
}
