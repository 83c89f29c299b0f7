//! Small runs in every order of events, but for a bound on how often one leaves the order of time.
//!
//! A [`Simulation`] takes what is planned in the order of time, with delays that a seed draws. Here the
//! delays are all alike, and the order is tried out: a run *deviates* at a step if something happens there
//! that other things were planned before. A frame that overtakes another is one deviation, and so is a
//! timer that runs out, a packet that arrives, or a worker's crash, before frames that were due. All runs
//! with up to so many deviations are made, each from its beginning: the machine of production is not one
//! that could be copied in its midst. With few packets that is complete for defects that so many unlucky
//! moments bring about, where seeds are a sample.

use super::events::{Sabotage, Saboteur};
use super::functions::Functions;
use super::outcome::Outcome;
use super::record::Coverage;
use super::scenario::{Elements, Scenario};
use super::simulation::{Deviation, Simulation};
use super::world::SetupError;

/// A chain whose changes are searched.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SmallChain {
    /// Its functions, the ledger as what it has.
    pub name: &'static str,
    elements: Elements,
    functions: Functions,
}

impl SmallChain {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::new("flow state", Elements::State, Functions::Ledger),
        Self::new("napt", Elements::Translation, Functions::None),
        Self::new(
            "acl, monitor, flow state",
            Elements::RulesThenState,
            Functions::Ledger,
        ),
        Self::new(
            "flow state, napt",
            Elements::StateThenTranslation,
            Functions::Ledger,
        ),
        Self::new(
            "flow state, acl, monitor, flow state",
            Elements::StateTwice,
            Functions::Ledger,
        ),
        Self::new(
            "firewall, napt",
            Elements::FirewallThenTranslation,
            Functions::Mixed,
        ),
    ];

    const fn new(name: &'static str, elements: Elements, functions: Functions) -> Self {
        Self {
            name,
            elements,
            functions,
        }
    }
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Runs made.
    pub runs: u64,
    /// What they tried.
    pub coverage: Coverage,
    /// The first run in which an invariant was broken, with all its events, and where it deviates; the
    /// search ends with it.
    pub failed: Option<(Outcome, Vec<Deviation>)>,
}

/// Runs a seed's small scenario of a chain in every order with up to `most` deviations, until an
/// invariant is broken. After each run `progress` is told of what there was.
///
/// # Errors
/// The scenario cannot be set up.
pub fn search(
    seed: u64,
    chain: SmallChain,
    (most, sabotage): (usize, Option<Sabotage>),
    progress: impl FnMut(&Search),
) -> Result<Search, SetupError> {
    let mut searcher = Searcher {
        seed,
        scenario: Scenario::small(seed, chain.elements, chain.functions),
        most,
        sabotage,
        found: Search::default(),
        progress,
    };
    searcher.explore(&mut Vec::new())?;
    Ok(searcher.found)
}

struct Searcher<P> {
    seed: u64,
    scenario: Scenario,
    most: usize,
    sabotage: Option<Sabotage>,
    found: Search,
    progress: P,
}

impl<P: FnMut(&Search)> Searcher<P> {
    fn simulation(&self, deviations: &[Deviation]) -> Result<Simulation, SetupError> {
        let simulation = Simulation::new(self.seed, &self.scenario)?.deviating(deviations);
        Ok(match self.sabotage {
            Some(sabotage) => simulation.sabotaged(Saboteur::new(sabotage, self.seed)),
            None => simulation,
        })
    }

    /// Runs with these deviations, and with these and others behind them.
    fn explore(&mut self, deviations: &mut Vec<Deviation>) -> Result<(), SetupError> {
        let (outcome, planned) = self.simulation(deviations)?.run_counting();
        self.found.runs += 1;
        self.found.coverage.absorb(&outcome.coverage);
        if !outcome.violations.is_empty() {
            let told = self.simulation(deviations)?.keeping_all_events().run();
            self.found.failed = Some((told, deviations.clone()));
            return Ok(());
        }
        (self.progress)(&self.found);
        if deviations.len() == self.most {
            return Ok(());
        }
        let first = deviations.last().map_or(0, |last| last.step + 1);
        for (step, &planned) in planned.iter().enumerate().skip(first) {
            for behind in 1..planned {
                deviations.push(Deviation { step, behind });
                self.explore(deviations)?;
                deviations.pop();
                if self.found.failed.is_some() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
