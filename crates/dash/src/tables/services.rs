//! Who stands behind addresses of networks, and how flows are spread over them.

use std::collections::HashMap;
use std::sync::Arc;

use twinpath_core::HashKey;
use twinpath_core::wire::{Address, Endpoint};

use super::numbers::Numbered;
use crate::headers::Headers;
use crate::objects::VnetName;
use crate::source::ObjectSource;

/// A network's number, address and port in it, and protocol.
type Service = (u32, Endpoint, u8);

/// Backends by what they stand behind.
#[derive(Clone, Debug, Default)]
pub(super) struct Services(Arc<HashMap<Service, Box<[Endpoint]>>>);

impl Services {
    /// Those of networks that something refers to: no packet comes to others.
    pub fn compile(source: &dyn ObjectSource, vnets: &Numbered<VnetName>) -> Self {
        let mut services = HashMap::new();
        source.load_balancers(&mut |key, balancer| {
            if let Some(vnet) = vnets.get(&key.vnet) {
                let vip = Endpoint::new(key.vip, key.port);
                let service = (vnet, vip, key.protocol.number());
                services.insert(service, balancer.backends.clone());
            }
        });
        Self(Arc::new(services))
    }

    #[inline]
    pub fn backends(&self, vnet: u32, vip: Endpoint, protocol: u8) -> Option<&[Endpoint]> {
        if self.0.is_empty() {
            return None;
        }
        self.0
            .get(&(vnet, vip, protocol))
            .map(|backends| &**backends)
    }
}

/// A number of a flow's that is drawn for it: choices among several follow from it.
#[derive(Copy, Clone, Debug)]
pub struct Spread {
    key: HashKey,
    flow: u64,
}

impl Spread {
    /// That of a flow with these headers; the entropy tells flows apart that have no ports.
    pub(super) fn new(key: HashKey, headers: &Headers, entropy: u32) -> Self {
        let [from, to] = headers.ports.unwrap_or([0; 2]).map(u64::from);
        let (source, destination) = (headers.source.0, headers.destination.0);
        let flow = key.hash([
            (source >> 64) as u64,
            source as u64,
            (destination >> 64) as u64,
            destination as u64,
            from << 48 | to << 32 | u64::from(entropy),
            headers.protocol.into(),
        ]);
        Self { key, flow }
    }

    /// One of several: flows are spread evenly, and when some come or go as few as possible move
    /// (rendezvous hashing).
    #[must_use]
    pub fn choose<'t, T>(&self, among: &'t [T], end: impl Fn(&T) -> Endpoint) -> Option<&'t T> {
        let weight = |one: &&T| {
            let Endpoint { address, port } = end(*one);
            let Address(bits) = address;
            let words = [self.flow, (bits >> 64) as u64, bits as u64, port.into()];
            self.key.hash(words)
        };
        among.iter().max_by_key(weight)
    }

    /// One of any number of numbers of the flow's.
    #[inline]
    pub(super) fn number(&self, which: u64) -> u64 {
        self.key.hash([self.flow, which])
    }

    /// A number below a bound, which is not 0.
    #[must_use]
    pub const fn below(&self, bound: u32) -> u32 {
        ((self.flow as u128 * bound as u128) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(seed: u64, flow: u16) -> Spread {
        let headers = Headers {
            source: Address::from_v4([10, 0, 0, 1]),
            destination: Address::from_v4([10, 0, 0, 2]),
            ports: Some([flow, 80]),
            protocol: 6,
        };
        Spread::new(HashKey::new(seed), &headers, 0)
    }

    #[test]
    fn flows_are_spread_and_few_move() {
        let ends = |hosts: &[u8]| -> Vec<Endpoint> {
            let address = |host: &u8| Address::from_v4([60, 60, 60, *host]);
            hosts
                .iter()
                .map(|host| Endpoint::new(address(host), 80))
                .collect()
        };
        let (three, two) = (ends(&[1, 2, 3]), ends(&[1, 3]));
        let mut counts = [0; 4];
        for flow in 0..3000 {
            let spread = spread(1, flow);
            let chosen = spread.choose(&three, |end| *end).expect("one");
            counts[chosen.address.octets4()[3] as usize] += 1;
            if chosen.address.octets4()[3] != 2 {
                assert_eq!(spread.choose(&two, |end| *end), Some(chosen));
            }
        }
        let is_even = counts[1..]
            .iter()
            .all(|&count| (800..1200).contains(&count));
        assert!(is_even, "{counts:?}");
    }

    /// Who does not know the seed cannot tell which flows go together.
    #[test]
    fn another_seed_spreads_otherwise() {
        let ends: Vec<_> = (1..=2)
            .map(|port| Endpoint::new(Address::UNSPECIFIED_V4, port))
            .collect();
        let together = |seed| {
            (0..100)
                .filter(|&flow| spread(seed, flow).choose(&ends, |end| *end) == Some(&ends[0]))
                .collect::<Vec<_>>()
        };
        assert_ne!(together(1), together(2));
        assert!((0..100).all(|flow| spread(1, flow).below(7) < 7));
    }
}
