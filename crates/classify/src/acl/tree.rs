//! The decision tree: what it is made of, and finding the first rule that matches.

use super::entry::{Entry, PLACES, Point};
use crate::blocks::Blocks;
use crate::word::Word;
use twinpath_core::memory::prefetch;

/// Longest way from the root; below it are only leaves.
pub(super) const MAX_DEPTH: usize = 32;
/// The label of nothing.
pub(super) const NO_LABEL: u32 = u32::MAX;

const LEAF: u32 = 1 << 31;

/// A pointer to a subtree, with the smallest label in it, so that subtrees which cannot win are
/// not even touched.
#[derive(Copy, Clone, Debug)]
pub(super) struct Link {
    pub best: u32,
    target: u32,
}

/// What a link leads to.
#[derive(Copy, Clone, Debug)]
pub(super) enum Target {
    Nothing,
    /// The first entry of a leaf.
    Leaf(usize),
    Cut(usize),
}

impl Link {
    pub const EMPTY: Self = Self {
        best: NO_LABEL,
        target: 0,
    };

    pub const fn leaf(best: u32, first: u32) -> Self {
        Self {
            best,
            target: LEAF | first,
        }
    }

    pub const fn cut(best: u32, cut: u32) -> Self {
        Self { best, target: cut }
    }

    #[inline(always)]
    pub const fn target(self) -> Target {
        if self.best == NO_LABEL {
            Target::Nothing
        } else if self.target & LEAF != 0 {
            Target::Leaf((self.target & !LEAF) as usize)
        } else {
            Target::Cut(self.target as usize)
        }
    }
}

/// An inner node: it looks at `width` bits of one field, after the first `start` ones, which must
/// be those of `prefix`.
#[derive(Copy, Clone, Debug)]
pub(super) struct Cut<A> {
    pub prefix: A,
    /// Rules that do not lie within the prefix, or would lie in too many children. Searched
    /// besides the child.
    pub rest: Link,
    /// The first of `1 << width` links.
    pub children: u32,
    /// Rules below when it was built.
    pub rules: u32,
    /// Insertions and removals below since.
    pub changes: u32,
    /// Most children that a rule is put into.
    pub spread: u16,
    pub field: u8,
    /// How many bits of the field all packets share that get here.
    pub region_bits: u8,
    pub start: u8,
    pub width: u8,
}

impl<A: Word> Cut<A> {
    pub const fn fan_out(&self) -> usize {
        1 << self.width
    }

    /// The child of a packet with this value of the field, or `None` if it has another prefix.
    #[inline(always)]
    pub fn child(&self, value: A) -> Option<usize> {
        let start = u32::from(self.start);
        let within = value.common(self.prefix) >= start;
        within.then(|| value.bits(start, u32::from(self.width)))
    }

    /// The first and the last child that a rule with these values of the field goes to, or `None`
    /// if it goes to the rest. Depends on the cut and on the rule only.
    pub fn placement(&self, (low, high): (A, A)) -> Option<(usize, usize)> {
        let region = A::leading(u32::from(self.region_bits));
        let region_low = self.prefix & region;
        let (low, high) = (low.max(region_low), high.min(region_low | !region));
        let (first, last) = (self.child(low)?, self.child(high)?);
        (last - first < usize::from(self.spread)).then_some((first, last))
    }
}

/// The best rule so far.
#[derive(Copy, Clone, Debug)]
pub(super) struct Winner {
    pub label: u32,
    pub slot: u32,
}

impl Winner {
    pub const NONE: Self = Self {
        label: NO_LABEL,
        slot: u32::MAX,
    };
}

/// Subtrees yet to be searched. At most one is put aside per level, so that it cannot overflow.
pub(super) struct Pending {
    links: [Link; MAX_DEPTH],
    count: usize,
}

impl Pending {
    #[inline(always)]
    pub const fn new() -> Self {
        Self {
            links: [Link::EMPTY; MAX_DEPTH],
            count: 0,
        }
    }

