//! What does not go together with the addresses that this host's kernel has, and with its interfaces.

use super::cables::{addresses, outside, unanswered, vips};
use super::{Found, translations};
use crate::service::kernel::follows_kernel;
use crate::service::{Fault, Instance, PortDevice, PortDriver, Service};
use std::fmt::{self, Display, Formatter};
use twinpath_classify::Prefix;
use twinpath_core::wire::Address;
use twinpath_nf::router;

/// An address that this host's kernel has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// The name of its interface.
    pub device: String,
    /// The address.
    pub address: Address,
    /// How many leading bits its network has.
    pub prefix_bits: u8,
}

/// An interface that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostInterface {
    /// What a port's `device` calls it.
    pub device: String,
    /// What the kernel calls it, which may be another of its names.
    pub name: String,
    /// The longest packet that it carries, in bytes.
    pub mtu: usize,
    /// Whether a program has made it (`driver = "tap"`).
    pub is_tap: bool,
    /// Why it can be no port, if it cannot.
    pub refusal: Option<String>,
    /// The versions of IP (`ipv4`, `ipv6`) of which the kernel forwards what it receives, and is not for the host.
    pub forwards: Vec<&'static str>,
    /// Whether the kernel takes routes of IPv6 from whoever advertises them there.
    pub takes_advertisements: bool,
}

/// The host that a service is to run on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The addresses that its kernel has.
    pub addresses: Vec<HostAddress>,
    /// The interfaces of ports, as far as they are there.
    pub interfaces: Vec<HostInterface>,
}

impl Host {
    fn interface(&self, port: &PortDevice) -> Option<&HostInterface> {
        let mut there = self.interfaces.iter();
        there.find(|one| one.device == port.device)
    }

    /// The addresses at a port, whatever name of its interface the file has.
    fn addresses_at<'a>(&'a self, port: &'a PortDevice) -> impl Iterator<Item = &'a HostAddress> {
        let name = self.interface(port).map_or(&port.device, |one| &one.name);
        self.addresses.iter().filter(move |one| one.device == *name)
    }
}

impl HostAddress {
    /// Its network.
    pub fn network(&self) -> Prefix {
        Prefix::covering(self.address, self.prefix_bits)
    }

    /// Whether every interface has one such for its link alone (`fe80::/10`).
    pub fn is_of_link(&self) -> bool {
        self.address.word(0) >> 22 == 0xfe80 >> 6
    }
}

impl Display for HostAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

/// What is to be told of a service that is to run on a host, in the order of the file.
pub fn host_warnings(service: &Service, host: &Host) -> Vec<Fault> {
    let mut found = Found(Vec::new());
    let addresses = host.addresses.iter().filter(|one| !one.is_of_link());
    let host = Host {
        addresses: addresses.cloned().collect(),
        interfaces: host.interfaces.clone(),
    };
    match service.chain.iter().any(|one| follows_kernel(&one)) {
        true => found.beside_kernel(service, &host),
        false => found.cut_off(service, &host),
    }
    found.passed_by(service, &host);
    found.swapped_sides(service, |device| kernels_networks(device, &host));
    found.unfit(service, &host);
    found.placed(service)
}

impl Found {
    /// Interfaces whose packets for the host it does not get: with AF_PACKET said it has a copy, and a
    /// tap's addresses are those of its other end.
    fn cut_off(&mut self, service: &Service, host: &Host) {
        let mut functions = service.chain.iter();
        let has_router = functions.any(|one| one.config.of::<router::Config>().is_some());
        for (port, device) in service.ports.iter().zip(&service.devices) {
            let is_copied = matches!(device.driver, PortDriver::AfPacket | PortDriver::Tap);
            let lost = lost(device, host);
            if is_copied || lost.is_empty() {
                continue;
            }
            let (name, lost) = (&device.device, lost.join(", "));
            let joined = match has_router {
                true => "",
                false => ", and the networks at all ports become one",
            };
            let message = format!(
                "{name} has {lost} of this host, and nothing in the chain gives packets for it to the host: it is cut off while the service runs{joined}; expected a router with routes = \"kernel\" at the end of the chain, or an interface without addresses"
            );
            self.add(["ports", port, "device"], message);
        }
    }

