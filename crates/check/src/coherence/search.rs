//! Searches the state space, and finds the shortest way to break an invariant.

use super::invariants::Invariant;
use super::model::Step;
use super::rules::Rules;
use super::scope::Budget;
use super::state::State;
use super::{Progress, Verdict};
use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, HasDiscoveries, Model, Path};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// A way to break an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CounterExample {
    pub invariant: Invariant,
    pub steps: Vec<Step>,
}

/// Searches everything.
///
/// # Errors
/// A shortest way to break an invariant.
pub(super) fn search(
    rules: Rules,
    progress: impl FnMut(Progress) + Send,
) -> Result<Verdict, CounterExample> {
    let mut reporter = ProgressReporter(progress);
    let checker = rules
        .checker()
        .threads(rules.scope.threads.into())
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(rules.scope.most_steps)
        .spawn_bfs()
        .join_and_report(&mut reporter);
    if let Some(found) = checker.discoveries().into_values().map(steps).next() {
        return Err(shortest(rules, found.len()).expect("the search above found one"));
    }
    let (states, unique) = (checker.state_count(), checker.unique_state_count());
    let depth = checker.max_depth();
    Ok(match states < rules.scope.most_steps {
        true => Verdict::Holds {
            steps: states,
            states: unique,
            depth,
        },
        false => Verdict::Unfinished {
            steps: states,
            states: unique,
        },
    })
}

/// The shortest way to break an invariant that takes at most `most` steps; among equally short
/// ones the calmest, and of the invariants that it breaks the most telling.
pub(super) fn shortest(rules: Rules, most: usize) -> Option<CounterExample> {
    let (mut low, mut high) = (1, most);
    while low < high {
        let middle = (low + high) / 2;
        match broken_within(rules, middle, HasDiscoveries::AnyFailures).is_empty() {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    let calm = rules.scope.budget.calm();
    [Budget { idles: 0, ..calm }, calm, rules.scope.budget]
        .into_iter()
        .find_map(|budget| most_telling(rules.with_budget(budget), low))
}

fn most_telling(rules: Rules, most: usize) -> Option<CounterExample> {
    broken_within(rules, most, HasDiscoveries::All)
        .into_iter()
        .min_by_key(|found| found.invariant.clarity())
}

/// Ways to break an invariant in at most so many steps.
fn broken_within(rules: Rules, most: usize, finish_when: HasDiscoveries) -> Vec<CounterExample> {
    // The library counts states, and leaves out those at its limit.
    let checker = rules
        .checker()
        .finish_when(finish_when)
        .target_max_depth(most + 2)
        .spawn_bfs()
        .join();
    let told = checker.discoveries().into_values().filter_map(|path| {
        let invariant = Invariant::broken(&rules, path.last_state())?;
        Some(CounterExample {
            invariant,
            steps: steps(path),
        })
    });
    told.collect()
}

/// Most steps from a broken invariant to a wrong value that are looked for.
const STEPS_TO_HARM: usize = 6;

/// The shortest way on from a broken invariant to a value that is wrong for good.
pub(super) fn harm(rules: &Rules, broken: &State) -> Vec<Step> {
    let mut first = broken.clone();
    (first.faults, first.left) = (0, first.left.calm());
    let mut seen = HashSet::from([first.clone()]);
    let mut frontier = vec![(first, Vec::new())];
    let mut steps = Vec::new();
    for _ in 0..=STEPS_TO_HARM {
        let mut next = Vec::new();
        for (state, path) in frontier {
            if state.is_harmed() {
                return path;
            }
            rules.steps(&state, &mut steps);
            for step in steps.drain(..) {
                let after = rules.after(&state, step);
                if seen.insert(after.clone()) {
                    next.push((after, [path.as_slice(), &[step]].concat()));
                }
            }
        }
        frontier = next;
    }
    Vec::new()
}

fn steps(path: Path<State, Step>) -> Vec<Step> {
    path.into_actions()
}

/// Passes the library's progress reports on.
struct ProgressReporter<F>(F);

impl<F: FnMut(Progress)> Reporter<Rules> for ProgressReporter<F> {
    fn report_checking(&mut self, data: ReportData) {
        (self.0)(Progress {
            steps: data.total_states,
            states: data.unique_states,
            depth: data.max_depth,
            elapsed: data.duration,
            is_done: data.done,
        });
    }

    fn report_discoveries(&mut self, _: &Rules, _: BTreeMap<&'static str, ReportDiscovery<Rules>>) {
    }

    fn delay(&self) -> Duration {
        Duration::from_millis(100)
    }
}
