//! In which order external ports are tried for a new binding.

use super::{External, Kind, Slot};
use crate::napt::config::LOW;
use crate::napt::config::{Assignment, Block, Pooling};
use crate::napt::taken::Span;
use twinpath_core::wire::{Address, Endpoint};

impl External {
    /// The slots that an inside endpoint may get, best first. They follow from the endpoint, and
    /// from what is taken.
    pub fn search(&self, internal: Endpoint, kind: Kind) -> Search {
        let version = usize::from(!internal.address.is_v4());
        let start = self.start(internal, kind);
        let block = self
            .deterministic
            .as_ref()
            .map(|blocks| blocks.block(internal.address));
        let (address, addresses_left) = match block {
            None => self.addresses_of(internal.address),
            Some(block) => self.address_of(version, block),
        };
        let block = block.flatten();
        Search {
            version,
            kind,
            is_low: block.is_none() && is_low(internal.port),
            address,
            addresses_left,
            spans: self.spans(internal.port, block, start),
            span: 0,
            place: 0,
        }
    }

    /// The slots of one block that an inside endpoint may get, best first.
    pub fn search_in(&self, internal: Endpoint, kind: Kind, block: Block) -> Search {
        let version = usize::from(!internal.address.is_v4());
        let start = self.start(internal, kind);
        let (address, addresses_left) = self.address_of(version, Some(block));
        Search {
            version,
            kind,
            is_low: false,
            address,
            addresses_left,
            spans: self.spans(internal.port, Some(block), start),
            span: 0,
            place: 0,
        }
    }

    /// Numbers of the addresses at which a host may be given a block, and where to begin at each.
    pub fn addresses_for(&self, host: Address) -> (Vec<u32>, u64) {
        let numbers = &self.by_version[usize::from(!host.is_v4())];
        let (first, tried) = self.addresses_of(host);
        let around = numbers.iter().cycle().skip(first).take(tried);
        (around.copied().collect(), self.hash(host, 1 << 40))
    }

    /// The number of an address that a host may have, the best of which is the first, where it is given
    /// single ports.
    pub fn address_for(&self, host: Address, place: usize) -> Option<u32> {
        if self.deterministic.is_some() || self.blocks.is_some() {
            return None;
        }
        let numbers = &self.by_version[usize::from(!host.is_v4())];
        let (first, tried) = self.addresses_of(host);
        (place < tried).then(|| numbers[(first + place) % numbers.len()])
    }

    /// Whether an inside endpoint may have the port of a slot, at an address that its host may have.
    pub fn may_have(&self, internal: Endpoint, slot: Slot) -> bool {
        let (low, range) = (self.low.0..=self.low.1, self.range.0..=self.range.1);
        let is_given =
            range.contains(&slot.port()) || is_low(internal.port) && low.contains(&slot.port());
        is_given && self.forwarded(slot).is_none()
    }

    fn start(&self, internal: Endpoint, kind: Kind) -> u64 {
        let more = u64::from(internal.port) << 8 | kind as u64 | 1 << 32;
        self.hash(internal.address, more)
    }

    /// Which of a version's addresses a host gets first, and how many there are for it.
    fn addresses_of(&self, host: Address) -> (usize, usize) {
        let count = self.by_version[usize::from(!host.is_v4())].len();
        let first = self.hash(host, 0) % count.max(1) as u64;
        let tried = match self.pooling {
            Pooling::Paired => count.min(1),
            Pooling::Arbitrary => count,
        };
        (first as usize, tried)
    }

    /// The one address of a block.
    fn address_of(&self, version: usize, block: Option<Block>) -> (usize, usize) {
        let place =
            block.and_then(|block| self.by_version[version].binary_search(&block.address).ok());
        place.map_or((0, 0), |place| (place, 1))
    }

    /// Whether others have the address that a host appears with, too.
    pub fn shares_address(&self, host: Address) -> bool {
        self.forwards.address(host).is_none()
    }

    /// The one address that a host has for all of its bindings, if it has one.
    pub fn only_address(&self, host: Address) -> Option<Address> {
        if let Some(own) = self.forwards.address(host) {
            return Some(own);
        }
        if self.forwards.has(host) {
            return None;
        }
        let version = usize::from(!host.is_v4());
        let (place, count) = match &self.deterministic {
            None => self.addresses_of(host),
            Some(blocks) => self.address_of(version, blocks.block(host)),
        };
        let number = *self.by_version[version].get(place)?;
        let address = self.addresses.get(number as usize).copied();
        address.filter(|_| count == 1)
    }

    /// The ports for an inside one, best first: those below 1024 for one that is, then those to
    /// give out, of the wanted parity before the others. In front is the port itself, where it is to
    /// be kept.
    fn spans(&self, port: u16, block: Option<Block>, start: u64) -> [Span; SPANS] {
        let range = block.map_or(self.range, |block| (block.first, block.last));
        let is_low = block.is_none() && is_low(port);
        let may_keep = [self.low, range]
            .iter()
            .skip(usize::from(!is_low))
            .any(|(first, last)| (*first..=*last).contains(&port));
        let mut spans = [Span::default(); SPANS];
        if may_keep && self.assignment == Assignment::Preserve {
            spans[0] = Span::of(port, port, port % 2);
        }
        let parity = match self.assignment {
            Assignment::Random => (start >> 63) as u16,
            Assignment::Parity | Assignment::Preserve => port % 2,
        };
        let ranges = [self.low, range].into_iter().skip(usize::from(!is_low));
        let parities = ranges.flat_map(|range| [(range, parity), (range, 1 - parity)]);
        let both = parities
            .flat_map(|((first, last), parity)| Span::of(first, last, parity).around(start));
        for (place, span) in spans[1..].iter_mut().zip(both) {
            *place = span;
        }
        spans
    }

