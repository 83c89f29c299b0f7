//! Which bits a tree looks at: choosing cuts.
//!
//! For a set of rules every field is tried with several prefixes (leaving some wide rules aside),
//! widths and numbers of copies, and the cut with the least expected cost is taken, where rules
//! are assumed to be hit alike. A leaf is made when no cut promises to be cheaper than reading
//! the rules one by one. A budget bounds the copies of all rules together.

use super::entry::{Entry, FIELDS, field_bits};
use super::tree::{Cut, Link, MAX_DEPTH, NO_LABEL, Table, Tree};
use crate::word::Word;

/// Entries that a tree may have per rule when it is built.
pub(super) const COPIES: f32 = 8.0;
/// Sets this small are leaves.
const SMALL: usize = 3;
/// Most rules that are looked at to choose a cut.
const SAMPLE: usize = 512;
const WIDTHS: [u32; 4] = [2, 4, 6, 8];
/// A rule may be copied to so many children; the last stands for all of them.
const SPREADS: [u16; 4] = [1, 2, 8, 256];

/// Leading bits that all packets share which get to a place of the tree.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Region<A> {
    value: [A; FIELDS],
    bits: [u8; FIELDS],
}

impl<A: Word> Region<A> {
    fn clip(&self, field: usize, (low, high): (A, A)) -> (A, A) {
        let mask = A::leading(u32::from(self.bits[field]));
        let first = self.value[field] & mask;
        (low.max(first), high.min(first | !mask))
    }

    /// The region of a child of a cut in this one.
    pub fn child(mut self, cut: &Cut<A>, child: usize) -> Self {
        let field = usize::from(cut.field);
        let bits = u32::from(cut.start + cut.width);
        let number = A::from_low(child as u128) << (A::BITS - bits);
        self.value[field] = cut.prefix & A::leading(u32::from(cut.start)) | number;
        self.bits[field] = bits as u8;
        self
    }
}

impl<A: Word> Tree<A> {
    /// A tree of entries in the order of their labels.
    pub fn new(entries: Vec<Entry<A>>) -> Self {
        let mut tree = Self {
            root: Link::EMPTY,
            cuts: Table::new(Cut::vacant()),
            links: Table::new(Link::EMPTY),
            entries: Table::new(Entry::vacant()),
        };
        let budget = COPIES * entries.len() as f32;
        tree.root = tree.build(entries, Region::default(), budget, 0);
        tree
    }

    /// A subtree of entries in the order of their labels; `budget` entries may come of them.
    pub fn build(
        &mut self,
        entries: Vec<Entry<A>>,
        region: Region<A>,
        budget: f32,
        depth: usize,
    ) -> Link {
        if entries.len() <= SMALL || depth >= MAX_DEPTH {
            return self.build_leaf(entries);
        }
        let Some(cut) = choose(&entries, &region, budget) else {
            return self.build_leaf(entries);
        };
        let parts = Parts::new(&cut, &entries);
        if parts.largest() == entries.len() {
            return self.build_leaf(entries);
        }
        drop(entries);
        self.build_cut(cut, parts, region, budget, depth)
    }

    pub fn build_leaf(&mut self, mut entries: Vec<Entry<A>>) -> Link {
        for entry in &mut entries {
            entry.is_last = false;
        }
        let Some(last) = entries.last_mut() else {
            return Link::EMPTY;
        };
        last.is_last = true;
        Link::leaf(entries[0].label, self.entries.store(&entries))
    }

    fn build_cut(
        &mut self,
        mut cut: Cut<A>,
        parts: Parts<A>,
        region: Region<A>,
        budget: f32,
        depth: usize,
    ) -> Link {
        let share = (budget / parts.entries() as f32).max(1.0);
        let mut part = |entries: Vec<Entry<A>>, region| {
            let budget = share * entries.len() as f32;
            self.build(entries, region, budget, depth + 1)
        };
        cut.rest = part(parts.rest, region);
        let children: Vec<Link> = parts
            .children
            .into_iter()
            .enumerate()
            .map(|(child, entries)| part(entries, region.child(&cut, child)))
            .collect();
        let best = smallest(&children).min(cut.rest.best);
        cut.children = self.links.store(&children);
        Link::cut(best, self.cuts.store(&[cut]))
    }
}

/// The smallest label below some links.
pub(super) fn smallest(links: &[Link]) -> u32 {
    links.iter().map(|link| link.best).min().unwrap_or(NO_LABEL)
}

impl<A: Word> Cut<A> {
    fn vacant() -> Self {
        Self {
            prefix: A::default(),
            rest: Link::EMPTY,
            children: 0,
            rules: 0,
            changes: 0,
            spread: 0,
            field: 0,
            region_bits: 0,
            start: 0,
            width: 0,
        }
    }
}

/// The rules of a set as a cut divides them.
struct Parts<A> {
    children: Vec<Vec<Entry<A>>>,
    rest: Vec<Entry<A>>,
}

impl<A: Word> Parts<A> {
    fn new(cut: &Cut<A>, entries: &[Entry<A>]) -> Self {
        let mut parts = Self {
            children: vec![Vec::new(); cut.fan_out()],
            rest: Vec::new(),
        };
        for entry in entries {
            match cut.placement(entry.interval(usize::from(cut.field))) {
                None => parts.rest.push(*entry),
                Some((first, last)) => parts.children[first..=last]
                    .iter_mut()
                    .for_each(|child| child.push(*entry)),
            }
        }
        parts
    }

    fn largest(&self) -> usize {
        let children = self.children.iter().map(Vec::len).max();
        children.unwrap_or(0).max(self.rest.len())
    }

