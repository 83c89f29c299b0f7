//! When packets come, whose they are, and how often flows change.

use std::collections::{HashMap, HashSet};

use crate::common::{Packet, checked_layout, config, ends, run, run_with_stats};
use twinpath_traffic::{Direction, Generator, PacketKind};
use twinpath_wire::kv::{KvOp, KvView};
use twinpath_wire::{Fragment, Transport, fields};

const ESTABLISHED: &str = "reply_share = 0.0\ntcp = { handshake = false, ack_every = 0 }\n";

fn times(packets: &[Packet]) -> Vec<u64> {
    packets
        .iter()
        .map(|(generated, _)| generated.timestamp_ns)
        .collect()
}

#[test]
fn times_never_go_back_and_have_their_rate() {
    for (arrivals, tolerance) in [
        ("{ process = 'constant', rate_pps = 200_000.0 }", 1e-6),
        ("{ process = 'poisson', rate_pps = 200_000.0 }", 0.02),
        (
            "{ process = 'on-off', rate_pps = 200_000.0, on_ns = 1e5, off_ns = 1e5 }",
            0.05,
        ),
    ] {
        let config = config(&format!(
            "packets = 200_000\nstart_ns = 5\narrivals = {arrivals}"
        ));
        let times = times(&run(&config, 1));
        assert!(times.is_sorted() && times[0] >= 5);
        let rate_pps = 199_999.0 * 1e9 / (times[199_999] - times[0]) as f64;
        assert!(
            (rate_pps / 200_000.0 - 1.0).abs() < tolerance,
            "{arrivals}: {rate_pps}"
        );
    }
}

#[test]
fn a_run_ends_with_its_time_or_its_count() {
    let timed =
        config("start_ns = 1_000\nduration_ns = 1_000_000\ntcp = { out_of_order_share = 0.4 }");
    let times = times(&run(&timed, 2));
    assert!((1_000..1_064).contains(&times.len()), "{}", times.len());
    assert!(times.iter().all(|time| (1_000..1_001_000).contains(time)));
    assert_eq!(run(&config("packets = 17"), 2).len(), 17);
    assert!(run(&config("packets = 0"), 2).is_empty());
    assert!(run(&config("duration_ns = 0"), 2).is_empty());
}

#[test]
fn a_short_buffer_is_refused_and_costs_nothing() {
    let mut generator = Generator::new(&config("packets = 1"), 3).unwrap();
    let mut buffer = vec![0; generator.frame_bytes_max()];
    let short = buffer.len() - 1;
    assert_eq!(generator.next_into(&mut buffer[..short]), None);
    assert_eq!(generator.counters().refused_buffers, 1);
    assert!(generator.next_into(&mut buffer).is_some());
    assert_eq!(generator.next_into(&mut buffer), None);
    assert_eq!(generator.counters().packets, 1);
}

#[test]
fn popularity_is_that_of_the_flows_packets() {
    let zipf = "popularity = { distribution = 'zipf' }\nflows = 100\npackets = 200_000\n";
    let mut counts = vec![0.0; 100];
    for (generated, _) in run(&config(&format!("{zipf}{ESTABLISHED}")), 4) {
        counts[generated.flow as usize] += 1.0;
    }
    let sum: f64 = (1..=100).map(|rank| f64::from(rank).powf(-0.99)).sum();
    for (index, count) in counts.iter().enumerate() {
        let expected = 200_000.0 * ((index + 1) as f64).powf(-0.99) / sum;
        assert!(
            (count - expected).abs() < 5.0 * expected.sqrt(),
            "{index}: {count}/{expected}"
        );
    }
}

#[test]
fn new_flows_come_at_their_rate() {
    // A second of traffic: a twentieth of what comes in a minute is 2000 flows.
    for rest in ["", "tcp_share = 0.0", ESTABLISHED] {
        for popularity in ["uniform", "zipf"] {
            let config = config(&format!(
                "duration_ns = 1_000_000_000\narrivals = {{ process = 'constant', rate_pps = 1e5 }}\n\
                 flows = 500\nchurn_per_minute = 120_000\n\
                 popularity = {{ distribution = '{popularity}' }}\n{rest}"
            ));
            let (packets, stats) = run_with_stats(&config, 5);
            let flows: HashSet<u64> = packets.iter().map(|(g, _)| g.flow).collect();
            let new = flows.iter().filter(|&&flow| flow >= 500).count();
            assert!((1_980..=2_000).contains(&new), "{rest} {popularity}: {new}");
            assert!((2_480..=2_500).contains(&stats.flows), "{}", stats.flows);
            assert_eq!(stats.churn_deferred, 0);
        }
    }
}

#[test]
fn new_flows_are_evenly_spread_and_replace_the_oldest() {
    let config = config(&format!(
        "packets = 100_000\nflows = 100\nchurn_per_minute = 60_000\n{ESTABLISHED}"
    ));
    let packets = run(&config, 6);
    let mut first = HashMap::new();
    let mut last = HashMap::new();
    for (generated, _) in &packets {
        first
            .entry(generated.flow)
            .or_insert(generated.timestamp_ns);
        last.insert(generated.flow, generated.timestamp_ns);
    }
    for flow in 100..190 {
        let due_ns = (flow - 99) * 1_000_000;
        assert!(
            first[&flow].abs_diff(due_ns) < 20_000,
            "{flow}: {}",
            first[&flow]
        );
    }
    let ended: Vec<u64> = (0..100).filter(|flow| last[flow] < 90_000_000).collect();
    assert!((85..=95).contains(&ended.len()), "{}", ended.len());
}

