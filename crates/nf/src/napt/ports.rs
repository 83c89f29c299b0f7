//! External endpoints: who has which, and in which order they are tried for a new binding.

use super::config::{Config, Pooling};
use super::taken::{Span, Taken};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use twinpath_core::HashKey;
use twinpath_core::wire::{Address, Endpoint};

/// What has ports of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// TCP.
    Tcp = 0,
    /// UDP.
    Udp = 1,
    /// Echoes, whose identifiers are as ports.
    Icmp = 2,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Icmp];
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
        })
    }
}

/// A word that is no kind.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not tcp, udp or icmp")]
pub struct KindError;

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        let mut kinds = Self::ALL.into_iter();
        kinds.find(|kind| kind.to_string() == text).ok_or(KindError)
    }
}

/// How many kinds there are.
const KINDS: u32 = Kind::ALL.len() as u32;

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

/// The ports below 1024, which stand for one another.
const LOW: (u16, u16) = (1, 1023);

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
pub(super) struct External {
    addresses: Vec<Address>,
    /// Numbers of the IPv4 addresses, and of the others.
    by_version: [Vec<u32>; 2],
    pages: Vec<Option<Page>>,
    /// By page: how many ports are taken of those below 1024, and of those to give out.
    counts: Vec<[u32; 2]>,
    range: (u16, u16),
    pooling: Pooling,
    hash_key: HashKey,
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
        let pages = config.external.len() * KINDS as usize;
        Self {
            by_version: [numbers(true), numbers(false)],
            pages: std::iter::repeat_with(|| None).take(pages).collect(),
            counts: vec![[0; 2]; pages],
            addresses: config.external.clone(),
            range: (config.ports.first, config.ports.last),
            pooling: config.pooling,
            hash_key: HashKey::new(seed),
        }
    }

    /// Other ports to give out, of the same addresses.
    pub fn configure(&mut self, config: &Config) {
        self.pooling = config.pooling;
        let range = (config.ports.first, config.ports.last);
        if range == self.range {
            return;
        }
        self.range = range;
        for (page, count) in self.pages.iter().zip(&mut self.counts) {
            count[1] = page.as_ref().map_or(0, |page| page.count(range));
        }
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

    /// The addresses that join or leave, or whose slots have other numbers in another list.
    pub fn renumbered(&self, new: &Self) -> Vec<Address> {
        let [before, after]: [HashMap<Address, u32>; 2] =
            [self, new].map(|external| external.addresses.iter().copied().zip(0..).collect());
        let all = self.addresses.iter().chain(&new.addresses).copied();
        all.filter(|address| before.get(address) != after.get(address))
            .collect()
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
        page.taken.set(port, is_taken);
        let ranges = [LOW, self.range];
        for ((first, last), count) in ranges.into_iter().zip(&mut self.counts[slot.page()]) {
            match (first..=last).contains(&port) {
                true if is_taken => *count += 1,
                true => *count -= 1,
                false => {}
            }
        }
    }

    /// The slots that an inside endpoint may get, best first. They follow from the endpoint, and
    /// from what is taken.
    pub fn search(&self, internal: Endpoint, kind: Kind) -> Search {
        let numbers = &self.by_version[usize::from(!internal.address.is_v4())];
        let count = numbers.len();
        let paired = self.hash(internal.address, 0) % count.max(1) as u64;
        let tried = match self.pooling {
            Pooling::Paired => count.min(1),
            Pooling::Arbitrary => count,
        };
        let port = internal.port;
        let more = u64::from(port) << 8 | kind as u64 | 1 << 32;
        let start = self.hash(internal.address, more);
        Search {
            version: usize::from(!internal.address.is_v4()),
            kind,
            is_low: is_low(port),
            address: paired as usize,
            addresses_left: tried,
            spans: self.spans(port, start),
            span: 0,
            place: 0,
        }
    }

    /// The ports for an inside one, best first: itself, and then those of its parity before the
    /// others.
    fn spans(&self, port: u16, start: u64) -> [Span; SPANS] {
        let (first, last) = self.range;
        let is_low = is_low(port);
        let may_keep = is_low || (first..=last).contains(&port);
        let mut spans = [Span::default(); SPANS];
        if may_keep {
            spans[0] = Span::of(port, port, port % 2);
        }
        let ranges = [LOW, self.range].into_iter().skip(usize::from(!is_low));
        let parities = ranges.flat_map(|range| [(range, port % 2), (range, 1 - port % 2)]);
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
        has_all && !(is_low && low < u32::from(LOW.1))
    }

    fn hash(&self, address: Address, more: u64) -> u64 {
        let [high, low] = [(address.0 >> 64) as u64, address.0 as u64];
        self.hash_key.hash([high, low, more])
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
pub(super) struct Search {
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
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const ADDRESSES: u32 = 3;

    fn config(first: u16, last: u16, pooling: &str) -> Config {
        let text = format!(
            "inside = ['10.0.0.0/8']\nexternal = ['192.0.2.1', '192.0.2.2', '192.0.2.3']\n\
             ports = '{first}-{last}'\npooling = '{pooling}'"
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
