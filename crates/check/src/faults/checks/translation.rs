//! Whether the bindings by which packets are translated are in force, and live as long as they
//! are used.

use super::exit::{Exit, ExitKind, client_of};
use crate::faults::chain::is_for_v4;
use crate::faults::functions::BINDING_IDLE;
use crate::faults::invariant::Invariant;
use crate::faults::record::{Cause, Happened, Pair, Record, Why};
use crate::faults::scenario::{Element, Scenario};
use crate::faults::world::{RemoteWorker, World, is_inside};
use twinpath_core::wire::{Endpoint, protocol};
use twinpath_core::{Direction, Instant};
use twinpath_nf::napt::Napt;
use twinpath_nf::nat64::Nat64;

/// The end of a packet that is translated on its way, if one is: what servers know may be an
/// address of a former configuration.
pub fn translated_end(world: &World, bytes: &[u8], direction: Direction) -> Option<Endpoint> {
    let elements = world.scenario.elements;
    if !elements.translate() {
        return None;
    }
    let chain = world.chain.service.chain.iter();
    let mut translations = chain.filter_map(|function| function.config.translation());
    let end = client_of(bytes, direction)?;
    let is_translated = match direction {
        // Over IPv6 clients talk to others, too.
        Direction::Original => is_inside(end) && (!elements.are_over_v6() || is_for_v4(bytes)),
        Direction::Reply => translations.any(|one| {
            let mut external = one.external.iter();
            external.any(|prefix| prefix.includes(end.address))
        }),
    };
    is_translated.then_some(end)
}

/// A packet comes, perhaps of a client that was not known.
pub fn admit_client(world: &World, record: &mut Record, bytes: &[u8]) {
    if let Some(client) = translated_end(world, bytes, Direction::Original) {
        record.bindings.admit(client);
    }
}

/// Looks at the translation's bindings.
pub fn follow_bindings(world: &World, record: &mut Record) {
    let why = match record.step.cause {
        Cause::Crashed { .. } => Why::Crash,
        Cause::Changed => Why::Change,
        _ => Why::Idle {
            now: world.packet_now(),
        },
    };
    let worker = world.workers.first();
    let nat64 = worker.and_then(RemoteWorker::function::<Nat64>);
    let napt = worker.and_then(RemoteWorker::function::<Napt>);
    let napt = napt.or_else(|| nat64.map(Nat64::bindings));
    let bound = |internal| napt.and_then(|napt| napt.external_of(internal, protocol::TCP));
    let mut faults = Vec::new();
    let turn = record.turn;
    let changed = record.bindings.follow(bound, (turn, why), &mut faults);
    for what in faults {
        record.step.fault(Invariant::AliveInUse, what);
    }
    for (internal, external) in changed {
        record.coverage.bindings_changed += 1;
        record.note(world.now, Happened::Bound { internal, external });
    }
}

/// The binding by which a packet was translated, if it has just passed the translation, must have
/// been in force then.
pub fn check_translation(world: &World, record: &mut Record, exit: &Exit, bytes: &[u8]) {
    let Some(packet) = record.history.packet(exit.number) else {
        return;
    };
    let (direction, at) = (packet.direction, packet.at);
    let Some((position, is_last)) = place_of_translation(&world.scenario, direction) else {
        return;
    };
    let has_passed = packet.flow.is_some() && (packet.passed..exit.passed).contains(&position);
    let known = translated_end(world, &packet.bytes, direction).filter(|_| has_passed);
    let Some((known, shown)) = known.zip(client_of(bytes, direction)) else {
        return;
    };
    let pair = Pair::between(known, shown, direction);
    let (turn, is_from_worker) = (record.turn, exit.kind == ExitKind::FromWorker);
    let since = match was_just_passed(&world.scenario, exit, (position, is_last)) {
        true => turn,
        false => packet.seen,
    };
    // A binding for a packet that has waited for long may end in the same step.
    let is_momentary = is_from_worker && world.packet_now().since(at) > BINDING_IDLE;
    if is_momentary && !record.bindings.is_in_force(pair, &(turn..=turn)) {
        return;
    }
    if !record.bindings.is_in_force(pair, &(since..=turn)) {
        let number = exit.number;
        let what = format!("packet {number} was translated by {pair:?}, which is not in force");
        return record.step.fault(Invariant::InForce, what);
    }
    check_use(world, record, exit, pair, at);
}

/// How many elements are in front of the translation, and whether no other function of its element
/// comes behind it.
fn place_of_translation(scenario: &Scenario, direction: Direction) -> Option<(usize, bool)> {
    let mut elements = scenario.elements.passed(direction).enumerate();
    let (position, element) = elements.find(|(_, element)| element.translates())?;
    Some((position, matches!(element, Element::Rules([_]))))
}

/// Whether a packet passed the translation in this step: it cannot have been held behind it, for a rule or
/// for its flow's state.
fn was_just_passed(scenario: &Scenario, exit: &Exit, (position, is_alone): (usize, bool)) -> bool {
    if exit.kind == ExitKind::FromWorker {
        return is_alone;
    }
    if exit.kind == ExitKind::Leaves && scenario.keeps_payloads() {
        return false;
    }
    exit.passed + usize::from(exit.kind == ExitKind::Punted) == position + 1
}

fn check_use(world: &World, record: &mut Record, exit: &Exit, pair: Pair, at: Instant) {
    let late = record.bindings.idle_since(pair, at);
    if let Some(last) = late.filter(|_| exit.kind != ExitKind::FromWorker)
        && !may_have_been_used(world, record, (pair, at), exit.number)
    {
        let what = format!("packet {}: {pair:?} at {at:?} since {last:?}", exit.number);
        record.step.fault(Invariant::AliveInUse, what);
    }
    if let Err(what) = record.bindings.uses(pair, at) {
        record.step.fault(Invariant::AliveInUse, what);
    }
}

/// Whether another packet may have used the binding shortly before, unseen.
fn may_have_been_used(
    world: &World,
    record: &Record,
    (pair, at): (Pair, Instant),
    number: u32,
) -> bool {
    let mut others = (1u32..).zip(record.history.packets());
    others.any(|(other, packet)| {
        let end = translated_end(world, &packet.bytes, packet.direction);
        other != number
            && end == Some(pair.before(packet.direction))
            && packet.at <= at
            && at.since(packet.at) <= BINDING_IDLE
    })
}
