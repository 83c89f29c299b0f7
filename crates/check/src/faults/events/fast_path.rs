//! What happens at the fast path.

use super::link::{check_numbers, take_off};
use super::outputs::{follow_exits, follow_out, leave, punt};
use super::run::Run;
use super::tampering::tamper_on_return;
use crate::faults::checks::{go_inside, is_dropped_beside, note_inside};
use crate::faults::invariant::Invariant;
use crate::faults::record::{Cause, Happened, PacketState, Record};
use crate::faults::world::{LineId, Transit, number_of};
use twinpath_core::{Frame, Instant};
use twinpath_node::Departure;

/// Packets come in together.
pub fn process(run: &mut Run, mut burst: Vec<Frame>) {
    let numbers: Vec<u32> = burst.iter().map(number_of).collect();
    let packets = numbers.iter();
    let packets = packets.filter_map(|&number| run.record.history.packet(number));
    let flows = packets.flat_map(|packet| packet.flows.clone()).collect();
    run.begin(Cause::Packets(flows));
    let Run { world, record, .. } = run;
    let keeps_packets = world.scenario.keeps_packets_inside();
    if keeps_packets {
        numbers.iter().for_each(|&number| go_inside(record, number));
    }
    note_inside(record);
    let (refused, clock) = (world.refused(), world.clock());
    world.machine.receive(&mut burst, clock, &mut world.out);
    let refused = world.refused() - refused;
    record.coverage.ring_full += refused;
    match keeps_packets {
        true => follow_exits(run),
        false => settle(run, &numbers, refused > 0),
    }
    run.check();
}

/// Finds out what became of each packet of a burst.
fn settle(run: &mut Run, numbers: &[u32], is_refused: bool) {
    let mut departures = std::mem::take(&mut run.world.out.departures);
    let punted = run.world.out.frames.iter();
    let punted: Vec<u32> = punted.map(|(_, frame)| number_of(frame)).collect();
    // Packets of a flow have an order among them, but for those that go back as answers.
    let class = |departure: &Departure| {
        let packet = run.record.history.packet(number_of(&departure.frame));
        (packet.and_then(|packet| packet.flow), departure.is_reply)
    };
    departures.sort_by_key(class);
    let is_in_order =
        departures.is_sorted_by_key(|departure| (class(departure), number_of(&departure.frame)));
    for &number in numbers {
        let is_this = |departure: &Departure| number_of(&departure.frame) == number;
        if let Some(place) = departures.iter().position(is_this) {
            let departure = departures.swap_remove(place);
            apply(run, number);
            leave(run, departure, PacketState::FastPath);
        } else if !punted.contains(&number) {
            run.note(Happened::DroppedFast { packet: number });
            run.record.tally.dropped_fast += 1;
            if !is_refused {
                apply(run, number);
            }
            run.record
                .moves(number, &[PacketState::FastPath], PacketState::Dropped);
        }
    }
    if !departures.is_empty() || !is_in_order {
        let what = "the fast path puts out what it was not given, or in another order".into();
        run.record.step.fault(Invariant::Conserved, what);
    }
    punt(run);
}

fn apply(run: &mut Run, number: u32) {
    let Record { history, step, .. } = &mut run.record;
    let flow = history.packet(number).and_then(|packet| packet.flow);
    if let Some(flow) = flow.filter(|_| run.world.scenario.functions.is_ledger()) {
        history.applies_fast(number, flow, step);
    }
}

/// The machine is told the time.
pub fn tick(run: &mut Run) {
    run.begin(Cause::Tick);
    let Run { world, record, .. } = run;
    note_inside(record);
    let lacking = world.machine.path().counters().no_own_buffer;
    let (refused, clock) = (world.refused(), world.clock());
    world.machine.advance(clock, &mut world.out);
    record.step.is_sweep = true;
    record.step.pulls_were_refused = world.refused() > record.refused;
    record.refused = world.refused();
    record.step.lacks_buffer = world.machine.path().counters().no_own_buffer > lacking;
    record.coverage.ring_full += world.refused() - refused;
    follow_out(run);
    run.check();
}

/// Something happens at memory servers, and what they have sent arrives.
pub fn hear(run: &mut Run) {
    run.begin(Cause::Tick);
    let Run { world, record, .. } = run;
    note_inside(record);
    let now = Instant(world.now);
    let (mut frames, pools) = (Vec::new(), world.machine.pools());
    world.servers.pass(now, |port, bytes| {
        // Without a buffer it is lost.
        if let Some(mut frame) = pools.take_filled(bytes) {
            frame.set_port(port);
            frames.push(frame);
        }
    });
    let (refused, clock) = (world.refused(), world.clock());
    world
        .machine
        .receive_from_servers(&mut frames, clock, &mut world.out);
    record.coverage.ring_full += world.refused() - refused;
    follow_out(run);
    run.check();
}

/// The run is to end.
pub fn stop(run: &mut Run) {
    run.note(Happened::Stops);
    run.world.is_stopping = true;
    run.world.machine.stop(&mut run.world.out);
    tick(run);
}

/// A frame comes back from a worker.
pub fn return_frame(run: &mut Run, line: LineId, ticket: u64) {
    let Some((transit, gap)) = take_off(&mut run.world, &mut run.record, line, ticket) else {
        return;
    };
    let Transit {
        contents,
        mut frame,
        is_overtaken,
        ..
    } = transit;
    let scenario = &run.world.scenario;
    let keeps_packets = scenario.keeps_packets_inside();
    let is_about_state = scenario.elements.is_state(contents.element);
    let flow = run.record.history.flow_of(contents.element, &contents.key);
    run.begin(Cause::Returned {
        flow: flow.filter(|_| is_about_state),
        message: contents.message,
        generation: contents.generation,
        is_overtaken,
    });
    let packet = contents.packet.filter(|_| keeps_packets && !is_overtaken);
    if let Some(packet) = packet {
        run.record
            .moves(packet, &[PacketState::Back], PacketState::FastPath);
        go_inside(&mut run.record, packet);
    }
    note_inside(&mut run.record);
    tamper_on_return(run, line, &contents, &mut frame);
    let Run { world, record, .. } = run;
    let (before, refused) = (*world.machine.path().counters(), world.refused());
    let (clock, out) = (world.clock(), &mut world.out);
    world
        .machine
        .returned(line.worker, &mut vec![frame], clock, out);
    record.coverage.ring_full += world.refused() - refused;
    if let Some(packet) = packet {
        is_dropped_beside(world, record, packet);
    }
    if world.knows_epoch(line.worker) {
        record.bindings.former_rules_are_gone(record.turn);
    }
    let counts = world.machine.path().counters();
    let counted = (
        counts.link_reordered - before.link_reordered,
        counts.link_lost - before.link_lost,
    );
    check_numbers(record, line, counted, (is_overtaken, gap));
    follow_out(run);
    run.check();
}
