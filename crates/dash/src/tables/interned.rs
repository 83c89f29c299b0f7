//! Values that many entries share, each kept once under a number.

use std::collections::HashMap;
use std::hash::Hash;

/// Values under numbers that entries hold instead of them. A value is forgotten with its last use.
#[derive(Clone, Debug)]
pub(crate) struct Interned<T> {
    values: Vec<Option<(T, u32)>>,
    numbers: HashMap<T, u32>,
    free: Vec<u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            numbers: HashMap::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Interned<T> {
    /// The number of a value, in one more use.
    pub fn take(&mut self, value: &T) -> u32 {
        if let Some(&number) = self.numbers.get(value) {
            if let Some(Some((_, uses))) = self.values.get_mut(number as usize) {
                *uses += 1;
            }
            return number;
        }
        let number = self.free.pop().unwrap_or(self.values.len() as u32);
        let place = Some((value.clone(), 1));
        match self.values.get_mut(number as usize) {
            Some(free) => *free = place,
            None => self.values.push(place),
        }
        self.numbers.insert(value.clone(), number);
        number
    }

    /// One use less of a number.
    pub fn give(&mut self, number: u32) {
        let Some(place) = self.values.get_mut(number as usize) else {
            return;
        };
        let Some((value, uses)) = place else {
            return;
        };
        *uses -= 1;
        if *uses == 0 {
            self.numbers.remove(value);
            *place = None;
            self.free.push(number);
        }
    }

    /// One use more of a number.
    pub fn keep(&mut self, number: u32) {
        if let Some(Some((_, uses))) = self.values.get_mut(number as usize) {
            *uses += 1;
        }
    }

    /// The value under a number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        Some(&self.values.get(number as usize)?.as_ref()?.0)
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Memory taken, in bytes, about: a map has a byte beside each entry and is two thirds full.
    pub fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<Option<(T, u32)>>()
            + self.numbers.capacity() * (size_of::<(T, u32)>() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lives_as_long_as_its_uses() {
        let mut words = Interned::default();
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
}
