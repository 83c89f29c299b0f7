//! What comes out of the machine: packets that leave, frames and commands for workers, and what
//! became of commands.

use super::changes::come_of;
use super::run::Run;
use super::sending::send;
use crate::faults::checks::{Exit, ExitKind, apply_crossed, check_leaving, come_out};
use crate::faults::record::{Happened, PacketState};
use crate::faults::scenario::Kind;
use crate::faults::world::{LineId, Next, behind_header, number_of};
use twinpath_core::Frame;
use twinpath_node::{Departure, Via};

/// Follows what the machine puts out, of packets that it was not given in this step.
pub fn follow_out(run: &mut Run) {
    // A chain changes while nothing else comes out.
    put_out(run);
    if run.world.scenario.keeps_packets_inside() {
        return follow_exits(run);
    }
    for departure in std::mem::take(&mut run.world.out.departures) {
        leave(run, departure, PacketState::Back);
    }
    punt(run);
}

/// What came out of the machine, but for departures and frames.
fn put_out(run: &mut Run) {
    let world = &mut run.world;
    for (worker, command) in std::mem::take(&mut world.out.commands) {
        let remote = &mut world.workers[worker];
        remote.commands.push_back(command);
        let at = world.now + world.scenario.to_worker.delay_ns;
        let at = at.max(remote.paused_until);
        world.agenda.add(at, Next::Command { worker });
    }
    for outcome in std::mem::take(&mut world.out.outcomes) {
        come_of(run, outcome);
    }
}

/// Follows what comes out of a fast path that keeps packets.
pub fn follow_exits(run: &mut Run) {
    let Run { world, record, .. } = run;
    let elements = world.scenario.elements;
    let departures = std::mem::take(&mut world.out.departures).into_iter();
    let leaving = |departure: &Departure| {
        let packet = record.history.packet(number_of(&departure.frame));
        let is_of_flow = packet.is_some_and(|packet| packet.flow.is_some());
        Exit::leaving(&departure.frame, elements, is_of_flow)
    };
    let left: Vec<(Exit, Departure)> = departures.map(|one| (leaving(&one), one)).collect();
    let punts = std::mem::take(&mut world.out.frames).into_iter();
    let punted = |frame: &Frame| Exit::on_link(frame, elements, ExitKind::Punted);
    let punts: Vec<_> = punts
        .map(|(worker, frame)| (punted(&frame), worker, frame))
        .collect();
    let exits = left.iter().map(|(exit, _)| exit);
    let exits = exits.chain(punts.iter().filter_map(|(exit, ..)| exit.as_ref()));
    apply_crossed(world, record, exits);
    for (exit, departure) in left {
        come_out(&run.world, &mut run.record, &exit, departure.frame.bytes());
        leave(run, departure, PacketState::FastPath);
    }
    for (exit, worker, frame) in punts {
        if let Some(exit) = exit {
            come_out(&run.world, &mut run.record, &exit, behind_header(&frame));
        }
        send(run, LineId::to_worker(worker), frame);
    }
}

/// Sends the frames that came out.
pub fn punt(run: &mut Run) {
    for (worker, frame) in std::mem::take(&mut run.world.out.frames) {
        send(run, LineId::to_worker(worker), frame);
    }
}

/// A packet leaves.
pub fn leave(run: &mut Run, departure: Departure, from: PacketState) {
    let number = number_of(&departure.frame);
    let is_fast = departure.via == Via::Fast;
    run.note(Happened::Leaves {
        packet: number,
        is_fast,
    });
    let as_it_came = is_as_it_came(run, number, &departure);
    let Run { world, record, .. } = run;
    record.coverage.left_fast += u64::from(is_fast);
    record.coverage.left_slow += u64::from(!is_fast);
    record.moves(number, &[from], PacketState::Left);
    record.history.leaves(number, as_it_came, &mut record.step);
    check_leaving(world, record, number, departure.frame.bytes());
    if is_fast && departure.is_reply {
        record.answers.count(departure.frame.bytes());
    }
    world.arrivals.source.hear(number, departure.frame.bytes());
    world.machine.pools().give(departure.frame);
}

fn is_as_it_came(run: &Run, number: u32, departure: &Departure) -> bool {
    let Some(packet) = run.record.history.packet(number) else {
        return false;
    };
    packet.kind == Kind::Generated
        || run.world.scenario.keeps_packets_inside()
        || (departure.is_reply == (packet.kind == Kind::Reply)
            && departure.frame.bytes() == packet.bytes)
}
