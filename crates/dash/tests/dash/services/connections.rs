//! Connections: when they begin and end, what policies that change do to them, and what belongs to them.

use super::bench::*;

#[test]
fn connections_begin_with_their_first_segment() {
    let mut bench = Bench::of(peers());
    let segment = |tcp_flags| from_vm(tcp((VM_CA, 1), ("10.2.0.8", 2), tcp_flags));
    assert_eq!(bench.send(&segment(flags::ACK)), Err(Reason::NoFlow));
    bench.send(&segment(flags::SYN)).expect("opened");
    bench.send(&segment(flags::ACK)).expect("of the connection");
    assert_eq!(bench.dpu.flow_count(), 1);
    let answer = |tcp_flags| from_peer("100.0.0.8", tcp(("10.2.0.8", 2), (VM_CA, 1), tcp_flags));
    bench
        .send(&answer(flags::SYN | flags::ACK))
        .expect("answered");
    bench
        .send(&segment(flags::FIN | flags::ACK))
        .expect("half done");
    bench.now = Instant(bench.now.0 + 100_000_000_000);
    bench
        .send(&answer(flags::ACK))
        .expect("the other half goes on");
    bench.send(&answer(flags::FIN | flags::ACK)).expect("done");
    bench
        .send(&segment(flags::ACK))
        .expect("what is under way passes");
    bench.now = Instant(bench.now.0 + 31_000_000_000);
    assert_eq!(bench.send(&segment(flags::ACK)), Err(Reason::NoFlow));
    assert_eq!(bench.dpu.flow_count(), 0);
    let counters = bench.counters();
    assert_eq!((counters.flows_closed, counters.flows_aged), (1, 0));
}

#[test]
fn a_new_connection_takes_the_place_of_one_that_has_ended() {
    let mut bench = Bench::of(peers());
    let segment = |tcp_flags| from_vm(tcp((VM_CA, 1), ("10.2.0.8", 2), tcp_flags));
    bench.send(&segment(flags::SYN)).expect("opened");
    bench.send(&segment(flags::RST)).expect("reset");
    bench.send(&segment(flags::SYN)).expect("opened again");
    let counters = bench.counters();
    assert_eq!((counters.flows_created, counters.flows_closed), (2, 1));
    assert_eq!((counters.flows_removed, counters.flows_aged), (0, 0));
    assert_eq!(bench.dpu.flow_count(), 1);
}

/// It is counted once, when the connection ends, and not when what is under way has had its time.
#[test]
fn the_end_of_a_connection_is_counted_when_it_ends() {
    let mut bench = Bench::of(peers());
    let segment = |tcp_flags| from_vm(tcp((VM_CA, 1), ("10.2.0.8", 2), tcp_flags));
    bench.send(&segment(flags::SYN)).expect("opened");
    assert_eq!(bench.counters().flows_closed, 0);
    for _ in 0..2 {
        bench.send(&segment(flags::RST)).expect("reset");
        assert_eq!(bench.counters().flows_closed, 1);
        assert_eq!(bench.dpu.flow_count(), 1, "what is under way passes");
    }
    bench.now = Instant(bench.now.0 + 31_000_000_000);
    bench.dpu.age(100_000, bench.now);
    let counters = bench.counters();
    assert_eq!((counters.flows_closed, counters.flows_aged), (1, 0));
    assert_eq!(bench.dpu.flow_count(), 0);
}

#[test]
fn idle_flows_are_swept() {
    let mut bench = Bench::of(peers());
    for port in 0..50 {
        bench
            .send(&from_vm(udp((VM_CA, port), ("10.2.0.8", 2))))
            .expect("sent");
    }
    bench.dpu.age(100_000, bench.now);
    assert_eq!(bench.dpu.flow_count(), 50);
    bench.now = Instant(bench.now.0 + 121_000_000_000);
    bench.dpu.age(100_000, bench.now);
    assert_eq!(
        (bench.dpu.flow_count(), bench.counters().flows_aged),
        (0, 50)
    );
    assert_eq!(bench.dpu.flows_of(0), 0);
}

