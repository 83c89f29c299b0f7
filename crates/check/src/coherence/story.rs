//! Tells a run in words that a network engineer can follow.

use super::Verdict;
use super::class::Class;
use super::invariants::Invariant;
use super::model::Step;
use super::rules::Rules;
use super::search::{CounterExample, harm};
use super::slow::Outcome;
use super::state::{Flow, Frame, Queue, State};
use std::fmt;
use twinpath_coherence::fsm::Fsm;
use twinpath_coherence::grant::Import;
use twinpath_link::Message;

/// Runs a counter-example again, with the packets' and generations' own names, and tells it.
pub(super) fn tell(rules: &Rules, found: &CounterExample) -> Verdict {
    let mut run = Run::new(*rules);
    let steps = run.tell(&found.steps);
    let outcome = outcome(found.invariant, &run.told, run.flow);
    let harm = harm(rules, &run.searched);
    let mut consequence = run.tell(&harm);
    if !harm.is_empty() {
        consequence.push(self::outcome(Invariant::OneTruth, &run.told, run.flow));
    }
    Verdict::Broken {
        invariant: found.invariant,
        steps,
        outcome,
        consequence,
    }
}

/// A run kept twice: renamed, as the search had it, and as it is told.
pub(super) struct Run {
    search: Rules,
    pub rules: Rules,
    searched: State,
    pub told: State,
    /// Whether the flows' names are swapped in what was searched.
    swapped: bool,
    /// The flow that the last step was about.
    flow: Flow,
}

impl Run {
    pub fn new(search: Rules) -> Self {
        let rules = Rules {
            renames: false,
            ..search
        };
        Self {
            search,
            rules,
            searched: search.first_state(),
            told: rules.first_state(),
            swapped: false,
            flow: Flow::A,
        }
    }

    #[cfg(test)]
    pub fn searched(&self) -> &State {
        &self.searched
    }

    /// The told state in the search's names: it should be the state searched.
    #[cfg(test)]
    pub fn renamed(&self) -> State {
        let mut state = self.told.clone();
        if self.swapped {
            state.swap_flows();
        }
        state.rename();
        state
    }

    fn tell(&mut self, steps: &[Step]) -> Vec<String> {
        let mut told = Vec::with_capacity(steps.len());
        for &step in steps {
            let before = self.told.clone();
            let step = self.take(step);
            self.flow = flow_of(step, &before).unwrap_or(self.flow);
            told.push(sentence(&self.rules, step, &before, &self.told));
        }
        told
    }

    /// Takes a step of the search, and returns it in the names of the telling.
    pub fn take(&mut self, step: Step) -> Step {
        let told_step = if self.swapped { swap(step) } else { step };
        let swaps = self.search.take_and_rename(&mut self.searched, step);
        self.swapped ^= swaps;
        self.told = self.rules.after(&self.told, told_step);
        told_step
    }
}

fn swap(step: Step) -> Step {
    match step {
        Step::Arrive(flow, class) => Step::Arrive(flow.other(), class),
        Step::Recall(flow) => Step::Recall(flow.other()),
        Step::Timer(flow) => Step::Timer(flow.other()),
        Step::Expire(flow) => Step::Expire(flow.other()),
        step => step,
    }
}

/// The flow that a step is about.
fn flow_of(step: Step, before: &State) -> Option<Flow> {
    let carried = |queue: &Queue, place: u8| {
        let (_, frame) = queue.frames.get(usize::from(place))?;
        Some(frame.flow)
    };
    match step {
        Step::Arrive(flow, _) | Step::Recall(flow) | Step::Timer(flow) | Step::Expire(flow) => {
            Some(flow)
        }
        Step::ToWorker(place, _) => carried(&before.to_worker, place),
        Step::ToFast(place) => carried(&before.to_fast, place),
        Step::LoseToWorker => carried(&before.to_worker, 0),
        Step::LoseToFast => carried(&before.to_fast, 0),
        Step::Deadline | Step::Idle => before.key,
        Step::Crash { .. } => None,
    }
}

