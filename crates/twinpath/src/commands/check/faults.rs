//! `twinpath check faults`

use super::Display;
use crate::error::CommandError;
use crate::{Outcome, output};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use std::fmt::Write;
use std::time::Instant;
use twinpath_check::faults::{Coverage, Invariant, Sabotage, SeedSearch, Simulation, search_seeds};
use twinpath_control::report::units;

/// The data plane in a world where everything goes wrong, by seed
///
/// Each seed is a run of its own: the fast path and the workers of production under virtual time,
/// over a link that loses, delays, doubles and reorders frames, with crashes, pauses, tiny tables
/// and few buffers. Chains are of functions that share flow state, of cached rules, or of both;
/// payloads wait on the fast path's side in some. After every step the protocol's eight invariants
/// are checked, that reordering is detected, that no packet and no buffer disappears, and that
/// rules and parked payloads change no packet. Exit code 0 if all hold, 1 with the first seed that
/// fails and its last events.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath check faults --seeds 10000",
    "twinpath check faults --replay 1577                          # every event of one seed",
    "twinpath check faults --sabotage forged-acknowledgement     # what a failure looks like",
))]
pub struct Faults {
    /// How many seeds are run
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=1 << 62))]
    seeds: u64,
    /// The first of them
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1 << 62))]
    first: u64,
    /// Run this seed alone and tell all its events
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "first"])]
    replay: Option<u64>,
    /// Let the link do what no link may, to see an invariant broken
    #[arg(long, value_enum)]
    sabotage: Option<Act>,
}

/// `--sabotage`
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Act(Sabotage);

impl ValueEnum for Act {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Act; Sabotage::ALL.len()] = {
            let mut all = [Act(Sabotage::Replay); Sabotage::ALL.len()];
            let mut place = 0;
            while place < all.len() {
                all[place] = Act(Sabotage::ALL[place].0);
                place += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, prose) = self.0.name_and_prose();
        Some(PossibleValue::new(name).help(prose))
    }
}

impl Faults {
    /// Searches, or replays.
    pub fn check(&self) -> Result<Outcome, CommandError> {
        let sabotage = self.sabotage.map(|act| act.0);
        match self.replay {
            Some(seed) => replay(seed, sabotage),
            None => self.search_by_seed(sabotage),
        }
    }

    fn search_by_seed(&self, sabotage: Option<Sabotage>) -> Result<Outcome, CommandError> {
        let end = self.first + self.seeds;
        let (began, mut display) = (Instant::now(), Display::new());
        let found = search_seeds(self.first..end, sabotage, |search| {
            let elapsed = began.elapsed();
            let time = units::duration(elapsed.as_nanos() as u64);
            display.show(elapsed, format!("{time}: {}", told(search, self.seeds)));
        })?;
        display.finish();
        let Some(failed) = &found.failed else {
            output::print(&praise(&found))?;
            return Ok(Outcome::Good);
        };
        let seed = failed.seed;
        let again = self.sabotage.map_or(String::new(), |act| {
            format!(" --sabotage {}", act.0.name_and_prose().0)
        });
        output::print(&format!(
            "{failed}\nall its events: twinpath check faults --replay {seed}{again}\n"
        ))?;
        Ok(Outcome::Bad)
    }
}

fn replay(seed: u64, sabotage: Option<Sabotage>) -> Result<Outcome, CommandError> {
    let outcome = Simulation::of_seed(seed, sabotage)?
        .keeping_all_events()
        .run();
    output::print(&outcome.story())?;
    match outcome.violations.is_empty() {
        true => Ok(Outcome::Good),
        false => Ok(Outcome::Bad),
    }
}

fn told(search: &SeedSearch, seeds: u64) -> String {
    format!(
        "{} of {} hold, {}",
        units::count(search.runs),
        units::counted(seeds, "seed"),
        units::counted(search.coverage.steps, "step")
    )
}

fn praise(search: &SeedSearch) -> String {
    let invariants = Invariant::ALL.len();
    let mut text = format!(
        "all {invariants} invariants hold after every step of {}. What was tried:\n",
        units::counted(search.runs, "run")
    );
    let tried: Vec<_> = Coverage::each(&search.coverage).collect();
    for row in tried.chunks(3) {
        for (name, times) in row {
            let name = name.replace('_', " ");
            let _ = write!(text, "  {times:>10} {name:<22}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}
