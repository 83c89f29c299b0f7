//! Simple means equal.

use super::*;
use crate::two_paths::Path;
use proptest::prelude::*;

fn configurations() -> impl Strategy<Value = String> {
    let bits = (1_000..20_000_000_000u64, 64..100_000u64)
        .prop_map(|(rate, burst)| format!("rate_bps = {rate}\nburst_bytes = {burst}\n"));
    let packets = (1..10_000_000u64, 1..100u64)
        .prop_map(|(rate, burst)| format!("rate_pps = {rate}\nburst_packets = {burst}\n"));
    let rest = (
        prop::sample::select(vec!["drop", "delay"]),
        prop::sample::select(vec!["both", "from_opener", "to_opener"]),
        prop::sample::select(vec!["1us", "1ms", "100ms"]),
        prop::sample::select(vec![
            "",
            "per = \"source\"\nv6_prefix_bits = 16\nmost_prefixes = 2\n",
            "per = \"destination\"\nv4_prefix_bits = 8\n",
        ]),
    );
    (prop_oneof![bits, packets], rest).prop_map(|(rate, (excess, directions, delay, per))| {
        format!("{per}{rate}excess = \"{excess}\"\ndirections = \"{directions}\"\nlongest_delay = \"{delay}\"\nidle_timeout = \"1h\"\nmost_packets = 20\n")
    })
}

/// How long after the packet before: nanoseconds to hours, or a little earlier.
fn waits() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 0..2_000i64,
        4 => 0..2_000_000i64,
        2 => 0..400_000_000i64,
        1 => 0..8_000_000_000_000i64,
        1 => -200_000_000..0i64,
    ]
}

proptest! {
    #[test]
    fn both_paths_pass_the_same_packets(
        text in configurations(),
        packets in prop::collection::vec((0..3u16, any::<bool>(), any::<bool>(), 20..1500usize, waits()), 1..150),
    ) {
        let mut now = START;
        let [mut slow, mut both] = [Path::slow(limiter(&text), now), Path::both(limiter(&text), now)];
        for (number, v6, back, bytes, wait) in packets {
            now = Instant(now.0.saturating_add_signed(wait));
            let mut ends = ends(v6, number);
            if back {
                ends.reverse();
            }
            let packet = datagram(ends, bytes);
            prop_assert_eq!(slow.process(&packet, now), both.process(&packet, now), "{} {:?}", text, now);
        }
    }
}

/// What the fast path is there for.
#[test]
fn known_flows_stay_on_the_fast_path() {
    for (excess, simple) in [("drop", 998), ("delay", 8)] {
        let text = format!("rate_pps = 1000\nburst_packets = 9\nexcess = \"{excess}\"");
        let mut path = Path::both(limiter(&text), START);
        let packets: Vec<_> = (0..999)
            .map(|number| (datagram(ends(false, 0), 80), at(number)))
            .collect();
        for (packet, at) in &packets {
            path.process(packet, *at);
        }
        assert_eq!(path.simple, simple, "{excess}");
    }
}
