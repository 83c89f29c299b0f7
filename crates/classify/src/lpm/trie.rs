//! The routes of one IP version.

use super::RouteError;
use super::flat::{Flat, MAX_NODES};
use super::node::{Node, NodeWords, PrefixNumber, STRIDE, rank};
use super::runs::Runs;
use crate::word::Word;

/// Nodes and next hops reserved for small tables, whatever the limit.
const LEAST: usize = 4096;
/// Runs of next hops that grow leave gaps behind.
const RESULTS_PER_ROUTE: usize = 4;
/// Nodes on the longest way down: 110 bits of an IPv6 address below the flat table.
const LONGEST: usize = 23;

/// Next hops of one IP version, by prefix.
pub(super) struct Trie<A> {
    flat: Flat,
    /// Number 0 stands for no node.
    nodes: Runs<NodeWords>,
    results: Runs<u32>,
    flat_bits: u32,
    routes: usize,
    limit: usize,
    version: std::marker::PhantomData<A>,
}

/// The last node on the way in which a prefix covers the address: what is needed of it to find
/// the longest such prefix. Kept as numbers and put in place without branches, for whether a
/// node has one cannot be predicted.
#[derive(Copy, Clone, Default)]
struct Match {
    /// The places of these prefixes; 0 if there was none in any node.
    covering: u64,
    prefixes: u64,
    results: u32,
}

impl Match {
    #[inline(always)]
    fn or_better(self, node: &Node, value: usize) -> Self {
        let covering = node.covering(value);
        let is_better = covering != 0;
        Self {
            covering: if is_better { covering } else { self.covering },
            prefixes: if is_better {
                node.prefixes
            } else {
                self.prefixes
            },
            results: if is_better {
                node.results
            } else {
                self.results
            },
        }
    }

    /// Where the next hop is kept.
    #[inline(always)]
    fn result(self) -> Option<u32> {
        let last = self.covering.checked_ilog2()?;
        Some(rank(self.prefixes, last) + self.results)
    }
}

/// The nodes on the way to a prefix, each with the value that leads on from it.
struct NodePath {
    steps: [(u32, usize); LONGEST],
    length: usize,
}

impl<A: Word> Trie<A> {
    pub fn new(flat_bits: u32, limit: usize) -> Self {
        // One for each level, if no two routes share any, and some more for gaps.
        let nodes_per_route = ((A::BITS - flat_bits) / STRIDE + 2) as usize;
        let mut nodes = Runs::new((LEAST + limit * nodes_per_route).min(MAX_NODES));
        let _ = nodes.single(Node::EMPTY.write());
        Self {
            flat: Flat::new(flat_bits),
            nodes,
            results: Runs::new(LEAST + limit * RESULTS_PER_ROUTE),
            flat_bits,
            routes: 0,
            limit,
            version: std::marker::PhantomData,
        }
    }

    pub const fn len(&self) -> usize {
        self.routes
    }

    #[inline(always)]
    fn flat_index(&self, address: A) -> usize {
        address.bits(0, self.flat_bits)
    }

    #[inline(always)]
    fn node(&self, index: u32) -> Node {
        Node::read(self.nodes.at(index))
    }

    /// The value of the five bits of an address that a node at this depth looks at; what an
    /// address does not have is zero.
    #[inline(always)]
    fn value(address: A, depth: u32) -> usize {
        (address << depth).bits(0, STRIDE)
    }

    #[inline]
    pub fn lookup(&self, address: A) -> Option<u32> {
        let flat = self.flat.entry(self.flat_index(address));
        if flat.node == 0 {
            return flat.next_hop;
        }
        let (found, ..) = self.walk(address, flat.node);
        self.next_hop(found).or(flat.next_hop)
    }

    #[inline(always)]
    fn next_hop(&self, found: Match) -> Option<u32> {
        found.result().map(|place| *self.results.at(place))
    }

    /// The longest match below the flat table, the last node on the way, and its depth.
    #[inline(always)]
    fn walk(&self, address: A, node: u32) -> (Match, Node, u32) {
        let mut found = Match::default();
        let mut node = self.node(node);
        let mut depth = self.flat_bits;
        loop {
            let value = Self::value(address, depth);
            found = found.or_better(&node, value);
            match node.child(value) {
                Some(child) if depth + STRIDE < A::BITS => {
                    depth += STRIDE;
                    node = self.node(child);
                }
                _ => return (found, node, depth),
            }
        }
    }

