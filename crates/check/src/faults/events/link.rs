//! The link to the workers: frames that are sent, received and lost, and the packets on board.

use crate::faults::invariant::Invariant;
use crate::faults::record::{Brief, Happened, PacketHistory, PacketState, Record};
use crate::faults::world::{Contents, LineId, Next, Sending, Transit, World};
use twinpath_core::{Frame, HashKey};
use twinpath_link::{Header, Message};

/// Sends a frame that says this, as a driver of production does: what is not sent has no number.
pub fn transmit(
    world: &mut World,
    record: &mut Record,
    line: LineId,
    (contents, frame): (&Contents, Frame),
) {
    admit(world, record, line, contents);
    let now = world.now;
    let sent_as = sequence_of(&frame).filter(|_| !line.is_back);
    let [to, from] = world.workers[line.worker].lines_mut();
    let place = if line.is_back { from } else { to };
    match place.send(frame, (contents.clone(), sent_as), now, &mut world.spare) {
        Sending::Carried { number, at, double } => {
            carried(world, record, (line, number), contents, (at, double));
        }
        Sending::Lost { number, frame } => {
            drop(frame);
            lose(world, record, (line, number), contents);
        }
    }
}

/// Where functions rewrite packets it is the first frame about a flow that tells of it.
fn admit(world: &World, record: &mut Record, line: LineId, contents: &Contents) {
    let is_about_state = world.scenario.elements.is_state(contents.element);
    if is_about_state && !world.scenario.knows_flows() {
        let hash = contents.key.hash(&HashKey::new(world.seed));
        let name = (contents.element, &contents.key, hash);
        record.history.admit(name, line.worker);
    }
}

/// Sends a frame that the machine and the workers know nothing of.
pub fn inject(world: &mut World, record: &mut Record, line: LineId, frame: Frame) {
    if let Some(contents) = Contents::of(&frame) {
        transmit(world, record, line, (&contents, frame));
    }
}

/// The number that the machine gave a frame; none for one that is forged.
fn sequence_of(frame: &Frame) -> Option<u32> {
    let header = Header::read(frame.bytes()).ok()?;
    Some(header.sequence).filter(|&number| number != 0)
}

fn carried(
    world: &mut World,
    record: &mut Record,
    (line, number): (LineId, u32),
    contents: &Contents,
    (at, double): ((u64, u64), Option<(u64, u64)>),
) {
    let copies = 1 + usize::from(double.is_some());
    record.coverage.frames_doubled += u64::from(double.is_some());
    let sent = Happened::Sent {
        line,
        number,
        says: brief(record, contents),
        due: at.0,
        twice: double.is_some(),
    };
    record.note(world.now, sent);
    let state = if line.is_back {
        PacketState::Back
    } else {
        PacketState::ToWorker
    };
    packet_goes(record, contents, line, state);
    if let Some(packet) = packet_on(record, contents) {
        packet.copies += copies;
    }
    if let Some(behind) = must_be_behind(world, record, contents) {
        *behind += copies;
    }
    for (due, ticket) in [Some(at), double].into_iter().flatten() {
        world.agenda.add(due, Next::Frame { line, ticket });
    }
}

/// A frame is lost that was to be sent.
pub fn lose(
    world: &World,
    record: &mut Record,
    (line, number): (LineId, u32),
    contents: &Contents,
) {
    record.coverage.frames_lost += 1;
    let says = brief(record, contents);
    record.note(world.now, Happened::Lost { line, number, says });
    packet_goes(record, contents, line, PacketState::Lost);
}

fn packet_goes(record: &mut Record, contents: &Contents, line: LineId, to: PacketState) {
    let from = if line.is_back {
        PacketState::AtWorker
    } else {
        PacketState::FastPath
    };
    if let Some(packet) = contents.packet {
        record.moves(packet, &[from], to);
    }
}

/// Takes a frame off a line, with the number of frames missing before it.
pub fn take_off(
    world: &mut World,
    record: &mut Record,
    line: LineId,
    ticket: u64,
) -> Option<(Transit, u32)> {
    let newest = world.line(line).newest;
    let mut overtaken = Vec::new();
    let transit = world
        .line(line)
        .receive(ticket, |contents| overtaken.push(contents.clone()))?;
    for contents in &overtaken {
        gone(world, record, contents);
    }
    let (number, says) = (transit.number, brief(record, &transit.contents));
    if transit.is_overtaken {
        record.coverage.frames_overtaken += 1;
        record.note(world.now, Happened::Overtaken { line, number, says });
        return Some((transit, 0));
    }
    record.note(world.now, Happened::Received { line, number, says });
    off_the_link(world, record, &transit.contents);
    let gap = number - newest - 1;
    Some((transit, gap))
}

/// A receiver must drop and count frames that were overtaken, and count those missing.
pub fn check_numbers(
    record: &mut Record,
    line: LineId,
    (reordered, lost): (u64, u64),
    (is_overtaken, gap): (bool, u32),
) {
    let overtaken = u64::from(is_overtaken);
    if (reordered, lost) != (overtaken, u64::from(gap)) {
        let what = format!(
            "{line}: {reordered} overtaken and {lost} missing were counted, there were {overtaken} and {gap}"
        );
        record.step.fault(Invariant::LinkChecked, what);
    }
}

/// All that is on a line is lost in a crash.
pub fn lose_all(world: &mut World, record: &mut Record, line: LineId) {
    for transit in world.line(line).lose_all() {
        let (number, says) = (transit.number, brief(record, &transit.contents));
        record.note(world.now, Happened::LostInCrash { line, number, says });
        if !transit.is_overtaken {
            gone(world, record, &transit.contents);
        }
    }
}

/// A frame will never be received.
fn gone(world: &World, record: &mut Record, contents: &Contents) {
    off_the_link(world, record, contents);
    if let Some(packet) = packet_on(record, contents) {
        let is_under_way = matches!(packet.state, PacketState::ToWorker | PacketState::Back);
        if packet.copies == 0 && is_under_way {
            packet.state = PacketState::Lost;
        }
    }
}

fn off_the_link(world: &World, record: &mut Record, contents: &Contents) {
    if let Some(packet) = packet_on(record, contents) {
        packet.copies = packet.copies.saturating_sub(1);
    }
    if let Some(behind) = must_be_behind(world, record, contents) {
        *behind = behind.saturating_sub(1);
    }
}

fn packet_on<'a>(record: &'a mut Record, contents: &Contents) -> Option<&'a mut PacketHistory> {
    record.history.packet_mut(contents.packet?)
}

/// If the workers have to process a frame before the fast path may hold the flow's state: how many
/// such frames of the flow are under way.
fn must_be_behind<'a>(
    world: &World,
    record: &'a mut Record,
    contents: &Contents,
) -> Option<&'a mut usize> {
    let is_about_state = world.scenario.elements.is_state(contents.element);
    let comes_first = is_about_state && matches!(contents.message, Message::Plain | Message::Pull);
    let flow = record
        .history
        .flow_of(contents.element, &contents.key)
        .filter(|_| comes_first)?;
    Some(&mut record.history.flows[flow].behind)
}

fn brief(record: &Record, contents: &Contents) -> Brief {
    let flow = record.history.flow_of(contents.element, &contents.key);
    Brief::of(contents, flow)
}
