//! What of the frames that arrive is the host's own.

use std::collections::BTreeSet;
use twinpath_classify::Prefix;
use twinpath_core::wire::Address;
use twinpath_ports::HostPrefix;

/// The addresses of this host, whose packets the kernel takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAddresses {
    /// In their order.
    own: Vec<Address>,
    /// Those that the chain answers for, whatever the kernel has.
    chains: Vec<Prefix>,
}

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// VLAN tags, of which the chain knows what to do.
const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];

impl HostAddresses {
    /// These are the host's, but for prefixes that the chain answers for.
    pub fn new(own: &BTreeSet<Address>, chains: Vec<Prefix>) -> Self {
        let own = own.iter().copied().collect();
        Self { own, chains }
    }

    /// Whether a frame is the host's: for one of its addresses, for a group or for all, or no IP
    /// packet, as of ARP.
    pub fn takes(&self, frame: &[u8]) -> bool {
        let Some(kind) = frame.get(12..14) else {
            return false;
        };
        let destination = match kind {
            kind if *kind == IPV4 => frame.get(30..34).and_then(<[u8]>::first_chunk),
            kind if *kind == IPV6 => return self.takes_v6(frame),
            kind => return !TAGS.iter().any(|tag| kind == tag),
        };
        let Some(&destination) = destination else {
            return false;
        };
        let is_of_many = (224..240).contains(&destination[0]) || destination == [255; 4];
        let is_group = frame[0] & 1 != 0 || is_of_many;
        is_group || self.has(Address::from_v4(destination))
    }

    fn takes_v6(&self, frame: &[u8]) -> bool {
        let Some(&destination) = frame.get(38..54).and_then(<[u8]>::first_chunk::<16>) else {
            return false;
        };
        let is_of_link = destination[0] == 0xfe && destination[1] >> 6 == 2;
        is_of_link || destination[0] == 0xff || self.has(Address::from_v6(destination))
    }

    fn has(&self, address: Address) -> bool {
        let is_chains = |prefix: &Prefix| prefix.includes(address);
        self.own.binary_search(&address).is_ok() && !self.chains.iter().any(is_chains)
    }

    /// The same for a driver that tells apart what comes.
    pub fn prefixes(&self) -> BTreeSet<HostPrefix> {
        let own = self.own.iter().filter(|address| self.has(**address));
        let own = own.map(|address| HostPrefix {
            network: *address,
            bits: 128,
            is_hosts: true,
        });
        let chains = self.chains.iter().map(|prefix| HostPrefix {
            network: prefix.network(),
            bits: match prefix.network().is_v4() {
                true => 96 + prefix.length(),
                false => prefix.length(),
            },
            is_hosts: false,
        });
        own.chain(chains).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::{Endpoint, PacketBuilder};

    fn address(text: &str) -> Address {
        text.parse().expect(text)
    }

    fn takes(to: &str) -> bool {
        let own = ["192.0.2.1", "198.51.100.7", "2001:db8::1"].map(address);
        let chains = vec!["198.51.100.0/28".parse().expect("a prefix")];
        let host = HostAddresses::new(&own.into_iter().collect(), chains);
        let to: Endpoint = to.parse().expect(to);
        let from = match to.address.is_v4() {
            true => "203.0.113.9:5",
            false => "[2001:db8:9::9]:5",
        };
        let udp = PacketBuilder::udp(from.parse().expect(from), to);
        let frame = udp.to_vec().expect("short");
        let is_tagged = udp.vlan(5).to_vec().expect("short");
        assert!(!host.takes(&is_tagged), "a tag");
        host.takes(&frame)
    }

    #[test]
    fn a_host_takes_what_is_for_it_or_for_all() {
        for own in [
            "192.0.2.1:179",
            "224.0.0.5:1",
            "255.255.255.255:67",
            "[2001:db8::1]:179",
            "[fe80::9]:1",
            "[ff02::5]:1",
        ] {
            assert!(takes(own), "{own}");
        }
        for other in [
            "192.0.2.2:1",
            "198.51.100.7:1",
            "[2001:db8::2]:1",
            // Routes of the kernel may lead there.
            "240.1.1.1:1",
            "255.255.1.1:1",
        ] {
            assert!(!takes(other), "{other}");
        }
    }

    #[test]
    fn what_is_no_ip_packet_is_the_hosts() {
        let host = HostAddresses::default();
        let mut frame = [0u8; 60];
        for (kind, expected) in [
            (0x0806u16, true),
            (0x88cc, true),
            (0x0027, true),
            (0x8100, false),
        ] {
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
            assert_eq!(host.takes(&frame), expected, "{kind:#x}");
        }
        for len in 0..60 {
            frame[12..14].copy_from_slice(&IPV6);
            host.takes(&frame[..len]);
            frame[12..14].copy_from_slice(&IPV4);
            host.takes(&frame[..len]);
        }
    }
}
