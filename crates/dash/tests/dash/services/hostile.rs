//! What somebody sends who means harm: each is counted for its ENI and reason, and the neighbour on the
//! same DPU sees nothing of it.

use twinpath_core::wire::fragment;
use twinpath_dash::samples::{Large, large};

use super::bench::*;
use super::nat_gateway::behind_gateway;
use crate::common::interpreter::Packet;

const NEIGHBOUR_PA: &str = "25.1.1.2";

/// An ENI, and a neighbour of the same network and addresses on another host.
fn neighbours() -> Bench {
    let mut objects = peers();
    let neighbour = Eni {
        mac_address: VM_MAC,
        underlay_ip: Some(ip(NEIGHBOUR_PA)),
        ..objects.enis["eni"].clone()
    };
    objects.enis.insert("neighbour".into(), neighbour);
    objects
        .eni_routes
        .insert("neighbour".into(), "group".into());
    Bench::of(objects)
}

fn from_neighbour(port: u16) -> Vec<u8> {
    let packet = udp((VM_CA, port), ("10.2.0.8", 2));
    inside(
        Encapsulation::Vxlan,
        VM_VNI,
        NEIGHBOUR_PA,
        [VM_MAC, REMOTE_MAC],
        packet,
    )
}

/// A packet to the ENI's machine or from it, with any bytes inside.
fn arrival(direction: Direction, key: u32, outer_source: &str) -> Packet {
    Packet {
        direction,
        eni: eni_id(),
        encapsulation: Encapsulation::Vxlan,
        vni: key,
        outer_source: ip(outer_source),
        source_mac: REMOTE_MAC,
        overlay: Headers {
            source: VIP,
            destination: VIP,
            ports: None,
            protocol: 0,
        },
    }
}

fn wrapped(packet: &Packet, inner: &[u8]) -> Vec<u8> {
    encapsulated(packet, inner)[HEADROOM..].to_vec()
}

/// Sends these, each of which must be dropped for its reason: counted for the ENI, or for the DPU if
/// it is of none. The neighbour's flow goes on as if nothing had been, and it opens another.
fn assault(bench: &mut Bench, frames: &[(Vec<u8>, Reason)], is_of_eni: bool) {
    bench.send(&from_neighbour(1)).expect("sent");
    let before = bench
        .dpu
        .counters(&"neighbour".into())
        .expect("there")
        .clone();
    for (frame, reason) in frames {
        let count = |bench: &Bench| match is_of_eni {
            true => bench.counters().drops.of(*reason),
            false => bench.dpu.drops().of(*reason),
        };
        let counted = count(bench);
        assert_eq!(bench.send(frame), Err(*reason), "{frame:02x?}");
        assert_eq!(count(bench), counted + 1);
    }
    let after = bench.dpu.counters(&"neighbour".into()).expect("there");
    assert_eq!(*after, before, "the neighbour's counters");
    bench.send(&from_neighbour(1)).expect("known flows go on");
    bench.send(&from_neighbour(2)).expect("new ones open");
}

fn syn_to_peer() -> PacketBuilder<'static> {
    tcp((VM_CA, 1), ("10.2.0.8", 2), flags::SYN)
}

#[test]
fn tunnels_in_tunnels_are_packets_like_others() {
    let mut bench = neighbours();
    // A machine sends what looks as if the neighbour's host had sent it, to the DPU, ten times over.
    let mut frame = from_neighbour(7);
    let mut frames = Vec::new();
    for _ in 0..10 {
        let layout = dissect(&frame).expect("sound");
        let outer = Headers::of(&frame, &layout).expect("IP");
        assert_eq!(outer.destination, VIP);
        frame[..6].copy_from_slice(&REMOTE_MAC.0);
        frame[6..12].copy_from_slice(&ENI_MAC.0);
        frame = wrapped(&arrival(Direction::Outbound, VM_VNI, VM_PA), &frame);
        frames.push((frame.clone(), Reason::RouteMiss));
    }
    assault(&mut bench, &frames, true);
    assert_eq!(bench.dpu.flows_of(0), 0);
}

/// A route to everywhere, and a service tunnel to wherever packets go, do not lead to the DPU, where a machine
/// would be whoever it says, nor to groups of the underlay.
#[test]
fn no_machine_sends_to_the_dpu_by_the_underlay() {
    let anybodys = ServiceTunnel {
        overlay_sip: bits("fd01::", "ffff::"),
        overlay_dip: bits("fd02::", "ffff::"),
        underlay_sip: None,
        underlay_dip: None,
    };
    for ways in [
        RouteAction::Direct,
        RouteAction::ServiceTunnel(Box::new(anybodys)),
    ] {
        let mut objects = neighbours().objects;
        let routes = objects.route_groups.get_mut("group").expect("there");
        routes.push((prefix("0.0.0.0/0"), route(ways)));
        let mut bench = Bench::of(objects);
        let to = |address| from_vm(udp((VM_CA, 4789), (address, 4789)));
        let frames = [
            (to("10.1.0.5"), Reason::OwnAddress),
            (to("127.0.0.1"), Reason::Martian),
            (to("224.0.0.5"), Reason::Martian),
            (to("255.255.255.255"), Reason::Martian),
        ];
        assault(&mut bench, &frames, true);
        bench.send(&to("99.0.0.9")).expect("sent on");
    }
}

