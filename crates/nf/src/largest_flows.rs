//! The largest flows of all that there were, in bounded memory.

use crate::records::{Count, FlowRecord};
use std::collections::{BTreeSet, HashMap};
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
    /// Places by the bytes of their flows: the smallest is found at once, however many flows end.
    by_size: BTreeSet<(u64, usize)>,
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
            by_size: BTreeSet::new(),
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
        let known = self.places.get(&new.key).copied();
        let free = (self.flows.len() < self.most).then_some(self.flows.len());
        let smallest = self.by_size.first().map(|&(_, place)| place);
        match (known, free, smallest) {
            (Some(place), _, _) => {
                let known = self.flows[place];
                self.put(place, joined(known, known.excess, new));
            }
            (None, Some(place), _) => {
                self.flows.push(new);
                self.put(place, new);
            }
            (None, None, Some(place)) => {
                let former = self.flows[place];
                self.places.remove(&former.key);
                self.put(place, joined(former, former.count.bytes, new));
            }
            (None, None, None) => {}
        }
    }

    /// A flow is at a place.
    fn put(&mut self, place: usize, flow: LargeFlow) {
        let former = std::mem::replace(&mut self.flows[place], flow);
        self.by_size.remove(&(former.count.bytes, place));
        self.by_size.insert((flow.count.bytes, place));
        self.places.insert(flow.key, place);
    }

    /// So many of the largest, the largest first.
    pub fn top(&self, most: usize) -> Vec<LargeFlow> {
        let mut flows = self.flows.clone();
        flows.sort_by_key(|flow| (std::cmp::Reverse(flow.count.bytes), flow.key));
        flows.truncate(most);
        flows
    }
}

/// The new flow with what the former had, of which so many bytes may be others'.
fn joined(former: LargeFlow, excess: u64, new: LargeFlow) -> LargeFlow {
    LargeFlow {
        count: Count {
            packets: former.count.packets + new.count.packets,
            bytes: former.count.bytes + new.count.bytes,
        },
        excess: excess + new.excess,
        ..new
    }
}
