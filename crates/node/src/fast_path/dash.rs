//! A DPU on the fast path: its flows, counters and limits. Policies are on the slow path.
//!
//! A packet that policies have to judge goes there with its question. Those of its flow that come
//! meanwhile are held here. Its answer comes back in front of it: then it goes on, and those behind it
//! one by one, each meeting what holds by then. The answer is for all of them that ask the same, also where
//! it makes no flow; who asks something else asks anew, and those behind wait for that, untouched. So packets
//! of a flow and direction stay in order, and those of other flows wait for nothing.

use super::questions::{Asked, Questions};
use super::{FastElement, FastPath, Io};
use crate::position::Position;
use std::collections::VecDeque;
use std::time::Duration;
use twinpath_core::wire::layout::Layout;
use twinpath_core::{DashReason, Decision, DropReason, Frame, Instant, Pools};
use twinpath_dash::flows::EntryKey;
use twinpath_dash::messages::{arrival_words, read_answer};
use twinpath_dash::{Answer, Dpu, DpuStep, Question, Verdict, WaitingDatagrams};
use twinpath_link::{Header, Message};
use twinpath_ports::offload::segments_inside;

/// Most packets that are held: where nothing may be lost none is taken in while there are more.
pub(crate) const MOST_HELD: usize = 4096;

/// Of these, behind one question: one flow takes no other's place. Those of an ENI are no more than places
/// that are left: one takes half of all, two a third each, and others always find some.
const MOST_BEHIND: usize = MOST_HELD / 4;

/// An answer that has not come by then is given up where packets may be lost: it is asked again.
const MOST_WAIT: Duration = Duration::from_secs(2);

/// A DPU's flows.
pub struct DashStage {
    dpu: Dpu,
    asked: Questions,
    /// Packets held, and those of each ENI by its number.
    held: usize,
    held_of: Vec<usize>,
    /// What the packet asks that is about to go to the slow path.
    question: Option<Question>,
    /// What the packet waits for that is about to be held.
    awaited: Option<EntryKey>,
    /// Questions whose packets are lost.
    lost: VecDeque<u32>,
    /// The buffers of packets that the DPU has looked at, in the order in which they come.
    ahead: Vec<usize>,
    /// Which of them is next.
    next: usize,
}

impl DashStage {
    /// Those of a DPU whose policies are elsewhere.
    pub fn new(dpu: Dpu) -> Self {
        Self {
            dpu,
            asked: Questions::default(),
            held: 0,
            held_of: Vec::new(),
            question: None,
            awaited: None,
            lost: VecDeque::new(),
            ahead: Vec::new(),
            next: 0,
        }
    }

    /// The DPU.
    pub const fn dpu(&self) -> &Dpu {
        &self.dpu
    }

    pub(super) const fn dpu_mut(&mut self) -> &mut Dpu {
        &mut self.dpu
    }

    /// These packets come next: what they need of memory is read together.
    pub(super) fn look_ahead(&mut self, frames: &[Frame]) {
        self.forget_ahead();
        self.ahead.extend(frames.iter().map(Frame::buffer));
        self.dpu.look_ahead(frames.iter().map(Frame::bytes));
    }

    /// Those that have not come do not.
    pub(super) fn forget_ahead(&mut self) {
        self.ahead.clear();
        self.next = 0;
    }

    /// The number of a packet that was looked at.
    fn number_ahead(&mut self, frame: &Frame) -> Option<usize> {
        let mut left = self.ahead.get(self.next..)?.iter();
        let passed = left.position(|buffer| *buffer == frame.buffer())?;
        self.next += passed + 1;
        Some(self.next - 1)
    }

    /// A packet meets its flow.
    pub(super) fn packet(&mut self, frame: &mut Frame) -> Decision {
        let (now, number) = (frame.timestamp(), self.number_ahead(frame));
        let (buffer, start) = frame.with_headroom();
        let step = match number {
            Some(number) => self.dpu.begin_ahead(number, buffer, start, now),
            None => self.dpu.begin(buffer, start, now),
        };
        self.decision(step, frame)
    }

    /// A packet that has stopped goes on.
    fn resume(&mut self, frame: &mut Frame, answer: Option<&Answer>) -> Decision {
        let now = frame.timestamp();
        let (buffer, start) = frame.with_headroom();
        let step = self.dpu.resume(buffer, start, now, answer);
        self.decision(step, frame)
    }

    fn decision(&mut self, step: DpuStep, frame: &mut Frame) -> Decision {
        match step {
            DpuStep::Done(verdict) => done(verdict, frame),
            DpuStep::Ask(question) => {
                self.question = Some(question);
                Decision::Punt
            }
            DpuStep::Wait(key) => {
                self.awaited = Some(key);
                Decision::Hold
            }
        }
    }

    /// A packet goes to the slow path with its question.
    fn ask(&mut self, frame: &Frame, now: Instant) -> Option<Header> {
        let question = self.question.take()?;
        let number = self.dpu.question_number(&question.key)?;
        let mut header = Header::new(Message::Question, twinpath_core::FlowKey::default());
        (header.has_packet, header.timestamp) = (true, frame.timestamp());
        header.slot = number;
        header.set_words(&arrival_words(&question.arrival));
        self.asked.add(number, Asked::new(question, now));
        Some(header)
    }

