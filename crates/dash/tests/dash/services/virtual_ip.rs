//! Load balancers: an address of a network behind which others stand.

use std::collections::BTreeMap;

use super::bench::*;

pub const VIRTUAL: &str = "10.2.9.100";

fn service(vnet: &str) -> LoadBalancerKey {
    LoadBalancerKey {
        vnet: vnet.into(),
        vip: ip(VIRTUAL),
        protocol: PortProtocol::Tcp,
        port: 80,
    }
}

fn backends(hosts: &[u8]) -> LoadBalancer {
    let end = |host: &u8| Endpoint::new(Address::from_v4([10, 2, 9, *host]), 8080);
    LoadBalancer {
        backends: hosts.iter().map(end).collect(),
    }
}

/// A service of the machine's network with so many of four servers.
pub fn balanced(hosts: &[u8]) -> Objects {
    let mut objects = peers();
    let known = objects.mappings[&("Vnet1".into(), ip("10.2.0.7"))].clone();
    for host in 1..=4 {
        let mapping = VnetMapping {
            underlay_ip: Address::from_v4([100, 0, 1, host]),
            ..known.clone()
        };
        let address = Address::from_v4([10, 2, 9, host]);
        objects.mappings.insert(("Vnet1".into(), address), mapping);
    }
    objects
        .load_balancers
        .insert(service("Vnet1"), backends(hosts));
    objects
}

pub fn segment(port: u16, tcp_flags: u8) -> Vec<u8> {
    from_vm(tcp((VM_CA, port), (VIRTUAL, 80), tcp_flags))
}

/// The server that a packet went to; it went there by its mapping.
fn server(sent: &Sent) -> u8 {
    let headers = sent.headers();
    let [.., host] = headers.destination.octets4();
    assert_eq!(headers.destination, Address::from_v4([10, 2, 9, host]));
    assert_eq!(headers.ports.expect("TCP")[1], 8080);
    assert_eq!(sent.layers[0].3, Address::from_v4([100, 0, 1, host]));
    host
}

#[test]
fn connections_are_spread_and_stay_where_they_are() {
    let mut bench = Bench::of(balanced(&[1, 2, 3]));
    let mut servers = BTreeMap::new();
    for port in 1..=60 {
        let opened = server(&bench.send(&segment(port, flags::SYN)).expect("sent"));
        *servers.entry(opened).or_insert(0) += 1;
        // The answer is the address's own.
        let from = Endpoint::new(Address::from_v4([10, 2, 9, opened]), 8080);
        let to = Endpoint::new(ip(VM_CA), port);
        let answer = PacketBuilder::tcp(from, to).flags(flags::SYN | flags::ACK);
        let macs = [REMOTE_MAC, ENI_MAC];
        let answer = inside(Encapsulation::Vxlan, VNET1_VNI, "100.0.1.1", macs, answer);
        let back = bench.send(&answer).expect("an answer");
        assert_eq!(back.headers().source, ip(VIRTUAL));
        assert_eq!(back.headers().ports, Some([80, port]));
        let more = bench.send(&segment(port, flags::ACK)).expect("sent");
        assert_eq!(server(&more), opened);
    }
    assert_eq!(servers.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    assert!(servers.values().all(|&count| count > 8), "{servers:?}");
}

#[test]
fn a_connection_moves_only_when_its_server_goes() {
    let mut bench = Bench::of(balanced(&[1, 2]));
    let of = |bench: &mut Bench, tcp_flags| -> Vec<u8> {
        let ports = 1..=40;
        let sent = ports.map(|port| server(&bench.send(&segment(port, tcp_flags)).expect("sent")));
        sent.collect()
    };
    let before = of(&mut bench, flags::SYN);
    let changed = [Key::LoadBalancer(service("Vnet1"))];
    for (hosts, may_stay) in [
        (&[1, 2, 3, 4][..], [true, true]),
        (&[2, 3, 4], [false, true]),
    ] {
        bench
            .objects
            .load_balancers
            .insert(service("Vnet1"), backends(hosts));
        bench.dpu.update(&bench.objects, &changed);
        for (old, new) in before.iter().zip(of(&mut bench, flags::ACK)) {
            assert!(hosts.contains(&new));
            if may_stay[usize::from(*old) - 1] {
                assert_eq!(*old, new);
            }
        }
    }
    assert_eq!(bench.dpu.flow_count(), 40);
    assert!(bench.counters().flows_resimulated >= 80);
    bench.objects.load_balancers.clear();
    bench.dpu.update(&bench.objects, &changed);
    assert_eq!(
        bench.send(&segment(1, flags::ACK)),
        Err(Reason::MappingMiss)
    );
}

#[test]
fn other_ports_protocols_and_networks_are_not_balanced() {
    let mut bench = Bench::of(balanced(&[1]));
    for packet in [
        tcp((VM_CA, 1), (VIRTUAL, 81), flags::SYN),
        udp((VM_CA, 1), (VIRTUAL, 80)),
    ] {
        assert_eq!(bench.send(&from_vm(packet)), Err(Reason::MappingMiss));
    }
    let mut objects = balanced(&[1]);
    objects.load_balancers = [(service("Vnet2"), backends(&[1]))].into();
    let mut bench = Bench::of(objects);
    assert_eq!(
        bench.send(&segment(1, flags::SYN)),
        Err(Reason::MappingMiss)
    );
}

/// One address in two networks, with servers of one address each: each tenant comes to its own.
#[test]
fn tenants_with_one_address_come_to_their_own_servers() {
    const OTHER_MAC: MacAddress = MacAddress([0xf4, 0x93, 0x9f, 0xef, 0xc4, 0x7f]);
    let mut objects = balanced(&[1]);
    let other = Eni {
        mac_address: OTHER_MAC,
        vnet: "Vnet2".into(),
        ..objects.enis[&eni_id()].clone()
    };
    objects.enis.insert("other".into(), other);
    let routes = vec![(
        prefix("10.2.0.0/16"),
        route(RouteAction::Vnet("Vnet2".into())),
    )];
    objects.route_groups.insert("other".into(), routes);
    objects.eni_routes.insert("other".into(), "other".into());
    objects
        .load_balancers
        .insert(service("Vnet2"), backends(&[1]));
    let own = objects.mappings[&("Vnet1".into(), ip("10.2.9.1"))].clone();
    let mapping = VnetMapping {
        underlay_ip: ip("100.0.2.1"),
        ..own
    };
    objects
        .mappings
        .insert(("Vnet2".into(), ip("10.2.9.1")), mapping);
    let mut bench = Bench::of(objects);
    let question = tcp((VM_CA, 1), (VIRTUAL, 80), flags::SYN);
    for (mac, host) in [(ENI_MAC, "100.0.1.1"), (OTHER_MAC, "100.0.2.1")] {
        let frame = inside(
            Encapsulation::Vxlan,
            VM_VNI,
            VM_PA,
            [mac, REMOTE_MAC],
            question,
        );
        let sent = bench.send(&frame).expect("sent");
        assert_eq!(
            (sent.layers[0].3, sent.headers().destination),
            (ip(host), ip("10.2.9.1"))
        );
    }
}
