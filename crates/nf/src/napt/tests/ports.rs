//! Which port a binding gets when many are taken.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// One external address and all its ports from 1024 on.
const ONE_ADDRESS: &str = r#"
    inside = ["10.0.0.0/8"]
    external = ["192.0.2.1"]
    assignment = "preserve"
    ports_per_host = 65535
"#;
const PORTS: u32 = 65_536 - 1024;

fn host(number: u32) -> [u8; 4] {
    (0x0a00_0000 + number).to_be_bytes()
}

/// The external port of a host's UDP.
fn port(bench: &mut Bench, from: Endpoint, seconds: u64) -> Result<u16, DropReason> {
    let outcome = send(bench, PacketBuilder::udp(from, end("8.8.8.8:53")), seconds);
    ends(outcome).map(|(source, _)| source.port)
}

/// The ports kept lie side by side, and all that want another meet them.
#[test]
fn a_port_is_found_until_the_last_is_taken() {
    let mut bench = Bench::plain(vec![napt(ONE_ADDRESS)]);
    let kept = PORTS / 4 + 256;
    for number in 0..kept {
        let own = 1024 + number as u16;
        assert_eq!(port(&mut bench, Endpoint::v4(host(0), own), 0), Ok(own));
    }
    let mut given = std::collections::HashSet::new();
    for number in kept..PORTS {
        let from = Endpoint::v4(host(number), 5000);
        let port = port(&mut bench, from, 0).unwrap_or_else(|_| panic!("port {number}"));
        assert!(u32::from(port) >= 1024 + kept && given.insert(port));
        let are_even_left = number - kept < (PORTS - kept) / 2;
        assert_eq!(port.is_multiple_of(2), are_even_left, "{number}");
    }
    let full = Endpoint::v4(host(PORTS), 5000);
    assert_eq!(port(&mut bench, full, 0), Err(DropReason::NoPort));
    assert_eq!(bench.counter(0, "ports_exhausted"), 1);
    assert_eq!(bench.counter(0, "bindings"), u64::from(PORTS));
    // One stays in use; of all others the time has passed.
    let first = Endpoint::v4(host(0), 1024);
    assert_eq!(port(&mut bench, first, 200), Ok(1024));
    assert!(port(&mut bench, full, 301).is_ok_and(|port| port != 1024));
    for number in 0..100 {
        let from = Endpoint::v4(host(number + 1), 2000);
        assert!(port(&mut bench, from, 301).is_ok_and(|port| port != 1024));
    }
    assert_eq!(port(&mut bench, first, 301), Ok(1024));
}

/// A translation that tries one port after the other, and looks at all hosts to see who has it.
#[derive(Default)]
struct Obvious {
    /// By inside endpoint: external port, and when it was used last.
    bindings: BTreeMap<(u32, u16), (u16, u64)>,
}

impl Obvious {
    const IDLE: u64 = 20;

    fn is_taken(&self, port: u16) -> bool {
        self.bindings.values().any(|binding| binding.0 == port)
    }

    /// Whether the answer is one of the best.
    fn check(
        &mut self,
        (first, last): (u16, u16),
        from: (u32, u16),
        got: Result<u16, DropReason>,
        now: u64,
    ) {
        self.bindings
            .retain(|_, binding| now - binding.1 <= Self::IDLE);
        if let Some(binding) = self.bindings.get_mut(&from) {
            binding.1 = now;
            return assert_eq!(got, Ok(binding.0), "the binding is there");
        }
        let own = from.1;
        let is_low = own < 1024;
        let free = |range: std::ops::RangeInclusive<u16>, parity: u16| -> Vec<u16> {
            range
                .filter(|port| port % 2 == parity && !self.is_taken(*port))
                .collect()
        };
        let may_keep = is_low || (first..=last).contains(&own);
        let mut choices = Vec::new();
        if may_keep && !self.is_taken(own) {
            choices.push(vec![own]);
        }
        if is_low {
            choices.extend([free(1..=1023, own % 2), free(1..=1023, 1 - own % 2)]);
        }
        choices.extend([free(first..=last, own % 2), free(first..=last, 1 - own % 2)]);
        match choices.into_iter().find(|ports| !ports.is_empty()) {
            None => assert_eq!(got, Err(DropReason::NoPort)),
            Some(best) => {
                let port = got.expect("there is a port");
                assert!(best.contains(&port), "{port} is not among {best:?}");
                self.bindings.insert(from, (port, now));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// RFC 4787 REQ-3: no two hosts have one external port.
    #[test]
    fn ports_are_given_as_an_obvious_allocator_would(
        rules in 0usize..6,
        (first, length) in prop_oneof![(2000u16..2010, 0u16..40), (1000u16..1030, 0u16..60)],
        steps in prop::collection::vec((0u32..40, 0u16..8, 0u64..30, any::<bool>()), 1..300),
    ) {
        let last = first + length;
        let text = format!("{ONE_ADDRESS}\nports = '{first}-{last}'\ntimeouts = {{ udp = '20s' }}");
        let mut bench = Bench::cached(vec![napt(&text)], rules);
        let (mut obvious, mut now) = (Obvious::default(), 100);
        for (number, own, pause, tick) in steps {
            now += pause.saturating_sub(25);
            if tick {
                bench.tick(at(now));
            }
            // Some below 1024, some in the range, some beyond.
            let own = [7, 8, 2001, 2002, 1023, 1024, 2040, 60_000][usize::from(own)];
            let got = port(&mut bench, Endpoint::v4(host(number), own), now);
            obvious.check((first, last), (number, own), got, now);
        }
    }
}