    /// A packet is held behind another of its flow.
    ///
    /// # Errors
    /// The packet, and why it cannot be: if there is no room it is counted for its ENI, too.
    fn hold(&mut self, frame: Frame, is_lossless: bool) -> Result<(), (Frame, DropReason)> {
        let awaited = self.awaited.take();
        let number = awaited.and_then(|key| self.dpu.question_number(&key));
        let asked = number.and_then(|number| self.asked.get_mut(number));
        let Some((key, asked)) = awaited.zip(asked) else {
            return Err((frame, DropReason::BadLinkFrame));
        };
        let of_eni = held_of(&mut self.held_of, asked);
        let has_room = self.held + *of_eni < MOST_HELD && asked.behind.len() < MOST_BEHIND;
        if !is_lossless && !has_room {
            self.dpu.not_held(&key, asked.question.arrival.eni);
            return Err((frame, DropReason::AnswerBacklogFull));
        }
        asked.behind.push_back(frame);
        *of_eni += 1;
        self.held += 1;
        Ok(())
    }

    /// Who waited for an answer waits for the next one, if somebody in front has asked about the same key.
    ///
    /// # Errors
    /// Nobody has.
    fn hold_again(&mut self, held: Held) -> Result<(), Held> {
        let number = self.dpu.question_number(&held.key);
        let Some(asked) = number.and_then(|number| self.asked.get_mut(number)) else {
            return Err(held);
        };
        *held_of(&mut self.held_of, asked) += held.frames.len();
        self.held += held.frames.len();
        asked.behind.extend(held.frames);
        self.dpu.wait_again(&held.key, held.datagrams);
        Ok(())
    }

    /// Nobody waits for an answer any more: who did goes on.
    fn take(&mut self, number: u32) -> Option<Held> {
        let asked = self.asked.take(number)?;
        *held_of(&mut self.held_of, &asked) -= asked.behind.len();
        self.held -= asked.behind.len();
        let key = asked.question.key;
        Some(Held {
            key,
            answer: asked.answer,
            datagrams: self.dpu.no_longer_asked(&key),
            frames: asked.behind,
        })
    }

    /// Policies have answered.
    pub(super) fn answered(&mut self, number: u32, bytes: &[u8]) -> bool {
        let said = read_answer(bytes);
        match (self.asked.get_mut(number), said) {
            (Some(asked), Some(said)) => {
                let question = asked.question;
                asked.answer = Some(Box::new(Answer { question, said }));
                true
            }
            // It was given up.
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }

    /// The packet that has asked will not come back, if it has not: there was no room for it, or its
    /// worker has finished with it and given it back by no answer, as one that crashed. Who waits for the
    /// answer goes on when time is told.
    pub(super) fn lost(&mut self, number: u32) {
        match self.asked.get_mut(number) {
            Some(asked) if asked.behind.is_empty() => {
                self.take(number);
            }
            Some(_) => self.lost.push_back(number),
            None => {}
        }
    }

    /// A question whose packet is lost, or was waited for in vain; what nothing is lost of is waited for
    /// as long as it takes.
    fn next_lost(&mut self, now: Instant, is_lossless: bool) -> Option<u32> {
        self.lost.pop_front().or_else(|| {
            let (number, oldest) = self.asked.oldest()?;
            let is_late = !is_lossless && now.since(oldest.since) > MOST_WAIT;
            is_late.then_some(number)
        })
    }

    /// Questions that are not answered yet.
    pub const fn questions(&self) -> usize {
        self.asked.len()
    }

    /// How many packets are held.
    pub const fn held(&self) -> usize {
        self.held
    }
}

/// Packets that wait for nothing any more.
struct Held {
    /// What they waited for.
    key: EntryKey,
    answer: Option<Box<Answer>>,
    datagrams: WaitingDatagrams,
    frames: VecDeque<Frame>,
}

/// How many packets of a question's ENI are held.
fn held_of<'a>(all: &'a mut Vec<usize>, asked: &Asked) -> &'a mut usize {
    let eni = usize::from(asked.question.arrival.eni);
    if all.len() <= eni {
        all.resize(eni + 1, 0);
    }
    &mut all[eni]
}

/// What became of a packet, as a decision. It is in its frame as it leaves.
pub(crate) fn done(verdict: Verdict, frame: &mut Frame) -> Decision {
    match verdict {
        Verdict::Forward(packet) => match frame.set_bounds(packet) {
            true => Decision::FORWARD,
            false => Decision::Drop(DropReason::Dash(DashReason::NoRoom)),
        },
        Verdict::TooLong(error) if frame.fill(&error) => Decision::Reply,
        Verdict::TooLong(_) => Decision::Drop(DropReason::Dash(DashReason::TooLong)),
        Verdict::Drop(reason) => Decision::Drop(DropReason::Dash(reason)),
    }
}

