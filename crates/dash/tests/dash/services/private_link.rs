//! Private Link, with its redirect and security group forms.

use super::bench::*;

#[test]
fn private_link_there_and_back() {
    let mut bench = Bench::of(private_link());
    let sent = bench
        .send(&from_vm(udp((VM_CA, 6789), (PE_CA, 4567))))
        .expect("sent");
    let layer = (Encapsulation::Nvgre, ENCAP_VNI, VIP, ip(PE_PA), 0x28);
    assert_eq!(sent.layers, [layer]);
    let headers = sent.headers();
    assert_eq!(
        [headers.source, headers.destination],
        [ip(PL_SIP), ip(PL_DIP)]
    );
    assert_eq!(headers.ports, Some([6789, 4567]));
    assert_eq!(sent.macs(), [ENI_MAC, REMOTE_MAC]);
    assert_eq!(fields::ttl(&sent.inner, &sent.layout), 64);
    // What was sent had 14 + 20 + 8 + 16 bytes: billed as the machine sent it.
    assert_eq!(bench.counters().meters.of(1586), [58, 0]);

    let answer = udp((PL_DIP, 4567), (PL_SIP, 6789));
    let answer = inside(
        Encapsulation::Nvgre,
        ENCAP_VNI,
        PE_PA,
        [REMOTE_MAC, ENI_MAC],
        answer,
    );
    let back = bench.send(&answer).expect("sent");
    assert_eq!(
        back.layers,
        [(Encapsulation::Vxlan, VM_VNI, VIP, ip(VM_PA), 0x28)]
    );
    let headers = back.headers();
    assert_eq!(
        [headers.source, headers.destination],
        [ip(PE_CA), ip(VM_CA)]
    );
    assert_eq!(headers.ports, Some([4567, 6789]));
    assert_eq!(back.macs(), [REMOTE_MAC, ENI_MAC]);
    assert_eq!(bench.counters().meters.of(1586), [58, 58]);
}

#[test]
fn an_answer_of_no_flow_needs_an_inbound_rule() {
    let mut bench = Bench::of(private_link());
    let stray = udp((PL_DIP, 4567), (PL_SIP, 6789));
    let stray = inside(
        Encapsulation::Nvgre,
        ENCAP_VNI,
        PE_PA,
        [REMOTE_MAC, ENI_MAC],
        stray,
    );
    assert_eq!(bench.send(&stray), Err(Reason::InboundRouteMiss));
}

#[test]
fn a_security_group_is_a_second_tunnel() {
    let mut objects = private_link();
    objects.tunnels.insert(
        "Tunnel4".into(),
        tunnel(&["90.90.90.90", "10.10.10.10"], 100),
    );
    endpoint(&mut objects).tunnel = Some("Tunnel4".into());
    let mut bench = Bench::of(objects);
    let mut counts = std::collections::BTreeMap::new();
    for port in 0..400 {
        let packet = udp((VM_CA, 40_000 + port), (PE_CA, 4567));
        let sent = bench.send(&from_vm(packet)).expect("sent");
        let [(kind, key, source, endpoint, _), inner] = sent.layers[..] else {
            panic!("{:?}", sent.layers);
        };
        assert_eq!((kind, key, source), (Encapsulation::Vxlan, 100, VIP));
        assert_eq!(
            inner,
            (Encapsulation::Nvgre, ENCAP_VNI, VIP, ip(PE_PA), 0x28)
        );
        *counts.entry(endpoint).or_insert(0) += 1;
        assert_eq!(sent.headers().destination, ip(PL_DIP));
    }
    assert_eq!(counts.len(), 2);
    assert!(
        counts.values().all(|count| (150..250).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn a_redirect_map_moves_ports_to_a_backend() {
    let mut objects = private_link();
    let range = Range::new(8001, 9000).expect("in order");
    let backend = PortMapRange::PrivateLinkService {
        backend_ip: ip("60.60.60.1"),
        backend_port_base: 42_001,
    };
    objects
        .port_maps
        .insert("portmap_1".into(), [(range, backend)].into());
    endpoint(&mut objects).port_map = Some("portmap_1".into());
    let mut bench = Bench::of(objects);
    for (port, moved) in [(8001, 42_001), (8500, 42_500), (9000, 43_000)] {
        let packet = tcp((VM_CA, 12_345), (PE_CA, port), flags::SYN);
        let sent = bench.send(&from_vm(packet)).expect("sent");
        assert_eq!(sent.layers[0].3, ip("60.60.60.1"));
        let headers = sent.headers();
        assert_eq!(headers.ports, Some([12_345, moved]));
        assert_eq!(headers.destination, ip("2603:10e1:100:2::3c3c:3c01"));
        let answer = tcp(
            ("2603:10e1:100:2::3c3c:3c01", moved),
            (PL_SIP, 12_345),
            flags::SYN | flags::ACK,
        );
        let macs = [REMOTE_MAC, ENI_MAC];
        let answer = inside(Encapsulation::Nvgre, ENCAP_VNI, "60.60.60.1", macs, answer);
        let back = bench.send(&answer).expect("sent").headers();
        assert_eq!(back.ports, Some([port, 12_345]));
        assert_eq!([back.source, back.destination], [ip(PE_CA), ip(VM_CA)]);
    }
    for port in [8000, 9001] {
        let packet = tcp((VM_CA, 12_345), (PE_CA, port), flags::SYN);
        let sent = bench.send(&from_vm(packet)).expect("sent");
        assert_eq!(
            sent.layers[0].3,
            ip(PE_PA),
            "beside the range nothing is moved"
        );
        assert_eq!(sent.headers().ports, Some([12_345, port]));
    }
}
