//! What is kept of a packet's bytes.

use std::hash::{DefaultHasher, Hash, Hasher};

/// 128 bits that differ if what was digested differs: for a million million pairs of packets, the
/// chance that two of them agree by accident is below 10^-26.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest([u64; 2]);

impl Digest {
    /// Some of its bits.
    pub const fn short(self) -> u16 {
        self.0[0] as u16
    }

    /// Digests a value twice, behind different first words.
    pub fn of(value: &(impl Hash + ?Sized)) -> Self {
        Self([1, 2].map(|first: u64| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(first);
            value.hash(&mut hasher);
            hasher.finish()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_has_another_digest() {
        let digests = [&[][..], &[0], &[0, 0], &[1, 0], &[0, 1]].map(Digest::of);
        for (index, digest) in digests.iter().enumerate() {
            assert!(!digests[..index].contains(digest), "{index}");
            assert_ne!(digest.0[0], digest.0[1]);
        }
        assert_eq!(Digest::of(&[1, 2][..]), Digest::of(&vec![1, 2][..]));
    }
}
