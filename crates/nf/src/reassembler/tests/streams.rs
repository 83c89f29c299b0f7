//! Random segments of a stream against a byte array.

use super::bench::{Bench, Released, Sent};
use crate::reassembler::{Config, Overlap, Retransmissions};
use proptest::collection::vec;
use proptest::prelude::*;
use twinpath_core::wire::tcp::flags;
use twinpath_core::{Direction, DropReason};

/// What a FIN is in an array of bytes.
const FIN_MARK: u16 = 256;

/// A part of the stream.
#[derive(Clone, Debug)]
struct Part {
    start: usize,
    bytes: Vec<u8>,
    fin: bool,
}

impl Part {
    fn end(&self) -> usize {
        self.start + self.bytes.len() + usize::from(self.fin)
    }

    fn sent(&self, first: u32) -> Sent {
        let fin = if self.fin { flags::FIN } else { 0 };
        let sent = Sent::data(
            Direction::Original,
            first.wrapping_add(self.start as u32),
            &self.bytes,
        );
        Sent {
            flags: flags::ACK | fin,
            ..sent
        }
    }
}

/// The obviously right reassembler: an array of what is known of the stream.
struct Array {
    known: Vec<Option<u16>>,
    delivered: usize,
}

impl Array {
    fn new(len: usize) -> Self {
        Self {
            known: vec![None; len],
            delivered: 0,
        }
    }

    fn take(&mut self, part: &Part, overlap: Overlap) {
        let symbols = part
            .bytes
            .iter()
            .map(|&byte| u16::from(byte))
            .chain(part.fin.then_some(FIN_MARK));
        for (index, symbol) in (part.start..).zip(symbols) {
            if index >= self.delivered && (overlap == Overlap::Last || self.known[index].is_none())
            {
                self.known[index] = Some(symbol);
            }
        }
        while self.known.get(self.delivered).is_some_and(Option::is_some) {
            self.delivered += 1;
        }
    }

    fn stream(&self) -> Vec<u16> {
        self.known[..self.delivered]
            .iter()
            .copied()
            .flatten()
            .collect()
    }
}

/// Adds what is new in a segment to the stream that was received.
fn receive(seen: &Released, first: u32, received: &mut Vec<u16>) {
    let start = seen.sent.sequence.wrapping_sub(first) as usize;
    assert_eq!(start, received.len(), "in order, and each byte once as new");
    received.extend(seen.sent.payload.iter().map(|&byte| u16::from(byte)));
    if seen.sent.flags & flags::FIN != 0 {
        received.push(FIN_MARK);
    }
}

/// What a segment that holds nothing new must come to.
fn check_repeat(
    part: &Part,
    seen: &[Released],
    dropped: bool,
    config: &Config,
    first: u32,
    delivered: usize,
) {
    let is_probe = part.bytes.len() == 1 && part.start + 1 == delivered;
    let may_drop =
        !part.bytes.is_empty() && !is_probe && config.retransmissions == Retransmissions::Drop;
    assert_eq!(dropped, may_drop);
    let forwarded: Vec<_> = seen.iter().map(|seen| seen.sent.clone()).collect();
    assert_eq!(
        forwarded,
        if dropped {
            vec![]
        } else {
            vec![part.sent(first)]
        },
        "unchanged"
    );
}

/// What becomes of the old part of a segment that also holds something new: the number of
/// segments that it comes to.
fn check_old_part(
    part: &Part,
    seen: &[Released],
    config: &Config,
    first: u32,
    delivered: usize,
) -> usize {
    let old = delivered.saturating_sub(part.start);
    let forwarded = old == 1 || old > 1 && config.retransmissions == Retransmissions::Forward;
    if forwarded {
        let bytes = part.bytes[..old].to_vec();
        let expected = Part {
            start: part.start,
            bytes,
            fin: false,
        }
        .sent(first);
        assert_eq!(seen[0].sent, expected, "as if it had come alone");
    }
    usize::from(forwarded)
}

