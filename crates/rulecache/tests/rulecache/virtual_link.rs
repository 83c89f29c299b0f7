//! Cached rules against the chain alone: random chains, packets, links and changes.

use crate::common::functions::*;
use crate::common::traffic::{Spec, specs};
use crate::common::virtual_link::{ChainEdit, Scenario, World};
use proptest::prelude::*;
use twinpath_classify::acl::{PortRange, Rule};
use twinpath_core::wire::{Address, Endpoint};
use twinpath_rulecache::{Affected, Concern, RuleChain, RuleFunction};

const KINDS: u8 = 9;

fn function(kind: u8) -> Box<dyn RuleFunction> {
    let constant = Endpoint::v4([10, 0, 0, 1], 40_000);
    match kind % KINDS {
        0 => Box::new(Firewall::new(kind / KINDS)),
        1 => Box::new(ConstantSource(constant)),
        2 => Box::new(BlockSource(Address::from_v4([10, 0, 0, 1]))),
        3 => Box::new(Translation::new(5)),
        4 => Box::new(Router::new()),
        5 => Box::new(Monitor::default()),
        6 => Box::new(FlagGate),
        7 => Box::new(ConstantSource(Endpoint::v4([10, 0, 0, 3], 40_000))),
        _ => Box::new(IngressFilter),
    }
}

fn functions(kinds: &[u8]) -> Vec<Box<dyn RuleFunction>> {
    kinds.iter().map(|&kind| function(kind)).collect()
}

/// The chain of the deterministic scenarios: a firewall, a translation, a router.
const FIREWALL_TRANSLATION_ROUTER: [u8; 3] = [0, 3, 4];

const PORT_80: Rule = Rule {
    destination_ports: PortRange::new(80, 80),
    ..Rule::ANY
};

/// Rules that came from an entry, of packets that the function sees so.
fn concern(entry: u32, packets: Rule) -> Affected {
    let entries = Some(vec![entry]);
    Affected::Rules(vec![Concern { entries, packets }])
}

/// Replaces the functions at the places of the fixed chain; entries of others do not change.
fn deny_port_80(chain: &mut RuleChain) {
    replace(chain, 0, {
        let mut firewall = Firewall::new(0);
        firewall.insert_first(PORT_80, true);
        Box::new(firewall)
    });
}

fn permit_port_80(chain: &mut RuleChain) {
    replace(chain, 0, Box::new(Firewall::new(0)));
}

fn other_next_hop(chain: &mut RuleChain) {
    let mut router = Router::new();
    router.set_hop(1, 77);
    replace(chain, 2, Box::new(router));
}

fn replace(chain: &mut RuleChain, place: u8, with: Box<dyn RuleFunction>) {
    let mut functions = chain.functions_mut();
    let found = functions.find(|(number, _)| *number == place);
    *found.expect("in the chain").1 = with;
}

fn changes(count: usize) -> Vec<(usize, u8, Affected, ChainEdit)> {
    vec![
        (count / 5, 0, concern(0, PORT_80), deny_port_80),
        (2 * count / 5, 2, concern(1, Rule::ANY), other_next_hop),
        (3 * count / 5, 0, concern(0, PORT_80), permit_port_80),
    ]
}

fn scenario(chain: Vec<u8>, specs: Vec<Spec>, seed: u64) -> Scenario {
    Scenario {
        functions,
        chain,
        specs,
        changes: Vec::new(),
        rules: 16,
        held: 6,
        masks: 6,
        loss_percent: seed % 4 * 10,
        delay_ns: [5_000, 200_000, 2_000_000][(seed / 4 % 3) as usize],
        seed,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn any_chain_does_the_same_with_cached_rules(
        chain in prop::collection::vec(0u8..3 * KINDS, 1..6),
        specs in specs(500),
        seed: u64,
    ) {
        World::new(scenario(chain, specs, seed)).run();
    }

    #[test]
    fn entries_change_in_mid_traffic(specs in specs(500), seed: u64) {
        let mut scenario = scenario(FIREWALL_TRANSLATION_ROUTER.to_vec(), specs, seed);
        scenario.changes = changes(scenario.specs.len());
        World::new(scenario).run();
    }
}

/// Everything that the properties are about does occur.
#[test]
fn the_scenarios_reach_what_they_test() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut total = [0u64; 9];
    for seed in 0..60 {
        let tree = specs(500).new_tree(&mut runner).expect("a strategy");
        let specs = proptest::strategy::ValueTree::current(&tree);
        let chain = match seed % 3 {
            0 => FIREWALL_TRANSLATION_ROUTER.to_vec(),
            1 => vec![6, 8, 3, 5],
            _ => vec![6, 4],
        };
        let mut scenario = scenario(chain, specs, seed);
        scenario.rules = [2, 16][(seed % 2) as usize];
        let report = World::new(scenario).run();
        let counts = [
            report.hits,
            report.activated,
            report.held,
            report.demoted,
            report.hold_full,
            report.waited,
            report.idle,
            report.aged,
            report.replaced,
        ];
        total
            .iter_mut()
            .zip(counts)
            .for_each(|(total, count)| *total += count);
    }
    println!("hits, activated, held, demoted, hold full, waited, idle, aged, replaced: {total:?}");
    assert!(total.iter().all(|&count| count > 0), "{total:?}");
}
