//! What the same function of several workers has in common.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What functions of all workers of a node have in common, by the function's name. A function looks
/// at it when its worker begins; what it takes from here is its own to lock.
#[derive(Clone, Default)]
pub struct Common(Arc<Mutex<Parts>>);

type Parts = HashMap<String, Arc<dyn Any + Send + Sync>>;

impl Common {
    /// The part of the functions of this name; a new one if there is none of that type yet.
    pub fn part<T: Default + Send + Sync + 'static>(&self, name: &str) -> Arc<T> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = parts.get(name).cloned();
        if let Some(Ok(part)) = known.map(Arc::downcast) {
            return part;
        }
        let part = Arc::new(T::default());
        parts.insert(name.to_owned(), Arc::clone(&part) as _);
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    #[test]
    fn functions_of_one_name_and_kind_have_one_part() {
        let common = Common::default();
        let others = common.clone();
        common
            .part::<AtomicU32>("one")
            .fetch_add(1, Ordering::Relaxed);
        let count = |name| others.part::<AtomicU32>(name).load(Ordering::Relaxed);
        assert_eq!([count("one"), count("other")], [1, 0]);
        // Another function by the name.
        assert_eq!(common.part::<AtomicU64>("one").load(Ordering::Relaxed), 0);
    }
}
