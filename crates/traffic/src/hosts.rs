//! The ends of flows: which client and which server a flow's number stands for.

use twinpath_wire::{Address, Endpoint};

use crate::config::{Hosts, Protocol, TrafficConfig};
use crate::packet::Direction;
use crate::random::{Chance, FlowRandom, RandomSource, mix};
use crate::validate::{FIRST_CLIENT_PORT, PORTS_PER_CLIENT};

/// Gives every flow its two ends. A client's address and port come back only
/// after all others had their turn, so flows that live together never share them.
#[derive(Debug, Clone)]
pub(crate) struct HostTable {
    clients: Permutation,
    clients_v4: Address,
    clients_v6: Address,
    servers: Servers,
    tcp: Chance,
}

#[derive(Debug, Clone)]
enum Servers {
    Services(Vec<(Endpoint, Option<Protocol>)>),
    Random {
        count: u32,
        v4: Address,
        v6: Address,
        ports: Vec<u16>,
        ipv6: Chance,
    },
}

/// The ends and the protocol of one flow, in few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    client: u32,
    server: u32,
    client_port: u16,
    server_port: u16,
    pub(crate) is_v4: bool,
    pub(crate) protocol: Protocol,
}

impl HostTable {
    pub(crate) fn new(config: &TrafficConfig, seed: u64) -> Self {
        let hosts = &config.hosts;
        Self {
            clients: Permutation::new(u64::from(hosts.clients) * PORTS_PER_CLIENT, seed),
            clients_v4: hosts.first_client_v4.into(),
            clients_v6: hosts.first_client_v6.into(),
            servers: Servers::new(hosts),
            tcp: Chance::new(config.tcp_share),
        }
    }

    /// The ends of the flow with this number.
    pub(crate) fn ends(&self, flow: u64, random: &mut FlowRandom) -> Ends {
        let client = self.clients.at(flow);
        let tcp = if self.tcp.draw(random) {
            Protocol::Tcp
        } else {
            Protocol::Udp
        };
        let mut ends = Ends {
            client: (client / PORTS_PER_CLIENT) as u32,
            server: 0,
            client_port: FIRST_CLIENT_PORT + (client % PORTS_PER_CLIENT) as u16,
            server_port: 0,
            is_v4: true,
            protocol: tcp,
        };
        self.servers.choose(&mut ends, random);
        ends
    }

    /// Source and destination of the flow's packets in this direction.
    pub(crate) fn endpoints(&self, ends: &Ends, direction: Direction) -> (Endpoint, Endpoint) {
        let first = if ends.is_v4 {
            self.clients_v4
        } else {
            self.clients_v6
        };
        let client = Endpoint::new(nth(first, ends.client), ends.client_port);
        let server = self.servers.endpoint(ends);
        match direction {
            Direction::ToServer => (client, server),
            Direction::ToClient => (server, client),
        }
    }
}

impl Servers {
    fn new(hosts: &Hosts) -> Self {
        if hosts.services.is_empty() {
            return Self::Random {
                count: hosts.servers,
                v4: hosts.first_server_v4.into(),
                v6: hosts.first_server_v6.into(),
                ports: hosts.server_ports.clone(),
                ipv6: Chance::new(hosts.ipv6_share),
            };
        }
        let services = hosts.services.iter();
        Self::Services(
            services
                .map(|s| (Endpoint::new(s.address.into(), s.port), s.protocol))
                .collect(),
        )
    }

    fn choose(&self, ends: &mut Ends, random: &mut FlowRandom) {
        match self {
            Self::Services(services) => {
                let index = random.below(services.len() as u64) as usize;
                if let Some((service, protocol)) = services.get(index) {
                    ends.server = index as u32;
                    ends.server_port = service.port;
                    ends.is_v4 = service.address.is_v4();
                    ends.protocol = protocol.unwrap_or(ends.protocol);
                }
            }
            Self::Random {
                count, ports, ipv6, ..
            } => {
                ends.is_v4 = !ipv6.draw(random);
                ends.server = random.below((*count).into()) as u32;
                let port = random.below(ports.len() as u64) as usize;
                ends.server_port = ports.get(port).copied().unwrap_or(0);
            }
        }
    }

    fn endpoint(&self, ends: &Ends) -> Endpoint {
        let address = match self {
            Self::Services(services) => services
                .get(ends.server as usize)
                .map_or(Address::UNSPECIFIED_V4, |(service, _)| service.address),
            Self::Random { v4, v6, .. } => nth(if ends.is_v4 { *v4 } else { *v6 }, ends.server),
        };
        Endpoint::new(address, ends.server_port)
    }
}

