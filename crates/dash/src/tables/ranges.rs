//! From each number to what was said of the range that it lies in.

use std::collections::BTreeMap;
use std::ops::Range;

use twinpath_classify::Prefix;

/// How many starts there are for each place of the index, at least.
const STARTS_EACH: usize = 4;

/// An unsigned number that ranges are made of: an address of one IP version, or a port.
pub(crate) trait Number: Copy + Ord + Default {
    /// The next one; `None` behind the last.
    fn next(self) -> Option<Self>;
    /// How far it lies above another one, or 0 if it lies below, in steps of two to the power of `shift`.
    fn steps_above(self, other: Self, shift: u32) -> usize;
    /// How many bits the distance to one below takes.
    fn bits_above(self, other: Self) -> u32;
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Number for $number {
            #[inline]
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            #[inline]
            fn steps_above(self, other: Self, shift: u32) -> usize {
                let steps = self.saturating_sub(other).checked_shr(shift).unwrap_or(0);
                steps.min(usize::MAX as $number) as usize
            }

            #[inline]
            fn bits_above(self, other: Self) -> u32 {
                Self::BITS - self.saturating_sub(other).leading_zeros()
            }
        }
    )*};
}

numbers!(u16 u32 u128);

/// Ranges that lie side by side and cover all numbers, each with a value: sorted starts, and an
/// [index](Index) that tells for the upper bits of a number where to look.
///
/// This takes a fraction of what the tables of `twinpath-classify` do, and builds in one sweep. They
/// change route by route and say which bits decided; these are for tables that exist many times
/// over and are built anew when something in them changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranges<N> {
    starts: Box<[N]>,
    values: Box<[u32]>,
    index: Index<N>,
}

/// Where starts are. What lies between the second one and the last is cut into pieces of one size, of which
/// there are about as many as a quarter of the starts: where these are spread evenly, as in one network, a
/// piece has few. How many of them a piece has is of no other concern, for they are searched by halves.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Index<N> {
    /// Where the first piece begins.
    low: N,
    /// A piece has so many numbers, as a power of two.
    shift: u32,
    /// How many starts lie below each piece, and below all that is behind the last one.
    below: Box<[u32]>,
}

impl<N: Number> Index<N> {
    fn of(starts: &[N]) -> Self {
        let low = starts.get(1).copied().unwrap_or_default();
        let last = starts.last().copied().unwrap_or_default();
        let pieces = (starts.len() / STARTS_EACH).max(1).next_power_of_two();
        let shift = last.bits_above(low).saturating_sub(pieces.ilog2());
        let mut below = Vec::with_capacity(pieces + 1);
        // The first start lies below all pieces; the second one begins them.
        for (at, start) in (0..).zip(starts).skip(1) {
            let piece = start.steps_above(low, shift);
            below.resize(below.len().max(piece + 1), at);
        }
        let all = starts.len() as u32;
        below.resize(below.len().max(1), all);
        below.push(all);
        Self {
            low,
            shift,
            below: below.into(),
        }
    }

    /// Starts among which the first one lies that is above a number.
    #[inline]
    fn among(&self, number: N) -> Range<usize> {
        let last = self.below.len().saturating_sub(2);
        let piece = number.steps_above(self.low, self.shift).min(last);
        match self.below.get(piece..piece + 2) {
            Some(&[from, to]) => from as usize..to as usize,
            _ => 0..0,
        }
    }
}

impl<N: Number> Ranges<N> {
    /// Ranges from their starts, which grow and begin with zero; neighbours with the same value
    /// become one.
    fn new(parts: impl IntoIterator<Item = (N, u32)>) -> Self {
        let mut all = Parts::default();
        parts.into_iter().for_each(|part| all.push(part));
        all.into_ranges()
    }

    /// The same but for the numbers from `first` to `last`, which these parts cover; their starts
    /// grow, and the first is `first`.
    pub fn replaced(&self, first: N, last: N, parts: impl IntoIterator<Item = (N, u32)>) -> Self {
        let before = self.starts.partition_point(|start| *start < first);
        let mut all = Parts::default();
        // Mostly there are about as many afterwards.
        all.reserve(self.starts.len() + 2);
        all.extend(&self.starts[..before], &self.values[..before]);
        parts.into_iter().for_each(|part| all.push(part));
        if let Some(behind) = last.next() {
            all.push((behind, self.of(behind)));
            let rest = self.starts.partition_point(|start| *start <= behind);
            all.extend(&self.starts[rest..], &self.values[rest..]);
        }
        all.into_ranges()
    }

