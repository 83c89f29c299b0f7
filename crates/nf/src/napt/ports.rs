//! External endpoints: who has which.

mod blocks;
mod search;

use super::config::{Assignment, Block, Config, Deterministic, Dynamic, Forwards, Pooling};
use super::taken::{Span, Taken};
use crate::records::Kind;
pub(crate) use blocks::{BlockChange, BlockTable};
pub(crate) use search::Search;
use std::collections::HashMap;
use twinpath_core::HashKey;
use twinpath_core::wire::{Address, Endpoint};

/// How many kinds there are.
const KINDS: u32 = Kind::ALL.len() as u32;

/// An external address, a kind and a port in one number, less than 2^30: the entry of rules that
/// depend on whether it is bound.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot(pub u32);

impl Slot {
    pub fn new(address: u32, kind: Kind, port: u16) -> Self {
        Self((address * KINDS + kind as u32) << 16 | u32::from(port))
    }

    /// The same port of the address that has another number now; `None` if it is no more.
    pub fn moved(self, numbers: &[Option<u32>]) -> Option<Self> {
        let address = self.0 >> 16;
        let number = (*numbers.get((address / KINDS) as usize)?)?;
        let page = number * KINDS + address % KINDS;
        Some(Self(page << 16 | u32::from(self.port())))
    }

    fn page(self) -> usize {
        self.0 as usize >> 16
    }

    /// The number of its address.
    pub const fn address(self) -> u32 {
        (self.0 >> 16) / KINDS
    }

    /// What has the port.
    pub fn kind(self) -> Kind {
        Kind::ALL[self.page() % KINDS as usize]
    }

    fn port(self) -> u16 {
        self.0 as u16
    }
}

/// The ports of one address and kind.
#[derive(Debug)]
struct Page {
    /// By port: the number of its binding, 0 for none.
    bindings: Box<[u32]>,
    /// Those whose binding is known to be alive.
    taken: Box<Taken>,
}

impl Page {
    fn new() -> Self {
        Self {
            bindings: vec![0; 1 << 16].into_boxed_slice(),
            taken: Box::new(Taken::NONE),
        }
    }

    fn count(&self, (first, last): (u16, u16)) -> u32 {
        let count = |parity| self.taken.count(Span::of(first, last, parity));
        count(0) + count(1)
    }
}

/// All external endpoints.
#[derive(Debug)]
pub(crate) struct External {
    addresses: Vec<Address>,
    /// Numbers of the IPv4 addresses, and of the others.
    by_version: [Vec<u32>; 2],
    pages: Vec<Option<Page>>,
    /// By page: how many ports are taken of those below 1024, and of those to give out.
    counts: Vec<[u32; 2]>,
    range: (u16, u16),
    /// Of the ports below 1024, those that a low port inside may get.
    low: (u16, u16),
    pooling: Pooling,
    assignment: Assignment,
    deterministic: Option<Deterministic>,
    /// Blocks that hosts are given as they need them.
    blocks: Option<BlockTable>,
    /// What always stands for the same ones inside is given to nobody else.
    forwards: Forwards,
    hash_key: HashKey,
}

impl External {
    /// What all ports of so many addresses take.
    pub const fn bytes(addresses: usize) -> u64 {
        let page = (1 << 16) * size_of::<u32>() + size_of::<Taken>();
        (addresses * KINDS as usize * page) as u64
    }

    pub fn new(config: &Config, seed: u64) -> Self {
        let numbers = |v4| {
            let numbered = (0..).zip(&config.external[..config.shared]);
            numbered
                .filter(|(_, address)| address.is_v4() == v4)
                .map(|(number, _)| number)
                .collect()
        };
        let pages = config.external.len() * KINDS as usize;
        let mut external = Self {
            by_version: [numbers(true), numbers(config.between_versions)],
            pages: std::iter::repeat_with(|| None).take(pages).collect(),
            counts: vec![[0; 2]; pages],
            addresses: config.external.clone(),
            range: (config.ports.first, config.ports.last),
            low: config.low_ports,
            pooling: config.pooling,
            assignment: config.assignment,
            deterministic: config.deterministic.clone(),
            blocks: config
                .dynamic
                .map(|settings| BlockTable::new(config, settings, seed)),
            forwards: Forwards::default(),
            hash_key: HashKey::new(seed),
        };
        external.reserve(&config.forwards);
        external
    }

