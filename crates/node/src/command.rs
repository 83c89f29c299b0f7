//! What an operator wants of a run.

use crate::figures::PartFigures;
use crate::machine::{ChangeOutcome, ChangeRefusal, Changed, Machine};
use crate::replacement::Replacement;
use crate::worker::Worker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use twinpath_core::Instant;

/// What became of what was asked for: another chain.
pub type ChangeResult = Result<Changed, (Box<Replacement>, ChangeRefusal)>;

/// Something that a worker is asked, at a time on the packet clock.
pub type Question = Box<dyn FnOnce(&Worker, Instant) + Send>;

/// Something that is taken of a worker.
pub type WorkerAction = Box<dyn FnOnce(&mut Worker) + Send>;

/// Something that the machine is asked.
pub type MachineQuestion = Box<dyn FnOnce(&Machine) + Send>;

/// What an operator wants.
pub enum Command {
    /// To know something of a worker, by its number.
    Ask(usize, Question),
    /// To take something of a worker, by its number, that packets do not meet.
    Take(usize, WorkerAction),
    /// To know something of the machine.
    AskMachine(MachineQuestion),
    /// The figures of the run so far.
    Figures(mpsc::Sender<PartFigures>),
    /// Another chain.
    Replace(Box<Replacement>, mpsc::Sender<ChangeResult>),
}

/// Where a run hears what its operator wants.
pub type Commands = mpsc::Receiver<Command>;

/// A run without an operator.
pub fn no_commands() -> Commands {
    mpsc::channel().1
}

/// A run's commands, one after the other: while the chain changes none is taken.
pub(crate) struct CommandQueue<'a> {
    commands: Option<&'a Commands>,
    /// Who waits for a change.
    asked: Option<mpsc::Sender<ChangeResult>>,
}

impl<'a> CommandQueue<'a> {
    pub fn new(commands: Option<&'a Commands>) -> Self {
        Self {
            commands,
            asked: None,
        }
    }

    /// Whether somebody waits for a change.
    pub fn is_changing(&self) -> bool {
        self.asked.is_some()
    }

    fn next(&self) -> Option<Command> {
        let commands = self.commands.filter(|_| !self.is_changing())?;
        commands.try_recv().ok()
    }

    /// Whoever waits for a change hears what came of it. If it is the run that is over, returns
    /// whether all that was under way has come to its end.
    pub fn came_of_command(&mut self, outcome: ChangeOutcome) -> Option<bool> {
        let replaced = match outcome {
            ChangeOutcome::Stopped { is_drained } => return Some(is_drained),
            ChangeOutcome::Changed(changed) => Ok(changed),
            ChangeOutcome::Refused(replacement, why) => Err((replacement, why)),
        };
        if let Some(asked) = self.asked.take() {
            // Whoever has gone away hears nothing.
            let _ = asked.send(replaced);
        }
        None
    }
}

/// A driver that hears commands.
pub(crate) trait CommandTarget<'a> {
    fn queue(&mut self) -> &mut CommandQueue<'a>;

    fn machine(&mut self) -> &mut Machine;

    /// Whoever asks a worker that there is not hears no answer.
    fn ask(&mut self, worker: usize, question: Question);

    /// The same of whoever takes something.
    fn take(&mut self, worker: usize, take: WorkerAction);

    fn tell_figures(&mut self, told: &mpsc::Sender<PartFigures>);

    /// Does what the operator wants next.
    fn take_command(&mut self) {
        match self.queue().next() {
            Some(Command::Ask(worker, question)) => self.ask(worker, question),
            Some(Command::Take(worker, take)) => self.take(worker, take),
            Some(Command::AskMachine(question)) => answer(question, self.machine()),
            Some(Command::Figures(told)) => self.tell_figures(&told),
            Some(Command::Replace(replacement, asked)) => {
                match self.machine().change(replacement) {
                    Ok(()) => self.queue().asked = Some(asked),
                    // Whoever has gone away hears nothing.
                    Err(replacement) => drop(asked.send(Err((replacement, ChangeRefusal::Busy)))),
                }
            }
            None => {}
        }
    }
}

/// Whoever asked what cannot be answered hears no answer.
pub(crate) fn answer(question: MachineQuestion, machine: &Machine) {
    let _ = catch_unwind(AssertUnwindSafe(|| question(machine)));
}
