//! Packets that arrive.

use super::changes::change_or_not;
use super::fast_path::{process, tick};
use super::run::Run;
use super::slow_path::plan_faults;
use crate::faults::checks::admit_client;
use crate::faults::record::{Happened, PacketHistory, PacketState};
use crate::faults::scenario::{Elements, Kind, PLENTY, Scenario};
use crate::faults::world::{Next, World, is_inside};
use twinpath_core::wire::layout::{Fragment, Layout};
use twinpath_core::wire::{dissect, fields};
use twinpath_core::{Direction, DropReason, FlowKey, Frame, HashKey, Side};
use twinpath_dash::headers::Headers;

/// Packets that come when all else is over, at most.
const MOST_LATE: u32 = 64;

/// Packets arrive, a few at once; while the machine takes none they wait.
pub fn arrive(run: &mut Run) {
    let room = run.world.machine.room() as u64;
    if room == 0 {
        run.world.arrivals.are_waiting = true;
        return;
    }
    let (most, gap_ns) = (
        most_together(&run.world.scenario),
        run.world.scenario.traffic.gap_ns,
    );
    let count = room.min(1 + run.world.arrivals.draw.below(most));
    let mut burst = Vec::new();
    let is_over = (0..count).any(|_| !take_next(run, &mut burst));
    process(run, burst);
    change_or_not(run);
    tick(run);
    let (traffic, draw) = (&run.world.scenario.traffic, &mut run.world.arrivals.draw);
    if is_over {
        let grace = draw.below(10 * gap_ns + 1);
        return plan_next(&mut run.world, grace, Next::Calm);
    }
    let is_silent = draw.permille(traffic.silence_permille);
    let silence = u64::from(is_silent) * traffic.silence_ns;
    let gap = draw.below(gap_ns + 1);
    plan_next(&mut run.world, gap + silence, Next::Arrival);
    plan_faults(&mut run.world);
}

/// Where rings are short packets come one by one: it shows which found no room.
fn most_together(scenario: &Scenario) -> u64 {
    match scenario.resources.ring_frames < PLENTY {
        true => 1,
        false => scenario.traffic.burst.max(1).into(),
    }
}

fn plan_next(world: &mut World, after: u64, next: Next) {
    world.arrivals.next = world.now + after;
    world.agenda.add(world.arrivals.next, next);
}

/// The next packet comes in. False if there is none.
fn take_next(run: &mut Run, burst: &mut Vec<Frame>) -> bool {
    let number = run.record.history.arrived() + 1;
    if number > run.world.scenario.traffic.packets {
        return false;
    }
    let packet = run.world.arrivals.source.next(number);
    packet.is_some_and(|packet| {
        take(run, number, packet, burst);
        true
    })
}

/// When all else is over packets go on to come, one at a time, until rules are at rest: what they
/// wait for is asked for again when packets pass. While the machine takes none they wait, as all do.
pub fn arrive_late(run: &mut Run) {
    let world = &mut run.world;
    if !needs_late_packets(world) {
        if world.is_stopped_at_last() {
            world.agenda.add(world.now, Next::Stop);
        }
        return;
    }
    if world.machine.room() == 0 {
        return plan_late(world);
    }
    let number = run.record.history.arrived() + 1;
    let packet = world.arrivals.source.late(number);
    let mut burst = Vec::new();
    take(run, number, packet, &mut burst);
    process(run, burst);
    tick(run);
    run.world.arrivals.late += 1;
    plan_late(&mut run.world);
}

fn needs_late_packets(world: &World) -> bool {
    world.arrivals.late < MOST_LATE && !world.rules_are_at_rest()
}

fn plan_late(world: &mut World) {
    let later = world.now + world.scenario.time_between_late_packets();
    world.agenda.add(later, Next::LateArrival);
}

/// Nothing is left to happen; but rules that were at rest may have been taken out since, as nobody
/// used them, and what the worker had no buffer for it asks again only as time passes. Whether
/// packets come for that.
pub fn go_on_late(run: &mut Run) -> bool {
    let world = &mut run.world;
    let goes_on = world.is_calm && !world.is_stopping && needs_late_packets(world);
    if goes_on {
        plan_late(world);
    }
    goes_on
}