    /// The parts of the numbers from `first` to `last`.
    pub fn parts_between(&self, first: N, last: N) -> impl Iterator<Item = (N, u32)> + '_ {
        let [from, to] =
            [first, last].map(|end| self.starts.partition_point(|start| *start <= end));
        let inside = self.starts[from..to].iter().zip(&self.values[from..to]);
        std::iter::once((first, self.of(first)))
            .chain(inside.map(|(start, value)| (*start, *value)))
    }

    /// Sweeps over ranges (both ends included) that may lie in any order and over each other.
    /// `state` is told which of them begin and end, by their place in the list, and says after each
    /// step what holds from there on; it is asked before the first, too.
    pub fn sweep<S>(
        ranges: &[(N, N)],
        state: &mut S,
        begin: impl Fn(&mut S, u32),
        end: impl Fn(&mut S, u32),
        mut value: impl FnMut(&mut S) -> u32,
    ) -> Self {
        let mut events = Vec::with_capacity(2 * ranges.len());
        for (place, &(first, last)) in ranges.iter().enumerate() {
            events.push((first, true, place as u32));
            if let Some(behind) = last.next() {
                events.push((behind, false, place as u32));
            }
        }
        events.sort_unstable();
        let mut parts = Vec::with_capacity(events.len() + 1);
        parts.push((N::default(), value(state)));
        for step in events.chunk_by(|one, other| one.0 == other.0) {
            for &(_, begins, place) in step {
                match begins {
                    true => begin(state, place),
                    false => end(state, place),
                }
            }
            parts.push((step[0].0, value(state)));
        }
        Self::new(parts)
    }

    /// Each number has the value of the best range that it lies in, or else `none`. Of two ranges
    /// that one is better which has the lower rank.
    pub fn best<R: Ord + Copy>(ranges: &[(N, N, R, u32)], none: u32) -> Self {
        let ends: Vec<_> = ranges.iter().map(|range| (range.0, range.1)).collect();
        let ranked = |place: u32| {
            let (_, _, rank, value) = ranges[place as usize];
            ((rank, place), value)
        };
        let mut open = BTreeMap::new();
        Self::sweep(
            &ends,
            &mut open,
            |open, place| {
                let (rank, value) = ranked(place);
                open.insert(rank, value);
            },
            |open, place| {
                open.remove(&ranked(place).0);
            },
            |open| open.first_key_value().map_or(none, |(_, value)| *value),
        )
    }

    /// The value of the range that a number lies in.
    #[inline]
    pub fn of(&self, number: N) -> u32 {
        let at = self.behind(number);
        self.values
            .get(at.wrapping_sub(1))
            .copied()
            .unwrap_or(u32::MAX)
    }

    /// Where the range begins that a number lies in, and where the next one does if there is one.
    pub fn around(&self, number: N) -> (N, Option<N>) {
        let at = self.behind(number);
        let first = self.starts.get(at.wrapping_sub(1)).copied();
        (first.unwrap_or_default(), self.starts.get(at).copied())
    }

    /// The place of the range behind that of a number.
    #[inline]
    fn behind(&self, number: N) -> usize {
        let among = self.index.among(number);
        let from = among.start;
        let starts = self.starts.get(among).unwrap_or(&[]);
        from + starts.partition_point(|start| *start <= number)
    }

    /// How many ranges.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Memory taken, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.values) + size_of_val(&*self.index.below)
    }
}

/// Ranges in the making.
struct Parts<N> {
    starts: Vec<N>,
    values: Vec<u32>,
}

impl<N> Default for Parts<N> {
    fn default() -> Self {
        Self {
            starts: Vec::new(),
            values: Vec::new(),
        }
    }
}

impl<N: Number> Parts<N> {
    fn reserve(&mut self, count: usize) {
        self.starts.reserve_exact(count);
        self.values.reserve_exact(count);
    }

    /// A part that begins where the last one does takes its place.
    fn push(&mut self, (start, value): (N, u32)) {
        if self.values.last() == Some(&value) {
            return;
        }
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.values.pop();
            if self.values.last() == Some(&value) {
                return;
            }
        }
        self.starts.push(start);
        self.values.push(value);
    }

    /// More of them, the first of which has another value than the last one here.
    fn extend(&mut self, starts: &[N], values: &[u32]) {
        self.starts.extend_from_slice(starts);
        self.values.extend_from_slice(values);
    }

    fn into_ranges(self) -> Ranges<N> {
        Ranges {
            index: Index::of(&self.starts),
            starts: self.starts.into(),
            values: self.values.into(),
        }
    }
}

/// The addresses of IPv4 that a prefix covers which speaks of them.
pub(crate) fn v4_range(prefix: Prefix) -> (u32, u32) {
    let last = match prefix.length() {
        0 => u32::MAX,
        _ => prefix.last().0 as u32,
    };
    (prefix.network().0 as u32, last)
}

