//! What functions' own tables take when they are full.

/// A table that a function has beside the state that flows share.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TableMemory {
    /// How many entries it has at most.
    pub count: u64,
    /// What they are.
    pub of: &'static str,
    /// Their bytes.
    pub bytes: u64,
    /// The key of the function's section that says how many.
    pub key: &'static str,
}

/// Bytes of a hash map with so many entries: at most seven of eight places are taken, the number of
/// places is a power of two, and each has a byte beside its entry.
pub(crate) const fn map_bytes<K, V>(entries: usize) -> u64 {
    let places = (entries * 8).div_ceil(7).next_power_of_two();
    places as u64 * (size_of::<(K, V)>() as u64 + 1)
}

/// Bytes of so many values, as a [`Slab`](twinpath_slowpath::Slab) has them.
pub(crate) const fn slab_bytes<T>(values: usize) -> u64 {
    (values * size_of::<Option<T>>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_map_takes_what_is_told() {
        for entries in [100, 896, 897, 1_000_000] {
            let map = HashMap::<u64, u32>::with_capacity(entries);
            let places = (map.capacity() * 8).div_ceil(7) as u64;
            assert_eq!(map_bytes::<u64, u32>(entries), places * 17, "{entries}");
        }
    }
}