    /// Interfaces of which the kernel forwards by itself, whatever the driver, while no service has them.
    fn passed_by(&mut self, service: &Service, host: &Host) {
        if service.chain.iter().all(passes_all) {
            return;
        }
        for (port, device) in service.ports.iter().zip(&service.devices) {
            let interface = host.interface(device);
            let interface = interface.filter(|_| device.driver != PortDriver::Tap);
            let Some(HostInterface { name, forwards, .. }) =
                interface.filter(|one| !one.forwards.is_empty())
            else {
                continue;
            };
            let setting = |version| format!("net.{version}.conf.{name}.forwarding");
            let settings: Vec<_> = forwards.iter().map(setting).collect();
            let settings = settings.join(" and ");
            let when = match device.driver {
                PortDriver::AfPacket => {
                    "while it runs, for it sees them all, and while it does not"
                }
                _ => "whenever it does not run, as before it starts and after it was killed",
            };
            let message = format!(
                "the kernel forwards packets of {name} past this service {when}; expected {settings} = 0 (sysctl), or a rule of nftables that drops what the kernel would forward"
            );
            self.add(["ports", port, "device"], message);
        }
    }

    /// Interfaces that can be no ports, or not as they are meant to be.
    fn unfit(&mut self, service: &Service, host: &Host) {
        for (port, device) in service.ports.iter().zip(&service.devices) {
            let Some(interface) = host.interface(device) else {
                continue;
            };
            let (name, mtu) = (&device.device, interface.mtu);
            match &interface.refusal {
                _ if device.driver == PortDriver::Tap => {
                    if !interface.is_tap {
                        let message = format!(
                            "{name} is there and is no tap, so the service cannot make it: expected another name, or another driver"
                        );
                        self.add(["ports", port, "device"], message);
                    }
                    continue;
                }
                Some(why) => self.add(["ports", port, "device"], why.clone()),
                None => {}
            }
            if let Some(most) = device.mtu.filter(|most| usize::from(*most) > mtu) {
                let message = format!(
                    "{name} carries packets of {mtu} bytes at most, whatever is written here: expected {mtu} at most, or an interface that carries {most} (ip link set {name} mtu {most})"
                );
                self.add(["ports", port, "mtu"], message);
            }
        }
    }

    /// Interfaces where whoever is on the cable may give the kernel routes, which the service then follows.
    fn advertised(&mut self, service: &Service, host: &Host) {
        for (port, device) in service.ports.iter().zip(&service.devices) {
            let interface = host.interface(device);
            let interface = interface.filter(|_| device.driver != PortDriver::Tap);
            if let Some(HostInterface { name, .. }) =
                interface.filter(|one| one.takes_advertisements)
            {
                let message = format!(
                    "the kernel takes routes of IPv6 from any host that advertises them at {name}, also the one to everywhere else, and packets go where that host says: expected net.ipv6.conf.{name}.accept_ra = 0 (sysctl), and routes from who is trusted"
                );
                self.add(["ports", port, "device"], message);
            }
        }
    }

    /// Beside the kernel's routes packets for the host are the host's, but for those in `answers_for`.
    fn beside_kernel(&mut self, service: &Service, host: &Host) {
        self.advertised(service, host);
        let networks = |device: &PortDevice| kernels_networks(device, host);
        for (name, translation) in translations(service) {
            let is_external = |one: &&HostAddress| {
                let mut external = translation.external.iter();
                external.any(|prefix| prefix.includes(one.address))
            };
            for own in host.addresses.iter().filter(is_external) {
                let what = format!("{} in external of {name}", own.address);
                self.add([name, "external"], is_hosts(service, own, &what));
            }
            let all = translation.external.iter().flat_map(addresses);
            let is_hosts = |address| host.addresses.iter().any(|one| one.address == address);
            let all = all.filter(|address| !is_hosts(*address));
            self.unanswered_at(&[name, "external"], unanswered(service, all, networks));
        }
        for vip in vips(service) {
            let address = vip.at.address;
            match host.addresses.iter().find(|own| own.address == address) {
                Some(own) => {
                    let what = format!("{} of {}", vip.at, vip.instance);
                    self.add(vip.keys(), is_hosts(service, own, &what));
                }
                None => self.unanswered_at(&vip.keys(), unanswered(service, [address], networks)),
            }
        }
    }
}

