//! `twinpath check`: proofs by exhaustion, and searches by seed.

mod changes;
mod faults;

use crate::error::CommandError;
use crate::{Outcome, output};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use twinpath_check::coherence::{Progress, Scope, Verdict, check_and_report};
use twinpath_coherence::Safeguard;
use twinpath_control::report::units;

/// Searches what can happen for something that must not
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath check coherence",
    "twinpath check changes",
    "twinpath check faults --seeds 10000",
    "twinpath check coherence --without generations    # what generations are good for",
))]
pub struct Arguments {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(clap::Subcommand)]
enum Subject {
    Coherence(Coherence),
    Changes(changes::Changes),
    Faults(faults::Faults),
}

/// The protocol that moves flow state between the paths
///
/// Two flows share one slot of the fast path. Every order in which packets arrive, frames are
/// delivered or lost, timers run out and the workers crash is searched, with the data plane's own
/// transition functions. Exit code 0 if the protocol's invariants hold in every state, 1 with a
/// shortest way to break one.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath check coherence --scope small",
    "twinpath check coherence --without freeze",
))]
struct Coherence {
    /// Take one safeguard of the protocol away, to see what it is good for
    #[arg(long, value_enum)]
    without: Option<Without>,
    /// How much is searched
    #[arg(long, value_enum, default_value_t = ScopeName::Standard)]
    scope: ScopeName,
}

/// `--without`
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Without(Safeguard);

impl ValueEnum for Without {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Without; 6] = {
            let [a, b, c, d, e, f] = Safeguard::ALL;
            [
                Without(a),
                Without(b),
                Without(c),
                Without(d),
                Without(e),
                Without(f),
            ]
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            Safeguard::Generations => "Messages of one generation never touch another",
            Safeguard::Cancel => "A pull during which another packet passed is cancelled",
            Safeguard::WriteBack => "The frozen value is sent until it is acknowledged",
            Safeguard::Freeze => "A slot freezes before the next packet",
            Safeguard::TtlWriteBack => "An idle slot is written back, not just freed",
            Safeguard::Fifo => "Frames that overtook others are dropped",
        };
        Some(PossibleValue::new(self.0.name()).help(help))
    }
}

/// `--scope`
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum ScopeName {
    /// Two frames to the slow path and one back: seconds
    Small,
    /// Three frames to the slow path and two back: about a minute
    Standard,
    /// Three frames each way: long, and gigabytes of memory
    Deep,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Small => Self::small(),
            ScopeName::Standard => Self::standard(),
            ScopeName::Deep => Self::deep(),
        }
    }
}

/// Checks.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    match &arguments.subject {
        Subject::Coherence(coherence) => coherence.check(),
        Subject::Changes(changes) => changes.check(),
        Subject::Faults(faults) => faults.check(),
    }
}

impl Coherence {
    fn check(&self) -> Result<Outcome, CommandError> {
        let without = self.without.map(|without| without.0);
        let scope = self.scope.into();
        output::print(&heading(&scope, without))?;
        let mut display = Display::new();
        let verdict = check_and_report(&scope, without, |progress| {
            if progress.is_done {
                display.finish();
            } else {
                display.show(progress.elapsed, told(&progress));
            }
        });
        output::print(&format!("{verdict}\n"))?;
        match verdict {
            Verdict::Holds { .. } => Ok(Outcome::Good),
            Verdict::Broken { .. } => Ok(Outcome::Bad),
            Verdict::Unfinished { .. } => Err(CommandError::Unfinished),
        }
    }
}

fn heading(scope: &Scope, without: Option<Safeguard>) -> String {
    let safeguards = without.map_or("with all safeguards".to_owned(), |safeguard| {
        format!("without {}", safeguard.name())
    });
    let Scope {
        flows,
        to_worker,
        to_fast,
        ..
    } = scope;
    format!(
        "coherence, {safeguards}: {flows} flows on one slot, up to {to_worker} frames to the slow path and {to_fast} back\n"
    )
}

/// Progress on standard error: a line that is kept up to date where that is a terminal, otherwise
/// one every ten seconds.
struct Display {
    bar: ProgressBar,
    next_line: Duration,
}

const LINE_INTERVAL: Duration = Duration::from_secs(10);

impl Display {
    fn new() -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        Self {
            bar: ProgressBar::new_spinner().with_style(style),
            next_line: LINE_INTERVAL,
        }
    }

    fn show(&mut self, elapsed: Duration, text: String) {
        if self.bar.is_hidden() && elapsed >= self.next_line {
            self.next_line = elapsed + LINE_INTERVAL;
            output::notice(&text);
        }
        self.bar.set_message(text);
        self.bar.tick();
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn told(progress: &Progress) -> String {
    format!(
        "{}: {} in {}, up to {} from the start",
        units::duration(progress.elapsed.as_nanos() as u64),
        units::counted(progress.states as u64, "state"),
        units::counted(progress.steps as u64, "step"),
        progress.depth
    )
}
