//! NAT gateways: an ENI's machine behind a block of external ports.

use super::bench::*;

pub const EXTERNAL: &str = "203.0.113.1";
pub const OUTSIDE: &str = "30.0.0.1";

/// A machine whose direct routes lead behind ports 4004 to 4007 of an address.
pub fn hidden() -> Objects {
    behind_gateway(peers())
}

/// The same objects, with direct routes that lead there.
pub fn behind_gateway(mut objects: Objects) -> Objects {
    let pool = NatPool {
        addresses: [ip(EXTERNAL)].into(),
        ports: PortRange::new(4000, 4010).expect("in order"),
        block_size: 4,
    };
    objects.nat_pools.insert("internet".into(), pool);
    objects.eni_nats.insert(eni_id(), block(1));
    objects
}

pub fn block(block: u32) -> EniNat {
    EniNat {
        pool: "internet".into(),
        block,
    }
}

pub fn ports(sent: &Sent) -> [u16; 2] {
    sent.headers().ports.expect("with ports")
}

pub fn from_outside(mac: MacAddress, packet: PacketBuilder<'_>) -> Vec<u8> {
    let macs = [REMOTE_MAC, mac];
    inside(Encapsulation::Vxlan, ENCAP_VNI, "100.0.0.50", macs, packet)
}

#[test]
fn a_machine_speaks_with_the_internet() {
    let mut bench = Bench::of(hidden());
    let to = (OUTSIDE, 80);
    let sent = bench
        .send(&from_vm(tcp((VM_CA, 1), to, flags::SYN)))
        .expect("sent");
    let headers = sent.headers();
    assert_eq!(
        [headers.source, headers.destination],
        [ip(EXTERNAL), ip(OUTSIDE)]
    );
    let [port, far] = ports(&sent);
    assert!((4004..=4007).contains(&port) && far == 80);
    let answer = tcp(to, (EXTERNAL, port), flags::SYN | flags::ACK);
    let back = bench
        .send(&from_outside(ENI_MAC, answer))
        .expect("an answer");
    assert_eq!(back.headers().destination, ip(VM_CA));
    assert_eq!(ports(&back), [80, 1]);
    assert_eq!(
        back.layers,
        [(Encapsulation::Vxlan, VM_VNI, VIP, ip(VM_PA), 0x28)]
    );
    let more = bench
        .send(&from_vm(tcp((VM_CA, 1), to, flags::ACK)))
        .expect("sent");
    assert_eq!(ports(&more), [port, 80], "the connection keeps its port");
    // Of networks nothing is hidden, nor what is of another IP version than the pool.
    let sent = bench
        .send(&from_vm(udp((VM_CA, 1), ("10.2.0.8", 2))))
        .expect("sent");
    assert_eq!((sent.headers().source, ports(&sent)), (ip(VM_CA), [1, 2]));
}

#[test]
fn a_block_is_as_large_as_it_is_towards_each_destination() {
    let mut bench = Bench::of(hidden());
    let mut seen = std::collections::BTreeSet::new();
    for source in 1..=4 {
        let sent = bench
            .send(&from_vm(udp((VM_CA, source), (OUTSIDE, 53))))
            .expect("a port");
        assert!(seen.insert(ports(&sent)[0]), "twice");
    }
    assert_eq!(seen, (4004..=4007).collect());
    let one_more = from_vm(udp((VM_CA, 5), (OUTSIDE, 53)));
    assert_eq!(bench.send(&one_more), Err(Reason::NatPorts));
    assert_eq!(bench.counters().drops.of(Reason::NatPorts), 1);
    assert_eq!(bench.dpu.flow_count(), 4);
    bench
        .send(&from_vm(udp((VM_CA, 5), ("30.0.0.2", 53))))
        .expect("another destination");
    // A port is free when its flow is over.
    bench.now = Instant(bench.now.0 + 121_000_000_000);
    let sent = bench.send(&one_more).expect("a port");
    assert!(seen.contains(&ports(&sent)[0]));
    assert_eq!(bench.counters().flows_aged, 1);
}

