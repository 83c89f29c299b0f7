//! Numbers for names, so that no packet looks for a text.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::objects::{PortMapId, TunnelName, VnetName};

/// A number for each name that something refers to, whether there is an object of that name or not.
#[derive(Clone, Debug)]
pub(crate) struct Numbered<N> {
    numbers: HashMap<N, u32>,
    free: Vec<u32>,
    /// Has names whose objects nobody has looked at.
    is_new: bool,
}

impl<N> Default for Numbered<N> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            free: Vec::new(),
            is_new: false,
        }
    }
}

impl<N: Clone + Eq + Hash> Numbered<N> {
    /// The number of a name; a new one if it has none.
    pub fn of(&mut self, name: &N) -> u32 {
        if let Some(number) = self.get(name) {
            return number;
        }
        let next = self.numbers.len() as u32;
        let number = self.free.pop().unwrap_or(next);
        self.numbers.insert(name.clone(), number);
        self.is_new = true;
        number
    }

    /// The number of a name that has one.
    pub fn get(&self, name: &N) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// One more than the largest number.
    pub fn end(&self) -> usize {
        self.numbers.len() + self.free.len()
    }

    /// All names with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&N, u32)> {
        self.numbers.iter().map(|(name, &number)| (name, number))
    }

    fn retain(&mut self, used: &HashSet<u32>) {
        let free = &mut self.free;
        self.numbers.retain(|_, number| {
            let is_used = used.contains(number);
            if !is_used {
                free.push(*number);
            }
            is_used
        });
    }
}

/// The numbers of what routes and mappings refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    pub vnets: Numbered<VnetName>,
    pub tunnels: Numbered<TunnelName>,
    pub port_maps: Numbered<PortMapId>,
    /// How many names there were when unused ones were last forgotten.
    kept: usize,
}

/// Numbers that something holds.
#[derive(Debug, Default)]
pub(crate) struct Used {
    pub vnets: HashSet<u32>,
    pub tunnels: HashSet<u32>,
    pub port_maps: HashSet<u32>,
}

impl Numbers {
    /// How many names have numbers.
    pub fn len(&self) -> usize {
        self.vnets.numbers.len() + self.tunnels.numbers.len() + self.port_maps.numbers.len()
    }

    /// Whether unused names should be forgotten: then there are never more than twice as many as are
    /// used, and each costs a look at another one.
    pub fn is_crowded(&self) -> bool {
        self.len() > 2 * self.kept + 64
    }

    /// Forgets all names but these. Their numbers are given to others.
    pub fn retain(&mut self, used: &Used) {
        self.vnets.retain(&used.vnets);
        self.tunnels.retain(&used.tunnels);
        self.port_maps.retain(&used.port_maps);
        self.kept = self.len();
    }

    /// Whether names have come since this was last asked.
    pub fn take_new(&mut self) -> bool {
        let places = [
            &mut self.vnets.is_new,
            &mut self.tunnels.is_new,
            &mut self.port_maps.is_new,
        ];
        places.map(std::mem::take).contains(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_forgotten_names_are_given_again() {
        let mut numbers = Numbers::default();
        let of = |numbers: &mut Numbers, name: &str| numbers.vnets.of(&name.into());
        let (one, two) = (of(&mut numbers, "one"), of(&mut numbers, "two"));
        assert!(numbers.take_new() && !numbers.take_new());
        let used = Used {
            vnets: [two].into(),
            ..Used::default()
        };
        numbers.retain(&used);
        assert_eq!((of(&mut numbers, "two"), numbers.take_new()), (two, false));
        assert_eq!((of(&mut numbers, "three"), numbers.take_new()), (one, true));
        assert_eq!((of(&mut numbers, "four"), numbers.vnets.end()), (2, 3));
    }
}