    /// The next hop, and how many leading bits of the address decide it.
    pub fn lookup_examined(&self, address: A) -> (Option<u32>, u32) {
        let index = self.flat_index(address);
        let flat = self.flat.entry(index);
        if flat.node == 0 {
            return (flat.next_hop, self.flat.deciding_bits(index));
        }
        let (found, last, depth) = self.walk(address, flat.node);
        let bits = depth + last.deciding_bits(Self::value(address, depth));
        let next_hop = self.next_hop(found).or(flat.next_hop);
        (next_hop, bits.min(A::BITS))
    }

    /// Refuses if a prefix is new and the table full.
    pub fn has_room_for(&self, network: A, length: u32) -> Result<(), RouteError> {
        if self.routes >= self.limit && self.exact(network, length).is_none() {
            return Err(RouteError::TooMany(self.limit));
        }
        Ok(())
    }

    /// The next hop of exactly this prefix.
    fn exact(&self, network: A, length: u32) -> Option<u32> {
        if length <= self.flat_bits {
            return self.flat.get(length, self.short(network, length));
        }
        let mut node = self.flat.entry(self.flat_index(network)).node;
        for depth in self.depths_above(length) {
            node = self.node(node).child(Self::value(network, depth))?;
        }
        let (node, place) = (self.node(node), self.place(network, length));
        node.ends_at(place)
            .then(|| *self.results.at(node.result(place)))
    }

    /// The length and the next hop of the longest route at most so long that has these leading bits.
    pub fn covering(&self, network: A, most: u32) -> Option<(u32, u32)> {
        let mut lengths = (0..=most).rev();
        lengths.find_map(|length| Some((length, self.exact(network, length)?)))
    }

    /// The bits of a short prefix as a number.
    fn short(&self, network: A, length: u32) -> u32 {
        match length {
            0 => 0,
            _ => network.bits(0, length) as u32,
        }
    }

    /// The depths of the nodes that lead to the one which holds a prefix of this length.
    fn depths_above(&self, length: u32) -> impl Iterator<Item = u32> + use<A> {
        let holder = self.flat_bits + (length - self.flat_bits - 1) / STRIDE * STRIDE;
        (self.flat_bits..holder).step_by(STRIDE as usize)
    }

    /// Where in its node a prefix ends.
    fn place(&self, network: A, length: u32) -> PrefixNumber {
        let relative = (length - self.flat_bits - 1) % STRIDE + 1;
        PrefixNumber::new((network << (length - relative)).bits(0, relative), relative)
    }

    pub fn insert(
        &mut self,
        network: A,
        length: u32,
        next_hop: u32,
    ) -> Result<Option<u32>, RouteError> {
        self.has_room_for(network, length)?;
        let before = if length <= self.flat_bits {
            let prefix = self.short(network, length);
            self.flat.insert(length, prefix, next_hop)
        } else {
            self.insert_long(network, length, next_hop)?
        };
        self.routes += usize::from(before.is_none());
        Ok(before)
    }

    fn insert_long(
        &mut self,
        network: A,
        length: u32,
        next_hop: u32,
    ) -> Result<Option<u32>, RouteError> {
        let index = self.flat_index(network);
        let mut node = self.flat.entry(index).node;
        if node == 0 {
            let empty = Node::EMPTY.write();
            node = self.nodes.single(empty).ok_or(RouteError::Memory)?;
            self.flat.set_node(index, node);
        }
        let mut way = NodePath::new();
        for depth in self.depths_above(length) {
            let value = Self::value(network, depth);
            way.push(node, value);
            let child = match self.node(node).child(value) {
                Some(child) => Some(child),
                None => self.add_child(node, value),
            };
            let Some(child) = child else {
                self.prune(&mut way, index);
                return Err(RouteError::Memory);
            };
            node = child;
        }
        let before = self.set_result(node, self.place(network, length), next_hop);
        if before == Err(RouteError::Memory) && self.node(node).is_empty() {
            self.drop_node(&mut way, index);
        }
        before
    }

