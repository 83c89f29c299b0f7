//! Another configuration while rules are cached.

mod common;

use common::direct::Direct;
use common::functions::{ConstantSource, Firewall, Router};
use common::virtual_link::Outcome;
use twinpath_classify::acl::Rule;
use twinpath_core::DropReason;
use twinpath_core::wire::{Endpoint, PacketBuilder};
use twinpath_rulecache::{Change, ChangeError};

fn packet() -> PacketBuilder<'static> {
    let from: Endpoint = "10.0.0.1:40000".parse().expect("v4");
    PacketBuilder::tcp(from, "192.0.2.1:80".parse().expect("v4"))
}

fn denying() -> Firewall {
    let mut firewall = Firewall::new(0);
    firewall.insert_first(Rule::ANY, true);
    firewall
}

fn begin(direct: &mut Direct, place: u8, change: &Change) -> Result<(), ChangeError> {
    let mut out = Vec::new();
    let begun = direct
        .cores
        .begin_change(place, change, direct.now, &mut out);
    direct.outputs(out);
    begun
}

#[test]
fn a_change_takes_effect_when_the_old_decisions_are_gone() {
    let mut direct = Direct::new(vec![Box::new(Firewall::new(0)), Box::new(Router::new())]);
    let before = direct.cache(&packet());
    assert_eq!(direct.send(&packet()), (true, before.clone()));
    let mut change = Change::of::<Firewall>(denying());
    direct.delayed = Some(Vec::new());
    begin(&mut direct, 0, &change).expect("a firewall");
    let finished = direct.cores.finish_change(0, &mut change);
    assert!(matches!(finished, Ok(false)), "the rule is still out there");
    assert_eq!(direct.send(&packet()), (true, before));
    direct.deliver_delayed();
    assert!(matches!(
        direct.cores.finish_change(0, &mut change),
        Ok(true)
    ));
    let denied = Outcome::Dropped(DropReason::Denied);
    assert_eq!(direct.send(&packet()), (false, denied.clone()));
    direct.cache(&packet());
    assert_eq!(direct.send(&packet()), (true, denied), "cached again");
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut direct = Direct::new(vec![Box::new(Firewall::new(0)), Box::new(Router::new())]);
    let before = direct.cache(&packet());
    let mut change = Change::of::<Firewall>(Firewall::none());
    begin(&mut direct, 0, &change).expect("a firewall");
    let refused = direct.cores.finish_change(0, &mut change);
    assert!(matches!(refused, Err(ChangeError::Refused { .. })));
    assert_eq!(direct.send(&packet()), (false, before.clone()));
    direct.cache(&packet());
    assert_eq!(direct.send(&packet()), (true, before), "rules are admitted");
}

#[test]
fn a_change_for_another_function_does_not_begin() {
    let from = "10.0.0.9:1".parse().expect("v4");
    let mut direct = Direct::new(vec![Box::new(ConstantSource(from))]);
    direct.cache(&packet());
    let change = Change::of::<Firewall>(denying());
    let wrong = begin(&mut direct, 0, &change);
    assert!(matches!(wrong, Err(ChangeError::OtherFunction(_))));
    let nowhere = begin(&mut direct, 7, &change);
    assert!(matches!(nowhere, Err(ChangeError::NoFunction(7))));
    assert!(direct.send(&packet()).0, "rules are left alone");
}
