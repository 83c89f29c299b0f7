//! Packets from the network to an ENI's machine.

use super::action::{Action, Origin, PolicyDecision};
use super::arrival::Arrival;
use super::notes::Note;
use super::policy::Policies;
use crate::objects::{InboundAction, MeterBits};
use crate::reason::Reason;

/// Asks the inbound rules, and whether the sender's physical address is one of its network's.
/// Returns what the rule does to the metering class, and the epoch of what was validated.
pub(super) fn admit(
    policies: &Policies<'_>,
    arrival: &Arrival,
) -> Result<(MeterBits, Option<u16>), Reason> {
    let (key, source) = (arrival.key, arrival.outer_source);
    let rule = policies
        .eni
        .inbound
        .lookup(key, source, arrival.headers.protocol);
    policies.note(|| {
        let packet = format!("VNI {key} from {source}");
        match rule {
            None => Note::new("inbound routing", packet, "no rule: dropped"),
            Some(rule) => {
                let action = format!("{:?}", rule.action).to_lowercase();
                Note::new(
                    "inbound routing",
                    format!("{packet}: rule of {rule}"),
                    action,
                )
            }
        }
    });
    let rule = rule.ok_or(Reason::InboundRouteMiss)?;
    if rule.action == InboundAction::Drop {
        return Err(Reason::InboundRouteDrop);
    }
    let is_valid = rule
        .validated
        .is_none_or(|vnet| policies.tables.is_valid_source(vnet, key, source));
    let epoch = rule
        .validated
        .map(|vnet| policies.tables.epoch_of_source(vnet, source));
    if rule.validated.is_some() {
        policies.note(|| {
            let action = if is_valid { "valid" } else { "dropped" };
            Note::new("PA validation", format!("{source} with VNI {key}"), action)
        });
    }
    is_valid
        .then_some((rule.metering, epoch))
        .ok_or(Reason::PaValidation)
}

/// Whether nobody opens a connection to an external endpoint: the machine knows nothing of its gateway's
/// address.
pub(super) fn solicited(policies: &Policies<'_>, arrival: &Arrival) -> Result<(), Reason> {
    match policies.eni.nat {
        Some(nat) if nat.address == arrival.headers.destination => Err(Reason::NatUnsolicited),
        _ => Ok(()),
    }
}

pub(super) fn decide(policies: &Policies<'_>, arrival: &Arrival) -> Result<PolicyDecision, Reason> {
    let (metering, mapping_epoch) = admit(policies, arrival)?;
    solicited(policies, arrival)?;
    let forward = Action {
        layers: [Some(policies.layer_to_machine()?), None],
        accepts: [Some(arrival.key), None],
        ..Action::default()
    };
    let reverse = Action {
        destination_mac: Some(arrival.source_mac),
        layers: [Some(policies.layer_to_sender(arrival)?), None],
        origin: Some(Origin::of(arrival)),
        ..Action::default()
    };
    Ok(PolicyDecision {
        forward,
        reverse,
        answers: arrival.headers.turned(),
        meter_class: policies.meter_class(metering, arrival.headers.source),
        mapping_epoch,
        source_ports: None,
    })
}
