//! Tells why a life has no partner: one name stands for two bindings, or its packets are not those
//! of the life that is most like it.

use crate::digest::Digest;
use crate::flow::Flow;
use crate::index::{Counting, Index};
use crate::lives::Pairs;
use crate::streams::{Parting, first_parting};
use std::collections::HashMap;

/// Most lives that are considered as parts or partners of one: what explains a difference is among
/// the first, and whether there is one is known already.
const MAX_CANDIDATES: usize = 64;

/// A name that stands for two bindings of the other capture.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    /// Its life.
    pub life: usize,
    /// Theirs.
    pub parts: [usize; 2],
}

/// Lives of a capture by the packets that they have.
pub(crate) struct Holders<'i> {
    index: &'i Index,
    by_packet: HashMap<(Flow, Digest), Vec<usize>>,
}

impl<'i> Holders<'i> {
    /// These lives of a capture.
    pub fn of(index: &'i Index, lives: &[usize]) -> Self {
        let mut by_packet: HashMap<_, Vec<usize>> = HashMap::new();
        for &life in lives {
            for (flow, packet) in index.packets_of(life) {
                let holders = by_packet.entry((flow, packet.digest)).or_default();
                if holders.len() < MAX_CANDIDATES && holders.last() != Some(&life) {
                    holders.push(life);
                }
            }
        }
        Self { index, by_packet }
    }

    /// The lives that have packets of another capture's life, each with their number, in order.
    fn sharers(&self, other: &Index, life: usize) -> Vec<(usize, usize)> {
        let mut counts: HashMap<usize, usize> = HashMap::new();
        for (flow, packet) in other.packets_of(life) {
            for &holder in self
                .by_packet
                .get(&(flow, packet.digest))
                .into_iter()
                .flatten()
            {
                *counts.entry(holder).or_default() += 1;
            }
        }
        let mut sharers: Vec<_> = counts.into_iter().collect();
        sharers.sort_unstable();
        sharers
    }

    /// Lives that are parts of another capture's life, without a packet in common, in order; and
    /// whether they are all of it.
    pub fn parts_of(&self, other: &Index, life: usize) -> (Vec<usize>, bool) {
        let mut available: HashMap<(Flow, Digest), usize> = HashMap::new();
        for (flow, packet) in other.packets_of(life) {
            *available.entry((flow, packet.digest)).or_default() += 1;
        }
        let sharers = self.sharers(other, life);
        let parts = sharers
            .into_iter()
            .take(MAX_CANDIDATES)
            .map(|(sharer, _)| sharer)
            .filter(|&sharer| self.take(sharer, &mut available))
            .collect();
        (parts, available.values().all(|&left| left == 0))
    }

    /// Takes all packets of a life out of those that are available, or none.
    fn take(&self, life: usize, available: &mut HashMap<(Flow, Digest), usize>) -> bool {
        let mut wanted: HashMap<(Flow, Digest), usize> = HashMap::new();
        for (flow, packet) in self.index.packets_of(life) {
            *wanted.entry((flow, packet.digest)).or_default() += 1;
        }
        let has_all = wanted
            .iter()
            .all(|(packet, count)| available.get(packet).is_some_and(|left| left >= count));
        if has_all {
            for (packet, count) in wanted {
                available.entry(packet).and_modify(|left| *left -= count);
            }
        }
        has_all
    }
}

/// The first of these lives that is made of two of the other capture.
pub(crate) fn first_merged(
    (one, lives): (&Index, &[usize]),
    (other, others): (&Index, &[usize]),
) -> Option<Merged> {
    let holders = Holders::of(other, others);
    lives.iter().find_map(|&life| {
        let (parts, _) = holders.parts_of(one, life);
        let parts = *parts.first_chunk()?;
        Some(Merged { life, parts })
    })
}

/// Where the first life without a partner and the one that is most like it part.
pub(crate) fn first_unlike<'i>(
    a: &'i Index,
    b: &'i Index,
    pairs: &Pairs,
    counting: Counting,
) -> Option<Parting<'i>> {
    let Some(&life) = pairs.left_a.first() else {
        let extra = b.streams_of(Some(*pairs.left_b.first()?)).next()?;
        return Parting::between(None, Some(extra), counting);
    };
    let first = a.streams_of(Some(life)).next()?;
    let Some(like) = most_like(a, life, b, &pairs.left_b, first.flow) else {
        return Parting::between(Some(first), None, counting);
    };
    first_parting((a, Some(life)), (b, Some(like)), counting)
}

/// The life with most packets in common; the first that has packets of the same flow if there is
/// none.
fn most_like(a: &Index, life: usize, b: &Index, others: &[usize], flow: Flow) -> Option<usize> {
    let holders = Holders::of(b, others);
    let sharers = holders.sharers(a, life);
    // The first of several with as many.
    let most = sharers.iter().rev().max_by_key(|(_, count)| *count);
    most.map(|&(sharer, _)| sharer).or_else(|| {
        let has_flow = |other: &&usize| b.stream(Some(**other), flow).is_some();
        others.iter().find(has_flow).copied()
    })
}
