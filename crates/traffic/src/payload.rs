//! What is in the payloads: letters that depend on the flow, the direction and
//! the place in the stream alone, so that a receiver can check every byte.

use std::ops::Range;

use crate::config::Signature;
use crate::packet::Direction;
use crate::random::{Random, RandomSource, mix, streams};

/// Streams repeat after this many bytes.
const PERIOD: usize = 1 << 16;
const ALPHABET: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";

/// The letters of all streams, each beginning at a place of its own.
#[derive(Debug, Clone)]
pub struct Payload {
    letters: Vec<u8>,
}

impl Payload {
    /// The longest slice that [`Payload::bytes`] can give.
    pub const LONGEST: usize = 16 * 1024;

    /// The payload of all flows of a run with this seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::stream(seed, streams::PAYLOAD);
        let mut letters: Vec<u8> = (0..PERIOD)
            .map(|_| ALPHABET[random.below(64) as usize])
            .collect();
        letters.extend_from_within(..Self::LONGEST);
        Self { letters }
    }

    /// The bytes from `offset` on of the stream of this flow in this direction;
    /// at most [`Payload::LONGEST`].
    pub fn bytes(&self, flow: u64, direction: Direction, offset: u32, length: usize) -> &[u8] {
        let start = Self::start(flow, direction).wrapping_add(offset) as usize % PERIOD;
        &self.letters[start..start + length.min(Self::LONGEST)]
    }

    fn start(flow: u64, direction: Direction) -> u32 {
        mix(flow.wrapping_mul(2) + direction as u64) as u32
    }
}

/// The byte strings that some packets carry.
#[derive(Debug, Clone)]
pub(crate) struct Signatures {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    text: Vec<u8>,
    offset: usize,
    /// Sum of the shares up to this entry, as a threshold for 64 random bits.
    below: u64,
}

/// Which signature a packet carries; 0 is none.
pub(crate) type SignatureNumber = u8;

impl Signatures {
    pub(crate) fn new(signatures: &[Signature]) -> Self {
        let mut sum = 0.0;
        let entries = signatures
            .iter()
            .map(|signature| {
                sum += signature.share;
                Entry {
                    text: signature.text.clone().into_bytes(),
                    offset: signature.offset.into(),
                    below: (sum * u64::MAX as f64) as u64,
                }
            })
            .collect();
        Self { entries }
    }

    /// Draws which signature, if any, a payload of this length carries.
    pub(crate) fn draw(&self, random: &mut impl RandomSource, length: usize) -> SignatureNumber {
        if self.entries.is_empty() {
            return 0;
        }
        let point = random.bits();
        let index = self.entries.partition_point(|entry| entry.below <= point);
        let fits = self
            .entries
            .get(index)
            .is_some_and(|e| e.range().end <= length);
        if fits {
            index as SignatureNumber + 1
        } else {
            0
        }
    }

    /// Writes a drawn signature over the payload it was drawn for.
    pub(crate) fn plant(&self, number: SignatureNumber, payload: &mut [u8]) {
        let entry = usize::from(number)
            .checked_sub(1)
            .and_then(|i| self.entries.get(i));
        let Some(entry) = entry else { return };
        if let Some(place) = payload.get_mut(entry.range()) {
            place.copy_from_slice(&entry.text);
        }
    }
}

impl Entry {
    fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(text: &str, offset: u16, share: f64) -> Signature {
        Signature {
            text: text.into(),
            offset,
            share,
        }
    }

    #[test]
    fn slices_of_one_stream_join_up() {
        let payload = Payload::new(1);
        let whole = payload.bytes(5, Direction::ToClient, 0, 1000).to_vec();
        let parts: Vec<u8> = (0..10)
            .flat_map(|i| payload.bytes(5, Direction::ToClient, i * 100, 100).to_vec())
            .collect();
        assert_eq!(whole, parts);
        let wrapped = payload.bytes(5, Direction::ToClient, PERIOD as u32, 1000);
        assert_eq!(whole, wrapped);
    }

    #[test]
    fn streams_differ_by_flow_direction_and_seed() {
        let payload = Payload::new(1);
        let stream = payload.bytes(5, Direction::ToClient, 0, 64);
        assert_ne!(stream, payload.bytes(6, Direction::ToClient, 0, 64));
        assert_ne!(stream, payload.bytes(5, Direction::ToServer, 0, 64));
        assert_ne!(stream, Payload::new(2).bytes(5, Direction::ToClient, 0, 64));
    }

    #[test]
    fn the_longest_slice_is_there_from_every_place() {
        let payload = Payload::new(1);
        for flow in 0..1000 {
            let bytes = payload.bytes(flow, Direction::ToServer, u32::MAX, usize::MAX);
            assert_eq!(bytes.len(), Payload::LONGEST);
        }
    }

    #[test]
    fn signatures_come_at_their_share_where_they_fit() {
        let signatures = Signatures::new(&[signature("one", 0, 0.1), signature("two", 8, 0.3)]);
        let mut random = Random::stream(51, 0);
        let mut counts = [0u32; 3];
        for _ in 0..100_000 {
            counts[usize::from(signatures.draw(&mut random, 11))] += 1;
        }
        assert!(
            counts[1].abs_diff(10_000) < 500 && counts[2].abs_diff(30_000) < 800,
            "{counts:?}"
        );
        assert!((0..1000).all(|_| signatures.draw(&mut random, 10) != 2));
    }

    #[test]
    fn planting_changes_exactly_the_place() {
        let signatures = Signatures::new(&[signature("one", 2, 1.0)]);
        let mut payload = *b"........";
        signatures.plant(0, &mut payload);
        assert_eq!(&payload, b"........");
        signatures.plant(1, &mut payload);
        assert_eq!(&payload, b"..one...");
    }
}
