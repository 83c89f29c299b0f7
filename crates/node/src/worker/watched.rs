//! What whoever follows packets is told of what happens to them on their worker.

use super::{SlowElement, Worker};
use crate::watch::{Functions, PacketLook, SlowLook, StateRun, TraceStep, Watch};
use twinpath_coherence::SlowFlows;
use twinpath_coherence::slow::Outgoing;
use twinpath_core::{DropCounters, DropReason, Frame};
use twinpath_link::Header;
use twinpath_rulecache::Output;
use twinpath_slowpath::DropNote;

/// A packet in front of functions that share flow state.
pub(super) struct PacketBefore {
    buffer: usize,
    /// Its number: when it has been dropped another packet may be in the buffer.
    ordinal: u64,
    words: Option<Vec<u32>>,
    drops: DropCounters,
    /// The packet as it comes.
    bytes: Vec<u8>,
    /// What is outgoing from here on came of it.
    first: usize,
}

impl Worker {
    /// Somebody follows packets from now on.
    pub(crate) fn watch(&mut self, watch: Watch) {
        self.watch = Some(watch);
    }

    /// The packet in a buffer takes a step, which is told if it is followed.
    #[inline]
    pub(super) fn tell(&self, buffer: usize, step: impl FnOnce(&Watch) -> TraceStep) {
        if let Some(watch) = &self.watch {
            watch.tell(buffer, || step(watch));
        }
    }

    /// The same of a packet that may have left its buffer since.
    #[inline]
    pub(super) fn tell_of(&self, ordinal: u64, step: impl FnOnce(&Watch) -> TraceStep) {
        if let Some(watch) = &self.watch {
            watch.tell_of(ordinal, || step(watch));
        }
    }

    /// What comes out of an element that makes rules because of another packet, or none, has waited
    /// there.
    #[inline]
    pub(super) fn tell_resumed(&self, output: &Output, element: u8) {
        if self.watch.is_none() {
            return;
        }
        if let Output::Depart(packet, _) | Output::Drop(packet, _) = output {
            let buffer = packet.frame.buffer();
            if self.told != Some(buffer) {
                self.tell(buffer, |_| TraceStep::Resume { element });
            }
        }
    }

    /// Functions that share flow state are about to meet a packet.
    #[inline]
    pub(super) fn see(&mut self, header: &Header, frame: &Frame) -> Option<PacketBefore> {
        match &self.watch {
            Some(watch) if header.has_packet => {
                let followed = watch.follows(frame.buffer());
                self.seen(header, frame, followed)
            }
            _ => None,
        }
    }

    #[cold]
    fn seen(
        &mut self,
        header: &Header,
        frame: &Frame,
        followed: Option<u64>,
    ) -> Option<PacketBefore> {
        // What was in this buffer before is gone.
        self.kept.remove(&frame.buffer());
        let ordinal = followed?;
        match self.elements.get_mut(usize::from(header.element))? {
            SlowElement::Rules(_) | SlowElement::Dash(_) => None,
            SlowElement::Flows(flows) => {
                // It may wait there, and be dropped when others are met.
                flows.chain_mut().note_drops();
                self.kept.insert(frame.buffer(), ordinal);
                Some(PacketBefore {
                    buffer: frame.buffer(),
                    ordinal,
                    words: flows.words_of(&header.key).map(<[u32]>::to_vec),
                    drops: flows.drops().clone(),
                    bytes: frame.bytes().to_vec(),
                    first: self.outgoing.len(),
                })
            }
        }
    }

    /// They have met it.
    #[cold]
    pub(super) fn tell_met(&mut self, seen: &PacketBefore, header: &Header, notes: &[DropNote]) {
        let element = self.elements.get(usize::from(header.element));
        let (Some(SlowElement::Flows(flows)), Some(outgoing)) =
            (element, self.outgoing.get(seen.first..))
        else {
            return;
        };
        let own = notes.iter().find(|note| note.buffer == seen.buffer);
        let frames = || outgoing.iter().filter_map(|one| one.frame.as_ref());
        let goes_back = own.is_none() && frames().any(|frame| frame.buffer() == seen.buffer);
        let replies = replies(outgoing);
        let by_nobody = || dropped_by_nobody(&seen.drops, flows.drops(), notes);
        let dropped = own.map(|note| note.reason).or_else(by_nobody);
        let dropped = dropped.filter(|_| !goes_back);
        let outcome = outcome(goes_back, dropped, !replies.is_empty());
        if goes_back || dropped.is_some() {
            self.kept.remove(&seen.buffer);
        }
        let Some(watch) = &self.watch else {
            return;
        };
        watch.tell_of(seen.ordinal, || {
            let (before, after) = (seen.words.as_deref(), flows.words_of(&header.key));
            TraceStep::Receive {
                element: header.element,
                slow_path: SlowLook::State(Box::new(StateRun {
                    packet: seen.bytes.clone(),
                    ingress: header.ingress,
                    words: watch.words(header.element, before, after),
                    function: own.and_then(|note| dropper(flows, note)),
                    rule: None,
                    outcome,
                    replies,
                })),
            }
        });
        if let Some(reason) = dropped {
            watch.tell_of(seen.ordinal, || TraceStep::drop(reason));
        }
    }

