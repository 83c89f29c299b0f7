//! Order between the two ends of a connection, in chains of several elements.
//!
//! Each element keeps packets of one end in order. But packets from the other end come the other
//! way through the chain (or past rules of their own), so while one is on the cores at some
//! element, another that came later could meet the next element before it. Therefore a packet
//! waits in front of the chain while packets from the other end of its connection are inside: on
//! the cores, or held until a rule becomes active. Others of the connection wait behind it. What is
//! inside never waits for what is in front, so this ends.
//!
//! Connections are told apart by a few bits of a hash: those that share them wait for each other
//! now and then, which costs them a round trip of the link and nothing else.

use std::num::NonZeroU16;
use twinpath_core::{Frame, Instant};

/// Connections that are told apart, a power of two.
const PLACES: usize = 4096;

/// No node.
const NONE: u32 = u32::MAX;

/// Which connection, and which of its ends: what must not cross packets of the other end.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Crossing(NonZeroU16);

impl Crossing {
    /// From the hash of what tells the connection, and the end.
    pub fn new(hash: u64, is_second_end: bool) -> Self {
        let place = (hash >> 32) as usize % PLACES;
        let number = 1 + 2 * place as u16 + u16::from(is_second_end);
        Self(NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN))
    }

    /// As a frame remembers it.
    pub fn of_number(number: u16) -> Option<Self> {
        let is_known = usize::from(number) <= 2 * PLACES;
        NonZeroU16::new(number).filter(|_| is_known).map(Self)
    }

    pub fn number(self) -> u16 {
        self.0.get()
    }

    fn place(self) -> usize {
        usize::from(self.0.get() - 1) / 2
    }

    fn end(self) -> usize {
        usize::from(self.0.get() - 1) % 2
    }
}

/// Packets of connections that share a place.
#[derive(Copy, Clone)]
struct Place {
    /// How many are inside, by end.
    inside: [u32; 2],
    /// The first and the last that wait.
    first: u32,
    last: u32,
}

const EMPTY: Place = Place {
    inside: [0; 2],
    first: NONE,
    last: NONE,
};

/// A packet that waits, and the one behind it.
struct Node {
    waiting: Option<(Crossing, Frame)>,
    next: u32,
}

/// Packets that are inside, as far as others may have to wait for them, and those that wait.
pub(super) struct Crossings {
    places: Box<[Place]>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    limit: usize,
    /// Packets inside and packets that wait.
    active: usize,
    /// Places whose first packet may have its way free.
    ready: Vec<u16>,
}

impl Crossings {
    /// At most `limit` packets wait.
    pub fn new(limit: usize) -> Self {
        Self {
            places: vec![EMPTY; PLACES].into(),
            nodes: Vec::new(),
            free: Vec::new(),
            limit,
            active: 0,
            ready: Vec::new(),
        }
    }

