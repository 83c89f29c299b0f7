//! Values that many entries share, each kept once under a number.

use std::hash::{BuildHasher, Hash, Hasher};

use twinpath_core::hash::HashKey;
use twinpath_core::memory::{prefetch, prefetch_all};
use twinpath_core::probing::Places;

/// Words folded into a state that begins with a secret, and are multiplied by another: whoever does
/// not know them cannot choose values that collide.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Keyed {
    secrets: [u64; 2],
}

impl Keyed {
    /// Secrets that follow from the seed.
    pub fn new(seed: u64) -> Self {
        let key = HashKey::new(seed);
        Self {
            secrets: [key.hash([0]), key.hash([1]) | 1],
        }
    }
}

impl BuildHasher for Keyed {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        let [state, factor] = self.secrets;
        Folding { state, factor }
    }
}

/// See [`Keyed`].
#[derive(Copy, Clone, Debug)]
pub(crate) struct Folding {
    state: u64,
    factor: u64,
}

impl Hasher for Folding {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.factor);
        self.state = (product as u64 ^ (product >> 64) as u64).wrapping_add(self.factor);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    /// Both halves at once: each is hidden by a secret before they are multiplied.
    #[inline]
    fn write_u128(&mut self, number: u128) {
        let halves = [
            number as u64 ^ self.state,
            (number >> 64) as u64 ^ self.factor,
        ];
        let product = u128::from(halves[0]) * u128::from(halves[1]);
        self.state = (product as u64 ^ (product >> 64) as u64).wrapping_add(self.factor);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}

/// Values under numbers that entries hold instead of them. A value is forgotten with its last use.
///
/// Beside the values stands a table of their numbers, each with half of the value's hash, so that
/// finding one reads a line of the table and the value. When half of it is taken, each new value moves a
/// few others to a table of twice the size: none waits for all.
#[derive(Clone)]
pub(crate) struct Interned<T> {
    values: Vec<Option<(T, u32)>>,
    slots: Slots,
    /// Those that move to the others, and how many of them are through.
    moving: Option<(Slots, usize)>,
    keyed: Keyed,
    free: Vec<u32>,
    taken: usize,
}

/// Slots that are moved for each new value: before the larger table is half full all have.
const MOVED_AT_ONCE: usize = 8;

impl<T: Clone + Eq + Hash> Interned<T> {
    /// No values. What hashes are keyed with follows from the seed.
    pub fn new(seed: u64) -> Self {
        Self {
            values: Vec::new(),
            slots: Slots::new(64),
            moving: None,
            keyed: Keyed::new(seed),
            free: Vec::new(),
            taken: 0,
        }
    }

    /// The number of a value, in one more use.
    pub fn take(&mut self, value: &T) -> u32 {
        self.take_or_add(value).0
    }

    /// The same, and whether the value is new.
    pub fn take_or_add(&mut self, value: &T) -> (u32, bool) {
        self.take_hashed(value, self.hash(value))
    }

    /// The hash of a value.
    pub fn hash(&self, value: &T) -> u64 {
        self.keyed.hash_one(value)
    }

    /// Asks the processor to fetch where the number of a value with this hash is.
    pub fn prefetch_number(&self, hash: u64) {
        prefetch(&self.slots.0[self.slots.home(hash)]);
    }

    /// The number of the value that probably has a hash, which is asked to be fetched.
    pub fn prefetch_value(&self, hash: u64) -> Option<u32> {
        let (_, number) = self.slots.find(hash, |_| true)?;
        prefetch_all(self.values.get(number as usize)?);
        Some(number)
    }

    /// As [`Self::take_or_add`], of a value with this [hash](Self::hash).
    pub fn take_hashed(&mut self, value: &T, hash: u64) -> (u32, bool) {
        if let Some(number) = self.find(value, hash) {
            if let Some(Some((_, uses))) = self.values.get_mut(number as usize) {
                *uses += 1;
            }
            return (number, false);
        }
        let number = self.free.pop().unwrap_or(self.values.len() as u32);
        let place = Some((value.clone(), 1));
        match self.values.get_mut(number as usize) {
            Some(free) => *free = place,
            None => self.values.push(place),
        }
        self.slots.put(Slots::entry(hash, number));
        self.taken += 1;
        self.grow();
        (number, true)
    }

    fn find(&self, value: &T, hash: u64) -> Option<u32> {
        let is_it = |number| self.get(number) == Some(value);
        let found = self.slots.find(hash, is_it).map(|(_, number)| number);
        let (moving, _) = match &self.moving {
            Some(moving) if found.is_none() => moving,
            _ => return found,
        };
        moving.find(hash, is_it).map(|(_, number)| number)
    }

    /// Goes on with a move to a larger table, or begins one if half of this is taken.
    fn grow(&mut self) {
        if self.moving.is_none() && self.taken * 2 > self.slots.0.len() {
            let larger = Slots::new(self.slots.0.len() * 2);
            self.moving = Some((std::mem::replace(&mut self.slots, larger), 0));
        }
        let Some((moving, done)) = &mut self.moving else {
            return;
        };
        // What has moved stays where it was, so that others are found behind it.
        for entry in moving.0.iter().skip(*done).take(MOVED_AT_ONCE) {
            if !matches!(*entry, Slots::FREE | Slots::OVER) {
                self.slots.put(*entry);
            }
        }
        *done += MOVED_AT_ONCE;
        if *done >= moving.0.len() {
            self.moving = None;
        }
    }

