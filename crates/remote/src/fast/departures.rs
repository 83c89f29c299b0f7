//! Packets that are about to leave, in the order of each flow: a header waits for its payload, and what
//! comes behind it waits for it.
//!
//! Flows are hashed to lists. A packet gets its place when it has passed the chain, and leaves when it
//! is the first of its list and whole. Payloads of a flow come back in their order as long as the flow
//! stays at one queue pair; where it moves, or where packets travel whole, the list keeps it.

use std::collections::VecDeque;

/// Names a place in a list. A place is used again when its packet has left.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// Lists of `W` that wait and `R` that are ready.
pub struct Departures<W, R> {
    lists: Box<[List]>,
    nodes: Vec<Node<W, R>>,
    free: Option<u32>,
    waiting: usize,
    /// What leaves, in order.
    ready: VecDeque<R>,
}

#[derive(Copy, Clone, Default)]
struct List {
    first: Option<u32>,
    last: u32,
}

struct Node<W, R> {
    state: State<W, R>,
    list: u32,
    next: Option<u32>,
}

enum State<W, R> {
    Waits(W),
    /// It is made ready.
    Taken,
    Ready(R),
    /// Nobody is there.
    Free,
}

impl<W, R> Departures<W, R> {
    /// So many lists, at least one.
    pub fn new(lists: usize) -> Self {
        Self {
            lists: vec![List::default(); lists.max(1)].into(),
            nodes: Vec::new(),
            free: None,
            waiting: 0,
            ready: VecDeque::new(),
        }
    }

    /// The upper half of the hash decides: a product instead of a division.
    fn list(&self, hash: u64) -> u32 {
        (((hash >> 32) * self.lists.len() as u64) >> 32) as u32
    }

    /// How many have a place.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether a packet of the flow with this hash would overtake another.
    pub fn is_any_before(&self, hash: u64) -> bool {
        // What is ready has not left: whose it is does not matter, for it leaves soon.
        !self.ready.is_empty()
            || self.waiting > 0 && self.lists[self.list(hash) as usize].first.is_some()
    }

    /// Whether a packet might overtake another.
    pub fn is_any(&self) -> bool {
        self.waiting > 0 || !self.ready.is_empty()
    }

    /// The last of its flow, which waits.
    pub fn push(&mut self, hash: u64, waits: W) -> Place {
        let list = self.list(hash);
        Place(self.push_node(list, State::Waits(waits)))
    }

    /// The last of its flow, which leaves when those before it have.
    pub fn follow(&mut self, hash: u64, ready: R) {
        let list = self.list(hash);
        self.push_node(list, State::Ready(ready));
        self.release(list);
    }

    fn push_node(&mut self, list: u32, state: State<W, R>) -> u32 {
        let node = Node {
            state,
            list,
            next: None,
        };
        let index = match self.free {
            Some(index) => {
                let place = &mut self.nodes[index as usize];
                self.free = place.next;
                *place = node;
                index
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        let last = self.lists[list as usize];
        match last.first {
            Some(_) => self.nodes[last.last as usize].next = Some(index),
            None => self.lists[list as usize].first = Some(index),
        }
        self.lists[list as usize].last = index;
        self.waiting += 1;
        index
    }

    /// Takes what waits at a place, which stays its own until [`Self::settle`].
    pub fn take(&mut self, place: Place) -> Option<W> {
        let state = &mut self.nodes[place.0 as usize].state;
        match std::mem::replace(state, State::Taken) {
            State::Waits(waits) => Some(waits),
            other => {
                *state = other;
                None
            }
        }
    }

    /// What was [taken](Self::take) from a place comes to its end: this leaves.
    pub fn settle(&mut self, place: Place, ready: R) {
        let node = &mut self.nodes[place.0 as usize];
        if matches!(node.state, State::Taken) {
            node.state = State::Ready(ready);
            let list = node.list;
            self.release(list);
        }
    }

    /// Those at the front of a list that wait for nothing leave.
    fn release(&mut self, list: u32) {
        while let Some(first) = self.lists[list as usize].first {
            let node = &mut self.nodes[first as usize];
            match std::mem::replace(&mut node.state, State::Free) {
                State::Ready(ready) => self.ready.push_back(ready),
                waits => {
                    node.state = waits;
                    return;
                }
            }
            self.lists[list as usize].first = node.next;
            node.next = self.free.replace(first);
            self.waiting -= 1;
        }
    }

    /// The next that leaves.
    pub fn pop(&mut self) -> Option<R> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Wait(u64),
        Follow(u64),
        Settle(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let flow = (0u64..5).prop_map(|flow| flow << 61);
        prop_oneof![
            3 => flow.clone().prop_map(Step::Wait),
            2 => flow.prop_map(Step::Follow),
            4 => (0usize..8).prop_map(Step::Settle),
        ]
    }

    proptest! {
        /// Against a list of all, of which each flow's front leaves.
        #[test]
        fn flows_leave_in_order(steps in prop::collection::vec(step(), 1..200)) {
            let mut departures = Departures::<u32, u32>::new(8);
            // Flow, number, and whether it may leave.
            let mut all: Vec<(u64, u32, bool)> = Vec::new();
            let mut places: Vec<(Place, u32)> = Vec::new();
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Wait(flow) => {
                        all.push((flow, number, false));
                        places.push((departures.push(flow, number), number));
                    }
                    Step::Follow(flow) => {
                        let is_any = all.iter().any(|(other, _, _)| *other == flow);
                        prop_assert_eq!(departures.is_any_before(flow), is_any);
                        all.push((flow, number, true));
                        departures.follow(flow, number);
                    }
                    Step::Settle(which) if which < places.len() => {
                        let (place, of) = places.swap_remove(which);
                        prop_assert_eq!(departures.take(place), Some(of));
                        prop_assert_eq!(departures.take(place), None);
                        departures.settle(place, of);
                        let known = all.iter_mut().find(|(_, number, _)| *number == of);
                        known.expect("it waits").2 = true;
                    }
                    Step::Settle(_) => {}
                }
                let mut expected = Vec::new();
                for flow in (0u64..5).map(|flow| flow << 61) {
                    while let Some(at) = all.iter().position(|(other, _, _)| *other == flow)
                        && all[at].2
                    {
                        expected.push(all.remove(at).1);
                    }
                }
                let left: Vec<_> = std::iter::from_fn(|| departures.pop()).collect();
                prop_assert_eq!(left, expected);
                prop_assert_eq!(departures.waiting(), all.len());
                prop_assert!(departures.nodes.len() <= 200);
            }
        }
    }
}