    /// Whether no packet has to wait, whatever it is.
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        self.active == 0
    }

    /// How many packets wait.
    pub fn waiting(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// When the packet that has waited longest arrived.
    pub fn oldest(&self) -> Option<Instant> {
        let waiting = self.nodes.iter().filter_map(|node| node.waiting.as_ref());
        waiting.map(|(_, frame)| frame.timestamp()).min()
    }

    /// Whether a packet has to wait.
    pub fn must_wait(&self, crossing: Crossing) -> bool {
        let place = &self.places[crossing.place()];
        place.first != NONE || place.inside[1 - crossing.end()] > 0
    }

    /// A packet waits; it comes back if no more may.
    pub fn wait(&mut self, crossing: Crossing, frame: Frame) -> Result<(), Frame> {
        if self.waiting() >= self.limit {
            return Err(frame);
        }
        let node = self.node(crossing, frame);
        let place = &mut self.places[crossing.place()];
        match place.last {
            NONE => place.first = node,
            last => self.nodes[last as usize].next = node,
        }
        place.last = node;
        self.active += 1;
        Ok(())
    }

    fn node(&mut self, crossing: Crossing, frame: Frame) -> u32 {
        let node = Node {
            waiting: Some((crossing, frame)),
            next: NONE,
        };
        match self.free.pop() {
            Some(number) => {
                self.nodes[number as usize] = node;
                number
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    /// A packet is inside from now on.
    pub fn enter(&mut self, crossing: Crossing) {
        self.places[crossing.place()].inside[crossing.end()] += 1;
        self.active += 1;
    }

    /// A packet is no longer inside.
    pub fn leave(&mut self, crossing: Crossing) {
        let place = &mut self.places[crossing.place()];
        let inside = &mut place.inside[crossing.end()];
        if *inside == 0 {
            return;
        }
        *inside -= 1;
        self.active -= 1;
        if *inside == 0 && place.first != NONE {
            self.ready.push(crossing.place() as u16);
        }
    }

    /// The next packet that need not wait any more.
    pub fn next(&mut self) -> Option<Frame> {
        while let Some(&place) = self.ready.last() {
            let first = self.places[usize::from(place)].first;
            match self.waits(first) {
                Some(crossing) if !self.is_barred(crossing) => return self.take_first(place),
                _ => _ = self.ready.pop(),
            }
        }
        None
    }

    fn waits(&self, node: u32) -> Option<Crossing> {
        let (crossing, _) = self.nodes.get(node as usize)?.waiting.as_ref()?;
        Some(*crossing)
    }

    fn is_barred(&self, crossing: Crossing) -> bool {
        self.places[crossing.place()].inside[1 - crossing.end()] > 0
    }

    /// The first packet that waits at the place of this one, whether its way is free or not.
    pub fn first_at(&mut self, crossing: Crossing) -> Option<Frame> {
        self.take_first(crossing.place() as u16)
    }

    fn take_first(&mut self, place: u16) -> Option<Frame> {
        let place = &mut self.places[usize::from(place)];
        let number = place.first;
        let node = self.nodes.get_mut(number as usize)?;
        let (_, frame) = node.waiting.take()?;
        place.first = node.next;
        if place.first == NONE {
            place.last = NONE;
        }
        self.free.push(number);
        self.active -= 1;
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use twinpath_core::Pool;

    const LIMIT: usize = 8;

    /// Two connections at different places, and their ends.
    fn crossing(connection: usize, end: usize) -> Crossing {
        Crossing::new((connection as u64) << 32, end == 1)
    }

    #[test]
    fn numbers_tell_places_and_ends() {
        for place in [0, 1, PLACES - 1] {
            for end in 0..2 {
                let crossing = Crossing::new((place as u64) << 32, end == 1);
                assert_eq!((crossing.place(), crossing.end()), (place, end));
                assert_eq!(Crossing::of_number(crossing.number()), Some(crossing));
            }
        }
        assert_eq!(Crossing::of_number(0), None);
        assert_eq!(Crossing::of_number(2 * PLACES as u16 + 1), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// A packet arrives; if it goes in, it stays inside for a while, or not at all.
        Arrive(usize, usize, bool),
        /// The oldest packet of a connection that is inside leaves.
        Leave(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0usize..2, 0usize..2, any::<bool>()).prop_map(|(a, b, c)| Step::Arrive(a, b, c)),
            2 => (0usize..2).prop_map(Step::Leave),
        ]
    }

    /// What a packet is: its number, and whether it stays inside.
    fn stays(frame: &Frame) -> bool {
        frame.bytes()[0] == 1
    }

    /// Everything that is known outside.
    struct Bench {
        crossings: Crossings,
        /// Of each connection: ends of packets inside.
        inside: [VecDeque<usize>; 2],
        /// Of each connection: numbers of packets in order of entry.
        entered: [Vec<u64>; 2],
    }

    impl Bench {
        fn goes_in(&mut self, connection: usize, end: usize, frame: &Frame) {
            self.entered[connection].push(frame.ordinal());
            if stays(frame) {
                self.crossings.enter(crossing(connection, end));
                self.inside[connection].push_back(end);
            }
            let inside = &self.inside[connection];
            assert!(inside.iter().all(|&other| other == end), "they cross");
        }

        fn let_in(&mut self) {
            while let Some(frame) = self.crossings.next() {
                let bytes = frame.bytes();
                let (connection, end) = (usize::from(bytes[1]), usize::from(bytes[2]));
                self.goes_in(connection, end, &frame);
            }
        }
    }

    proptest! {
        /// Packets of a connection go in in order of arrival, and never while one of the other
        /// end is inside; when all have left nobody waits.
        #[test]
        fn nobody_crosses_and_nobody_waits_for_ever(steps in prop::collection::vec(step(), 1..200)) {
            let mut pool = Pool::new(1000, 8);
            let mut bench = Bench {
                crossings: Crossings::new(LIMIT),
                inside: Default::default(),
                entered: Default::default(),
            };
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Arrive(connection, end, stays) => {
                        let bytes = [u8::from(stays), connection as u8, end as u8];
                        let mut frame = pool.take_filled(&bytes).expect("room");
                        frame.set_ordinal(number);
                        let crossing = crossing(connection, end);
                        if !bench.crossings.must_wait(crossing) {
                            bench.goes_in(connection, end, &frame);
                        } else if bench.crossings.wait(crossing, frame).is_err() {
                            prop_assert_eq!(bench.crossings.waiting(), LIMIT);
                        }
                    }
                    Step::Leave(connection) => {
                        if let Some(end) = bench.inside[connection].pop_front() {
                            bench.crossings.leave(crossing(connection, end));
                            bench.let_in();
                        }
                    }
                }
            }
            for connection in 0..2 {
                while let Some(end) = bench.inside[connection].pop_front() {
                    bench.crossings.leave(crossing(connection, end));
                    bench.let_in();
                }
            }
            prop_assert_eq!(bench.crossings.waiting(), 0);
            prop_assert!(bench.crossings.is_quiet());
            prop_assert!(bench.entered.iter().all(|numbers| numbers.is_sorted()));
        }
    }
}
