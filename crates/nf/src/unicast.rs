//! Addresses in configurations that one station may have, and not a group, the sender itself, or nobody.

use crate::text::Titled;
use std::str::FromStr;
use twinpath_core::wire::unicast::{NotUnicast, check_host, check_station};
use twinpath_core::wire::{Address, MacAddress};

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

impl Titled for HostAddress {
    const TITLE: &'static str = Address::TITLE;
}

/// A MAC address that one station may have.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct StationMac(pub MacAddress);

impl FromStr for StationMac {
    type Err = NotUnicast;

    fn from_str(text: &str) -> Result<Self, NotUnicast> {
        let mac: MacAddress = text.parse()?;
        check_station(mac).map(|()| Self(mac))
    }
}

impl Titled for StationMac {
    const TITLE: &'static str = MacAddress::TITLE;
}
