//! ARP for IPv4 over Ethernet (RFC 826): who has an address, and who says so.

use crate::address::{Address, MacAddress};
use crate::bytes::u16_at;
use crate::ethernet::MIN_FRAME_BYTES;
use crate::vlan;

/// EtherType of ARP.
pub const ETHER_TYPE: u16 = 0x0806;
/// Length of a message in bytes.
const MESSAGE_BYTES: usize = 28;
/// Hardware type, protocol type, and the lengths of the two kinds of address.
const KINDS: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// What a message says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Whether it answers a question.
    pub is_reply: bool,
    /// The sender's MAC address.
    pub sender_mac: MacAddress,
    /// The sender's IPv4 address.
    pub sender: Address,
    /// The MAC address of whom it is for; of no meaning in a question.
    pub target_mac: MacAddress,
    /// The IPv4 address of whom it is for: the one that is asked for.
    pub target: Address,
}

impl Arp {
    /// The message of a frame that is in no VLAN; `None` if it is none that this host understands.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let start = vlan::carried_at(frame);
        let message = frame.get(start..start + MESSAGE_BYTES)?;
        if u16_at(frame, start - 2) != ETHER_TYPE || message[..6] != KINDS {
            return None;
        }
        let is_reply = match u16_at(message, 6) {
            REQUEST => false,
            REPLY => true,
            _ => return None,
        };
        let mac = |at: usize| Some(MacAddress(*message[at..].first_chunk()?));
        let address = |at: usize| Some(Address::from_v4(*message[at..].first_chunk()?));
        Some(Self {
            is_reply,
            sender_mac: mac(8)?,
            sender: address(14)?,
            target_mac: mac(18)?,
            target: address(24)?,
        })
    }

    /// A whole frame with the message, from its sender to `destination`.
    #[must_use]
    pub fn to_frame(&self, destination: MacAddress) -> [u8; MIN_FRAME_BYTES] {
        let mut frame = [0; MIN_FRAME_BYTES];
        let mut put = |at: usize, bytes: &[u8]| frame[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &destination.0);
        put(6, &self.sender_mac.0);
        put(12, &ETHER_TYPE.to_be_bytes());
        put(14, &KINDS);
        let operation = if self.is_reply { REPLY } else { REQUEST };
        put(20, &operation.to_be_bytes());
        put(22, &self.sender_mac.0);
        put(28, &self.sender.octets4());
        put(32, &self.target_mac.0);
        put(38, &self.target.octets4());
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Arp {
        Arp {
            is_reply: true,
            sender_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            sender: Address::from_v4([10, 0, 0, 1]),
            target_mac: MacAddress([2, 0, 0, 0, 0, 2]),
            target: Address::from_v4([10, 0, 0, 2]),
        }
    }

    #[test]
    fn messages_survive_the_wire() {
        for is_reply in [false, true] {
            let sent = Arp {
                is_reply,
                ..message()
            };
            let frame = sent.to_frame(MacAddress([0xff; 6]));
            assert_eq!(Arp::of(&frame), Some(sent));
        }
    }

    #[test]
    fn what_is_cut_or_of_another_kind_is_no_message() {
        let frame = message().to_frame(MacAddress([0xff; 6]));
        for len in 0..42 {
            assert_eq!(Arp::of(&frame[..len]), None);
        }
        for at in 12..22 {
            let mut other = frame;
            other[at] ^= 0x40;
            assert_eq!(Arp::of(&other), None, "byte {at}");
        }
    }
}
