//! Maglev hashing: a lookup table that spreads connections evenly and changes little when the
//! set of backends does.
//!
//! Every backend has its own permutation of the table's entries, made from two hashes of its
//! endpoint. The backends take turns; each takes the first free entry of its permutation, until
//! the table is full. A backend of twice the weight has a turn twice as often. The result depends
//! on nothing but endpoints, weights, size and seed: balancers with the same configuration agree,
//! and one that restarts finds the backends of the connections that it had.
//!
//! If one of `n` equal backends goes, its `1/n` of the entries must change. A few others do too,
//! because the turns shift: of 65537 entries 0.2 % with 10 backends, 0.6 % with 100 and 0.9 % with
//! 500, which a test measures.

use twinpath_core::HashKey;
use twinpath_wire::{Address, Endpoint};

/// A backend that may be chosen.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What the table answers.
    pub row: u16,
    /// What the permutation is made from.
    pub endpoint: Endpoint,
    /// How often the backend takes an entry, in relation to the others; at least 1.
    pub weight: u32,
}

/// A filled lookup table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maglev {
    rows: Vec<u16>,
}

impl Maglev {
    /// Bytes of an entry.
    pub(super) const ROW_BYTES: u64 = size_of::<u16>() as u64;

    /// Fills a table of `size` entries, a prime. It is empty if there are no candidates.
    pub fn new(size: u32, seed: u64, candidates: &[Candidate]) -> Self {
        if candidates.is_empty() {
            return Self { rows: Vec::new() };
        }
        let hash_key = HashKey::new(seed);
        let mut turns: Vec<Turn> = candidates
            .iter()
            .map(|candidate| Turn::new(size, &hash_key, candidate))
            .collect();
        turns.sort_unstable_by_key(|turn| turn.endpoint);
        Self {
            rows: fill(size, &mut turns),
        }
    }

    /// The row for a connection with this hash; `None` if there is no backend.
    #[inline]
    pub fn choose(&self, hash: u64) -> Option<u16> {
        let index = hash.checked_rem(self.rows.len() as u64)?;
        self.rows.get(index as usize).copied()
    }
}

/// A backend on its way through its permutation.
struct Turn {
    row: u16,
    endpoint: Endpoint,
    weight: u32,
    credit: u32,
    position: u32,
    skip: u32,
}

impl Turn {
    fn new(size: u32, hash_key: &HashKey, candidate: &Candidate) -> Self {
        let Candidate {
            row,
            endpoint,
            weight,
        } = *candidate;
        let position = endpoint_hash(endpoint, hash_key, 0) % u64::from(size);
        let skip = endpoint_hash(endpoint, hash_key, 1) % u64::from(size - 1) + 1;
        Self {
            row,
            endpoint,
            weight,
            credit: 0,
            position: position as u32,
            skip: skip as u32,
        }
    }

    /// Whether the backend may take an entry in this round.
    fn is_due(&mut self, heaviest: u32) -> bool {
        self.credit += self.weight;
        let due = self.credit >= heaviest;
        if due {
            self.credit -= heaviest;
        }
        due
    }

    /// The next entry of the permutation. Position and skip are less than the size, so that what a division
    /// would leave is one subtraction away: a table asks for millions of entries.
    fn advance(&mut self, size: u32) -> usize {
        let (entry, size) = (self.position, u64::from(size));
        let next = u64::from(entry) + u64::from(self.skip);
        self.position = if next >= size { next - size } else { next } as u32;
        entry as usize
    }
}

fn endpoint_hash(endpoint: Endpoint, hash_key: &HashKey, which: u64) -> u64 {
    let Address(address) = endpoint.address;
    let port = endpoint.port.into();
    hash_key.hash([(address >> 64) as u64, address as u64, port, which])
}

fn fill(size: u32, turns: &mut [Turn]) -> Vec<u16> {
    let heaviest = turns.iter().map(|turn| turn.weight).max().unwrap_or(1);
    let mut rows = vec![None; size as usize];
    let mut free = size;
    while free > 0 {
        for turn in turns.iter_mut() {
            if free > 0 && turn.is_due(heaviest) {
                take_entry(size, &mut rows, turn);
                free -= 1;
            }
        }
    }
    rows.into_iter().flatten().collect()
}

/// Takes the first free entry of the permutation. As the size is prime the permutation visits
/// every entry, so this ends while there is a free one.
fn take_entry(size: u32, rows: &mut [Option<u16>], turn: &mut Turn) {
    let mut entry = turn.advance(size);
    while rows[entry].is_some() {
        entry = turn.advance(size);
    }
    rows[entry] = Some(turn.row);
}

