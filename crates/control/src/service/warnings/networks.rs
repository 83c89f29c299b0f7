//! Addresses and networks of ports of which no packet can be meant.

use super::Found;
use crate::service::Service;
use twinpath_classify::{Prefix, Versions};
use twinpath_core::wire::Address;
use twinpath_nf::router;

/// What a port has: the name, and networks with an address each.
struct Port<'a> {
    name: &'a str,
    networks: Vec<(Address, Prefix)>,
}

impl Found {
    /// All of it.
    pub(super) fn of_networks(&mut self, service: &Service) {
        self.shared_networks(service);
        self.everything_inside(service);
        for instance in &service.chain {
            if let Some(router) = instance.config.of::<router::Config>() {
                self.gateways_that_are_none(service, &instance.name, router);
            }
        }
    }

    /// Networks of two ports of which one includes the other.
    fn shared_networks(&mut self, service: &Service) {
        let ports: Vec<_> = ports(service).collect();
        for (place, port) in ports.iter().enumerate() {
            for other in &ports[..place] {
                let shared = |one: &Prefix| other.networks.iter().find(|(_, two)| meet(one, two));
                let mut own = port.networks.iter();
                let Some((one, two)) = own.find_map(|(_, one)| Some((one, shared(one)?.1))) else {
                    continue;
                };
                let message = format!(
                    "{one} has hosts of {two}, the network of {}, too, so a host is asked for on one of the two cables alone: expected networks of which none includes another",
                    other.name
                );
                self.add(["ports", port.name, "addresses"], message);
            }
        }
    }

    /// With no port outside all packets are from inside.
    fn everything_inside(&mut self, service: &Service) {
        let ports = 0..service.ports.len() as u16;
        let is_inside = |port: u16| service.inside_ports.contains(&port);
        if service.ports.len() > 1 && ports.clone().all(is_inside) {
            let message = "all ports are inside, so nothing comes from outside: expected the ports to those inside alone";
            self.add(["service", "inside_ports"], message.into());
        }
    }

    /// Next hops that are this node, or all hosts of a network.
    fn gateways_that_are_none(&mut self, service: &Service, name: &str, router: &router::Config) {
        let ports: Vec<_> = ports(service).collect();
        for (place, hop) in router.next_hops().iter().enumerate() {
            let Some(gateway) = hop.gateway() else {
                continue;
            };
            let mut own = router.own_addresses();
            let networks = ports.iter().flat_map(|port| &port.networks);
            let is_all = |(_, network): &&(Address, Prefix)| is_for_all(*network, gateway);
            let what = match networks.clone().find(is_all) {
                _ if own.any(|own| own == gateway) => "an address of this node".to_owned(),
                Some((_, network)) => format!("no host's, but stands for all of {network}"),
                None => continue,
            };
            let message = format!("{gateway} is {what}: expected the address of another router");
            self.add([name, "next_hops", &place.to_string()], message);
        }
    }
}

fn ports(service: &Service) -> impl Iterator<Item = Port<'_>> {
    let ports = service.ports.iter().zip(&service.devices);
    ports.map(|(name, device)| {
        let addresses = device.addresses.iter().map(|one| one.0);
        let networks = addresses
            .map(|one| (one.address, Prefix::covering(one.address, one.prefix_bits)))
            .filter(|(address, _)| address.word(0) >> 22 != 0xfe80 >> 6);
        Port {
            name,
            networks: networks.collect(),
        }
    })
}

fn meet(one: &Prefix, other: &Prefix) -> bool {
    one.includes(other.network()) || other.includes(one.network())
}

/// Whether an address is a network's first or last, where these are no hosts' (RFC 3021).
fn is_for_all(network: Prefix, address: Address) -> bool {
    let has_broadcast = network.versions() == Versions::V4 && network.length() <= 30;
    has_broadcast && [network.network(), network.last()].contains(&address)
}

#[cfg(test)]
mod tests {
    use crate::service::warnings::tests::told;

    const SOUND: &str = r#"[service]
chain = ["router"]
inside_ports = ["lan"]
[ports]
lan = { device = "e1", addresses = ["10.0.0.1/24", "fe80::1/64"] }
wan = { device = "e0", addresses = ["192.0.2.2/24", "fe80::1/64"] }
[router]
next_hops = [
    { name = "home", port = "lan" },
    { name = "up", port = "wan", address = "192.0.2.1" },
]
routes = [
    { to = "10.0.0.0/24", via = "home" },
    { to = "0.0.0.0/0", via = "up" },
]
"#;

    #[test]
    fn what_no_packet_can_mean_is_told_with_its_line() {
        assert_eq!(told(SOUND), []);
        for (from, to, line, expected) in [
            ("192.0.2.2/24", "10.0.0.2/8", 6, "the network of lan, too"),
            ("[\"lan\"]", "[\"lan\", \"wan\"]", 3, "all ports are inside"),
            (
                "192.0.2.1\"",
                "192.0.2.2\"",
                10,
                "192.0.2.2 is an address of this node",
            ),
            (
                "192.0.2.1\"",
                "10.0.0.1\"",
                10,
                "10.0.0.1 is an address of this node",
            ),
            (
                "192.0.2.1\"",
                "192.0.2.255\"",
                10,
                "stands for all of 192.0.2.0/24",
            ),
            (
                "192.0.2.1\"",
                "192.0.2.0\"",
                10,
                "stands for all of 192.0.2.0/24",
            ),
        ] {
            assert!(SOUND.contains(from), "{from}");
            let told = told(&SOUND.replacen(from, to, 1));
            let is_expected =
                |(at, message): &(usize, String)| *at == line && message.contains(expected);
            assert!(told.iter().any(is_expected), "{to}: {told:#?}");
        }
    }
}
