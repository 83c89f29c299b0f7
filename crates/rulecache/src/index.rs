//! Which cached rules came from which entry.

use crate::message::RuleId;
use crate::recording::{Dependencies, EntryId};
use std::collections::HashMap;

/// One of a rule's entries, and where the rule stands among those of the entry.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Link {
    pub entry: EntryId,
    /// See [`Dependency::hears_progress`](crate::recording::Dependency::hears_progress).
    pub hears_progress: bool,
    place: u32,
}

impl Link {
    /// The rule has another place among those of the entry.
    pub fn move_to(&mut self, place: u32) {
        self.place = place;
    }
}

/// Rules by entry. Adding and removing take no longer for an entry with many rules.
#[derive(Default)]
pub(crate) struct Index {
    rules: HashMap<EntryId, Vec<(RuleId, u8)>>,
}

impl Index {
    /// Adds a rule to all its entries; keep the links for [`Self::remove`].
    pub fn add(&mut self, id: RuleId, dependencies: &Dependencies) -> Box<[Link]> {
        (0..)
            .zip(dependencies.as_slice())
            .map(|(number, dependency)| {
                let rules = self.rules.entry(dependency.entry).or_default();
                rules.push((id, number));
                Link {
                    entry: dependency.entry,
                    hears_progress: dependency.hears_progress,
                    place: (rules.len() - 1) as u32,
                }
            })
            .collect()
    }

    /// Removes a rule's links. Of another rule that takes its place at an entry, `moved` is told
    /// the number of the link and the new place, for [`Link::move_to`].
    pub fn remove(&mut self, links: &[Link], mut moved: impl FnMut(RuleId, u8, u32)) {
        for link in links {
            let Some(rules) = self.rules.get_mut(&link.entry) else {
                continue;
            };
            rules.swap_remove(link.place as usize);
            if let Some(&(id, number)) = rules.get(link.place as usize) {
                moved(id, number, link.place);
            }
            if rules.is_empty() {
                self.rules.remove(&link.entry);
            }
        }
    }

    /// The rules that came from an entry.
    pub fn rules(&self, entry: EntryId) -> impl Iterator<Item = RuleId> + '_ {
        let rules = self.rules.get(&entry);
        rules.into_iter().flatten().map(|&(id, _)| id)
    }

    /// Whether any rule came from it.
    pub fn has(&self, entry: EntryId) -> bool {
        self.rules.contains_key(&entry)
    }
}
