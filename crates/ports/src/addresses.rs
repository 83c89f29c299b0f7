//! The addresses that the kernel has, and whether it forwards what it receives there.

use crate::sys;
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
/// for itself, with addresses there or without. No where it does not tell.
pub fn kernel_forwards(device: &str, version: &str) -> bool {
    let is_on = |name| setting(device, version, name).is_some_and(|value| value != 0);
    is_on("forwarding") && !is_on("disable_ipv6")
}

/// Whether the kernel takes addresses and routes of IPv6 from whoever advertises them at an interface
/// (RFC 4861 §6.3.4; `accept_ra`, of which 1 is for hosts, that do not forward). No where it does not tell.
pub fn kernel_takes_advertisements(device: &str) -> bool {
    let value = |name| setting(device, "ipv6", name).unwrap_or(0);
    let is_host = value("forwarding") == 0;
    value("disable_ipv6") == 0 && (value("accept_ra") == 2 || is_host && value("accept_ra") != 0)
}

/// A number among the kernel's settings of an interface.
fn setting(device: &str, version: &str, name: &str) -> Option<i32> {
    let path = format!("/proc/sys/net/{version}/conf/{device}/{name}");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Nothing for addresses of other kinds.
fn read(one: &libc::ifaddrs) -> Option<KernelAddress> {
    let address = ip(one.ifa_addr)?;
    Some(KernelAddress {
        device: sys::name_of(one)?,
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
    use twinpath_netns::{Network, is_possible};

    /// As the kernel decides by its settings.
    #[test]
    fn settings_of_an_interface_are_read() {
        if !is_possible() {
            return;
        }
        let mut network = Network::new();
        network.cable("middle port0", "left eth0");
        let set = |words: &str| {
            let set = network.run("middle", "sysctl", &["-qw", &format!("net.{words}")]);
            assert!(set.status.success(), "{set:?}");
        };
        let asked = || {
            let v4_and_v6 = || ["ipv4", "ipv6"].map(|version| kernel_forwards("port0", version));
            let both = move || (v4_and_v6(), kernel_takes_advertisements("port0"));
            network.on("middle", both).join().expect("no panic")
        };
        set("ipv4.ip_forward=0");
        for (words, forwards, takes) in [
            ("ipv6.conf.port0.accept_ra=1", [false, false], true),
            ("ipv4.conf.port0.forwarding=1", [true, false], true),
            ("ipv6.conf.port0.forwarding=1", [true, true], false),
            ("ipv6.conf.port0.accept_ra=2", [true, true], true),
            ("ipv6.conf.port0.disable_ipv6=1", [true, false], false),
            ("ipv6.conf.port0.disable_ipv6=0", [true, true], true),
            ("ipv6.conf.port0.accept_ra=0", [true, true], false),
        ] {
            set(words);
            assert_eq!(asked(), (forwards, takes), "{words}");
        }
        assert!(!kernel_forwards("no-such-if", "ipv4"));
    }

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
