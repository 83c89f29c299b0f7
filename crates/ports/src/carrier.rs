//! How often an interface has lost its carrier: the kernel counts, also what is over before anybody looks.

use crate::sys;
use std::fs::File;
use std::io::{self, Read, Write};

/// Headers of a message about an interface: `struct nlmsghdr` and `struct ifinfomsg`.
const HEADERS_BYTES: usize = 32;

/// Where in them the number of the interface is.
const INDEX_AT: usize = 20;

/// Longer than what the kernel says of one interface.
const ANSWER_BYTES: usize = 32 << 10;

/// Of an attribute, its length and its type.
const ATTRIBUTE_HEADER_BYTES: usize = 4;

/// How often the carrier was lost, in 32 bits (Linux 4.16).
const CARRIER_DOWN_COUNT: u16 = 48;

/// How often the interface with this number has lost its carrier since it was made. The count begins again
/// behind 2^32.
///
/// # Errors
/// There is none, or the kernel does not tell.
pub fn losses(interface: u32) -> io::Result<u32> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    let socket = sys::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE)?;
    let mut socket = File::from(socket);
    socket.write_all(&question(interface))?;
    let mut answer = vec![0; ANSWER_BYTES];
    let len = socket.read(&mut answer)?;
    let told = answer.get(..len).and_then(losses_in);
    told.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

fn question(interface: u32) -> [u8; HEADERS_BYTES] {
    let mut message = [0; HEADERS_BYTES];
    message[..4].copy_from_slice(&(HEADERS_BYTES as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    message[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message[INDEX_AT..INDEX_AT + 4].copy_from_slice(&interface.to_ne_bytes());
    message
}

/// What a message says, if it is about an interface and says it.
fn losses_in(message: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(*message.get(4..)?.first_chunk()?);
    let mut rest = message.get(HEADERS_BYTES..)?;
    while kind == libc::RTM_NEWLINK && !rest.is_empty() {
        let len = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let attribute = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(ATTRIBUTE_HEADER_BYTES..len)?;
        if attribute == CARRIER_DOWN_COUNT {
            return Some(u32::from_ne_bytes(*value.first_chunk()?));
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of this kind with attributes of these types and values.
    fn message(kind: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut message = question(7).to_vec();
        message[4..6].copy_from_slice(&kind.to_ne_bytes());
        for (attribute, value) in attributes {
            let len = (ATTRIBUTE_HEADER_BYTES + value.len()) as u16;
            message.extend(len.to_ne_bytes());
            message.extend(attribute.to_ne_bytes());
            message.extend(*value);
            message.resize(message.len().next_multiple_of(4), 0);
        }
        message
    }

    #[test]
    fn the_count_is_found_among_others() {
        let nine = 9u32.to_ne_bytes();
        let attributes: [(u16, &[u8]); 3] =
            [(3, b"eth0\0"), (CARRIER_DOWN_COUNT, &nine), (4, &nine)];
        let sound = message(libc::RTM_NEWLINK, &attributes);
        assert_eq!(losses_in(&sound), Some(9));
        assert_eq!(losses_in(&message(2, &attributes)), None, "an error");
        assert_eq!(
            losses_in(&message(libc::RTM_NEWLINK, &attributes[..1])),
            None
        );
        // Whatever is cut off or wrong: nothing, and no end that does not come.
        for len in 0..sound.len() {
            let told = losses_in(&sound[..len]);
            assert!(told.is_none() || told == Some(9), "{len}");
        }
        for byte in [0, 1, 2, 3, 0xff] {
            let mut wrong = sound.clone();
            wrong[HEADERS_BYTES] = byte;
            let _ = losses_in(&wrong);
        }
    }

    #[test]
    fn the_kernel_tells() {
        let loopback = sys::interface_index("lo").expect("every host has one");
        assert!(losses(loopback).is_ok());
        assert!(losses(u32::MAX >> 1).is_err(), "there is none");
    }
}
