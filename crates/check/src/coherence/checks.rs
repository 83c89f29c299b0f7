//! How each invariant is checked in every state.

use super::invariants::Invariant;
use super::rules::Rules;
use super::slow::Outcome;
use super::state::{Flow, Frame, State};
use super::value::Value;
use twinpath_coherence::fsm::Fsm;
use twinpath_link::Message;

impl Invariant {
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
}

impl State {
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
            || self.to_worker.iter().any(carries(Message::WriteBack))
            || self.to_fast.iter().any(carries(Message::State))
    }
}

fn nothing_behind(state: &State, flow: Flow) -> bool {
    let waits = |frame: &Frame| {
        frame.flow == flow && matches!(frame.message, Message::Plain | Message::Pull)
    };
    let is_held = state.records[flow as usize].is_some_and(|record| record.held != 0);
    let is_active = state.fsm_of(flow) == Some(Fsm::Active);
    let may_wait = state.slot.fsm == Fsm::Incomplete && state.slot.waits;
    (may_wait || state.waiting.is_empty())
        && !(is_active && (is_held || state.to_worker.iter().any(waits)))
}

fn one_truth(state: &State, flow: Flow) -> bool {
    let truth = &state.truth[flow as usize];
    let record = state.records[flow as usize].unwrap_or_default();
    let slow_path_may_write = state.records[flow as usize].is_some() && record.grant.is_ours();
    // A packet that is held back has to come out some day.
    let slow_path_must_write = record.held != 0;
    match state.is_at_fast_path(flow) {
        true => !slow_path_may_write && (truth.is_open || state.value == truth.history),
        false => {
            (slow_path_may_write || !slow_path_must_write)
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
                false => self.slow_value(flow) != history && !self.to_worker.iter().any(mends),
            }
        })
    }
}

fn frozen_stays(state: &State, flow: Flow) -> bool {
    state.fsm_of(flow) != Some(Fsm::Frozen)
        || state
            .to_worker
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
        if !self.to_worker.frames.is_empty() {
            if let Some(frame) = self.to_worker.deliver(0, rules.checks_numbers()) {
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
