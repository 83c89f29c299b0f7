//! Neighbour discovery for IPv6 (RFC 4861): who has an address, and who says so.

use crate::address::{Address, MacAddress};
use crate::checksum;
use crate::ethernet;
use crate::ipv6;
use crate::vlan;

/// ICMPv6 type of a question.
pub const SOLICITATION: u8 = 135;
/// ICMPv6 type of an answer.
pub const ADVERTISEMENT: u8 = 136;
/// Only a neighbour can send a packet that arrives with this hop limit.
const HOP_LIMIT: u8 = 255;
const ETHER_TYPE: u16 = 0x86dd;
const ICMP6: u8 = 58;
/// Type, code, checksum, flags and target.
const FIXED_BYTES: usize = 24;
/// Type, length in eights, and a MAC address.
const OPTION_BYTES: usize = 8;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
/// The longest frame that is made.
pub const FRAME_BYTES: usize = MESSAGE_AT + FIXED_BYTES + OPTION_BYTES;
const IP_AT: usize = ethernet::HEADER_BYTES;
const MESSAGE_AT: usize = IP_AT + ipv6::HEADER_BYTES;

/// What a message says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NeighborMessage {
    /// Question or answer.
    pub kind: Kind,
    /// Who sends it; unspecified if a host asks whether an address is free.
    pub source: Address,
    /// Whom it is for: a host, or all that may have the address.
    pub destination: Address,
    /// The address that it is about.
    pub target: Address,
    /// The MAC address that the sender tells: its own.
    pub link_address: Option<MacAddress>,
}

/// A question or an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Who has the target?
    Solicitation,
    /// I have.
    Advertisement {
        /// Whether the sender is a router.
        is_router: bool,
        /// Whether somebody asked.
        is_solicited: bool,
        /// Whether it counts more than what was told before.
        overrides: bool,
    },
}

impl NeighborMessage {
    /// The message of a frame that is in no VLAN; `None` if it is none, or not valid (RFC 4861 §7.1).
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        // As if no tag were there.
        let frame = frame.get(vlan::carried_at(frame) - IP_AT..)?;
        let header = frame.get(IP_AT..MESSAGE_AT)?;
        let is_message = frame[12..14] == ETHER_TYPE.to_be_bytes()
            && header[0] >> 4 == 6
            && header[6] == ICMP6
            && header[7] == HOP_LIMIT;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let message = frame.get(MESSAGE_AT..MESSAGE_AT + length)?;
        if !is_message || message.len() < FIXED_BYTES || message[1] != 0 {
            return None;
        }
        let address = |at: usize| Some(Address::from_v6(*frame[at..].first_chunk()?));
        let (source, destination) = (address(IP_AT + 8)?, address(IP_AT + 24)?);
        let sum = checksum::sum(message)
            + checksum::pseudo_header(source, destination, ICMP6, message.len() as u32);
        if checksum::finish(sum) != 0 {
            return None;
        }
        let (kind, option) = match message[0] {
            SOLICITATION => (Kind::Solicitation, SOURCE_LINK_ADDRESS),
            ADVERTISEMENT => {
                let has = |flag: u8| message[4] & flag != 0;
                let answer = Kind::Advertisement {
                    is_router: has(0x80),
                    is_solicited: has(0x40),
                    overrides: has(0x20),
                };
                (answer, TARGET_LINK_ADDRESS)
            }
            _ => return None,
        };
        let found = Self {
            kind,
            source,
            destination,
            target: address(MESSAGE_AT + 8)?,
            link_address: link_address(&message[FIXED_BYTES..], option)?,
        };
        found.is_valid().then_some(found)
    }

    /// Who asks whether an address is free has none yet, and asks all; an answer to a question is for
    /// whoever asked.
    fn is_valid(&self) -> bool {
        let is_probe = self.source == Address::UNSPECIFIED_V6;
        let is_sent_well = match self.kind {
            Kind::Solicitation if is_probe => {
                self.link_address.is_none() && is_multicast(self.destination)
            }
            Kind::Solicitation => true,
            Kind::Advertisement { is_solicited, .. } => {
                let is_for_all = is_multicast(self.destination);
                !is_probe && (!is_solicited || !is_for_all)
            }
        };
        is_sent_well && !is_multicast(self.target)
    }

    /// A whole frame with the message, and its length.
    #[must_use]
    pub fn to_frame(&self, from: MacAddress, to: MacAddress) -> ([u8; FRAME_BYTES], usize) {
        let mut frame = [0; FRAME_BYTES];
        let option_bytes = if self.link_address.is_some() {
            OPTION_BYTES
        } else {
            0
        };
        let length = FIXED_BYTES + option_bytes;
        let mut put = |at: usize, bytes: &[u8]| frame[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &to.0);
        put(6, &from.0);
        put(12, &ETHER_TYPE.to_be_bytes());
        put(IP_AT, &[0x60]);
        put(IP_AT + 4, &(length as u16).to_be_bytes());
        put(IP_AT + 6, &[ICMP6, HOP_LIMIT]);
        put(IP_AT + 8, &self.source.octets16());
        put(IP_AT + 24, &self.destination.octets16());
        let (kind, flags, option) = match self.kind {
            Kind::Solicitation => (SOLICITATION, 0, SOURCE_LINK_ADDRESS),
            Kind::Advertisement {
                is_router,
                is_solicited,
                overrides,
            } => {
                let flags = [(is_router, 0x80), (is_solicited, 0x40), (overrides, 0x20)];
                let set = flags.iter().filter(|(is_set, _)| *is_set);
                (
                    ADVERTISEMENT,
                    set.map(|(_, flag)| flag).sum(),
                    TARGET_LINK_ADDRESS,
                )
            }
        };
        put(MESSAGE_AT, &[kind, 0, 0, 0, flags]);
        put(MESSAGE_AT + 8, &self.target.octets16());
        if let Some(address) = self.link_address {
            put(MESSAGE_AT + FIXED_BYTES, &[option, 1]);
            put(MESSAGE_AT + FIXED_BYTES + 2, &address.0);
        }
        let sum = checksum::sum(&frame[MESSAGE_AT..MESSAGE_AT + length])
            + checksum::pseudo_header(self.source, self.destination, ICMP6, length as u32);
        let finished = checksum::finish(sum).to_be_bytes();
        frame[MESSAGE_AT + 2..MESSAGE_AT + 4].copy_from_slice(&finished);
        (frame, MESSAGE_AT + length)
    }
}

