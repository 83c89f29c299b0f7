//! What time it is for the workers: deadlines of functions come in order among packets.
//!
//! A deadline comes when no packet that is older can come to a worker any more, for all have left,
//! or are kept. The machine alone knows that. Where nothing may be lost packets wait for deadlines,
//! too, as they do for what caused them: in each flow all then happens in order of time, whichever
//! path packets take, and what is replayed comes out as it would at its own speed. Live packets
//! wait for no deadline: with those of a flow its deadlines come anyway.

use super::{Link, Machine, TICK};
use crate::worker::{Moment, Time};
use twinpath_coherence::Clock;
use twinpath_core::Instant;

/// What workers have been told, and what of that they have done.
#[derive(Default)]
pub(super) struct Timekeeper {
    told: Time,
    /// What time the driver has told last.
    clock: Clock,
    /// The packet clock moved last when the link's was there.
    moved: Clock,
    /// Packets that come are no older, for the next one is known.
    expected: Instant,
    /// Of deadlines that come one at a time, how far the last one is.
    turn: DeadlinePhase,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum DeadlinePhase {
    /// None is at work.
    #[default]
    Over,
    /// Workers have been told of it.
    Informed,
    /// What it let go of is inside.
    LetGo,
}

impl Machine {
    /// What time it is on the packet clock, as the driver has told last: it goes on without packets, too.
    pub const fn now(&self) -> Instant {
        self.time.clock.packet
    }

    /// What workers are to be told, whenever it has changed.
    pub fn time(&self) -> Time {
        self.time.told
    }

    /// Whether a packet of this time may come in, for all deadlines have come that are not later: if
    /// not, it waits. Live packets do not.
    #[inline]
    pub fn lets_in(&mut self, at: Instant) -> bool {
        if !self.limits.is_lossless {
            return true;
        }
        let waits = self.time.turn != DeadlinePhase::Over || self.next_of_functions().at <= at;
        if waits {
            self.time.expected = self.time.expected.max(at);
        }
        !waits
    }

    /// Whether packets wait for what a deadline lets go of.
    pub(super) fn is_deadline_at_work(&self) -> bool {
        self.time.turn != DeadlinePhase::Over
    }

    /// Whether workers have done all that was due by the time that they were told.
    pub(super) fn have_told_deadlines_come(&self) -> bool {
        self.next_of_functions() > self.time.told.passed
    }

    /// Whether any function has a deadline.
    pub(super) fn has_deadlines(&self) -> bool {
        self.next_of_functions() != Moment::NEVER
    }

    /// Whether no deadline is left.
    pub(super) fn have_deadlines_come(&self) -> bool {
        self.time.turn == DeadlinePhase::Over && self.next_of_functions() == Moment::NEVER
    }

    /// The run begins.
    pub(super) fn start_time(&mut self, now: Instant) {
        self.time.moved.packet = now;
        self.time.told.now = now;
    }

    /// The driver says what time it is.
    #[inline]
    pub(super) fn take_time(&mut self, clock: Clock) {
        self.time.clock = clock;
        if clock.packet > self.time.moved.packet {
            self.time.moved = clock;
        }
    }

    /// What time the driver has told last.
    pub(super) fn clock(&self) -> Clock {
        self.time.clock
    }

    /// The next deadline of a function.
    #[inline]
    fn next_of_functions(&self) -> Moment {
        let deadlines = self.links.iter().map(Link::next_deadline);
        deadlines.min().unwrap_or(Moment::NEVER)
    }

    /// When that deadline comes by the link's clock.
    pub(super) fn next_deadline_of_functions(&self, clock: Clock) -> Option<Instant> {
        let next = self.next_of_functions();
        if next <= self.time.told.passed || next.at == Instant::NEVER {
            return None;
        }
        match next.at > clock.packet.max(self.time.expected) {
            true => Some(clock.link + next.at.since(clock.packet)),
            false => (!self.does_deadline_wait(clock)).then_some(clock.link),
        }
    }

    /// Whether the next deadline waits for another, or for what is inside: it is told of when that has left.
    pub(super) fn does_deadline_wait(&self, clock: Clock) -> bool {
        let next = self.next_of_functions();
        self.time.turn != DeadlinePhase::Over || self.oldest_to_come(clock) < next.at
    }

    /// Packets that are older can come to no worker any more.
    #[inline]
    fn oldest_to_come(&self, clock: Clock) -> Instant {
        let clock = match self.current_task.is_ending() {
            true => Instant::NEVER,
            false => clock.packet.max(self.time.expected),
        };
        let waiting = self.links.iter().map(Link::oldest_waiting);
        let inside = self.path.under_way().oldest_waiting();
        waiting.chain(inside).fold(clock, Instant::min)
    }

    /// Workers are told the time, if it matters to them. While they take another chain it stands still.
    #[inline]
    pub(super) fn tell_time(&mut self) {
        if self.current_task.is_replacing() {
            return;
        }
        let oldest = self.oldest_to_come(self.time.clock);
        if self.limits.is_lossless || self.current_task.is_ending() {
            return self.take_turns(oldest);
        }
        let next = self.next_of_functions();
        let (passed, told) = (Moment::end_of(oldest), self.time.told.passed);
        let is_due = next <= passed && told < next;
        self.tell_workers(passed, is_due);
    }

    /// Deadlines come one at a time; when what one has let go of is through, the next.
    fn take_turns(&mut self, oldest: Instant) {
        let told = self.time.told.passed;
        if self.time.turn == DeadlinePhase::Informed
            && self.links.iter().all(|link| link.passed() >= told)
        {
            self.time.turn = DeadlinePhase::LetGo;
        }
        if self.time.turn == DeadlinePhase::LetGo && !self.has_packets_inside() {
            self.time.turn = DeadlinePhase::Over;
        }
        if self.time.turn != DeadlinePhase::Over {
            return self.tell_workers(told, false);
        }
        let (next, passed) = (self.next_of_functions(), Moment::end_of(oldest));
        let is_due = next.at != Instant::NEVER && next <= passed;
        match is_due {
            true => {
                self.time.turn = DeadlinePhase::Informed;
                self.tell_workers(next, true);
            }
            // At its end a run has no time but that of the deadlines; flows age by the clock.
            false => {
                let passed = Moment::end_of(oldest.min(self.time.clock.packet));
                self.tell_workers(passed, false);
            }
        }
    }

    fn has_packets_inside(&self) -> bool {
        let waits = |link: &Link| link.oldest_waiting() != Instant::NEVER;
        self.path.under_way().waiting() > 0 || self.links.iter().any(waits)
    }

    /// Workers hear it at once if it is due, else now and then.
    #[inline]
    fn tell_workers(&mut self, passed: Moment, is_due: bool) {
        let Timekeeper {
            told, clock, moved, ..
        } = &mut self.time;
        let now = moved.packet + clock.link.since(moved.link);
        let matters = |since: Instant, to: Instant| to.since(since) >= TICK;
        if is_due || matters(told.passed.at, passed.at) || matters(told.now, now) {
            told.now = told.now.max(now);
            told.passed = told.passed.max(passed);
        }
    }
}
