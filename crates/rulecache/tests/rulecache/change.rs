//! Another configuration while rules are cached.

use crate::common::direct::Direct;
use crate::common::functions::{ConstantSource, Firewall, Router};
use crate::common::observed::Outcome;
use twinpath_classify::acl::Rule;
use twinpath_core::DropReason;
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_rulecache::{Affected, Concern, Reconfiguration, ReconfigureError, RuleFunction};

fn packet() -> PacketBuilder<'static> {
    let from: Endpoint = "10.0.0.1:40000".parse().expect("v4");
    PacketBuilder::tcp(from, "192.0.2.1:80".parse().expect("v4"))
}

fn denying() -> Firewall {
    let mut firewall = Firewall::new(0);
    firewall.insert_first(Rule::ANY, true);
    firewall
}

fn begin(
    direct: &mut Direct,
    place: u8,
    change: &Reconfiguration,
) -> Result<usize, ReconfigureError> {
    let mut out = Vec::new();
    let begun = direct
        .slow
        .begin_change(place, change, direct.now, &mut out);
    direct.outputs(out);
    begun
}

#[test]
fn a_change_takes_effect_when_the_old_decisions_are_gone() {
    let mut direct = Direct::new(vec![Box::new(Firewall::new(0)), Box::new(Router::new())]);
    let before = direct.cache(&packet());
    assert_eq!(direct.send(&packet()), (true, before.clone()));
    let mut change = Reconfiguration::of::<Firewall>(denying());
    direct.delayed = Some(Vec::new());
    begin(&mut direct, 0, &change).expect("a firewall");
    assert!(!direct.slow.may_change(), "the rule is still out there");
    assert_eq!(direct.send(&packet()), (true, before));
    direct.deliver_delayed();
    assert!(direct.slow.may_change());
    let finished = direct.slow.finish_change(0, &mut change);
    assert_eq!(finished, Ok(()));
    direct.slow.end_changes();
    let denied = Outcome::Dropped(DropReason::Denied);
    assert_eq!(direct.send(&packet()), (false, denied.clone()));
    direct.cache(&packet());
    assert_eq!(direct.send(&packet()), (true, denied), "cached again");
}

/// How many rules go when an entry changes for packets from a prefix.
fn take_out(direct: &mut Direct, (place, entry): (u8, u32), from: &str) -> usize {
    let source = from.parse().expect("a prefix");
    let packets = Rule {
        source,
        ..Rule::ANY
    };
    let entries = Some(vec![entry]);
    let affected = Affected::Rules(vec![Concern { entries, packets }]);
    let mut out = Vec::new();
    let going = direct.slow.take_out(place, affected, direct.now, &mut out);
    direct.outputs(out);
    direct.slow.end_changes();
    going
}

/// Rules that others came from, or that other packets meet, stay.
#[test]
fn only_rules_that_the_packets_may_meet_go() {
    let mut direct = Direct::new(vec![Box::new(Firewall::new(0)), Box::new(Router::new())]);
    direct.cache(&packet());
    let going = take_out(&mut direct, (0, 0), "192.0.2.0/24");
    assert_eq!(going, 0, "no packet comes from there");
    let going = take_out(&mut direct, (0, 9), "10.0.0.0/8");
    assert_eq!(going, 0, "no rule came from that");
    assert_eq!(take_out(&mut direct, (0, 0), "10.0.0.0/8"), 1);
}

/// What counts is what the function sees, also of packets that are dropped.
#[test]
fn rules_go_whose_packets_a_function_sees_rewritten() {
    let from = "172.16.0.9:7".parse().expect("v4");
    for firewall in [Firewall::new(0), denying()] {
        let functions: Vec<Box<dyn RuleFunction>> =
            vec![Box::new(ConstantSource(from)), Box::new(firewall)];
        let mut direct = Direct::new(functions);
        direct.cache(&packet());
        assert_eq!(take_out(&mut direct, (1, 0), "172.16.0.0/12"), 1);
    }
}

#[test]
fn a_change_for_another_function_does_not_begin() {
    let from = "10.0.0.9:1".parse().expect("v4");
    let mut direct = Direct::new(vec![Box::new(ConstantSource(from))]);
    direct.cache(&packet());
    let change = Reconfiguration::of::<Firewall>(denying());
    let wrong = begin(&mut direct, 0, &change);
    assert!(matches!(wrong, Err(ReconfigureError::OtherFunction(_))));
    let nowhere = begin(&mut direct, 7, &change);
    assert!(matches!(nowhere, Err(ReconfigureError::NoFunction(7))));
    assert!(direct.send(&packet()).0, "rules are left alone");
}
