//! Names of flows.

use twinpath_core::wire::Address;

use crate::headers::{Direction, Headers};

/// Whose flow it is, which way its packets go, and the headers with which they come. Packets of two
/// ENIs never have the same key, whatever addresses their tenants use: the serial is that of one ENI
/// for good. Nor has one from the network that of one from the machine, whatever it pretends to be.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryKey(pub(super) [u64; 5]);

impl EntryKey {
    /// The key of packets with these headers; `serial` has 23 bits and is not 0, and `ports` are those
    /// of TCP and UDP or an echo's identifier.
    #[must_use]
    #[inline]
    pub const fn new(
        serial: u32,
        direction: Direction,
        headers: &Headers,
        ports: [u16; 2],
    ) -> Self {
        let ports = (ports[0] as u64) << 16 | ports[1] as u64;
        let (source, destination) = (headers.source.0, headers.destination.0);
        Self([
            (source >> 64) as u64,
            source as u64,
            (destination >> 64) as u64,
            destination as u64,
            ports << 32 | (serial as u64) << 9 | (direction as u64) << 8 | headers.protocol as u64,
        ])
    }

    /// Which ENI's.
    #[must_use]
    pub const fn serial(&self) -> u32 {
        (self.0[4] >> 9) as u32 & 0x7f_ffff
    }

    /// Which way.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        match self.0[4] >> 8 & 1 {
            0 => Direction::Outbound,
            _ => Direction::Inbound,
        }
    }

    /// IP protocol.
    #[must_use]
    #[inline]
    pub const fn protocol(&self) -> u8 {
        self.0[4] as u8
    }

    /// Source address and destination address.
    #[must_use]
    pub const fn addresses(&self) -> [Address; 2] {
        let [a, b, c, d, _] = self.0;
        [
            Address((a as u128) << 64 | b as u128),
            Address((c as u128) << 64 | d as u128),
        ]
    }

    /// Source port and destination port.
    #[must_use]
    pub const fn ports(&self) -> [u16; 2] {
        let last = self.0[4];
        [(last >> 48) as u16, (last >> 32) as u16]
    }

    /// The key of packets in this direction with the ends the other way round.
    #[must_use]
    pub const fn turned(&self, direction: Direction) -> Self {
        let [a, b, c, d, last] = self.0;
        let ports = ((last >> 32) as u32).rotate_left(16);
        let rest = last & 0xffff_feff | (direction as u64) << 8;
        Self([c, d, a, b, (ports as u64) << 32 | rest])
    }

    /// The key of packets with the same ends that go this way.
    #[must_use]
    pub const fn going(&self, direction: Direction) -> Self {
        let [a, b, c, d, last] = self.0;
        Self([
            a,
            b,
            c,
            d,
            last & 0xffff_ffff_ffff_feff | (direction as u64) << 8,
        ])
    }

    /// The headers that policies look at.
    #[must_use]
    pub const fn headers(&self) -> Headers {
        let [source, destination] = self.addresses();
        let protocol = self.protocol();
        Headers {
            source,
            destination,
            ports: match protocol {
                6 | 17 => Some(self.ports()),
                _ => None,
            },
            protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_comes_out() {
        let headers = Headers {
            source: Address::from_v4([10, 0, 0, 1]),
            destination: Address::from_v4([10, 0, 0, 2]),
            ports: Some([0x1234, 0xfffe]),
            protocol: 6,
        };
        let ports = [0x1234, 0xfffe];
        for direction in [Direction::Outbound, Direction::Inbound] {
            let key = EntryKey::new(0x7f_fffe, direction, &headers, ports);
            assert_eq!(key.headers(), headers);
            assert_eq!(
                (key.serial(), key.direction(), key.ports()),
                (0x7f_fffe, direction, ports)
            );
            let other = EntryKey::new(0x7f_fffd, direction, &headers, ports);
            assert_ne!(key, other);
            for direction in [Direction::Outbound, Direction::Inbound] {
                let ports = [0xfffe, 0x1234];
                let turned = EntryKey::new(0x7f_fffe, direction, &headers.turned(), ports);
                assert_eq!(key.turned(direction), turned);
            }
        }
    }
}
