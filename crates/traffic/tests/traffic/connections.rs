//! TCP connections as their receivers and the boxes between see them.

use crate::common::{Packet, Streams, StrictTracker, config, run, run_with_stats};
use twinpath_traffic::{Direction, PacketKind, Payload};

const BUSY: &str = "
    packets = 200_000
    flows = 300
    churn_per_minute = 200_000
    flow_size = { kind = 'fixed', size = 60_000 }
    packet_size = { kind = 'imix' }
    reply_share = 0.4
    hosts = { ipv6_share = 0.3 }
";

fn tracked(packets: &[Packet]) -> StrictTracker {
    let mut tracker = StrictTracker::default();
    packets.iter().for_each(|packet| tracker.see(packet));
    tracker
}

fn count(packets: &[Packet], kind: PacketKind) -> u64 {
    packets
        .iter()
        .filter(|(generated, _)| generated.kind == kind)
        .count() as u64
}

#[test]
fn a_strict_firewall_accepts_every_packet() {
    for late in [
        "",
        "tcp = { out_of_order_share = 0.1, out_of_order_distance = 3 }",
    ] {
        let config = config(&format!("{BUSY}{late}"));
        let (packets, stats) = run_with_stats(&config, 1);
        let tracker = tracked(&packets);
        assert!(tracker.opened > 1_200, "{}", tracker.opened);
        assert_eq!(tracker.opened, count(&packets, PacketKind::TcpSyn));
        assert!(tracker.closed > 900 && tracker.closed <= stats.flows_ended);
        assert_eq!(count(&packets, PacketKind::TcpReset), 0);
    }
}

#[test]
fn the_smallest_window_that_is_accepted_is_enough() {
    // Room for ack_every + out_of_order_distance + 1 = 6 packets of 1460 bytes.
    let config = config(
        "packets = 50_000\nflows = 20\nreply_share = 0.0\n\
         packet_size = { kind = 'fixed', frame_bytes = 1514 }\n\
         tcp = { out_of_order_share = 0.2, out_of_order_distance = 3, window_bytes = 8_760 }",
    );
    assert_eq!(tracked(&run(&config, 1)).opened, 20);
}

#[test]
fn resets_end_their_share_of_the_connections() {
    let packets = run(&config(&format!("{BUSY}tcp = {{ reset_share = 0.25 }}")), 2);
    let closed = tracked(&packets).closed as f64;
    let resets = count(&packets, PacketKind::TcpReset) as f64;
    assert!(
        (resets / closed - 0.25).abs() < 0.04,
        "{resets} of {closed}"
    );
}

#[test]
fn streams_are_complete_however_late_segments_are() {
    for (share, distance, delay) in [(0.0, 1, 64), (0.05, 1, 64), (0.1, 4, 1000), (0.5, 1, 1)] {
        let late = format!(
            "tcp = {{ out_of_order_share = {share:?}, out_of_order_distance = {distance}, \
             out_of_order_delay_packets = {delay} }}"
        );
        let config = config(&format!("{BUSY}{late}"));
        let packets = run(&config, 3);
        assert_eq!(packets.len(), 200_000);
        let payload = Payload::new(3);
        let streams = Streams::collect(&packets).reassembled();
        assert!(streams.len() > 2_000);
        for ((flow, direction), bytes) in streams {
            let expected = expected(&payload, flow, direction, bytes.len());
            assert!(bytes == expected, "flow {flow} {direction:?}");
        }
    }
}

fn expected(payload: &Payload, flow: u64, direction: Direction, length: usize) -> Vec<u8> {
    let pieces = (0..length).step_by(Payload::LONGEST);
    pieces
        .flat_map(|at| {
            let bytes = (length - at).min(Payload::LONGEST);
            payload.bytes(flow, direction, at as u32, bytes).to_vec()
        })
        .collect()
}

#[test]
fn streams_are_those_of_the_run_in_order() {
    let base = "
        packets = 100_000
        flows = 50
        reply_share = 0.0
        packet_size = { kind = 'imix' }
        signatures = [{ text = 'SIGNATURE', share = 0.2 }]
    ";
    let late = format!("{base}tcp = {{ out_of_order_share = 0.2 }}");
    let in_order = Streams::collect(&run(&config(base), 4)).reassembled();
    let shuffled = Streams::collect(&run(&config(&late), 4)).reassembled();
    assert_eq!(in_order.len(), shuffled.len());
    for (stream, bytes) in in_order {
        let other = &shuffled[&stream];
        let common = bytes.len().min(other.len());
        assert!(
            common > 10_000 && bytes[..common] == other[..common],
            "{stream:?}"
        );
    }
}

#[test]
fn late_segments_have_their_share() {
    for (share, distance) in [(0.001, 1), (0.01, 1), (0.1, 2)] {
        let config = config(&format!(
            "packets = 400_000\nflows = 100\n[tcp]\nout_of_order_share = {share:?}\n\
             out_of_order_distance = {distance}"
        ));
        let (packets, stats) = run_with_stats(&config, 5);
        let streams = Streams::collect(&packets);
        assert_eq!(streams.late, stats.late_segments);
        let expected = streams.data as f64 * share;
        let late = streams.late as f64;
        assert!(
            (late - expected).abs() < 5.0 * expected.sqrt(),
            "{late} for {expected}"
        );
    }
}

#[test]
fn late_segments_wait_no_longer_than_allowed() {
    // Many flows, so that a flow's turn comes rarely by itself.
    let config = config(
        "packets = 100_000\nflows = 5_000\nreply_share = 0.0\n[tcp]\nhandshake = false\n\
         ack_every = 0\nout_of_order_share = 0.05\nout_of_order_delay_packets = 32",
    );
    let packets = run(&config, 6);
    let mut held = std::collections::HashMap::new();
    let mut waits = Vec::new();
    for (place, packet) in packets.iter().enumerate() {
        let layout = crate::common::checked_layout(packet);
        let sequence = twinpath_wire::fields::tcp_seq(&packet.1, &layout);
        let (highest, at) = held.entry(packet.0.flow).or_insert((sequence, place));
        if (sequence.wrapping_sub(*highest) as i32) < 0 {
            waits.push(place - *at);
        } else {
            (*highest, *at) = (sequence, place);
        }
    }
    assert!(waits.len() > 3_000, "{}", waits.len());
    assert!(
        *waits.iter().max().unwrap() <= 36,
        "{:?}",
        waits.iter().max()
    );
    assert!(waits.iter().filter(|&&wait| wait > 8).count() * 2 > waits.len());
}

#[test]
fn established_flows_carry_nothing_but_data() {
    let config = config(
        "packets = 50_000\nflows = 64\nchurn_per_minute = 60_000\nserver_packets = false\n\
         tcp = { handshake = false }",
    );
    let packets = run(&config, 7);
    assert_eq!(count(&packets, PacketKind::TcpData), 50_000);
    assert!(packets.iter().all(|(generated, frame)| {
        generated.direction == Direction::ToServer && frame.len() == 64
    }));
}

#[test]
fn the_client_half_is_a_conversation_without_its_answers() {
    let config = config(&format!("server_packets = false\n{BUSY}"));
    let packets = run(&config, 8);
    assert!(
        packets
            .iter()
            .all(|(generated, _)| generated.direction == Direction::ToServer)
    );
    let (syns, fins) = (
        count(&packets, PacketKind::TcpSyn),
        count(&packets, PacketKind::TcpFin),
    );
    assert!(syns > 1_200 && fins > 900 && fins < syns, "{syns} {fins}");
}
