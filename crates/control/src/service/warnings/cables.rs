//! What does not go together with the addresses of the ports: nobody on the cable would answer, or be
//! told.

use super::{Found, translations};
use crate::service::{EtherType, PortDevice, Service};
use twinpath_classify::{Prefix, Versions};
use twinpath_core::wire::{Address, Endpoint};
use twinpath_nf::{firewall, load_balancer, napt, nat64, router};

/// Of frames that ask for neighbours of IPv4.
const ARP: EtherType = EtherType(0x0806);

/// Most bits of an address that a prefix may leave open and be looked through.
const MOST_OPEN_BITS: u8 = 12;

impl Found {
    /// All of it.
    pub(super) fn on_cables(&mut self, service: &Service) {
        self.unanswered(service);
        self.unrouted_translations(service);
        self.shared_pools(service);
        self.unlimited_hosts(service);
        self.dropped_questions(service);
        self.loopbacks(service);
        for instance in &service.chain {
            if let Some(router) = instance.config.of::<router::Config>() {
                self.gateways_elsewhere(service, &instance.name, router);
                self.unanswered_routers(service, &instance.name, router);
                self.untold_lengths(service, &instance.name, router);
            }
        }
    }

    /// Addresses in the network of a port outside, whose neighbours ask for them and get no answer: those
    /// of translations, and of services of load balancers.
    fn unanswered(&mut self, service: &Service) {
        let networks = |device: &PortDevice| networks(device).collect();
        for (name, translation) in translations(service) {
            let all = translation.external.iter().flat_map(addresses);
            self.unanswered_at(&[name, "external"], unanswered(service, all, networks));
        }
        for vip in vips(service) {
            let at = [vip.at.address];
            self.unanswered_at(&vip.keys(), unanswered(service, at, networks));
        }
    }

    /// Tells of an address that nobody answers for, if there is one.
    pub(super) fn unanswered_at(&mut self, keys: &[&str], address: Option<Address>) {
        if let Some(address) = address {
            let message = format!(
                "{address} is in the network of a port that does not answer for it, so nothing comes back to it: expected it in answers_for of that port in [ports]"
            );
            self.add(keys.iter().copied(), message);
        }
    }

    /// Hosts behind other addresses, without a function that knows their MAC addresses.
    fn unrouted_translations(&mut self, service: &Service) {
        let mut functions = service.chain.iter();
        let has_router = functions.any(|one| one.config.of::<router::Config>().is_some());
        if has_router || service.devices.is_empty() {
            return;
        }
        for instance in &service.chain {
            let config = &instance.config;
            if config.of::<napt::Config>().is_some() || config.of::<nat64::Config>().is_some() {
                let message = format!(
                    "no router is behind {}, so packets keep the MAC addresses that they came with, and what is for its external addresses finds nobody: expected a router at the end of the chain, with addresses of the ports in [ports] or routes = \"kernel\", and the external addresses in answers_for",
                    instance.name
                );
                self.add([&*instance.name], message);
            }
        }
    }

    /// Tables of connections that one host alone can fill: with established ones, which are never
    /// forgotten for want of room. On cables there may be such a host.
    fn unlimited_hosts(&mut self, service: &Service) {
        if service.devices.is_empty() {
            return;
        }
        for instance in &service.chain {
            let firewall = instance.config.of::<firewall::Config>();
            let balancer = instance.config.of::<load_balancer::Config>();
            let is_unlimited = firewall.is_some_and(|one| one.per_host_connections.is_none())
                || balancer.is_some_and(|one| !one.limits_hosts());
            if is_unlimited {
                let message = format!(
                    "one host may have as many connections as there is room for (flows = {} in [slow_path], on each worker), and nobody else opens any then: expected per_host_connections",
                    service.slow_path.flows
                );
                self.add([&*instance.name], message);
            }
        }
    }

    /// A bump in the wire that lets no ARP through: hosts on its sides do not find each other.
    fn dropped_questions(&mut self, service: &Service) {
        let mut functions = service.chain.iter();
        let has_router = functions.any(|one| one.config.of::<router::Config>().is_some());
        let answers = service.devices.iter().any(|one| !one.addresses.is_empty());
        let drops = !service.entrance.forwards(ARP);
        if drops && !has_router && !answers && !service.devices.is_empty() {
            let message = "ARP is dropped (unparsed_arp) and no port answers it, so hosts of IPv4 do not find each other through this service: expected unparsed = \"forward\" in [service], or addresses of the ports in [ports]";
            self.add(["service", "unparsed"], message.into());
        }
    }

