//! What is split, and what travels whole. That what leaves is what leaves workers that see whole packets is
//! tested [for all places](payloads.rs) where payloads wait; with [servers](split_servers.rs) it takes a
//! link.

use crate::common::headers_only::{
    EVERYWHERE, assert_counted, assert_settled, expected, firewall, with_mode,
};
use crate::common::{Outcome, assert_same, by_direction, generate, service, tcp_traffic, traffic};
use twinpath_control::report::SplitCounts;
use twinpath_control::service::Paths;
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_io::Trace;

/// Wherever payloads wait, the fast path settles this share.
const LEAST_SHARE: f64 = 0.4;

fn counts(outcome: &Outcome) -> SplitCounts {
    let split = outcome.report.split.as_ref();
    split.expect("a service with [split]").counts
}

/// Both IP versions, behind a tag and without.
#[test]
fn classes_that_are_never_split() {
    let mut trace = Trace::new();
    for number in 0..400u16 {
        let (from, to) = match number % 2 {
            0 => (
                Endpoint::v4([10, 0, 0, 9], 4000 + number % 50),
                Endpoint::v4([192, 0, 2, 1], 443),
            ),
            _ => (
                "[2001:db8::9]:5004".parse().expect("an endpoint"),
                "[2001:db8::1]:443".parse().expect("an endpoint"),
            ),
        };
        let payload: Vec<u8> = (0..600).map(|byte| (byte + number) as u8).collect();
        let mut builder = PacketBuilder::udp(from, to);
        if number % 3 == 0 {
            builder = builder.vlan(7);
        }
        let packet = builder.payload(&payload).to_vec().expect("fits");
        trace.push(1_000_000_000 + u64::from(number) * 100_000, &packet);
    }
    let text = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n";
    let split = "[split]\nnever = [{ protocol = \"udp\", ports = \"5000-5010\" }]\n";
    let expected = expected(text, &trace);
    for run_as in EVERYWHERE {
        let (found, what) = (
            with_mode(text, split, &trace, run_as),
            format!("{run_as:?}"),
        );
        assert_same(
            &by_direction(&expected.flows),
            &by_direction(&found.flows),
            &what,
        );
        assert_counted(&found, 0, &what);
        assert_settled(&found, run_as, LEAST_SHARE);
        let counts = counts(&found);
        match run_as.0 {
            Paths::Slow => assert_eq!((counts.whole_class, counts.packets), (200, 200)),
            _ => assert!(counts.whole_class > 0 && counts.packets > 0),
        }
    }
}

#[test]
fn a_chain_that_needs_payloads_sees_whole_packets() {
    let text =
        "[service]\nchain = [\"firewall\", \"reassembler\"]\n[firewall]\ndefault = \"allow\"\n";
    let trace = tcp_traffic(0.02, 3_000);
    let expected = expected(text, &trace);
    for run_as in EVERYWHERE {
        let found = with_mode(text, "[split]\nthreshold_bytes = 60\n", &trace, run_as);
        assert_same(&expected.flows, &found.flows, "whole packets");
        assert_settled(&found, run_as, LEAST_SHARE);
        let counts = counts(&found);
        assert_eq!((counts.packets, counts.whole()), (0, counts.whole_chain));
        assert!(counts.whole_chain > 0);
    }
}

/// Overload: rings overflow, headers are dropped in front of the link, and their payloads are free again.
#[test]
fn headers_that_find_no_room_on_the_link_free_their_payloads() {
    let text = format!(
        "{}[link]\nring_frames = 4\nround_trip = \"2ms\"\n[run]\npace = \"live\"\n",
        firewall()
    );
    let trace = generate(
        &traffic(
            "packets = 3000\nflows = 200\narrivals = { process = \"constant\", rate_pps = 1000000.0 }\npacket_size = { kind = \"fixed\", frame_bytes = 800 }\n",
        ),
        3,
    );
    let service = service(&format!("{text}[split]\nheader_slots = 64\n"));
    let (outcome, _) = crate::common::memory_servers::run_lossy(&service, &trace, Paths::Slow);
    let counts = counts(&outcome);
    println!("{counts:?} {:?}", outcome.report.drops);
    assert!(outcome.report.drops["punt_ring_full"] > 1000);
    assert!(counts.declined > 0 && counts.lost() == 0);
    assert_eq!(counts.packets, counts.merged + counts.declined);
}