/// Whether a function changes nothing of which packets pass, and of what is in them: the kernel in its place does
/// no harm.
fn passes_all(function: &Instance) -> bool {
    const PASSING: [&str; 4] = ["monitor", "reassembler", "router", "telemetry"];
    PASSING.contains(&function.config.descriptor().name)
}

/// The addresses of an interface that neither the file gives its port nor the host gets packets for.
fn lost(device: &PortDevice, host: &Host) -> Vec<String> {
    let is_ports = |one: &HostAddress| {
        let mut own = device.addresses.iter();
        own.any(|own| own.0.address == one.address)
    };
    let lost = host.addresses_at(device).filter(|one| !is_ports(one));
    lost.map(|one| one.address.to_string()).collect()
}

/// The networks that a port has because the kernel has them on its interface.
fn kernels_networks(device: &PortDevice, host: &Host) -> Vec<Prefix> {
    if !device.addresses.is_empty() || device.driver == PortDriver::Tap {
        return Vec::new();
    }
    host.addresses_at(device)
        .map(HostAddress::network)
        .collect()
}

/// Why what a function takes to be its own should not be an address of the host.
fn is_hosts(service: &Service, own: &HostAddress, what: &str) -> String {
    let device = &own.device;
    let mut answered = service.devices.iter().flat_map(|one| &one.answers_for);
    match answered.any(|one| one.0.includes(own.address)) {
        true => format!(
            "{what} is an address of this host on {device}, too: with answers_for all packets to it are the chain's, so the host gets no answers there, and with driver = \"af_packet\" it refuses what is the chain's; expected an address of its own"
        ),
        false => format!(
            "{what} is an address of this host on {device}: packets to it go to the host, and not to the chain; expected an address of its own, in answers_for of {} in [ports]",
            outside_names(service)
        ),
    }
}

