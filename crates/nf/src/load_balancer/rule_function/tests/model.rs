//! The balancer whose connections are a flow's words is the reference for this one.

use super::*;
use crate::two_paths::Path;
use proptest::prelude::*;
use twinpath_core::wire::icmp::IcmpError;

/// All times are multiples of three seconds, so that no time-out or change is on the verge.
const STEP_SECONDS: u64 = 3;

/// Services, one of them with a schedule, and what is none.
const PLACES: [(&str, [&str; 2], bool); 4] = [
    ("192.0.2.1:80", ["10.1.0.2:8080", "10.1.0.3:8081"], true),
    (
        "[2001:db8::1]:53",
        ["[2001:db8:1::2]:5353", "[2001:db8:1::3]:5353"],
        false,
    ),
    ("192.0.2.2:80", ["192.0.2.2:80", "192.0.2.2:80"], true),
    (
        "192.0.2.1:443",
        ["203.0.113.9:443", "203.0.113.9:443"],
        true,
    ),
];

const SCHEDULE: &str = r#"
    [[services]]
    vip = "192.0.2.1:443"
    protocol = "tcp"
    backends = [{ endpoint = "203.0.113.9:443" }, { endpoint = "203.0.113.8:443" }]
    changes = [{ at = "100s", remove = "203.0.113.9:443" }, { at = "200s", drain = "203.0.113.8:443" }]
"#;

#[derive(Copy, Clone, Debug)]
enum What {
    FromClient,
    FromServer,
    ToBackend,
    ErrorToClient,
    ErrorToServer,
    Fragment,
}

#[derive(Copy, Clone, Debug)]
struct Sample {
    place: usize,
    backend: usize,
    client: u16,
    what: What,
    flags: u8,
    steps: u64,
}

fn any_sample() -> impl Strategy<Value = Sample> {
    use What::*;
    let what = prop::sample::select(vec![
        FromClient,
        FromClient,
        FromClient,
        FromClient,
        FromServer,
        FromServer,
        FromServer,
        ToBackend,
        ErrorToClient,
        ErrorToServer,
        Fragment,
    ]);
    let flags = prop::sample::select(vec![
        flags::ACK,
        flags::ACK,
        flags::ACK,
        flags::SYN,
        flags::SYN | flags::ACK,
        flags::FIN | flags::ACK,
        flags::RST,
    ]);
    let steps = prop_oneof![6 => Just(0u64), 2 => 1u64..5, 1 => 5u64..16];
    (0..PLACES.len(), 0usize..2, 0u16..2, what, flags, steps).prop_map(
        |(place, backend, client, what, flags, steps)| Sample {
            place,
            backend,
            client,
            what,
            flags,
            steps,
        },
    )
}

impl Sample {
    fn frame(&self) -> Vec<u8> {
        let (vip, backends, is_tcp) = PLACES[self.place];
        let (vip, backend) = (end(vip), end(backends[self.backend]));
        let client = match vip.address.is_v4() {
            true => Endpoint::v4([198, 51, 100, 7], 1000 + self.client),
            false => Endpoint::new(end("[2001:db8:9::1]:1").address, 1000 + self.client),
        };
        let packet = |from, to| match is_tcp {
            true => tcp(from, to, self.flags).payload_len(16),
            false => PacketBuilder::udp(from, to).payload_len(16),
        };
        let about = |offending: PacketBuilder<'_>| {
            let offending = offending.to_vec().expect("fits");
            PacketBuilder::icmp_error(IcmpError::TimeExceeded { code: 0 }, &offending).to_vec()
        };
        let frame = match self.what {
            What::FromClient => packet(client, vip).to_vec(),
            What::FromServer => packet(backend, client).to_vec(),
            What::ToBackend => packet(client, backend).to_vec(),
            What::ErrorToClient => about(packet(client, backend)),
            What::ErrorToServer => about(packet(vip, client)),
            What::Fragment => packet(client, vip).fragment(0, true).to_vec(),
        };
        frame.expect("fits")
    }
}

proptest! {
    #[test]
    fn agrees_with_the_balancer_of_flows(samples in prop::collection::vec(any_sample(), 1..120)) {
        let text = format!("{SERVICES}\n{SCHEDULE}");
        let start = at(0);
        let mut reference = Path::cores(LoadBalancer::new(&config(&text)), start);
        let mut benches = [
            Bench::plain(vec![balancer(&text)]),
            Bench::cached(vec![balancer(&text)], 5),
        ];
        for bench in &mut benches {
            bench.function::<RuleBalancer>(0).start(start);
        }
        let mut seconds = 0;
        for sample in samples {
            seconds += sample.steps * STEP_SECONDS;
            let frame = sample.frame();
            let fate = reference.process(&frame, at(seconds));
            let expected = match (fate.onward.first(), fate.drops.first()) {
                (Some(packet), None) => Ok((packet.clone(), None)),
                (None, Some((reason, 1))) => Err(*reason),
                other => panic!("{other:?}"),
            };
            for bench in &mut benches {
                let outcome = bench.process(&frame, 0, at(seconds));
                prop_assert_eq!(&outcome.packet, &expected, "{:?} at {}", sample, seconds);
            }
            if sample.steps > 1 {
                benches[1].tick(at(seconds));
            }
        }
        for counter in ["new_connections", "reassigned", "without_backend", "errors_translated"] {
            let counted = reference.counter(counter);
            prop_assert_eq!(benches[0].counter(0, counter), counted, "{}", counter);
            prop_assert_eq!(benches[1].counter(0, counter), counted, "{} with rules", counter);
        }
    }
}
