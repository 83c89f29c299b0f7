//! `twinpath check changes`

use super::Display;
use crate::error::CommandError;
use crate::{Outcome, output};
use std::fmt::Write;
use std::time::Instant;
use twinpath_check::faults::{Search, SmallChain, search};
use twinpath_control::report::units;

/// Changes of a chain and crashes of its worker, in every order of events
///
/// Each run has a few packets of one flow, the fast path and the worker of production, and chains that
/// become each other meanwhile. All orders of what happens are tried that leave the order of time at no
/// more than so many places: frames that overtake each other, timers that run out early, packets that
/// arrive before what was sent has been heard of. After every step the invariants of `check faults` are
/// checked. Exit code 0 if all hold, 1 with the first run that fails and all its events.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath check changes",
    "twinpath check changes --deviations 2 --seeds 1    # many times as many orders",
))]
pub struct Changes {
    /// At how many places a run may leave the order of time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=8))]
    deviations: u64,
    /// How many seeds of each chain: what arrives, and which chains become each other
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1 << 62))]
    seeds: u64,
    /// The first of them
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1 << 62))]
    first: u64,
}

impl Changes {
    /// Searches each chain.
    pub fn check(&self) -> Result<Outcome, CommandError> {
        for chain in SmallChain::ALL {
            for seed in self.first..self.first + self.seeds {
                let found = self.search(seed, chain)?;
                output::print(&format!("{}\n", told(chain, seed, &found)))?;
                if let Some((outcome, deviations)) = &found.failed {
                    let mut text = outcome.story();
                    for deviation in deviations {
                        let (step, behind) = (deviation.step, deviation.behind);
                        let _ = writeln!(text, "step {step} was planned behind {behind} others");
                    }
                    output::print(&text)?;
                    return Ok(Outcome::Bad);
                }
            }
        }
        Ok(Outcome::Good)
    }

    fn search(&self, seed: u64, chain: SmallChain) -> Result<Search, CommandError> {
        let (began, mut display) = (Instant::now(), Display::new());
        let bounds = (self.deviations as usize, None);
        let found = search(seed, chain, bounds, |search| {
            let elapsed = began.elapsed();
            let time = units::duration(elapsed.as_nanos() as u64);
            display.show(elapsed, format!("{time}: {}", told(chain, seed, search)));
        })?;
        display.finish();
        Ok(found)
    }
}

fn told(chain: SmallChain, seed: u64, found: &Search) -> String {
    let coverage = &found.coverage;
    format!(
        "{}, seed {seed}: {} {}, {} and {} in {}",
        chain.name,
        units::counted(found.runs, "order"),
        if found.failed.is_none() {
            "hold"
        } else {
            "until one fails"
        },
        units::counted(coverage.changes, "change"),
        units::counted(coverage.crashes, "crash"),
        units::counted(coverage.steps, "step"),
    )
}