#[test]
fn what_nobody_asked_for_and_what_has_no_ports_is_dropped() {
    let mut objects = hidden();
    let (key, rule) = objects.route_rules[0].clone();
    let key = RouteRuleKey {
        vni: vni(ENCAP_VNI),
        ..key
    };
    objects.route_rules.push((
        key,
        RouteRule {
            pa_validation: Some(false),
            ..rule
        },
    ));
    let mut bench = Bench::of(objects);
    let stray = from_outside(ENI_MAC, udp((OUTSIDE, 53), (EXTERNAL, 4004)));
    assert_eq!(bench.send(&stray), Err(Reason::NatUnsolicited));
    let stray = from_outside(ENI_MAC, echo((OUTSIDE, 4004), EXTERNAL));
    assert_eq!(bench.send(&stray), Err(Reason::NatUnsolicited));
    // SCTP; and a request for a timestamp, which has an identifier that is not read.
    let sctp = PacketBuilder::raw(132, ip(VM_CA), ip(OUTSIDE));
    let timestamp = PacketBuilder::raw(1, ip(VM_CA), ip(OUTSIDE));
    for (packet, body) in [(sctp, [1; 20]), (timestamp, [13; 20])] {
        let packet = from_vm(packet.payload(&body));
        assert_eq!(bench.send(&packet), Err(Reason::NatProtocol));
    }
    assert_eq!(bench.dpu.flow_count(), 0);
}

fn echo((from, identifier): (&str, u16), to: &str) -> PacketBuilder<'static> {
    let ends = [
        Endpoint::new(ip(from), identifier),
        Endpoint::new(ip(to), 0),
    ];
    PacketBuilder::icmp_echo(ends[0], ends[1]).payload(b"sixteen bytes...")
}

fn identifier(sent: &Sent) -> u16 {
    fields::source_port(&sent.inner, &sent.layout)
}

/// An echo's identifier stands for a port, as it does behind any translation (RFC 5508 §3).
#[test]
fn a_machine_asks_whether_others_are_there() {
    let mut bench = Bench::of(hidden());
    let mut seen = std::collections::BTreeSet::new();
    for own in [0, 0, 8] {
        let sent = bench
            .send(&from_vm(echo((VM_CA, own), OUTSIDE)))
            .expect("sent");
        let headers = sent.headers();
        assert_eq!(
            [headers.source, headers.destination],
            [ip(EXTERNAL), ip(OUTSIDE)]
        );
        let external = identifier(&sent);
        assert!((4004..=4007).contains(&external));
        seen.insert(external);
        let reply = echo((OUTSIDE, external), EXTERNAL).echo_reply();
        let back = bench.send(&from_outside(ENI_MAC, reply)).expect("a reply");
        assert_eq!(back.headers().destination, ip(VM_CA));
        assert_eq!(identifier(&back), own);
    }
    assert_eq!(
        (seen.len(), bench.dpu.flow_count()),
        (2, 2),
        "one for each identifier"
    );
    // It keeps its own when policies change, and gets another one with another block.
    for (number, ports) in [(1, 4004..=4007), (0, 4000..=4003)] {
        bench.objects.eni_nats.insert(eni_id(), block(number));
        bench.dpu.update(&bench.objects, &[Key::EniNat(eni_id())]);
        let sent = bench
            .send(&from_vm(echo((VM_CA, 8), OUTSIDE)))
            .expect("sent");
        assert!(ports.contains(&identifier(&sent)), "{}", identifier(&sent));
        let reply = echo((OUTSIDE, identifier(&sent)), EXTERNAL).echo_reply();
        let back = bench.send(&from_outside(ENI_MAC, reply)).expect("a reply");
        assert_eq!(identifier(&back), 8);
    }
}

