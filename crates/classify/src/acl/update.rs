//! Inserting and removing single rules.

use super::build::{COPIES, Region, smallest};
use super::entry::Entry;
use super::tree::{Link, Target, Tree};
use crate::word::Word;

/// Leaves that grow beyond this are divided, if a cut helps.
const FULL_LEAF: usize = 8;
/// Subtrees of at most so many rules are built anew once a good part of them has changed; larger
/// ones only on request, because that takes milliseconds.
const REBUILT: u32 = 300;

impl<A: Word> Tree<A> {
    /// Adds an entry.
    pub fn insert(&mut self, entry: Entry<A>) {
        self.root = self.insert_below(self.root, entry, Region::default(), 0);
    }

    fn insert_below(
        &mut self,
        link: Link,
        entry: Entry<A>,
        region: Region<A>,
        depth: usize,
    ) -> Link {
        match link.target() {
            Target::Nothing => self.build_leaf(vec![entry]),
            Target::Leaf(_) => {
                let entries = self.unfold(link);
                self.grown(entries, entry, region, depth)
            }
            Target::Cut(cut) if self.is_worn(cut) => {
                let entries = self.unfold(link);
                self.rebuilt(entries, entry, region, depth)
            }
            Target::Cut(cut) => self.insert_into_cut(link, cut, entry, region, depth),
        }
    }

    fn grown(
        &mut self,
        mut entries: Vec<Entry<A>>,
        entry: Entry<A>,
        region: Region<A>,
        depth: usize,
    ) -> Link {
        if entries.len() >= FULL_LEAF {
            return self.rebuilt(entries, entry, region, depth);
        }
        insert_sorted(&mut entries, entry);
        self.build_leaf(entries)
    }

    fn rebuilt(
        &mut self,
        mut entries: Vec<Entry<A>>,
        entry: Entry<A>,
        region: Region<A>,
        depth: usize,
    ) -> Link {
        insert_sorted(&mut entries, entry);
        let budget = COPIES * entries.len() as f32;
        self.build(entries, region, budget, depth)
    }

    fn is_worn(&mut self, cut: usize) -> bool {
        let cut = &mut self.cuts.places[cut];
        cut.changes += 1;
        cut.rules <= REBUILT && cut.changes > 16 + cut.rules / 2
    }

    fn insert_into_cut(
        &mut self,
        link: Link,
        index: usize,
        entry: Entry<A>,
        region: Region<A>,
        depth: usize,
    ) -> Link {
        let cut = self.cuts.places[index];
        match cut.placement(entry.interval(usize::from(cut.field))) {
            None => {
                let rest = self.insert_below(cut.rest, entry, region, depth + 1);
                self.cuts.places[index].rest = rest;
            }
            Some((first, last)) => {
                for child in first..=last {
                    let place = cut.children as usize + child;
                    let below = region.child(&cut, child);
                    let link = self.links.places[place];
                    self.links.places[place] = self.insert_below(link, entry, below, depth + 1);
                }
            }
        }
        Link::cut(link.best.min(entry.label), index as u32)
    }

    /// Removes an entry; it must be one that was inserted.
    pub fn remove(&mut self, entry: &Entry<A>) {
        self.root = self.remove_below(self.root, entry);
    }

    fn remove_below(&mut self, link: Link, entry: &Entry<A>) -> Link {
        match link.target() {
            Target::Nothing => link,
            Target::Leaf(_) => {
                let mut entries = self.unfold(link);
                entries.retain(|other| other.slot != entry.slot);
                self.build_leaf(entries)
            }
            Target::Cut(cut) => self.remove_from_cut(cut, entry),
        }
    }

    fn remove_from_cut(&mut self, index: usize, entry: &Entry<A>) -> Link {
        self.cuts.places[index].changes += 1;
        let cut = self.cuts.places[index];
        match cut.placement(entry.interval(usize::from(cut.field))) {
            None => {
                let rest = self.remove_below(cut.rest, entry);
                self.cuts.places[index].rest = rest;
            }
            Some((first, last)) => {
                for place in cut.children as usize + first..=cut.children as usize + last {
                    self.links.places[place] = self.remove_below(self.links.places[place], entry);
                }
            }
        }
        let best = self.best_of_cut(index);
        if best == Link::EMPTY.best {
            self.release_cut(index);
        }
        Link::cut(best, index as u32)
    }

    fn best_of_cut(&self, index: usize) -> u32 {
        let cut = &self.cuts.places[index];
        let first = cut.children as usize;
        smallest(&self.links.places[first..first + cut.fan_out()]).min(cut.rest.best)
    }

    fn release_cut(&mut self, index: usize) {
        let cut = &self.cuts.places[index];
        self.links.release(cut.children, cut.fan_out());
        self.cuts.release(index as u32, 1);
    }

    /// Takes a subtree apart: its entries, each once, in the order of their labels.
    fn unfold(&mut self, link: Link) -> Vec<Entry<A>> {
        let mut entries = Vec::new();
        self.unfold_into(link, &mut entries);
        entries.sort_unstable_by_key(|entry| entry.label);
        entries.dedup_by_key(|entry| entry.label);
        entries
    }

    fn unfold_into(&mut self, link: Link, entries: &mut Vec<Entry<A>>) {
        match link.target() {
            Target::Nothing => {}
            Target::Leaf(first) => {
                let before = entries.len();
                entries.extend(self.leaf(first).copied());
                self.entries.release(first as u32, entries.len() - before);
            }
            Target::Cut(index) => {
                let cut = self.cuts.places[index];
                self.unfold_into(cut.rest, entries);
                for child in 0..cut.fan_out() {
                    self.unfold_into(self.links.places[cut.children as usize + child], entries);
                }
                self.release_cut(index);
            }
        }
    }

    /// Gives all entries new labels in the same order; `label` knows a slot's.
    pub fn relabel(&mut self, label: impl Fn(u32) -> Option<u32>) {
        for entry in &mut self.entries.places {
            entry.label = label(entry.slot).unwrap_or(entry.label);
        }
        self.root = self.with_best(self.root);
    }

    fn with_best(&mut self, link: Link) -> Link {
        match link.target() {
            Target::Nothing => link,
            Target::Leaf(first) => Link::leaf(self.entries.places[first].label, first as u32),
            Target::Cut(index) => {
                let cut = self.cuts.places[index];
                self.cuts.places[index].rest = self.with_best(cut.rest);
                for place in cut.children as usize..cut.children as usize + cut.fan_out() {
                    self.links.places[place] = self.with_best(self.links.places[place]);
                }
                Link::cut(self.best_of_cut(index), index as u32)
            }
        }
    }
}

fn insert_sorted<A: Word>(entries: &mut Vec<Entry<A>>, entry: Entry<A>) {
    let place = entries.partition_point(|other| other.label < entry.label);
    entries.insert(place, entry);
}
