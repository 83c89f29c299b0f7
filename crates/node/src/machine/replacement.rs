//! Another chain, ready to be taken.

use crate::admission::Admission;
use crate::fast_path::{EgressCheck, FastPlan, Joints};
use crate::position::ElementOrder;
use crate::worker::{Blueprint, SlowPlan};
use twinpath_control::operator::Applied;
use twinpath_core::{Pools, Steering};

/// Another chain.
pub struct Replacement {
    /// What is let in, and which way it goes.
    pub admission: Admission,
    /// Where packets of other shards enter.
    pub joints: Joints,
    /// Who tells senders of packets that cannot be delivered.
    pub egress_check: Option<EgressCheck>,
    /// Whether the functions do without payloads, so that packets may be split.
    pub splits: bool,
    /// Whether they may ask if a packet's checksum holds.
    pub verifies: bool,
    /// Which flows they belong to.
    pub steering: Steering,
    /// In which order they pass the elements.
    pub order: ElementOrder,
    /// For the fast path.
    pub fast: Vec<FastPlan>,
    /// By element: whether it needs ports.
    pub needs_ports: Vec<bool>,
    /// For each worker.
    pub slow: Vec<Vec<SlowPlan>>,
    /// What makes a worker's elements of the new chain after a crash.
    pub blueprint: Blueprint,
    /// Whether the fast path has to give the state of all flows back before.
    pub brings_flows_home: bool,
    /// Whether functions have to let go of packets that they keep before.
    pub releases_packets: bool,
    /// Larger pools for packets that arrive, if the new functions may keep more of them.
    pub pools: Option<Pools>,
    /// What it does, to be told.
    pub applied: Applied,
    /// How many elements there were.
    pub old_elements: usize,
    /// Whether other packets are let in, or they go another way.
    pub has_other_admission: bool,
}

impl Replacement {
    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        let keeps = |(number, plan): (usize, &FastPlan)| matches!(plan, FastPlan::Keep(old) if *old == number);
        let stays = |plans: &Vec<SlowPlan>| {
            plans.len() == self.old_elements
                && plans.iter().all(|plan| matches!(plan, SlowPlan::Keep(_)))
        };
        !self.has_other_admission
            && self.fast.iter().enumerate().all(keeps)
            && self.slow.iter().all(stays)
    }

    /// Whether workers have to get ready for it.
    pub(crate) fn needs_preparation(&self) -> bool {
        let is_change = |plan: &SlowPlan| matches!(plan, SlowPlan::ChangeRules(..));
        self.releases_packets || self.slow.iter().flatten().any(is_change)
    }

    /// Takes the memory of what is new, so that no packet has to wait for it.
    pub fn touch(&mut self) {
        for plan in &mut self.fast {
            if let FastPlan::New(element) = plan {
                element.touch();
            }
        }
        for plan in self.slow.iter_mut().flatten() {
            match plan {
                SlowPlan::Rules(rules, _) => rules.touch(),
                SlowPlan::NewFlows(flows) => flows.touch(),
                _ => {}
            }
        }
        self.pools.iter_mut().for_each(Pools::touch);
    }
}