/// An established connection follows a new policy with its next packet, of either direction.
#[test]
fn policies_change_in_mid_connection() {
    let mut bench = Bench::of(peers());
    let segment = |tcp_flags| from_vm(tcp((VM_CA, 1), ("10.2.0.8", 2), tcp_flags));
    let answer = |host: &str| from_peer(host, tcp(("10.2.0.8", 2), (VM_CA, 1), flags::ACK));
    bench.send(&segment(flags::SYN)).expect("opened");
    let key = (VnetName::from("Vnet2"), ip("10.2.0.8"));
    bench
        .objects
        .mappings
        .get_mut(&key)
        .expect("there")
        .underlay_ip = ip("100.0.0.99");
    let changed = [Key::VnetMapping(VnetMappingKey {
        vnet: "Vnet2".into(),
        address: ip("10.2.0.8"),
    })];
    bench.dpu.update(&bench.objects, &changed);
    let sent = bench.send(&segment(flags::ACK)).expect("of the connection");
    assert_eq!(sent.layers[0].3, ip("100.0.0.99"));
    assert_eq!(bench.counters().flows_resimulated, 1);
    bench.send(&segment(flags::ACK)).expect("of the connection");
    assert_eq!(bench.counters().flows_resimulated, 1, "once");

    // A route to nowhere: the answer is the first to meet it.
    let routes = bench.objects.route_groups.get_mut("group").expect("there");
    let route = routes
        .iter_mut()
        .find(|(of, _)| *of == prefix("10.2.0.8/32"));
    route.expect("there").1.action = RouteAction::Drop;
    let key = RouteKey {
        group: "group".into(),
        prefix: prefix("10.2.0.8/32"),
    };
    bench.dpu.update(&bench.objects, &[Key::Route(key)]);
    assert_eq!(bench.send(&answer("100.0.0.99")), Err(Reason::RouteDrop));
    assert_eq!(bench.dpu.flow_count(), 0);
    assert_eq!(bench.send(&segment(flags::ACK)), Err(Reason::NoFlow));
}

/// An inner frame in its tunnel: of the machine, or of a peer.
fn in_tunnel(inner: &[u8], is_outbound: bool) -> Vec<u8> {
    let layout = dissect(inner).expect("sound");
    let (direction, vni, host, source_mac) = match is_outbound {
        true => (Direction::Outbound, VM_VNI, VM_PA, ENI_MAC),
        false => (Direction::Inbound, 3000, "100.0.0.8", REMOTE_MAC),
    };
    let arrival = crate::common::interpreter::Packet {
        direction,
        eni: eni_id(),
        encapsulation: Encapsulation::Vxlan,
        vni,
        outer_source: ip(host),
        source_mac,
        overlay: Headers::of(inner, &layout).expect("IP"),
    };
    encapsulated(&arrival, inner)[HEADROOM..].to_vec()
}

/// The fragments of a datagram as they come, and the whole datagram.
pub fn cut(
    datagram: PacketBuilder<'_>,
    identification: u32,
    is_outbound: bool,
) -> (Vec<Vec<u8>>, Vec<u8>) {
    let body: Vec<u8> = (0..600u32).map(|at| at as u8).collect();
    let macs = if is_outbound {
        [ENI_MAC, REMOTE_MAC]
    } else {
        [REMOTE_MAC, ENI_MAC]
    };
    let datagram = datagram.identification(identification).payload(&body);
    let whole = datagram.macs(macs[0], macs[1]).to_vec().expect("a packet");
    let layout = dissect(&whole).expect("sound");
    let pieces = twinpath_core::wire::fragment::cut(&whole, &layout, 400, identification);
    let pieces = pieces.expect("cut");
    assert!(pieces.len() > 1);
    let sent = |inner: &Vec<u8>| in_tunnel(inner, is_outbound);
    (pieces.iter().map(sent).collect(), sent(&whole))
}

/// Those of a datagram to the endpoint of Private Link.
pub fn fragmented() -> (Vec<Vec<u8>>, Vec<u8>) {
    cut(udp((VM_CA, 6789), (PE_CA, 4567)), 0x1234, true)
}