    /// What functions that share flow state have dropped since this was asked before; nothing
    /// unless somebody follows packets.
    #[inline]
    pub(super) fn noted_drops(&mut self, element: u8) -> Vec<DropNote> {
        match (&self.watch, self.elements.get_mut(usize::from(element))) {
            (Some(_), Some(SlowElement::Flows(flows))) => flows.chain_mut().take_notes(),
            _ => Vec::new(),
        }
    }

    /// Packets were dropped that functions had kept until now. Others may be in their buffers already.
    pub(super) fn tell_released(&mut self, element: u8, notes: &[DropNote]) {
        let (Some(watch), Some(SlowElement::Flows(flows))) =
            (&self.watch, self.elements.get(usize::from(element)))
        else {
            return;
        };
        for note in notes {
            if let Some(ordinal) = self.kept.remove(&note.buffer) {
                watch.tell_of(ordinal, || released(watch, element, flows, note));
                watch.tell_of(ordinal, || TraceStep::drop(note.reason));
            }
        }
    }
}

/// A packet met the functions behind the one that had kept it, and was dropped.
fn released(watch: &Watch, element: u8, flows: &SlowFlows, note: &DropNote) -> TraceStep {
    let words = flows.words_of(&note.key);
    let run = StateRun {
        packet: Vec::new(),
        ingress: 0,
        words: watch.words(element, words, words),
        function: dropper(flows, note),
        rule: None,
        outcome: outcome(false, Some(note.reason), false),
        replies: Vec::new(),
    };
    TraceStep::Release {
        element,
        slow_path: SlowLook::State(Box::new(run)),
    }
}

/// The function that has dropped a packet.
fn dropper(flows: &SlowFlows, note: &DropNote) -> Option<String> {
    let function = flows.chain().functions().get(note.place)?;
    Some(function.name.to_string())
}

/// Why a packet was dropped between two moments that no function has dropped.
fn dropped_by_nobody(
    before: &DropCounters,
    after: &DropCounters,
    notes: &[DropNote],
) -> Option<DropReason> {
    DropReason::all().find(|&reason| {
        let noted = notes.iter().filter(|note| note.reason == reason).count() as u64;
        after.of(reason) > before.of(reason) + noted
    })
}

/// Functions that make rules have met a packet that was in this buffer, and put out what follows
/// the first so many.
#[cold]
pub(super) fn tell_of_rules(
    watch: &Watch,
    (buffer, ordinal, element): (usize, u64, u8),
    functions: Functions,
    outputs: &[Output],
) {
    let mut run = functions.run;
    let (mut goes_back, mut dropped) = (false, None);
    for output in outputs {
        match output {
            Output::Depart(packet, _) => goes_back |= packet.frame.buffer() == buffer,
            Output::Drop(packet, reason) if packet.frame.buffer() == buffer => {
                dropped = Some(*reason);
            }
            Output::Reply(reply) => run.replies.push(PacketLook::of(reply.bytes())),
            Output::Drop(..) | Output::Send(_) => {}
        }
    }
    if goes_back || dropped.is_some() || !run.replies.is_empty() {
        run.outcome = outcome(goes_back, dropped, true);
    }
    let slow_path = SlowLook::Rules(Box::new(run));
    watch.tell_of(ordinal, || TraceStep::Receive { element, slow_path });
}

fn outcome(goes_back: bool, dropped: Option<DropReason>, is_answered: bool) -> String {
    match (goes_back, dropped, is_answered) {
        (true, ..) => "goes on".into(),
        (_, Some(reason), _) => format!("dropped ({})", reason.name()),
        (_, None, true) => "answered".into(),
        (_, None, false) => "kept: a function waits for others".into(),
    }
}

fn replies(outgoing: &[Outgoing]) -> Vec<PacketLook> {
    let replies = outgoing.iter().filter(|one| one.header.is_reply);
    let frames = replies.filter_map(|one| one.frame.as_ref());
    frames.map(|frame| PacketLook::of(frame.bytes())).collect()
}

pub(super) fn newly_dropped(before: &DropCounters, after: &DropCounters) -> Option<DropReason> {
    DropReason::all().find(|&reason| after.of(reason) > before.of(reason))
}
