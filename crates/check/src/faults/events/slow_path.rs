//! What happens at the workers.

use super::changes::check_all_home;
use super::fast_path::return_frame;
use super::link::{check_numbers, lose_all, take_off};
use super::run::Run;
use super::sabotage::Sabotage;
use super::sending::send;
use super::tampering::tamper_at_worker;
use crate::faults::checks::{Exit, ExitKind, come_out, follow_bindings};
use crate::faults::functions::{Account, Note, take_notes};
use crate::faults::invariant::Invariant;
use crate::faults::record::{Cause, FlowHistory, Happened, PacketState, Record, WrittenBack};
use crate::faults::world::{
    Contents, Counted, LineId, Next, RemoteWorker, Transit, World, behind_header,
};
use twinpath_core::{DropReason, Frame, Instant};
use twinpath_link::{Header, Message};
use twinpath_node::machine::{WorkerAnswer, WorkerCommand};

/// Draws what is to go wrong with workers.
pub fn plan_faults(world: &mut World) {
    let faults = world.scenario.workers;
    let crash: fn(usize) -> Next = |worker| Next::Crash { worker };
    let pause = |worker| Next::Pause { worker };
    for (permille, next) in [
        (faults.crash_permille, crash),
        (faults.pause_permille, pause),
    ] {
        if world.worker_faults.permille(permille) {
            let worker = world.worker_faults.below(world.workers.len() as u64) as usize;
            let soon = 20 * world.scenario.to_worker.delay_ns;
            let at = world.now + world.worker_faults.below(soon);
            world.agenda.add(at, next(worker));
        }
    }
}

/// A frame gets to the end of a line. A worker that pauses lets it lie.
pub fn arrive_at_end(run: &mut Run, line: LineId, ticket: u64) {
    if line.is_back {
        return return_frame(run, line, ticket);
    }
    let worker = &mut run.world.workers[line.worker];
    if run.world.now < worker.paused_until || !worker.waiting.is_empty() {
        return worker.waiting.push_back(ticket);
    }
    receive(run, line.worker, ticket);
}

/// A worker stands still for a while.
pub fn pause(run: &mut Run, worker: usize) {
    let world = &mut run.world;
    if world.is_calm {
        return;
    }
    let pause_ns = world.scenario.workers.pause_ns;
    let until = world.now + world.worker_faults.below(pause_ns + 1);
    let paused = &mut world.workers[worker].paused_until;
    *paused = (*paused).max(until);
    world.agenda.add(until, Next::Resume { worker });
    run.record.coverage.pauses += 1;
    run.note(Happened::Paused { worker, until });
}

/// A worker goes on, if it may.
pub fn resume(run: &mut Run, worker: usize) {
    let remote = &mut run.world.workers[worker];
    if run.world.now < remote.paused_until {
        return;
    }
    let waiting = std::mem::take(&mut remote.waiting);
    run.note(Happened::Resumed { worker });
    for ticket in waiting {
        receive(run, worker, ticket);
    }
}

fn receive(run: &mut Run, worker: usize, ticket: u64) {
    let line = LineId::to_worker(worker);
    let Some((transit, gap)) = take_off(&mut run.world, &mut run.record, line, ticket) else {
        return;
    };
    let Transit {
        contents,
        mut frame,
        is_overtaken,
        ..
    } = transit;
    let is_about_state = run.world.scenario.elements.is_state(contents.element);
    let flow = run.record.history.flow_of(contents.element, &contents.key);
    let flow = flow.filter(|_| is_about_state && !is_overtaken);
    run.begin(Cause::Received { flow, worker });
    tamper_at_worker(run, worker, &contents, &mut frame);
    let Run { world, record, .. } = run;
    if !is_overtaken {
        note_write_back(record, &contents, flow, frame.bytes());
        enter(record, worker, &contents);
    }
    let remote = &mut world.workers[worker];
    let before = remote.counted();
    let (pools, returns) = (&mut remote.pools, &mut remote.returns);
    remote.worker.receive(frame, pools, returns);
    let after = remote.counted();
    let counted = (after.reordered - before.reordered, after.lost - before.lost);
    check_numbers(record, line, counted, (is_overtaken, gap));
    follow(run, worker, &before, flow.map(|flow| (flow, &contents)));
    run.check();
}

fn enter(record: &mut Record, worker: usize, contents: &Contents) {
    if let Some(packet) = contents.packet {
        record.tally.inside[worker] += 1;
        record.moves(packet, &[PacketState::ToWorker], PacketState::AtWorker);
    }
}

