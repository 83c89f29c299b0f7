//! The addresses that the kernel has, and whether it forwards what it receives there.

use crate::sys;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelAddress {
    /// The interface's name.
    pub device: String,
    /// The address.
    pub address: IpAddr,
    /// How many leading bits its network has.
    pub prefix_bits: u8,
}

/// All that the kernel has in this network namespace.
///
/// # Errors
/// It does not tell.
pub fn kernel_addresses() -> io::Result<Vec<KernelAddress>> {
    let mut all = Vec::new();
    sys::interface_addresses(|one| all.extend(read(one)))?;
    Ok(all)
}

impl KernelAddress {
    /// The version of IP, as the kernel's settings call it: `ipv4` or `ipv6`.
    pub const fn version(&self) -> &'static str {
        match self.address {
            IpAddr::V4(_) => "ipv4",
            IpAddr::V6(_) => "ipv6",
        }
    }
}

/// Whether the kernel forwards what an interface receives of a version of IP (`ipv4` or `ipv6`) that is not
/// for itself. No where it does not tell.
pub fn kernel_forwards(device: &str, version: &str) -> bool {
    let path = format!("/proc/sys/net/{version}/conf/{device}/forwarding");
    std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
}

/// Nothing for addresses of other kinds.
fn read(one: &libc::ifaddrs) -> Option<KernelAddress> {
    if one.ifa_name.is_null() {
        return None;
    }
    let address = ip(one.ifa_addr)?;
    // SAFETY: a string that ends with a zero, and is there as long as the list is.
    let device = unsafe { CStr::from_ptr(one.ifa_name) };
    Some(KernelAddress {
        device: device.to_string_lossy().into_owned(),
        address,
        prefix_bits: prefix_bits(address, ip(one.ifa_netmask)),
    })
}

/// An address of the system's list, if there is one and it is of IP.
fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: an address that is there begins with its family.
    let family = unsafe { (*address).sa_family };
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: addresses of this family are of this kind.
            let address = unsafe { (*address.cast::<libc::sockaddr_in>()).sin_addr };
            Some(IpAddr::V4(Ipv4Addr::from_bits(u32::from_be(
                address.s_addr,
            ))))
        }
        libc::AF_INET6 => {
            // SAFETY: addresses of this family are of this kind.
            let address = unsafe { (*address.cast::<libc::sockaddr_in6>()).sin6_addr };
            Some(IpAddr::V6(Ipv6Addr::from(address.s6_addr)))
        }
        _ => None,
    }
}

/// How long the network of an address is by its mask; without one it is the address alone.
fn prefix_bits(address: IpAddr, mask: Option<IpAddr>) -> u8 {
    let bits = match (address, mask) {
        (_, Some(IpAddr::V4(mask))) => mask.to_bits().leading_ones(),
        (_, Some(IpAddr::V6(mask))) => mask.to_bits().leading_ones(),
        (IpAddr::V4(_), None) => Ipv4Addr::BITS,
        (IpAddr::V6(_), None) => Ipv6Addr::BITS,
    };
    bits as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_its_address() {
        let all = kernel_addresses().expect("it tells");
        let local = KernelAddress {
            device: "lo".into(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            prefix_bits: 8,
        };
        let has_loopback = all.iter().any(|one| one.device == "lo");
        assert!(!has_loopback || all.contains(&local), "{all:?}");
    }
}
