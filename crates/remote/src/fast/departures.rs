//! Packets that are about to leave, in the order of each flow and direction: a header waits for its
//! payload, and what comes behind it waits for it.
//!
//! A packet gets its place in the list of its flow when it has passed the chain, and leaves when it is the
//! first there and whole. Payloads of a flow come back in their order as long as the flow stays at one
//! queue pair; where it moves, or where packets travel whole, the list keeps it.
//!
//! A list has the name of its flow, 64 bits of a keyed hash: whoever does not know the key finds no two
//! flows of one name but by a chance of 2^-64. There is a list as long as something is in it.

use std::collections::HashMap;
use std::collections::VecDeque;

/// Names a place in a list. A place is used again when its packet has left.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DepartureNumber(u32);

/// Lists of `W` that wait and `R` that are ready.
pub struct Departures<W, R> {
    /// By flow.
    lists: HashMap<u64, List>,
    nodes: Vec<Node<W, R>>,
    free: Option<u32>,
    /// How many are ready, and behind others that are not.
    held: usize,
    /// What leaves, in order.
    ready: VecDeque<R>,
}

#[derive(Copy, Clone)]
struct List {
    first: u32,
    last: u32,
}

struct Node<W, R> {
    state: State<W, R>,
    flow: u64,
    /// The next of its list, or the next free one.
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

/// Who is before a packet that is about to leave.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nobody.
    Nobody,
    /// Perhaps some of its flow that leave now.
    Leaving,
    /// Some of its flow that wait.
    Waiting,
}

impl<W, R> Departures<W, R> {
    /// No packets.
    pub fn new() -> Self {
        Self {
            lists: HashMap::new(),
            nodes: Vec::new(),
            free: None,
            held: 0,
            ready: VecDeque::new(),
        }
    }

    /// How many are ready, and wait for others.
    pub const fn held(&self) -> usize {
        self.held
    }

    /// Who is before a packet of this flow.
    pub fn before(&self, flow: u64) -> Before {
        match (self.lists.is_empty(), self.ready.is_empty()) {
            (true, true) => Before::Nobody,
            (false, _) if self.lists.contains_key(&flow) => Before::Waiting,
            (_, true) => Before::Nobody,
            (_, false) => Before::Leaving,
        }
    }

    /// Whether a packet might overtake another.
    pub fn is_any(&self) -> bool {
        !self.lists.is_empty() || !self.ready.is_empty()
    }

    /// The last of its flow, which waits.
    pub fn push(&mut self, flow: u64, waits: W) -> DepartureNumber {
        DepartureNumber(self.push_node(flow, State::Waits(waits)))
    }

    /// The last of its flow, which leaves when those before it have.
    pub fn push_ready(&mut self, flow: u64, ready: R) {
        if !self.lists.contains_key(&flow) {
            return self.ready.push_back(ready);
        }
        self.push_node(flow, State::Ready(ready));
        self.held += 1;
    }

    fn push_node(&mut self, flow: u64, state: State<W, R>) -> u32 {
        let node = Node {
            state,
            flow,
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
        let alone = List {
            first: index,
            last: index,
        };
        let list = self.lists.entry(flow);
        list.and_modify(|list| {
            self.nodes[list.last as usize].next = Some(index);
            list.last = index;
        })
        .or_insert(alone);
        index
    }

    /// Takes what waits at a place, which stays its own until [`Self::settle`].
    pub fn take(&mut self, place: DepartureNumber) -> Option<W> {
        let state = &mut self.nodes[place.0 as usize].state;
        match std::mem::replace(state, State::Taken) {
            State::Waits(waits) => Some(waits),
            other => {
                *state = other;
                None
            }
        }
    }

    /// The same of the first of a flow.
    pub fn take_first(&mut self, flow: u64) -> Option<(DepartureNumber, W)> {
        let place = DepartureNumber(self.lists.get(&flow)?.first);
        Some((place, self.take(place)?))
    }

    /// What was [taken](Self::take) from a place comes to its end: this leaves. Returns the flow.
    pub fn settle(&mut self, place: DepartureNumber, ready: R) -> u64 {
        let node = &mut self.nodes[place.0 as usize];
        let flow = node.flow;
        if matches!(node.state, State::Taken) {
            node.state = State::Ready(ready);
            self.held += 1;
            self.release(flow);
        }
        flow
    }

    /// Those at the front of a list that wait for nothing leave.
    fn release(&mut self, flow: u64) {
        let Some(list) = self.lists.get_mut(&flow) else {
            return;
        };
        loop {
            let first = list.first;
            let node = &mut self.nodes[first as usize];
            match std::mem::replace(&mut node.state, State::Free) {
                State::Ready(ready) => self.ready.push_back(ready),
                waits => {
                    node.state = waits;
                    return;
                }
            }
            self.held -= 1;
            let next = std::mem::replace(&mut node.next, self.free.replace(first));
            match next {
                Some(next) => list.first = next,
                None => break,
            }
        }
        self.lists.remove(&flow);
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
        let flow = 0u64..5;
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
            let mut departures = Departures::<u32, u32>::new();
            // Flow, number, and whether it may leave.
            let mut all: Vec<(u64, u32, bool)> = Vec::new();
            let mut places: Vec<(DepartureNumber, u32)> = Vec::new();
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Wait(flow) => {
                        all.push((flow, number, false));
                        places.push((departures.push(flow, number), number));
                    }
                    Step::Follow(flow) => {
                        let before = match all.iter().any(|(other, _, _)| *other == flow) {
                            true => Before::Waiting,
                            false => Before::Nobody,
                        };
                        prop_assert_eq!(departures.before(flow), before);
                        all.push((flow, number, true));
                        departures.push_ready(flow, number);
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
                for flow in 0u64..5 {
                    while let Some(at) = all.iter().position(|(other, _, _)| *other == flow)
                        && all[at].2
                    {
                        expected.push(all.remove(at).1);
                    }
                }
                let left: Vec<_> = std::iter::from_fn(|| departures.pop()).collect();
                prop_assert_eq!(left, expected);
                let held = all.iter().filter(|(_, _, may_leave)| *may_leave);
                prop_assert_eq!(departures.held(), held.count());
                prop_assert_eq!(departures.is_any(), !all.is_empty());
                prop_assert!(departures.nodes.len() <= 200);
            }
        }
    }
}