/// What a write-back brings must be what the slot was frozen with.
fn note_write_back(record: &mut Record, contents: &Contents, flow: Option<usize>, bytes: &[u8]) {
    let (Some(flow), Ok(header)) = (flow, Header::read(bytes)) else {
        return;
    };
    if contents.message == Message::WriteBack {
        record.step.written_back.push(WrittenBack {
            flow,
            generation: contents.generation,
            is_what_was_frozen: header.words() == record.history.flows[flow].frozen,
        });
    }
}

/// A worker does what it was told.
pub fn execute(run: &mut Run, worker: usize) {
    let Some(command) = run.world.workers[worker].commands.pop_front() else {
        return;
    };
    let replaces = matches!(command, WorkerCommand::Replace { .. });
    run.begin(match replaces {
        true => Cause::Changed,
        false => Cause::Woken { worker },
    });
    if replaces {
        check_all_home(run);
    }
    run.note(Happened::Commanded { worker });
    let Run { world, record, .. } = run;
    let remote = &mut world.workers[worker];
    let (before, drops) = (remote.counted(), remote.worker.drops());
    count_acts(record, remote);
    let (pools, returns) = (&mut remote.pools, &mut remote.returns);
    let answer = remote.worker.execute(command, pools, returns);
    go_on_counting(record, remote);
    if replaces && remote.worker.drops() != drops {
        let what = format!("worker {worker} forgets {drops:?}");
        run.record.step.fault(Invariant::Migration, what);
    }
    follow(run, worker, &before, None);
    run.check();
    report(run, worker, Some(answer));
}

/// A worker's functions may be no more after what comes: what they did so far counts.
fn count_acts(record: &mut Record, remote: &RemoteWorker) {
    remote.each_counter(&mut |function, counter, times| {
        record.acted.add(function, counter, times);
    });
}

/// What functions that are still there will say again does not count twice.
fn go_on_counting(record: &mut Record, remote: &RemoteWorker) {
    remote.each_counter(&mut |function, counter, times| {
        record.acted.take(function, counter, times);
    });
}

/// Notes how far a worker is.
pub fn report(run: &mut Run, worker: usize, answer: Option<WorkerAnswer>) {
    let is_hasty = run.sabotage() == Some(Sabotage::HastyProgress);
    run.world.workers[worker].report(answer, is_hasty);
}

/// A worker hears what time it is.
pub fn wake(run: &mut Run, worker: usize) {
    let time = run.world.machine.time();
    let remote = &run.world.workers[worker];
    if time == remote.told || run.world.now < remote.paused_until {
        return;
    }
    run.begin(Cause::Woken { worker });
    run.note(Happened::Woken { worker });
    let remote = &mut run.world.workers[worker];
    remote.told = time;
    let before = remote.counted();
    let (pools, returns) = (&mut remote.pools, &mut remote.returns);
    remote.worker.advance(time, pools, returns);
    follow(run, worker, &before, None);
    run.check();
}

/// A worker loses all it knows and starts again. Its rings may survive, each for itself.
pub fn crash(run: &mut Run, worker: usize) {
    if run.world.is_calm {
        return;
    }
    run.begin(Cause::Crashed { worker });
    let Run { world, record, .. } = run;
    record.coverage.crashes += 1;
    let now = world.packet_now();
    let remote = &mut world.workers[worker];
    let is_ledger = world.scenario.functions.is_ledger();
    for flows in remote.flows() {
        record.coverage.count_flows(flows, is_ledger);
    }
    let inside = record.tally.inside[worker];
    record.crash(worker);
    count_acts(record, remote);
    let before = remote.worker.drops();
    let (pools, returns) = (&mut remote.pools, &mut remote.returns);
    remote.worker.crash(now, pools, returns);
    go_on_counting(record, remote);
    let mut expected = before.clone();
    expected.add(DropReason::WorkerCrashed, inside.max(0) as u64);
    let counted = remote.worker.drops();
    if counted != expected {
        let what = format!(
            "worker {worker} crashes with {inside} packets in its hands, and goes from {before:?} to {counted:?}"
        );
        record.step.fault(Invariant::Conserved, what);
    }
    let (counted, epoch) = (remote.counted(), remote.worker.epoch());
    follow(run, worker, &counted, None);
    run.note(Happened::Crashed { worker, epoch });
    for line in [LineId::to_worker(worker), LineId::from_worker(worker)] {
        if run.world.worker_faults.flip() {
            lose_all(&mut run.world, &mut run.record, line);
        }
    }
    run.check();
}

