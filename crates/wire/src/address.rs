//! Addresses: one number for both IP versions, endpoints, and MAC addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

const V4_MAPPED: u128 = 0xffff_0000_0000;

/// An IPv6 address as a big-endian number; an IPv4 address `a.b.c.d` is `::ffff:a.b.c.d`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u128);

impl Address {
    /// `0.0.0.0`.
    pub const UNSPECIFIED_V4: Self = Self(V4_MAPPED);
    /// `::`.
    pub const UNSPECIFIED_V6: Self = Self(0);

    /// Whether a host can have the address: it is not unspecified, of loopback, multicast, reserved
    /// or broadcast (RFC 1122 §3.2.1.3, RFC 4291 §2.5).
    #[must_use]
    pub const fn is_of_a_host(self) -> bool {
        match self.is_v4() {
            true => !matches!(self.octets4(), [0 | 127 | 224.., ..]),
            false => self.0 > 1 && self.0 >> 120 != 0xff,
        }
    }

    /// An IPv4 address from its four bytes in network order.
    #[must_use]
    #[inline(always)]
    pub const fn from_v4(octets: [u8; 4]) -> Self {
        Self(V4_MAPPED | u32::from_be_bytes(octets) as u128)
    }

    /// An IPv6 address from its sixteen bytes in network order.
    #[must_use]
    #[inline(always)]
    pub const fn from_v6(octets: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(octets))
    }

    /// Whether this is an IPv4 address.
    #[must_use]
    #[inline(always)]
    pub const fn is_v4(self) -> bool {
        self.0 >> 32 == V4_MAPPED >> 32
    }

    /// The standard library's form.
    #[must_use]
    pub const fn to_ip(self) -> IpAddr {
        if self.is_v4() {
            IpAddr::V4(Ipv4Addr::from_bits(self.0 as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(self.0))
        }
    }

    /// The last four bytes: all of an IPv4 address.
    #[must_use]
    #[inline(always)]
    pub const fn octets4(self) -> [u8; 4] {
        (self.0 as u32).to_be_bytes()
    }

    /// All sixteen bytes, in network order.
    #[must_use]
    #[inline(always)]
    pub const fn octets16(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// One of the four 32-bit words, most significant first; word 3 is an IPv4 address. Zero
    /// beyond word 3.
    #[must_use]
    #[inline(always)]
    pub const fn word(self, index: usize) -> u32 {
        if index > 3 {
            return 0;
        }
        (self.0 >> (96 - 32 * index)) as u32
    }
}

impl From<Ipv4Addr> for Address {
    fn from(address: Ipv4Addr) -> Self {
        Self::from_v4(address.octets())
    }
}

impl From<Ipv6Addr> for Address {
    fn from(address: Ipv6Addr) -> Self {
        Self(address.to_bits())
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => v6.into(),
        }
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> Self {
        address.to_ip()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_ip().fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let ip: IpAddr = text.parse().map_err(|_| AddressError::Address)?;
        Ok(ip.into())
    }
}

/// An address and a port; the port is zero where a packet has none.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The IP address.
    pub address: Address,
    /// The TCP or UDP port, or the identifier of an ICMP echo.
    pub port: u16,
}

impl Endpoint {
    /// Puts an address and a port together.
    #[must_use]
    #[inline(always)]
    pub const fn new(address: Address, port: u16) -> Self {
        Self { address, port }
    }

    /// An IPv4 endpoint.
    #[must_use]
    pub const fn v4(octets: [u8; 4], port: u16) -> Self {
        Self::new(Address::from_v4(octets), port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.address.to_ip(), self.port).fmt(f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip().into(), address.port())
    }
}

impl FromStr for Endpoint {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let socket: SocketAddr = text.parse().map_err(|_| AddressError::Endpoint)?;
        Ok(socket.into())
    }
}

/// An Ethernet address.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// `00:00:00:00:00:00`.
    pub const ZERO: Self = Self([0; 6]);
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            *octet = parts.next().and_then(hex_octet).ok_or(AddressError::Mac)?;
        }
        match parts.next() {
            None => Ok(Self(octets)),
            Some(_) => Err(AddressError::Mac),
        }
    }
}

fn hex_octet(text: &str) -> Option<u8> {
    let all_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !all_hex || text.is_empty() || text.len() > 2 {
        return None;
    }
    u8::from_str_radix(text, 16).ok()
}

/// A text that is not what it should be.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Not an IPv4 or IPv6 address.
    #[error("not an IPv4 or IPv6 address")]
    Address,
    /// Not `a.b.c.d:port` or `[v6]:port`.
    #[error("not an endpoint such as 10.0.0.1:80 or [2001:db8::1]:80")]
    Endpoint,
    /// Not six pairs of hexadecimal digits with colons.
    #[error("not a MAC address such as 02:00:00:00:00:01")]
    Mac,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v4_is_mapped() {
        let address = Address::from_v4([10, 0, 0, 1]);
        assert!(address.is_v4());
        assert_eq!(address.word(3), 0x0a00_0001);
        assert_eq!(address.word(2), 0xffff);
        assert_eq!(address.word(4), 0);
        assert_eq!(address.octets4(), [10, 0, 0, 1]);
        assert_eq!(address.to_string(), "10.0.0.1");
        assert_eq!(address, "10.0.0.1".parse().unwrap());
        assert_eq!(address, "::ffff:10.0.0.1".parse().unwrap());
    }

    #[test]
    fn v6_is_the_number() {
        let address: Address = "2001:db8::1".parse().unwrap();
        assert!(!address.is_v4());
        assert_eq!(address.word(0), 0x2001_0db8);
        assert_eq!(Address::from_v6(address.octets16()), address);
        assert_eq!(address.to_string(), "2001:db8::1");
        assert!(!Address::UNSPECIFIED_V6.is_v4());
    }

    #[test]
    fn endpoints_read_back() {
        for text in ["10.0.0.1:80", "[2001:db8::1]:80"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in ["10.0.0.1", "2001:db8::1:80", "10.0.0.1:65536", ""] {
            assert_eq!(text.parse::<Endpoint>(), Err(AddressError::Endpoint));
        }
    }

    #[test]
    fn macs_read_back() {
        let mac: MacAddress = "02:00:5e:10:0:fF".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:5e:10:00:ff");
        for text in [
            "",
            "02",
            "02:00:00:00:00:00:00",
            "02:00:00:00:00:+1",
            "02:00:00:00:00:100",
        ] {
            assert_eq!(text.parse::<MacAddress>(), Err(AddressError::Mac), "{text}");
        }
    }
}