impl FastPath {
    /// The DPU of the chain, if it is one.
    pub fn dash(&self) -> Option<&DashStage> {
        match self.elements.as_slice() {
            [FastElement::Dash(stage)] => Some(stage),
            _ => None,
        }
    }

    /// Frames that a card is to cut are cut by the packets inside, each of which a DPU treats alone.
    #[inline(never)]
    pub(super) fn cut_inside(&mut self, frames: &mut Vec<Frame>, pools: &mut Pools) {
        if frames.iter().all(|frame| frame.segment_bytes() == 0) {
            return;
        }
        for frame in std::mem::take(frames) {
            if segments_inside(frame, pools, frames).is_err() {
                self.drops.count(DropReason::NoBuffer);
            }
        }
    }

    pub(super) fn dash_at(&mut self, element: u8) -> Option<&mut DashStage> {
        match self.elements.get_mut(usize::from(element))? {
            FastElement::Dash(stage) => Some(stage),
            _ => None,
        }
    }

    /// Whether so many packets are held that no more should be taken in.
    pub(crate) fn holds_many(&self) -> bool {
        self.dash().is_some_and(|stage| stage.held >= MOST_HELD)
    }

    /// The header with which a packet goes to a DPU's policies.
    pub(super) fn question(&mut self, frame: &Frame, element: u8, io: &Io<'_>) -> Option<Header> {
        self.dash_at(element)?.ask(frame, io.clock.link)
    }

    /// A packet is held behind another of its flow.
    pub(super) fn hold_for_answer(&mut self, frame: Frame, element: u8, io: &mut Io<'_>) {
        let (ordinal, at) = (frame.ordinal(), frame.timestamp());
        let is_lossless = self.is_lossless;
        let Some(stage) = self.dash_at(element) else {
            return self.drop(frame, DropReason::BadLinkFrame, io);
        };
        match stage.hold(frame, is_lossless) {
            Ok(()) => self.under_way.open(ordinal, at),
            Err((frame, reason)) => self.drop_at(Some(element), frame, reason, io),
        }
    }

    /// The packet of a question is back, with its answer in front of it, and goes on.
    pub(super) fn answered_packet(
        &mut self,
        mut frame: Frame,
        number: u32,
        position: Position,
        io: &mut Io<'_>,
    ) {
        let Some(stage) = self.dash_at(position.element) else {
            return self.drop(frame, DropReason::BadLinkFrame, io);
        };
        let Some(held) = stage.take(number) else {
            return self.drop_at(Some(position.element), frame, DropReason::AnswerLate, io);
        };
        let decision = stage.resume(&mut frame, held.answer.as_deref());
        self.decided(decision, frame, position, io);
        self.go_on_behind(held, position, io);
    }

    /// Packets go on that were held, until one of them asks again.
    fn go_on_behind(&mut self, mut held: Held, position: Position, io: &mut Io<'_>) {
        while !held.frames.is_empty() {
            let Some(stage) = self.dash_at(position.element) else {
                return;
            };
            held = match stage.hold_again(held) {
                Ok(()) => return,
                Err(held) => held,
            };
            let Some(mut frame) = held.frames.pop_front() else {
                return;
            };
            let decision = stage.resume(&mut frame, held.answer.as_deref());
            self.under_way.close(frame.ordinal());
            let direction = frame.metadata().direction;
            let position = Position {
                direction,
                ..position
            };
            self.decided(decision, frame, position, io);
        }
    }

    /// Nothing that comes behind a DPU asks for the layout of its packets.
    fn decided(&mut self, decision: Decision, frame: Frame, position: Position, io: &mut Io<'_>) {
        self.stop(decision, frame, &Layout::default(), position, io);
    }

    /// Lets time pass for a DPU: flows that are over end, and what waits in vain goes on.
    pub(super) fn tick_dash(&mut self, io: &mut Io<'_>) {
        for element in 0..self.elements.len() as u8 {
            let (clock, direction) = (io.clock, twinpath_core::Direction::Original);
            let is_lossless = self.is_lossless;
            let Some(stage) = self.dash_at(element) else {
                continue;
            };
            stage.dpu.tick(clock.packet);
            while let Some(number) = self
                .dash_at(element)
                .and_then(|stage| stage.next_lost(clock.link, is_lossless))
            {
                let held = self.dash_at(element).and_then(|stage| stage.take(number));
                if let Some(held) = held {
                    self.go_on_behind(held, Position { element, direction }, io);
                }
            }
        }
    }

    /// A worker has finished with a packet, and all that it gave back has been handed in: of a question
    /// that is still open the packet is lost.
    #[inline]
    pub(crate) fn finished_with(&mut self, ordinal: u64, question: Option<u32>) {
        self.under_way.close(ordinal);
        if let Some(number) = question {
            self.lost_question(number);
        }
    }

    #[cold]
    fn lost_question(&mut self, number: u32) {
        for element in &mut self.elements {
            if let FastElement::Dash(stage) = element {
                stage.lost(number);
            }
        }
    }
}