    /// Gives a node an empty child for a value; `None` if memory is full.
    fn add_child(&mut self, index: u32, value: usize) -> Option<u32> {
        let old = self.node(index);
        let position = (old.child_place(value) - old.children) as usize;
        let empty = Node::EMPTY.write();
        let children = self
            .nodes
            .insert(old.children, old.child_count(), position, empty)?;
        let new = Node { children, ..old }.with_value(value);
        *self.nodes.at_mut(index) = new.write();
        new.child(value)
    }

    fn remove_child(&mut self, index: u32, value: usize) {
        let old = self.node(index);
        let position = (old.child_place(value) - old.children) as usize;
        let children = self.nodes.remove(old.children, old.child_count(), position);
        let new = Node { children, ..old }.without_value(value);
        *self.nodes.at_mut(index) = new.write();
    }

    /// Sets the next hop at a place of a node; returns the one it had.
    fn set_result(
        &mut self,
        index: u32,
        place: PrefixNumber,
        next_hop: u32,
    ) -> Result<Option<u32>, RouteError> {
        let old = self.node(index);
        let place_of_result = old.result(place);
        if old.ends_at(place) {
            let result = self.results.at_mut(place_of_result);
            return Ok(Some(std::mem::replace(result, next_hop)));
        }
        let position = (place_of_result - old.results) as usize;
        let results = self
            .results
            .insert(old.results, old.prefix_count(), position, next_hop)
            .ok_or(RouteError::Memory)?;
        *self.nodes.at_mut(index) = Node { results, ..old }.with_prefix(place).write();
        Ok(None)
    }

    pub fn remove(&mut self, network: A, length: u32) -> Option<u32> {
        let before = if length <= self.flat_bits {
            self.flat.remove(length, self.short(network, length))
        } else {
            self.remove_long(network, length)
        };
        self.routes -= usize::from(before.is_some());
        before
    }

    fn remove_long(&mut self, network: A, length: u32) -> Option<u32> {
        let before = self.exact(network, length)?;
        let index = self.flat_index(network);
        let mut node = self.flat.entry(index).node;
        let mut way = NodePath::new();
        for depth in self.depths_above(length) {
            let value = Self::value(network, depth);
            way.push(node, value);
            node = self.node(node).child(value)?;
        }
        self.remove_result(node, self.place(network, length));
        if self.node(node).is_empty() {
            self.drop_node(&mut way, index);
        }
        Some(before)
    }

    fn remove_result(&mut self, index: u32, place: PrefixNumber) {
        let old = self.node(index);
        let position = (old.result(place) - old.results) as usize;
        let results = self
            .results
            .remove(old.results, old.prefix_count(), position);
        let new = Node { results, ..old }.without_prefix(place);
        *self.nodes.at_mut(index) = new.write();
    }

    /// Drops the empty node at the end of a way, and those on the way that become empty by it.
    fn drop_node(&mut self, way: &mut NodePath, flat_index: usize) {
        match way.pop() {
            None => {
                let node = self.flat.entry(flat_index).node;
                self.nodes.remove(node, 1, 0);
                self.flat.set_node(flat_index, 0);
            }
            Some((parent, value)) => {
                self.remove_child(parent, value);
                if self.node(parent).is_empty() {
                    self.drop_node(way, flat_index);
                }
            }
        }
    }

    /// Drops the nodes at the end of a way if the last one is empty.
    fn prune(&mut self, way: &mut NodePath, flat_index: usize) {
        if let Some((last, _)) = way.pop()
            && self.node(last).is_empty()
        {
            self.drop_node(way, flat_index);
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.flat.memory_bytes() + self.nodes.memory_bytes() + self.results.memory_bytes()
    }

    #[cfg(test)]
    pub fn taken(&self) -> (usize, usize) {
        (self.nodes.taken() - 1, self.results.taken())
    }
}

impl NodePath {
    const fn new() -> Self {
        Self {
            steps: [(0, 0); LONGEST],
            length: 0,
        }
    }

    fn push(&mut self, node: u32, value: usize) {
        if let Some(step) = self.steps.get_mut(self.length) {
            *step = (node, value);
            self.length += 1;
        }
    }

    fn pop(&mut self) -> Option<(u32, usize)> {
        self.length = self.length.checked_sub(1)?;
        self.steps.get(self.length).copied()
    }
}
