//! Payloads wait in a queue of the switch: where that is short or flows may lose their order, what leaves is
//! no other packet, and the counts add up. That what leaves is what leaves workers that see whole packets
//! is tested [for all places](payloads.rs) where payloads wait.

use crate::common::headers_only::{
    EVERYWHERE, GATEWAY, assert_counted, assert_settled, expected, firewall, multiset, with_mode,
};
use crate::common::{Outcome, assert_same, by_direction, generate, service, tcp_traffic, traffic};
use twinpath_coherence::Clock;
use twinpath_control::report::Parking;
use twinpath_control::service::Paths;
use twinpath_core::Instant;
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_io::Trace;
use twinpath_node::{Limits, Node, Output, build};

/// Wherever payloads wait, the fast path settles this share.
const LEAST_SHARE: f64 = 0.4;

/// What happened to payloads.
fn figures(outcome: &Outcome) -> Parking {
    outcome.report.parking.expect("a service with parking")
}

/// Whichever router of a chain ends a packet's time to live quotes its payload, as it came.
#[test]
fn what_ends_within_a_chain_is_quoted() {
    let (_, tables) = GATEWAY.split_once("[router]").expect("there");
    let (router, settings) = tables.split_once("[rule_cache]").expect("there");
    let settings = format!("[rule_cache]{settings}");
    let limits = "errors_per_second = 1000000\nerrors_per_source = 1000000";
    let (first, second) = (
        format!("[router]\n{limits}{router}"),
        format!("[second]\nfunction = \"router\"\n{limits}{router}"),
    );
    let text = format!("[service]\nchain = [\"router\", \"second\"]\n{first}{second}{settings}");
    let mut trace = Trace::new();
    for number in 0..400u16 {
        let (from, to) = (
            Endpoint::v4([10, 0, 0, 9], 4000 + number % 50),
            Endpoint::v4([192, 0, 2, 1], 443),
        );
        let payload: Vec<u8> = (0..600).map(|byte| (byte + number) as u8).collect();
        let builder = PacketBuilder::udp(from, to).ttl([64, 1, 2, 3, 17][usize::from(number % 5)]);
        let packet = builder.payload(&payload).to_vec().expect("fits");
        trace.push(1_000_000_000 + u64::from(number) * 2_000_000, &packet);
    }
    let expected = expected(&text, &trace);
    for run_as in EVERYWHERE {
        let (found, what) = (
            with_mode(&text, "[parking]\n", &trace, run_as),
            format!("{run_as:?}"),
        );
        assert_settled(&found, run_as, LEAST_SHARE);
        assert_same(&expected.flows, &found.flows, &what);
        assert_eq!(expected.ports, found.ports, "{what}");
        // Those with a time to live of one or two.
        assert_counted(&found, 160, &what);
        assert!(figures(&found).parked > 0, "{what}: nothing was parked");
    }
}

/// In a replay the queue's time follows the packets', also while a message alone is under way: a
/// payload that is parked after a long silence has not been waiting since before it.
#[test]
fn no_payload_times_out_after_a_silence() {
    let text = "[service]\nchain = [\"firewall\"]\n[fast_path]\nhot_packets = 1\ntime_to_live = \"1s\"\n\
        [firewall]\ndefault = \"allow\"\n[parking]\n";
    let mut node = build(&service(text), Paths::Both).expect("sound");
    node.machine.set_limits(Limits {
        ring_frames: 64,
        is_lossless: true,
        is_replay: true,
    });
    let (mut out, mut left) = (Output::default(), 0);
    let clock = |milliseconds: u64| Clock {
        packet: Instant(1_000_000_000 + milliseconds * 1_000_000),
        link: Instant(milliseconds),
    };
    let packet = |node: &mut Node, port: u16, at: Clock, out: &mut Output| {
        let (from, to) = (
            Endpoint::v4([10, 0, 0, 1], port),
            Endpoint::v4([192, 0, 2, 1], 53),
        );
        let bytes = PacketBuilder::udp(from, to)
            .payload_len(600)
            .to_vec()
            .expect("fits");
        let mut frame = node.machine.pools().take_filled(&bytes).expect("a buffer");
        frame.set_timestamp(at.packet);
        node.machine.receive(&mut vec![frame], at, out);
    };
    let mut serve = |node: &mut Node, at: Clock, out: &mut Output| {
        for (_, frame) in std::mem::take(&mut out.frames) {
            let mut returns = Vec::new();
            node.workers[0].receive(frame, &mut node.worker_pools[0], &mut returns);
            node.machine.returned(0, &mut returns, at, out);
            node.machine.progress(0, node.workers[0].progress(), out);
        }
        node.machine.advance(at, out);
        left += out.departures.drain(..).count();
    };
    packet(&mut node, 1, clock(0), &mut out);
    serve(&mut node, clock(0), &mut out);
    // Its state goes back: a message without a packet.
    let mut at = 1000;
    while out.frames.is_empty() {
        at += 10;
        node.machine.advance(clock(at), &mut out);
        assert!(at < 5000, "no state is given back");
    }
    let later = clock(at + 200);
    packet(&mut node, 2, later, &mut out);
    node.machine.advance(later, &mut out);
    serve(&mut node, later, &mut out);
    let parking = node.machine.path().parking().expect("there");
    assert_eq!(parking.buffer().counters().parked, 2);
    assert_eq!((left, node.machine.path().drops().total()), (2, 0));
}