/// Follows what a worker did: with a frame, or because a deadline passed.
fn follow(run: &mut Run, worker: usize, before: &Counted, received: Option<(usize, &Contents)>) {
    let Run { world, record, .. } = run;
    let now = world.workers[worker].counted();
    if let Some((flow, contents)) = received.filter(|_| now.imports > before.imports) {
        let generation = contents.generation;
        record.note(world.now, Happened::Imported { flow, generation });
        record.history.imports(flow, generation, &mut record.step);
    }
    listen(world, record, worker, received);
    follow_bindings(world, record);
    record.tally.inside[worker] -= (now.dropped - before.dropped) as i64;
    for frame in std::mem::take(&mut world.workers[worker].returns) {
        give_back(run, worker, frame);
    }
    if run.world.scenario.functions.is_ledger() {
        find_refused(&mut run.record, received);
    }
}

/// A worker gives a frame back.
fn give_back(run: &mut Run, worker: usize, frame: Frame) {
    let Run { world, record, .. } = run;
    let exit = Exit::on_link(&frame, world.scenario.elements, ExitKind::FromWorker);
    record.tally.inside[worker] -= i64::from(exit.is_some());
    if let (Some(exit), Ok(header)) = (&exit, Header::read(frame.bytes())) {
        goes_on(record, exit.number, header.timestamp);
    }
    if let Some(exit) = exit.filter(|_| world.scenario.keeps_packets_inside()) {
        come_out(world, record, &exit, behind_header(&frame));
    }
    send(run, LineId::from_worker(worker), frame);
}

/// What a function has kept goes on as of the time at which it was let go.
fn goes_on(record: &mut Record, number: u32, at: Instant) {
    let packet = record.history.packet_mut(number);
    if let Some(packet) = packet.filter(|packet| packet.was_held && packet.flows.len() > 1) {
        packet.at = at;
    }
}

/// Listens to what the ledger says it did.
fn listen(world: &World, record: &mut Record, worker: usize, received: Option<(usize, &Contents)>) {
    let notes = take_notes(&world.notes);
    if let Some((flow, contents)) = received {
        let history = &mut record.history.flows[flow];
        let is_known = world.workers[history.worker].view(history.name()).is_some();
        let named = Some((contents.element, contents.key));
        let is_touched = notes.iter().any(|note| note.flow() == named);
        if is_known || is_touched {
            history.decide(contents);
        }
    }
    for note in notes {
        hear(world, record, (worker, note), received.is_some());
    }
}

fn hear(world: &World, record: &mut Record, (worker, note): (usize, Note), has_received: bool) {
    let now = world.packet_now();
    let (packet, happened) = match note {
        Note::Held { packet, .. } => (packet, Happened::Held { packet }),
        Note::Entered { packet, .. } => (packet, Happened::Entered { packet }),
        Note::Forgotten { packet } => (packet, Happened::Forgotten { packet }),
    };
    record.note(world.now, happened);
    let Record { history, step, .. } = record;
    let flow = note.flow();
    let flow = flow.and_then(|(element, key)| history.flow_of(element, &key));
    match (note, flow) {
        (Note::Held { found, .. }, Some(flow)) => {
            history.holds((packet, flow), (Account(found), now), step);
            record.coverage.held += 1;
        }
        (Note::Entered { found, .. }, Some(flow)) => {
            history.applies((packet, flow), (Account(found), now), step);
            record.coverage.woken += u64::from(!has_received);
            let packet_history = history.packet(packet);
            if packet_history.is_some_and(|packet| packet.kind.is_dropped()) {
                record.moves(packet, &[PacketState::AtWorker], PacketState::Dropped);
            }
        }
        (Note::Forgotten { .. }, _) => {
            record.tally.inside[worker] -= 1;
            let what = format!("packet {packet} was held and is forgotten uncounted");
            record.step.fault(Invariant::Conserved, what);
        }
        (_, None) => {
            let what = format!("packet {packet} is applied to a flow that nobody knows");
            step.fault(Invariant::NoCrossTalk, what);
        }
    }
}

/// A packet that the ledger has not heard of was refused: there was no room for its flow.
fn find_refused(record: &mut Record, received: Option<(usize, &Contents)>) {
    let received = received.and_then(|(flow, contents)| Some((flow, contents.packet?)));
    let Some((flow, number)) = received else {
        return;
    };
    let FlowHistory { element, truth, .. } = &record.history.flows[flow];
    let is_held = truth.held.iter().any(|&(packet, _)| packet == number);
    let element = *element;
    let Some(packet) = record.history.packet_mut(number) else {
        return;
    };
    if packet.state == PacketState::AtWorker && !is_held && !packet.is_applied(element) {
        packet.state = PacketState::Dropped;
        record.coverage.flow_table_full += 1;
    }
}
