//! The invariants of the protocol, and how each is checked in every state.

use super::cores::Outcome;
use super::rules::Rules;
use super::state::{Flow, Frame, State};
use super::value::Value;
use std::fmt;
use twinpath_coherence::fsm::Fsm;
use twinpath_link::Message;

/// An invariant of the protocol, in the numbering of its design.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Invariant {
    /// ACTIVE: no unprocessed PLAIN or PULL of that flow is in flight, none waits at the cores.
    NothingBehind = 1,
    /// Exactly one place may write, and its value is the whole truth: what was applied, in order.
    OneTruth = 2,
    /// The cores import a generation's value at most once (in one life).
    OneImport = 3,
    /// A FROZEN slot is freed only after its value was imported.
    FreedAfterImport = 4,
    /// Packets of a flow are applied at most once, and applied and put out in order of arrival.
    OnceInOrder = 5,
    /// What is written back for a generation is what the slot holds frozen.
    FrozenStays = 6,
    /// A message of one flow or generation never touches another.
    NoCrossTalk = 7,
    /// Once frames are no longer lost, INCOMPLETE and FROZEN are left.
    Progress = 8,
}

impl Invariant {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::NothingBehind,
        Self::OneTruth,
        Self::OneImport,
        Self::FreedAfterImport,
        Self::OnceInOrder,
        Self::FrozenStays,
        Self::NoCrossTalk,
        Self::Progress,
    ];

    /// From the most telling to the least, for runs that break several at once.
    const BY_CLARITY: [Self; 8] = [
        Self::OneTruth,
        Self::NothingBehind,
        Self::FrozenStays,
        Self::FreedAfterImport,
        Self::OneImport,
        Self::NoCrossTalk,
        Self::Progress,
        Self::OnceInOrder,
    ];

    /// What the invariant says, with its number.
    pub const fn prose(self) -> &'static str {
        match self {
            Self::NothingBehind => {
                "1: while a slot is ACTIVE, no PLAIN or PULL of its flow waits to be processed"
            }
            Self::OneTruth => {
                "2: exactly one place may write a flow's value, and it holds everything applied so far"
            }
            Self::OneImport => "3: the value of a generation is imported at most once",
            Self::FreedAfterImport => "4: a FROZEN slot is freed only after its value was imported",
            Self::OnceInOrder => {
                "5: packets are applied once, in order of arrival, and leave in that order"
            }
            Self::FrozenStays => "6: a frozen value never changes",
            Self::NoCrossTalk => "7: a message of one flow or generation never touches another",
            Self::Progress => "8: INCOMPLETE and FROZEN are left once frames are no longer lost",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }

    /// Whether the invariant holds in a state, and held in the step that led to it.
    pub(super) fn holds(self, rules: &Rules, state: &State) -> bool {
        state.faults & self.bit() == 0
            && (self != Self::Progress || comes_to_rest(rules, state))
            && Flow::ALL
                .into_iter()
                .all(|flow| self.holds_for(state, flow))
    }

    /// What can be told of one flow in a state.
    pub(super) fn holds_for(self, state: &State, flow: Flow) -> bool {
        match self {
            Self::NothingBehind => nothing_behind(state, flow),
            Self::OneTruth => one_truth(state, flow),
            Self::FrozenStays => frozen_stays(state, flow),
            _ => true,
        }
    }

    /// The most telling invariant that is broken in a state.
    pub(super) fn broken(rules: &Rules, state: &State) -> Option<Self> {
        Self::BY_CLARITY
            .into_iter()
            .find(|invariant| !invariant.holds(rules, state))
    }

    /// How telling the invariant is: the lower, the more.
    pub(super) fn clarity(self) -> usize {
        let is_this = |other: &Self| *other == self;
        Self::BY_CLARITY
            .iter()
            .position(is_this)
            .unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prose())
    }
}

impl State {
    /// Remembers that this step broke an invariant.
    pub fn require(&mut self, kept: bool, invariant: Invariant) {
        if !kept {
            self.faults |= invariant.bit();
        }
    }

    /// A packet was applied, here or there.
    pub fn applied(&mut self, rules: &Rules, flow: Flow, packet: u8) {
        let truth = self.truth(flow);
        truth.history.push(rules.digit(packet));
        let in_order = packet > truth.applied;
        truth.applied = packet;
        self.require(in_order, Invariant::OnceInOrder);
    }

