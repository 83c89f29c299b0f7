//! Random packets: with rules cached and without must agree, and both with a list of what was
//! sent when.

use super::*;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use twinpath_core::wire::dissect;
use twinpath_core::wire::icmp::IcmpError;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};

const SMALL: &str = r#"
    inside = ["10.0.0.0/8"]
    external = ["192.0.2.1", "192.0.2.2"]
    ports = "2000-2005"
    timeouts = { udp = "20s", tcp_established = "40s", tcp_transitory = "10s", icmp = "5s" }
"#;

/// Ports that stand for a host in any case, and a whole address.
const FORWARDS: &str = r#"
    forward = [
        { protocol = "tcp", external = "192.0.2.1:2001-2002", to = "10.0.0.1:2001" },
        { protocol = "udp", external = "192.0.2.2:2000", to = "10.0.0.3:2003" },
        { external = "192.0.2.3", to = "10.0.0.2" },
    ]
"#;

#[derive(Clone, Debug)]
enum Step {
    Send {
        kind: u8,
        from: Endpoint,
        to: Endpoint,
        flags: u8,
        /// Of a TCP segment.
        numbers: [u32; 2],
    },
    Pause(u64),
    /// Only with the cache: may change nothing that shows.
    Tick,
}

fn inside() -> impl Strategy<Value = Endpoint> {
    (1u8..4, 2000u16..2004).prop_map(|(host, port)| Endpoint::v4([10, 0, 0, host], port))
}

fn outside() -> impl Strategy<Value = Endpoint> {
    (1u8..3, 1u16..3).prop_map(|(host, port)| Endpoint::v4([8, 8, 8, host], port))
}

fn external() -> impl Strategy<Value = Endpoint> {
    (1u8..4, 2000u16..2006).prop_map(|(host, port)| Endpoint::v4([192, 0, 2, host], port))
}

/// Few, so that resets and FINs have by chance the numbers that they need.
fn number() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![1, 6, 7, 12, 1 << 20])
}

fn any_step() -> impl Strategy<Value = Step> {
    let flags = prop::sample::select(vec![ACK, ACK, ACK, ACK, SYN, SYN | ACK, FIN | ACK, RST]);
    let ends = prop_oneof![
        4 => (inside(), outside()),
        4 => (outside(), external()),
        2 => (inside(), external()),
    ];
    prop_oneof![
        12 => (0u8..4, ends, flags, [number(), number()]).prop_map(|(kind, (from, to), flags, numbers)| {
            Step::Send { kind, from, to, flags, numbers }
        }),
        2 => (1u64..25).prop_map(Step::Pause),
        1 => Just(Step::Tick),
    ]
}

fn frame(kind: u8, (from, to): (Endpoint, Endpoint), flags: u8, [seq, ack]: [u32; 2]) -> Vec<u8> {
    let packet = match kind {
        0 => PacketBuilder::tcp(from, to).flags(flags).seq(seq).ack(ack),
        1 => PacketBuilder::udp(from, to),
        3 => {
            let segment = PacketBuilder::tcp(to, from).flags(flags).seq(seq).ack(ack);
            let segment = segment.payload_len(5).to_vec().expect("fits");
            let error = PacketBuilder::icmp_error(IcmpError::Unreachable { code: 3 }, &segment);
            return error.to_vec().expect("fits");
        }
        // The identifier is as the external port when it comes from outside.
        _ if from.address.octets4()[0] == 10 => PacketBuilder::icmp_echo(from, to),
        _ => PacketBuilder::icmp_echo(Endpoint::new(from.address, to.port), to).echo_reply(),
    };
    packet.payload_len(5).to_vec().expect("fits")
}

/// Everything UDP that was let through: when, between which inside and external endpoint, with
/// whom.
#[derive(Default)]
struct Log(Vec<(u64, Endpoint, Endpoint, Endpoint)>);

impl Log {
    const IDLE: u64 = 20;

    /// Whether two ends are in the scope of one session.
    fn is_same(filtering: &str, one: Endpoint, other: Endpoint) -> bool {
        match filtering {
            "endpoint_independent" => true,
            "address_dependent" => one.address == other.address,
            _ => one == other,
        }
    }

