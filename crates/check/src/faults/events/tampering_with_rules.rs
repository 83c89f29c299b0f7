//! How messages about rules are tampered with, and headers whose payloads are parked.

use super::link::inject;
use super::run::Run;
use super::sabotage::Sabotage;
use crate::faults::world::{Contents, LineId, behind_header, overwrite};
use twinpath_core::Frame;
use twinpath_link::{Header, Message, attach};
use twinpath_rulecache::message::messages;
use twinpath_rulecache::{CacheMessage, Uses};

/// Before a frame about rules is sent. True if it must not be.
pub fn tamper_with_rules(
    run: &mut Run,
    (line, sabotage): (LineId, Sabotage),
    contents: &Contents,
    frame: &mut Frame,
) -> bool {
    if !matches!(contents.message, Message::RuleRequest | Message::RuleReport) {
        return false;
    }
    let said: Vec<CacheMessage> = messages(behind_header(frame)).flatten().collect();
    let mut forged = said.clone();
    let each = forged.iter_mut();
    each.for_each(|message| forge(sabotage, message));
    if forged != said {
        run.note_sabotage(line, "what is said of rules is changed");
        write(&forged, frame);
    }
    let answers = said.iter().filter_map(|message| answer(sabotage, message));
    let answers: Vec<CacheMessage> = answers.collect();
    for message in &answers {
        answer_instead(run, line, contents.element, message);
    }
    let is_gone = |message: &CacheMessage| matches!(message, CacheMessage::Gone(..));
    match sabotage {
        Sabotage::SwallowedRemovals => said.iter().any(is_gone),
        Sabotage::ForgedRemoval => !answers.is_empty(),
        _ => false,
    }
}

/// Sends an answer that nobody gave, to whoever sent the frame.
fn answer_instead(run: &mut Run, line: LineId, element: u8, message: &CacheMessage) {
    let (back, says) = match line.is_back {
        true => (LineId::to_worker(line.worker), Message::RuleReport),
        false => (LineId::from_worker(line.worker), Message::RuleRequest),
    };
    run.note_sabotage(back, "an answer about rules is forged");
    let mut bytes = vec![0; message.bytes()];
    message.write(&mut bytes);
    let Some(mut frame) = run.world.spare.take_filled(&bytes) else {
        return;
    };
    let mut header = Header::new(says, Default::default());
    (header.element, header.timestamp) = (element, run.world.packet_now());
    header.epoch = run.world.workers[line.worker].worker.epoch();
    header.chain = run.world.machine.path().chain();
    if attach(&mut frame, &header).is_ok() {
        inject(&mut run.world, &mut run.record, back, frame);
    }
}

/// What a sabotage makes of a message.
fn forge(sabotage: Sabotage, message: &mut CacheMessage) {
    match (sabotage, message) {
        (Sabotage::ChangedRules, CacheMessage::Add(_, rule)) => {
            rule.action.rewrites.decrements += 1;
        }
        (Sabotage::WrongBindings, CacheMessage::Add(_, rule)) => {
            let rewrites = &mut rule.action.rewrites;
            rewrites.source.port ^= 1;
            rewrites.destination.port ^= 1;
        }
        (Sabotage::ForgottenUses, CacheMessage::Used(_, uses) | CacheMessage::Gone(_, uses, _)) => {
            *uses = Uses {
                progress: uses.progress,
                ..Uses::default()
            };
        }
        _ => {}
    }
}

/// The answer that a sabotage gives to a message.
fn answer(sabotage: Sabotage, message: &CacheMessage) -> Option<CacheMessage> {
    match (sabotage, message) {
        (Sabotage::ForgedRemoval, CacheMessage::Clear(name)) => Some(CacheMessage::Gone(
            *name,
            Uses::default(),
            twinpath_rulecache::Gone::Cleared,
        )),
        (Sabotage::HastyMarks, CacheMessage::Mark(mark, _)) => Some(CacheMessage::Marked(*mark)),
        _ => None,
    }
}

/// Writes messages over those that were there: each is as long as before.
fn write(forged: &[CacheMessage], frame: &mut Frame) {
    let mut at = frame.len() - behind_header(frame).len();
    for message in forged {
        if let Some(place) = frame.bytes_mut().get_mut(at..) {
            at += message.write(place).unwrap_or(0);
        }
    }
}

/// Loses a header and keeps its ticket, or gives a header the ticket that was kept. True if it is
/// lost.
pub fn swap_ticket(run: &mut Run, line: LineId, frame: &mut Frame) -> bool {
    const TICKET_BYTES: usize = 8;
    let Some(header) = Header::read(frame.bytes()).ok() else {
        return false;
    };
    let is_whole = header.metadata.parked_bytes == 0;
    if is_whole || !header.has_packet || !run.strikes(3) {
        return false;
    }
    let at = header.bytes() - TICKET_BYTES;
    let own = frame.bytes().get(at..).and_then(<[u8]>::first_chunk);
    let own = own.copied();
    run.note_sabotage(line, "a ticket is kept, or given to another");
    let Some(saboteur) = &mut run.saboteur else {
        return false;
    };
    match saboteur.ticket.take() {
        Some(ticket) => overwrite(frame, at, &ticket),
        None => saboteur.ticket = own,
    }
    saboteur.ticket.is_some()
}