    /// A packet leaves.
    pub fn leaves(&mut self, flow: Flow, packet: u8) {
        let truth = self.truth(flow);
        let in_order = packet > truth.left && packet <= truth.applied;
        truth.left = packet;
        self.require(in_order, Invariant::OnceInOrder);
    }

    /// A flow that a crash left open is lost for good once no copy of its value is left.
    pub fn settle(&mut self) {
        for flow in Flow::ALL {
            if self.truth[flow as usize].is_open && !self.has_copy(flow) {
                self.truth(flow).decide(Value::NOTHING);
            }
        }
    }

    fn has_copy(&self, flow: Flow) -> bool {
        let carries = |message| move |frame: &Frame| frame.flow == flow && frame.message == message;
        self.fsm_of(flow) == Some(Fsm::Frozen)
            || self.to_cores.iter().any(carries(Message::WriteBack))
            || self.to_fast.iter().any(carries(Message::State))
    }
}

fn nothing_behind(state: &State, flow: Flow) -> bool {
    let waits = |frame: &Frame| {
        frame.flow == flow && matches!(frame.message, Message::Plain | Message::Pull)
    };
    let is_held = state.records[flow as usize].is_some_and(|record| record.held != 0);
    state.fsm_of(flow) != Some(Fsm::Active) || !(is_held || state.to_cores.iter().any(waits))
}

fn one_truth(state: &State, flow: Flow) -> bool {
    let truth = &state.truth[flow as usize];
    let record = state.records[flow as usize].unwrap_or_default();
    let cores_may_write = state.records[flow as usize].is_some() && record.grant.is_ours();
    // A packet that is held back has to come out some day.
    let cores_must_write = record.held != 0;
    match state.is_at_fast_path(flow) {
        true => !cores_may_write && (truth.is_open || state.value == truth.history),
        false => {
            (cores_may_write || !cores_must_write)
                && (truth.is_open || record.value == truth.history)
        }
    }
}

impl State {
    /// Whether a flow's value is wrong for good: not the truth where it counts, and no frame is
    /// under way to mend that.
    pub fn is_harmed(&self) -> bool {
        Flow::ALL.into_iter().any(|flow| {
            let history = self.truth[flow as usize].history;
            let mends = |frame: &Frame| {
                frame.flow == flow && frame.message == Message::WriteBack && frame.value == history
            };
            match self.is_at_fast_path(flow) {
                _ if self.truth[flow as usize].is_open => false,
                true => self.value != history,
                false => self.cores_value(flow) != history && !self.to_cores.iter().any(mends),
            }
        })
    }
}

fn frozen_stays(state: &State, flow: Flow) -> bool {
    state.fsm_of(flow) != Some(Fsm::Frozen)
        || state
            .to_cores
            .iter()
            .filter(|frame| frame.flow == flow && frame.message == Message::WriteBack)
            .filter(|frame| frame.generation == state.slot.generation)
            .all(|frame| frame.value == state.value)
}

/// Longest run to rest: every frame in flight, then a few time-outs and their frames.
const STEPS_TO_REST: usize = 64;

/// Lets a state run on without loss, reordering, crashes or new packets; timers run out when
/// nothing else is left to happen. Whether it leaves INCOMPLETE and FROZEN.
fn comes_to_rest(rules: &Rules, state: &State) -> bool {
    if state.is_at_rest() {
        return true;
    }
    let mut state = state.clone();
    (0..STEPS_TO_REST)
        .map_while(|_| state.undisturbed_step(rules).then(|| state.is_at_rest()))
        .any(|rests| rests)
}

impl State {
    fn is_at_rest(&self) -> bool {
        !matches!(self.slot.fsm, Fsm::Incomplete | Fsm::Frozen)
    }

    /// The next step of an undisturbed run; false if there is none.
    fn undisturbed_step(&mut self, rules: &Rules) -> bool {
        if !self.to_cores.frames.is_empty() {
            if let Some(frame) = self.to_cores.deliver(0, rules.checks_numbers()) {
                self.receive(rules, &frame, Outcome::Pass);
            }
        } else if !self.to_fast.frames.is_empty() {
            if let Some(frame) = self.to_fast.deliver(0, rules.checks_numbers()) {
                self.returned(rules, &frame);
            }
        } else if rules.scope.budget.timeouts > 0 {
            self.deadline(rules);
        } else {
            return false;
        }
        true
    }
}