/// Segments that open nothing get no port, not even one that another connection has.
#[test]
fn a_stray_segment_has_no_port() {
    let settings = Settings {
        flows: 1024,
        stray_tcp: twinpath_dash::settings::Stray::Judge,
        ..Settings::default()
    };
    let mut bench = Bench::new(hidden(), settings);
    let stray = from_vm(tcp((VM_CA, 1), (OUTSIDE, 80), flags::ACK));
    assert_eq!(bench.send(&stray), Err(Reason::NoFlow));
}

/// Two tenants whose machines have one address, and speak with the same server from the same port.
#[test]
fn tenants_with_the_same_addresses_never_meet() {
    const OTHER_MAC: MacAddress = MacAddress([0xf4, 0x93, 0x9f, 0xef, 0xc4, 0x7f]);
    let mut objects = hidden();
    let other = Eni {
        mac_address: OTHER_MAC,
        vnet: "Vnet2".into(),
        ..objects.enis[&eni_id()].clone()
    };
    objects.enis.insert("other".into(), other);
    objects.eni_routes.insert("other".into(), "group".into());
    objects.eni_nats.insert("other".into(), block(0));
    let mut bench = Bench::of(objects);
    let question = tcp((VM_CA, 1), (OUTSIDE, 80), flags::SYN);
    let of = |mac| {
        inside(
            Encapsulation::Vxlan,
            VM_VNI,
            VM_PA,
            [mac, REMOTE_MAC],
            question,
        )
    };
    let [one, two] = [ENI_MAC, OTHER_MAC].map(|mac| bench.send(&of(mac)).expect("sent"));
    let [one, two] = [ports(&one)[0], ports(&two)[0]];
    assert!((4004..=4007).contains(&one) && (4000..=4003).contains(&two));
    let answer = |port| tcp((OUTSIDE, 80), (EXTERNAL, port), flags::SYN | flags::ACK);
    bench
        .send(&from_outside(ENI_MAC, answer(one)))
        .expect("its own");
    bench
        .send(&from_outside(OTHER_MAC, answer(two)))
        .expect("its own");
    // Neither gets what is for the other, whoever says so.
    for (mac, port) in [(ENI_MAC, two), (OTHER_MAC, one)] {
        assert_eq!(
            bench.send(&from_outside(mac, answer(port))),
            Err(Reason::NoFlow)
        );
    }
}

#[test]
fn a_change_of_the_gateway_counts_with_the_next_packet() {
    let mut bench = Bench::of(hidden());
    let segment = |tcp_flags| from_vm(tcp((VM_CA, 1), (OUTSIDE, 80), tcp_flags));
    let port = ports(&bench.send(&segment(flags::SYN)).expect("sent"))[0];
    let changed = [Key::EniNat(eni_id()), Key::NatPool("internet".into())];
    // More addresses, the same block: nothing moves.
    let pool = bench.objects.nat_pools.get_mut("internet").expect("there");
    pool.addresses = [ip(EXTERNAL), ip("203.0.113.9")].into();
    bench.dpu.update(&bench.objects, &changed);
    let sent = bench.send(&segment(flags::ACK)).expect("sent");
    assert_eq!(ports(&sent)[0], port);
    assert_eq!(bench.counters().flows_resimulated, 0);
    // Another block.
    bench.objects.eni_nats.insert(eni_id(), block(0));
    bench.dpu.update(&bench.objects, &changed);
    let sent = bench.send(&segment(flags::ACK)).expect("sent");
    assert!((4000..=4003).contains(&ports(&sent)[0]));
    let old = from_outside(ENI_MAC, tcp((OUTSIDE, 80), (EXTERNAL, port), flags::ACK));
    assert_eq!(bench.send(&old), Err(Reason::NoFlow));
    // None.
    bench.objects.eni_nats.clear();
    bench.dpu.update(&bench.objects, &changed);
    let sent = bench.send(&segment(flags::ACK)).expect("sent");
    assert_eq!((sent.headers().source, ports(&sent)), (ip(VM_CA), [1, 80]));
    assert_eq!(bench.dpu.flow_count(), 1);
}