#[test]
fn fragments_follow_the_first() {
    let mut bench = Bench::of(private_link());
    let (frames, _) = fragmented();
    assert_eq!(bench.send(&frames[1]), Err(Reason::FragmentAlone));
    for frame in &frames {
        let sent = bench.send(frame).expect("sent");
        assert_eq!(sent.headers().destination, ip(PL_DIP));
        assert_eq!(sent.layers[0].3, ip(PE_PA));
    }
    assert_eq!(bench.dpu.flow_count(), 1);
}

/// Only the first fragment of a datagram opens a flow.
#[test]
fn a_later_fragment_opens_no_flow() {
    let mut settings = Settings {
        flows: 1024,
        ..Settings::default()
    };
    settings.idle.udp = std::time::Duration::from_secs(1);
    let mut bench = Bench::new(private_link(), settings);
    let (frames, _) = fragmented();
    bench.send(&frames[0]).expect("opened");
    bench.now = Instant(bench.now.0 + 2_000_000_000);
    assert_eq!(bench.send(&frames[1]), Err(Reason::FragmentAlone));
    assert_eq!(bench.dpu.flow_count(), 0, "it was over");
    assert_eq!(bench.counters().flows_created, 1);
}

#[test]
fn errors_go_the_way_of_their_flow() {
    let mut bench = Bench::of(peers());
    let packet = udp((VM_CA, 1), ("10.2.0.8", 2)).macs(ENI_MAC, REMOTE_MAC);
    let quoted = packet.to_vec().expect("a packet");
    let kind = twinpath_core::wire::icmp::IcmpError::PacketTooBig { mtu: 1400 };
    let error = PacketBuilder::icmp_error(kind, &quoted).source_address(ip("10.2.0.1"));
    assert_eq!(
        bench.send(&from_peer("100.0.0.8", error)),
        Err(Reason::IcmpError)
    );
    bench.send(&from_vm(packet)).expect("sent");
    let back = bench.send(&from_peer("100.0.0.8", error)).expect("sent");
    assert_eq!(back.layers[0].3, ip(VM_PA));
    assert_eq!(back.headers().destination, ip(VM_CA));
}

fn echo((from, identifier): (&str, u16), to: &str) -> PacketBuilder<'static> {
    let (from, to) = (ip(from), ip(to));
    PacketBuilder::icmp_echo(Endpoint::new(from, identifier), Endpoint::new(to, 0))
}

/// A machine that asks gets answers, and nobody's questions.
#[test]
fn answers_alone_come_back_to_who_asked() {
    let (own, peer) = (VM_CA, "10.2.0.8");
    let mut objects = peers();
    objects.route_rules.clear();
    let mut bench = Bench::of(objects);
    bench.send(&from_vm(echo((own, 7), peer))).expect("asked");
    let macs = [REMOTE_MAC, ENI_MAC];
    let came = |packet| inside(Encapsulation::Vxlan, VNET1_VNI, "100.0.0.8", macs, packet);
    bench
        .send(&came(echo((peer, 7), own).echo_reply()))
        .expect("answered");
    let asked = bench.send(&came(echo((peer, 7), own)));
    let unasked = bench.send(&came(echo((peer, 8), own).echo_reply()));
    for refused in [asked, unasked] {
        assert_eq!(refused, Err(Reason::UntrustedVni));
    }
    // What nobody asked for goes by policies alone, and leaves nothing behind.
    bench
        .send(&from_vm(echo((own, 9), peer).echo_reply()))
        .expect("allowed");
    assert_eq!(bench.dpu.flow_count(), 1);
}

/// What others send takes no datagram's place that the machine sends, nor its name.
#[test]
fn fragments_of_both_directions_are_apart() {
    let mut bench = Bench::of(peers());
    let (own, peer) = ((VM_CA, 5), ("10.2.0.8", 6));
    let (pieces, whole) = cut(udp(own, peer), 7, true);
    bench.send(&whole).expect("opened");
    bench.send(&pieces[0]).expect("the first");
    // One with the machine's address as its sender and the same identification, and many others.
    let (forged, _) = cut(udp((VM_CA, 9), ("10.2.0.8", 9)), 7, false);
    _ = bench.send(&forged[0]);
    for identification in 100..200 {
        let (answer, _) = cut(udp(peer, own), identification, false);
        bench.send(&answer[0]).expect("an answer");
    }
    for piece in &pieces[1..] {
        bench.send(piece).expect("the rest of the datagram");
    }
}
