//! Server-only is the oracle where packets are split: each capture, and generated traffic of both IP
//! versions, meets services that are derived from it, so that every function has something to do.

use crate::common::derived::{Capture, profiled};
use crate::common::headers_only::EVERYWHERE;
use crate::common::trial::{Tally, Trial};
use crate::common::{generate, traffic};
use std::ops::RangeInclusive;
use twinpath_captures::{FunctionText, Lacking, Profile};
use twinpath_control::report::SplitCounts;
use twinpath_control::service::{Execution, Paths, Split, Store};

type Derived = fn(&Profile) -> Result<FunctionText, Lacking>;

/// Those that do with headers.
const FUNCTIONS: [Derived; 11] = [
    Profile::firewall,
    Profile::acl,
    Profile::napt,
    Profile::napt_filtered,
    Profile::nptv6,
    Profile::load_balancer,
    Profile::monitor,
    Profile::router,
    Profile::telemetry,
    Profile::reframer,
    Profile::reframer_waiting,
];

/// All that can be split, on threads too where there are few packets; and with few slots, places and
/// lists.
fn modes(packets: usize) -> [(Split, &'static [(Paths, Execution)]); 2] {
    const VIRTUAL: [(Paths, Execution); 2] = [
        (Paths::Both, Execution::Virtual),
        (Paths::Slow, Execution::Virtual),
    ];
    let runs = match packets {
        0..1000 => &EVERYWHERE[..],
        _ => &VIRTUAL,
    };
    let every = Split {
        threshold_bytes: 60,
        ..Split::default()
    };
    let tiny = Split {
        header_slots: 3,
        store: Store { payloads: 2 },
        ..every.clone()
    };
    [(every, runs), (tiny, &VIRTUAL[1..])]
}

/// Trials of one chain, and what became of packets in them.
#[derive(Default)]
struct Sum {
    tally: Tally,
    /// With room, and with little.
    counts: [SplitCounts; 2],
    trials: usize,
}

impl Sum {
    fn add(&mut self, trial: &Trial<'_>, packets: usize) {
        for ((split, runs), sum) in modes(packets).into_iter().zip(&mut self.counts) {
            if let Some((verdict, counts)) = trial.split(&split, runs) {
                self.tally.add(verdict);
                sum.add(&counts);
                self.trials += 1;
            }
        }
    }

    /// There were trials, packets were split, every function of the chain acted, and the fast path settled
    /// its share.
    fn assert_acted(self, chain: &[&str]) {
        assert!(self.trials > 0, "{chain:?}: no trial");
        for counts in &self.counts {
            assert!(counts.merged > 0, "{chain:?}: {counts:?}");
        }
        let (share, owed) = (self.tally.share(), share_of(chain));
        assert!(owed.contains(&share), "{chain:?}: {share} on the fast path");
        self.tally.assert_acted(chain, *owed.start());
    }
}

/// What the fast path settles of all packets of a chain. In a reframer all of them wait, on the slow path: in
/// front of it some are dropped.
fn share_of(chain: &[&str]) -> RangeInclusive<f64> {
    match chain {
        ["reframer"] => 0.0..=0.05,
        _ if chain.contains(&"reframer") => 0.05..=0.5,
        _ => 0.4..=1.0,
    }
}

fn alone(captures: &[Capture]) {
    for table in FUNCTIONS {
        let (mut sum, mut name) = (Sum::default(), "");
        for capture in captures {
            let Ok(function) = table(&capture.profile) else {
                continue;
            };
            name = function.function;
            sum.add(&Trial::alone(capture, function), capture.trace.len());
        }
        if !captures.is_empty() {
            sum.assert_acted(&[name]);
        }
    }
}

#[test]
fn functions_over_captures() {
    alone(profiled());
}

#[test]
fn chains_over_captures() {
    let chains: [(&[&str], Option<&str>); 5] = [
        (&["acl", "napt", "monitor", "router"], Some("napt")),
        (&["firewall", "nptv6", "monitor", "router"], Some("nptv6")),
        (&["firewall", "load_balancer"], Some("load_balancer")),
        (
            &["firewall", "telemetry", "load_balancer"],
            Some("load_balancer"),
        ),
        (
            &["acl", "reframer", "telemetry", "load_balancer"],
            Some("load_balancer"),
        ),
    ];
    for (chain, answers) in chains {
        let mut sum = Sum::default();
        for capture in profiled() {
            let trial = Trial::of_chain(capture, chain, answers);
            sum.add(&trial, capture.trace.len());
        }
        if !profiled().is_empty() {
            sum.assert_acted(chain);
        }
    }
}

#[test]
fn functions_over_generated_traffic_of_both_versions() {
    let generated = |name: &str, ipv6_share: f64| {
        let text = format!(
            "packets = 6000\nflows = 150\nchurn_per_minute = 30000.0\ntcp_share = 0.7\nreply_share = 0.4\n\
             popularity = {{ distribution = \"zipf\", exponent = 0.99 }}\npacket_size = {{ kind = \"imix\" }}\n\
             arrivals = {{ process = \"poisson\", rate_pps = 20000.0 }}\nfragment_share = 0.01\nicmp_error_share = 0.005\n\
             tcp = {{ out_of_order_share = 0.01, reset_share = 0.05 }}\nhosts = {{ servers = 6, ipv6_share = {ipv6_share} }}\n"
        );
        Capture::of(name, &generate(&traffic(&text), 9))
    };
    alone(&[generated("generated v4 and v6", 0.5)]);
    alone(&[generated("generated v6", 1.0)]);
}
