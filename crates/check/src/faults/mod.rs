//! Faults: the data plane of production in a world where everything goes wrong, by seed.
//!
//! A [`Simulation`] drives production's [`Machine`](twinpath_node::Machine), which decides what may be
//! under way, changes the chain and ends the run, and its [`Worker`](twinpath_node::Worker)s, as
//! production wires them. Only the link and the
//! clock are its own: frames are lost, one by one and in long outages, delayed, held up, delivered
//! twice and, as a fault of its own, in another order; workers pause and crash, with or without
//! what waited in their rings; tables, stores, rings and buffers are tiny; time-outs are shorter
//! than the delays or much longer; flows fall silent for longer than anything remembers them.
//!
//! **A seed says it all.** [`Scenario::drawn`] draws from it what is switched on in a run, and the
//! run draws its chances from it, so that [`Simulation::of_seed`] with a failed seed shows the same
//! events again, in words.
//!
//! **The network function is a ledger**: a flow's state is a digest of the packets applied to it
//! and their order, computed by its fast program here and by its slow function there. The
//! simulation follows every packet and so knows what each digest must be at any time.
//!
//! **After every step** all [`Invariant`]s are checked: the eight invariants of the protocol, that
//! reordering is detected and loss counted, that no packet and no buffer disappears, and those of
//! rules and of parked payloads. That each of them can fail is shown by [`Sabotage`]: a link that
//! forges and replays.
//!
//! Some chains have flow state in two elements, of which each has a ledger.
//!
//! **In one run of four there are elements with rules** ([`Elements`]), alone or around the
//! ledger's: production's access list, address translation, router and monitor, configured as in a
//! service file. Whatever comes out is compared with what the functions alone make of the packet;
//! which external port stands for whom is read from the translation's bindings, of which the
//! simulation knows when each was in force and who used it. In some of these runs, and in some with
//! the ledger alone, payloads wait on the fast path's side ([`ParkingSettings`]), or in remote memory on servers that
//! fail ([`SplitSettings`]).
//!
//! In others clients are over IPv6 ([`Elements::OVER_V6`]): what production's translations of prefixes and
//! between IP versions make of packets is compared with what the simulation's own make of them.
//!
//! **From bottom to top**: a `scenario` is drawn; its `chain` is built of `functions`; the `world`
//! that is simulated has the node, the link and the clocks; the `record` beside it has what is
//! known; `checks` read both; `events` take both a step on; the loop on top draws them.
//!
//! The functions that users run take their turn in one run of four, alone and in chains
//! ([`Functions::REAL`]), and beside elements with rules, in up to three elements
//! ([`Elements::MIXED`]). What their values must be is not known here; all that can be told
//! without it is checked: among it that an inspector keeps out what it forbids, and that a key-value
//! store reads what was written. [`Acted`] tells what each function did, for one that never acts shows
//! nothing.
//!
//! **Few packets, every order**: [`search`] has small runs' events happen in every order that leaves the
//! order of time at no more than so many places: frames overtake each other, and packets, timers and
//! changes of the chain come before what they came behind.

mod chain;
mod checks;
mod draw;
mod events;
mod functions;
mod invariant;
mod outcome;
mod record;
mod scenario;
mod schedules;
mod simulation;
#[cfg(test)]
mod tests;
mod world;

pub use events::Sabotage;
pub use functions::Functions;
pub use invariant::{Invariant, Violation};
pub use outcome::Outcome;
pub use record::{Acted, Coverage, Event};
pub use scenario::{
    Elements, Kind, LineFaults, ParkingSettings, Resources, RuleSettings, Scenario, SplitSettings,
    Traffic, WorkerFaults,
};
pub use schedules::{Search, SmallChain, search};
pub use simulation::{Deviation, Simulation};
pub use world::SetupError;

use std::ops::Range;

/// What a search through many seeds found.
#[derive(Clone, Debug)]
pub struct SeedSearch {
    /// Runs made.
    pub runs: u64,
    /// What they tried.
    pub coverage: Coverage,
    /// The first run in which an invariant was broken; the search ends with it.
    pub failed: Option<Outcome>,
}

/// Runs the scenarios of `seeds`, one after another, until an invariant is broken. After each run
/// `progress` is told how many there were and what they tried.
///
/// # Errors
/// A scenario cannot be set up.
pub fn search_seeds(
    seeds: Range<u64>,
    sabotage: Option<Sabotage>,
    mut progress: impl FnMut(&SeedSearch),
) -> Result<SeedSearch, SetupError> {
    let mut search = SeedSearch {
        runs: 0,
        coverage: Coverage::default(),
        failed: None,
    };
    for seed in seeds {
        let outcome = Simulation::of_seed(seed, sabotage)?.run();
        search.runs += 1;
        search.coverage.absorb(&outcome.coverage);
        if !outcome.violations.is_empty() {
            search.failed = Some(outcome);
            break;
        }
        progress(&search);
    }
    Ok(search)
}
