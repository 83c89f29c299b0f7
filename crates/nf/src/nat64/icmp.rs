//! ICMP messages of one version as those of the other (RFC 7915 §4.2, §4.3, §5.2, §5.3).

use super::ends::{Ends, Untranslatable, mend};
use twinpath_core::wire::checksum::pseudo_header;
use twinpath_core::wire::icmp::{CHECKSUM_AT, IDENTIFIER_AT, v4, v6};
use twinpath_core::wire::protocol;

/// Smallest MTU of IPv6.
const LEAST_MTU: u32 = 1280;
/// How much longer a header of IPv6 is.
const LONGER: u32 = 20;

/// Type, code, and the four bytes behind the checksum.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub kind: u8,
    pub code: u8,
    pub rest: u32,
}

/// Turns an echo into that of the other version. Its identifier is the port of both ends.
pub(super) fn translate_echo(
    message: &mut [u8],
    message_bytes: usize,
    old: Ends,
    new: Ends,
) -> Result<(), Untranslatable> {
    let to_v4 = new.source.address.is_v4();
    let kind = match (to_v4, message.first()) {
        (true, Some(&v6::ECHO_REQUEST)) => v4::ECHO_REQUEST,
        (true, Some(&v6::ECHO_REPLY)) => v4::ECHO_REPLY,
        (false, Some(&v4::ECHO_REQUEST)) => v6::ECHO_REQUEST,
        (false, Some(&v4::ECHO_REPLY)) => v6::ECHO_REPLY,
        _ => return Err(Untranslatable::Message),
    };
    let Some(header) = message.first_chunk_mut::<8>() else {
        return Err(Untranslatable::Message);
    };
    let words = |header: &[u8; 8]| {
        (u64::from(header[0]) << 8) + u64::from(u16::from_be_bytes([header[4], header[5]]))
    };
    let before = words(header);
    header[0] = kind;
    header[IDENTIFIER_AT..IDENTIFIER_AT + 2].copy_from_slice(&new.source.port.to_be_bytes());
    let after = words(header);
    let pseudo = |ends: Ends| {
        let (source, destination) = (ends.source.address, ends.destination.address);
        pseudo_header(source, destination, protocol::ICMP6, message_bytes as u32)
    };
    let (old, new) = match to_v4 {
        true => (before + pseudo(old), after),
        false => (before, after + pseudo(new)),
    };
    mend(message, CHECKSUM_AT, old, new, false);
    Ok(())
}

/// An error of IPv4 as one of IPv6; `None` if it has no counterpart.
pub(super) fn error_to_v6(error: Message) -> Option<Message> {
    let Message { kind, code, rest } = error;
    let unreachable = |code| {
        Some(Message {
            kind: v6::UNREACHABLE,
            code,
            rest: 0,
        })
    };
    match (kind, code) {
        (v4::UNREACHABLE, 0 | 1 | 5..=8 | 11 | 12) => unreachable(0),
        (v4::UNREACHABLE, 2) => Some(Message {
            kind: v6::PARAMETER_PROBLEM,
            code: 1,
            // Of the next header.
            rest: 6,
        }),
        (v4::UNREACHABLE, 3) => unreachable(4),
        (v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED) => Some(Message {
            kind: v6::PACKET_TOO_BIG,
            code: 0,
            // Old routers say nothing: the least will do.
            rest: ((rest & 0xffff) + LONGER).max(LEAST_MTU),
        }),
        (v4::UNREACHABLE, 9 | 10 | 13 | 15) => unreachable(1),
        (v4::TIME_EXCEEDED, code) => Some(Message {
            kind: v6::TIME_EXCEEDED,
            code,
            rest: 0,
        }),
        (v4::PARAMETER_PROBLEM, 0 | 2) => {
            let pointer = match rest >> 24 {
                pointer @ (0 | 1) => pointer,
                2 | 3 => 4,
                8 => 7,
                9 => 6,
                12..=15 => 8,
                16..=19 => 24,
                _ => return None,
            };
            Some(Message {
                kind: v6::PARAMETER_PROBLEM,
                code: 0,
                rest: pointer,
            })
        }
        _ => None,
    }
}

/// An error of IPv6 as one of IPv4.
pub(super) fn error_to_v4(error: Message) -> Option<Message> {
    let Message { kind, code, rest } = error;
    let unreachable = |code| {
        Some(Message {
            kind: v4::UNREACHABLE,
            code,
            rest: 0,
        })
    };
    match (kind, code) {
        (v6::UNREACHABLE, 0 | 2 | 3) => unreachable(1),
        (v6::UNREACHABLE, 1) => unreachable(10),
        (v6::UNREACHABLE, 4) => unreachable(3),
        (v6::PACKET_TOO_BIG, _) => Some(Message {
            kind: v4::UNREACHABLE,
            code: v4::FRAGMENTATION_NEEDED,
            rest: rest.saturating_sub(LONGER).min(0xffff),
        }),
        (v6::TIME_EXCEEDED, code) => Some(Message {
            kind: v4::TIME_EXCEEDED,
            code,
            rest: 0,
        }),
        (v6::PARAMETER_PROBLEM, 1) => unreachable(2),
        (v6::PARAMETER_PROBLEM, 0) => {
            let pointer = match rest {
                pointer @ (0 | 1) => pointer,
                4 | 5 => 2,
                6 => 9,
                7 => 8,
                8..=23 => 12,
                24..=39 => 16,
                _ => return None,
            };
            Some(Message {
                kind: v4::PARAMETER_PROBLEM,
                code: 0,
                rest: pointer << 24,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, code: u8, rest: u32) -> Message {
        Message { kind, code, rest }
    }

    /// RFC 7915 §4.2 and figure 3.
    #[test]
    fn errors_of_ipv4() {
        for (from, to) in [
            (message(3, 1, 0), Some(message(1, 0, 0))),
            (message(3, 2, 0), Some(message(4, 1, 6))),
            (message(3, 3, 0), Some(message(1, 4, 0))),
            (message(3, 4, 1400), Some(message(2, 0, 1420))),
            (message(3, 4, 0), Some(message(2, 0, 1280))),
            (message(3, 13, 0), Some(message(1, 1, 0))),
            (message(3, 14, 0), None),
            (message(4, 0, 0), None),
            (message(5, 0, 0), None),
            (message(11, 1, 0), Some(message(3, 1, 0))),
            (message(12, 0, 8 << 24), Some(message(4, 0, 7))),
            (message(12, 0, 5 << 24), None),
            (message(12, 1, 0), None),
        ] {
            assert_eq!(error_to_v6(from), to, "{from:?}");
        }
    }

    /// RFC 7915 §5.2 and figure 6.
    #[test]
    fn errors_of_ipv6() {
        for (from, to) in [
            (message(1, 0, 0), Some(message(3, 1, 0))),
            (message(1, 1, 0), Some(message(3, 10, 0))),
            (message(1, 4, 0), Some(message(3, 3, 0))),
            (message(1, 5, 0), None),
            (message(2, 0, 1400), Some(message(3, 4, 1380))),
            (message(3, 0, 0), Some(message(11, 0, 0))),
            (message(4, 0, 7), Some(message(12, 0, 8 << 24))),
            (message(4, 0, 40), None),
            (message(4, 1, 6), Some(message(3, 2, 0))),
            (message(4, 2, 0), None),
        ] {
            assert_eq!(error_to_v4(from), to, "{from:?}");
        }
    }
}