/// The MAC address in the options, if one is; `None` outside if an option is broken.
#[expect(clippy::option_option, reason = "the outer one is about validity")]
fn link_address(mut options: &[u8], wanted: u8) -> Option<Option<MacAddress>> {
    let mut found = None;
    while let [kind, eights, ..] = *options {
        let bytes = usize::from(eights) * OPTION_BYTES;
        if bytes == 0 || bytes > options.len() {
            return None;
        }
        if kind == wanted && found.is_none() {
            found = options[2..].first_chunk().map(|octets| MacAddress(*octets));
        }
        options = &options[bytes..];
    }
    options.is_empty().then_some(found)
}

/// Whether many hosts listen to an address.
#[must_use]
pub const fn is_multicast(address: Address) -> bool {
    address.0 >> 120 == 0xff
}

/// The address to which the hosts that may have `target` listen (RFC 4291 §2.7.1).
#[must_use]
pub const fn solicited_node(target: Address) -> Address {
    Address(0xff02_0000_0000_0000_0000_0001_ff00_0000 | target.0 & 0xff_ffff)
}

/// The MAC address that stands for a multicast address (RFC 2464 §7).
#[must_use]
pub const fn multicast_mac(address: Address) -> MacAddress {
    let [a, b, c, d] = address.octets4();
    MacAddress([0x33, 0x33, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::dissect;
    use crate::verify::verify_transport_checksum;

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

    fn address(text: &str) -> Address {
        text.parse::<std::net::IpAddr>().expect("an address").into()
    }

    fn question() -> NeighborMessage {
        let target = address("fd00::abcd:1234");
        NeighborMessage {
            kind: Kind::Solicitation,
            source: address("fd00::1"),
            destination: solicited_node(target),
            target,
            link_address: Some(MAC),
        }
    }

    fn answer() -> NeighborMessage {
        NeighborMessage {
            kind: Kind::Advertisement {
                is_router: true,
                is_solicited: true,
                overrides: false,
            },
            destination: address("fd00::2"),
            ..question()
        }
    }

    #[test]
    fn messages_survive_the_wire_and_are_sound_packets() {
        let bare = NeighborMessage {
            link_address: None,
            ..question()
        };
        for message in [question(), answer(), bare] {
            let (frame, len) = message.to_frame(MAC, multicast_mac(message.destination));
            assert_eq!(NeighborMessage::of(&frame[..len]), Some(message));
            let layout = dissect(&frame[..len]).expect("sound");
            assert!(verify_transport_checksum(&frame[..len], &layout));
        }
    }

    #[test]
    fn a_target_has_its_group() {
        let group = solicited_node(address("fd00::abcd:1234"));
        assert_eq!(group, address("ff02::1:ffcd:1234"));
        assert_eq!(multicast_mac(group).0, [0x33, 0x33, 0xff, 0xcd, 0x12, 0x34]);
    }

    #[test]
    fn what_came_from_afar_or_is_broken_is_no_message() {
        let (frame, len) = question().to_frame(MAC, MAC);
        for cut in 0..len {
            assert_eq!(NeighborMessage::of(&frame[..cut]), None);
        }
        // All but flow label and reserved bytes is looked at, by itself or by the checksum.
        for at in (12..15).chain(18..len) {
            let mut other = frame;
            other[at] ^= 0x41;
            assert_eq!(NeighborMessage::of(&other[..len]), None, "byte {at}");
        }
    }

    #[test]
    fn a_probe_tells_no_address_and_an_answer_to_all_no_question() {
        let probe = NeighborMessage {
            source: Address::UNSPECIFIED_V6,
            ..question()
        };
        let to_all = NeighborMessage {
            destination: address("ff02::1"),
            ..answer()
        };
        let of_group = NeighborMessage {
            target: address("ff02::1"),
            ..question()
        };
        for message in [probe, to_all, of_group] {
            let (frame, len) = message.to_frame(MAC, MAC);
            assert_eq!(NeighborMessage::of(&frame[..len]), None);
        }
        let sound = NeighborMessage {
            link_address: None,
            ..probe
        };
        let (frame, len) = sound.to_frame(MAC, MAC);
        assert_eq!(NeighborMessage::of(&frame[..len]), Some(sound));
    }
}