    fn entries(&self) -> usize {
        self.children.iter().map(Vec::len).sum::<usize>() + self.rest.len()
    }
}

/// Nanoseconds to pass a cut, roughly.
const CUT: f32 = 8.0;
/// How much dearer it is to search a rest than a child: it comes on top, and what is wide in one
/// field is harder to tell apart by others. Found by trial, as the other figures are.
const REST: f32 = 1.5;

/// Nanoseconds to read a leaf, roughly.
fn leaf_cost(rules: f32) -> f32 {
    8.0 + 3.0 * rules
}

/// Nanoseconds to search a set of rules, roughly.
fn subtree_cost(rules: f32) -> f32 {
    const LEAF: f32 = 6.0;
    if rules <= 0.0 {
        0.0
    } else if rules <= LEAF {
        leaf_cost(rules)
    } else {
        leaf_cost(LEAF) + 16.0 * (rules / LEAF).log2()
    }
}

/// The best cut that is better than a leaf.
fn choose<A: Word>(entries: &[Entry<A>], region: &Region<A>, budget: f32) -> Option<Cut<A>> {
    let step = entries.len().div_ceil(SAMPLE);
    let mut search = Search {
        scale: entries.len() as f32 / entries.len().div_ceil(step) as f32,
        budget,
        region,
        total: entries.len(),
        best_cost: leaf_cost(entries.len() as f32),
        best: None,
    };
    for field in 0..FIELDS {
        let intervals: Vec<(A, A)> = entries
            .iter()
            .step_by(step)
            .map(|entry| region.clip(field, entry.interval(field)))
            .collect();
        search.field(field, &intervals);
    }
    search.best
}

struct Search<'a, A> {
    /// Rules for which one of the sample stands.
    scale: f32,
    budget: f32,
    region: &'a Region<A>,
    total: usize,
    best_cost: f32,
    best: Option<Cut<A>>,
}

impl<A: Word> Search<'_, A> {
    /// Tries to leave aside no rule, the widest eighth and the widest half.
    fn field(&mut self, field: usize, intervals: &[(A, A)]) {
        let mut shared: Vec<u32> = intervals
            .iter()
            .map(|&(low, high)| low.common(high))
            .collect();
        shared.sort_unstable();
        let mut tried = None;
        for narrow in [0, shared.len() / 8, shared.len() / 3, shared.len() * 2 / 3] {
            let least = shared[narrow];
            if tried.replace(least) != Some(least) {
                self.prefix(field, intervals, least);
            }
        }
    }

    /// Tries cuts after the bits shared by all rules that themselves share at least `least` bits.
    fn prefix(&mut self, field: usize, intervals: &[(A, A)], least: u32) {
        let mut narrow = intervals
            .iter()
            .filter(|(low, high)| low.common(*high) >= least);
        let Some(&(prefix, high)) = narrow.next() else {
            return;
        };
        let start = narrow.fold(prefix.common(high), |shared, &(low, high)| {
            shared.min(low.common(prefix)).min(high.common(prefix))
        });
        let most = field_bits::<A>(field).saturating_sub(start);
        let mut tried = 0;
        for width in WIDTHS.map(|width| width.min(most)) {
            if width > tried && 1 << width <= 2 * self.total.max(4) {
                tried = width;
                self.width(intervals, self.cut(field, prefix, start, width));
            }
        }
    }

    fn cut(&self, field: usize, prefix: A, start: u32, width: u32) -> Cut<A> {
        Cut {
            prefix: prefix & A::leading(start),
            rules: self.total as u32,
            field: field as u8,
            region_bits: self.region.bits[field],
            start: start as u8,
            width: width as u8,
            ..Cut::vacant()
        }
    }

    /// Tries all limits of copies at once.
    fn width(&mut self, intervals: &[(A, A)], mut cut: Cut<A>) {
        let mut changes = [[0i32; 257]; SPREADS.len()];
        let mut rest = [0u32; SPREADS.len()];
        let mut most = 0;
        cut.spread = u16::MAX;
        for interval in intervals {
            let placement = cut.placement(*interval);
            for (level, &spread) in SPREADS.iter().enumerate() {
                match placement {
                    Some((first, last)) if last - first < usize::from(spread) => {
                        changes[level][first] += 1;
                        changes[level][last + 1] -= 1;
                        most = most.max(last - first);
                    }
                    _ => rest[level] += 1,
                }
            }
        }
        for (level, &spread) in SPREADS.iter().enumerate() {
            // A larger limit that lets in no further rule is the same cut.
            if level == 0 || rest[level] != rest[level - 1] {
                let cut = Cut { spread, ..cut };
                self.weigh(cut, &changes[level], rest[level]);
            }
        }
    }

    fn weigh(&mut self, cut: Cut<A>, changes: &[i32], rest: u32) {
        let (mut here, mut entries, mut cost, mut largest) = (0, 0.0, 0.0, 0.0f32);
        for change in &changes[..cut.fan_out()] {
            here += change;
            let rules = here as f32 * self.scale;
            entries += rules;
            largest = largest.max(rules);
            cost += rules * subtree_cost(rules);
        }
        let rest = rest as f32 * self.scale;
        let cost = CUT + cost / entries.max(1.0) + REST * subtree_cost(rest);
        let all = self.total as f32;
        let divides = largest.max(rest) < all * 0.999;
        // What copies nothing needs no budget.
        let is_affordable = entries + rest <= self.budget.max(all * 1.001);
        if divides && is_affordable && cost < self.best_cost {
            self.best_cost = cost;
            self.best = Some(cut);
        }
    }
}
