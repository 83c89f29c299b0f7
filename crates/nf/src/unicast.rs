//! Addresses that one station may have, and not a group, the sender itself, or nobody.

use crate::text::Called;
use std::str::FromStr;
use twinpath_core::wire::{Address, AddressError, MacAddress};

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

/// An address that one host may have.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostAddress(pub Address);

impl FromStr for HostAddress {
    type Err = NotUnicast;

    fn from_str(text: &str) -> Result<Self, NotUnicast> {
        let address = text.parse()?;
        check_host(address).map(|()| Self(address))
    }
}

impl Called for HostAddress {
    const TITLE: &'static str = Address::TITLE;
}

/// A MAC address that one station may have.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct StationMac(pub MacAddress);

impl FromStr for StationMac {
    type Err = NotUnicast;

    fn from_str(text: &str) -> Result<Self, NotUnicast> {
        let mac: MacAddress = text.parse()?;
        match mac {
            MacAddress::ZERO => Err(NotUnicast::NoStation),
            MacAddress([first, ..]) if first & 1 == 1 => Err(NotUnicast::Group),
            mac => Ok(Self(mac)),
        }
    }
}

impl Called for StationMac {
    const TITLE: &'static str = MacAddress::TITLE;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_addresses_of_their_own() {
        for (text, expected) in [
            ("192.0.2.1", None),
            ("169.254.0.1", None),
            ("223.255.255.255", None),
            ("2001:db8::1", None),
            ("fe80::1", None),
            ("::2", None),
            ("0.0.0.0", Some(NotUnicast::Unspecified)),
            ("127.0.0.1", Some(NotUnicast::Loopback)),
            ("224.0.0.1", Some(NotUnicast::Multicast)),
            ("239.255.255.255", Some(NotUnicast::Multicast)),
            ("240.0.0.1", Some(NotUnicast::Reserved)),
            ("255.255.255.255", Some(NotUnicast::Broadcast)),
            ("::", Some(NotUnicast::Unspecified)),
            ("::1", Some(NotUnicast::Loopback)),
            ("ff02::1", Some(NotUnicast::Multicast)),
        ] {
            assert_eq!(text.parse::<HostAddress>().err(), expected, "{text}");
        }
        for (text, expected) in [
            ("02:00:00:00:00:01", None),
            ("00:00:00:00:00:00", Some(NotUnicast::NoStation)),
            ("ff:ff:ff:ff:ff:ff", Some(NotUnicast::Group)),
            ("01:00:5e:00:00:01", Some(NotUnicast::Group)),
        ] {
            assert_eq!(text.parse::<StationMac>().err(), expected, "{text}");
        }
    }
}
