//! `[ports]`: the network interfaces that a service's ports are.
//!
//! ```toml
//! [ports]
//! inside  = { device = "eth1" }
//! outside = { device = "eth0", driver = "af_packet", addresses = ["198.51.100.2/24"] }
//! ```
//! A port with addresses answers for them, and asks for its neighbours' MAC addresses (ARP, RFC 826;
//! neighbour discovery, RFC 4861); one without takes no part in that.
//! A service file without it gets its packets from a capture or a generator, and so does one with it
//! when a command line says so.

use super::faults::Faults;
use super::port_address::PortAddress;
use super::{Misplaced, ports};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use toml::Spanned;
use twinpath_classify::Prefix;
use twinpath_core::wire::Address;
use twinpath_nf::text::Text;

/// Longest name of an interface in Linux.
const MAX_DEVICE: usize = 15;

/// What every link carries that has IPv6 (RFC 8200 §5).
const MIN_MTU: u16 = 1280;

/// What lies beneath a port.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PortDriver {
    /// AF_XDP for a network card, AF_PACKET for a virtual interface and where AF_XDP is not to be had. With
    /// either the kernel's network stack does not see what is the node's; with AF_PACKET that takes Linux
    /// 6.6, and it sees frames with VLAN tags.
    #[default]
    Auto,
    /// AF_XDP on all queues: the kernel's network stack does not see what arrives.
    AfXdp,
    /// AF_PACKET: any interface, beside all else that uses it. The kernel gets a copy of all that arrives,
    /// which costs time for each packet.
    AfPacket,
    /// A new interface for programs on this host, made when the service starts.
    Tap,
}

/// The network interface that a port is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortDevice {
    /// Its name in Linux.
    #[schemars(length(min = 1, max = MAX_DEVICE))]
    pub device: String,
    /// How packets are exchanged with it.
    #[serde(default)]
    pub driver: PortDriver,
    /// The node's own addresses there. They are the node's alone: the kernel has none on the
    /// interface. Where a router has `routes = "kernel"`, a port without them has those that the
    /// kernel has on the interface.
    #[serde(default)]
    #[schemars(with = "Vec<PortAddress>")]
    pub addresses: Vec<Text<PortAddress>>,
    /// More addresses that the node answers questions about: those that a translation gives out, and
    /// services. None of them is an address of the host's kernel. The port needs an address to answer
    /// from, its own or the kernel's.
    #[serde(default)]
    pub answers_for: Vec<Text<Prefix>>,
    /// The longest IP packet that leaves there in bytes, for a router in the chain: longer ones are
    /// fragmented, or their senders told (RFC 1812 §4.2.2.7). That of the interface if it is shorter,
    /// or without this; in a replay without it packets may be of any length.
    #[serde(default)]
    #[schemars(range(min = MIN_MTU))]
    pub mtu: Option<u16>,
}

/// `[ports]` as it is written.
pub(super) type Written = BTreeMap<Spanned<String>, Spanned<PortDevice>>;

/// Names and interfaces of ports, by number: in the order of `ports` in `[service]`, else in that of
/// the file. Nothing if any is wrong.
pub(super) fn checked(
    names: Option<Spanned<ports::Names>>,
    devices: Option<Spanned<Written>>,
    faults: &mut Faults,
) -> Option<(Vec<String>, Vec<PortDevice>)> {
    let Some(devices) = devices else {
        return Some((faults.take(ports::checked(names))?, Vec::new()));
    };
    let span = devices.span();
    let mut devices: Vec<_> = devices.into_inner().into_iter().collect();
    devices.sort_by_key(|(name, _)| name.span().start);
    let own_names = || devices.iter().map(|(name, _)| name.clone()).collect();
    let names = names.unwrap_or_else(|| Spanned::new(span.clone(), own_names()));
    let names = faults.take(ports::checked(Some(names)))?;
    let before = faults.len();
    let missing = names
        .iter()
        .find(|name| !devices.iter().any(|(key, _)| key.get_ref() == *name));
    if let Some(name) = missing {
        let message =
            format!("no interface for the port {name}: expected {name} = {{ device = \"...\" }}");
        faults.push((span, message));
    } else {
        let strangers = devices
            .iter()
            .filter(|(key, _)| !names.contains(key.get_ref()));
        strangers.for_each(|(key, _)| faults.push(of_no_port(key, &names)));
    }
    let place = |name: &str| names.iter().position(|known| known == name);
    devices.retain(|(key, _)| place(key.get_ref()).is_some());
    devices.sort_by_key(|(key, _)| place(key.get_ref()));
    let mut ordered = Vec::new();
    for (_, device) in devices {
        ordered.extend(faults.take(checked_device(device, &ordered)));
    }
    (faults.len() == before).then_some((names, ordered))
}

