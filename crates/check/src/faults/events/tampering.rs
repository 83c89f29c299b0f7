//! How frames are tampered with on the link.

use super::link::inject;
use super::run::Run;
use super::sabotage::Sabotage;
use super::tampering_with_rules::{swap_ticket, tamper_with_rules};
use crate::faults::functions::FORBIDDEN;
use crate::faults::record::Happened;
use crate::faults::world::{Contents, LineId, behind_header, copy, overwrite};
use twinpath_coherence::fsm::Fsm;
use twinpath_core::Frame;
use twinpath_core::wire::{dissect, fields};
use twinpath_link::header::FIXED_BYTES;
use twinpath_link::{Header, Message, attach};

/// Where the header has what is forged (see [`twinpath_link::header`]).
const MESSAGE_AT: usize = 3;
const FLAGS_AT: usize = 6;
const SEQUENCE_AT: usize = 8;
const EPOCH_AT: usize = 12;
const GENERATION_AT: usize = 16;
/// A word of the state behind it.
const WORD_BYTES: usize = 4;

/// Before a frame is sent. True if it must not be.
pub fn tamper_on_sending(
    run: &mut Run,
    line: LineId,
    contents: &Contents,
    frame: &mut Frame,
) -> bool {
    let Some(sabotage) = run.sabotage() else {
        return false;
    };
    match (sabotage, contents.message) {
        (Sabotage::ForgedAcknowledgement, Message::WriteBack) => {
            run.strikes(4) && forge_acknowledgement(run, line, contents)
        }
        (Sabotage::SwallowedAcknowledgements, Message::Acknowledge) => {
            run.note_sabotage(line, "an ACK is swallowed");
            overwrite(frame, MESSAGE_AT, &[Message::Return as u8]);
            contents.packet.is_none()
        }
        _ if sabotage.replays() && !line.is_back => {
            remember_or_replay(run, line, contents, frame);
            false
        }
        (Sabotage::SwappedTickets, _) if line.is_back => swap_ticket(run, line, frame),
        _ => tamper_with_rules(run, (line, sabotage), contents, frame),
    }
}

fn forge_acknowledgement(run: &mut Run, line: LineId, contents: &Contents) -> bool {
    run.note_sabotage(line, "a WB is lost, and acknowledged");
    let mut header = Header::new(Message::Acknowledge, contents.key);
    (header.slot, header.generation) = (contents.slot, contents.generation);
    header.element = contents.element;
    let Some(mut frame) = run.world.spare.take(0) else {
        return false;
    };
    let is_written = attach(&mut frame, &header).is_ok();
    let back = LineId::from_worker(line.worker);
    inject(&mut run.world, &mut run.record, back, frame);
    is_written
}

fn remember_or_replay(run: &mut Run, line: LineId, contents: &Contents, frame: &Frame) {
    let strikes = run.strikes(8);
    let Run {
        world,
        record,
        saboteur: Some(saboteur),
    } = run
    else {
        return;
    };
    if saboteur.memory.is_none() && contents.message == Message::WriteBack {
        let copy = copy(frame, &mut world.spare);
        saboteur.memory = copy.map(|copy| (line, copy));
        return;
    }
    let Some((line, mut frame)) = saboteur.memory.take_if(|_| strikes) else {
        return;
    };
    // Every frame that goes to a worker draws once.
    saboteur.strikes(8);
    let how = "an old WB is sent again";
    record.note(world.now, Happened::Sabotaged { line, how });
    if saboteur.sabotage == Sabotage::ReplayFromFormerLife {
        overwrite(&mut frame, EPOCH_AT, &[0xff; 4]);
    }
    inject(world, record, line, frame);
}

/// Before a frame is received by a worker.
pub fn tamper_at_worker(run: &mut Run, worker: usize, contents: &Contents, frame: &mut Frame) {
    let line = LineId::to_worker(worker);
    match run.sabotage() {
        Some(Sabotage::CorruptedWriteBack) if contents.message == Message::WriteBack => {
            run.note_sabotage(line, "a word is changed");
            flip(frame, FIXED_BYTES);
        }
        Some(Sabotage::WrongNumbers) if run.strikes(20) => {
            run.note_sabotage(line, "a number is changed");
            flip(frame, SEQUENCE_AT + 2);
        }
        Some(Sabotage::StolenPackets) if run.strikes(20) => {
            run.note_sabotage(line, "a packet is stolen");
            let flags = frame.bytes().get(FLAGS_AT).map_or(0, |flags| flags & !1);
            overwrite(frame, FLAGS_AT, &[flags]);
        }
        _ => {}
    }
}

/// Before a frame is received by the fast path.
pub fn tamper_on_return(run: &mut Run, line: LineId, contents: &Contents, frame: &mut Frame) {
    let is_state = contents.message == Message::State;
    match run.sabotage() {
        Some(Sabotage::HiddenCrashes) if contents.epoch > 1 => {
            run.note_sabotage(line, "the epoch is made the first");
            overwrite(frame, EPOCH_AT, &1u32.to_be_bytes());
        }
        Some(Sabotage::CorruptedState) if is_state => {
            run.note_sabotage(line, "a word is changed");
            flip(frame, FIXED_BYTES);
        }
        Some(Sabotage::ChangedValues) if is_state => {
            run.note_sabotage(line, "a value is changed");
            flip(frame, FIXED_BYTES + WORD_BYTES);
        }
        Some(Sabotage::ForbiddenPayloads)
            if run.world.scenario.have("inspector") && forbid(frame) =>
        {
            run.note_sabotage(line, "what is forbidden is written into a packet");
        }
        Some(Sabotage::StaleGeneration) if is_state => {
            let history = &run.record.history;
            let flow = history
                .flow_of(contents.element, &contents.key)
                .map(|flow| &history.flows[flow]);
            let slot = flow.and_then(|flow| run.record.mirror.slot_of(flow));
            if let Some(slot) = slot.filter(|slot| slot.fsm == Fsm::Incomplete) {
                overwrite(frame, GENERATION_AT, &slot.generation.to_be_bytes());
                run.note_sabotage(line, "the generation is made the present one");
            }
        }
        _ => {}
    }
}

/// Writes what is forbidden over the end of the packet on board, if it has a payload for that.
fn forbid(frame: &mut Frame) -> bool {
    let packet = behind_header(frame);
    let room = dissect(packet).map_or(0, |layout| fields::payload(packet, &layout).len());
    let has_room = room >= FORBIDDEN.len();
    if has_room {
        let at = frame.len() - FORBIDDEN.len();
        overwrite(frame, at, FORBIDDEN.as_bytes());
    }
    has_room
}

fn flip(frame: &mut Frame, at: usize) {
    if let Some(byte) = frame.bytes_mut().get_mut(at) {
        *byte ^= 1;
    }
}
