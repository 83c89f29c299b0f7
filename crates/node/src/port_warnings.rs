//! What is probably not meant so of the interfaces that a run begins with, in words.

use twinpath_control::service::PortDevice;
use twinpath_core::wire::Address;
use twinpath_ports::{KernelAddress, Port, State, kernel_forwards};

/// What is known of an interface and of the kernel there.
#[derive(Clone, Debug)]
pub struct Opened<'a> {
    /// The port's name in the service.
    pub name: &'a str,
    /// The interface.
    pub device: &'a str,
    /// Whether the kernel gets a copy of what is the node's.
    pub is_seen_by_kernel: bool,
    /// Why that is so, where it was not configured.
    pub why_seen: Option<&'a str>,
    /// Whether packets come and go.
    pub is_up: bool,
    /// Why it is not by AF_XDP, where that was to be had for a card.
    pub fallback: Option<&'a str>,
    /// Whether VLAN tags are lost that the interface hands over beside frames.
    pub may_lose_tags: bool,
    /// The addresses that the port has in the service.
    pub addresses: Vec<Address>,
}

impl<'a> Opened<'a> {
    /// What is known of a port, which the service describes if it is not one to memory servers.
    pub fn of(name: &'a str, port: &'a Port, written: Option<&PortDevice>) -> Self {
        let addresses = written.map_or(&[][..], |one| &one.addresses);
        Self {
            name,
            device: &port.interface().name,
            is_seen_by_kernel: port.is_seen_by_kernel(),
            why_seen: port.why_seen_by_kernel(),
            is_up: port.state() == State::Up,
            fallback: port.fallback(),
            may_lose_tags: port.may_lose_tags(),
            addresses: addresses.iter().map(|one| one.0.address).collect(),
        }
    }
}

/// All of it. `kernel` are the kernel's addresses.
pub fn warnings(ports: &[Opened<'_>], kernel: &[KernelAddress]) -> Vec<String> {
    let of_port = |port: &Opened<'_>| {
        let claimed = claimed_twice(port, kernel);
        let forwarded = forwarded(port);
        let how = fallback(port).into_iter().chain(seen(port));
        let how = how.chain(without_tags(port));
        let all = down(port)
            .into_iter()
            .chain(how)
            .chain(claimed)
            .chain(forwarded);
        all.collect::<Vec<_>>()
    };
    ports.iter().flat_map(of_port).collect()
}

fn down(port: &Opened<'_>) -> Option<String> {
    let Opened { name, device, .. } = port;
    (!port.is_up).then(|| {
        format!(
            "the port {name} ({device}) is down, so nothing comes and leaves there until it is up: expected an interface that is up (ip link set {device} up) and has a carrier"
        )
    })
}

fn fallback(port: &Opened<'_>) -> Option<String> {
    let Opened { name, device, .. } = port;
    port.fallback.map(|why| {
        format!(
            "the port {name} ({device}) is by AF_PACKET, for AF_XDP is not to be had: {why}; with driver = \"af_packet\" nothing is tried"
        )
    })
}

fn seen(port: &Opened<'_>) -> Option<String> {
    let Opened { name, device, .. } = port;
    port.why_seen.map(|why| {
        format!(
            "the kernel gets a copy of all that arrives at the port {name} ({device}), which costs time for each packet, for it cannot be kept from it: {why}; expected Linux 6.6 and CAP_BPF, or driver = \"af_packet\", with which that is so anyway"
        )
    })
}

fn without_tags(port: &Opened<'_>) -> Option<String> {
    let Opened { name, device, .. } = port;
    port.may_lose_tags.then(|| {
        format!(
            "the port {name} ({device}) may lose VLAN tags: what the interface takes off frames and keeps beside them, as of a VLAN interface at the far end, AF_XDP does not get there; expected driver = \"af_packet\" where tagged packets pass"
        )
    })
}

/// Addresses that are to be the port's alone, and the kernel has, too.
fn claimed_twice(port: &Opened<'_>, kernel: &[KernelAddress]) -> Vec<String> {
    let Opened { name, .. } = port;
    let is_claimed = |one: &&KernelAddress| port.addresses.contains(&one.address.into());
    let told = kernel.iter().filter(is_claimed).map(|one| {
        let KernelAddress {
            device, address, ..
        } = one;
        format!(
            "{address} is the port {name}'s, and the kernel has it on {device}, too, so both answer for it: expected an address that the kernel does not have (ip address del {address} dev {device}, with its prefix)"
        )
    });
    told.collect()
}

/// IP versions of which the kernel forwards what it sees of the port, with addresses there or without: each
/// packet would arrive twice, once as if there were no service.
fn forwarded(port: &Opened<'_>) -> Vec<String> {
    let device = port.device;
    if !port.is_seen_by_kernel {
        return Vec::new();
    }
    let is_it = |version: &&str| kernel_forwards(device, version);
    let versions = ["ipv4", "ipv6"];
    let told = versions.iter().copied().filter(is_it).map(|version| {
        format!(
            "the kernel forwards packets of {device}, too, so each arrives twice, and once past this service: expected net.{version}.conf.{device}.forwarding = 0 (sysctl), or a rule of nftables that drops what it would forward; with driver = \"auto\" (from Linux 6.6 on) or \"af_xdp\" it does not see them"
        )
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(is_up: bool, addresses: &[&str]) -> Opened<'static> {
        let address = |text: &&str| text.parse().expect("an address");
        Opened {
            name: "wan",
            device: "eth0",
            is_seen_by_kernel: false,
            why_seen: None,
            is_up,
            fallback: None,
            may_lose_tags: false,
            addresses: addresses.iter().map(address).collect(),
        }
    }

    fn kernel(device: &str, address: &str) -> KernelAddress {
        KernelAddress {
            device: device.into(),
            address: address.parse().expect("an address"),
            prefix_bits: 24,
        }
    }

    #[test]
    fn a_port_that_is_down_is_named_with_its_interface() {
        let told = warnings(&[port(false, &[])], &[]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("the port wan (eth0) is down"),
            "{told:?}"
        );
        assert!(warnings(&[port(true, &[])], &[]).is_empty());
    }

    #[test]
    fn what_a_driver_cannot_is_told_with_what_it_means() {
        let lacking = Opened {
            fallback: Some("an MTU of 9000"),
            why_seen: Some("Invalid argument"),
            may_lose_tags: true,
            ..port(true, &[])
        };
        let told = warnings(&[lacking], &[]);
        assert_eq!(told.len(), 3, "{told:?}");
        let by =
            "the port wan (eth0) is by AF_PACKET, for AF_XDP is not to be had: an MTU of 9000;";
        assert!(told[0].starts_with(by), "{told:?}");
        let seen = "the kernel gets a copy of all that arrives at the port wan (eth0)";
        assert!(told[1].starts_with(seen) && told[1].contains("Invalid argument;"));
        assert!(
            told[2].starts_with("the port wan (eth0) may lose VLAN tags"),
            "{told:?}"
        );
    }

    #[test]
    fn addresses_that_the_kernel_has_too_are_told() {
        let kernel = [kernel("eth7", "192.0.2.1"), kernel("eth0", "2001:db8::1")];
        let ports = [port(true, &["192.0.2.1", "2001:db8::2"])];
        let told = warnings(&ports, &kernel);
        assert_eq!(told.len(), 1, "{told:?}");
        let expected = "192.0.2.1 is the port wan's, and the kernel has it on eth7, too";
        assert!(told[0].starts_with(expected), "{told:?}");
    }
}