fn sentence(rules: &Rules, step: Step, before: &State, after: &State) -> String {
    let told = StepText {
        rules,
        before,
        after,
    };
    match step {
        Step::Arrive(flow, class) => told.arrival(flow, class),
        Step::ToWorker(place, outcome) => told.at_worker(place.into(), outcome),
        Step::ToFast(place) => told.at_fast_path(place.into()),
        Step::LoseToWorker => lost(&before.to_worker, "the workers"),
        Step::LoseToFast => lost(&before.to_fast, "the fast path"),
        Step::Deadline => told.deadline(),
        Step::Idle => told.idle(),
        Step::Recall(flow) => {
            format!(
                "the workers have not heard of {flow} for long{}",
                told.sent(0)
            )
        }
        Step::Timer(flow) => format!(
            "at the slow path a timer changes {flow}: value {} -> {}{}",
            before.slow_value(flow),
            after.slow_value(flow),
            told.sent(0)
        ),
        Step::Expire(flow) => format!(
            "at the slow path {flow} expires: value {} -> []",
            before.slow_value(flow)
        ),
        Step::Crash {
            loses_to_worker,
            loses_to_fast,
        } => crash(loses_to_worker, loses_to_fast),
    }
}

fn lost(queue: &Queue, to: &str) -> String {
    let frame = queue.iter().next();
    let frame = frame.map_or(String::new(), Frame::to_string);
    format!("{frame} is lost on its way to {to}")
}

fn crash(loses_to_worker: bool, loses_to_fast: bool) -> String {
    let link = match (loses_to_worker, loses_to_fast) {
        (false, false) => "frames on the link survive",
        (true, false) => "frames on their way to them are lost too",
        (false, true) => "frames on their way back are lost too",
        (true, true) => "all frames on the link are lost too",
    };
    format!("the workers crash and restart: all they knew of flows is lost; {link}")
}

/// One step with the states around it.
struct StepText<'a> {
    rules: &'a Rules,
    before: &'a State,
    after: &'a State,
}

impl StepText<'_> {
    fn arrival(&self, flow: Flow, class: Class) -> String {
        let packet = self.after.last_packet;
        let class = match class {
            Class::Simple => "simple",
            Class::Cold => "simple, but its flow is not hot",
            Class::Last => "simple, the last of its flow",
            Class::Complex => "complex",
        };
        let waits = self.after.waiting.iter().any(|(other, _)| *other == packet);
        let done = match self.sent(packet) {
            _ if waits => "; it waits for the answer to the pull".into(),
            sent if sent.is_empty() => format!(
                "; the fast path applies it and lets it out, slot value {}",
                self.after.value
            ),
            sent => sent,
        };
        format!(
            "packet {packet} of {flow} arrives, {class}: {}{done}",
            self.slot(flow)
        )
    }

    /// What became of the slot, as a flow sees it.
    fn slot(&self, flow: Flow) -> String {
        let name = |state: &State| match state.fsm_of(flow) {
            Some(fsm) => fsm.name().to_uppercase(),
            None if state.slot.fsm == Fsm::Initial => Fsm::Initial.name().to_uppercase(),
            None => "taken by the other flow".into(),
        };
        let (before, after) = (name(self.before), name(self.after));
        if before != after {
            return format!("slot {before} -> {after}");
        }
        match self.before.slot.generation == self.after.slot.generation {
            true => format!("slot stays {after}"),
            false => format!("the pull is cancelled and repeated, slot stays {after}"),
        }
    }

    /// The frames that the step put on the link; `packet` is the one just spoken of.
    fn sent(&self, packet: u8) -> String {
        let mut text = String::new();
        for (before, after, to) in [
            (
                &self.before.to_worker,
                &self.after.to_worker,
                "to the slow path",
            ),
            (&self.before.to_fast, &self.after.to_fast, "back"),
        ] {
            let is_new = |number: &u32| before.frames.iter().all(|(old, _)| old != number);
            for (_, frame) in after.frames.iter().filter(|(number, _)| is_new(number)) {
                match frame.packet != 0 && frame.packet == packet {
                    true => text.push_str(&format!("; {} goes {to} with it", frame.name())),
                    false => text.push_str(&format!("; {frame} goes {to}")),
                }
            }
        }
        text
    }

    fn at_worker(&self, place: usize, outcome: Outcome) -> String {
        let frame = &self.before.to_worker.frames[place].1;
        let mut text = format!("{frame} reaches the workers");
        text.push_str(&overtaken(&self.before.to_worker, place));
        text.push_str(self.import(frame));
        if frame.packet != 0 {
            text.push_str(match outcome {
                Outcome::Pass => ": applied",
                Outcome::Decline => ": applied, but other work is pending",
                Outcome::Refuse => ": no room for another flow, dropped",
                Outcome::Drop => ": applied, then dropped by the network function",
                Outcome::Hold => ": held back by the network function",
                Outcome::End => ": applied, and the flow is over",
            });
        }
        let value = self.after.slow_value(frame.flow);
        text.push_str(&format!(
            ", value at the slow path {value}{}",
            self.sent(frame.packet)
        ));
        text
    }

    /// Whether a write-back is imported, asked of production once more.
    fn import(&self, frame: &Frame) -> &'static str {
        if frame.message != Message::WriteBack {
            return "";
        }
        let record = self.before.records[frame.flow as usize].unwrap_or_default();
        let mut grant = record.grant;
        let same_life = frame.epoch == self.before.epoch;
        match grant.write_back(frame.generation, same_life, &self.rules.safeguards) {
            Import::Take => ": its value is imported",
            Import::Known => ": its value is not imported (again)",
        }
    }

    fn at_fast_path(&self, place: usize) -> String {
        let frame = &self.before.to_fast.frames[place].1;
        let mut text = format!("{frame} reaches the fast path");
        text.push_str(&overtaken(&self.before.to_fast, place));
        let changed = self.before.slot != self.after.slot || self.before.key != self.after.key;
        if changed {
            text.push_str(&format!(": {}", self.slot(frame.flow)));
        } else if frame.message != Message::Return {
            text.push_str(": ignored");
        }
        if changed && self.after.fsm_of(frame.flow) == Some(Fsm::Active) {
            text.push_str(&format!(" with value {}", self.after.value));
        }
        let awaited = self.before.slot.generation;
        if changed && frame.message != Message::Recall && frame.generation != awaited {
            text.push_str(&format!(", although it waits for g={awaited}"));
        }
        if frame.packet != 0 {
            text.push_str(&format!("; packet {} leaves", frame.packet));
        }
        text + &self.sent(0)
    }

    fn deadline(&self) -> String {
        let Some(flow) = self.before.key else {
            return String::new();
        };
        let missing = match self.before.slot.fsm {
            Fsm::Incomplete => "no answer to the pull",
            _ => "no ACK",
        };
        format!("{missing} in time: {}{}", self.slot(flow), self.sent(0))
    }

    fn idle(&self) -> String {
        let Some(flow) = self.before.key else {
            return String::new();
        };
        format!(
            "{flow} is idle for its time to live: {}{}",
            self.slot(flow),
            self.sent(0)
        )
    }
}

