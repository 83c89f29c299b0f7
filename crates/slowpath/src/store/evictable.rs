//! Flows that are half-open, in the order in which they last had a packet: a list through their
//! heads.

use super::{FlowId, FlowStore};

/// The ends of the list.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct HalfOpen {
    oldest: Link,
    youngest: Link,
    count: usize,
}

/// The next flow in a direction of the list, as its number plus one; 0 for none.
type Link = u32;

/// A flow's neighbours in the list.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Neighbours {
    older: Link,
    younger: Link,
    is_in: bool,
}

fn flow(link: Link) -> Option<FlowId> {
    link.checked_sub(1).map(FlowId)
}

impl<T: Default> FlowStore<T> {
    /// How many flows are half-open.
    pub fn half_open(&self) -> usize {
        self.half_open.count
    }

    /// The half-open flow that has been silent for longest.
    pub fn oldest_half_open(&self) -> Option<FlowId> {
        flow(self.half_open.oldest)
    }

    /// A flow has just had a packet, and is half-open or not.
    #[inline]
    pub fn set_half_open(&mut self, id: FlowId, is_half_open: bool) {
        let was = self.head(id).neighbours.is_in;
        if was {
            self.take_out(id);
        }
        if is_half_open {
            self.append(id);
        }
    }

    fn take_out(&mut self, id: FlowId) {
        let Neighbours { older, younger, .. } = std::mem::take(&mut self.head_mut(id).neighbours);
        match flow(older) {
            Some(older) => self.head_mut(older).neighbours.younger = younger,
            None => self.half_open.oldest = younger,
        }
        match flow(younger) {
            Some(younger) => self.head_mut(younger).neighbours.older = older,
            None => self.half_open.youngest = older,
        }
        self.half_open.count -= 1;
    }

    fn append(&mut self, id: FlowId) {
        let (own, older) = (id.0 + 1, self.half_open.youngest);
        self.head_mut(id).neighbours = Neighbours {
            older,
            younger: 0,
            is_in: true,
        };
        match flow(older) {
            Some(older) => self.head_mut(older).neighbours.younger = own,
            None => self.half_open.oldest = own,
        }
        self.half_open.youngest = own;
        self.half_open.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use twinpath_core::FlowKey;

    proptest! {
        #[test]
        fn flows_are_in_the_order_of_their_last_packets(steps in prop::collection::vec((0u64..20, 0u8..4), 1..300)) {
            let mut store = FlowStore::<()>::new(20, 1, 0);
            let mut expected = Vec::new();
            for (number, what) in steps {
                let key = FlowKey([number, 0, 0, 0, 1]);
                let id = store.find_or_insert(&key, number).expect("room");
                expected.retain(|&other| other != number);
                match what {
                    0 => store.remove(id),
                    1 => store.set_half_open(id, false),
                    _ => {
                        store.set_half_open(id, true);
                        expected.push(number);
                    }
                }
                prop_assert_eq!(store.half_open(), expected.len());
                let oldest = store.oldest_half_open().map(|id| store.view(id).0.0[0]);
                prop_assert_eq!(oldest, expected.first().copied());
            }
            while let Some(id) = store.oldest_half_open() {
                prop_assert_eq!(store.view(id).0.0[0], expected.remove(0));
                store.set_half_open(id, false);
            }
            prop_assert!(expected.is_empty());
        }
    }
}