/// Nor do they let a machine speak as the DPU, whose packets hosts take for whichever machine's they name.
#[test]
fn no_machine_speaks_as_the_dpu() {
    let anywhere = |mut objects: Objects| {
        let routes = objects.route_groups.get_mut("group").expect("there");
        routes.push((prefix("0.0.0.0/0"), route(RouteAction::Direct)));
        Bench::of(objects)
    };
    let spoofed = from_vm(udp(("10.1.0.5", 4789), ("99.0.0.9", 4789)));
    let honest = from_vm(udp((VM_CA, 4789), ("99.0.0.9", 4789)));
    let nobodys = from_vm(udp(("0.0.0.0", 4789), ("99.0.0.9", 4789)));
    let mut bench = anywhere(neighbours().objects);
    let frames = [
        (spoofed.clone(), Reason::OwnAddress),
        (nobodys, Reason::Martian),
    ];
    assault(&mut bench, &frames, true);
    bench.send(&honest).expect("sent on");
    // A gateway hides the one as the other, unless it hides all behind the DPU's own address.
    let mut objects = behind_gateway(neighbours().objects);
    let mut bench = anywhere(objects.clone());
    for frame in [&spoofed, &honest] {
        bench.send(frame).expect("sent on");
    }
    let pool = objects.nat_pools.get_mut("internet").expect("there");
    pool.addresses = [ip("10.1.0.5")].into();
    let frames = [(spoofed, Reason::OwnAddress), (honest, Reason::OwnAddress)];
    assault(&mut anywhere(objects), &frames, true);
}

