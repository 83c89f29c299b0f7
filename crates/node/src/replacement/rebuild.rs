//! The cores' part of a change: a new chain of old elements, old functions and new ones.

use super::{CorePlan, FunctionPlan};
use crate::worker::CoreElement;
use std::any::Any;
use twinpath_core::{DropCounters, Instant, Named};
use twinpath_rulecache::{Change, RuleCores, RuleFunction};

/// What was replaced: drop it where that disturbs nobody.
#[derive(Default)]
pub struct Leftovers(Vec<Box<dyn Any + Send>>);

impl Leftovers {
    /// Adds something.
    pub fn add(&mut self, something: impl Any + Send) {
        self.0.push(Box::new(something));
    }
}

/// The cores' part of the new chain.
pub(crate) struct Rebuilt {
    pub elements: Vec<CoreElement>,
    /// What elements have dropped that are gone.
    pub drops: DropCounters,
    pub left: Leftovers,
}

/// When the run began, and what time it is, on the packet clock.
#[derive(Copy, Clone)]
pub(crate) struct Times {
    pub started: Instant,
    pub now: Instant,
}

/// The old chain, to take parts from.
struct OldParts {
    elements: Vec<Option<CoreElement>>,
    functions: Vec<Vec<Option<Named<dyn RuleFunction>>>>,
    drops: DropCounters,
    left: Leftovers,
    times: Times,
}

/// Makes the new chain.
pub(crate) fn rebuild(old: Vec<CoreElement>, plans: Vec<CorePlan>, times: Times) -> Rebuilt {
    let mut old_parts = OldParts::new(old, &plans, times);
    let elements = plans
        .into_iter()
        .filter_map(|plan| old_parts.element(plan))
        .collect();
    let OldParts {
        functions,
        drops,
        mut left,
        ..
    } = old_parts;
    left.add(functions);
    Rebuilt {
        elements,
        drops,
        left,
    }
}

impl OldParts {
    fn new(old: Vec<CoreElement>, plans: &[CorePlan], times: Times) -> Self {
        let mut old_parts = Self {
            elements: Vec::new(),
            functions: Vec::new(),
            drops: DropCounters::default(),
            left: Leftovers::default(),
            times,
        };
        for (number, element) in old.into_iter().enumerate() {
            let keeps = |plan: &CorePlan| plan.kept() == Some(number);
            old_parts.add(element, plans.iter().any(keeps));
        }
        old_parts
    }

    /// An element stays whole, or only its functions are of use.
    fn add(&mut self, element: CoreElement, is_kept: bool) {
        let (element, functions) = match element {
            CoreElement::Rules(mut rules) if !is_kept => {
                let functions = rules.exchange_functions(Vec::new());
                self.left.add(rules);
                (None, functions)
            }
            CoreElement::Flows(flows) if !is_kept => {
                self.drops.absorb(flows.drops());
                self.left.add(flows);
                (None, Vec::new())
            }
            element => (Some(element), Vec::new()),
        };
        self.elements.push(element);
        self.functions
            .push(functions.into_iter().map(Some).collect());
    }

    fn element(&mut self, plan: CorePlan) -> Option<CoreElement> {
        match plan {
            CorePlan::Keep(number) => self.kept(number),
            CorePlan::ChangeRules(number, changes) => {
                let mut element = self.kept(number)?;
                if let CoreElement::Rules(rules) = &mut element {
                    self.left.add(changed(rules, changes));
                }
                Some(element)
            }
            CorePlan::ChangeFlows(number, functions) => {
                let mut element = self.kept(number)?;
                if let CoreElement::Flows(flows) = &mut element {
                    self.left.add(flows.reconfigure(functions));
                }
                Some(element)
            }
            CorePlan::Rules(mut rules, functions) => {
                let functions = functions.into_iter();
                let functions = functions.filter_map(|function| self.function(function));
                rules.exchange_functions(functions.collect());
                Some(CoreElement::Rules(rules))
            }
            CorePlan::Flows(number, successors) => {
                let mut element = self.kept(number)?;
                if let CoreElement::Flows(flows) = &mut element {
                    let left = flows.succeed(successors, self.times.started);
                    self.left.add(left);
                }
                Some(element)
            }
            CorePlan::NewFlows(mut flows) => {
                flows.start(self.times.started);
                Some(CoreElement::Flows(flows))
            }
        }
    }

    fn kept(&mut self, number: usize) -> Option<CoreElement> {
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
                    self.left.add(change);
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

/// Makes changes whose rules are gone; what they replaced is left.
fn changed(rules: &mut RuleCores, mut changes: Vec<(u8, Change)>) -> Vec<(u8, Change)> {
    for (place, change) in &mut changes {
        let made = rules.finish_change(*place, change);
        debug_assert!(made.is_ok(), "the function was there when the change began");
    }
    rules.end_changes();
    changes
}
