//! Identifications of IPv4 datagrams that leave a translation (RFC 6864 §5.3.1).
//!
//! Hosts that share an address number their datagrams as they like. What may be or become a fragment
//! must have a number that no other datagram of its source, destination and protocol has, or parts of
//! two would be put together. So whoever merges hosts draws a number for each.
//!
//! Numbers are counted by source, destination and protocol as the datagram leaves, in a fixed array
//! of counters that is found by a keyed hash: nothing grows, and those that share a counter skip
//! numbers. Where counting begins follows from the hash, too. Whoever else draws for the same
//! addresses, as the other path does, has a [share](Share) of the numbers of its own, so that they
//! need not tell each other; of two each draws 32,768 before one comes again.

use crate::HashKey;
use crate::wire::{Address, Layout, Network, fields, rewrite};

/// Counters; a power of two.
const COUNTERS: usize = 4096;

/// Which of the numbers are drawn: those that end with certain bits.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Share {
    bits: u32,
    last: u32,
}

impl Share {
    /// The fast path's where there are no shards: even numbers.
    pub const FAST_PATH: Self = Self::of_fast_path(0, 1);
    /// The slow path's where there are no shards: odd numbers.
    pub const SLOW_PATH: Self = Self::of_slow_path(0, 1);

    /// That of the fast path of one of so many shards, counted from 0.
    #[must_use]
    pub const fn of_fast_path(shard: u16, shards: u16) -> Self {
        Self::of(2 * shard, 2 * shards)
    }

    /// That of the slow path of one of so many shards, counted from 0.
    #[must_use]
    pub const fn of_slow_path(shard: u16, shards: u16) -> Self {
        Self::of(2 * shard + 1, 2 * shards)
    }

    /// That of one of so many who draw, counted from 0.
    #[must_use]
    pub const fn of(number: u16, count: u16) -> Self {
        let bits = u16::BITS - count.saturating_sub(1).leading_zeros();
        Self {
            bits,
            last: number as u32 & ((1 << bits) - 1),
        }
    }
}

/// Numbers for datagrams that may be fragments or become some.
#[derive(Debug)]
pub struct Identifications {
    counters: Box<[u16; COUNTERS]>,
    hash_key: HashKey,
    share: Share,
}

impl Identifications {
    /// None has been drawn yet. Nobody who does not know the seed can choose datagrams that share a
    /// counter.
    pub fn new(share: Share, seed: u64) -> Self {
        Self {
            counters: Box::new([0; COUNTERS]),
            hash_key: HashKey::new(seed),
            share,
        }
    }

    /// Memory that the counters take, in bytes.
    pub const fn memory_bytes(&self) -> usize {
        size_of::<[u16; COUNTERS]>()
    }

    /// A number for a datagram between these addresses, as it leaves.
    #[inline]
    pub fn draw(&mut self, source: Address, destination: Address, protocol: u8) -> u16 {
        let ends = u64::from(source.word(3)) << 32 | u64::from(destination.word(3));
        self.draw_between(ends, protocol)
    }

    /// The same of both addresses as they lie in a header.
    #[inline(always)]
    pub fn draw_between(&mut self, ends: u64, protocol: u8) -> u16 {
        let hash = self.hash_key.hash([ends, protocol.into()]);
        let begin = (hash >> 48) as u16;
        let counter = &mut self.counters[hash as usize % COUNTERS];
        *counter = counter.wrapping_add(1);
        let Share { bits, last } = self.share;
        (u32::from(counter.wrapping_add(begin)) << bits | last) as u16
    }

    /// Gives a packet a number that was drawn for it as it is now, unless it is atomic or not IPv4.
    /// Returns the number.
    #[inline]
    pub fn number(&mut self, frame: &mut [u8], layout: &Layout) -> Option<u16> {
        if fields::is_atomic(frame, layout) {
            return None;
        }
        let drawn = self.draw_for(frame, layout)?;
        rewrite::set_identification(frame, layout, drawn).ok()?;
        Some(drawn)
    }

