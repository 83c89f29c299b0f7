//! The workers' part of a change: a new chain of old elements, old functions and new ones.

use super::{SlowDash, SlowElement};
use crate::deferred_free::DeferredFree;
use std::sync::Arc;
use twinpath_coherence::SlowFlows;
use twinpath_core::{DropCounters, Instant, Named};
use twinpath_dash::tables::Tables;
use twinpath_rulecache::{Reconfiguration, RuleFunction, SlowRules};
use twinpath_slowpath::{NetworkFunction, NextFunction};

/// One element of the new chain on the slow path.
pub enum SlowPlan {
    /// That of the old chain with this number.
    Keep(usize),
    /// That of the old chain with this number, some of whose functions change: by their places.
    ChangeRules(usize, Vec<(u8, Reconfiguration)>),
    /// The same where functions share flow state.
    ChangeFlows(usize, Vec<(usize, Named<dyn NetworkFunction>)>),
    /// A new one, still without functions, and those that it gets.
    Rules(Box<SlowRules>, Vec<FunctionPlan>),
    /// The flows of the old chain's element with this number, and the functions that follow there.
    Flows(usize, Vec<NextFunction>),
    /// That of the old chain with this number, a DPU, with other tables.
    ChangeDash(usize, Arc<Tables>),
    /// A DPU that knows no flow.
    NewDash(Box<SlowDash>),
    /// One that knows no flow.
    NewFlows(Box<SlowFlows>),
}

impl SlowPlan {
    /// The element of the old chain that goes on.
    fn kept(&self) -> Option<usize> {
        match self {
            Self::Keep(number)
            | Self::ChangeRules(number, _)
            | Self::ChangeFlows(number, _)
            | Self::ChangeDash(number, _)
            | Self::Flows(number, _) => Some(*number),
            Self::Rules(..) | Self::NewFlows(_) | Self::NewDash(_) => None,
        }
    }
}

/// A function of a new element.
pub enum FunctionPlan {
    /// That of the old chain, with all it knows.
    Keep {
        /// Its element.
        element: usize,
        /// Its place there.
        place: u8,
        /// Its new configuration, if that is another.
        change: Option<Reconfiguration>,
    },
    /// A new one.
    New(Named<dyn RuleFunction>),
}

/// The workers' part of the new chain.
pub(super) struct Rebuilt {
    pub elements: Vec<SlowElement>,
    /// What elements have dropped that are gone.
    pub drops: DropCounters,
    /// Functions that are of no use any more.
    pub left: Vec<Named<dyn RuleFunction>>,
    pub to_free: DeferredFree,
}

/// When the run began, and what time it is, on the packet clock.
#[derive(Copy, Clone)]
pub(super) struct Times {
    pub started: Instant,
    pub now: Instant,
}

/// The old chain, to take parts from.
struct OldParts {
    elements: Vec<Option<SlowElement>>,
    functions: Vec<Vec<Option<Named<dyn RuleFunction>>>>,
    drops: DropCounters,
    to_free: DeferredFree,
    times: Times,
}

/// Makes the new chain.
pub(super) fn rebuild(old: Vec<SlowElement>, plans: Vec<SlowPlan>, times: Times) -> Rebuilt {
    let mut old_parts = OldParts::new(old, &plans, times);
    let elements = plans
        .into_iter()
        .filter_map(|plan| old_parts.element(plan))
        .collect();
    let OldParts {
        functions,
        drops,
        to_free,
        ..
    } = old_parts;
    let left = functions.into_iter().flatten().flatten();
    Rebuilt {
        elements,
        drops,
        left: left.collect(),
        to_free,
    }
}

impl OldParts {
    fn new(old: Vec<SlowElement>, plans: &[SlowPlan], times: Times) -> Self {
        let mut old_parts = Self {
            elements: Vec::new(),
            functions: Vec::new(),
            drops: DropCounters::default(),
            to_free: DeferredFree::default(),
            times,
        };
        for (number, element) in old.into_iter().enumerate() {
            let keeps = |plan: &SlowPlan| plan.kept() == Some(number);
            old_parts.add(element, plans.iter().any(keeps));
        }
        old_parts
    }