#[test]
fn a_flow_that_is_full_makes_way() {
    let config = config(
        "packets = 60_000\nflows = 20\ntcp_share = 0.5\n\
         flow_size = { kind = 'fixed', size = 100, unit = 'packets' }",
    );
    let (packets, stats) = run_with_stats(&config, 7);
    let mut data: HashMap<u64, u32> = HashMap::new();
    for (generated, _) in &packets {
        let carries = matches!(generated.kind, PacketKind::TcpData | PacketKind::Udp);
        *data.entry(generated.flow).or_default() += u32::from(carries);
    }
    let full = data.values().filter(|&&count| count == 100).count() as u64;
    assert!(data.values().all(|&count| count <= 100));
    assert!(
        full >= stats.flows_ended && stats.flows_ended > 400,
        "{full}"
    );
    assert_eq!(stats.flows, 20 + stats.flows_ended);
}

#[test]
fn fragments_have_their_share_and_make_whole_datagrams() {
    let config = config(
        "packets = 100_000\ntcp_share = 0.5\nfragment_share = 0.2\n\
         packet_size = { kind = 'fixed', frame_bytes = 201 }\n\
         hosts = { ipv6_share = 0.5, vlan = 9 }",
    );
    let packets = run(&config, 8);
    let of_kind = |kind| packets.iter().filter(move |(g, _)| g.kind == kind);
    let fragments: Vec<&Packet> = of_kind(PacketKind::UdpFragment).collect();
    let (whole, cut) = (
        of_kind(PacketKind::Udp).count() as f64,
        fragments.len() as f64 / 2.0,
    );
    assert!((cut / (whole + cut) - 0.2).abs() < 0.01, "{whole} {cut}");
    fragments
        .chunks(2)
        .for_each(|pair| assert_fragments(pair[0], pair[1]));
}

#[test]
fn errors_have_their_share_and_quote_the_client() {
    let config = config(
        "packets = 100_000\nflows = 50\ntcp_share = 0.5\nicmp_error_share = 0.05\n\
         hosts = { ipv6_share = 0.5 }",
    );
    let packets = run(&config, 8);
    let errors = packets
        .iter()
        .filter(|(g, _)| g.kind == PacketKind::IcmpError);
    let count = errors.clone().count();
    assert!((4_700..5_300).contains(&count), "{count}");
    errors.for_each(assert_error);
}

/// Two fragments make one datagram whose checksum is right.
fn assert_fragments(first: &Packet, second: &Packet) {
    let (head, tail) = (checked_layout(first), checked_layout(second));
    assert_eq!(
        (head.fragment, tail.fragment),
        (Fragment::First, Fragment::Later)
    );
    let mut datagram = first.1[usize::from(head.l4)..head.end as usize].to_vec();
    datagram.extend_from_slice(&second.1[usize::from(tail.l4)..tail.end as usize]);
    assert_eq!(
        usize::from(u16::from_be_bytes([datagram[4], datagram[5]])),
        datagram.len()
    );
    let (source, destination) = (
        fields::source(&first.1, &head),
        fields::destination(&first.1, &head),
    );
    let whole = twinpath_wire::PacketBuilder::udp(source, destination)
        .payload(&datagram[8..])
        .to_vec()
        .unwrap();
    let layout = twinpath_wire::dissect(&whole).unwrap();
    assert_eq!(&whole[usize::from(layout.l4)..], datagram);
}

fn assert_error(packet: &Packet) {
    let layout = checked_layout(packet);
    assert!(matches!(
        layout.transport,
        Transport::Icmp | Transport::Icmp6
    ));
    assert_eq!(packet.0.direction, Direction::ToClient);
    let client = fields::inner_source(&packet.1, &layout).unwrap();
    assert_eq!(
        client.address,
        fields::destination_address(&packet.1, &layout)
    );
}

#[test]
fn requests_are_well_formed_and_mix_with_flows() {
    let config = config(
        "packets = 50_000\nkv = { share = 0.5, get_share = 0.8, keys = 1_000, value_bytes = 100 }",
    );
    let packets = run(&config, 9);
    let requests: Vec<&Packet> = packets
        .iter()
        .filter(|(g, _)| matches!(g.kind, PacketKind::KvGet | PacketKind::KvPut))
        .collect();
    assert!((24_000..26_000).contains(&requests.len()));
    for packet in requests {
        let layout = checked_layout(packet);
        let view = KvView::new(fields::payload(&packet.1, &layout)).unwrap();
        let op = if packet.0.kind == PacketKind::KvGet {
            KvOp::Get
        } else {
            KvOp::Put
        };
        assert_eq!((view.op(), view.is_reply()), (op, false));
        assert_eq!(view.key(), twinpath_traffic::key_bytes(packet.0.flow));
        assert_eq!(view.value().len(), if op == KvOp::Put { 100 } else { 0 });
    }
}

#[test]
fn flows_that_live_together_have_ends_of_their_own() {
    let config = config("packets = 100_000\nflows = 1_000\nchurn_per_minute = 500_000");
    let mut owners = HashMap::new();
    for packet in run(&config, 10) {
        let ends = ends(&packet, &checked_layout(&packet));
        let owner = *owners.entry(ends).or_insert(packet.0.flow);
        assert_eq!(owner, packet.0.flow);
    }
    assert!(owners.len() > 1_800);
}