/// Without order the same packets leave, whoever overtakes whom.
#[test]
fn unordered_parking_loses_and_changes_nothing() {
    let trace = tcp_traffic(0.02, 6_000);
    let expected = expected(&firewall(), &trace);
    for run_as in EVERYWHERE {
        let mode = "[parking]\nmode = \"recirculate\"\n";
        let found = with_mode(&firewall(), mode, &trace, run_as);
        assert_settled(&found, run_as, LEAST_SHARE);
        assert!(
            multiset(&expected.flows) == multiset(&found.flows),
            "{run_as:?}"
        );
        assert_counted(&found, 0, &format!("{run_as:?}"));
        assert!(figures(&found).parked > 0);
    }
}

/// A queue of one packet: others find no room.
#[test]
fn a_short_queue_sends_packets_whole_or_drops_them() {
    let trace = tcp_traffic(0.0, 6_000);
    let text = format!("{}[link]\nround_trip = \"200us\"\n", firewall());
    let expected = expected(&text, &trace);
    for run_as in EVERYWHERE {
        let what = format!("{run_as:?}");
        let with_mode = |mode| {
            let found = with_mode(&text, mode, &trace, run_as);
            assert_settled(&found, run_as, LEAST_SHARE);
            found
        };
        let short = "[parking]\nmode = \"recirculate\"\nlimit_bytes = 1600\n";
        let found = with_mode(short);
        assert!(
            multiset(&expected.flows) == multiset(&found.flows),
            "{what}"
        );
        assert!(figures(&found).whole_no_room > 0, "{what}");
        assert!(figures(&found).most_queue_bytes <= 1600, "{what}");

        // Packets that came while there was no room wait for others of their flow, in order.
        let found = with_mode("[parking]\nlimit_bytes = 1600\n");
        assert_same(
            &by_direction(&expected.flows),
            &by_direction(&found.flows),
            &what,
        );
        assert_counted(&found, 0, &what);
        assert!(figures(&found).whole_no_room > 0, "{what}");

        let found = with_mode("[parking]\nslots = 1\n");
        assert_same(
            &by_direction(&expected.flows),
            &by_direction(&found.flows),
            &what,
        );
        assert!(figures(&found).whole_no_room > 0, "{what}");

        let found = with_mode("[parking]\nlimit_bytes = 1600\noverflow = \"drop\"\n");
        assert_counted(&found, 0, &what);
        let dropped = found.report.drops["parking_full"];
        let Parking {
            refused,
            followers_refused,
            ..
        } = figures(&found);
        assert_eq!(dropped, refused + followers_refused, "{what}");
        assert!(refused > 0, "{what}");
    }
}

/// The workers take 200 us and payloads wait for 20: each is given up, none leaves with another's
/// header.
#[test]
fn workers_slower_than_the_header_timeout_cost_their_packets() {
    let text = format!("{}[link]\nround_trip = \"200us\"\n", firewall());
    let trace = tcp_traffic(0.0, 5_000);
    let whole = expected(&text, &trace);
    let hasty = [
        "[parking]\nheader_timeout = \"20us\"\n",
        "[parking]\nmode = \"multicast\"\nmulticast = { target_bytes = 20000, late = \"discard\" }\n",
    ];
    // What the fast path settles is never parked.
    for (run_as, least_parked) in [(EVERYWHERE[0], 85), (EVERYWHERE[2], 1000)] {
        for mode in hasty {
            let found = with_mode(&text, mode, &trace, run_as);
            assert_settled(&found, run_as, 0.5);
            let parking = figures(&found);
            assert_counted(&found, 0, mode);
            assert!(
                parking.parked > least_parked && parking.departed == 0,
                "{parking:?}"
            );
            assert_eq!(found.report.drops["header_missing"], parking.missing);
            assert_eq!(parking.stale, parking.parked, "headers came too late");
            assert!(found.report.totals.packets_out > 0 && whole.report.totals.packets_out > 0);
        }
    }
}

/// A controller that follows the workers keeps the queue long enough, so that payloads pass once.
#[test]
fn a_queue_of_copies_that_follows_the_slow_path_holds_payloads_long_enough() {
    let text = format!("{}[link]\nround_trip = \"20us\"\n", firewall());
    let mode = "[parking]\nmode = \"multicast\"\nmulticast = { late = \"discard\", margin_bytes = 20000 }\n";
    let trace = generate(
        &traffic(
            "packets = 20000\nflows = 200\narrivals = { process = \"poisson\", rate_pps = 2000000.0 }\npacket_size = { kind = \"fixed\", frame_bytes = 1000 }\n",
        ),
        3,
    );
    for run_as in [EVERYWHERE[0], EVERYWHERE[2]] {
        let found = with_mode(&text, mode, &trace, run_as);
        assert_settled(&found, run_as, 0.6);
        let parking = figures(&found);
        assert_counted(&found, 0, mode);
        println!("{run_as:?}: {parking:?}");
        assert!(parking.parked > 100 && parking.copies > 0 && parking.recirculations == 0);
        assert!(parking.missing * 100 < parking.parked, "{parking:?}");
    }
}
