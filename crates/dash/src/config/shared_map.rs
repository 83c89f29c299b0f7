//! A sorted map whose copies share what has not changed.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Entries of a piece. A change copies one piece at most, if a copy of the map shares it.
const MOST_ENTRIES: usize = 256;

/// A sorted map in pieces. A copy shares all pieces, so that it costs eight bytes for each; a
/// change to one of the copies then costs a piece. An entry takes little more than key and value.
#[derive(Clone)]
pub struct SharedMap<K, V> {
    /// In order, none empty.
    pieces: Vec<Arc<Piece<K, V>>>,
    len: usize,
}

type Piece<K, V> = Vec<(K, V)>;

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self {
            pieces: Vec::new(),
            len: 0,
        }
    }
}

impl<K, V> SharedMap<K, V> {
    /// How many entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let entries = self.pieces.iter().flat_map(|piece| piece.iter());
        entries.map(|(key, value)| (key, value))
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// The values, by key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Bytes that the entries take, whoever else shares them; not what they point to.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let pieces = self.pieces.iter().map(|piece| piece.capacity());
        pieces.sum::<usize>() * size_of::<(K, V)>()
            + self.pieces.capacity() * size_of::<Arc<Piece<K, V>>>()
            + self.pieces.len() * size_of::<Piece<K, V>>()
    }

    /// How many of its pieces it shares with another map, and how many it has.
    #[cfg(test)]
    pub(super) fn shared_with(&self, other: &Self) -> (usize, usize) {
        let is_shared = |piece: &&Arc<_>| other.pieces.iter().any(|one| Arc::ptr_eq(one, piece));
        let shared = self.pieces.iter().filter(is_shared);
        (shared.count(), self.pieces.len())
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        let piece = self.pieces.get(self.piece_of(key))?;
        let at = piece.binary_search_by(|(one, _)| one.cmp(key)).ok()?;
        Some(&piece[at].1)
    }

    /// A key that is there, as it is there.
    #[must_use]
    pub fn get_key(&self, key: &K) -> Option<&K> {
        let piece = self.pieces.get(self.piece_of(key))?;
        let at = piece.binary_search_by(|(one, _)| one.cmp(key)).ok()?;
        Some(&piece[at].0)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.piece_of(key);
        let piece = self.pieces.get_mut(at)?;
        let place = piece.binary_search_by(|(one, _)| one.cmp(key)).ok()?;
        Some(&mut Arc::make_mut(piece)[place].1)
    }

    /// The entries next to a key on both sides, whether it is there or not.
    #[must_use]
    pub fn neighbors(&self, key: &K) -> [Option<(&K, &V)>; 2] {
        let at = self.piece_of(key);
        let Some(piece) = self.pieces.get(at) else {
            return [None, None];
        };
        let smaller = piece.partition_point(|(one, _)| one < key);
        let not_greater = piece.partition_point(|(one, _)| one <= key);
        let before = match smaller {
            0 => at.checked_sub(1).and_then(|at| self.pieces[at].last()),
            smaller => piece.get(smaller - 1),
        };
        let behind = piece.get(not_greater);
        let behind = behind.or_else(|| self.pieces.get(at + 1)?.first());
        [before, behind].map(|entry| entry.map(|(key, value)| (key, value)))
    }

    /// The entries from a key on, whether it is there or not.
    pub fn iter_from<'m>(
        &'m self,
        key: &K,
    ) -> impl Iterator<Item = (&'m K, &'m V)> + use<'m, K, V> {
        let pieces = self.pieces.get(self.piece_of(key)..).unwrap_or(&[]);
        let first = pieces.first().map_or(&[][..], |piece| {
            &piece[piece.partition_point(|(one, _)| one < key)..]
        });
        let rest = pieces.iter().skip(1).flat_map(|piece| piece.iter());
        first.iter().chain(rest).map(|(key, value)| (key, value))
    }

    /// Whether a key is there.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Gives a key a value; the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let at = self.piece_of(&key);
        let Some(piece) = self.pieces.get_mut(at) else {
            self.pieces.push(Arc::new(vec![(key, value)]));
            self.len += 1;
            return None;
        };
        match piece.binary_search_by(|(one, _)| one.cmp(&key)) {
            Ok(place) => {
                let known = &mut Arc::make_mut(piece)[place].1;
                Some(std::mem::replace(known, value))
            }
            Err(place) => {
                Arc::make_mut(piece).insert(place, (key, value));
                self.len += 1;
                self.split(at);
                None
            }
        }
    }

    /// Takes a key out; its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.piece_of(key);
        let piece = self.pieces.get_mut(at)?;
        let place = piece.binary_search_by(|(one, _)| one.cmp(key)).ok()?;
        let (_, value) = Arc::make_mut(piece).remove(place);
        self.len -= 1;
        self.join(at);
        Some(value)
    }

    /// The piece that a key is in, or belongs in; zero if there is none.
    fn piece_of(&self, key: &K) -> usize {
        let behind = self.pieces.partition_point(|piece| piece[0].0 <= *key);
        behind.saturating_sub(1)
    }

    /// A piece that has become too long becomes two. The last one gives its last entry away: what
    /// is inserted in order leaves full pieces behind.
    fn split(&mut self, at: usize) {
        if self.pieces[at].len() <= MOST_ENTRIES {
            return;
        }
        let last = at + 1 == self.pieces.len();
        let piece = Arc::make_mut(&mut self.pieces[at]);
        let rest = piece.split_off(if last { MOST_ENTRIES } else { MOST_ENTRIES / 2 });
        piece.shrink_to(MOST_ENTRIES);
        self.pieces.insert(at + 1, Arc::new(rest));
    }

    /// A piece that has become short becomes a part of its neighbour, if there is room.
    fn join(&mut self, at: usize) {
        let len = self.pieces[at].len();
        if len == 0 {
            self.pieces.remove(at);
            return;
        }
        let with_next = self.pieces.get(at + 1).map(|next| next.len() + len);
        if len < MOST_ENTRIES / 4 && with_next.is_some_and(|sum| sum <= MOST_ENTRIES / 2) {
            let next = self.pieces.remove(at + 1);
            let piece = Arc::make_mut(&mut self.pieces[at]);
            piece.extend(next.iter().cloned());
        }
    }

    /// Calls `each` for every key whose value differs from that in another map: key, value there,
    /// value here. What the two share is skipped, so between a map and its changed copy this costs
    /// what the changes cost.
    pub fn differences<'m>(
        &'m self,
        other: &'m Self,
        each: &mut dyn FnMut(&'m K, Option<&'m V>, Option<&'m V>),
    ) where
        V: PartialEq,
    {
        self.differences_by(other, V::eq, each);
    }

    /// As [`SharedMap::differences`], for values that are not the `same`.
    pub fn differences_by<'m>(
        &'m self,
        other: &'m Self,
        same: fn(&V, &V) -> bool,
        each: &mut dyn FnMut(&'m K, Option<&'m V>, Option<&'m V>),
    ) {
        let (mut here, mut there) = (Cursor::new(self), Cursor::new(other));
        loop {
            if here.skip_shared(&mut there) {
                continue;
            }
            let order = match (here.entry(), there.entry()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((one, _)), Some((two, _))) => one.cmp(two),
            };
            let new = order.is_le().then(|| here.next()).flatten();
            let old = order.is_ge().then(|| there.next()).flatten();
            let (old_value, new_value) = (old.map(|entry| &entry.1), new.map(|entry| &entry.1));
            let differ = match (old_value, new_value) {
                (Some(old), Some(new)) => !same(old, new),
                _ => true,
            };
            if let Some((key, _)) = new.or(old)
                && differ
            {
                each(key, old_value, new_value);
            }
        }
    }
}

