//! What an interface belongs to, as the kernel tells by netlink: a master, such as a bridge, takes all that
//! arrives there, and what it sends leaves there.

use crate::sys;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// An interface's master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// Its name.
    pub name: String,
    /// What it is, as `ip link` calls it, such as `bridge`.
    pub kind: String,
}

const GET_LINK: u16 = 18;
const NEW_LINK: u16 = 16;
const REQUEST: u16 = 1;
/// `struct nlmsghdr`, and `struct ifinfomsg` behind it.
const HEADER_BYTES: usize = 16;
const ATTRIBUTES_AT: usize = HEADER_BYTES + 16;
/// `struct nlattr`.
const ATTRIBUTE_BYTES: usize = 4;
const MASTER: u16 = 10;
const LINK_INFO: u16 = 18;
/// Within [`LINK_INFO`].
const SLAVE_KIND: u16 = 4;
/// Bits of an attribute's kind that say how it is written.
const KIND: u16 = 0x3fff;

/// What a router or host keeps apart with a table of its own takes no frames from others.
const WITHOUT_FRAMES: &str = "vrf";

/// An answer is shorter, but for a card with hundreds of functions, which are not asked for.
const ANSWER_BYTES: usize = 32 << 10;

impl Master {
    /// Of the interface of this number; nothing if it has none, or one that leaves it its frames (a VRF).
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn of(index: u32) -> io::Result<Option<Self>> {
        let socket = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        let answer = ask(&socket, index)?;
        let told = read(&answer).filter(|(_, kind)| kind != WITHOUT_FRAMES);
        Ok(told.map(|(master, kind)| Self {
            name: sys::interface_name(master).unwrap_or_else(|| format!("interface {master}")),
            kind,
        }))
    }

    /// Why an interface that belongs to it can be no port, and what to do.
    pub fn refusal(&self, device: &str) -> String {
        format!(
            "{device} belongs to {self}, which takes what arrives there past this service, and sends by it: expected an interface of its own (ip link set {device} nomaster), or {} as the port",
            self.name
        )
    }
}

impl Display for Master {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "the {} {}", self.kind, self.name)
    }
}

fn ask(socket: &OwnedFd, index: u32) -> io::Result<Vec<u8>> {
    let mut question = [0; ATTRIBUTES_AT];
    question[..4].copy_from_slice(&(ATTRIBUTES_AT as u32).to_ne_bytes());
    question[4..6].copy_from_slice(&GET_LINK.to_ne_bytes());
    question[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
    question[HEADER_BYTES + 4..HEADER_BYTES + 8].copy_from_slice(&index.to_ne_bytes());
    sys::send(socket.as_raw_fd(), &question)?;
    // The kernel has answered when the call returns.
    let mut answer = vec![0; ANSWER_BYTES];
    let len = sys::receive(socket.as_raw_fd(), &mut answer)?;
    answer.truncate(len);
    Ok(answer)
}

/// The number of a link's master, and its kind.
fn read(answer: &[u8]) -> Option<(u32, String)> {
    if u16_at(answer, 4)? != NEW_LINK {
        return None;
    }
    let (mut master, mut slave_kind) = (None, None);
    for (kind, value) in attributes(answer.get(ATTRIBUTES_AT..)?) {
        match kind {
            MASTER => master = value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes)),
            LINK_INFO => {
                slave_kind = attributes(value).find_map(|(kind, value)| {
                    let text = value.split(|&byte| byte == 0).next()?;
                    (kind == SLAVE_KIND).then(|| String::from_utf8_lossy(text).into_owned())
                });
            }
            _ => {}
        }
    }
    Some((master?, slave_kind?))
}

/// Kinds and values of attributes, as far as they are whole.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & KIND;
        let value = bytes.get(ATTRIBUTE_BYTES..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Interface;
    use crate::{Driver, Port, PortConfig, State};
    use std::process::Command;
    use twinpath_netns::{Network, is_possible};

    /// A bridge takes frames; who asks for an interface by another name hears of the
    /// same.
    #[test]
    fn who_takes_frames_is_known() {
        if !is_possible() {
            return;
        }
        let mut network = Network::new();
        network.cable("middle port0", "left eth0");
        network.ip("middle", "link property add dev port0 altname zero");
        network.ip("middle", "link add br0 type bridge");
        network.ip("middle", "link set port0 master br0");
        let there = |name: &'static str, network: &Network| {
            let asked = move || Interface::of(name).expect("it is there");
            network.on("middle", asked).join().expect("no panic")
        };
        let of_bridge = there("port0", &network);
        let expected = Master {
            name: "br0".into(),
            kind: "bridge".into(),
        };
        assert_eq!(of_bridge.master, Some(expected));
        assert_eq!(there("zero", &network), of_bridge);
        assert_eq!(there("br0", &network).master, None);
        network.ip("middle", "link set port0 nomaster");
        assert_eq!(there("port0", &network).master, None);
    }

    /// An interface of a bridge is refused by every driver; one that is given to a bridge later is told of once.
    #[test]
    fn an_interface_of_a_bridge_is_no_port() {
        if !is_possible() {
            return;
        }
        let mut network = Network::new();
        network.cable("middle port0", "left eth0");
        network.ip("middle", "link add br0 type bridge");
        let ip = |words: &str| {
            let done = Command::new("ip").args(words.split(' ')).status();
            assert!(done.expect("it can be run").success(), "{words}");
        };
        let middle = network.on("middle", move || {
            for driver in [Driver::Auto, Driver::AfXdp, Driver::AfPacket] {
                let open = || {
                    let device = "port0".into();
                    Port::open(PortConfig {
                        device,
                        driver,
                        is_shared: false,
                    })
                };
                let mut port = open().expect("root may open it");
                assert_eq!(port.condition(), State::Up);
                ip("link set port0 master br0");
                port.poll_state();
                let notes: Vec<_> = port.take_notes().collect();
                assert!(notes[0].starts_with("port0 belongs to the bridge br0, which takes"));
                port.poll_state();
                assert_eq!((port.take_notes().count(), port.state()), (0, State::Up));
                assert_eq!(port.condition(), State::Mastered);
                drop(port);
                let refused = open().err().expect("it is the bridge's").to_string();
                let expected = "expected an interface of its own (ip link set port0 nomaster)";
                assert!(refused.contains(expected), "{refused}");
                ip("link set port0 nomaster");
            }
        });
        middle.join().expect("no panic");
    }

    /// As of a kernel: a link of a master, of which the kind comes first or is not told.
    #[test]
    fn what_is_cut_or_lacks_the_kind_is_no_master() {
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = ((ATTRIBUTE_BYTES + value.len()) as u16)
                .to_ne_bytes()
                .to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let info = attribute(LINK_INFO | 0x8000, &attribute(SLAVE_KIND, b"bridge\0"));
        let master = attribute(MASTER, &7u32.to_ne_bytes());
        let mut header = [0; ATTRIBUTES_AT];
        header[4..6].copy_from_slice(&NEW_LINK.to_ne_bytes());
        let whole = [&header[..], &info, &master].concat();
        assert_eq!(read(&whole), Some((7, "bridge".into())));
        assert!((0..whole.len()).all(|len| read(&whole[..len]).is_none()));
        assert_eq!(read(&[&header[..], &master].concat()), None);
    }
}
