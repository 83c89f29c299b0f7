//! Broadcast addresses, to which no packet is forwarded.
//!
//! A packet to all hosts of a network on one of the router's cables would be answered by each of
//! them, to a source that anybody can forge (RFC 2644). So it is dropped, whichever function of the
//! router's it meets: both forms of the address are routes to nowhere in its table.

use super::config::{Config, Reached};
use std::collections::{BTreeSet, HashSet};
use twinpath_classify::{Prefix, Versions};
use twinpath_core::wire::Address;

impl Config {
    /// The addresses of all hosts of each network on a cable, if packets to them are not forwarded:
    /// ones behind the prefix (RFC 1812 §5.3.5.2), and the older zeros (§4.2.3.1).
    pub(super) fn directed_broadcasts(&self) -> impl Iterator<Item = Prefix> + use<> {
        let networks = self.connected().into_iter().filter(has_broadcast);
        let addresses = networks.flat_map(|network| [network.network(), network.last()]);
        let addresses: BTreeSet<u128> = addresses.map(|address| address.0).collect();
        addresses.into_iter().map(Address).map(Prefix::from)
    }

    /// The networks on cables: those of the ports, and those that packets go to without another
    /// router.
    fn connected(&self) -> HashSet<Prefix> {
        let is_cable =
            |reached: Reached| matches!(reached, Reached::ByAddress { gateway: None, .. });
        let hops = self.next_hops.iter().filter(|hop| is_cable(hop.reached));
        let cables: HashSet<&str> = hops.map(|hop| &*hop.name).collect();
        let mut connected = HashSet::new();
        let routes = self.configured_routes().filter(|_| !cables.is_empty());
        for (to, via) in routes {
            // Of two routes to one prefix the later counts.
            match cables.contains(via) {
                true => connected.insert(to),
                false => !connected.is_empty() && connected.remove(&to),
            };
        }
        connected.extend(&self.networks);
        connected
    }
}

/// IPv6 has no broadcast, nor has a link between two ends (RFC 3021).
fn has_broadcast(network: &Prefix) -> bool {
    network.versions() == Versions::V4 && (1..=30).contains(&network.length())
}
