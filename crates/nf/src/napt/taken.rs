//! Which ports of one address are taken.
//!
//! A port's bit lies among those of its parity, and each word of bits has one in a summary that
//! says whether it is full: the next free port of a parity is found in a dozen words, however
//! many are taken.

/// Ports of one parity.
const PORTS: usize = 1 << 15;
const WORDS: usize = PORTS / 64;

/// Ports of one parity that are looked at, as places: port `2 * place + parity`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub parity: u16,
    pub first: u16,
    /// Beyond the last.
    pub end: u16,
}

impl Span {
    /// The ports from `first` to `last` that have this parity.
    pub const fn of(first: u16, last: u16, parity: u16) -> Self {
        Self {
            parity,
            first: first_place(first as u32, parity),
            end: first_place(last as u32 + 1, parity),
        }
    }

    /// How many there are.
    pub const fn len(self) -> u16 {
        self.end.saturating_sub(self.first)
    }

    /// Whether a port is among them.
    #[cfg(test)]
    pub const fn has(self, port: u16) -> bool {
        port % 2 == self.parity && self.first <= port / 2 && port / 2 < self.end
    }

    /// The same ports in two parts: from the one that `start` says to the end, and those before.
    pub const fn around(self, start: u64) -> [Self; 2] {
        let middle = match self.len() {
            0 => self.first,
            len => self.first + (start % len as u64) as u16,
        };
        let (mut upper, mut lower) = (self, self);
        (upper.first, lower.end) = (middle, middle);
        [upper, lower]
    }
}

/// The place of the first port from one on that has this parity.
const fn first_place(port: u32, parity: u16) -> u16 {
    ((port + 1 - parity as u32) / 2) as u16
}

/// Ports of one address.
#[derive(Clone, Debug)]
pub(super) struct Taken([Half; 2]);

/// Those of one parity.
#[derive(Clone, Debug)]
struct Half {
    taken: [u64; WORDS],
    /// By word: whether all of it is taken.
    full: [u64; WORDS / 64],
}

impl Taken {
    pub const NONE: Self = Self(
        [const {
            Half {
                taken: [0; WORDS],
                full: [0; WORDS / 64],
            }
        }; 2],
    );

    pub fn has(&self, port: u16) -> bool {
        let place = usize::from(port / 2);
        self.half(port).taken[place / 64] >> (place % 64) & 1 != 0
    }

    fn half(&self, port: u16) -> &Half {
        &self.0[usize::from(port % 2)]
    }

    /// Takes a port, or gives it back.
    pub fn set(&mut self, port: u16, is_taken: bool) {
        let place = usize::from(port / 2);
        let Half { taken, full } = &mut self.0[usize::from(port % 2)];
        let word = &mut taken[place / 64];
        put(word, place % 64, is_taken);
        let is_full = *word == u64::MAX;
        put(&mut full[place / 64 / 64], place / 64 % 64, is_full);
    }

    /// The first free port of a span.
    pub fn first_free(&self, span: Span) -> Option<u16> {
        if span.len() == 0 {
            return None;
        }
        let half = &self.0[usize::from(span.parity)];
        let place = half.free_from(usize::from(span.first))?;
        let is_within = place < usize::from(span.end);
        is_within.then(|| place as u16 * 2 + span.parity)
    }

    /// How many ports of a span are taken.
    pub fn count(&self, span: Span) -> u32 {
        let places = usize::from(span.first)..usize::from(span.first + span.len());
        let half = &self.0[usize::from(span.parity)];
        let words = places.start / 64..places.end.div_ceil(64);
        let taken = words.map(|word| {
            let from = places.start.saturating_sub(word * 64).min(63);
            let beyond = (word * 64 + 64).saturating_sub(places.end).min(63);
            (half.taken[word] & u64::MAX << from & u64::MAX >> beyond).count_ones()
        });
        taken.sum()
    }
}

impl Half {
    /// The first free place from one on.
    fn free_from(&self, place: usize) -> Option<usize> {
        let word = place / 64;
        let free = !self.taken[word] & u64::MAX << (place % 64);
        if free != 0 {
            return Some(word * 64 + free.trailing_zeros() as usize);
        }
        let word = self.roomy_from(word + 1)?;
        Some(word * 64 + (!self.taken[word]).trailing_zeros() as usize)
    }

    /// The first word from one on that is not full.
    fn roomy_from(&self, word: usize) -> Option<usize> {
        let mut mask = u64::MAX << (word % 64);
        for (number, full) in self.full.iter().enumerate().skip(word / 64) {
            let roomy = !full & mask;
            if roomy != 0 {
                return Some(number * 64 + roomy.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

fn put(word: &mut u64, bit: usize, value: bool) {
    *word = *word & !(1 << bit) | u64::from(value) << bit;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn spans_are_the_ports_of_a_parity(first: u16, length in 0u16..500, start: u64, odd: bool) {
            let last = first.saturating_add(length);
            let span = Span::of(first, last, odd.into());
            let ports = |span: Span| (first..=last).filter(move |port| span.has(*port));
            prop_assert!(ports(span).eq((first..=last).filter(|port| port % 2 == u16::from(odd))));
            prop_assert_eq!(usize::from(span.len()), ports(span).count());
            let [upper, lower] = span.around(start);
            let parts: BTreeSet<u16> = ports(upper).chain(ports(lower)).collect();
            prop_assert!(parts.into_iter().eq(ports(span)));
            prop_assert_eq!(upper.len() + lower.len(), span.len());
        }

        #[test]
        fn finds_what_a_search_through_all_would(
            blocks in prop::collection::vec((any::<u16>(), 0u32..20_000, any::<bool>()), 0..12),
            looks in prop::collection::vec((any::<u16>(), 0u16..20_000, any::<bool>()), 1..20),
        ) {
            let (mut taken, mut reference) = (Taken::NONE, vec![false; 1 << 16]);
            for (first, length, is_taken) in blocks {
                for port in u32::from(first)..(u32::from(first) + length).min(1 << 16) {
                    taken.set(port as u16, is_taken);
                    reference[port as usize] = is_taken;
                }
            }
            for (first, length, odd) in looks {
                let last = first.saturating_add(length);
                let mut all = (first..=last).filter(|port| port % 2 == u16::from(odd));
                let count = all.clone().filter(|port| reference[usize::from(*port)]).count();
                let expected = all.find(|port| !reference[usize::from(*port)]);
                let span = Span::of(first, last, odd.into());
                prop_assert_eq!(taken.first_free(span), expected);
                prop_assert_eq!(taken.count(span), count as u32);
                prop_assert_eq!(taken.has(first), reference[usize::from(first)]);
            }
        }
    }
}
