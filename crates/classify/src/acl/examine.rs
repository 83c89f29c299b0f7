//! Which bits of a packet show that a rule is the first to match.
//!
//! The rule is known already. What must be shown is that it matches, and that no rule before it
//! does. Rules before it are either in a part of the tree that the bits of the cuts lead away
//! from, or in a leaf that is read, where one field in which the rule differs is enough. Bits
//! that are known anyway cost nothing, so that a field which they already decide is preferred.

use super::entry::{Entry, FIELDS, Point};
use super::tree::{Cut, Pending, Target, Tree};
use crate::word::Word;

/// How many leading bits of each field are known.
pub(super) type Known = [u32; FIELDS];

impl<A: Word> Tree<A> {
    /// Adds what it takes to know that no rule with a label below `limit` matches, if that is so.
    pub fn examine_losers(&self, point: &Point<A>, limit: u32, known: &mut Known) {
        let mut pending = Pending::new();
        let mut next = Some(self.root);
        while let Some(link) = next {
            next = None;
            if link.best < limit {
                match link.target() {
                    Target::Nothing => {}
                    Target::Leaf(first) => self
                        .leaf(first)
                        .take_while(|entry| entry.label < limit)
                        .for_each(|entry| examine_mismatch(entry, point, known)),
                    Target::Cut(cut) => {
                        let cut = &self.cuts.places[cut];
                        pending.push(cut.rest);
                        next = self.examine_cut(cut, point, limit, known);
                    }
                }
            }
            next = next.or_else(|| pending.pop());
        }
    }

    fn examine_cut(
        &self,
        cut: &Cut<A>,
        point: &Point<A>,
        limit: u32,
        known: &mut Known,
    ) -> Option<super::tree::Link> {
        let field = usize::from(cut.field);
        let value = point.fields[field];
        let Some(child) = cut.child(value) else {
            raise(&mut known[field], value.common(cut.prefix) + 1);
            return None;
        };
        let first = cut.children as usize;
        let children = &self.links.places[first..first + cut.fan_out()];
        if children[child].best < limit {
            raise(&mut known[field], u32::from(cut.start + cut.width));
            return Some(children[child]);
        }
        // Fewer bits do when the children around it hold no earlier rule either.
        let is_empty = |block: &[super::tree::Link]| block.iter().all(|link| link.best >= limit);
        let width = u32::from(cut.width);
        let fewest = (0..width).find(|&bits| {
            let size = 1 << (width - bits);
            is_empty(&children[child / size * size..][..size])
        });
        raise(
            &mut known[field],
            u32::from(cut.start) + fewest.unwrap_or(width),
        );
        None
    }
}

/// Adds what it takes to know that an entry matches.
pub(super) fn examine_match<A: Word>(entry: &Entry<A>, point: &Point<A>, known: &mut Known) {
    for (known, (bits, _)) in known.iter_mut().zip(entry.deciding_bits(point)) {
        raise(known, bits);
    }
}

fn examine_mismatch<A: Word>(entry: &Entry<A>, point: &Point<A>, known: &mut Known) {
    let cheapest = entry
        .deciding_bits(point)
        .into_iter()
        .zip(known.iter_mut())
        .filter(|((_, matches), _)| !matches)
        .min_by_key(|((bits, _), known)| bits.saturating_sub(**known));
    if let Some(((bits, _), known)) = cheapest {
        raise(known, bits);
    }
}

fn raise(known: &mut u32, bits: u32) {
    *known = bits.max(*known);
}
