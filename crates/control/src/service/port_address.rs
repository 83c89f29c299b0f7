//! An address of a port, with its network.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::str::FromStr;
use twinpath_classify::Prefix;
use twinpath_core::wire::Address;
use twinpath_core::wire::unicast::{NotUnicast, check_host};

/// An address of a port, and how many leading bits its network has: `192.168.1.1/24`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PortAddress {
    /// The address.
    pub address: Address,
    /// Of 32 or of 128.
    pub prefix_bits: u8,
}

/// A text that is no such address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortAddressError {
    /// It looks otherwise.
    #[error("no address with the length of its network, such as 192.168.1.1/24 or 2001:db8::1/64")]
    Text,
    /// All addresses are in its network.
    #[error("a network of length 0: expected that of the network on the cable, such as 24")]
    NoNetwork,
    /// It is the first or the last of its network.
    #[error("no host's address: it stands for all of {0}")]
    ForAll(Prefix),
    /// No host has it.
    #[error(transparent)]
    Host(#[from] NotUnicast),
}

impl FromStr for PortAddress {
    type Err = PortAddressError;

    fn from_str(text: &str) -> Result<Self, PortAddressError> {
        let (address, bits) = text.split_once('/').ok_or(PortAddressError::Text)?;
        let address: Address = address.parse().map_err(|_| PortAddressError::Text)?;
        let most = if address.is_v4() { 32 } else { 128 };
        let prefix_bits = bits.parse().ok().filter(|bits| *bits <= most);
        let prefix_bits = prefix_bits.ok_or(PortAddressError::Text)?;
        check_host(address)?;
        if prefix_bits == 0 {
            return Err(PortAddressError::NoNetwork);
        }
        let network = Prefix::covering(address, prefix_bits);
        // Networks of one or two addresses have no broadcast (RFC 3021), nor has IPv6 any.
        if address.is_v4()
            && prefix_bits <= 30
            && [network.network(), network.last()].contains(&address)
        {
            return Err(PortAddressError::ForAll(network));
        }
        Ok(Self {
            address,
            prefix_bits,
        })
    }
}

impl JsonSchema for PortAddress {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "address with the length of its network".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "title": "address with the length of its network" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_network() {
        let read = |text: &str| text.parse::<PortAddress>();
        let four = read("192.168.1.1/24").expect("one of IPv4");
        assert_eq!((four.address.is_v4(), four.prefix_bits), (true, 24));
        assert_eq!(read("2001:db8::1/64").expect("one of IPv6").prefix_bits, 64);
        for wrong in [
            "192.168.1.1",
            "192.168.1.1/33",
            "2001:db8::1/129",
            "x/8",
            "10.0.0.1/",
            "",
        ] {
            assert_eq!(read(wrong), Err(PortAddressError::Text), "{wrong}");
        }
        for wrong in ["10.0.0.1/0", "2001:db8::1/0"] {
            assert_eq!(read(wrong), Err(PortAddressError::NoNetwork), "{wrong}");
        }
        for wrong in ["10.0.0.0/24", "10.0.0.255/24", "10.0.0.3/30"] {
            let told = read(wrong).expect_err(wrong).to_string();
            assert!(told.starts_with("no host's address"), "{wrong}: {told}");
        }
        for sound in ["10.0.0.0/31", "10.0.0.0/32", "10.0.0.255/23"] {
            assert!(read(sound).is_ok(), "{sound}");
        }
        for wrong in [
            "224.0.0.1/24",
            "127.0.0.1/8",
            "255.255.255.255/32",
            "::/64",
            "ff02::1/64",
        ] {
            assert!(
                matches!(read(wrong), Err(PortAddressError::Host(_))),
                "{wrong}"
            );
        }
    }
}
