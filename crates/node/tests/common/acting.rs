//! Whether functions decided anything, and the fast path anything by itself: an oracle in which nothing
//! happens is none.

use super::Outcome;
use twinpath_control::report::Report;
use twinpath_control::service::Service;

/// By function: counters of which one, at least, tells that it did more than let packets pass.
const TELLING: [(&str, &[&str]); 11] = [
    ("acl", &["denied"]),
    ("firewall", &["connections_opened", "packets_denied"]),
    ("inspector", &["bans", "alerts"]),
    ("kv_store", &["hits", "puts"]),
    ("load_balancer", &["new_connections"]),
    ("monitor", &["flows_started"]),
    ("napt", &["sessions_created"]),
    ("nat64", &["translated_out"]),
    ("nptv6", &["translated_out"]),
    ("reassembler", &["opened", "picked_up"]),
    ("router", &["forwarded"]),
];

/// How often a function, by its name in the service, told that it decided something.
pub fn decisions(service: &Service, outcome: &Outcome, name: &str) -> u64 {
    let mut chain = service.chain.iter();
    let instance = chain.find(|instance| &*instance.name == name);
    let kind = instance.map(|instance| instance.config.descriptor().name);
    let mut known = TELLING.iter();
    let (_, telling) = known
        .find(|(function, _)| Some(*function) == kind)
        .unwrap_or_else(|| panic!("nobody knows what tells that {name} acts"));
    let functions = outcome.report.functions.iter();
    let own = functions.filter(|function| function.name == name);
    let counted = own.flat_map(|function| &function.counters);
    let told = counted.filter(|(counter, _)| telling.contains(&counter.as_str()));
    told.map(|(_, count)| count).sum()
}

/// Each function of the chain decided something, where all packets were on the slow path.
pub fn assert_all_acted(service: &Service, slow: &Outcome, what: &str) {
    for instance in &service.chain {
        let count = decisions(service, slow, &instance.name);
        assert!(count > 0, "{what}: {} did nothing", instance.name);
    }
}

/// The fast path settled this share of the packets of a run on both paths, at least.
pub fn assert_share(both: &Outcome, least: f64, what: &str) {
    let share = both.report.fast.share;
    println!("{what}: {:.1} % on the fast path", 100.0 * share);
    assert!(
        share >= least,
        "{what}: {share} on the fast path, least {least}"
    );
}

/// What the fast path settled in several runs together.
#[derive(Default)]
pub struct Settled {
    on_fast_path: u64,
    packets: u64,
}

impl Settled {
    /// One run more, on both paths.
    pub fn add(&mut self, both: &Report) {
        self.on_fast_path += both.fast.packets;
        self.packets += both.fast.packets + both.slow.packets;
    }

    /// Several runs more.
    pub fn absorb(&mut self, others: &Self) {
        self.on_fast_path += others.on_fast_path;
        self.packets += others.packets;
    }

    /// This share of all packets, at least.
    pub fn assert_share(&self, least: f64, what: &str) {
        let share = self.on_fast_path as f64 / self.packets.max(1) as f64;
        println!("{what}: {:.1} % on the fast path in all", 100.0 * share);
        assert!(
            share >= least,
            "{what}: {share} on the fast path in all, least {least}"
        );
    }
}
