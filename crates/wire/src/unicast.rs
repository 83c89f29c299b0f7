//! Addresses that one station may have, and not a group, the sender itself, or nobody.

use crate::address::{Address, AddressError, MacAddress};

/// Why no host has an address.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotUnicast {
    /// It is no address at all.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// `0.0.0.0/8` or `::`.
    #[error("the address of no host: expected one that packets are sent to")]
    Unspecified,
    /// `127.0.0.0/8` or `::1`.
    #[error("a loopback address, which is on no cable: expected one that packets are sent to")]
    Loopback,
    /// `224.0.0.0/4` or `ff00::/8`.
    #[error("a multicast address: expected that of one host")]
    Multicast,
    /// `255.255.255.255`.
    #[error("the broadcast address: expected that of one host")]
    Broadcast,
    /// The rest of `240.0.0.0/4`.
    #[error("a reserved address: expected one that packets are sent to")]
    Reserved,
    /// A MAC address of all zeros.
    #[error("the MAC address of no station: expected that of one")]
    NoStation,
    /// A MAC address of a group, or of all.
    #[error("the MAC address of a group of stations: expected that of one")]
    Group,
}

/// Checks that one host may have an address.
///
/// # Errors
/// It may not, and why.
pub fn check_host(address: Address) -> Result<(), NotUnicast> {
    let of_v4 = |octets: [u8; 4]| match octets {
        [0, ..] => Err(NotUnicast::Unspecified),
        [127, ..] => Err(NotUnicast::Loopback),
        [224..=239, ..] => Err(NotUnicast::Multicast),
        [255, 255, 255, 255] => Err(NotUnicast::Broadcast),
        [240..=255, ..] => Err(NotUnicast::Reserved),
        _ => Ok(()),
    };
    match (address.is_v4(), address.0) {
        (true, _) => of_v4(address.octets4()),
        (false, 0) => Err(NotUnicast::Unspecified),
        (false, 1) => Err(NotUnicast::Loopback),
        (false, bits) if bits >> 120 == 0xff => Err(NotUnicast::Multicast),
        _ => Ok(()),
    }
}

/// Checks that one station may have a MAC address.
///
/// # Errors
/// It may not, and why.
pub const fn check_station(mac: MacAddress) -> Result<(), NotUnicast> {
    match mac {
        MacAddress([0, 0, 0, 0, 0, 0]) => Err(NotUnicast::NoStation),
        MacAddress([first, ..]) if first & 1 == 1 => Err(NotUnicast::Group),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_addresses_of_their_own() {
        for (text, expected) in [
            ("192.0.2.1", Ok(())),
            ("169.254.0.1", Ok(())),
            ("223.255.255.255", Ok(())),
            ("2001:db8::1", Ok(())),
            ("fe80::1", Ok(())),
            ("::2", Ok(())),
            ("0.0.0.0", Err(NotUnicast::Unspecified)),
            ("127.0.0.1", Err(NotUnicast::Loopback)),
            ("224.0.0.1", Err(NotUnicast::Multicast)),
            ("239.255.255.255", Err(NotUnicast::Multicast)),
            ("240.0.0.1", Err(NotUnicast::Reserved)),
            ("255.255.255.255", Err(NotUnicast::Broadcast)),
            ("::", Err(NotUnicast::Unspecified)),
            ("::1", Err(NotUnicast::Loopback)),
            ("ff02::1", Err(NotUnicast::Multicast)),
        ] {
            let address = text.parse().expect("an address");
            assert_eq!(check_host(address), expected, "{text}");
        }
        for (text, expected) in [
            ("02:00:00:00:00:01", Ok(())),
            ("00:00:00:00:00:00", Err(NotUnicast::NoStation)),
            ("ff:ff:ff:ff:ff:ff", Err(NotUnicast::Group)),
            ("01:00:5e:00:00:01", Err(NotUnicast::Group)),
        ] {
            let mac = text.parse().expect("a MAC address");
            assert_eq!(check_station(mac), expected, "{text}");
        }
    }
}
