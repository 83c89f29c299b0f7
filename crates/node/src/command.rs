//! What an operator wants of a run.

use crate::figures::Told;
use crate::machine::{Changed, Machine, Refusal};
use crate::replacement::Replacement;
use crate::worker::Worker;
use std::sync::mpsc;
use twinpath_core::Instant;

/// What became of what was asked for: another chain.
pub type Replaced = Result<Changed, (Box<Replacement>, Refusal)>;

/// Something that a worker is asked, at a time on the packet clock.
pub type Question = Box<dyn FnOnce(&Worker, Instant) + Send>;

/// Something that is taken of a worker.
pub type Taking = Box<dyn FnOnce(&mut Worker) + Send>;

/// Something that the machine is asked.
pub type MachineQuestion = Box<dyn FnOnce(&Machine) + Send>;

/// What an operator wants.
pub enum Command {
    /// To know something of a worker, by its number.
    Ask(usize, Question),
    /// To take something of the first worker that packets do not meet.
    Take(Taking),
    /// To know something of the machine.
    AskMachine(MachineQuestion),
    /// The figures of the run so far.
    Figures(mpsc::Sender<Told>),
    /// Another chain.
    Replace(Box<Replacement>, mpsc::Sender<Replaced>),
}

/// Where a run hears what its operator wants.
pub type Commands = mpsc::Receiver<Command>;

/// A run without an operator.
pub fn no_commands() -> Commands {
    mpsc::channel().1
}