fn compare(parts: &[Part], len: usize, first: u32, config: &Config, v6: bool) -> Vec<u16> {
    let mut bench = Bench::new(config, v6);
    let mut array = Array::new(len);
    let mut received = Vec::new();
    bench.send(&Sent::syn(Direction::Original, first));
    for part in parts {
        let before = bench.drops.of(DropReason::AlreadyDelivered);
        let seen = bench.send(&part.sent(first));
        let dropped = bench.drops.of(DropReason::AlreadyDelivered) > before;
        if part.end() <= array.delivered {
            check_repeat(part, &seen, dropped, config, first, array.delivered);
        } else {
            assert!(!dropped);
            let repeated = check_old_part(part, &seen, config, first, array.delivered);
            seen[repeated..]
                .iter()
                .for_each(|seen| receive(seen, first, &mut received));
        }
        array.take(part, config.overlap);
        assert_eq!(received, array.stream());
    }
    bench.assert_no_buffer_lost();
    received
}

/// Parts that together make all of `stream`, and others, in any order.
fn parts_of(stream: Vec<u8>) -> impl Strategy<Value = Vec<Part>> {
    let len = stream.len();
    let whole = stream.clone();
    let cover = vec(1..40usize, 1..=len).prop_map(move |lengths| cut(&whole, &lengths));
    let others = vec((0..len, 0..60usize, any::<bool>()), 0..40).prop_map(move |ranges| {
        ranges
            .into_iter()
            .map(|(start, bytes, fin)| part(&stream, start, bytes, fin))
            .filter(|part| part.end() > part.start)
            .collect()
    });
    (cover, others)
        .prop_map(|(cover, others): (Vec<Part>, Vec<Part>)| [cover, others].concat())
        .prop_shuffle()
}

fn cut(stream: &[u8], lengths: &[usize]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut start = 0;
    for bytes in lengths.iter().cycle() {
        parts.push(part(stream, start, *bytes, true));
        start += bytes;
        if start >= stream.len() {
            break;
        }
    }
    parts
}

/// A FIN can only be at the stream's end.
fn part(stream: &[u8], start: usize, bytes: usize, fin: bool) -> Part {
    let end = (start + bytes).min(stream.len());
    Part {
        start,
        bytes: stream[start..end].to_vec(),
        fin: fin && end == stream.len(),
    }
}

fn first_number() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        (0..500u32).prop_map(|back| 0u32.wrapping_sub(back)),
        (0..500u32).prop_map(|back| 0x8000_0000 - back)
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let overlap = prop_oneof![Just(Overlap::First), Just(Overlap::Last)];
    let retransmissions = prop_oneof![Just(Retransmissions::Forward), Just(Retransmissions::Drop)];
    (overlap, retransmissions).prop_map(|(overlap, retransmissions)| Config {
        overlap,
        retransmissions,
        ..Config::default()
    })
}

/// Makes every part's bytes its own, so that it shows whose bytes were delivered.
fn make_inconsistent(parts: &mut [Part]) {
    for (index, part) in parts.iter_mut().enumerate() {
        part.bytes.fill(index as u8);
    }
}

proptest! {
    #[test]
    fn a_stream_comes_out_whole_and_in_order(
        (stream, parts) in vec(any::<u8>(), 1..400).prop_flat_map(|stream| (Just(stream.clone()), parts_of(stream))),
        first in first_number(), config in config(), v6: bool,
    ) {
        let received = compare(&parts, stream.len() + 1, first, &config, v6);
        let mut expected: Vec<u16> = stream.into_iter().map(u16::from).collect();
        expected.push(FIN_MARK);
        prop_assert_eq!(received, expected);
    }

    #[test]
    fn where_copies_differ_the_right_one_wins(
        (len, mut parts) in vec(any::<u8>(), 1..200).prop_flat_map(|stream| (Just(stream.len()), parts_of(stream))),
        first in first_number(), config in config(), v6: bool,
    ) {
        make_inconsistent(&mut parts);
        let received = compare(&parts, len + 1, first, &config, v6);
        prop_assert_eq!(received.len(), len + 1);
    }
}