/// A place in a map.
struct Cursor<'m, K, V> {
    pieces: &'m [Arc<Piece<K, V>>],
    /// In the first piece.
    place: usize,
}

impl<'m, K, V> Cursor<'m, K, V> {
    fn new(map: &'m SharedMap<K, V>) -> Self {
        Self {
            pieces: &map.pieces,
            place: 0,
        }
    }

    /// Passes a piece that both are at the beginning of; whether they were.
    fn skip_shared(&mut self, other: &mut Self) -> bool {
        let (Some(one), Some(two)) = (self.pieces.first(), other.pieces.first()) else {
            return false;
        };
        let shared = self.place == 0 && other.place == 0 && Arc::ptr_eq(one, two);
        if shared {
            self.pieces = &self.pieces[1..];
            other.pieces = &other.pieces[1..];
        }
        shared
    }

    fn entry(&self) -> Option<&'m (K, V)> {
        self.pieces.first()?.get(self.place)
    }

    fn next(&mut self) -> Option<&'m (K, V)> {
        let piece = self.pieces.first()?;
        let entry = piece.get(self.place);
        self.place += 1;
        if self.place == piece.len() {
            self.pieces = &self.pieces[1..];
            self.place = 0;
        }
        entry
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for SharedMap<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

/// A map has the very values of another one where they are equal.
pub(super) fn adopt<K: Ord + Clone, T: PartialEq>(
    map: &mut SharedMap<K, Arc<T>>,
    other: &SharedMap<K, Arc<T>>,
) {
    for (key, known) in other.iter() {
        if let Some(value) = map.get_mut(key)
            && **value == **known
        {
            *value = known.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16, u8),
        Remove(u16),
        Copy,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (0..2000u16, any::<u8>()).prop_map(|(key, value)| Step::Insert(key, value)),
            3 => (0..2000u16).prop_map(Step::Remove),
            1 => Just(Step::Copy),
        ];
        prop::collection::vec(step, 0..3000)
    }

    fn plain_differences(
        new: &BTreeMap<u16, u8>,
        old: &BTreeMap<u16, u8>,
    ) -> Vec<(u16, Option<u8>, Option<u8>)> {
        let keys: std::collections::BTreeSet<_> = new.keys().chain(old.keys()).copied().collect();
        keys.into_iter()
            .map(|key| (key, old.get(&key).copied(), new.get(&key).copied()))
            .filter(|(_, old, new)| old != new)
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_a_map_and_its_copies_stay_as_they_were(steps in steps()) {
            let (mut map, mut plain) = (SharedMap::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(key, value) => {
                        prop_assert_eq!(map.insert(key, value), plain.insert(key, value));
                    }
                    Step::Remove(key) => prop_assert_eq!(map.remove(&key), plain.remove(&key)),
                    Step::Copy => copies.push((map.clone(), plain.clone())),
                }
            }
            copies.push((map.clone(), plain.clone()));
            for (copy, plain_copy) in &copies {
                prop_assert_eq!(copy.len(), plain_copy.len());
                prop_assert!(copy.iter().eq(plain_copy.iter()));
                let mut told = Vec::new();
                map.differences(copy, &mut |key, old, new| {
                    told.push((*key, old.copied(), new.copied()));
                });
                prop_assert_eq!(told, plain_differences(&plain, plain_copy));
            }
            for key in 0..2000 {
                prop_assert_eq!(map.get(&key), plain.get(&key));
                let plain = [plain.range(..key).next_back(), plain.range(key + 1..).next()];
                prop_assert_eq!(map.neighbors(&key), plain);
            }
            for key in (0..2000).step_by(97) {
                let plain: Vec<_> = plain.range(key..).collect();
                prop_assert_eq!(map.iter_from(&key).collect::<Vec<_>>(), plain);
            }
        }
    }

    #[test]
    fn what_comes_in_order_is_packed() {
        let map: SharedMap<u32, u32> = (0..100_000).map(|number| (number, number)).collect();
        assert!(map.memory_bytes() < 100_000 * 9);
    }

    #[test]
    fn a_change_leaves_all_other_pieces_shared() {
        let old: SharedMap<u32, u32> = (0..100_000).map(|number| (number, 0)).collect();
        let mut new = old.clone();
        let (shared, pieces) = new.shared_with(&old);
        assert_eq!(shared, pieces);
        new.insert(5_000, 1);
        assert_eq!(new.shared_with(&old), (pieces - 1, pieces));
    }
}