/// The address `index` after the first of a block.
pub(crate) fn nth(first: Address, index: u32) -> Address {
    Address(first.0 + u128::from(index))
}

/// Visits each of `0..count` once a round, in an order that looks random.
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    count: u64,
    step: u64,
    start: u64,
}

impl Permutation {
    /// An order of `0..count` (at least one, below 2^63).
    pub(crate) fn new(count: u64, seed: u64) -> Self {
        Self {
            count,
            step: coprime_step(count),
            start: mix(seed) % count,
        }
    }

    /// The number at this place of the order; places beyond the last begin again.
    pub(crate) fn at(&self, place: u64) -> u64 {
        let product = u128::from(place) * u128::from(self.step) + u128::from(self.start);
        (product % u128::from(self.count)) as u64
    }
}

/// A step near the golden section of `count`, with no factor in common with it,
/// so that it reaches everything and neighbours in time are far apart.
fn coprime_step(count: u64) -> u64 {
    let golden = (count as u128 * 618_033_989 / 1_000_000_000) as u64;
    // A coprime number comes soon: no 64-bit count has gaps of 1024 between them.
    (0..1024)
        .map(|i| golden.max(1) + i)
        .find(|&step| divisor(step, count) == 1)
        .unwrap_or(1)
}

fn divisor(mut a: u64, mut b: u64) -> u64 {
    // Euclid's algorithm takes fewer than 93 steps for 64-bit numbers.
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Service;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn endpoints(config: &TrafficConfig, count: u64) -> Vec<(Endpoint, Endpoint, Protocol)> {
        let table = HostTable::new(config, 7);
        (0..count)
            .map(|flow| {
                let ends = table.ends(flow, &mut FlowRandom::new(7, flow));
                let (client, server) = table.endpoints(&ends, Direction::ToServer);
                assert_eq!(
                    table.endpoints(&ends, Direction::ToClient),
                    (server, client)
                );
                (client, server, ends.protocol)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn a_permutation_visits_everything_once(count in 1u64..5000, seed: u64) {
            let order = Permutation::new(count, seed);
            let seen: HashSet<u64> = (0..count).map(|place| order.at(place)).collect();
            prop_assert_eq!(seen.len() as u64, count);
            prop_assert!(seen.iter().all(|&n| n < count));
            prop_assert_eq!(order.at(0), order.at(count));
        }
    }

    #[test]
    fn no_two_flows_share_a_client_endpoint() {
        let config = TrafficConfig::default();
        let ends = endpoints(&config, 200_000);
        let clients: HashSet<Endpoint> = ends.iter().map(|(client, ..)| *client).collect();
        assert_eq!(clients.len(), ends.len());
        assert!(
            clients
                .iter()
                .all(|client| client.port >= FIRST_CLIENT_PORT)
        );
        let addresses: HashSet<Address> = clients.iter().map(|client| client.address).collect();
        assert_eq!(addresses.len(), 4096);
    }

    #[test]
    fn shares_of_version_and_protocol_hold() {
        let mut config = TrafficConfig {
            tcp_share: 0.25,
            ..TrafficConfig::default()
        };
        config.hosts.ipv6_share = 0.1;
        let ends = endpoints(&config, 50_000);
        let v6 = ends
            .iter()
            .filter(|(client, ..)| !client.address.is_v4())
            .count();
        let tcp = ends
            .iter()
            .filter(|(_, _, protocol)| *protocol == Protocol::Tcp)
            .count();
        assert!((4_700..5_300).contains(&v6), "{v6}");
        assert!((12_000..13_000).contains(&tcp), "{tcp}");
        assert!(
            ends.iter()
                .all(|(c, s, _)| c.address.is_v4() == s.address.is_v4())
        );
    }

    #[test]
    fn services_are_met_alike_and_decide() {
        let mut config = TrafficConfig {
            tcp_share: 0.0,
            ..TrafficConfig::default()
        };
        let service = |address: &str, protocol| Service {
            address: address.parse().unwrap(),
            port: 53,
            protocol,
        };
        config.hosts.services = vec![
            service("192.0.2.1", Some(Protocol::Tcp)),
            service("2001:db8:1::1", None),
        ];
        let ends = endpoints(&config, 10_000);
        let first = ends.iter().filter(|(_, server, _)| server.address.is_v4());
        assert!(
            first
                .clone()
                .all(|(_, s, p)| s.port == 53 && *p == Protocol::Tcp)
        );
        assert!((4_800..5_200).contains(&first.count()));
        let second = ends.iter().filter(|(_, server, _)| !server.address.is_v4());
        assert!(
            second
                .clone()
                .all(|(c, _, p)| !c.address.is_v4() && *p == Protocol::Udp)
        );
    }
}
