//! What the kernel tells of an interface.

use crate::sys;
use std::io;
use std::os::fd::AsRawFd;

/// An interface, as it is at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// The longest packet that it sends, in bytes, without the Ethernet header.
    pub mtu: usize,
    /// Whether it is up and has a carrier.
    pub is_running: bool,
    /// The name of its driver; empty if it does not tell.
    pub driver: String,
    /// Receive queues in use.
    pub queues: u32,
}

/// The longest name of an interface in bytes, without the zero at its end.
pub const MAX_NAME: usize = libc::IFNAMSIZ - 1;

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GLINK: u32 = 0x0a;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

impl Interface {
    /// Asks the kernel.
    ///
    /// # Errors
    /// There is no interface of this name.
    pub fn of(name: &str) -> io::Result<Self> {
        let index = sys::interface_index(name)?;
        let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        let ask = |request| {
            let mut answer = request_for(name);
            sys::ioctl(socket.as_raw_fd(), request, &mut answer).map(|()| answer.ifr_ifru)
        };
        // SAFETY: the kernel has filled the member that each request is about.
        let (hardware, mtu, flags) = unsafe {
            (
                ask(libc::SIOCGIFHWADDR as _)?.ifru_hwaddr.sa_data,
                ask(libc::SIOCGIFMTU as _)?.ifru_mtu,
                i32::from(ask(libc::SIOCGIFFLAGS as _)?.ifru_flags),
            )
        };
        Ok(Self {
            index,
            mac: std::array::from_fn(|at| hardware[at] as u8),
            mtu: usize::try_from(mtu).unwrap_or(0),
            is_running: flags & libc::IFF_UP != 0 && has_carrier(socket.as_raw_fd(), name),
            driver: driver(socket.as_raw_fd(), name),
            queues: queues(socket.as_raw_fd(), name),
        })
    }
}

/// A request about an interface, all zero but for its name.
fn request_for(name: &str) -> libc::ifreq {
    // SAFETY: plain data, of which all zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().take(MAX_NAME).zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    request
}

/// Asks through ethtool's ioctl. Returns whether there was an answer.
fn ethtool<T>(fd: i32, name: &str, question: &mut T) -> bool {
    let mut request = request_for(name);
    request.ifr_ifru.ifru_data = std::ptr::from_mut(question).cast();
    sys::ioctl(fd, libc::SIOCETHTOOL as _, &mut request).is_ok()
}

/// The flag IFF_RUNNING says the same up to a second later. True where nobody knows.
fn has_carrier(fd: i32, name: &str) -> bool {
    let mut link = [ETHTOOL_GLINK, 0];
    !ethtool(fd, name, &mut link) || link[1] != 0
}

fn driver(fd: i32, name: &str) -> String {
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    if !ethtool(fd, name, &mut info) {
        return String::new();
    }
    let text = info.driver.split(|&byte| byte == 0).next();
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}

fn queues(fd: i32, name: &str) -> u32 {
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    match ethtool(fd, name, &mut channels) {
        true => (channels.receive + channels.combined).max(1),
        false => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_known_and_a_stranger_is_not() {
        let loopback = Interface::of("lo").expect("every host has one");
        assert!(loopback.index > 0 && loopback.mtu >= 1500);
        assert_eq!((loopback.mac, loopback.queues), ([0; 6], 1));
        assert!(Interface::of("no-such-if").is_err());
        assert!(Interface::of("a\0b").is_err());
    }
}