/// A packet comes in.
fn take(run: &mut Run, number: u32, (kind, bytes): (Kind, Vec<u8>), burst: &mut Vec<Frame>) {
    run.record.coverage.packets += 1;
    let (flows, side) = steer(run, &bytes);
    let flow = flows.first().copied();
    run.note(Happened::Arrives {
        packet: number,
        flow,
        kind,
    });
    let Run { world, record, .. } = run;
    let frame = world.machine.pools().take_filled(&bytes);
    let at = world.packet_now();
    admit_client(world, record, &bytes);
    record.acknowledged.hear(&bytes);
    record.store.ask(&bytes, record.turn + 1);
    let state = if frame.is_some() {
        PacketState::FastPath
    } else {
        PacketState::Dropped
    };
    record.history.arrive(PacketHistory {
        flow,
        flows,
        kind,
        side,
        at,
        direction: direction(&bytes),
        made: bytes.clone(),
        bytes,
        state,
        copies: 0,
        applied: 0,
        passed: 0,
        client: None,
        is_parked: false,
        was_held: !world.scenario.functions.tell_what_they_hold(),
        ordinal: world.machine.arrived() + burst.len() as u64,
        seen: record.turn + 1,
    });
    let Some(mut frame) = frame else {
        return turn_away(run, number);
    };
    frame.set_timestamp(at);
    frame.set_received_ns(number.into());
    burst.push(frame);
}

/// A packet's flow at each element with flow state, and from which side it comes. In a chain without
/// flow state it has one all the same.
fn steer(run: &mut Run, bytes: &[u8]) -> (Vec<usize>, Side) {
    if run.world.scenario.elements == Elements::Dpu {
        return (steer_to_eni(run, bytes).into_iter().collect(), Side::Low);
    }
    let world = &mut run.world;
    let path = world.machine.path();
    let needs_ports = world.scenario.needs_ports();
    let datagrams = &mut world.arrivals.datagrams;
    let key = |layout: Layout| match layout.fragment != Fragment::Whole && needs_ports {
        true => datagrams.key(path.steering(), bytes, &layout),
        false => path.steering().key(bytes, &layout),
    };
    let Some(keyed) = dissect(bytes).ok().and_then(key) else {
        return (Vec::new(), Side::Low);
    };
    let hash = keyed.key.hash(&HashKey::new(world.seed));
    let worker = path.worker(hash);
    let elements = world.scenario.elements;
    let with_state = elements
        .with_state()
        .chain((!elements.have_state()).then_some(0));
    let history = &mut run.record.history;
    let flows = with_state.map(|element| history.admit((element, &keyed.key, hash), worker));
    (flows.collect(), keyed.side)
}

/// Of a DPU's packets each direction is a flow of its own, of one ENI.
fn steer_to_eni(run: &mut Run, bytes: &[u8]) -> Option<usize> {
    let Run { world, record, .. } = run;
    let arrival = record.reference.arrival(bytes)?;
    let Headers {
        source,
        destination,
        protocol,
        ports,
    } = arrival.headers;
    // Of later fragments and of errors nobody here knows what they belong to: each is alone.
    let number = record.history.arrived() + 1;
    let ports = ports.unwrap_or([(number >> 16) as u16, number as u16]);
    let numbers = [ports[0], ports[1], arrival.eni, arrival.direction as u16];
    let numbers = numbers.map(u64::from);
    let tunnel = u64::from(arrival.key) << 8 | u64::from(protocol);
    let ends = [source.0, destination.0].map(|address| address as u64 ^ (address >> 64) as u64);
    let key = FlowKey([
        ends[0],
        ends[1],
        numbers[0] << 16 | numbers[1],
        numbers[2] << 16 | numbers[3],
        tunnel,
    ]);
    let hash = key.hash(&HashKey::new(world.seed));
    Some(record.history.admit((0, &key, hash), 0))
}

/// Which way a packet goes through a chain with rules: clients are inside.
fn direction(bytes: &[u8]) -> Direction {
    let source = dissect(bytes).map(|layout| fields::source(bytes, &layout));
    match source {
        Ok(source) if !is_inside(source) => Direction::Reply,
        _ => Direction::Original,
    }
}

fn turn_away(run: &mut Run, number: u32) {
    run.note(Happened::NoBuffer { packet: number });
    run.world.machine.count_drop(DropReason::NoBuffer);
    run.record.tally.dropped_fast += 1;
    run.record.tally.turned_away += 1;
    run.record.coverage.no_buffer += 1;
}