    /// External addresses that two translations have.
    fn shared_pools(&mut self, service: &Service) {
        let all: Vec<_> = translations(service).collect();
        for (place, (name, one)) in all.iter().enumerate() {
            for (first, other) in &all[..place] {
                let overlaps = |prefix: &&Prefix| {
                    let is_shared = |other: &Prefix| {
                        prefix.includes(other.network()) || other.includes(prefix.network())
                    };
                    other.external.iter().any(is_shared)
                };
                if let Some(prefix) = one.external.iter().find(overlaps) {
                    let message = format!(
                        "{prefix} is one of the external addresses of {first}, too, so one of the two does not get what is for it: expected addresses of its own"
                    );
                    self.add([*name, "external"], message);
                }
            }
        }
    }

    /// Next hops that nobody on their port's cable is.
    fn gateways_elsewhere(&mut self, service: &Service, name: &str, router: &router::Config) {
        for (place, hop) in router.next_hops().iter().enumerate() {
            let Some(device) = service.devices.get(usize::from(hop.port)) else {
                continue;
            };
            let port = service.ports.get(usize::from(hop.port));
            let port = port.map_or("its port", String::as_str);
            let gateway = hop.gateway();
            let told = gateway.and_then(|gateway| elsewhere(service, gateway, device, port));
            if let Some(message) = told {
                self.add([name, "next_hops", &place.to_string()], message);
            }
        }
    }

    /// Addresses that errors come from and pings go to, which hosts of a port's network ask for in vain.
    fn unanswered_routers(&mut self, service: &Service, name: &str, router: &router::Config) {
        let keys = ["address", "address6"].into_iter();
        for (key, own) in keys.zip(router.own_error_addresses()) {
            let Some(own) = own else { continue };
            let has_it = |device: &PortDevice| answers(device, own);
            let in_network = |(_, device): &(_, &PortDevice)| {
                networks(device).any(|network| network.includes(own))
            };
            let mut ports = service.ports.iter().zip(&service.devices);
            if service.devices.iter().any(has_it) {
                continue;
            }
            if let Some((port, device)) = ports.find(in_network) {
                let addresses = device.addresses.iter();
                let addresses: Vec<_> = addresses.map(|one| one.0.address.to_string()).collect();
                let message = format!(
                    "{own} is in the network of {port}, and no port has it or answers for it, so nobody there finds it: expected an address of a port, such as {}",
                    addresses.join(" or ")
                );
                self.add([name, key], message);
            }
        }
    }

    /// Ports whose interface has no cable.
    fn loopbacks(&mut self, service: &Service) {
        for (port, device) in service.ports.iter().zip(&service.devices) {
            if device.device == "lo" {
                let message = "lo is the loopback, by which this host speaks to itself: expected an interface with a cable";
                self.add(["ports", port, "device"], message.into());
            }
        }
    }

    /// Ports with a length that some packets exceed, whose senders nobody can tell.
    fn untold_lengths(&mut self, service: &Service, name: &str, router: &router::Config) {
        let missing = missing_address(router);
        let Some((key, version)) = missing else {
            return;
        };
        for (port, device) in service.ports.iter().zip(&service.devices) {
            if device.mtu.is_some() {
                let message = format!(
                    "senders of IPv{version} packets that are too long are not told, because {name} has no {key} to tell them from: expected {key} in [{name}]"
                );
                self.add(["ports", port, "mtu"], message);
            }
        }
    }
}

/// The address and port of a load balancer's service, and where it is written.
pub(super) struct Vip<'s> {
    pub instance: &'s str,
    place: String,
    pub at: Endpoint,
}

impl Vip<'_> {
    pub fn keys(&self) -> [&str; 4] {
        [self.instance, "services", &self.place, "vip"]
    }
}

/// Those of all load balancers.
pub(super) fn vips(service: &Service) -> impl Iterator<Item = Vip<'_>> {
    service.chain.iter().flat_map(|instance| {
        let balancer = instance.config.of::<load_balancer::Config>();
        let services = balancer.map_or(&[][..], |one| one.services());
        (0..).zip(services).map(|(place, one): (usize, _)| Vip {
            instance: &instance.name,
            place: place.to_string(),
            at: one.vip(),
        })
    })
}

/// The first of these addresses that is in a network of a port outside, while no port there answers for
/// it. What is in no network of a port is sent by routes, and nobody asks.
pub(super) fn unanswered(
    service: &Service,
    addresses: impl IntoIterator<Item = Address>,
    networks: impl Fn(&PortDevice) -> Vec<Prefix>,
) -> Option<Address> {
    let devices: Vec<_> = outside(service).map(|one| (one, networks(one))).collect();
    let is_unanswered = |address: &Address| {
        let mut networks = devices.iter().flat_map(|(_, networks)| networks);
        networks.any(|network| network.includes(*address))
            && !devices.iter().any(|(one, _)| answers(one, *address))
    };
    addresses.into_iter().find(is_unanswered)
}