    /// An element stays whole, or only its functions are of use.
    fn add(&mut self, element: SlowElement, is_kept: bool) {
        let (element, functions) = match element {
            SlowElement::Rules(mut rules) if !is_kept => {
                let functions = rules.exchange_functions(Vec::new());
                self.to_free.add(rules);
                (None, functions)
            }
            SlowElement::Flows(flows) if !is_kept => {
                self.drops.absorb(flows.drops());
                self.to_free.add(flows);
                (None, Vec::new())
            }
            SlowElement::Dash(dash) if !is_kept => {
                self.to_free.add(dash);
                (None, Vec::new())
            }
            element => (Some(element), Vec::new()),
        };
        self.elements.push(element);
        self.functions
            .push(functions.into_iter().map(Some).collect());
    }

    fn element(&mut self, plan: SlowPlan) -> Option<SlowElement> {
        match plan {
            SlowPlan::Keep(number) => self.kept(number),
            SlowPlan::ChangeRules(number, changes) => {
                let mut element = self.kept(number)?;
                if let SlowElement::Rules(rules) = &mut element {
                    self.to_free.add(changed(rules, changes));
                }
                Some(element)
            }
            SlowPlan::ChangeFlows(number, functions) => {
                let mut element = self.kept(number)?;
                if let SlowElement::Flows(flows) = &mut element {
                    self.to_free.add(flows.reconfigure(functions));
                }
                Some(element)
            }
            SlowPlan::Rules(mut rules, functions) => {
                let functions = functions.into_iter();
                let functions = functions.filter_map(|function| self.function(function));
                rules.exchange_functions(functions.collect());
                Some(SlowElement::Rules(rules))
            }
            SlowPlan::Flows(number, successors) => {
                let mut element = self.kept(number)?;
                if let SlowElement::Flows(flows) = &mut element {
                    let old = flows.succeed(successors, self.times.started);
                    self.to_free.add(old);
                }
                Some(element)
            }
            SlowPlan::ChangeDash(number, tables) => {
                let mut element = self.kept(number)?;
                if let SlowElement::Dash(dash) = &mut element {
                    dash.dpu_mut().set_tables(tables);
                }
                Some(element)
            }
            SlowPlan::NewDash(dash) => Some(SlowElement::Dash(dash)),
            SlowPlan::NewFlows(mut flows) => {
                flows.start(self.times.started);
                Some(SlowElement::Flows(flows))
            }
        }
    }

    fn kept(&mut self, number: usize) -> Option<SlowElement> {
        self.elements.get_mut(number)?.take()
    }

    fn function(&mut self, plan: FunctionPlan) -> Option<Named<dyn RuleFunction>> {
        match plan {
            FunctionPlan::Keep {
                element,
                place,
                change,
            } => {
                let functions = self.functions.get_mut(element)?;
                let mut function = functions.get_mut(usize::from(place))?.take()?;
                if let Some(mut change) = change {
                    let made = change.apply(&mut *function.function);
                    debug_assert!(made.is_ok(), "a change of that function");
                    self.to_free.add(change);
                }
                Some(function)
            }
            FunctionPlan::New(mut function) => {
                function.start(self.times.now);
                Some(function)
            }
        }
    }
}

/// Makes changes whose rules are gone; what they replaced is returned.
fn changed(
    rules: &mut SlowRules,
    mut changes: Vec<(u8, Reconfiguration)>,
) -> Vec<(u8, Reconfiguration)> {
    for (place, change) in &mut changes {
        let made = rules.finish_change(*place, change);
        debug_assert!(made.is_ok(), "the function was there when the change began");
    }
    rules.end_changes();
    changes
}
