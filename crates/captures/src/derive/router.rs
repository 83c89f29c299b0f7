//! A router that sends a capture's packets several ways.

use super::{FunctionText, Lacking};
use crate::expectation::{Evidence, Expectation};
use crate::profile::Profile;
use crate::profile::networks::subnet;
use std::collections::BTreeSet;
use twinpath_classify::Prefix;
use twinpath_wire::Address;

const NAME: &str = "router";
/// Next hops of these; default routes have one more.
const HOPS: [&str; 3] = ["left", "middle", "right"];
const DEFAULT_HOP: &str = "uplink";
const NOWHERE: &str = "discard";
/// Subnets, or hosts, with routes of their own.
const MOST_NETWORKS: usize = 12;
/// Of these, packets to this one are discarded.
const DISCARDED: usize = 3;
/// The fresh address with this number is the router's own.
const OWN: u16 = 0xfff0;

/// A route, by the name of its next hop.
#[derive(Copy, Clone)]
struct Route {
    to: Prefix,
    via: &'static str,
}

impl Profile {
    /// A router with routes to the busiest subnets over three ports, one to nowhere, and default
    /// routes over a fourth port.
    ///
    /// # Errors
    /// A capture without a packet that a router forwards.
    pub fn router(&self) -> Result<FunctionText, Lacking> {
        let mut routes = routes(&self.forwarded_to(), MOST_NETWORKS);
        let all = [Address::UNSPECIFIED_V4, Address::UNSPECIFIED_V6];
        let default = |network| Route {
            to: Prefix::covering(network, 0),
            via: DEFAULT_HOP,
        };
        routes.extend(all.map(default));
        self.routing("", &routes)
    }

    /// The same with routes to half of the subnets and without default routes: other packets are
    /// answered with ICMP errors.
    ///
    /// # Errors
    /// A capture without a packet that a router forwards, or with packets to one address alone.
    pub fn router_without_default(&self) -> Result<FunctionText, Lacking> {
        let forwarded_to = self.forwarded_to();
        match networks(&forwarded_to).len() / 2 {
            0 => Err(Lacking("packets to one address alone")),
            half => self.routing(
                "without default",
                &routes(&forwarded_to, half.min(MOST_NETWORKS)),
            ),
        }
    }

    /// Addresses that a router sends anything to, with their packets.
    fn forwarded_to(&self) -> Vec<(Address, u64)> {
        let all = self.destinations.iter().copied();
        all.filter(|(address, _)| is_forwarded(*address)).collect()
    }

    fn routing(&self, variant: &'static str, routes: &[Route]) -> Result<FunctionText, Lacking> {
        let own = self.fresh.address(OWN, Address::UNSPECIFIED_V4);
        let own6 = self.fresh.address(OWN, Address::UNSPECIFIED_V6);
        let hops = (1..).zip(HOPS.into_iter().chain([DEFAULT_HOP]));
        let hops: String = hops.map(next_hop).collect();
        let written = routes
            .iter()
            .map(|Route { to, via }| format!("    {{ to = \"{to}\", via = \"{via}\" }},\n"));
        let written: String = written.collect();
        let table = format!(
            "[router]\nmartians = \"forward\"\naddress = \"{own}\"\naddress6 = \"{own6}\"\nnext_hops = [\n{hops}]\nroutes = [\n{written}]\n"
        );
        let expectations = self.routed(routes);
        if expectations.is_empty() {
            return Err(Lacking("no packet that a router forwards"));
        }
        Ok(FunctionText {
            function: NAME,
            variant,
            table,
            files: Vec::new(),
            expectations,
        })
    }