fn of_no_port(key: &Spanned<String>, names: &[String]) -> Misplaced {
    let message = format!(
        "{} is not among the ports of [service]: expected one of {}",
        key.get_ref(),
        names.join(", ")
    );
    (key.span(), message)
}

fn checked_device(
    written: Spanned<PortDevice>,
    before: &[PortDevice],
) -> Result<PortDevice, Misplaced> {
    let (span, device) = (written.span(), written.into_inner());
    let name = &device.device;
    if let Err(message) = check_device(name) {
        return Err((span, message));
    }
    if let Some(mtu) = device.mtu.filter(|mtu| *mtu < MIN_MTU) {
        let message = format!("mtu = {mtu}: expected {MIN_MTU} to {}", u16::MAX);
        return Err((span, message));
    }
    if let Some(twice) = address_twice(&device, before) {
        let message = format!(
            "{twice} is an address of another port already, or twice of this one: expected each once"
        );
        return Err((span, message));
    }
    match before.iter().any(|other| other.device == *name) {
        true => Err((
            span,
            format!("{name} is another port already: expected an interface for each"),
        )),
        false => Ok(device),
    }
}

/// Refuses what no interface is called.
pub(super) fn check_device(name: &str) -> Result<(), String> {
    match may_be_interface(name) {
        true => Ok(()),
        false => Err(format!(
            "device {name:?}: expected the name of a network interface, 1 to {MAX_DEVICE} characters without / and :"
        )),
    }
}

/// Whether Linux would let an interface be called so.
fn may_be_interface(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"/:".contains(&byte);
    !matches!(name, "" | "." | "..") && name.len() <= MAX_DEVICE && name.bytes().all(is_plain)
}

/// The addresses that ports have.
pub(super) fn addresses(devices: &[PortDevice]) -> Vec<Address> {
    let addresses = devices.iter().flat_map(|device| &device.addresses);
    addresses.map(|Text(one)| one.address).collect()
}

/// The networks that ports have addresses of.
pub(super) fn networks(devices: &[PortDevice]) -> Vec<Prefix> {
    let addresses = devices.iter().flat_map(|device| &device.addresses);
    let network = |Text(one): &Text<PortAddress>| Prefix::covering(one.address, one.prefix_bits);
    addresses.map(network).collect()
}

/// An address of a port that it has twice, or that one before it has; each link may have the same
/// address of links (`fe80::/10`).
fn address_twice(device: &PortDevice, before: &[PortDevice]) -> Option<Address> {
    let address = |one: &Text<PortAddress>| one.0.address;
    let is_of_link = |address: &Address| address.word(0) >> 22 == 0xfe80 >> 6;
    let others = before.iter().flat_map(|other| &other.addresses);
    let others = others.map(address).filter(|other| !is_of_link(other));
    let mut known: HashSet<Address> = others.collect();
    let mut own = device.addresses.iter().map(address);
    own.find(|address| !known.insert(*address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_have_names_that_linux_lets_them_have() {
        for name in ["eth0", "enp3s0f1", "br-0.12", "..."] {
            assert!(may_be_interface(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "eth0:1", "a b", "sixteen-letters-"] {
            assert!(!may_be_interface(name), "{name}");
        }
    }
}