    /// Live sessions: those used within the idle time, with no longer pause before that.
    fn sessions(&self, filtering: &str, now: u64) -> Vec<(Endpoint, Endpoint, Endpoint)> {
        let mut live = Vec::new();
        for &(_, inside, external, remote) in &self.0 {
            let used = self.0.iter().rev().find(|entry| {
                entry.1 == inside
                    && entry.2 == external
                    && Self::is_same(filtering, entry.3, remote)
            });
            if used.is_some_and(|used| now - used.0 <= Self::IDLE) {
                live.push((inside, external, remote));
            }
        }
        live
    }

    /// Whether a binding may find no port: all of one address are in use, or of both.
    fn is_full(live: &[(Endpoint, Endpoint, Endpoint)], pooling: &str) -> bool {
        let used: HashSet<Endpoint> = live.iter().map(|session| session.1).collect();
        let full = (1..=2).filter(|&host| {
            (2000..2006).all(|port| used.contains(&Endpoint::v4([192, 0, 2, host], port)))
        });
        full.count() >= if pooling == "paired" { 1 } else { 2 }
    }

    fn check(
        &mut self,
        (filtering, pooling, per_host): (&str, &str, u32),
        (from, to): (Endpoint, Endpoint),
        result: &Result<(Endpoint, Endpoint), DropReason>,
        opened: Option<Endpoint>,
        now: u64,
    ) {
        let live = self.sessions(filtering, now);
        let is_inside = |end: Endpoint| end.address.octets4()[0] == 10;
        let is_external = |end: Endpoint| matches!(end.address.octets4(), [192, .., 1 | 2]);
        let mut sender = from;
        if result == &Err(DropReason::NoPort) {
            assert!(Self::is_full(&live, pooling), "a port is left");
        }
        let own = live
            .iter()
            .filter(|session| session.0.address == from.address);
        let own: HashSet<Endpoint> = own.map(|session| session.1).collect();
        match result {
            Err(DropReason::HostLimit) => assert_eq!(own.len(), per_host as usize),
            _ => assert!(
                own.len() <= per_host as usize,
                "one host has more than it may"
            ),
        }
        // What filtering holds back has opened the sender's own session.
        let own = match result {
            Ok((source, _)) => Some(*source),
            Err(DropReason::Unsolicited) => opened,
            Err(_) => None,
        };
        if let (true, Some(source)) = (is_inside(from), own) {
            sender = source;
            match live.iter().find(|session| session.0 == from) {
                Some(session) => assert_eq!(session.1, sender, "endpoint-independent mapping"),
                None => assert!(
                    live.iter().all(|session| session.1 != sender),
                    "one port for two"
                ),
            }
            self.0.push((now, from, sender, to));
        }
        if !is_external(to) {
            let none_left = [DropReason::NoPort, DropReason::HostLimit];
            return assert!(result.is_ok() || none_left.contains(&result.unwrap_err()));
        }
        let mut letting = live
            .iter()
            .filter(|session| session.1 == to && (Self::is_same(filtering, session.2, sender)));
        let expected = letting.next().map(|session| session.0);
        match result {
            Ok((_, receiver)) => {
                assert_eq!(Some(*receiver), expected, "filtering");
                self.0.push((now, *receiver, to, sender));
            }
            // Without a port of its own a host inside cannot be let in.
            Err(_) => assert!(is_inside(from) || expected.is_none(), "filtering"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// RFC 4787 REQ-11: what is done does not depend on what is cached.
    #[test]
    fn agrees_with_and_without_rules(
        filtering in prop::sample::select(vec!["endpoint_independent", "address_dependent", "address_and_port_dependent"]),
        pooling in prop::sample::select(vec!["paired", "arbitrary"]),
        pick_up in any::<bool>(),
        (per_host, per_binding) in (1u32..5, 1u32..4),
        assignment in prop::sample::select(vec!["random", "parity", "preserve"]),
        settings in prop::sample::select(vec!["", "", FORWARDS, "sessions = 3\n"]),
        rules in 1usize..12,
        steps in prop::collection::vec(any_step(), 1..150),
    ) {
        let text = format!("filtering = '{filtering}'\npooling = '{pooling}'\npick_up = {pick_up}\n\
            assignment = '{assignment}'\nports_per_host = {per_host}\nsessions_per_binding = {per_binding}\n{settings}{SMALL}");
        let mut plain = Bench::plain(vec![napt(&text)]);
        let mut cached = Bench::cached(vec![napt(&text)], rules);
        let (mut now, mut log) = (100, Log::default());
        for step in steps {
            let (kind, from, to, flags, numbers) = match step {
                Step::Send { kind, from, to, flags, numbers } => (kind, from, to, flags, numbers),
                Step::Pause(seconds) => {
                    now += seconds;
                    continue;
                }
                Step::Tick => {
                    cached.tick(at(now));
                    continue;
                }
            };
            let frame = frame(kind, (from, to), flags, numbers);
            let outcome = plain.process(&frame, 0, at(now));
            let of_cache = cached.process(&frame, 0, at(now));
            prop_assert_eq!(of_cache.unnumbered(), outcome.clone().unnumbered());
            let result = ends(outcome);
            if kind == 1 && settings.is_empty() {
                let opened = plain.function::<Napt>(0).external_of(from, 17);
                log.check((filtering, pooling, per_host), (from, to), &result, opened, now);
            }
        }
        cached.tell_all();
        for name in ["unsolicited", "host_ports_exhausted", "binding_sessions_exhausted", "bindings_created", "sessions_created", "ports_exhausted", "not_picked_up"] {
            prop_assert_eq!(plain.counter(0, name), cached.counter(0, name), "{}", name);
        }
    }

    /// With other functions around it, in both directions.
    #[test]
    fn chains_agree_with_and_without_rules(
        rules in 1usize..12,
        steps in prop::collection::vec(any_step(), 1..100),
    ) {
        let chain = || -> Vec<Box<dyn RuleFunction>> {
            let monitor = crate::monitor::Monitor::new(&toml::from_str("by = 'hosts'").unwrap(), 1);
            let acl = toml::from_str("default = 'allow'\nrules = [{ action = 'deny', to = '8.8.8.2', to_port = 2 }, { action = 'deny', from = '10.0.0.3' }]");
            let acl = crate::acl::Prepared::new(&acl.unwrap()).unwrap();
            let router = toml::from_str(
                "no_route = 'drop'\nroutes = [{ to = '10.0.0.0/8', via = 'in' }, { to = '0.0.0.0/0', via = 'out' }]
                next_hops = [{ name = 'in', mac = '02:00:00:00:00:01', source_mac = '02:00:00:00:00:02', port = 1 },
                             { name = 'out', mac = '02:00:00:00:00:03', source_mac = '02:00:00:00:00:04', port = 2 }]",
            );
            let router = crate::router::Router::new(&router.unwrap(), std::path::Path::new("."), 1).unwrap();
            vec![Box::new(monitor), Box::new(crate::acl::AccessList::new(acl)), napt(SMALL), Box::new(router)]
        };
        let inside = ["10.0.0.0/8".parse().expect("a prefix")];
        let mut plain = Bench::plain(chain()).inside(&inside);
        let mut cached = Bench::cached(chain(), rules).inside(&inside);
        let mut now = 100;
        let mut counted: HashMap<bool, u64> = HashMap::new();
        for step in steps {
            match step {
                Step::Send { kind, from, to, flags, numbers } => {
                    let frame = frame(kind, (from, to), flags, numbers);
                    let outcome = plain.process(&frame, 0, at(now));
                    let of_cache = cached.process(&frame, 0, at(now));
            prop_assert_eq!(of_cache.unnumbered(), outcome.clone().unnumbered());
                    *counted.entry(outcome.packet.is_ok()).or_default() += 1;
                    if let Ok((bytes, _)) = &outcome.packet {
                        prop_assert!(dissect(bytes).is_ok());
                    }
                }
                Step::Pause(seconds) => now += seconds,
                Step::Tick => cached.tick(at(now)),
            }
        }
        cached.tell_all();
        for (place, name) in [(0, "packets"), (0, "bytes"), (1, "allowed"), (1, "denied"), (2, "unsolicited"), (3, "forwarded"), (3, "forwarded_bytes")] {
            prop_assert_eq!(plain.counter(place, name), cached.counter(place, name), "{}", name);
        }
    }
}
