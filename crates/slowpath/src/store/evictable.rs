//! Flows that may be forgotten to make room, in the order in which they last had a packet: lists
//! through their heads.

use super::{FlowId, FlowStore};
use crate::function::Eviction;

/// The ends of a list.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct List {
    oldest: Link,
    youngest: Link,
    count: usize,
}

/// The lists: of half-open flows, and of those that may go when the store is full.
pub(super) type Lists = [List; 2];

/// The next flow in a direction of a list, as its number plus one; 0 for none.
type Link = u32;

/// A flow's neighbours in the list that it is in, if any.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Neighbours {
    older: Link,
    younger: Link,
    list: Option<usize>,
}

fn flow(link: Link) -> Option<FlowId> {
    link.checked_sub(1).map(FlowId)
}

const fn list_of(eviction: Eviction) -> Option<usize> {
    match eviction {
        Eviction::HalfOpen => Some(0),
        Eviction::WhenFull => Some(1),
        Eviction::Never => None,
    }
}

impl<T: Default> FlowStore<T> {
    /// How many flows may be forgotten at this occasion, and no other.
    pub fn evictable(&self, eviction: Eviction) -> usize {
        list_of(eviction).map_or(0, |list| self.lists[list].count)
    }

    /// Of these flows the one that has been silent for longest.
    pub fn oldest_evictable(&self, eviction: Eviction) -> Option<FlowId> {
        flow(self.lists[list_of(eviction)?].oldest)
    }

    /// A flow has just had a packet, and this is when it may be forgotten.
    #[inline]
    pub fn set_eviction(&mut self, id: FlowId, eviction: Eviction) {
        if let Some(list) = self.head(id).neighbours.list {
            self.take_out(id, list);
        }
        if let Some(list) = list_of(eviction) {
            self.append(id, list);
        }
    }

    fn take_out(&mut self, id: FlowId, list: usize) {
        let Neighbours { older, younger, .. } = std::mem::take(&mut self.head_mut(id).neighbours);
        match flow(older) {
            Some(older) => self.head_mut(older).neighbours.younger = younger,
            None => self.lists[list].oldest = younger,
        }
        match flow(younger) {
            Some(younger) => self.head_mut(younger).neighbours.older = older,
            None => self.lists[list].youngest = older,
        }
        self.lists[list].count -= 1;
    }

    fn append(&mut self, id: FlowId, list: usize) {
        let (own, older) = (id.0 + 1, self.lists[list].youngest);
        self.head_mut(id).neighbours = Neighbours {
            older,
            younger: 0,
            list: Some(list),
        };
        match flow(older) {
            Some(older) => self.head_mut(older).neighbours.younger = own,
            None => self.lists[list].oldest = own,
        }
        self.lists[list].youngest = own;
        self.lists[list].count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Eviction::{HalfOpen, Never, WhenFull};
    use proptest::prelude::*;
    use twinpath_core::FlowKey;

    proptest! {
        #[test]
        fn flows_are_in_the_order_of_their_last_packets(steps in prop::collection::vec((0u64..20, 0u8..6), 1..300)) {
            let mut store = FlowStore::<()>::new(20, 1, 0);
            let mut expected = [Vec::new(), Vec::new()];
            for (number, what) in steps {
                let key = FlowKey([number, 0, 0, 0, 1]);
                let id = store.find_or_insert(&key, number).expect("room");
                expected.iter_mut().for_each(|list| list.retain(|&other| other != number));
                match what {
                    0 => store.remove(id),
                    1 => store.set_eviction(id, Never),
                    2 | 3 => {
                        store.set_eviction(id, WhenFull);
                        expected[1].push(number);
                    }
                    _ => {
                        store.set_eviction(id, HalfOpen);
                        expected[0].push(number);
                    }
                }
                for (eviction, expected) in [HalfOpen, WhenFull].into_iter().zip(&expected) {
                    prop_assert_eq!(store.evictable(eviction), expected.len());
                    let oldest = store.oldest_evictable(eviction).map(|id| store.view(id).0.0[0]);
                    prop_assert_eq!(oldest, expected.first().copied());
                }
            }
            for (eviction, mut expected) in [HalfOpen, WhenFull].into_iter().zip(expected) {
                while let Some(id) = store.oldest_evictable(eviction) {
                    prop_assert_eq!(store.view(id).0.0[0], expected.remove(0));
                    store.set_eviction(id, Never);
                }
                prop_assert!(expected.is_empty());
            }
        }
    }
}