/// The addresses of IPv6 that a prefix covers which speaks of them.
pub(crate) fn v6_range(prefix: Prefix) -> (u128, u128) {
    let last = match prefix.length() {
        0 => u128::MAX,
        _ => prefix.last().0,
    };
    (prefix.network().0, last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_best_range_is_found(
            ranges in prop::collection::vec((any::<u8>(), any::<u8>(), 0u8..4), 0..40),
            shift in 0u32..9,
        ) {
            // Numbers near both ends of the space, and far apart.
            let wide = |byte: u8| u16::from(byte) << shift | if byte > 127 { (1 << shift) - 1 } else { 0 };
            let ranges: Vec<_> = ranges
                .iter()
                .enumerate()
                .map(|(value, &(one, other, rank))| {
                    (wide(one.min(other)), wide(one.max(other)), rank, value as u32)
                })
                .collect();
            let found = Ranges::best(&ranges, 999);
            for number in 0..=u16::MAX {
                let best = ranges
                    .iter()
                    .enumerate()
                    .filter(|(_, range)| range.0 <= number && number <= range.1)
                    .min_by_key(|&(place, range)| (range.2, place));
                prop_assert_eq!(found.of(number), best.map_or(999, |(_, range)| range.3));
            }
        }
    }

    proptest! {
        #[test]
        fn parts_take_the_place_of_others(
            ranges in prop::collection::vec((any::<u8>(), any::<u8>(), 0u8..4), 0..20),
            others in prop::collection::vec((any::<u8>(), any::<u8>(), 0u8..4), 0..20),
            ends in any::<(u8, u8)>(),
        ) {
            let wide = |byte: u8| u16::from(byte) * 257;
            let made = |ranges: &[(u8, u8, u8)], none| {
                let ranges = ranges.iter().map(|&(one, other, rank)| {
                    (wide(one.min(other)), wide(one.max(other)), rank, u32::from(rank))
                });
                Ranges::best(&ranges.collect::<Vec<_>>(), none)
            };
            let (old, new) = (made(&ranges, 7), made(&others, 8));
            let (first, last) = (wide(ends.0.min(ends.1)), wide(ends.0.max(ends.1)));
            let found = old.replaced(first, last, new.parts_between(first, last));
            for number in 0..=u16::MAX {
                let expected = match (first..=last).contains(&number) {
                    true => new.of(number),
                    false => old.of(number),
                };
                prop_assert_eq!(found.of(number), expected);
            }
            let equal = |pair: &[u32]| pair[0] == pair[1];
            prop_assert!(!found.values.windows(2).any(equal));
        }
    }

    proptest! {
        /// Starts close together in few networks, and at both ends of the space.
        #[test]
        fn a_range_is_found_wherever_starts_are(
            starts in prop::collection::btree_set((0usize..4, any::<u8>()), 0..60),
            asked in prop::collection::vec((0usize..5, any::<u8>()), 40),
        ) {
            const NETWORKS: [u128; 5] =
                [0, 0x0a00_0000 << 96, 0x2001_0db8 << 96, u128::MAX - 255, 1 << 127];
            let at = |(network, host): (usize, u8)| NETWORKS[network] + u128::from(host);
            let mut starts: Vec<u128> = starts.into_iter().map(at).chain([0]).collect();
            starts.sort_unstable();
            starts.dedup();
            let found = Ranges::new(starts.iter().copied().zip(0..));
            for number in asked.into_iter().map(at) {
                let behind = starts.iter().filter(|start| **start <= number).count();
                prop_assert_eq!(found.of(number), behind as u32 - 1);
                let around = (starts[behind - 1], starts.get(behind).copied());
                prop_assert_eq!(found.around(number), around);
            }
        }
    }

    #[test]
    fn all_of_a_space_and_none_of_it() {
        let all = Ranges::best(&[(0u128, u128::MAX, 0, 7)], 9);
        assert_eq!((all.of(0), all.of(u128::MAX), all.len()), (7, 7, 1));
        let none = Ranges::<u32>::best::<u8>(&[], 9);
        assert_eq!((none.of(0), none.of(u32::MAX)), (9, 9));
    }

    #[test]
    fn neighbours_with_one_value_are_one_range() {
        let ranges: Vec<_> = (0..1000u32)
            .map(|at| (at * 10, at * 10 + 9, 0, 5))
            .collect();
        let found = Ranges::best(&ranges, 0);
        assert_eq!(found.len(), 2);
        assert_eq!((found.of(9_999), found.of(10_000)), (5, 0));
    }
}
