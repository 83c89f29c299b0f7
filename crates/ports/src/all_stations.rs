//! Frames for other stations. A card hands over what is for its own address, and for groups that somebody
//! has joined, unless somebody wants everything: a packet socket that says so ([packet(7)], promiscuous
//! mode). The card goes on for as long as that is open, however its process ends.
//!
//! [packet(7)]: https://man7.org/linux/man-pages/man7/packet.7.html

use crate::descriptor_store::DescriptorStore;
use crate::interface::Interface;
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// An interface hands over everything, as this socket is open.
///
/// # Errors
/// What the system says.
pub fn ask_for(socket: &OwnedFd, interface: &Interface) -> io::Result<()> {
    let everything = libc::packet_mreq {
        mr_ifindex: interface.index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let membership = libc::PACKET_ADD_MEMBERSHIP;
    sys::set_option(socket, libc::SOL_PACKET, membership, everything)
}

/// An interface hands over everything for as long as this is there, by whatever way it is received:
/// nothing arrives at this socket.
#[derive(Debug)]
pub struct AllStations {
    _socket: OwnedFd,
}

impl AllStations {
    /// Of an interface; the socket outlives the process where somebody keeps it.
    ///
    /// # Errors
    /// It is not permitted (CAP_NET_RAW).
    pub fn of(interface: &Interface, descriptor_store: &DescriptorStore) -> io::Result<Self> {
        let name = name(interface.index);
        if let Some(socket) = descriptor_store.take(&name) {
            if sys::is_of_this_network(&socket) {
                return Ok(Self { _socket: socket });
            }
            descriptor_store.forget(&name);
        }
        // Of no protocol.
        let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        ask_for(&socket, interface)?;
        descriptor_store.keep(&name, &socket);
        Ok(Self { _socket: socket })
    }

    /// Nobody keeps it any more.
    pub fn forget(interface: u32, descriptor_store: &DescriptorStore) {
        descriptor_store.forget(&name(interface));
    }
}

/// The number of an interface is never another's.
fn name(interface: u32) -> String {
    format!("stations-{interface}")
}
