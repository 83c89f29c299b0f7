//! Whole packets that wait for others of their flow where nothing goes round: one that comes to the
//! head of the queue may have to leave before its own place there comes.

use std::collections::HashMap;

/// Lists of what waits, by the flow's hash, in order. The places of the lists are reused.
#[derive(Debug)]
pub(crate) struct Followers<T> {
    flows: HashMap<u64, List>,
    places: Vec<Node<T>>,
    free: Option<usize>,
}

#[derive(Copy, Clone, Debug)]
struct List {
    first: Option<usize>,
    last: usize,
    /// How many have left before their places in the queue came to its head.
    gone: u32,
}

#[derive(Debug)]
struct Node<T> {
    item: Option<T>,
    /// The next of the flow, or the next free place.
    next: Option<usize>,
}

impl<T> Followers<T> {
    pub(crate) fn new() -> Self {
        Self {
            flows: HashMap::new(),
            places: Vec::new(),
            free: None,
        }
    }

    /// The last of its flow.
    pub(crate) fn push(&mut self, flow: u64, item: T) {
        let place = self.place(item);
        let list = self.flows.entry(flow).or_insert(List {
            first: None,
            last: place,
            gone: 0,
        });
        match list.first {
            Some(_) => self.places[list.last].next = Some(place),
            None => list.first = Some(place),
        }
        list.last = place;
    }

    fn place(&mut self, item: T) -> usize {
        let new = Node {
            item: Some(item),
            next: None,
        };
        match self.free {
            Some(place) => {
                self.free = self.places[place].next;
                self.places[place] = new;
                place
            }
            None => {
                self.places.push(new);
                self.places.len() - 1
            }
        }
    }

    /// Takes out the first of a flow before its place in the queue comes, if it is to leave now.
    pub(crate) fn take_early(&mut self, flow: u64, is_due: impl Fn(&T) -> bool) -> Option<T> {
        let list = self.flows.get_mut(&flow)?;
        let place = list.first?;
        self.places[place]
            .item
            .as_ref()
            .filter(|item| is_due(item))?;
        list.gone += 1;
        list.first = self.places[place].next;
        self.release(place)
    }

    /// A place of the flow has come to the head of the queue: whose it is, unless that has left.
    pub(crate) fn take_in_turn(&mut self, flow: u64) -> Option<T> {
        let list = self.flows.get_mut(&flow)?;
        let place = match list.gone {
            0 => list.first,
            _ => {
                list.gone -= 1;
                None
            }
        };
        if let Some(place) = place {
            list.first = self.places[place].next;
        }
        if list.first.is_none() && list.gone == 0 {
            self.flows.remove(&flow);
        }
        self.release(place?)
    }

    fn release(&mut self, place: usize) -> Option<T> {
        let item = self.places[place].item.take();
        self.places[place].next = self.free.replace(place);
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Against a queue that is looked through, in which what has left early leaves a gap.
        #[test]
        fn they_leave_as_from_a_queue_that_is_looked_through(
            steps in prop::collection::vec((0u64..3, 0u8..3), 1..200),
        ) {
            let mut followers = Followers::new();
            let mut queue = VecDeque::<(u64, Option<usize>)>::new();
            for (number, (flow, what)) in steps.into_iter().enumerate() {
                match what {
                    0 => {
                        followers.push(flow, number);
                        queue.push_back((flow, Some(number)));
                    }
                    1 => {
                        let is_due = |item: &usize| item.is_multiple_of(2);
                        let mut own = queue.iter_mut().filter(|(of, item)| *of == flow && item.is_some());
                        let first = own.next().filter(|(_, item)| item.as_ref().is_some_and(is_due));
                        let expected = first.and_then(|(_, item)| item.take());
                        prop_assert_eq!(followers.take_early(flow, is_due), expected);
                    }
                    _ => {
                        if let Some((flow, expected)) = queue.pop_front() {
                            prop_assert_eq!(followers.take_in_turn(flow), expected);
                        }
                    }
                }
            }
            let most = queue.len();
            prop_assert!(followers.flows.len() <= most);
        }
    }
}
