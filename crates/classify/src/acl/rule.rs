//! Rules, what of a packet they look at, and what they examined.

use twinpath_core::wire::Address;

use crate::Prefix;
use crate::word::Word;

/// Ports from a first to a last one.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Every port.
    pub const ANY: Self = Self {
        first: 0,
        last: u16::MAX,
    };

    /// All ports between two, both included, in either order.
    #[must_use]
    pub const fn new(one: u16, other: u16) -> Self {
        if one <= other {
            Self {
                first: one,
                last: other,
            }
        } else {
            Self {
                first: other,
                last: one,
            }
        }
    }

    /// The first port.
    #[must_use]
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The last port.
    #[must_use]
    pub const fn last(self) -> u16 {
        self.last
    }

    /// Whether a port lies in it.
    #[must_use]
    #[inline(always)]
    pub const fn includes(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }

    /// How many leading bits of `port` show whether it lies in the range: the fewest, such that
    /// all ports that begin with them lie in it, or none does.
    #[must_use]
    pub const fn deciding_bits(self, port: u16) -> u32 {
        if port < self.first {
            differ_at(port, self.first)
        } else if port > self.last {
            differ_at(port, self.last)
        } else {
            let below = match self.first.checked_sub(1) {
                Some(outside) => differ_at(port, outside),
                None => 0,
            };
            let above = match self.last.checked_add(1) {
                Some(outside) => differ_at(port, outside),
                None => 0,
            };
            if below > above { below } else { above }
        }
    }
}

/// How many leading bits it takes to tell two different ports apart.
const fn differ_at(one: u16, other: u16) -> u32 {
    (one ^ other).leading_zeros() + 1
}

/// What a packet must have for a rule to match it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Where it comes from.
    pub source: Prefix,
    /// Where it goes.
    pub destination: Prefix,
    /// Its source port.
    pub source_ports: PortRange,
    /// Its destination port.
    pub destination_ports: PortRange,
    /// Its IP protocol, or `None` for any.
    pub protocol: Option<u8>,
}

impl Rule {
    /// The rule that matches every packet.
    pub const ANY: Self = Self {
        source: Prefix::ANY,
        destination: Prefix::ANY,
        source_ports: PortRange::ANY,
        destination_ports: PortRange::ANY,
        protocol: None,
    };

    /// Whether the rule matches.
    #[must_use]
    pub fn matches(&self, headers: &Headers) -> bool {
        headers.source.is_v4() == headers.destination.is_v4()
            && self.source.includes(headers.source)
            && self.destination.includes(headers.destination)
            && self.source_ports.includes(headers.source_port)
            && self.destination_ports.includes(headers.destination_port)
            && self
                .protocol
                .is_none_or(|wanted| wanted == headers.protocol)
    }

    /// Whether packets of this IP version can match.
    pub(super) const fn speaks_of(&self, v4: bool) -> bool {
        self.source.versions().includes(v4) && self.destination.versions().includes(v4)
    }
}

/// What rules look at. No packet has addresses of two IP versions; headers that do match no rule.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Where the packet comes from.
    pub source: Address,
    /// Where it goes.
    pub destination: Address,
    /// Its source port; by convention 0 where its protocol has none.
    pub source_port: u16,
    /// Its destination port; by convention 0 where its protocol has none.
    pub destination_port: u16,
    /// Its IP protocol.
    pub protocol: u8,
}

/// Which bits of [`Headers`] were examined: those that are set.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Examined {
    /// Of the source address (as the 128-bit number that [`Address`] is).
    pub source: u128,
    /// Of the destination address.
    pub destination: u128,
    /// Of the source port.
    pub source_port: u16,
    /// Of the destination port.
    pub destination_port: u16,
    /// Of the protocol; always all or none.
    pub protocol: u8,
}

impl Examined {
    /// The same with the leading bits of addresses and ports rounded up to whole steps. More bits
    /// than needed are no harm to the guarantee; coarse steps make far fewer distinct masks, which
    /// is what a search of cached rules costs.
    ///
    /// A step of 0 counts as 1. Steps of addresses count within IPv4 and IPv6 alike.
    #[must_use]
    pub fn rounded(&self, address_step: u32, port_step: u32) -> Self {
        let up = |bits: u32, step: u32| bits.next_multiple_of(step.max(1));
        let address =
            |mask: u128| u128::leading(up(mask.leading_ones(), address_step).min(128)) | mask;
        let port = |mask: u16| {
            let bits = up(mask.leading_ones(), port_step).min(16);
            (u32::leading(bits) >> 16) as u16 | mask
        };
        Self {
            source: address(self.source),
            destination: address(self.destination),
            source_port: port(self.source_port),
            destination_port: port(self.destination_port),
            protocol: self.protocol,
        }
    }

    /// Whether two packets are equal in all examined bits.
    #[cfg(test)]
    pub const fn agree(&self, one: &Headers, other: &Headers) -> bool {
        (one.source.0 ^ other.source.0) & self.source == 0
            && (one.destination.0 ^ other.destination.0) & self.destination == 0
            && (one.source_port ^ other.source_port) & self.source_port == 0
            && (one.destination_port ^ other.destination_port) & self.destination_port == 0
            && (one.protocol ^ other.protocol) & self.protocol == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn deciding_bits_are_the_fewest_that_decide(one: u16, other: u16, port: u16) {
            let range = PortRange::new(one, other);
            let decides = |bits: u32| {
                let free = u16::MAX.checked_shr(bits).unwrap_or(0);
                let (lowest, highest) = (port & !free, port | free);
                let all_inside = range.includes(lowest) && range.includes(highest);
                let all_outside = highest < range.first() || lowest > range.last();
                all_inside || all_outside
            };
            let fewest = (0..=16).find(|&bits| decides(bits));
            prop_assert_eq!(fewest, Some(range.deciding_bits(port)));
        }
    }

    #[test]
    fn rounding_goes_up_by_whole_steps() {
        let examined = Examined {
            source: u128::leading(96 + 17),
            destination: 0,
            source_port: 0x8000,
            destination_port: u16::MAX,
            protocol: 0,
        };
        let rounded = examined.rounded(8, 8);
        assert_eq!(rounded.source, u128::leading(96 + 24));
        assert_eq!(rounded.destination, 0);
        assert_eq!(
            (rounded.source_port, rounded.destination_port),
            (0xff00, 0xffff)
        );
        assert_eq!(examined.rounded(0, 1), examined);
        assert_eq!(examined.rounded(200, 200).source, u128::MAX);
    }

    #[test]
    fn ranges_at_the_ends_of_the_space() {
        assert_eq!(PortRange::ANY.deciding_bits(7), 0);
        assert_eq!(PortRange::new(1024, u16::MAX).deciding_bits(0xffff), 1);
        assert_eq!(PortRange::new(1024, u16::MAX).deciding_bits(1023), 6);
        assert_eq!(PortRange::new(80, 80).deciding_bits(80), 16);
    }
}
