//! What a node's ports are called on their cables.

use twinpath_core::wire::{Address, MacAddress, neighbor};

/// An address of the node's own, with its network.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// The address.
    pub address: Address,
    /// How many leading bits its network has: of 32 or of 128.
    pub prefix_bits: u8,
}

impl OwnAddress {
    /// Whether an address is in the same network.
    pub fn is_on_link(&self, address: Address) -> bool {
        let v4 = self.address.is_v4();
        if v4 != address.is_v4() {
            return false;
        }
        let host_bits = (if v4 { 32 } else { 128 }) - u32::from(self.prefix_bits);
        let differs = self.address.0 ^ address.0;
        differs.checked_shr(host_bits).unwrap_or(0) == 0
    }
}

/// Who finds out neighbours' MAC addresses at a port.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Resolver {
    /// The node does: it asks, and answers for its own addresses.
    #[default]
    Own,
    /// This host's kernel does, whose addresses the port has: it is [asked](crate::Neighbors::take_questions)
    /// in place of the cable. The node answers for [`PortAddresses::answered`] alone.
    Kernel,
}

/// What a port answers for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAddresses {
    /// Its MAC address.
    pub mac: MacAddress,
    /// Its own addresses.
    pub own: Vec<OwnAddress>,
    /// More addresses that the node answers for there, from first to last each: those that a
    /// translation gives out, and services.
    pub answered: Vec<(Address, Address)>,
    /// Who asks.
    pub resolver: Resolver,
}

impl PortAddresses {
    /// Whether frames about neighbours concern the node.
    pub(crate) fn takes_part(&self) -> bool {
        match self.resolver {
            Resolver::Own => !self.own.is_empty(),
            Resolver::Kernel => !self.answered.is_empty(),
        }
    }

    /// Whether a neighbour can be asked for.
    pub(crate) fn can_ask(&self, target: Address) -> bool {
        self.resolver == Resolver::Kernel || self.asks_from(target).is_some()
    }

    /// The address that every IPv6 interface has (RFC 4291, appendix A).
    pub const fn link_local(&self) -> Address {
        let [a, b, c, d, e, f] = self.mac.0;
        let universal = a ^ 2;
        Address::from_v6([
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, universal, b, c, 0xff, 0xfe, d, e, f,
        ])
    }

    /// Whether the node answers for an address.
    pub fn answers_for(&self, address: Address) -> bool {
        let is_answered = |&(first, last): &(Address, Address)| (first..=last).contains(&address);
        let has_v6 = self.own.iter().any(|own| !own.address.is_v4());
        self.own.iter().any(|own| own.address == address)
            || self.answered.iter().any(is_answered)
            || has_v6 && address == self.link_local()
    }

    /// The address that a question about another comes from: one in the same network, or else any
    /// of the same version.
    pub fn asks_from(&self, target: Address) -> Option<Address> {
        if !target.is_v4() && is_link_local(target) {
            return Some(self.link_local());
        }
        let own = self.own.iter();
        let same = own.clone().find(|own| own.is_on_link(target));
        let any = || {
            own.clone()
                .find(|own| own.address.is_v4() == target.is_v4())
        };
        match same.or_else(any) {
            Some(own) => Some(own.address),
            None => (!target.is_v4()).then(|| self.link_local()),
        }
    }
}

const fn is_link_local(address: Address) -> bool {
    address.0 >> 118 == 0xfe80 >> 6
}

/// Whom a question is sent to if nobody is known, as MAC address.
pub(crate) const fn everybody(target: Address) -> MacAddress {
    match target.is_v4() {
        true => MacAddress([0xff; 6]),
        false => neighbor::multicast_mac(neighbor::solicited_node(target)),
    }
}

/// How much may be kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Neighbours that are known.
    pub neighbors: usize,
    /// Neighbours whose MAC address is not known yet, of each IP version at each port.
    pub unresolved: usize,
    /// Packets that wait for one of those.
    pub waiting_each: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            neighbors: 16_384,
            unresolved: 512,
            waiting_each: 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse::<std::net::IpAddr>().expect("an address").into()
    }

    fn port() -> PortAddresses {
        let own = |text, prefix_bits| OwnAddress {
            address: address(text),
            prefix_bits,
        };
        PortAddresses {
            mac: MacAddress([2, 0, 0, 0, 0, 1]),
            own: vec![
                own("10.0.0.1", 24),
                own("192.0.2.9", 32),
                own("fd00::1", 64),
            ],
            answered: vec![(address("198.51.100.1"), address("198.51.100.3"))],
            resolver: Resolver::Own,
        }
    }

    #[test]
    fn networks_have_edges() {
        let [ten, host, six] = [0, 1, 2].map(|at| port().own[at]);
        assert!(ten.is_on_link(address("10.0.0.255")) && !ten.is_on_link(address("10.0.1.0")));
        assert!(host.is_on_link(address("192.0.2.9")) && !host.is_on_link(address("192.0.2.8")));
        assert!(six.is_on_link(address("fd00::ffff")) && !six.is_on_link(address("fd00:0:0:1::1")));
        assert!(!six.is_on_link(address("10.0.0.1")));
        let all = OwnAddress {
            prefix_bits: 0,
            ..six
        };
        assert!(all.is_on_link(address("2001:db8::1")));
    }

    #[test]
    fn a_port_answers_for_its_own_and_what_it_is_told() {
        let port = port();
        for own in ["10.0.0.1", "198.51.100.2", "fd00::1", "fe80::ff:fe00:1"] {
            assert!(port.answers_for(address(own)), "{own}");
        }
        for other in ["10.0.0.2", "198.51.100.4", "fe80::1"] {
            assert!(!port.answers_for(address(other)), "{other}");
        }
        assert_eq!(
            port.asks_from(address("10.0.0.9")),
            Some(address("10.0.0.1"))
        );
        assert_eq!(
            port.asks_from(address("203.0.113.1")),
            Some(address("10.0.0.1"))
        );
        assert_eq!(port.asks_from(address("fe80::9")), Some(port.link_local()));
        let bare = PortAddresses {
            own: Vec::new(),
            ..port
        };
        assert_eq!(bare.asks_from(address("10.0.0.9")), None);
    }
}
