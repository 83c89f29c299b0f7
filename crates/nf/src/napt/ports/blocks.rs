//! Blocks of ports that hosts are given as they come to need them: what tells who had a port is one
//! record for each block that is given or comes back (RFC 6888 REQ-13, REQ-14, RFC 7422 §1).
//!
//! A block is one host's for TCP, UDP and echoes, from its first binding in it to the end of its last.

use crate::napt::config::{Block, Config, Dynamic};
use crate::seeded::{Seed, SeededMap};
use std::collections::BTreeSet;
use twinpath_core::wire::Address;

/// Who has one block.
#[derive(Copy, Clone, Debug, Default)]
struct Owner {
    host: Option<Address>,
    bindings: u32,
    /// Of them, those that are known to be alive.
    live: u32,
}

/// The blocks of one address.
#[derive(Debug)]
struct OfAddress {
    owners: Vec<Owner>,
    /// Places of those that nobody has.
    free: BTreeSet<u16>,
    /// Places of those in which no binding is known to be alive.
    quiet: BTreeSet<u16>,
}

impl OfAddress {
    fn new(blocks: u16) -> Self {
        Self {
            owners: vec![Owner::default(); usize::from(blocks)],
            free: (0..blocks).collect(),
            quiet: BTreeSet::new(),
        }
    }

    fn note(&mut self, place: u16) {
        let Some(owner) = self.owners.get(usize::from(place)) else {
            return;
        };
        let (is_owned, is_quiet) = (owner.host.is_some(), owner.live == 0);
        put(&mut self.free, place, !is_owned);
        put(&mut self.quiet, place, is_owned && is_quiet);
    }
}

fn put(set: &mut BTreeSet<u16>, place: u16, is_in: bool) {
    match is_in {
        true => _ = set.insert(place),
        false => _ = set.remove(&place),
    }
}

/// A block that a host was given, or has given back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockChange {
    pub host: Address,
    pub block: Block,
}

/// All blocks.
#[derive(Debug)]
pub(crate) struct BlockTable {
    settings: Dynamic,
    /// By the address's number; made with its first block.
    addresses: Vec<Option<Box<OfAddress>>>,
    by_host: SeededMap<Address, Vec<(u32, u16)>>,
    pub given: u64,
}

impl BlockTable {
    pub fn new(config: &Config, settings: Dynamic, seed: u64) -> Self {
        Self {
            settings,
            addresses: (0..config.shared).map(|_| None).collect(),
            by_host: SeededMap::with_hasher(Seed::new(seed)),
            given: 0,
        }
    }

    /// What the blocks of so many addresses take.
    pub fn bytes(settings: &Dynamic, addresses: usize) -> u64 {
        const IN_A_SET: usize = 2 * size_of::<u16>();
        let one = size_of::<Owner>() + 2 * IN_A_SET + size_of::<(Address, Vec<(u32, u16)>)>();
        (addresses * usize::from(settings.per_address()) * one) as u64
    }

    pub const fn settings(&self) -> &Dynamic {
        &self.settings
    }

    /// How many blocks hosts have.
    pub fn count(&self) -> usize {
        self.by_host.values().map(Vec::len).sum()
    }

    fn of_address(&mut self, address: u32) -> Option<&mut OfAddress> {
        let blocks = self.settings.per_address();
        let known = self.addresses.get_mut(address as usize)?;
        Some(known.get_or_insert_with(|| Box::new(OfAddress::new(blocks))))
    }

    /// A host has another binding; returns the block if it is new.
    pub fn bound(&mut self, address: u32, port: u16, host: Address) -> Option<BlockChange> {
        let host = self.settings.v6_prefix.host(host);
        let place = self.settings.place(port)?;
        let known = self.of_address(address)?;
        let owner = known.owners.get_mut(usize::from(place))?;
        owner.bindings += 1;
        let is_new = owner.host.is_none();
        owner.host.get_or_insert(host);
        known.note(place);
        if !is_new {
            return None;
        }
        self.given += 1;
        self.by_host.entry(host).or_default().push((address, place));
        Some(self.change(host, address, place))
    }

    /// A binding is no more; returns the block if it was the last one.
    pub fn unbound(&mut self, address: u32, port: u16) -> Option<BlockChange> {
        let place = self.settings.place(port)?;
        let known = self.of_address(address)?;
        let owner = known.owners.get_mut(usize::from(place))?;
        owner.bindings = owner.bindings.saturating_sub(1);
        if owner.bindings > 0 {
            return None;
        }
        let host = owner.host.take()?;
        *owner = Owner::default();
        known.note(place);
        if let Some(blocks) = self.by_host.get_mut(&host) {
            blocks.retain(|own| *own != (address, place));
            if blocks.is_empty() {
                self.by_host.remove(&host);
            }
        }
        Some(self.change(host, address, place))
    }

    fn change(&self, host: Address, address: u32, place: u16) -> BlockChange {
        let block = self.settings.block(address, place);
        BlockChange { host, block }
    }

    /// A binding is known to be alive, or no longer.
    pub fn lives(&mut self, address: u32, port: u16, is_live: bool) {
        let Some(place) = self.settings.place(port) else {
            return;
        };
        let Some(known) = self.of_address(address) else {
            return;
        };
        if let Some(owner) = known.owners.get_mut(usize::from(place)) {
            owner.live = owner
                .live
                .saturating_add_signed(if is_live { 1 } else { -1 });
        }
        known.note(place);
    }

    /// The blocks of a host, in the order in which it was given them.
    pub fn of_host(&self, host: Address) -> Vec<Block> {
        let host = self.settings.v6_prefix.host(host);
        let own = self.by_host.get(&host).into_iter().flatten();
        own.map(|(address, place)| self.settings.block(*address, *place))
            .collect()
    }

    /// Whether a host may have another block.
    pub fn may_have_more(&self, host: Address) -> bool {
        let host = self.settings.v6_prefix.host(host);
        let own = self.by_host.get(&host).map_or(0, Vec::len);
        own < self.settings.per_host as usize
    }

    /// Blocks of an address that nobody has, from one on that `start` says, at most so many.
    pub fn free_at(&self, address: u32, start: u64, most: usize) -> Vec<Block> {
        let count = self.settings.per_address();
        let start = (start % u64::from(count.max(1))) as u16;
        let block = |place: u16| self.settings.block(address, place);
        match self.addresses.get(address as usize) {
            Some(Some(known)) => {
                let behind = known.free.range(start..);
                let around = behind.chain(known.free.range(..start));
                around.take(most).map(|place| block(*place)).collect()
            }
            Some(None) => (start..count)
                .chain(0..start)
                .take(most)
                .map(block)
                .collect(),
            None => Vec::new(),
        }
    }

    /// Blocks of an address in which no binding is known to be alive.
    pub fn quiet_at(&self, address: u32) -> Vec<Block> {
        let Some(Some(known)) = self.addresses.get(address as usize) else {
            return Vec::new();
        };
        let places = known.quiet.iter();
        places
            .map(|place| self.settings.block(address, *place))
            .collect()
    }

    /// Whether somebody has a block.
    pub fn is_owned(&self, block: Block) -> bool {
        let known = self.addresses.get(block.address as usize);
        let known = known.and_then(|known| known.as_ref());
        let place = self.settings.place(block.first);
        known
            .zip(place)
            .is_some_and(|(known, place)| !known.free.contains(&place))
    }
}
