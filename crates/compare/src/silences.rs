//! Silences of a name that one capture has and the other has not, for there it says a little more
//! often: they part no lives.

use crate::index::Index;
use crate::merged::Holders;
use crate::names::Name;
use std::collections::HashSet;

/// Silences that part no lives: whose, and the number of the packet behind each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silences(HashSet<(Name, u64)>);

impl Silences {
    /// Whether the silence in front of a packet is one of these.
    pub fn has(&self, name: Name, number: u64) -> bool {
        self.0.contains(&(name, number))
    }

    /// Adds those of a capture within what is one life of the other: all that a name says there, one
    /// name says here from one silence to another. Whether there are any that were not known. Both are
    /// given with the lives that have no partner.
    pub fn add_within(
        &mut self,
        (here, left): (&Index, &[usize]),
        (there, left_there): (&Index, &[usize]),
    ) -> bool {
        let holders = Holders::of(here, left);
        let before = self.0.len();
        for &life in left_there {
            let (parts, are_all) = holders.parts_of(there, life);
            if are_all && let Some(name) = here.name_of_neighbours(&parts) {
                let behind = parts.iter().skip(1).map(|&part| here.first_of(part));
                self.0.extend(behind.map(|number| (name, number)));
            }
        }
        self.0.len() > before
    }
}
