//! The fields that a function can examine and write, and their place in the key.

use crate::key::MatchKey;

/// A field of a packet, or of what is known about it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Field {
    /// Source IP address, 128 bits (IPv4 mapped).
    SourceAddress = 0,
    /// Destination IP address, 128 bits (IPv4 mapped).
    DestinationAddress = 1,
    /// Source port, or an echo's identifier; 16 bits.
    SourcePort = 2,
    /// Destination port, or an echo's identifier; 16 bits.
    DestinationPort = 3,
    /// IP protocol, 8 bits; cannot be written.
    Protocol = 4,
    /// TCP flags, 8 bits, zero if there are none; cannot be written.
    TcpFlags = 5,
    /// The port that the packet arrived on, 16 bits; cannot be written.
    Ingress = 6,
    /// Source MAC address; not in the key.
    SourceMac = 7,
    /// Destination MAC address; not in the key.
    DestinationMac = 8,
    /// The port that the packet leaves by; not in the key.
    Egress = 9,
    /// Time to live; not in the key, only counted down.
    TimeToLive = 10,
    /// Identification of an IPv4 datagram; not in the key. That it is written means that one is
    /// [drawn](twinpath_core::Identifications), unless the datagram is atomic.
    Identification = 11,
}

impl Field {
    /// Every field, in the order of its number.
    pub const ALL: [Self; 12] = [
        Self::SourceAddress,
        Self::DestinationAddress,
        Self::SourcePort,
        Self::DestinationPort,
        Self::Protocol,
        Self::TcpFlags,
        Self::Ingress,
        Self::SourceMac,
        Self::DestinationMac,
        Self::Egress,
        Self::TimeToLive,
        Self::Identification,
    ];

    /// Bits of the field (its lowest ones in `bits`) at their place in the key; none for a field
    /// that is not in the key.
    #[inline(always)]
    pub const fn place(self, bits: u128) -> MatchKey {
        let mut words = MatchKey::NONE.0;
        match self {
            Self::SourceAddress => (words[0], words[1]) = ((bits >> 64) as u64, bits as u64),
            Self::DestinationAddress => (words[2], words[3]) = ((bits >> 64) as u64, bits as u64),
            Self::SourcePort => words[4] = (bits as u16 as u64) << 48,
            Self::DestinationPort => words[4] = (bits as u16 as u64) << 32,
            Self::Protocol => words[4] = (bits as u8 as u64) << 24,
            Self::TcpFlags => words[4] = (bits as u8 as u64) << 16,
            Self::Ingress => words[5] = (bits as u16 as u64) << 48,
            Self::SourceMac
            | Self::DestinationMac
            | Self::Egress
            | Self::TimeToLive
            | Self::Identification => {}
        }
        MatchKey(words)
    }

    /// The field's bits of a key; none for a field that is not in the key.
    pub const fn of(self, key: &MatchKey) -> u128 {
        let words = key.0;
        match self {
            Self::SourceAddress => (words[0] as u128) << 64 | words[1] as u128,
            Self::DestinationAddress => (words[2] as u128) << 64 | words[3] as u128,
            Self::SourcePort => (words[4] >> 48) as u128,
            Self::DestinationPort => (words[4] >> 32) as u16 as u128,
            Self::Protocol => (words[4] >> 24) as u8 as u128,
            Self::TcpFlags => (words[4] >> 16) as u8 as u128,
            Self::Ingress => (words[5] >> 48) as u128,
            Self::SourceMac
            | Self::DestinationMac
            | Self::Egress
            | Self::TimeToLive
            | Self::Identification => 0,
        }
    }

    /// The whole field as a mask.
    #[inline(always)]
    pub const fn mask(self) -> MatchKey {
        self.place(u128::MAX)
    }

    /// Whether packets are matched by the field.
    pub const fn is_in_key(self) -> bool {
        (self as u8) <= Self::Ingress as u8
    }

    /// The field's name in reports: snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SourceAddress => "source_address",
            Self::DestinationAddress => "destination_address",
            Self::SourcePort => "source_port",
            Self::DestinationPort => "destination_port",
            Self::Protocol => "protocol",
            Self::TcpFlags => "tcp_flags",
            Self::Ingress => "ingress",
            Self::SourceMac => "source_mac",
            Self::DestinationMac => "destination_mac",
            Self::Egress => "egress",
            Self::TimeToLive => "time_to_live",
            Self::Identification => "identification",
        }
    }
}

/// A set of fields.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fields(u16);

impl Fields {
    /// No field.
    pub const NONE: Self = Self(0);

    /// A set of these fields.
    pub const fn of(fields: &[Field]) -> Self {
        let mut set = 0;
        let mut index = 0;
        while index < fields.len() {
            set |= 1 << fields[index] as u8;
            index += 1;
        }
        Self(set)
    }

    /// Adds a field.
    #[inline(always)]
    pub const fn add(&mut self, field: Field) {
        self.0 |= 1 << field as u8;
    }

    /// Whether a field is in the set.
    #[inline(always)]
    pub const fn has(self, field: Field) -> bool {
        self.0 & 1 << field as u8 != 0
    }

    /// Whether any of the other set's fields is in this one.
    #[inline(always)]
    pub const fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether the set is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The fields, in order.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        Field::ALL.into_iter().filter(move |&field| self.has(field))
    }

    /// The set as a number, as the link carries it.
    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// The set with this number; bits that mean nothing are left out.
    #[inline(always)]
    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits & ((1 << Field::ALL.len()) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_apart_and_fill_the_exact_mask() {
        let mut all = MatchKey::ALWAYS;
        for (number, field) in Field::ALL.into_iter().enumerate() {
            assert_eq!(field as usize, number);
            assert_eq!(field.mask().is_none(), !field.is_in_key());
            assert!(all.and(&field.mask()).is_none(), "{}", field.name());
            all = all.or(&field.mask());
        }
        assert_eq!(all, MatchKey::EXACT.or(&MatchKey::WITHIN_FLOW));
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        let mut set = Fields::of(&[Field::SourcePort]);
        set.add(Field::TimeToLive);
        let fields: Vec<Field> = set.iter().collect();
        assert_eq!(fields, [Field::SourcePort, Field::TimeToLive]);
        assert_eq!(Fields::from_bits(set.bits()), set);
        assert!(set.has_any(Fields::of(&[Field::TimeToLive])) && !set.is_none());
    }
}
