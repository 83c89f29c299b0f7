//! Where the fast program does not escalate, the function would have done the same.

use super::*;
use proptest::prelude::*;
use twinpath_wire::icmp::IcmpError;
use twinpath_wire::tcp::flags;
use twinpath_wire::{Address, PacketBuilder};

/// Every kind of service, short time-outs, and changes within the seconds that a test lasts.
const EVERYTHING: &str = r#"
    table_size = 101
    tcp_timeout = "700ms"
    closing_timeout = "200ms"
    udp_timeout = "400ms"
    [[services]]
    vip = "192.0.2.1:80"
    protocol = "tcp"
    backends = [{ endpoint = "10.0.0.1:80" }, { endpoint = "10.0.0.2:80", weight = 2 }]
    changes = [
        { at = "1s", drain = "10.0.0.1:80" },
        { at = "2s", remove = "10.0.0.1:80" },
        { at = "3s", remove = "10.0.0.2:80" },
        { at = "4s", add = "10.0.0.3:80" },
    ]
    [[services]]
    vip = "[2001:db8::1]:53"
    protocol = "udp"
    backends = [{ endpoint = "[2001:db8:1::1]:53" }, { endpoint = "[2001:db8:1::2]:53" }]
    changes = [{ at = "1s", remove = "[2001:db8:1::2]:53" }, { at = "2s", drain = "[2001:db8:1::1]:53" }, { at = "3s", add = "[2001:db8:1::1]:53" }]
    [[services]]
    vip = "[2001:db8::1]:80"
    protocol = "tcp"
    return = "direct"
    backends = [{ endpoint = "[2001:db8:1::1]:80", mac = "02:00:00:00:01:01" }, { endpoint = "[2001:db8:1::2]:80", mac = "02:00:00:00:01:02" }]
    changes = [{ at = "2s", remove = "[2001:db8:1::2]:80" }]
    [[services]]
    vip = "192.0.2.1:53"
    protocol = "udp"
    return = "direct"
    backends = [{ endpoint = "10.0.0.1:53", mac = "02:00:00:00:01:01" }]
    changes = [{ at = "1500ms", remove = "10.0.0.1:53" }, { at = "3s", add = "10.0.0.4:53", mac = "02:00:00:00:01:04" }]
"#;

/// Services with their backends; the last has neither.
const PLACES: [(&str, &[&str], bool); 5] = [
    (
        "192.0.2.1:80",
        &["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"],
        true,
    ),
    (
        "[2001:db8::1]:53",
        &["[2001:db8:1::1]:53", "[2001:db8:1::2]:53"],
        false,
    ),
    ("[2001:db8::1]:80", &["[2001:db8::1]:80"], true),
    ("192.0.2.1:53", &["192.0.2.1:53"], false),
    ("203.0.113.1:80", &["203.0.113.1:80"], true),
];

#[derive(Clone, Copy, Debug)]
enum What {
    FromClient,
    FromServer,
    ErrorToClient,
    ErrorToServer,
    Fragment,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    place: usize,
    backend: usize,
    client: u16,
    what: What,
    tcp_flags: u8,
    /// Since the packet before; some clocks step back a little.
    millis: i64,
}

fn sample() -> impl Strategy<Value = Sample> {
    let what = prop_oneof![
        6 => Just(What::FromClient),
        4 => Just(What::FromServer),
        1 => Just(What::ErrorToClient),
        1 => Just(What::ErrorToServer),
        1 => Just(What::Fragment),
    ];
    let tcp_flags = prop_oneof![
        8 => Just(flags::ACK),
        2 => Just(flags::SYN),
        1 => Just(flags::SYN | flags::ACK),
        1 => Just(flags::FIN | flags::ACK),
        1 => Just(flags::RST),
        1 => any::<u8>(),
    ];
    let millis = prop_oneof![6 => 0i64..60, 3 => 60i64..300, 1 => 300i64..900, 1 => -30i64..0];
    (0..PLACES.len(), 0usize..3, 0u16..3, what, tcp_flags, millis).prop_map(
        |(place, backend, client, what, tcp_flags, millis)| Sample {
            place,
            backend,
            client,
            what,
            tcp_flags,
            millis,
        },
    )
}

impl Sample {
    fn ends(&self) -> (Endpoint, Endpoint, Endpoint) {
        let (vip, backends, _) = PLACES[self.place];
        let (vip, backend) = (
            endpoint(vip),
            endpoint(backends[self.backend % backends.len()]),
        );
        let address = if vip.address.is_v4() {
            Address::from_v4([198, 51, 100, 7])
        } else {
            endpoint("[2001:db8:9::1]:1").address
        };
        (Endpoint::new(address, 4000 + self.client), vip, backend)
    }

    fn packet(&self, from: Endpoint, to: Endpoint) -> PacketBuilder<'static> {
        match PLACES[self.place].2 {
            true => PacketBuilder::tcp(from, to)
                .flags(self.tcp_flags)
                .payload(b"some data"),
            false => PacketBuilder::udp(from, to).payload(b"some data"),
        }
    }

    fn frame(&self) -> Vec<u8> {
        let (client, vip, backend) = self.ends();
        let whole = |from, to| self.packet(from, to).to_vec().expect("valid");
        let error = |about: Vec<u8>| {
            PacketBuilder::icmp_error(IcmpError::TimeExceeded { code: 0 }, &about)
                .to_vec()
                .expect("valid")
        };
        match self.what {
            What::FromClient => whole(client, vip),
            What::FromServer => whole(backend, client),
            What::ErrorToClient => error(whole(client, backend)),
            What::ErrorToServer => error(whole(vip, client)),
            What::Fragment => self
                .packet(client, vip)
                .fragment(0, true)
                .payload_len(8)
                .to_vec()
                .expect("valid"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn both_paths_do_the_same(samples in prop::collection::vec(sample(), 1..120)) {
        let mut paths = paths(EVERYTHING);
        let mut now = START;
        for sample in samples {
            now = Instant(now.0.saturating_add_signed(sample.millis * 1_000_000));
            let frame = sample.frame();
            let (slow, both) = (paths[0].process(&frame, now), paths[1].process(&frame, now));
            prop_assert_eq!(&slow, &both, "{:?}", sample);
            let fates = slow.onward.len() as u64 + slow.drops.iter().map(|(_, count)| count).sum::<u64>();
            prop_assert_eq!(fates, 1, "every packet goes on or is dropped");
        }
    }
}

/// The property above would be worth little if everything escalated.
#[test]
fn much_of_it_is_simple() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let samples = prop::collection::vec(sample(), 2000)
        .new_tree(&mut runner)
        .expect("samples")
        .current();
    let mut paths = paths(EVERYTHING);
    let mut now = START;
    for sample in samples.iter().filter(|sample| sample.millis.abs() < 60) {
        now = Instant(now.0 + sample.millis.unsigned_abs() * 50_000);
        process(&mut paths, &sample.frame(), now);
    }
    assert!(
        paths[1].simple > 400,
        "{} of {}",
        paths[1].simple,
        samples.len()
    );
}