    /// One use less of a number.
    pub fn give(&mut self, number: u32) {
        let Some(Some((value, uses))) = self.values.get_mut(number as usize) else {
            return;
        };
        *uses -= 1;
        if *uses > 0 {
            return;
        }
        let hash = self.keyed.hash_one(value);
        let is_it = |other| other == number;
        match self.slots.find(hash, is_it) {
            Some((slot, _)) => self.slots.empty(slot),
            None => {
                if let Some((moving, _)) = &mut self.moving
                    && let Some((slot, _)) = moving.find(hash, is_it)
                {
                    moving.0[slot] = Slots::OVER;
                }
            }
        }
        self.values[number as usize] = None;
        self.free.push(number);
        self.taken -= 1;
    }

    /// The value under a number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        Some(&self.values.get(number as usize)?.as_ref()?.0)
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten().map(|(value, _)| value)
    }

    /// How many values there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.taken
    }

    /// Memory taken, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let moving = self.moving.as_ref().map_or(0, |(slots, _)| slots.0.len());
        self.values.capacity() * size_of::<Option<(T, u32)>>()
            + (self.slots.0.len() + moving) * size_of::<u64>()
            + self.free.capacity() * size_of::<u32>()
    }
}

/// Half a hash, and the number plus one, in each that is taken. A power of two.
#[derive(Clone)]
struct Slots(Vec<u64>);

impl Slots {
    const FREE: u64 = 0;
    /// What was here is over, and was not moved: others may lie behind it. No value has its number.
    const OVER: u64 = u32::MAX as u64;

    fn new(count: usize) -> Self {
        Self(vec![Self::FREE; count])
    }

    const fn entry(hash: u64, number: u32) -> u64 {
        (hash >> 32 << 32) | (number as u64 + 1)
    }

    const fn home(&self, entry: u64) -> usize {
        (entry >> 32) as usize & (self.0.len() - 1)
    }

    const fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.0.len() - 1)
    }

    /// Where the number is that is the wanted one, among those whose values have such a hash.
    fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let mut slot = self.home(hash);
        loop {
            let entry = self.0[slot];
            if entry == Self::FREE {
                return None;
            }
            let number = entry as u32 - 1;
            if entry >> 32 == hash >> 32 && is_it(number) {
                return Some((slot, number));
            }
            slot = self.next(slot);
        }
    }

    fn put(&mut self, entry: u64) {
        let mut slot = self.home(entry);
        while self.is_taken(slot) {
            slot = self.next(slot);
        }
        self.0[slot] = entry;
    }

    fn empty(&mut self, slot: usize) {
        let gap = self.close_gap(slot);
        self.0[gap] = Self::FREE;
    }
}

impl Places for Slots {
    fn places(&self) -> usize {
        self.0.len()
    }

    fn is_taken(&self, place: usize) -> bool {
        self.0[place] != Self::FREE
    }

    fn home_of(&self, place: usize) -> usize {
        self.home(self.0[place])
    }

    fn move_to(&mut self, from: usize, to: usize) {
        self.0[to] = self.0[from];
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_lives_as_long_as_its_uses() {
        let mut words = Interned::new(1);
        let (one, again, other) = (words.take(&"one"), words.take(&"one"), words.take(&"two"));
        assert_eq!(one, again);
        assert_ne!(one, other);
        words.give(one);
        assert_eq!(words.get(one), Some(&"one"));
        words.give(one);
        assert_eq!((words.get(one), words.len()), (None, 1));
        assert_eq!(words.take(&"three"), one, "its number is used again");
        words.give(77);
        assert_eq!(words.len(), 2);
    }

    /// A table that grows, and is emptied meanwhile, has what is left in it.
    #[test]
    fn growing_moves_a_few_at_a_time() {
        const COUNT: u32 = 50_000;
        let mut interned = Interned::new(5);
        let (mut numbers, mut over) = (Vec::new(), HashSet::new());
        let mut growing = 0;
        for value in 0..COUNT {
            numbers.push(interned.take(&value));
            growing += usize::from(interned.moving.is_some());
            if value % 3 == 0 && over.insert(value / 2) {
                interned.give(numbers[value as usize / 2]);
            }
        }
        assert!(growing > 1_000, "it grew while {growing} values came");
        for value in (0..COUNT).filter(|value| !over.contains(value)) {
            let found = interned.take_or_add(&value);
            assert_eq!(found, (numbers[value as usize], false), "{value}");
        }
        assert_eq!(interned.len(), numbers.len() - over.len());
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_their_values(steps in prop::collection::vec((any::<bool>(), 0u16..200), 0..800)) {
            let mut interned = Interned::new(3);
            let mut model: HashMap<u16, (u32, u32)> = HashMap::new();
            for (takes, value) in steps {
                match (takes, model.get_mut(&value)) {
                    (true, Some((number, uses))) => {
                        prop_assert_eq!(interned.take(&value), *number);
                        *uses += 1;
                    }
                    (true, None) => {
                        let number = interned.take(&value);
                        model.insert(value, (number, 1));
                    }
                    (false, Some((number, uses))) => {
                        interned.give(*number);
                        *uses -= 1;
                        if *uses == 0 {
                            model.remove(&value);
                        }
                    }
                    (false, None) => {}
                }
                prop_assert_eq!(interned.len(), model.len());
            }
            for (value, (number, _)) in &model {
                prop_assert_eq!(interned.get(*number), Some(value));
            }
        }
    }
}
