//! The addresses that the kernel has.

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

/// Nothing for addresses of other kinds.
fn read(one: &libc::ifaddrs) -> Option<KernelAddress> {
    if one.ifa_addr.is_null() || one.ifa_name.is_null() {
        return None;
    }
    // SAFETY: an address that is there begins with its family.
    let family = unsafe { (*one.ifa_addr).sa_family };
    let address = match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: addresses of this family are of this kind.
            let address = unsafe { (*one.ifa_addr.cast::<libc::sockaddr_in>()).sin_addr };
            IpAddr::V4(Ipv4Addr::from_bits(u32::from_be(address.s_addr)))
        }
        libc::AF_INET6 => {
            // SAFETY: addresses of this family are of this kind.
            let address = unsafe { (*one.ifa_addr.cast::<libc::sockaddr_in6>()).sin6_addr };
            IpAddr::V6(Ipv6Addr::from(address.s6_addr))
        }
        _ => return None,
    };
    // SAFETY: a string that ends with a zero, and is there as long as the list is.
    let device = unsafe { CStr::from_ptr(one.ifa_name) };
    Some(KernelAddress {
        device: device.to_string_lossy().into_owned(),
        address,
    })
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
        };
        let has_loopback = all.iter().any(|one| one.device == "lo");
        assert!(!has_loopback || all.contains(&local), "{all:?}");
    }
}