    /// A number for an IPv4 packet as it is now.
    #[inline]
    pub fn draw_for(&mut self, frame: &[u8], layout: &Layout) -> Option<u16> {
        let ends = [
            fields::source_address(frame, layout),
            fields::destination_address(frame, layout),
        ];
        let is_v4 = layout.network == Network::V4;
        is_v4.then(|| self.draw(ends[0], ends[1], layout.protocol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Endpoint, PacketBuilder, dissect, ipv4, verify_ipv4_checksum};
    use std::collections::HashSet;

    fn address(host: u8) -> Address {
        Address::from_v4([192, 0, 2, host])
    }

    #[test]
    fn no_number_of_one_receiver_comes_twice_whichever_path_draws() {
        let shares = [Share::FAST_PATH, Share::SLOW_PATH];
        let mut paths = shares.map(|share| Identifications::new(share, 7));
        let mut drawn = HashSet::new();
        for path in &mut paths {
            for _ in 0..1 << 15 {
                assert!(drawn.insert(path.draw(address(1), address(2), 17)));
            }
        }
        assert_eq!(drawn.len(), 1 << 16);
    }

    /// However many draw, and whether or not their number is a power of two.
    #[test]
    fn no_two_shares_have_a_number_in_common() {
        for (count, each) in [(1, 65_536), (3, 16_384), (4, 16_384), (64, 1024)] {
            let mut drawn = HashSet::new();
            for number in 0..count {
                let mut numbers = Identifications::new(Share::of(number, count), 7);
                for _ in 0..each {
                    assert!(drawn.insert(numbers.draw(address(1), address(2), 17)));
                }
            }
            assert_eq!(drawn.len(), usize::from(count) * each);
        }
    }

    #[test]
    fn receivers_are_counted_for_themselves_and_begin_anywhere() {
        let mut numbers = Identifications::new(Share::FAST_PATH, 7);
        let first: HashSet<u16> = (0..100)
            .map(|host| numbers.draw(address(1), address(host), 17))
            .collect();
        assert!(first.len() > 90, "{}", first.len());
        let before = numbers.draw(address(1), address(200), 6);
        (0..1000).for_each(|_| _ = numbers.draw(address(1), address(201), 6));
        let behind = numbers.draw(address(1), address(200), 6);
        assert_eq!(behind, before.wrapping_add(2));
    }

    #[test]
    fn atomic_datagrams_keep_theirs_and_checksums_stay_as_right_as_they_were() {
        let mut numbers = Identifications::new(Share::SLOW_PATH, 7);
        let ends = ["10.0.0.1:1", "10.0.0.2:2"].map(|end| end.parse::<Endpoint>().expect("v4"));
        let whole = PacketBuilder::udp(ends[0], ends[1])
            .identification(6)
            .payload_len(64);
        for packet in [whole, whole.fragment(0, true), whole.fragment(8, false)] {
            let mut frame = packet.to_vec().expect("fits");
            let layout = dissect(&frame).expect("well formed");
            let drawn = numbers.number(&mut frame, &layout).expect("not atomic");
            assert_eq!(drawn & 1, 1);
            let at = usize::from(layout.l3) + ipv4::IDENTIFICATION_AT;
            assert_eq!(frame[at..at + 2], drawn.to_be_bytes());
            assert!(verify_ipv4_checksum(&frame, &layout));
            frame[24] ^= 0x55;
            let mut wrong = frame.clone();
            numbers.number(&mut wrong, &layout).expect("not atomic");
            assert!(!verify_ipv4_checksum(&wrong, &layout));
        }
        let mut frame = whole.dont_fragment().to_vec().expect("fits");
        let layout = dissect(&frame).expect("well formed");
        let before = frame.clone();
        assert_eq!(numbers.number(&mut frame, &layout), None);
        assert_eq!(frame, before);
    }
}
