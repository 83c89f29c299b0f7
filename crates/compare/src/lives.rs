//! Pairs the lives of names, one to one, by what they said.

use crate::digest::Digest;
use crate::index::{Counting, Index, Position};
use std::collections::HashMap;

/// Which life of B says what a life of A says.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// By the number of A's life.
    partners: Vec<Option<usize>>,
    /// How many lives have a partner of another name.
    pub renamed: u64,
    /// Lives of A without a partner, in order of their first packets.
    pub left_a: Vec<usize>,
    /// Lives of B without a partner, likewise.
    pub left_b: Vec<usize>,
}

/// Lives that say the same.
#[derive(Default)]
struct Alike {
    in_a: Vec<usize>,
    in_b: Vec<usize>,
}

impl Pairs {
    /// Pairs the lives of two captures. Those that say the same are interchangeable, and are paired
    /// in order of their first packets.
    pub fn of(a: &Index, b: &Index, counting: Counting) -> Self {
        let mut by_content: HashMap<Digest, Alike> = HashMap::new();
        for life in 0..a.lives.len() {
            let alike = by_content.entry(content(a, life, counting)).or_default();
            alike.in_a.push(life);
        }
        for life in 0..b.lives.len() {
            let alike = by_content.entry(content(b, life, counting)).or_default();
            alike.in_b.push(life);
        }
        let mut pairs = Self {
            partners: vec![None; a.lives.len()],
            ..Self::default()
        };
        for alike in by_content.values() {
            pairs.pair(a, b, alike);
        }
        pairs.left_a.sort_unstable();
        pairs.left_b.sort_unstable();
        pairs
    }

    fn pair(&mut self, a: &Index, b: &Index, alike: &Alike) {
        for (&in_a, &in_b) in alike.in_a.iter().zip(&alike.in_b) {
            self.partners[in_a] = Some(in_b);
            self.renamed += u64::from(a.lives[in_a].name != b.lives[in_b].name);
        }
        let paired = alike.in_a.len().min(alike.in_b.len());
        self.left_a.extend(&alike.in_a[paired..]);
        self.left_b.extend(&alike.in_b[paired..]);
    }

    /// The first packet with several names whose partners in B do not have one and the same packet
    /// in its place: its number, and those of two of theirs. To be asked if no life is left.
    pub fn first_crossing(&self, a: &Index, b: &Index) -> Option<(u64, [u64; 2])> {
        a.several.iter().find_map(|places| {
            let mut numbers = places.iter().map(|&place| self.number_in_b(a, b, place));
            let first = numbers.next()?;
            let other = numbers.find(|&number| number != first)?;
            let (stream, at) = *places.first()?;
            Some((a.streams[stream].packets[at].number, [first, other]))
        })
    }

    /// The number of the packet that B has in place of one of A's lives.
    fn number_in_b(&self, a: &Index, b: &Index, (stream, at): Position) -> u64 {
        let stream = &a.streams[stream];
        let partner = stream.life.and_then(|life| self.partners[life]);
        let other = b.stream(partner, stream.flow);
        let packet = other.and_then(|other| other.packets.get(at));
        packet.map_or(0, |packet| packet.number)
    }
}

/// What a life says: its flows, and the packets of each in order.
fn content(index: &Index, life: usize, counting: Counting) -> Digest {
    let mut streams: Vec<Digest> = index
        .streams_of(Some(life))
        .map(|stream| {
            let packets = stream.packets.iter();
            let packets = packets.map(|packet| counting.counted(packet));
            Digest::of(&(stream.flow, packets.collect::<Vec<_>>()))
        })
        .collect();
    streams.sort_unstable();
    Digest::of(&streams)
}