fn overtaken(queue: &Queue, place: usize) -> String {
    let names: Vec<String> = queue.iter().take(place).map(Frame::to_string).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(", overtaking {}", names.join(" and ")),
    }
}

/// How an invariant is broken: what everyone holds of the flow, and what is under way.
/// `last_flow` is that of the last step.
fn outcome(invariant: Invariant, state: &State, last_flow: Flow) -> String {
    let is_broken = |flow: &Flow| !invariant.holds_for(state, *flow);
    let flow = Flow::ALL.into_iter().find(is_broken).unwrap_or(last_flow);
    let slot = match state.fsm_of(flow) {
        Some(fsm @ (Fsm::Active | Fsm::Frozen)) => format!(
            "the slot is {} with value {}",
            fsm.name().to_uppercase(),
            state.value
        ),
        _ => "the slot holds no value".into(),
    };
    format!(
        "Of {flow} {slot}, the workers hold {}; the true history is {}.{}",
        state.slow_value(flow),
        state.truth[flow as usize].history,
        under_way(state, flow)
    )
}

fn under_way(state: &State, flow: Flow) -> String {
    let frames: Vec<String> = [
        (&state.to_worker, "to the slow path"),
        (&state.to_fast, "back"),
    ]
    .into_iter()
    .flat_map(|(queue, to)| {
        let of_flow = queue.iter().filter(move |frame| frame.flow == flow);
        of_flow.map(move |frame| format!("{frame} ({to})"))
    })
    .collect();
    match frames.is_empty() {
        true => String::new(),
        false => format!(" Still under way: {}.", frames.join(", ")),
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow {self:?}")
    }
}

impl Frame {
    fn name(&self) -> String {
        let Self {
            generation, value, ..
        } = self;
        let message = self.message.name();
        match self.message {
            Message::Plain | Message::Return => message.into(),
            Message::WriteBack | Message::State => format!("{message}(g={generation}, {value})"),
            _ => format!("{message}(g={generation})"),
        }
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, flow) = (self.name(), self.flow);
        match self.packet {
            0 => write!(f, "{name} of {flow} on a frame of its own"),
            packet => write!(f, "{name} with packet {packet} of {flow}"),
        }
    }
}