    /// Whether all ports of a page are taken, those below 1024 only if they count.
    fn is_full(&self, page: usize, is_low: bool) -> bool {
        let [low, others] = self.counts[page];
        let (first, last) = self.range;
        let has_all = others == u32::from(last - first) + 1;
        let has_all_low = low == u32::from(self.low.1 - self.low.0) + 1;
        has_all && (!is_low || has_all_low)
    }
}

fn is_low(port: u16) -> bool {
    (LOW.0..=LOW.1).contains(&port)
}

/// The port itself, and for each of two ranges and two parities what lies behind a place, and
/// before it.
const SPANS: usize = 1 + 2 * 2 * 2;

/// A search for a slot that no binding alive has.
#[derive(Debug)]
pub(crate) struct Search {
    version: usize,
    kind: Kind,
    is_low: bool,
    /// Which of the addresses of the version, and how many have not been searched.
    address: usize,
    addresses_left: usize,
    spans: [Span; SPANS],
    /// Where in which span the search goes on.
    span: usize,
    place: u16,
}

impl Search {
    /// The next one.
    pub fn next(&mut self, external: &External) -> Option<Slot> {
        let numbers = &external.by_version[self.version];
        while self.addresses_left > 0 {
            let number = *numbers.get(self.address)?;
            if let Some(port) = self.next_port(external, number) {
                return Some(Slot::new(number, self.kind, port));
            }
            self.address = (self.address + 1) % numbers.len();
            self.addresses_left -= 1;
            (self.span, self.place) = (0, 0);
        }
        None
    }

    fn next_port(&mut self, external: &External, number: u32) -> Option<u16> {
        let page = Slot::new(number, self.kind, 0).page();
        if external.is_full(page, self.is_low) {
            return None;
        }
        let page = external.pages.get(page)?.as_ref();
        while let Some(&span) = self.spans.get(self.span) {
            let rest = Span {
                first: span.first.max(self.place),
                ..span
            };
            let free = match page {
                Some(page) => page.taken.first_free(rest),
                None => (rest.len() > 0).then_some(rest.first * 2 + rest.parity),
            };
            if let Some(port) = free {
                self.place = port / 2 + 1;
                return free;
            }
            (self.span, self.place) = (self.span + 1, 0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::napt::config::Config;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const ADDRESSES: u32 = 3;

    fn config(first: u16, last: u16, pooling: &str) -> Config {
        let text = format!(
            "inside = ['10.0.0.0/8']\nexternal = ['192.0.2.1', '192.0.2.2', '192.0.2.3']\n\
             ports = '{first}-{last}'\npooling = '{pooling}'\nassignment = 'preserve'"
        );
        toml::from_str(&text).expect("a valid configuration")
    }

    /// All slots that an endpoint may have in the order in which they are tried, one by one.
    fn in_order(external: &External, internal: Endpoint, kind: Kind) -> Vec<Slot> {
        let port = internal.port;
        let start = external.hash(
            internal.address,
            u64::from(port) << 8 | kind as u64 | 1 << 32,
        );
        let around = |(first, last): (u16, u16), parity: u16| {
            let ports: Vec<u16> = (first..=last).filter(|port| port % 2 == parity).collect();
            let start = start % ports.len().max(1) as u64;
            let mut ports = ports;
            ports.rotate_left(start as usize);
            ports
        };
        let mut ports = Vec::new();
        if is_low(port) || (external.range.0..=external.range.1).contains(&port) {
            ports.push(port);
        }
        for range in [LOW, external.range]
            .into_iter()
            .skip(usize::from(!is_low(port)))
        {
            ports.extend(around(range, port % 2));
            ports.extend(around(range, 1 - port % 2));
        }
        let paired = external.hash(internal.address, 0) % u64::from(ADDRESSES);
        let addresses = (0..ADDRESSES).map(|more| (paired as u32 + more) % ADDRESSES);
        let tried = match external.pooling {
            Pooling::Paired => 1,
            Pooling::Arbitrary => 3,
        };
        addresses
            .take(tried)
            .flat_map(|address| {
                ports
                    .iter()
                    .map(move |&port| Slot::new(address, kind, port))
            })
            .collect()
    }

    proptest! {
        #[test]
        fn finds_what_trying_one_by_one_would(
            arbitrary: bool,
            ranges in prop::collection::vec((1u16..1200, 0u16..300), 1..4),
            blocks in prop::collection::vec((0..ADDRESSES, 1u16..1500, 0u16..1500, any::<bool>()), 0..16),
            hosts in prop::collection::vec((1u8.., 0u16..1500), 1..20),
        ) {
            let pooling = if arbitrary { "arbitrary" } else { "paired" };
            let config = |(first, length): (u16, u16)| config(first, first + length, pooling);
            let mut external = External::new(&config(ranges[0]), 5);
            let mut taken = BTreeSet::new();
            for (number, (address, first, length, is_taken)) in blocks.into_iter().enumerate() {
                external.configure(&config(ranges[number % ranges.len()]));
                for port in first..first + length {
                    let slot = Slot::new(address, Kind::Udp, port);
                    external.bind(slot, 1);
                    external.take(slot, is_taken);
                    if is_taken { taken.insert(slot.0) } else { taken.remove(&slot.0) };
                }
            }
            for (host, port) in hosts {
                let internal = Endpoint::v4([10, 0, 0, host], port);
                let expected: Vec<Slot> = in_order(&external, internal, Kind::Udp)
                    .into_iter()
                    .filter(|slot| !taken.contains(&slot.0))
                    .collect();
                let mut search = external.search(internal, Kind::Udp);
                let found: Vec<Slot> = std::iter::from_fn(|| search.next(&external)).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
