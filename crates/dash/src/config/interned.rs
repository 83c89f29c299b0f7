//! Equal values that are kept once.

use std::sync::Arc;

use super::shared_map::SharedMap;

/// Values with a count of how often each is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interned<T: Ord> {
    uses: SharedMap<Arc<T>, usize>,
}

impl<T: Ord> Default for Interned<T> {
    fn default() -> Self {
        Self {
            uses: SharedMap::default(),
        }
    }
}

impl<T: Ord> Interned<T> {
    /// The one value that is equal to this one, used once more.
    pub fn take(&mut self, value: T) -> Arc<T> {
        let value = Arc::new(value);
        let known = self.uses.get_key(&value).cloned().unwrap_or(value);
        match self.uses.get_mut(&known) {
            Some(uses) => *uses += 1,
            None => {
                self.uses.insert(known.clone(), 1);
            }
        }
        known
    }

    /// A value is used once less, and forgotten with its last use.
    pub fn release(&mut self, value: &Arc<T>) {
        let Some(uses) = self.uses.get_mut(value) else {
            return;
        };
        *uses -= 1;
        if *uses == 0 {
            self.uses.remove(value);
        }
    }

    /// All values, each once.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.uses.keys().map(|value| &**value)
    }

    /// Bytes that they take, not counting what they point to.
    pub fn memory_bytes(&self) -> usize {
        const COUNTS: usize = 2 * size_of::<usize>();
        self.uses.memory_bytes() + self.uses.len() * (size_of::<T>() + COUNTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_until_the_last_is_released() {
        let mut interned = Interned::default();
        let (one, two) = (interned.take("blue"), interned.take("blue"));
        assert!(Arc::ptr_eq(&one, &two));
        let other = interned.take("red");
        assert_eq!(interned.values().collect::<Vec<_>>(), [&"blue", &"red"]);
        interned.release(&one);
        assert!(interned.values().any(|value| *value == "blue"));
        interned.release(&two);
        interned.release(&other);
        assert_eq!(interned.values().count(), 0);
    }
}
