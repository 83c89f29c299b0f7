//! Packets that have passed elements with rules: whether they are what the functions alone would
//! have made of them, and whether somebody wanted those that were dropped.

use super::exit::{Exit, client_of, end_of};
use super::translation::translated_end;
use crate::faults::chain::{Leg, cross};
use crate::faults::invariant::Invariant;
use crate::faults::record::Record;
use crate::faults::scenario::Elements;
use crate::faults::world::World;
use twinpath_core::wire::{Endpoint, dissect, fields, rewrite};
use twinpath_core::{Direction, DropReason};

/// Somebody on the way of a packet that was dropped must have wanted that.
pub fn justify_drop(world: &World, record: &mut Record, number: u32) {
    let Some(packet) = record.history.packet(number) else {
        return;
    };
    let has_no_room =
        world.scenario.keeps_payloads() && world.drops_of(DropReason::ParkingFull) > 0;
    // What waits for a rule leaves a buffer to messages.
    let has_no_buffer = world.drops_of(DropReason::NoBuffer) > record.tally.turned_away;
    let may_be_lost = packet.is_parked || has_no_room || has_no_buffer || world.refused() > 0;
    // Nor is it known which packets functions of production drop.
    let is_dropped_there = packet.flow.is_none()
        || packet.kind.is_dropped()
        || may_be_lost
        || !world.scenario.knows_drops();
    if !is_dropped_there && !may_be_denied(world, record, number) {
        let what = format!("packet {number} was dropped on the fast path, and nobody wanted that");
        record.step.fault(Invariant::InForce, what);
    }
}

/// Whether functions with rules drop a packet, by one of the bindings that were in force.
fn may_be_denied(world: &World, record: &mut Record, number: u32) -> bool {
    let Some(packet) = record.history.packet(number) else {
        return false;
    };
    let turns = packet.seen..=record.turn;
    let (bytes, direction) = (packet.made.clone(), packet.direction);
    let way = Leg {
        direction,
        from: packet.passed,
        passed: usize::MAX,
        at: packet.at,
    };
    let end = translated_end(world, &bytes, direction);
    let bindings = &record.bindings;
    let is_unbound = |end| direction == Direction::Reply && !bindings.is_bound(end, &turns);
    if end.is_some_and(is_unbound) {
        return true;
    }
    let pairs = bindings.in_force(turns.clone());
    let pairs = pairs.filter(|pair| Some(pair.before(direction)) == end);
    let ends = pairs.map(|pair| Some(pair.after(direction)));
    let (reference, elements) = (&mut record.reference, world.scenario.elements);
    let mut is_denied = |end: Option<Endpoint>| {
        let translate = |bytes: &mut Vec<u8>| {
            end.into_iter()
                .for_each(|end| translate_like(elements, bytes, direction, end));
        };
        !reference.pass(&mut bytes.clone(), way, (translate, |_: &mut Vec<u8>| {}))
    };
    std::iter::once(None).chain(ends).any(&mut is_denied)
}

/// A DPU that drops the packet about which policies have just answered ends its flow, if it had one:
/// the DPU beside, which hears of nothing else that is dropped, must do the same.
pub fn is_dropped_beside(world: &mut World, record: &mut Record, number: u32) {
    let Some(packet) = record.history.packet(number) else {
        return;
    };
    if !world.is_dropped_by_dpu(packet.at, &packet.bytes) {
        return;
    }
    let way = Leg {
        direction: packet.direction,
        from: packet.passed,
        passed: usize::MAX,
        at: packet.at,
    };
    let stays = |_: &mut Vec<u8>| {};
    let mut bytes = packet.bytes.clone();
    if record.reference.pass(&mut bytes, way, (stays, stays)) {
        let what = format!("a DPU drops packet {number}, and the one beside lets it pass");
        record.step.fault(Invariant::AsAlone, what);
    }
}

/// What comes out is what the functions that it has passed make of it alone, by a binding that was
/// in force.
pub fn is_as_alone(
    world: &World,
    record: &mut Record,
    exit: &Exit,
    bytes: &[u8],
) -> Result<(), String> {
    let Some(packet) = record.history.packet_mut(exit.number) else {
        return Ok(());
    };
    let mut expected = packet.made.clone();
    let direction = packet.direction;
    let way = Leg {
        direction,
        from: packet.passed,
        passed: exit.passed,
        at: packet.at,
    };
    let is_translated = translated_end(world, &expected, direction).is_some();
    let shown = client_of(bytes, direction).filter(|_| is_translated);
    let (exit_bytes, elements) = (bytes, world.scenario.elements);
    let translate = |bytes: &mut Vec<u8>| {
        if let Some(shown) = shown {
            translate_like(elements, bytes, direction, shown);
        }
        if is_translated && direction == Direction::Original {
            number_like(bytes, exit_bytes);
        }
    };
    let balance = |bytes: &mut Vec<u8>| balance_like(bytes, exit_bytes, direction);
    if packet.flow.is_some()
        && !record
            .reference
            .pass(&mut expected, way, (translate, balance))
    {
        return Err("though a function drops it".into());
    }
    packet.made.clone_from(&expected);
    let expected = &expected[..expected.len().saturating_sub(exit.parked)];
    match bytes == expected {
        true => Ok(()),
        false => Err(format!("as {bytes:02x?}, expected {expected:02x?}")),
    }
}

/// Does to a packet what the translation of the chain does, which shows its client by this end.
fn translate_like(elements: Elements, bytes: &mut Vec<u8>, direction: Direction, shown: Endpoint) {
    match elements.have("nat64") {
        true => cross(bytes, direction, shown),
        false => rewrite_end(bytes, direction, shown),
    }
}

/// Writes the client's end.
fn rewrite_end(bytes: &mut [u8], direction: Direction, end: Endpoint) {
    let Ok(layout) = dissect(bytes) else {
        return;
    };
    let is_written = match direction {
        Direction::Original => rewrite::set_source(bytes, &layout, end),
        Direction::Reply => rewrite::set_destination(bytes, &layout, end),
    };
    debug_assert!(is_written.is_ok(), "both are of one IP version");
}

/// A balancer chooses the server by what it alone knows: it has chosen the one that is shown.
fn balance_like(bytes: &mut [u8], shown: &[u8], direction: Direction) {
    let Some((layout, server)) = dissect(bytes).ok().zip(end_of(shown, direction.other())) else {
        return;
    };
    let is_written = match direction {
        Direction::Original => rewrite::set_destination(bytes, &layout, server),
        Direction::Reply => rewrite::set_source(bytes, &layout, server),
    };
    debug_assert!(is_written.is_ok(), "both are of one IP version");
}

/// A translation draws identifications for what it lets out, but for atomic datagrams: the packet
/// has the one that was drawn.
fn number_like(bytes: &mut [u8], shown: &[u8]) {
    // Of the packet that came out the payload may be elsewhere.
    let Ok(layout) = dissect(bytes) else {
        return;
    };
    if let Some(drawn) = fields::identification(shown, &layout)
        && !fields::is_atomic(bytes, &layout)
    {
        let is_written = rewrite::set_identification(bytes, &layout, drawn);
        debug_assert!(is_written.is_ok(), "both are IPv4");
    }
}