    /// Takes the ports of forwards for good.
    fn reserve(&mut self, forwards: &Forwards) {
        for (kind, first, last) in forwards.externals() {
            let slot = |port| self.slot(Endpoint::new(first.address, port), kind);
            let slots: Vec<Slot> = (first.port..=last).filter_map(slot).collect();
            for slot in slots {
                if let Some(page) = self.pages.get_mut(slot.page()) {
                    page.get_or_insert_with(Page::new);
                }
                self.take(slot, true);
            }
        }
        self.forwards = forwards.clone();
    }

    /// What always stands for the same ones inside.
    pub fn forwards(&self) -> &Forwards {
        &self.forwards
    }

    /// Whom a slot stands for in any case.
    pub fn forwarded(&self, slot: Slot) -> Option<Endpoint> {
        self.forwards.internal(self.endpoint(slot), slot.kind())
    }

    /// The slot that stands for an inside endpoint in any case.
    pub fn forward_of(&self, internal: Endpoint, kind: Kind) -> Option<Slot> {
        self.slot(self.forwards.external(internal, kind)?, kind)
    }

    /// Other ports to give out, of the same addresses.
    pub fn configure(&mut self, config: &Config) {
        self.pooling = config.pooling;
        self.assignment = config.assignment;
        self.deterministic.clone_from(&config.deterministic);
        let range = (config.ports.first, config.ports.last);
        let ranges = [config.low_ports, range];
        if ranges == [self.low, self.range] {
            return;
        }
        [self.low, self.range] = ranges;
        for (page, counts) in self.pages.iter().zip(&mut self.counts) {
            *counts = ranges.map(|range| page.as_ref().map_or(0, |page| page.count(range)));
        }
    }

    /// The numbers that addresses have in another list, or `None` if all is the same in it.
    pub fn numbers_in(&self, new: &Self) -> Option<Vec<Option<u32>>> {
        let is_same = self.by_version == new.by_version && self.has_same_promises(new);
        if is_same && self.addresses == new.addresses {
            return None;
        }
        let numbers: HashMap<Address, u32> = new.addresses.iter().copied().zip(0..).collect();
        let number = |address| numbers.get(address).copied();
        Some(self.addresses.iter().map(number).collect())
    }

    /// Whether hosts have other blocks of ports in another list.
    pub fn has_other_blocks(&self, new: &Self) -> bool {
        self.deterministic != new.deterministic || self.settings() != new.settings()
    }

    fn settings(&self) -> Option<&Dynamic> {
        self.blocks.as_ref().map(BlockTable::settings)
    }

    /// Blocks that hosts are given as they need them, if they are.
    pub fn blocks(&self) -> Option<&BlockTable> {
        self.blocks.as_ref()
    }

    /// A slot has a host's binding; returns the block that the host was given for it.
    pub fn enter_block(&mut self, slot: Slot, host: Address) -> Option<BlockChange> {
        if self.forwarded(slot).is_some() {
            return None;
        }
        self.blocks
            .as_mut()?
            .bound(slot.address(), slot.port(), host)
    }

    /// A slot has no binding any more; returns the block that has come back with it.
    pub fn leave_block(&mut self, slot: Slot) -> Option<BlockChange> {
        if self.forwarded(slot).is_some() {
            return None;
        }
        self.blocks.as_mut()?.unbound(slot.address(), slot.port())
    }

    /// The endpoint with which a block begins.
    pub fn first_of(&self, block: Block) -> Endpoint {
        self.endpoint(Slot::new(block.address, Kind::Tcp, block.first))
    }