/// The key of an address that a router lacks, and its IP version, where it has routes of that version.
fn missing_address(router: &router::Config) -> Option<(&'static str, u8)> {
    let has = |version: u8| router.own_error_addresses()[usize::from(version == 6)].is_some();
    let routes = |versions: Versions| {
        let mut routes = router.written_prefixes();
        routes.any(|to| to.versions() == versions || to.versions() == Versions::Both)
    };
    let each = [("address", 4, Versions::V4), ("address6", 6, Versions::V6)];
    let mut missing = each
        .into_iter()
        .filter(|(_, version, versions)| !has(*version) && routes(*versions));
    missing.next().map(|(key, version, _)| (key, version))
}

/// The interfaces to those outside; all if it is not known which these are.
pub(super) fn outside(service: &Service) -> impl Iterator<Item = &PortDevice> {
    let is_outside =
        |number: u16| service.inside_ports.is_empty() || !service.inside_ports.contains(&number);
    let devices = (0..).zip(&service.devices);
    devices.filter_map(move |(number, device)| is_outside(number).then_some(device))
}

/// What is wrong with a gateway that is not at its port, if it can be told.
fn elsewhere(
    service: &Service,
    gateway: Address,
    device: &PortDevice,
    port: &str,
) -> Option<String> {
    let is_at = |device: &PortDevice| networks(device).any(|one| one.includes(gateway));
    if is_of_link(gateway) || is_at(device) {
        return None;
    }
    let mut ports = service.ports.iter().zip(&service.devices);
    if let Some((other, _)) = ports.find(|(_, other)| is_at(other)) {
        return Some(format!(
            "{gateway} is in the network of {other}, and not of {port}, so nobody there answers for it: expected port = \"{other}\", or an address of a host at {port}"
        ));
    }
    (!device.addresses.is_empty()).then(|| {
        let networks: Vec<_> = networks(device).map(|one| one.to_string()).collect();
        format!(
            "{gateway} is in no network of {port}, so nobody there answers for it: expected an address of {}",
            networks.join(" or ")
        )
    })
}

pub(super) fn networks(device: &PortDevice) -> impl Iterator<Item = Prefix> {
    let addresses = device.addresses.iter();
    addresses.map(|one| Prefix::covering(one.0.address, one.0.prefix_bits))
}

/// Whether an interface answers questions about an address.
fn answers(device: &PortDevice, address: Address) -> bool {
    let mut own = device.addresses.iter();
    let mut more = device.answers_for.iter();
    own.any(|one| one.0.address == address) || more.any(|one| one.0.includes(address))
}

/// The addresses of a prefix, the first ones of a large one.
pub(super) fn addresses(prefix: &Prefix) -> impl Iterator<Item = Address> + use<> {
    let bits = match prefix.versions() {
        Versions::V4 => 32,
        _ => 128,
    };
    let open = (bits - prefix.length().min(bits)).min(MOST_OPEN_BITS);
    let first = prefix.network().0;
    (0..1u128 << open).map(move |number| Address(first + number))
}

/// Whether an address is one of its link alone (`fe80::/10`).
fn is_of_link(address: Address) -> bool {
    address.word(0) >> 22 == 0xfe80 >> 6
}

#[cfg(test)]
mod tests {
    use crate::service::warnings::tests::told;

    const SOUND: &str = r#"[service]
chain = ["napt", "nat64", "router"]
inside_ports = ["lan"]
inside = ["192.168.1.0/24", "2001:db8:1::/64"]
[ports]
lan = { device = "e1", addresses = ["192.168.1.1/24", "2001:db8:1::1/64"] }
wan = { device = "e0", addresses = ["198.51.100.2/24"], answers_for = ["198.51.100.8/30"], mtu = 1492 }
[napt]
inside = ["192.168.1.0/24"]
external = ["198.51.100.8/31"]
[nat64]
inside = ["2001:db8:1::/64"]
external = ["198.51.100.11", "203.0.113.7"]
[router]
address = "198.51.100.2"
address6 = "2001:db8:1::1"
next_hops = [
    { name = "home", port = "lan" },
    { name = "up", port = "wan", address = "198.51.100.1" },
    { name = "far", port = "lan", address = "fe80::1" },
]
routes = [
    { to = "192.168.1.0/24", via = "home" },
    { to = "0.0.0.0/0", via = "up" },
    { to = "::/0", via = "far" },
]
"#;

