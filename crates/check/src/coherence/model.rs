//! The protocol as a state space: which steps a state allows, and where they lead.

use super::class::Class;
use super::invariants::Invariant;
use super::rules::Rules;
use super::scope::spend;
use super::slow::Outcome;
use super::state::{Flow, Frame, State};
use stateright::{Model, Property};
use twinpath_coherence::fsm::Fsm;
use twinpath_link::Message;

/// One step of the system.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A packet arrives at the fast path.
    Arrive(Flow, Class),
    /// The frame at this place reaches the workers.
    ToWorker(u8, Outcome),
    /// The frame at this place reaches the fast path.
    ToFast(u8),
    /// The next frame for the slow path is lost.
    LoseToWorker,
    /// The next frame for the fast path is lost.
    LoseToFast,
    /// The slot's deadline passes.
    Deadline,
    /// The slot's flow is idle for its time to live.
    Idle,
    /// The workers recall a granted flow.
    Recall(Flow),
    /// Time makes the network function change a flow.
    Timer(Flow),
    /// A flow's state expires at the slow path.
    Expire(Flow),
    /// The workers crash and restart.
    Crash {
        loses_to_worker: bool,
        loses_to_fast: bool,
    },
}

impl Rules {
    pub fn first_state(&self) -> State {
        let mut state = State::new(self.scope.budget);
        if self.renames {
            state.rename();
        }
        state
    }

    /// The state after a step.
    pub fn after(&self, before: &State, step: Step) -> State {
        let mut state = before.clone();
        self.take_and_rename(&mut state, step);
        state
    }

    /// Takes a step; returns whether renaming swapped the flows' names.
    pub fn take_and_rename(&self, state: &mut State, step: Step) -> bool {
        self.take(state, step);
        state.settle();
        self.renames && state.rename()
    }

    fn take(&self, state: &mut State, step: Step) {
        match step {
            Step::Arrive(flow, class) => {
                spend(&mut state.left.packets);
                if class == Class::Last {
                    spend(&mut state.left.ends);
                }
                state.arrive(self, flow, class);
            }
            Step::ToWorker(place, outcome) => self.deliver_to_worker(state, place, outcome),
            Step::ToFast(place) => self.deliver_to_fast(state, place),
            Step::LoseToWorker => {
                spend(&mut state.left.losses);
                state.to_worker.lose_first();
            }
            Step::LoseToFast => {
                spend(&mut state.left.losses);
                state.to_fast.lose_first();
            }
            Step::Deadline => {
                spend(&mut state.left.timeouts);
                state.deadline(self);
            }
            Step::Idle => {
                spend(&mut state.left.idles);
                state.idle(self);
            }
            Step::Recall(flow) => {
                spend(&mut state.left.recalls);
                if let Some(generation) = to_recall(state, flow) {
                    state.send_recall(flow, generation);
                }
            }
            Step::Timer(flow) => {
                spend(&mut state.left.timers);
                state.wake(self, flow);
            }
            Step::Expire(flow) => {
                spend(&mut state.left.timers);
                state.expire(flow);
            }
            Step::Crash {
                loses_to_worker,
                loses_to_fast,
            } => {
                spend(&mut state.left.crashes);
                state.crash(loses_to_worker, loses_to_fast);
            }
        }
    }

    fn deliver_to_worker(&self, state: &mut State, place: u8, outcome: Outcome) {
        match outcome {
            Outcome::Pass => {}
            Outcome::Decline => spend(&mut state.left.declines),
            Outcome::Refuse => spend(&mut state.left.refusals),
            Outcome::Drop => spend(&mut state.left.drops),
            Outcome::Hold => spend(&mut state.left.holds),
            Outcome::End => spend(&mut state.left.ends),
        }
        if place > 0 {
            spend(&mut state.left.reorderings);
        }
        let frame = state.to_worker.deliver(place.into(), self.checks_numbers());
        if let Some(frame) = frame {
            state.receive(self, &frame, outcome);
        }
    }

    fn deliver_to_fast(&self, state: &mut State, place: u8) {
        if place > 0 {
            spend(&mut state.left.reorderings);
        }
        let frame = state.to_fast.deliver(place.into(), self.checks_numbers());
        if let Some(frame) = frame {
            state.returned(self, &frame);
        }
    }

