//! Private state of flows, found by a small handle.

/// A bounded set of values with stable, reusable, non-zero handles.
#[derive(Debug)]
pub struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
    limit: usize,
}

impl<T> Slab<T> {
    /// A slab for at most `limit` values. Memory is taken as values come.
    pub fn new(limit: usize) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            limit: limit.min(u32::MAX as usize - 1),
        }
    }

    /// Another limit. If there are more values than that already, they stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(u32::MAX as usize - 1);
    }

    /// Stores a value; gives it back if the slab is full.
    pub fn insert(&mut self, value: T) -> Result<u32, T> {
        if self.len() >= self.limit {
            return Err(value);
        }
        if let Some(handle) = self.free.pop() {
            self.places[handle as usize - 1] = Some(value);
            return Ok(handle);
        }
        self.places.push(Some(value));
        Ok(self.places.len() as u32)
    }

    /// The value behind a handle.
    pub fn at(&self, handle: u32) -> Option<&T> {
        self.places.get((handle as usize).checked_sub(1)?)?.as_ref()
    }

    /// The value behind a handle, to change.
    pub fn at_mut(&mut self, handle: u32) -> Option<&mut T> {
        self.places
            .get_mut((handle as usize).checked_sub(1)?)?
            .as_mut()
    }

    /// Takes a value out; its handle is reused.
    pub fn remove(&mut self, handle: u32) -> Option<T> {
        let value = self
            .places
            .get_mut((handle as usize).checked_sub(1)?)?
            .take()?;
        self.free.push(handle);
        Some(value)
    }

    /// No handle is this large, or larger.
    pub fn bound(&self) -> usize {
        self.places.len() + 1
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_stable_bounded_and_reused() {
        let mut slab = Slab::new(2);
        let (a, b) = (
            slab.insert('a').expect("room"),
            slab.insert('b').expect("room"),
        );
        assert_eq!(slab.insert('c'), Err('c'));
        assert!(a != 0 && b != 0 && a != b);
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!((slab.remove(a), slab.at(a), slab.at(0)), (None, None, None));
        assert_eq!(slab.insert('d'), Ok(a));
        assert_eq!((slab.at(b), slab.len()), (Some(&'b'), 2));
    }

    #[test]
    fn a_lower_limit_lets_no_more_in_and_nobody_out() {
        let mut slab = Slab::new(3);
        let handles = ['a', 'b', 'c'].map(|value| slab.insert(value).expect("room"));
        slab.set_limit(1);
        assert_eq!(slab.remove(handles[0]), Some('a'));
        assert_eq!(slab.insert('d'), Err('d'), "there are two still");
        slab.remove(handles[1]);
        slab.remove(handles[2]);
        assert!(slab.insert('d').is_ok());
        slab.set_limit(2);
        assert!(slab.insert('e').is_ok());
        assert_eq!(slab.insert('f'), Err('f'));
    }
}
