//! What travels in place of a payload, and what lies in front of it in remote memory (Ribosome,
//! Appendix E).
//!
//! ```text
//! Payload Info, behind a header on its way through the function, 18 bytes:
//! | marker 4 | address 8 | length 2 | queue pair 2 | server 2 |
//! Header Info, behind it, and in front of the payload in remote memory, 4 bytes:
//! | sequence, upper 14 bits; pad, 2 bits | sequence, lower 16 bits |
//! ```
//! The paper's Header Info is a count of pad and an index of a slot. Here the bits that the count leaves
//! free hold the upper bits of a sequence number, of which the index is the lower ones, so that one use
//! of a place in the ring is told from another.

use twinpath_core::wire::roce::pad_bytes;

/// Says that Payload Info follows.
pub const MARKER: u32 = 0x5599_1177;
/// Where a payload is.
pub const PAYLOAD_INFO_BYTES: usize = 18;
/// Which payload it is.
pub const HEADER_INFO_BYTES: usize = 4;
/// Both.
pub const CUSTOM_HEADER_BYTES: usize = PAYLOAD_INFO_BYTES + HEADER_INFO_BYTES;

/// Sequence numbers have as many bits.
pub const SEQUENCE_BITS: u32 = 30;
const SEQUENCE_MASK: u32 = (1 << SEQUENCE_BITS) - 1;

/// The number of a payload in its ring: 30 bits, after whose end it begins again.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(u32);

impl Sequence {
    /// The lowest 30 bits.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number & SEQUENCE_MASK)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }

    /// How many come from `earlier` to this one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & SEQUENCE_MASK
    }
}

/// Names a payload in remote memory.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Where its Header Info begins.
    pub address: u64,
    /// The payload in bytes.
    pub bytes: u16,
    /// The queue pair that it is to be read by. A function may choose another one of the same server
    /// (§4, packet schedulers).
    pub queue_pair: u16,
    /// The memory server.
    pub server: u16,
    /// Which use of the place it is.
    pub sequence: Sequence,
}

impl Handle {
    /// The custom header.
    #[must_use]
    pub fn to_bytes(self) -> [u8; CUSTOM_HEADER_BYTES] {
        let mut out = [0; CUSTOM_HEADER_BYTES];
        out[..4].copy_from_slice(&MARKER.to_be_bytes());
        out[4..12].copy_from_slice(&self.address.to_be_bytes());
        out[12..14].copy_from_slice(&self.bytes.to_be_bytes());
        out[14..16].copy_from_slice(&self.queue_pair.to_be_bytes());
        out[16..18].copy_from_slice(&self.server.to_be_bytes());
        out[18..].copy_from_slice(&header_info(self.sequence, self.bytes));
        out
    }

    /// Reads a custom header; `None` if it is none.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; CUSTOM_HEADER_BYTES] = bytes.first_chunk()?;
        let [m0, m1, m2, m3, rest @ ..] = *bytes;
        let [a0, a1, a2, a3, a4, a5, a6, a7, rest @ ..] = rest;
        let [l0, l1, q0, q1, s0, s1, h0, h1, i0, i1] = rest;
        let info = [h0, h1, i0, i1];
        let payload_bytes = u16::from_be_bytes([l0, l1]);
        let sequence = sequence_of(info);
        let is_one = u32::from_be_bytes([m0, m1, m2, m3]) == MARKER
            && header_info(sequence, payload_bytes) == info;
        is_one.then_some(Self {
            address: u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            bytes: payload_bytes,
            queue_pair: u16::from_be_bytes([q0, q1]),
            server: u16::from_be_bytes([s0, s1]),
            sequence,
        })
    }
}

/// What stands in front of a payload in remote memory.
#[must_use]
pub fn header_info(sequence: Sequence, payload_bytes: u16) -> [u8; HEADER_INFO_BYTES] {
    let pad = pad_bytes(payload_bytes.into()) as u32;
    let upper = sequence.number() >> 16;
    let lower = sequence.number() & 0xffff;
    (upper << 18 | pad << 16 | lower).to_be_bytes()
}

fn sequence_of(info: [u8; HEADER_INFO_BYTES]) -> Sequence {
    let word = u32::from_be_bytes(info);
    Sequence::new(word >> 18 << 16 | word & 0xffff)
}

/// Header Info and pad in front of a payload of so many bytes.
#[must_use]
pub const fn front_bytes(payload_bytes: usize) -> usize {
    HEADER_INFO_BYTES + pad_bytes(payload_bytes)
}

/// What a payload of so many bytes takes in remote memory: a multiple of four.
#[must_use]
pub const fn stored_bytes(payload_bytes: usize) -> usize {
    front_bytes(payload_bytes) + payload_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_handle_is_read_as_it_was_written(address: u64, words: [u16; 3], sequence: u32) {
            let [bytes, queue_pair, server] = words;
            let sequence = Sequence::new(sequence);
            let handle = Handle { address, bytes, queue_pair, server, sequence };
            prop_assert_eq!(Handle::of(&handle.to_bytes()), Some(handle));
            prop_assert_eq!(stored_bytes(bytes.into()) % 4, 0);
        }

        #[test]
        fn any_bytes_are_a_handle_or_none(bytes: [u8; CUSTOM_HEADER_BYTES], is_marked: bool) {
            let mut bytes = bytes;
            if is_marked {
                bytes[..4].copy_from_slice(&MARKER.to_be_bytes());
            }
            if let Some(handle) = Handle::of(&bytes) {
                prop_assert_eq!(handle.to_bytes(), bytes);
            }
        }
    }

    #[test]
    fn the_layout_is_the_papers() {
        let handle = Handle {
            address: 0x0102_0304_0506_0708,
            bytes: 1397,
            queue_pair: 5,
            server: 6,
            sequence: Sequence::new(0x1234),
        };
        let expected = [
            0x55, 0x99, 0x11, 0x77, 1, 2, 3, 4, 5, 6, 7, 8, 5, 0x75, 0, 5, 0, 6, 0, 3, 0x12, 0x34,
        ];
        assert_eq!(handle.to_bytes(), expected);
    }
}