    /// The steps that a state allows.
    pub fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        if state.faults != 0 {
            return;
        }
        self.arrivals(state, steps);
        self.deliveries(state, steps);
        self.timers(state, steps);
        self.faults(state, steps);
    }

    fn arrivals(&self, state: &State, steps: &mut Vec<Step>) {
        let is_full = state.to_worker.frames.len() >= self.scope.to_worker.into();
        if state.left.packets == 0 {
            return;
        }
        // Before anything has happened the flows are alike.
        let flows = if state.started { self.scope.flows } else { 1 };
        for &flow in &Flow::ALL[..flows.into()] {
            // Where packets wait none needs room on the link.
            let may_wait = state.slot.waits && state.key == Some(flow);
            if is_full && !may_wait {
                continue;
            }
            let mut arrives = |class| steps.push(Step::Arrive(flow, class));
            arrives(Class::Simple);
            arrives(Class::Complex);
            match state.fsm_of(flow) {
                None | Some(Fsm::Initial) => arrives(Class::Cold),
                Some(Fsm::Active) if state.left.ends > 0 => arrives(Class::Last),
                _ => {}
            }
        }
    }

    fn deliveries(&self, state: &State, steps: &mut Vec<Step>) {
        if state.to_fast.frames.len() < self.scope.to_fast.into() {
            for place in self.places(state, state.to_worker.frames.len()) {
                self.outcomes(state, place, steps);
            }
        }
        for place in self.places(state, state.to_fast.frames.len()) {
            steps.push(Step::ToFast(place));
        }
    }

    /// The places in a queue from which a frame may be delivered.
    fn places(&self, state: &State, frames: usize) -> std::ops::Range<u8> {
        let reachable = if state.left.reorderings > 0 {
            frames
        } else {
            1
        };
        0..frames.min(reachable) as u8
    }

    fn outcomes(&self, state: &State, place: u8, steps: &mut Vec<Step>) {
        let mut may = |outcome| steps.push(Step::ToWorker(place, outcome));
        let frame = state.to_worker.frames[usize::from(place)].1;
        let record = state.records[frame.flow as usize];
        may(Outcome::Pass);
        let admits = frame.packet != 0 || frame.message == Message::WriteBack;
        if state.left.refusals > 0 && admits && record.is_none() {
            may(Outcome::Refuse);
        }
        if frame.packet == 0 {
            return;
        }
        let holds_none = record.is_none_or(|record| record.held == 0);
        if state.left.declines > 0 && frame.message == Message::Pull {
            may(Outcome::Decline);
        }
        if state.left.drops > 0 {
            may(Outcome::Drop);
        }
        if state.left.holds > 0 && holds_none {
            may(Outcome::Hold);
        }
        if state.left.ends > 0 {
            may(Outcome::End);
        }
    }

    fn timers(&self, state: &State, steps: &mut Vec<Step>) {
        let has_room = state.to_worker.frames.len() < self.scope.to_worker.into();
        let may_time_out = state.left.timeouts > 0;
        match state.slot.fsm {
            Fsm::Incomplete if may_time_out => steps.push(Step::Deadline),
            Fsm::Frozen if may_time_out && has_room => steps.push(Step::Deadline),
            Fsm::Active if state.left.idles > 0 && has_room => steps.push(Step::Idle),
            _ => {}
        }
        if state.to_fast.frames.len() >= self.scope.to_fast.into() {
            return;
        }
        for &flow in &Flow::ALL[..self.scope.flows.into()] {
            self.slow_timers(state, flow, steps);
        }
    }

    fn slow_timers(&self, state: &State, flow: Flow, steps: &mut Vec<Step>) {
        let Some(record) = state.records[flow as usize] else {
            return;
        };
        let is_recalled = |frame: &Frame| frame.flow == flow && frame.message == Message::Recall;
        if state.left.recalls > 0
            && to_recall(state, flow).is_some()
            && !state.to_fast.iter().any(is_recalled)
        {
            steps.push(Step::Recall(flow));
        }
        if state.left.timers > 0 {
            steps.push(Step::Timer(flow));
            if record.held == 0 && !record.value.is_nothing() {
                steps.push(Step::Expire(flow));
            }
        }
    }

    fn faults(&self, state: &State, steps: &mut Vec<Step>) {
        let waiting = [&state.to_worker, &state.to_fast].map(|queue| !queue.frames.is_empty());
        if state.left.losses > 0 {
            if waiting[0] {
                steps.push(Step::LoseToWorker);
            }
            if waiting[1] {
                steps.push(Step::LoseToFast);
            }
        }
        if state.left.crashes == 0 || !state.started {
            return;
        }
        for (loses_to_worker, loses_to_fast) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            if (waiting[0] || !loses_to_worker) && (waiting[1] || !loses_to_fast) {
                steps.push(Step::Crash {
                    loses_to_worker,
                    loses_to_fast,
                });
            }
        }
    }
}

fn to_recall(state: &State, flow: Flow) -> Option<u32> {
    state.records[flow as usize]?.grant.to_recall()
}

impl Model for Rules {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.first_state()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        self.steps(state, steps);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let next = self.after(state, step);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Invariant::ALL.map(property).into()
    }
}

fn property(invariant: Invariant) -> Property<Rules> {
    let condition: fn(&Rules, &State) -> bool = match invariant {
        Invariant::NothingBehind => |rules, state| Invariant::NothingBehind.holds(rules, state),
        Invariant::OneTruth => |rules, state| Invariant::OneTruth.holds(rules, state),
        Invariant::OneImport => |rules, state| Invariant::OneImport.holds(rules, state),
        Invariant::FreedAfterImport => {
            |rules, state| Invariant::FreedAfterImport.holds(rules, state)
        }
        Invariant::OnceInOrder => |rules, state| Invariant::OnceInOrder.holds(rules, state),
        Invariant::FrozenStays => |rules, state| Invariant::FrozenStays.holds(rules, state),
        Invariant::NoCrossTalk => |rules, state| Invariant::NoCrossTalk.holds(rules, state),
        Invariant::Progress => |rules, state| Invariant::Progress.holds(rules, state),
    };
    Property::always(invariant.prose(), condition)
}
