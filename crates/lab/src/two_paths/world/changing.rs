//! The chain becomes another: the machine changes it, and has the workers do their part.

use super::super::switch::clock;
use super::{Event, READING, Testbed};
use twinpath_engine::Agenda;
use twinpath_node::machine::{ChangeOutcome, WorkerCommand};

impl Testbed<'_> {
    /// The operator wants the other chain.
    pub(super) fn change_chain(&mut self) {
        if let Some(change) = &mut self.change
            && let Some(replacement) = change.begin()
            && let Err(replacement) = self.node.machine.change(replacement)
        {
            change.put_back(replacement);
        }
    }

    /// A change goes on: the machine is told the time after all that happens, and what workers answer
    /// when nothing of theirs is under way any more.
    pub(super) fn go_on(&mut self, agenda: &mut Agenda<Event>) {
        if !self.is_changing() {
            return;
        }
        let clock = clock(agenda.now());
        self.node.machine.advance(clock, &mut self.output);
        if self.node.machine.room() == 0
            && let Some(change) = &mut self.change
        {
            change.pause(agenda.now());
        }
        self.put_out(agenda);
        while self.under_way == 0
            && let Some((worker, answer)) = self.answers.pop_front()
        {
            let out = &mut self.output;
            self.node.machine.answered(worker, answer, clock, out);
            self.put_out(agenda);
        }
        self.let_in(agenda);
    }

    fn is_changing(&self) -> bool {
        let change = self.change.as_ref();
        change.is_some_and(|change| change.is_under_way() || change.has_waiting())
    }

    /// What has waited goes on, as soon as the machine takes packets again.
    fn let_in(&mut self, agenda: &mut Agenda<Event>) {
        while self.node.machine.room() > 0
            && let Some(frame) = self
                .change
                .as_mut()
                .and_then(|change| change.next_waiting())
        {
            self.enter(frame, agenda);
        }
    }

    /// A worker does what it is told.
    pub(super) fn execute(
        &mut self,
        worker: usize,
        command: WorkerCommand,
        agenda: &mut Agenda<Event>,
    ) {
        let pools = &mut self.node.worker_pools[worker];
        let answer = self.node.workers[worker].execute(command, pools, &mut self.returns);
        self.answers.push_back((worker, answer));
        self.send_back(worker, None, agenda);
    }

    pub(super) fn came_of_change(&mut self, outcome: ChangeOutcome, agenda: &mut Agenda<Event>) {
        let Some(change) = &mut self.change else {
            return;
        };
        match outcome {
            ChangeOutcome::Changed(_) => {
                let setting = change.end(agenda.now());
                if let (Ok(elements), Ok(steering)) = (setting.elements(), setting.steering()) {
                    self.bank.serve(&setting, &elements);
                    self.steering = steering;
                }
            }
            // It was not the moment: nothing has changed.
            ChangeOutcome::Refused(replacement, _) => {
                change.put_back(replacement);
                agenda.after(READING, Event::Change);
            }
            ChangeOutcome::Stopped { .. } => {}
        }
    }
}
