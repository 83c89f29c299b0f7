//! A load balancer that tells where a connection's packets may go straight to.

use twinpath_core::wire::{checksum, icmp, protocol};

use super::bench::*;

const HOST: &str = "100.0.0.77";
const MACHINE_MAC: MacAddress = MacAddress([2, 0, 0, 0, 7, 7]);
/// Where packets of `peers` are sent.
const BALANCER: &str = "100.0.0.8";

/// What follows the packet that a redirect is about.
fn details(encapsulation: u16, key: u32) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 1, 0, 2];
    bytes.extend(encapsulation.to_be_bytes());
    bytes.extend(key.to_be_bytes());
    bytes.extend(ip(HOST).octets4());
    bytes.extend(MACHINE_MAC.0);
    bytes
}

/// A redirect about a frame that left, as its balancer saw it.
fn redirect(sent: &Sent, details: &[u8]) -> Vec<u8> {
    let l3 = usize::from(sent.layout.l3);
    let l4 = usize::from(sent.layout.l4);
    let headers = sent.headers();
    let mut message = match headers.is_v4() {
        true => {
            let mut message = vec![icmp::v4::REDIRECT, 1, 0, 0];
            message.extend(headers.destination.octets4());
            message.extend(&sent.inner[l3..l4 + 8]);
            message
        }
        false => {
            let mut message = vec![icmp::v6::REDIRECT, 0, 0, 0, 0, 0, 0, 0];
            message.extend(headers.destination.octets16());
            message.extend(headers.destination.octets16());
            message.extend([4, 7, 0, 0, 0, 0, 0, 0]);
            message.extend(&sent.inner[l3..l4 + 8]);
            message
        }
    };
    message.extend(details);
    let (source, destination) = (headers.source, headers.destination);
    let (number, start) = match headers.is_v4() {
        true => (protocol::ICMP, 0),
        false => {
            let length = message.len() as u32;
            let pseudo = checksum::pseudo_header(source, destination, protocol::ICMP6, length);
            (protocol::ICMP6, pseudo)
        }
    };
    let sum = checksum::finish(start + checksum::sum(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    PacketBuilder::raw(number, source, destination)
        .payload(&message)
        .macs(REMOTE_MAC, ENI_MAC)
        .to_vec()
        .expect("a packet")
}

fn from_balancer(kind: Encapsulation, key: u32, inner: &[u8]) -> Vec<u8> {
    redirect_from(BALANCER, kind, key, inner)
}

fn redirect_from(host: &str, kind: Encapsulation, key: u32, inner: &[u8]) -> Vec<u8> {
    let arrival = crate::common::interpreter::Packet {
        direction: Direction::Inbound,
        eni: eni_id(),
        encapsulation: kind,
        vni: key,
        outer_source: ip(host),
        source_mac: REMOTE_MAC,
        overlay: Headers {
            source: VIP,
            destination: VIP,
            ports: None,
            protocol: 0,
        },
    };
    encapsulated(&arrival, inner)[HEADROOM..].to_vec()
}

fn syn() -> Vec<u8> {
    from_vm(tcp((VM_CA, 1), ("10.2.0.8", 2), flags::SYN))
}

fn ack() -> Vec<u8> {
    from_vm(tcp((VM_CA, 1), ("10.2.0.8", 2), flags::ACK))
}

#[test]
fn a_connection_goes_straight_to_its_machine() {
    let mut bench = Bench::of(peers());
    let first = bench.send(&syn()).expect("sent");
    assert_eq!(first.layers[0].3, ip("100.0.0.8"));
    let frame = from_balancer(
        Encapsulation::Vxlan,
        3000,
        &redirect(&first, &details(2, 4242)),
    );
    let told = bench.dpu.story(&frame, bench.now).pop().expect("a note");
    let moves = "moves its connection, and goes no further (redirect)";
    assert_eq!(told.action, moves);
    for _ in 0..2 {
        assert_eq!(bench.send(&frame), Err(Reason::Redirect));
        let sent = bench.send(&ack()).expect("sent");
        let (kind, key, _, destination, _) = sent.layers[0];
        assert_eq!(
            (kind, key, destination),
            (Encapsulation::Vxlan, 4242, ip(HOST))
        );
        assert_eq!(sent.macs()[1], MACHINE_MAC);
    }
    assert_eq!(bench.counters().flows_redirected, 2);
    // Answers come from the machine, and from the balancer.
    let answer = tcp(("10.2.0.8", 2), (VM_CA, 1), flags::SYN | flags::ACK);
    for (key, host) in [(4242, HOST), (3000, "100.0.0.8")] {
        let macs = [REMOTE_MAC, ENI_MAC];
        let frame = inside(Encapsulation::Vxlan, key, host, macs, answer);
        let back = bench.send(&frame).expect("an answer");
        assert_eq!(back.layers[0].3, ip(VM_PA));
    }
    // A change that is about something else leaves it; with another way there it is void.
    let mapping = |address: &str| {
        let (vnet, address) = ("Vnet2".into(), ip(address));
        Key::VnetMapping(VnetMappingKey { vnet, address })
    };
    bench.objects.acl_groups.clear();
    bench
        .dpu
        .update(&bench.objects, &[Key::Eni(eni_id()), mapping("10.2.0.8")]);
    let sent = bench.send(&ack()).expect("sent");
    assert_eq!(sent.layers[0].3, ip(HOST));
    let key = (VnetName::from("Vnet2"), ip("10.2.0.8"));
    bench
        .objects
        .mappings
        .get_mut(&key)
        .expect("there")
        .underlay_ip = ip("100.0.0.9");
    bench.dpu.update(&bench.objects, &[mapping("10.2.0.8")]);
    let sent = bench.send(&ack()).expect("sent");
    assert_eq!(
        (sent.layers[0].3, sent.macs()[1]),
        (ip("100.0.0.9"), REMOTE_MAC)
    );
}

#[test]
fn a_private_link_connection_is_moved_by_its_ipv6_packets() {
    let mut bench = Bench::of(private_link());
    let open = from_vm(tcp((VM_CA, 6789), (PE_CA, 4567), flags::SYN));
    let first = bench.send(&open).expect("sent");
    let inner = redirect(&first, &details(1, 777));
    let frame = redirect_from(PE_PA, Encapsulation::Nvgre, ENCAP_VNI, &inner);
    assert_eq!(bench.send(&frame), Err(Reason::Redirect));
    let more = from_vm(tcp((VM_CA, 6789), (PE_CA, 4567), flags::ACK));
    let sent = bench.send(&more).expect("sent");
    let (kind, key, _, destination, _) = sent.layers[0];
    assert_eq!(
        (kind, key, destination),
        (Encapsulation::Nvgre, 777, ip(HOST))
    );
    assert_eq!(sent.headers(), first.headers());
}

#[test]
fn only_who_may_answer_moves_a_connection() {
    let mut bench = Bench::of(peers());
    let first = bench.send(&syn()).expect("sent");
    let inner = redirect(&first, &details(2, 4242));
    let stranger = from_balancer(Encapsulation::Vxlan, 999, &inner);
    assert_eq!(bench.send(&stranger), Err(Reason::FlowVni));
    // Of no connection.
    let mut other = first.inner.clone();
    let at = usize::from(first.layout.l4);
    other[at + 1] ^= 1;
    let other = Sent {
        layers: Vec::new(),
        inner: other,
        layout: first.layout,
    };
    let of_none = from_balancer(
        Encapsulation::Vxlan,
        3000,
        &redirect(&other, &details(2, 4242)),
    );
    assert_eq!(bench.send(&of_none), Err(Reason::Redirect));
    assert_eq!(bench.counters().redirects_of_none, 1);
    // Damaged ones are none: of each byte one bit, but for the sender on this link.
    for at in (0..6).chain(12..inner.len()) {
        let mut damaged = inner.clone();
        damaged[at] ^= 4;
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&from_balancer(Encapsulation::Vxlan, 3000, &damaged));
        bench.dpu.process(&mut buffer, HEADROOM, bench.now);
    }
    assert_eq!(bench.counters().flows_redirected, 0);
    assert_eq!(
        bench.send(&ack()).expect("sent").layers[0].3,
        ip("100.0.0.8")
    );
}

#[test]
fn an_eni_may_not_listen() {
    let mut objects = peers();
    let eni = objects.enis.get_mut("eni").expect("there");
    eni.disable_fast_path_icmp_flow_redirection = true;
    let mut bench = Bench::of(objects);
    let first = bench.send(&syn()).expect("sent");
    let inner = redirect(&first, &details(2, 4242));
    let frame = from_balancer(Encapsulation::Vxlan, 3000, &inner);
    // An error like others: the machine gets it.
    assert_eq!(bench.send(&frame).expect("sent").layers[0].3, ip(VM_PA));
    assert_eq!(
        bench.send(&ack()).expect("sent").layers[0].3,
        ip("100.0.0.8")
    );
    assert_eq!(bench.counters().redirects, 0);
}

/// A balancer that answers from elsewhere is one that inbound rules let in.
#[test]
fn a_redirect_comes_from_somebody_who_is_let_in() {
    let mut bench = Bench::of(peers());
    let first = bench.send(&syn()).expect("sent");
    let inner = redirect(&first, &details(2, 4242));
    let from = |host: &str| redirect_from(host, Encapsulation::Vxlan, 3000, &inner);
    // Of the rule's network, but none of its mappings; and of no rule.
    assert_eq!(bench.send(&from("100.0.0.99")), Err(Reason::PaValidation));
    assert_eq!(bench.send(&from("99.9.9.9")), Err(Reason::InboundRouteMiss));
    assert_eq!(bench.counters().flows_redirected, 0);
    let sent = bench.send(&ack()).expect("sent");
    assert_eq!(sent.layers[0].3, ip(BALANCER));
    let mut mapping = bench.objects.mappings[&("Vnet2".into(), ip("10.2.0.8"))].clone();
    mapping.underlay_ip = ip("100.0.0.99");
    let (vnet, address) = (VnetName::from("Vnet2"), ip("10.2.0.99"));
    bench
        .objects
        .mappings
        .insert((vnet.clone(), address), mapping);
    let key = Key::VnetMapping(VnetMappingKey { vnet, address });
    bench.dpu.update(&bench.objects, &[key]);
    assert_eq!(bench.send(&from("100.0.0.99")), Err(Reason::Redirect));
    let sent = bench.send(&ack()).expect("sent");
    assert_eq!(sent.layers[0].3, ip(HOST));
}

/// Tenants who make a redirect about another's connection do not get it out, whichever way they try.
#[test]
fn machines_send_no_redirects() {
    for listens in [true, false] {
        let mut objects = peers();
        let eni = objects.enis.get_mut("eni").expect("there");
        eni.disable_fast_path_icmp_flow_redirection = !listens;
        let mut bench = Bench::of(objects);
        let first = bench.send(&syn()).expect("sent");
        // What it quotes is the machine's own connection, so that an error about it would pass.
        let answer = from_peer(
            BALANCER,
            tcp(("10.2.0.8", 2), (VM_CA, 1), flags::SYN | flags::ACK),
        );
        let back = bench.send(&answer).expect("an answer");
        for about in [&first, &back] {
            let mut inner = redirect(about, &details(2, 4242));
            inner[..12].copy_from_slice(&[REMOTE_MAC.0, ENI_MAC.0].concat());
            let mut frame = from_vm(udp((VM_CA, 1), ("10.2.0.8", 2)));
            let outer = dissect(&frame).expect("sound");
            let at = Tunnel::read(&frame, &outer, VXLAN_PORT).expect("a tunnel");
            frame.truncate(at.inner().start);
            frame.extend_from_slice(&inner);
            let lengths = [(16, frame.len() - 14), (38, frame.len() - 34)];
            for (place, bytes) in lengths {
                frame[place..place + 2].copy_from_slice(&(bytes as u16).to_be_bytes());
            }
            frame[24..26].fill(0);
            let sum = checksum::checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            let told = bench.dpu.story(&frame, bench.now).pop().expect("a note");
            assert_eq!(told.action, "dropped (forged_redirect)");
            assert_eq!(bench.send(&frame), Err(Reason::ForgedRedirect));
        }
    }
}

#[test]
fn a_redirect_leads_to_one_host_that_is_not_the_dpu() {
    let mut bench = Bench::of(peers());
    let first = bench.send(&syn()).expect("sent");
    let sound = details(2, 4242);
    let with = |at: usize, octets: &[u8]| {
        let mut details = sound.clone();
        details[at..at + octets.len()].copy_from_slice(octets);
        from_balancer(Encapsulation::Vxlan, 3000, &redirect(&first, &details))
    };
    let (host_at, mac_at) = (12, 16);
    for (at, octets) in [
        (host_at, VIP.octets4().to_vec()),
        (host_at, vec![224, 0, 0, 5]),
        (host_at, vec![255; 4]),
        (host_at, vec![0; 4]),
        (mac_at, vec![255; 6]),
        (mac_at, vec![1, 0, 0x5e, 0, 0, 1]),
        (mac_at, vec![0; 6]),
    ] {
        let refused = bench.send(&with(at, &octets));
        assert_eq!(refused, Err(Reason::ForgedRedirect), "{octets:?}");
    }
    assert_eq!(bench.counters().flows_redirected, 0);
    assert_eq!(bench.send(&with(0, &[])), Err(Reason::Redirect));
    assert_eq!(bench.counters().flows_redirected, 1);
}
