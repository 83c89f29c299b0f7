//! Numbers for names, so that no packet looks for a text.

use std::collections::HashMap;
use std::hash::Hash;

use crate::objects::{PortMapId, TunnelName, VnetName};

/// A number for each name that was ever asked for, whether there is an object of that name or not.
#[derive(Clone, Debug)]
pub(crate) struct Numbered<N>(HashMap<N, u32>);

impl<N> Default for Numbered<N> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<N: Clone + Eq + Hash> Numbered<N> {
    /// The number of a name.
    pub fn of(&mut self, name: &N) -> u32 {
        if let Some(&number) = self.0.get(name) {
            return number;
        }
        let number = self.0.len() as u32;
        self.0.insert(name.clone(), number);
        number
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All names with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&N, u32)> {
        self.0.iter().map(|(name, &number)| (name, number))
    }
}

/// The numbers of what routes and mappings refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    pub vnets: Numbered<VnetName>,
    pub tunnels: Numbered<TunnelName>,
    pub port_maps: Numbered<PortMapId>,
}
