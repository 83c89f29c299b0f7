//! External endpoints: who has which, and in which order they are tried for a new binding.

use super::config::{Config, Pooling};
use std::collections::HashMap;
use twinpath_core::hash::hash_lanes;
use twinpath_core::wire::{Address, Endpoint};

/// What has ports of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Kind {
    /// TCP.
    Tcp = 0,
    /// UDP.
    Udp = 1,
    /// Echoes, whose identifiers are as ports.
    Icmp = 2,
}

/// How many kinds there are.
const KINDS: u32 = 3;

/// Ports that are tried in one range and of one parity.
const MOST_TRIED: u32 = 1024;

/// An external address, a kind and a port in one number, less than 2^30: the entry of rules that
/// depend on whether it is bound.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slot(pub u32);

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

    fn port(self) -> u16 {
        self.0 as u16
    }
}

/// The ports of one address and kind: the numbers of their bindings, 0 for none.
type Page = Box<[u32]>;

/// All external endpoints.
#[derive(Debug)]
pub(super) struct External {
    addresses: Vec<Address>,
    /// Numbers of the IPv4 addresses, and of the others.
    by_version: [Vec<u32>; 2],
    pages: Vec<Option<Page>>,
    first: u16,
    last: u16,
    pooling: Pooling,
    seed: u64,
}

impl External {
    pub fn new(config: &Config, seed: u64) -> Self {
        let numbers = |v4| {
            let numbered = (0..).zip(&config.external);
            numbered
                .filter(|(_, address)| address.is_v4() == v4)
                .map(|(number, _)| number)
                .collect()
        };
        Self {
            by_version: [numbers(true), numbers(false)],
            pages: vec![None; config.external.len() * KINDS as usize],
            addresses: config.external.clone(),
            first: config.ports.first,
            last: config.ports.last,
            pooling: config.pooling,
            seed,
        }
    }

    /// Other ports to give out, of the same addresses.
    pub fn configure(&mut self, config: &Config) {
        (self.first, self.last) = (config.ports.first, config.ports.last);
        self.pooling = config.pooling;
    }

    /// The numbers that addresses have in another list, or `None` if that is the same list.
    pub fn numbers_in(&self, new: &Self) -> Option<Vec<Option<u32>>> {
        if self.addresses == new.addresses {
            return None;
        }
        let numbers: HashMap<Address, u32> = new.addresses.iter().copied().zip(0..).collect();
        let number = |address| numbers.get(address).copied();
        Some(self.addresses.iter().map(number).collect())
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
        Some(page[usize::from(slot.port())]).filter(|&binding| binding != 0)
    }

    /// Gives a slot to a binding, or with 0 to none.
    pub fn bind(&mut self, slot: Slot, binding: u32) {
        if let Some(page) = self.pages.get_mut(slot.page()) {
            let page = page.get_or_insert_with(|| vec![0; 1 << 16].into_boxed_slice());
            page[usize::from(slot.port())] = binding;
        }
    }

    /// The slots to try for an inside endpoint, best first. They follow from the endpoint alone.
    pub fn candidates(&self, internal: Endpoint, kind: Kind) -> impl Iterator<Item = Slot> + use<> {
        let numbers = &self.by_version[usize::from(!internal.address.is_v4())];
        let count = numbers.len().max(1);
        let paired = (self.hash(internal.address, 0) % count as u64) as usize;
        let tried = match self.pooling {
            Pooling::Paired => 1,
            Pooling::Arbitrary => count,
        };
        let in_order = numbers.iter().cycle().skip(paired);
        let addresses: Vec<u32> = in_order.take(tried.min(numbers.len())).copied().collect();
        let port = internal.port;
        let start = self.hash(
            internal.address,
            u64::from(port) << 8 | kind as u64 | 1 << 32,
        );
        let ranges = [(1, 1023), (self.first, self.last)];
        let is_low = (1..1024).contains(&port);
        let may_keep = is_low || (self.first..=self.last).contains(&port) && port != 0;
        let kept = may_keep.then_some(port);
        addresses.into_iter().flat_map(move |address| {
            let searched =
                ranges
                    .into_iter()
                    .skip(usize::from(!is_low))
                    .flat_map(move |(first, last)| {
                        let same = of_parity(first, last, port % 2, start);
                        same.chain(of_parity(first, last, 1 - port % 2, start))
                    });
            kept.into_iter()
                .chain(searched)
                .map(move |port| Slot::new(address, kind, port))
        })
    }

    fn hash(&self, address: Address, more: u64) -> u64 {
        let [high, low] = [(address.0 >> 64) as u64, address.0 as u64];
        hash_lanes([high, low, more, 0, 0], self.seed)
    }
}

/// Ports of one parity in a range, round it once from a place that `start` says.
fn of_parity(first: u16, last: u16, parity: u16, start: u64) -> impl Iterator<Item = u16> {
    let first = u32::from(first) + u32::from(first % 2 != parity);
    let count = (u32::from(last) + 2).saturating_sub(first) / 2;
    let start = (start % u64::from(count.max(1))) as u32;
    (0..count.min(MOST_TRIED)).map(move |step| (first + (start + step) % count * 2) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_port_of_a_parity_is_tried_once(first: u16, length in 0u16..500, start: u64, odd: bool) {
            let last = first.saturating_add(length);
            let parity = u16::from(odd);
            let tried: Vec<u16> = of_parity(first, last, parity, start).collect();
            let expected: BTreeSet<u16> = (first..=last).filter(|port| port % 2 == parity).collect();
            prop_assert_eq!(tried.len(), expected.len());
            prop_assert_eq!(tried.into_iter().collect::<BTreeSet<u16>>(), expected);
        }
    }
}
