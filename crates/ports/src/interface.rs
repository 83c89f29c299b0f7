//! What the kernel tells of an interface.

use crate::master::Master;
use crate::{carrier, sys};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsRawFd;

/// An interface, as it is at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, whichever of its names it was asked for by.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// The longest packet that it sends, in bytes, without the Ethernet header.
    pub mtu: usize,
    /// Whether it is up and has a carrier.
    pub is_running: bool,
    /// How often it has lost its carrier since it was made; 0 where the kernel does not tell.
    pub carrier_losses: u32,
    /// The name of its driver; empty if it does not tell.
    pub driver: String,
    /// Whether a device of the machine's (or of a virtual machine's) is behind it, and not the kernel
    /// alone.
    pub is_hardware: bool,
    /// Receive queues in use.
    pub queues: u32,
    /// How many receive queues may be in use at most.
    pub most_queues: u32,
    /// What takes the frames that arrive there, if something does, such as a bridge.
    pub master: Option<Master>,
}

/// The longest name of an interface in bytes, without the zero at its end.
pub const MAX_NAME: usize = libc::IFNAMSIZ - 1;

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GLINK: u32 = 0x0a;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// Of ethtool's flags: VLAN tags (802.1Q) are taken off frames that arrive.
const STRIPS_TAGS: u32 = 1 << 8;

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    rest: [u8; 64],
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
        let name = &sys::interface_name(index).ok_or(io::ErrorKind::NotFound)?;
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
        let fd = socket.as_raw_fd();
        let (driver, is_hardware) = driver(fd, name);
        let (queues, most_queues) = queues(fd, name);
        Ok(Self {
            name: name.clone(),
            index,
            mac: std::array::from_fn(|at| hardware[at] as u8),
            mtu: usize::try_from(mtu).unwrap_or(0),
            is_running: flags & libc::IFF_UP != 0 && has_carrier(fd, name),
            carrier_losses: carrier::losses(index).unwrap_or(0),
            driver,
            is_hardware,
            queues,
            most_queues,
            // Who is not told knows of none.
            master: Master::of(index).ok().flatten(),
        })
    }

    /// Whether it is a tap (or a tun) that a program has made.
    pub fn is_tap(&self) -> bool {
        self.driver == "tun"
    }
}

/// The names of all interfaces of this host in their order, each once.
pub fn interface_names() -> Vec<String> {
    let mut names = BTreeSet::new();
    // Who is not told has none to tell of.
    let _ = sys::interface_addresses(|one| names.extend(sys::name_of(one)));
    names.into_iter().collect()
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

/// The name of an interface's driver, and whether it drives a device.
fn driver(fd: i32, name: &str) -> (String, bool) {
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        version: [0; 32],
        firmware: [0; 32],
        bus: [0; 32],
        rest: [0; 64],
    };
    match ethtool(fd, name, &mut info) {
        true => (text(&info.driver), is_on_a_bus(&text(&info.bus))),
        false => (String::new(), false),
    }
}

/// Whether this is where on a bus a device is, and not what the kernel says of those that are nowhere.
fn is_on_a_bus(bus: &str) -> bool {
    const NONE: [&str; 5] = ["", "N/A", "tap", "tun", "virtual"];
    !NONE.contains(&bus)
}

fn text(field: &[u8]) -> String {
    let text = field.split(|&byte| byte == 0).next();
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}

/// How many receive queues are in use, and how many may be.
fn queues(fd: i32, name: &str) -> (u32, u32) {
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    if !ethtool(fd, name, &mut channels) {
        return (1, 1);
    }
    let [most_receive, _, _, most_combined] = channels.most;
    let queues = (channels.receive + channels.combined).max(1);
    (
        queues,
        most_receive.saturating_add(most_combined).max(queues),
    )
}

/// Whether an interface takes VLAN tags off frames that arrive, and keeps them beside them.
pub(crate) fn strips_tags(name: &str) -> io::Result<bool> {
    Ok(flags(name)? & STRIPS_TAGS != 0)
}

/// Has an interface take VLAN tags off, or not.
///
/// # Errors
/// It cannot do otherwise, or it is not permitted.
pub(crate) fn set_strips_tags(name: &str, strips: bool) -> io::Result<()> {
    let others = flags(name)? & !STRIPS_TAGS;
    let wanted = match strips {
        true => others | STRIPS_TAGS,
        false => others,
    };
    ask_flags(name, [ETHTOOL_SFLAGS, wanted]).map(|_| ())
}

fn flags(name: &str) -> io::Result<u32> {
    ask_flags(name, [ETHTOOL_GFLAGS, 0])
}

fn ask_flags(name: &str, mut question: [u32; 2]) -> io::Result<u32> {
    let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    match ethtool(socket.as_raw_fd(), name, &mut question) {
        true => Ok(question[1]),
        false => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_from_what_the_kernel_makes() {
        for bus in ["0000:01:00.0", "virtio0", "usb-0000:00:14.0-2", "vif-0"] {
            assert!(is_on_a_bus(bus), "{bus}");
        }
        assert!(["", "N/A", "tap"].iter().all(|bus| !is_on_a_bus(bus)));
        assert!(!Interface::of("lo").expect("every host has one").is_hardware);
    }

    #[test]
    fn the_loopback_is_known_and_a_stranger_is_not() {
        let loopback = Interface::of("lo").expect("every host has one");
        assert!(loopback.index > 0 && loopback.mtu >= 1500);
        assert_eq!((loopback.mac, loopback.queues), ([0; 6], 1));
        assert!(interface_names().contains(&"lo".into()));
        assert!(Interface::of("no-such-if").is_err());
        assert!(Interface::of("a\0b").is_err());
    }
}