    #[test]
    fn tables_that_one_host_can_fill_are_told() {
        let balancer = "[load_balancer]\nservices = [{ vip = \"203.0.113.9:80\", protocol = \"tcp\", backends = [{ endpoint = \"192.168.1.9:80\" }] }]\n";
        let text = SOUND.replace("\"nat64\"", "\"nat64\", \"firewall\", \"load_balancer\"");
        let text = format!("{text}[firewall]\ndefault = \"allow\"\n{balancer}");
        let lines = told(&text);
        let expected = "one host may have as many connections as there is room for (flows = ";
        let places: Vec<usize> = lines.iter().map(|(line, _)| *line).collect();
        assert_eq!(places, [27, 29], "{lines:?}");
        assert!(
            lines
                .iter()
                .all(|(_, message)| message.starts_with(expected)),
            "{lines:?}"
        );
        let limited = text
            .replace(
                "default = \"allow\"",
                "default = \"allow\"\nper_host_connections = 100",
            )
            .replace(
                "[load_balancer]",
                "[load_balancer]\nper_host_connections = 100",
            );
        assert_eq!(told(&limited), []);
    }

    #[test]
    fn services_that_nobody_answers_for_are_told() {
        let with = |vip: &str| {
            let balancer = format!(
                "[load_balancer]\nper_host_connections = 100\nservices = [\n{{ vip = \"{vip}:80\", protocol = \"tcp\", backends = [{{ endpoint = \"192.168.1.9:80\" }}] }},\n]\n"
            );
            SOUND.replace("\"nat64\"", "\"nat64\", \"load_balancer\"") + &balancer
        };
        for vip in ["198.51.100.10", "203.0.113.9", "192.168.1.80"] {
            assert_eq!(told(&with(vip)), [], "{vip}");
        }
        let told = told(&with("198.51.100.80"));
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].0, 30, "{told:?}");
        assert!(told[0].1.starts_with("198.51.100.80 is in the network of"));
    }

    #[test]
    fn a_translation_without_a_router_is_told() {
        let text = "[service]\nchain = [\"napt\"]\nunparsed = \"forward\"\ninside_ports = [\"a\"]\n[ports]\na = { device = \"e0\" }\nb = { device = \"e1\" }\n[napt]\ninside = [\"10.0.0.0/8\"]\nexternal = [\"192.0.2.1\"]\n";
        let all = told(text);
        assert_eq!((all.len(), all[0].0), (1, 8), "{all:?}");
        assert!(all[0].1.starts_with("no router is behind napt"), "{all:?}");
        let replayed = text.replace(
            "inside_ports = [\"a\"]\n[ports]\na = { device = \"e0\" }\nb = { device = \"e1\" }\n",
            "",
        );
        assert_eq!(told(&replayed), []);
    }

    #[test]
    fn a_bump_in_the_wire_that_drops_arp_is_told() {
        let text = |entrance: &str, inside: &str| {
            format!(
                "[service]\nchain = [\"monitor\"]\n{entrance}[ports]\na = {{ device = \"e0\"{inside} }}\nb = {{ device = \"e1\" }}\n"
            )
        };
        for (entrance, line) in [("", 1), ("unparsed = \"drop\"\n", 3)] {
            let told = told(&text(entrance, ""));
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].0, line, "{told:?}");
            assert!(told[0].1.contains("expected unparsed = \"forward\""));
        }
        for entrance in [
            "unparsed = \"forward\"\n",
            "forward_ether_types = [\"arp\"]\n",
        ] {
            assert_eq!(told(&text(entrance, "")), []);
        }
        assert_eq!(told(&text("", ", addresses = [\"10.0.0.1/24\"]")), []);
    }

    #[test]
    fn what_nobody_on_the_cable_answers_or_is_told_is_told_here() {
        assert_eq!(told(SOUND), []);
        for (from, to, line, expected) in [
            (
                "198.51.100.8/31",
                "198.51.100.6/31",
                10,
                "198.51.100.6 is in the network",
            ),
            (
                "198.51.100.11\"",
                "198.51.100.12\"",
                13,
                "198.51.100.12 is in the network",
            ),
            (
                "198.51.100.11\"",
                "198.51.100.9\"",
                13,
                "one of the external addresses of napt, too",
            ),
            (
                "198.51.100.1\"",
                "198.51.101.1\"",
                19,
                "expected an address of 198.51.100.0/24",
            ),
            ("fe80::1", "2001:db8:2::1", 20, "is in no network of lan"),
            (
                "\"0.0.0.0/0\", via = \"up\"",
                "\"0.0.0.0/0\", via = \"far\"",
                24,
                "IPv4",
            ),
            // Found by an attacker: none of these was told.
            (
                "port = \"wan\", address",
                "port = \"lan\", address",
                19,
                "198.51.100.1 is in the network of wan, and not of lan, so nobody",
            ),
            (
                "address = \"198.51.100.2\"",
                "address = \"198.51.100.22\"",
                15,
                "198.51.100.22 is in the network of wan, and no port has it",
            ),
            (
                "device = \"e1\"",
                "device = \"lo\"",
                6,
                "lo is the loopback",
            ),
            (
                "address6 = \"2001:db8:1::1\"\n",
                "",
                7,
                "no address6 to tell them from",
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