    /// Whether the same ports belong to the same hosts in any case.
    pub fn has_same_promises(&self, new: &Self) -> bool {
        self.forwards == new.forwards && !self.has_other_blocks(new)
    }

    /// Whether a binding agrees with forwards and blocks.
    pub fn allows(&self, internal: Endpoint, external: Endpoint, kind: Kind) -> bool {
        if let Some(own) = self.forwards.external(internal, kind) {
            return own == external;
        }
        let is_in_block = |blocks: &Deterministic| {
            blocks.block(internal.address).is_some_and(|block| {
                let address = self.addresses.get(block.address as usize);
                address == Some(&external.address)
                    && (block.first..=block.last).contains(&external.port)
            })
        };
        self.forwards.internal(external, kind).is_none()
            && self.deterministic.as_ref().is_none_or(is_in_block)
    }

    /// The addresses that join or leave, or whose slots have other numbers in another list.
    pub fn renumbered(&self, new: &Self) -> Vec<Address> {
        let [before, after]: [HashMap<Address, u32>; 2] =
            [self, new].map(|external| external.addresses.iter().copied().zip(0..).collect());
        let all = self.addresses.iter().chain(&new.addresses).copied();
        let renumbered = all.filter(|address| before.get(address) != after.get(address));
        let forwards = self.forwards.differing(&new.forwards);
        renumbered.chain(forwards).collect()
    }

    /// How many addresses there are.
    pub fn address_count(&self) -> usize {
        self.addresses.len()
    }

    /// The endpoint that a slot is.
    pub fn endpoint(&self, slot: Slot) -> Endpoint {
        let address = self.addresses.get(slot.page() / KINDS as usize);
        let address = address.copied().unwrap_or(Address::UNSPECIFIED_V6);
        Endpoint::new(address, slot.port())
    }

    /// The slot that an endpoint is, if its address is external.
    pub fn slot(&self, endpoint: Endpoint, kind: Kind) -> Option<Slot> {
        let place = self
            .addresses
            .iter()
            .position(|&own| own == endpoint.address)?;
        Some(Slot::new(place as u32, kind, endpoint.port))
    }

    /// The binding that has a slot.
    pub fn binding(&self, slot: Slot) -> Option<u32> {
        let page = self.pages.get(slot.page())?.as_ref()?;
        Some(page.bindings[usize::from(slot.port())]).filter(|&binding| binding != 0)
    }

    /// Gives a slot to a binding, or with 0 to none.
    pub fn bind(&mut self, slot: Slot, binding: u32) {
        if let Some(page) = self.pages.get_mut(slot.page()) {
            let page = page.get_or_insert_with(Page::new);
            page.bindings[usize::from(slot.port())] = binding;
        }
    }

    /// The binding of a slot is alive, or as far as is known no longer: then a new one may have
    /// the slot.
    pub fn take(&mut self, slot: Slot, is_taken: bool) {
        let Some(Some(page)) = self.pages.get_mut(slot.page()) else {
            return;
        };
        let port = slot.port();
        if page.taken.has(port) == is_taken {
            return;
        }
        let end = Endpoint::new(self.addresses[slot.page() / KINDS as usize], port);
        if self.forwards.internal(end, slot.kind()).is_some() {
            return;
        }
        page.taken.set(port, is_taken);
        if let Some(blocks) = &mut self.blocks {
            blocks.lives(slot.address(), port, is_taken);
        }
        let ranges = [self.low, self.range];
        for ((first, last), count) in ranges.into_iter().zip(&mut self.counts[slot.page()]) {
            match (first..=last).contains(&port) {
                true if is_taken => *count += 1,
                true => *count -= 1,
                false => {}
            }
        }
    }

    fn hash(&self, address: Address, more: u64) -> u64 {
        let [high, low] = [(address.0 >> 64) as u64, address.0 as u64];
        self.hash_key.hash([high, low, more])
    }
}