    /// What becomes of the packets to each address.
    fn routed(&self, routes: &[Route]) -> Vec<Expectation> {
        let (mut forwarded, mut discarded, mut without) = (0, 0, 0);
        let mut ports = BTreeSet::new();
        for (address, packets) in self.forwarded_to() {
            match longest(routes, address) {
                None => without += packets,
                Some(NOWHERE) => discarded += packets,
                Some(hop) => {
                    forwarded += packets;
                    ports.insert(hop);
                }
            }
        }
        let of_packets = [
            (&["forwarded"][..], forwarded),
            (&["discarded"], discarded),
            (&["no_route"], without),
        ];
        let of_packets = of_packets.into_iter().filter(|(_, packets)| *packets > 0);
        let of_packets =
            of_packets.map(|(counter, packets)| Expectation::counted(NAME, counter, packets));
        let of_ports = (!ports.is_empty()).then_some(Expectation {
            function: NAME,
            seen: Evidence::Ports,
            at_least: ports.len() as u64,
        });
        of_packets.chain(of_ports).collect()
    }
}

/// The subnets of addresses, the busiest address's first; if there is only one, the addresses
/// themselves.
fn networks(addresses: &[(Address, u64)]) -> Vec<Prefix> {
    let mut networks = Vec::new();
    for (address, _) in addresses {
        let subnet = subnet(*address);
        if !networks.contains(&subnet) {
            networks.push(subnet);
        }
    }
    match networks.len() {
        1 => addresses
            .iter()
            .map(|(address, _)| (*address).into())
            .collect(),
        _ => networks,
    }
}

/// Routes to the busiest subnets, and to the first half of each by another way, so that lengths of
/// prefixes count.
fn routes(addresses: &[(Address, u64)], most: usize) -> Vec<Route> {
    let networks = networks(addresses).into_iter().take(most).enumerate();
    let via = |number: usize| HOPS[number % HOPS.len()];
    let both = |(number, to): (usize, Prefix)| match number {
        DISCARDED => vec![Route { to, via: NOWHERE }],
        _ => {
            let half = Prefix::covering(to.network(), to.length() + 1);
            let half = Route {
                to: half,
                via: via(number + 1),
            };
            vec![
                Route {
                    to,
                    via: via(number),
                },
                half,
            ]
        }
    };
    networks.flat_map(both).collect()
}

/// The next hop of the longest prefix around an address.
fn longest(routes: &[Route], address: Address) -> Option<&'static str> {
    let around = routes.iter().filter(|route| route.to.includes(address));
    around
        .max_by_key(|route| route.to.length())
        .map(|route| route.via)
}

fn next_hop((port, name): (u16, &str)) -> String {
    format!(
        "    {{ name = \"{name}\", mac = \"02:00:00:00:0{port}:01\", source_mac = \"02:00:00:00:0{port}:02\", port = {port} }},\n"
    )
}

/// Whether a router forwards packets to an address without a route to exactly its special prefix.
fn is_forwarded(address: Address) -> bool {
    if address.is_v4() {
        let [first, second, ..] = address.octets4();
        !matches!((first, second), (0 | 127 | 224.., _) | (169, 254))
    } else {
        address.0 > 1 && !matches!(address.0 >> 112, 0xfe80..=0xfebf | 0xff00..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_send_addresses_where_the_longest_prefix_says() {
        let addresses: Vec<(Address, u64)> = ["10.0.0.1", "10.0.1.200", "10.0.2.1", "10.0.3.1"]
            .map(|address| (address.parse().expect("an address"), 1))
            .to_vec();
        let routes = routes(&addresses, 4);
        let hops: Vec<_> = addresses
            .iter()
            .map(|(address, _)| longest(&routes, *address))
            .collect();
        assert_eq!(
            hops,
            [
                Some("middle"),
                Some("middle"),
                Some("left"),
                Some("discard")
            ]
        );
        assert_eq!(longest(&routes, Address::from_v4([10, 9, 9, 9])), None);
    }

    #[test]
    fn special_addresses_are_not_forwarded_to() {
        let special = [
            "127.0.0.1",
            "169.254.1.1",
            "224.0.0.251",
            "255.255.255.255",
            "::1",
            "fe80::1",
            "ff02::fb",
        ];
        for address in special {
            assert!(
                !is_forwarded(address.parse().expect("an address")),
                "{address}"
            );
        }
        for address in ["10.0.0.1", "2001:db8::1", "192.0.2.1"] {
            assert!(
                is_forwarded(address.parse().expect("an address")),
                "{address}"
            );
        }
    }
}
