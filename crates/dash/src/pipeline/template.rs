//! What is done to nearly all packets, in one cache line: MAC addresses, and VXLAN over IPv4 around
//! what came out of a tunnel.

use twinpath_core::wire::tunnel::Encapsulation;
use twinpath_core::wire::{Address, MacAddress, ipv4, udp};

use super::action::{Action, Layer};

/// An [`Action`] that sets MAC addresses at most, and puts one VXLAN header over IPv4 in front.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Template {
    ends: [u32; 2],
    key: u32,
    /// As the action has it.
    pub accepts: [Option<u32>; 2],
    /// Inner destination MAC address.
    pub destination_mac: Option<MacAddress>,
    /// Inner source MAC address.
    pub source_mac: Option<MacAddress>,
}

const _: () = assert!(size_of::<Option<Template>>() == 64, "one line of the cache");

impl Template {
    /// That of an action; nothing if that is another kind of action.
    #[must_use]
    pub fn of(action: &Action) -> Option<Self> {
        let [Some(layer), None] = action.layers else {
            return None;
        };
        let ends = [layer.source, layer.destination];
        let is_plain =
            layer.encapsulation == Encapsulation::Vxlan && ends.iter().all(|end| end.is_v4());
        (is_plain && !action.changes_inside()).then_some(Self {
            ends: ends.map(|end| end.0 as u32),
            key: layer.key,
            accepts: action.accepts,
            destination_mac: action.destination_mac,
            source_mac: action.source_mac,
        })
    }

    /// How long the outer IP packet will be around an inner frame of so many bytes.
    #[must_use]
    #[inline]
    pub const fn sent_bytes(&self, inner_bytes: usize) -> usize {
        const AROUND: usize = ipv4::HEADER_BYTES + udp::HEADER_BYTES + 8;
        inner_bytes + AROUND
    }

    /// The header in front.
    #[must_use]
    #[inline]
    pub fn layer(&self) -> Layer {
        let [source, destination] = self.ends.map(|end| Address::from_v4(end.to_be_bytes()));
        Layer {
            encapsulation: Encapsulation::Vxlan,
            key: self.key,
            source,
            destination,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_template_cannot_say_has_none() {
        let address = |last| Address::from_v4([10, 0, 0, last]);
        let layer = Layer {
            encapsulation: Encapsulation::Vxlan,
            key: 7,
            source: address(1),
            destination: address(2),
        };
        let plain = Action {
            layers: [Some(layer), None],
            destination_mac: Some(MacAddress([3; 6])),
            accepts: [Some(5), None],
            ..Action::default()
        };
        let template = Template::of(&plain).expect("plain");
        assert_eq!(template.layer(), layer);
        assert_eq!(template.accepts, plain.accepts);
        let macs = (template.destination_mac, template.source_mac);
        assert_eq!(macs, (plain.destination_mac, None));
        let of_v6 = Layer {
            source: Address(1),
            destination: Address(2),
            ..layer
        };
        let nvgre = Layer {
            encapsulation: Encapsulation::Nvgre,
            ..layer
        };
        let with = |layers| Action { layers, ..plain };
        for other in [
            with([None, None]),
            with([Some(layer), Some(layer)]),
            with([Some(of_v6), None]),
            with([Some(nvgre), None]),
            Action {
                addresses: Some([address(1), address(2)]),
                ..plain
            },
            Action {
                source_port: Some(1),
                ..plain
            },
            Action {
                destination_port: Some(1),
                ..plain
            },
        ] {
            assert_eq!(Template::of(&other), None, "{other:?}");
        }
    }
}
