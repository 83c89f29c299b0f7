//! The largest flows of all that there were, in bounded memory.

use crate::records::{Count, FlowRecord};
use std::collections::HashMap;
use twinpath_core::FlowKey;

/// A flow, and what it had: never too little.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LargeFlow {
    /// The flow.
    pub key: FlowKey,
    /// Its packets and bytes, both ways.
    pub count: Count,
    /// So many of the bytes may be others'.
    pub excess: u64,
}

/// Candidates for the largest flows by bytes, as many as there may be (Space-Saving: Metwally, Agrawal and
/// El Abbadi 2005). What is new takes the place of the smallest, and what that had.
#[derive(Clone, Debug)]
pub struct LargestFlows {
    places: HashMap<FlowKey, usize>,
    flows: Vec<LargeFlow>,
    most: usize,
}

/// For each flow that is to be told, so many are candidates.
const CANDIDATES: usize = 16;

impl LargestFlows {
    /// Candidates for so many of the largest flows.
    pub fn new(top: usize) -> Self {
        Self {
            places: HashMap::new(),
            flows: Vec::new(),
            most: top.max(1) * CANDIDATES,
        }
    }

    /// A record of a flow has ended.
    pub fn add(&mut self, record: &FlowRecord) {
        let [low, high] = record.sent;
        let count = Count {
            packets: low.packets + high.packets,
            bytes: low.bytes + high.bytes,
        };
        let new = LargeFlow {
            key: record.key,
            count,
            excess: 0,
        };
        self.insert(new);
    }

    /// What others know of their flows.
    pub fn merge(&mut self, other: &Self) {
        other.flows.iter().for_each(|flow| self.insert(*flow));
    }

    fn insert(&mut self, new: LargeFlow) {
        if let Some(&place) = self.places.get(&new.key) {
            let known = &mut self.flows[place];
            known.count.packets += new.count.packets;
            known.count.bytes += new.count.bytes;
            known.excess += new.excess;
            return;
        }
        if self.flows.len() < self.most {
            self.places.insert(new.key, self.flows.len());
            return self.flows.push(new);
        }
        let smallest = self.flows.iter_mut().enumerate();
        let Some((place, smallest)) = smallest.min_by_key(|(_, flow)| flow.count.bytes) else {
            return;
        };
        self.places.remove(&smallest.key);
        self.places.insert(new.key, place);
        let taken = smallest.count;
        *smallest = LargeFlow {
            count: Count {
                packets: taken.packets + new.count.packets,
                bytes: taken.bytes + new.count.bytes,
            },
            excess: taken.bytes + new.excess,
            ..new
        };
    }

    /// So many of the largest, the largest first.
    pub fn top(&self, most: usize) -> Vec<LargeFlow> {
        let mut flows = self.flows.clone();
        flows.sort_by_key(|flow| (std::cmp::Reverse(flow.count.bytes), flow.key));
        flows.truncate(most);
        flows
    }
}