/// Where tags may be, labels and the like behind them may not: they would be the underlay's, with types and VLANs
/// of the machine's choice.
#[test]
fn nothing_but_tags_is_in_front_of_ip() {
    let settings = Settings {
        flows: 1024,
        inner_vlan: true,
        ..Settings::default()
    };
    let mut bench = Bench::new(neighbours().objects, settings);
    let inner = |types: &[u8]| {
        let packet = syn_to_peer().macs(ENI_MAC, REMOTE_MAC);
        let mut frame = packet.to_vec().expect("a packet");
        frame.splice(12..14, types.iter().copied());
        wrapped(&arrival(Direction::Outbound, VM_VNI, VM_PA), &frame)
    };
    let tag = [0x81, 0, 0, 7];
    // MPLS, whose last label ends as a type of tags; PPPoE; and LLC.
    let label = [0x88, 0x47, 0, 0, 0x81, 0];
    let session = [0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0, 0x21];
    let llc = [0, 48, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    for between in [&label[..], &session, &llc] {
        let broken = |types: &[u8]| (inner(types), Reason::InnerMalformed);
        let frames = [broken(&[&tag, between].concat()), broken(between)];
        assault(&mut bench, &frames, true);
    }
    let tags = [0x88, 0xa8, 0, 8, 0x81, 0, 0, 7, 8, 0];
    bench.send(&inner(&tags)).expect("tags pass");
}

#[test]
fn tunnels_that_end_early_are_told_from_whole_ones() {
    let mut bench = neighbours();
    let inner = syn_to_peer()
        .macs(ENI_MAC, REMOTE_MAC)
        .to_vec()
        .expect("a packet");
    let packet = arrival(Direction::Outbound, VM_VNI, VM_PA);
    let whole = wrapped(&packet, &inner);
    let headers = whole.len() - inner.len();
    // Outer lengths say more than there is.
    let cut: Vec<_> = (0..whole.len())
        .map(|bytes| (whole[..bytes].to_vec(), Reason::OuterMalformed))
        .filter(|(frame, _)| frame.len() > 14)
        .collect();
    assault(&mut bench, &cut, false);
    // Outer lengths are right, and inner ones say more than there is.
    let ended: Vec<_> = (14..inner.len())
        .map(|bytes| (wrapped(&packet, &inner[..bytes]), Reason::InnerMalformed))
        .collect();
    assault(&mut bench, &ended, true);
    assert!(headers > 14 && bench.dpu.flows_of(0) == 0);
}

#[test]
fn foreign_networks_get_nothing_in() {
    let mut bench = neighbours();
    let answer = || {
        udp(("10.2.0.8", 2), (VM_CA, 1))
            .macs(REMOTE_MAC, ENI_MAC)
            .to_vec()
            .expect("a packet")
    };
    let with = |key: u32| wrapped(&arrival(Direction::Inbound, key, "100.0.0.8"), &answer());
    let foreign: Vec<_> = [0, 1, VM_VNI - 1, 2999, 3001, 0xff_ffff]
        .map(|key| (with(key), Reason::UntrustedVni))
        .into();
    assault(&mut bench, &foreign, true);
    // Nor into a connection whose ports they know.
    bench
        .send(&from_vm(udp((VM_CA, 1), ("10.2.0.8", 2))))
        .expect("sent");
    bench.send(&with(3000)).expect("an answer");
    let foreign: Vec<_> = foreign
        .into_iter()
        .map(|(frame, _)| (frame, Reason::FlowVni))
        .collect();
    assault(&mut bench, &foreign, true);
}

#[test]
fn macs_of_others_are_no_way_in() {
    let mut bench = neighbours();
    // With the ENI's MAC address, from the neighbour's host and from others.
    let stolen: Vec<_> = [NEIGHBOUR_PA, "100.0.0.8", "0.0.0.0", "255.255.255.255"]
        .map(|host| {
            let macs = [ENI_MAC, REMOTE_MAC];
            let frame = inside(Encapsulation::Vxlan, VM_VNI, host, macs, syn_to_peer());
            (frame, Reason::SpoofedSource)
        })
        .into();
    assault(&mut bench, &stolen, true);
    // With one of nobody.
    let nobody: Vec<_> = [MacAddress::ZERO, REMOTE_MAC, MacAddress([0xff; 6])]
        .map(|mac| {
            let macs = [mac, REMOTE_MAC];
            let frame = inside(Encapsulation::Vxlan, VM_VNI, VM_PA, macs, syn_to_peer());
            (frame, Reason::EniMiss)
        })
        .into();
    assault(&mut bench, &nobody, false);
}

#[test]
fn floods_of_openings_end_at_the_enis_own_limits() {
    let mut bench = neighbours();
    // The table has room for 1,024 flows: the flood gets its half, the neighbour keeps room.
    let mut opened = 0;
    for port in 0..5_000 {
        let frame = from_vm(udp((VM_CA, port), ("10.2.0.8", 2)));
        match bench.send(&frame) {
            Ok(_) => opened += 1,
            Err(reason) => assert_eq!(reason, Reason::FlowTableFull),
        }
    }
    assert_eq!(
        bench.counters().drops.of(Reason::FlowTableFull),
        5_000 - opened
    );
    assert!((256..=768).contains(&opened), "{opened}");
    for port in 0..200 {
        bench
            .send(&from_neighbour(port))
            .expect("the neighbour opens");
    }
    // What the ENI has opened goes on, and the full table is its drops alone.
    let known = from_vm(udp((VM_CA, 0), ("10.2.0.8", 2)));
    bench.send(&known).expect("known flows go on");
    assert_eq!(bench.counters().drops.total(), 5_000 - opened);
    let neighbour = bench.dpu.counters(&"neighbour".into()).expect("there");
    assert_eq!(neighbour.drops.total(), 0);
    assert_eq!((neighbour.flows_created, neighbour.flow_misses), (200, 200));
    assert_eq!(bench.dpu.drops().total(), 0, "none is of nobody");
}

/// First fragments of one ENI displace none of another's, of however many there are.
#[test]
fn floods_of_fragments_displace_their_own_alone() {
    const ENIS: u16 = 150;
    let objects = large(&Large {
        enis: ENIS,
        acl_stages: 0,
        acl_rules: 0,
        acl_prefixes: 0,
        routes: 1,
        mappings: 4,
    });
    let settings = Settings {
        flows: 16_384,
        ..Settings::default()
    };
    let mut dpu = Dpu::new(settings, 7);
    dpu.update(&objects, &objects.keys());
    let pieces = |number: u16, identification: u32| {
        let ends = [Large::machine(1), Large::mapped(0)].map(|address| Endpoint::new(address, 9));
        let whole = PacketBuilder::udp(ends[0], ends[1])
            .payload(&[7; 64])
            .macs(Large::mac(number), REMOTE_MAC)
            .to_vec()
            .expect("a packet");
        let layout = dissect(&whole).expect("sound");
        let pieces = fragment::cut(&whole, &layout, 40, identification).expect("cut");
        let packet = arrival(Direction::Outbound, 1, "0.0.0.0");
        let packet = Packet {
            outer_source: Large::host(number),
            ..packet
        };
        let mut frames = pieces.iter().map(|piece| to_large(&packet, piece));
        [frames.next().expect("one"), frames.next().expect("two")]
    };
    let mut send = |frame: &[u8]| {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(frame);
        treat(&mut dpu, &mut buffer, Instant(1_000_000_000))
    };
    let is_sent = |verdict: Verdict| matches!(verdict, Verdict::Forward(_));
    for number in 1..ENIS {
        let [first, _] = pieces(number, 77);
        assert!(is_sent(send(&first)));
    }
    for identification in 0..5_000 {
        let [first, _] = pieces(0, identification);
        assert!(is_sent(send(&first)));
    }
    for number in 1..ENIS {
        let [_, second] = pieces(number, 77);
        assert!(is_sent(send(&second)), "ENI {number}");
    }
}

/// A frame to the DPU of the large configuration.
fn to_large(packet: &Packet, inner: &[u8]) -> Vec<u8> {
    let mut frame = wrapped(packet, inner);
    let layout = dissect(&frame).expect("sound");
    let to = Endpoint::new(twinpath_dash::samples::VIP, VXLAN_PORT);
    twinpath_core::wire::rewrite::set_destination(&mut frame, &layout, to).expect("IPv4");
    frame
}
