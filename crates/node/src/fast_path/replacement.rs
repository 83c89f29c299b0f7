//! The chain becomes another one.

use super::hints::HintTable;
use super::{FastElement, FastPath, hinted_flows};
use crate::admission::Admission;
use crate::deferred_free::DeferredFree;
use crate::position::ElementOrder;
use std::sync::Arc;
use twinpath_coherence::StateStage;
use twinpath_core::{Instant, Steering};
use twinpath_dash::tables::Tables;

/// One element of the new chain on the fast path.
pub enum FastPlan {
    /// That of the old chain with this number.
    Keep(usize),
    /// That of the old chain with this number, a DPU, with other tables.
    ChangeDash(usize, Arc<Tables>),
    /// A new one.
    New(FastElement),
}

impl FastPath {
    /// Takes another chain, of which some elements need ports; what is not kept of the old one is
    /// added to `to_free`. Nothing may be under way, and if the element with flow state goes, all
    /// flows are home.
    pub fn replace(
        &mut self,
        admission: Admission,
        steering: Steering,
        (plans, order, needs_ports): (Vec<FastPlan>, ElementOrder, &[bool]),
        to_free: &mut DeferredFree,
    ) {
        self.chain = self.next_chain();
        let stays = self.elements_that_stay(&plans, &order);
        let old = std::mem::take(&mut self.elements);
        let mut old: Vec<Option<FastElement>> = old.into_iter().map(Some).collect();
        for plan in plans {
            let (element, is_new) = match plan {
                FastPlan::Keep(number) => (old.get_mut(number).and_then(Option::take), false),
                FastPlan::ChangeDash(number, tables) => {
                    let mut element = old.get_mut(number).and_then(Option::take);
                    if let Some(FastElement::Dash(stage)) = &mut element {
                        stage.dpu_mut().set_tables(tables);
                    }
                    (element, false)
                }
                FastPlan::New(element) => (Some(element), true),
            };
            self.elements.extend(element.map(|mut element| {
                if let (FastElement::State(stage), true) = (&mut element, is_new) {
                    begin_stage(stage, &old, self.started);
                }
                element
            }));
        }
        // What a former one counted stays counted.
        for former in state_stages(&old) {
            self.former.absorb(former.counters());
        }
        to_free.add(old);
        // Flows of stages that stay were brought home with the others.
        self.keep_flows();
        (self.admission, self.steering, self.order) = (admission, steering, order);
        self.gather_fragments(needs_ports, &stays);
        self.hints = HintTable::new(hinted_flows(&self.elements));
    }

    /// By element, whether it is what it was, with the same ones in front of it either way.
    fn elements_that_stay(&self, plans: &[FastPlan], order: &ElementOrder) -> Vec<bool> {
        if plans.len() != self.elements.len() || *order != self.order {
            return Vec::new();
        }
        let stays = |(number, plan): (usize, &FastPlan)| match plan {
            FastPlan::Keep(old) | FastPlan::ChangeDash(old, _) => *old == number,
            FastPlan::New(_) => false,
        };
        plans.iter().enumerate().map(stays).collect()
    }
}

/// A state stage begins. Pulls are numbered on from those of former stages.
fn begin_stage(stage: &mut StateStage, old: &[Option<FastElement>], started: Instant) {
    state_stages(old).for_each(|former| stage.go_on_from(former));
    stage.start(started);
}

/// The state stages among elements of a former chain.
fn state_stages(elements: &[Option<FastElement>]) -> impl Iterator<Item = &StateStage> {
    elements
        .iter()
        .flatten()
        .filter_map(|element| match element {
            FastElement::State(stage) => Some(stage.as_ref()),
            _ => None,
        })
}
