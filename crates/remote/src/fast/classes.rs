//! Traffic that is never split, whatever its size: voice, control, what must not wait for a server.

use std::ops::RangeInclusive;
use twinpath_core::wire::layout::{Layout, Network};
use twinpath_core::wire::{Address, fields};

/// A class of traffic. A packet is of it if all that is said holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// IP protocol number.
    pub protocol: Option<u8>,
    /// One of both ports; any if there are none here.
    pub ports: Vec<RangeInclusive<u16>>,
    /// One of both addresses, from the first to the last.
    pub addresses: Option<RangeInclusive<Address>>,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
}

impl Class {
    /// Whether a TCP or UDP packet is of this class.
    #[must_use]
    pub fn contains(&self, frame: &[u8], layout: &Layout) -> bool {
        let ends = || {
            [
                fields::source_port(frame, layout),
                fields::destination_port(frame, layout),
            ]
        };
        let is_either = |ports: &RangeInclusive<u16>| ends().iter().any(|end| ports.contains(end));
        let has_either = |addresses: &RangeInclusive<Address>| {
            addresses.contains(&fields::source_address(frame, layout))
                || addresses.contains(&fields::destination_address(frame, layout))
        };
        self.protocol.is_none_or(|number| number == layout.protocol)
            && self.dscp.is_none_or(|dscp| dscp == dscp_of(frame, layout))
            && (self.ports.is_empty() || self.ports.iter().any(is_either))
            && self.addresses.as_ref().is_none_or(has_either)
    }
}

/// The differentiated services code point (RFC 2474 §3), in either IP version.
fn dscp_of(frame: &[u8], layout: &Layout) -> u8 {
    let start = usize::from(layout.l3);
    let Some(&[first, second]) = frame.get(start..start + 2).and_then(<[u8]>::first_chunk) else {
        return 0;
    };
    match layout.network {
        Network::V6 => (first << 4 | second >> 4) >> 2,
        _ => second >> 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::{Endpoint, PacketBuilder, dissect};

    fn udp(from: &str, to: &str, traffic_class: u8) -> Vec<u8> {
        let end = |text: &str| text.parse::<Endpoint>().unwrap();
        let mut packet = PacketBuilder::udp(end(from), end(to))
            .payload(&[7; 64])
            .to_vec()
            .unwrap();
        let l3 = usize::from(dissect(&packet).unwrap().l3);
        match packet[l3] >> 4 {
            6 => {
                packet[l3] |= traffic_class >> 4;
                packet[l3 + 1] |= traffic_class << 4;
            }
            _ => packet[l3 + 1] = traffic_class,
        }
        packet
    }

    fn is_of(class: &Class, packet: &[u8]) -> bool {
        class.contains(packet, &dissect(packet).unwrap())
    }

    #[test]
    fn all_that_is_said_must_hold() {
        let voice = 46 << 2 | 1;
        let (v4, v6) = (
            udp("10.0.0.1:5004", "10.0.0.2:9", voice),
            udp("[2001:db8::1]:9", "[2001:db8::2]:5004", voice),
        );
        let class = Class {
            protocol: Some(17),
            ports: vec![1..=2, 5000..=5010],
            dscp: Some(46),
            addresses: None,
        };
        assert!(is_of(&class, &v4) && is_of(&class, &v6));
        let others = [
            Class {
                protocol: Some(6),
                ..class.clone()
            },
            Class {
                ports: vec![5005..=5010],
                ..class.clone()
            },
            Class {
                dscp: Some(0),
                ..class.clone()
            },
        ];
        for other in others {
            assert!(!is_of(&other, &v4) && !is_of(&other, &v6), "{other:?}");
        }
        let network = Address::from_v4([10, 0, 0, 2])..=Address::from_v4([10, 0, 0, 9]);
        let near = Class {
            addresses: Some(network),
            ..Class::default()
        };
        assert!(is_of(&near, &v4) && !is_of(&near, &v6));
        assert!(is_of(&Class::default(), &v6));
    }
}