    #[inline(always)]
    pub fn push(&mut self, link: Link) {
        if let Some(place) = self.links.get_mut(self.count) {
            *place = link;
            self.count += 1;
        }
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<Link> {
        self.count = self.count.checked_sub(1)?;
        self.links.get(self.count).copied()
    }
}

/// A decision tree over the rules of one IP version.
#[derive(Clone, Debug)]
pub(super) struct Tree<A> {
    pub root: Link,
    pub cuts: Table<Cut<A>>,
    pub links: Table<Link>,
    pub entries: Table<Entry<A>>,
}

impl<A: Word> Tree<A> {
    pub const fn leaf(&self, first: usize) -> Leaf<'_, A> {
        Leaf {
            entries: self.entries.places.as_slice(),
            next: Some(first),
        }
    }

    /// The rule with the smallest label that matches.
    pub fn find(&self, point: &Point<A>) -> Winner {
        let mut winner = Winner::NONE;
        let mut pending = Pending::new();
        let mut next = Some(self.root);
        while let Some(link) = next {
            next = None;
            if link.best < winner.label {
                match link.target() {
                    Target::Nothing => {}
                    Target::Leaf(first) => self.search_leaf(first, point, &mut winner),
                    Target::Cut(cut) => next = self.descend(cut, point, winner, &mut pending),
                }
            }
            next = next.or_else(|| pending.pop());
        }
        winner
    }

    #[inline(always)]
    fn descend(
        &self,
        cut: usize,
        point: &Point<A>,
        winner: Winner,
        pending: &mut Pending,
    ) -> Option<Link> {
        let cut = &self.cuts.places[cut];
        if cut.rest.best < winner.label {
            self.prefetch(cut.rest);
            pending.push(cut.rest);
        }
        let child = cut.child(point.fields[usize::from(cut.field) % PLACES])?;
        Some(self.links.places[cut.children as usize + child])
    }

    #[inline(always)]
    fn prefetch(&self, link: Link) {
        match link.target() {
            Target::Nothing => {}
            Target::Leaf(first) => prefetch(&self.entries.places[first]),
            Target::Cut(cut) => prefetch(&self.cuts.places[cut]),
        }
    }

    #[inline(always)]
    fn search_leaf(&self, first: usize, point: &Point<A>, winner: &mut Winner) {
        for entry in &self.entries.places[first..] {
            if entry.label >= winner.label {
                return;
            }
            if entry.matches(point) {
                *winner = Winner {
                    label: entry.label,
                    slot: entry.slot,
                };
                return;
            }
            if entry.is_last {
                return;
            }
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.cuts.bytes() + self.links.bytes() + self.entries.bytes()
    }
}

/// The entries of a leaf, in order.
pub(super) struct Leaf<'a, A> {
    entries: &'a [Entry<A>],
    next: Option<usize>,
}

impl<'a, A> Iterator for Leaf<'a, A> {
    type Item = &'a Entry<A>;

    #[inline(always)]
    fn next(&mut self) -> Option<&'a Entry<A>> {
        let index = self.next?;
        let entry = self.entries.get(index)?;
        self.next = (!entry.is_last).then_some(index + 1);
        Some(entry)
    }
}

/// A growing table of runs.
#[derive(Clone, Debug)]
pub(super) struct Table<T> {
    pub places: Vec<T>,
    blocks: Blocks,
    vacant: T,
}

impl<T: Copy> Table<T> {
    pub fn new(vacant: T) -> Self {
        Self {
            places: Vec::new(),
            blocks: Blocks::new(LEAF as usize - 1),
            vacant,
        }
    }

    /// The first place of a new run, which holds `content`.
    pub fn store(&mut self, content: &[T]) -> u32 {
        let start = self
            .blocks
            .take(content.len())
            .expect("rules, and copies of each, are far fewer than places");
        let end = self.blocks.end();
        if self.places.len() < end {
            self.places.resize(end, self.vacant);
        }
        self.places[start as usize..start as usize + content.len()].copy_from_slice(content);
        start
    }

    pub fn release(&mut self, start: u32, len: usize) {
        self.blocks.give(start, len);
    }

    pub fn taken(&self) -> usize {
        self.blocks.taken()
    }

    fn bytes(&self) -> usize {
        self.places.len() * size_of::<T>()
    }
}