/// The names of the ports outside.
fn outside_names(service: &Service) -> String {
    let all: Vec<_> = outside(service).map(|one| &one.device).collect();
    let named = service.ports.iter().zip(&service.devices);
    let named = named.filter(|(_, one)| all.contains(&&one.device));
    let names: Vec<_> = named.map(|(name, _)| name.as_str()).collect();
    names.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn host() -> Host {
        let address = |device: &str, text: &str, prefix_bits| HostAddress {
            device: device.into(),
            address: text.parse().expect(text),
            prefix_bits,
        };
        let addresses = vec![
            address("lo", "127.0.0.1", 8),
            address("e1", "192.168.1.1", 24),
            address("e0", "198.51.100.2", 24),
            address("e0", "fe80::2", 64),
            address("lo", "203.0.113.9", 32),
        ];
        let interface = |name: &str| HostInterface {
            device: name.into(),
            name: name.into(),
            mtu: 1500,
            ..HostInterface::default()
        };
        let interfaces = ["e0", "e1"].map(interface).to_vec();
        Host {
            addresses,
            interfaces,
        }
    }

    /// A host whose interface `e0` is another.
    fn host_with(change: impl Fn(&mut HostInterface)) -> Host {
        let mut host = host();
        change(&mut host.interfaces[0]);
        host
    }

    /// Lines and messages.
    fn told(text: &str) -> Vec<(usize, String)> {
        told_on(&host(), text)
    }

    fn told_on(host: &Host, text: &str) -> Vec<(usize, String)> {
        let service = Service::parse(text, Path::new("test.toml"));
        let service = service.unwrap_or_else(|error| panic!("{error}"));
        let all = host_warnings(&service, host).into_iter();
        all.map(|warning| (warning.place.line, warning.message))
            .collect()
    }

    const BUMP: &str = "[service]\nchain = [\"monitor\"]\nunparsed = \"forward\"\n[ports]\n\
        lan = { device = \"e1\" }\nwan = { device = \"e0\", driver = \"auto\" }\n";

    #[test]
    fn a_host_that_is_cut_off_is_told_at_each_port() {
        let told_of_bump = told(BUMP);
        let expected = "e0 has 198.51.100.2 of this host, and nothing in the chain gives packets for it to the host: it is cut off while the service runs, and the networks at all ports become one;";
        assert_eq!(told_of_bump.len(), 2, "{told_of_bump:#?}");
        assert_eq!((told_of_bump[0].0, told_of_bump[1].0), (5, 6));
        assert!(told_of_bump[1].1.starts_with(expected), "{told_of_bump:#?}");
        let routed = BUMP.replace("monitor", "router")
            + "[router]\nnext_hops = [{ name = \"a\", port = \"wan\" }]\nroutes = [{ to = \"0.0.0.0/0\", via = \"a\" }]\n";
        let told_of_routed = told(&routed);
        assert_eq!(told_of_routed.len(), 2, "{told_of_routed:#?}");
        assert!(!told_of_routed[0].1.contains("become one"));
    }

    #[test]
    fn a_host_that_gets_its_packets_is_not_told_of() {
        let elsewhere = BUMP.replace("\"e1\"", "\"e7\"").replace("\"e0\"", "\"e8\"");
        let copied = BUMP
            .replace("\"e1\"", "\"e1\", driver = \"af_packet\"")
            .replace("auto", "af_packet");
        let kernels = BUMP.replace("monitor", "router") + "[router]\nroutes = \"kernel\"\n";
        let ports = BUMP
            .replace("\"e1\"", "\"e1\", addresses = [\"192.168.1.1/24\"]")
            .replace("auto\"", "auto\", addresses = [\"198.51.100.2/24\"]");
        for text in [elsewhere, copied, kernels, ports] {
            assert_eq!(told(&text), [], "{text}");
        }
    }

    /// Found by a reader: nobody said that the kernel forwards what a firewall is there to drop, once that is killed.
    #[test]
    fn a_kernel_that_forwards_while_the_service_is_away_is_told() {
        let forwarding = host_with(|e0| e0.forwards = vec!["ipv4"]);
        let guarded = BUMP.replace("monitor", "firewall\", \"router")
            + "[firewall]\ndefault = \"deny\"\n[router]\nroutes = \"kernel\"\n";
        for driver in ["auto", "af_packet", "af_xdp"] {
            let text = guarded.replace("auto", driver);
            let told = told_on(&forwarding, &text);
            assert_eq!(told.len(), 1, "{driver}: {told:#?}");
            let when = match driver {
                "af_packet" => "while it runs",
                _ => "whenever it does not run",
            };
            let expected = format!("the kernel forwards packets of e0 past this service {when}");
            assert!(told[0].1.starts_with(&expected), "{told:#?}");
            assert!(
                told[0]
                    .1
                    .contains("expected net.ipv4.conf.e0.forwarding = 0 (sysctl)")
            );
            assert_eq!(told[0].0, 6);
        }
        assert_eq!(told(&guarded), []);
        // Found by an attacker: without addresses there it forwards all the same.
        let bare = Host {
            addresses: Vec::new(),
            ..forwarding.clone()
        };
        assert_eq!(told_on(&bare, &guarded).len(), 1);
        let passing =
            BUMP.replace("monitor", "monitor\", \"router") + "[router]\nroutes = \"kernel\"\n";
        assert_eq!(told_on(&forwarding, &passing), []);
    }

    /// Found by an attacker: one advertisement of a host took the route to everywhere, and nobody had warned.
    #[test]
    fn routes_that_any_host_may_advertise_are_told() {
        let host = host_with(|e0| e0.takes_advertisements = true);
        let kernels = BUMP.replace("monitor", "router") + "[router]\nroutes = \"kernel\"\n";
        let told_of_kernels = told_on(&host, &kernels);
        assert_eq!(told_of_kernels.len(), 1, "{told_of_kernels:#?}");
        let (line, message) = &told_of_kernels[0];
        let expected = "expected net.ipv6.conf.e0.accept_ra = 0 (sysctl)";
        assert!(*line == 6 && message.contains(expected), "{message}");
        assert_eq!(told(&kernels), []);
        let told_of_bump = told_on(&host, BUMP);
        assert!(
            told_of_bump
                .iter()
                .all(|(_, what)| !what.contains("accept_ra"))
        );
    }

    #[test]
    fn interfaces_that_do_not_fit_are_told() {
        type Change = fn(&mut HostInterface);
        let kernels = BUMP.replace("monitor", "router") + "[router]\nroutes = \"kernel\"\n";
        let longer = kernels.replace("\"auto\"", "\"auto\", mtu = 1501");
        let fitting = kernels.replace("\"auto\"", "\"auto\", mtu = 1500");
        let tap = kernels.replace("auto", "tap");
        let refused: Change = |e0| e0.refusal = Some("e0 belongs to another".into());
        for (text, change, expected) in [
            (&kernels, refused, "e0 belongs to another"),
            (&longer, |_| {}, "e0 carries packets of 1500 bytes at most"),
            (&fitting, |_| {}, ""),
            (&tap, refused, "e0 is there and is no tap"),
            (&tap, |e0| e0.is_tap = true, ""),
        ] {
            let told = told_on(&host_with(change), text);
            assert_eq!(told.len(), usize::from(!expected.is_empty()), "{told:#?}");
            let is_expected =
                |(line, what): &(usize, String)| *line == 6 && what.starts_with(expected);
            assert!(told.iter().all(is_expected), "{told:#?}");
        }
    }

    /// Found by an attacker: what the kernel calls otherwise was not known for its interface.
    #[test]
    fn an_interface_has_its_addresses_by_any_name() {
        let host = host_with(|e0| e0.device = "altname".into());
        let told = told_on(&host, &BUMP.replace("\"e0\"", "\"altname\""));
        assert_eq!(told.len(), 2, "{told:#?}");
        assert!(
            told[1]
                .1
                .starts_with("altname has 198.51.100.2 of this host")
        );
    }

    const GATEWAY: &str = r#"[service]
chain = ["load_balancer", "napt", "router"]
inside_ports = ["lan"]
[ports]
lan = { device = "e1" }
wan = { device = "e0", answers_for = ["198.51.100.7", "198.51.100.80"] }
[load_balancer]
per_host_connections = 100
[[load_balancer.services]]
vip = "198.51.100.80:80"
protocol = "tcp"
backends = [{ endpoint = "192.168.1.21:80" }]
[napt]
inside = ["192.168.1.0/24"]
external = ["198.51.100.7"]
forward = [{ protocol = "tcp", external = "198.51.100.7:8080", to = "192.168.1.21:80" }]
[router]
routes = "kernel"
"#;

    /// By what the kernel has at the interfaces, where the file gives ports no addresses.
    #[test]
    fn ports_on_the_wrong_side_are_told() {
        let swapped = GATEWAY.replace("inside_ports = [\"lan\"]", "inside_ports = [\"wan\"]");
        let told = told(&swapped);
        let expected =
            "192.168.1.0/24 at port lan is of the networks inside, and lan is not in inside_ports";
        let mut sides = told.iter().filter(|(line, _)| *line == 3);
        assert!(
            sides.any(|(_, message)| message.starts_with(expected)),
            "{told:#?}"
        );
    }

    #[test]
    fn addresses_of_the_host_and_those_that_nobody_answers_for_are_told() {
        assert_eq!(told(GATEWAY), []);
        for (from, to, line, expected) in [
            (
                "external = [\"198.51.100.7\"]",
                "external = [\"198.51.100.2\"]",
                15,
                "198.51.100.2 in external of napt is an address of this host on e0: packets to it go to the host, and not to the chain; expected an address of its own, in answers_for of wan in [ports]",
            ),
            (
                "198.51.100.7:8080",
                "203.0.113.9:8080",
                15,
                "203.0.113.9 in external of napt is an address of this host on lo: ",
            ),
            (
                "\"198.51.100.80:80",
                "\"198.51.100.2:80",
                10,
                "198.51.100.2:80 of load_balancer is an address of this host on e0: ",
            ),
            (
                "external = [\"198.51.100.7\"]",
                "external = [\"198.51.100.8\"]",
                15,
                "198.51.100.8 is in the network of a port that does not answer for it",
            ),
            (
                "\"198.51.100.80:80",
                "\"198.51.100.81:80",
                10,
                "198.51.100.81 is in the network of a port that does not answer for it",
            ),
        ] {
            assert!(GATEWAY.contains(from), "{from}");
            let told = told(&GATEWAY.replace(from, to));
            let is_expected =
                |(at, message): &(usize, String)| *at == line && message.starts_with(expected);
            assert!(told.len() == 1 && is_expected(&told[0]), "{to}: {told:#?}");
        }
        let taken = GATEWAY.replace("198.51.100.7", "198.51.100.2");
        let told = told(&taken);
        assert!(told.len() == 1 && told[0].1.contains(", too: with answers_for all packets"));
    }
}