/// Whether a number is prime.
pub const fn is_prime(number: u32) -> bool {
    let mut divisor = 2;
    while divisor as u64 * divisor as u64 <= number as u64 {
        if number.is_multiple_of(divisor) {
            return false;
        }
        divisor += 1;
    }
    number > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SIZE: u32 = 65_537;

    fn candidate(number: u16, weight: u32) -> Candidate {
        let [high, low] = number.to_be_bytes();
        Candidate {
            row: number,
            endpoint: Endpoint::v4([10, 1, high, low], 8080),
            weight,
        }
    }

    fn equal(count: u16) -> Vec<Candidate> {
        (0..count).map(|number| candidate(number, 1)).collect()
    }

    fn shares(table: &Maglev) -> HashMap<u16, usize> {
        let mut shares = HashMap::new();
        table
            .rows
            .iter()
            .for_each(|row| *shares.entry(*row).or_default() += 1);
        shares
    }

    fn differences(a: &Maglev, b: &Maglev) -> usize {
        a.rows.iter().zip(&b.rows).filter(|(a, b)| a != b).count()
    }

    #[test]
    fn equal_backends_differ_by_one_entry() {
        for count in [1, 2, 3, 10, 100, 1000] {
            let shares = shares(&Maglev::new(SIZE, 1, &equal(count)));
            let (least, most) = (shares.values().min(), shares.values().max());
            assert_eq!(shares.len(), usize::from(count));
            assert!(
                most.zip(least)
                    .is_some_and(|(most, least)| most - least <= 1),
                "{count}: {most:?} {least:?}"
            );
        }
    }

    #[test]
    fn weights_are_respected_within_one_entry() {
        let weights = [1, 2, 3, 50, 100, 7];
        let candidates: Vec<_> = weights
            .iter()
            .zip(0..)
            .map(|(&weight, number)| candidate(number, weight))
            .collect();
        let shares = shares(&Maglev::new(SIZE, 1, &candidates));
        let total: u32 = weights.iter().sum();
        for candidate in candidates {
            let due = f64::from(SIZE) * f64::from(candidate.weight) / f64::from(total);
            let got = shares[&candidate.row] as f64;
            assert!(
                (got - due).abs() <= 2.0,
                "weight {}: {got} instead of {due}",
                candidate.weight
            );
        }
    }

    /// What the hash of real keys adds: connections are spread as by chance.
    #[test]
    fn connections_are_spread_evenly() {
        let (backends, connections) = (10, 100_000);
        let table = Maglev::new(SIZE, 1, &equal(backends));
        let mut load = vec![0u32; backends.into()];
        for connection in 0..connections {
            let row = table
                .choose(HashKey::new(3).hash([0, connection, 0, 1, 6 << 24]))
                .expect("there are backends");
            load[usize::from(row)] += 1;
        }
        let mean = connections as f64 / f64::from(backends);
        for count in load {
            assert!(
                (f64::from(count) / mean - 1.0).abs() < 0.05,
                "{count} of {mean}"
            );
        }
    }

    /// With one of `n` backends gone, `1/n` of the entries must change. Beyond that a table this
    /// much larger than `n` changes little.
    #[test]
    fn removal_disturbs_few_others() {
        for (count, most_extra) in [(2, 0.0), (10, 0.005), (100, 0.01), (500, 0.015)] {
            let all = equal(count);
            let without: Vec<_> = all
                .iter()
                .copied()
                .filter(|candidate| candidate.row != 1)
                .collect();
            let (before, after) = (Maglev::new(SIZE, 1, &all), Maglev::new(SIZE, 1, &without));
            let must = shares(&before)[&1];
            let extra = (differences(&before, &after) - must) as f64 / f64::from(SIZE);
            println!(
                "{count} backends: {must} entries had to change, {:.2} % more did",
                extra * 100.0
            );
            assert!(extra <= most_extra, "{count}: {extra}");
        }
    }

    #[test]
    fn without_backends_there_is_no_choice() {
        assert_eq!(Maglev::new(SIZE, 1, &[]).choose(7), None);
    }

    #[test]
    fn primes() {
        let small: Vec<_> = (0..30).filter(|&number| is_prime(number)).collect();
        assert_eq!(small, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
        assert!(
            is_prime(65_537)
                && is_prime(655_373)
                && !is_prime(65_536)
                && !is_prime(65_539 * 3)
                && is_prime(4_294_967_291)
        );
    }

    proptest! {
        #[test]
        fn every_entry_is_taken_and_order_does_not_matter(
            weights in prop::collection::vec(1u32..20, 1..20),
            size in prop::sample::select(vec![2u32, 3, 101, 251]),
            seed: u64,
            rotation in 0usize..20,
        ) {
            let mut candidates: Vec<_> = weights.iter().zip(0..).map(|(&weight, number)| candidate(number, weight)).collect();
            let table = Maglev::new(size, seed, &candidates);
            prop_assert_eq!(table.rows.len(), size as usize);
            let middle = rotation % candidates.len();
            candidates.rotate_left(middle);
            prop_assert_eq!(Maglev::new(size, seed, &candidates), table);
        }
    }
}
