//! Packets inside a fast path that keeps some: wherever one comes out, it is what the functions
//! that it has passed make of it alone, by bindings that were in force when it passed.
//!
//! A packet that went into the fast path and has not come out is *inside*: it is held for a rule or
//! for the state of its flow, or it was dropped. How many it is of each is known, but of which only later.

use super::exit::{Exit, ExitKind, end_of};
use super::passage::{is_as_alone, justify_drop};
use super::translation::check_translation;
use crate::faults::invariant::Invariant;
use crate::faults::record::Record;
use crate::faults::world::World;
use twinpath_node::DashStage;

/// A packet goes into the fast path.
pub fn go_inside(record: &mut Record, number: u32) {
    record.inside.insert(number);
    record.tally.inside_fast += 1;
}

/// What is inside may meet the state of its flow in this step.
pub fn note_inside(record: &mut Record) {
    let packets = record.inside.iter();
    let packets = packets.filter_map(|&number| record.history.packet(number));
    record.step.inside = packets.flat_map(|packet| packet.flows.clone()).collect();
}

/// A packet comes out of the fast path or of the slow path.
pub fn come_out(world: &World, record: &mut Record, exit: &Exit, bytes: &[u8]) {
    let number = exit.number;
    if exit.kind != ExitKind::FromWorker {
        record.tally.inside_fast -= 1;
        record.inside.remove(&number);
    }
    let leaves = exit.kind == ExitKind::Leaves;
    if world.scenario.knows_bytes()
        && let Err(what) = is_as_alone(world, record, exit, bytes)
    {
        let invariant = match world.scenario.keeps_payloads() && leaves {
            true => Invariant::Whole,
            false => Invariant::AsAlone,
        };
        record
            .step
            .fault(invariant, format!("packet {number} comes out {what}"));
    }
    if leaves && exit.parked != 0 {
        let what = format!("the header of packet {number} leaves alone");
        record.step.fault(Invariant::Whole, what);
    }
    check_translation(world, record, exit, bytes);
    if let Some(packet) = record.history.packet_mut(number) {
        (packet.passed, packet.seen) = (exit.passed, record.turn);
        packet.client = end_of(bytes, packet.direction);
        packet.is_parked = exit.parked != 0;
    }
}

/// What is still inside while nothing is held was dropped.
pub fn justify_drops(world: &World, record: &mut Record) {
    for number in record.inside.clone() {
        justify_drop(world, record, number);
    }
}

/// What is still inside when nothing will happen any more was dropped.
pub fn settle_inside(world: &World, record: &mut Record) {
    let held = world.held();
    if held > 0 {
        let what = format!("{held} packets are held for ever");
        record.step.fault(Invariant::Progress, what);
    }
    if world.rules().any(|rules| rules.book.is_waiting()) {
        let what = "a packet waits for ever for a rule to go".into();
        record.step.fault(Invariant::Progress, what);
    }
    let questions = world.machine.path().dash().map_or(0, DashStage::questions);
    if questions > 0 {
        let what = format!("{questions} questions to policies stand for ever");
        record.step.fault(Invariant::Progress, what);
    }
    justify_drops(world, record);
}
