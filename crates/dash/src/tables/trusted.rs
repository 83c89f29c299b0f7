//! VNIs that packets may come with.

use std::sync::Arc;

use crate::objects::VniRange;

/// The VNIs that an appliance or an ENI lists: ranges in order that do not meet, however they were
/// listed, so that a look at them costs the logarithm of their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedVnis(Arc<[[u32; 2]]>);

impl TrustedVnis {
    /// Those of a list, in any order and over each other.
    #[must_use]
    pub fn new(listed: &[VniRange]) -> Self {
        let ends = listed.iter().map(|range| [range.first(), range.last()]);
        let mut ranges: Vec<_> = ends.map(|ends| ends.map(|vni| vni.get())).collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            // A VNI has 24 bits, so the sum has room.
            let meets = next[0] <= kept[1] + 1;
            if meets {
                kept[1] = kept[1].max(next[1]);
            }
            meets
        });
        Self(ranges.into())
    }

    /// Those that the other list has not.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        for &[mut first, last] in self.0.iter() {
            let behind = other.0.partition_point(|[_, end]| *end < first);
            let meeting = other.0[behind..]
                .iter()
                .take_while(|[from, _]| *from <= last);
            for &[from, end] in meeting {
                if first < from {
                    left.push([first, from - 1]);
                }
                first = end + 1;
            }
            if first <= last {
                left.push([first, last]);
            }
        }
        Self(left.into())
    }

    /// Whether none is listed.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a VNI is.
    #[must_use]
    #[inline]
    pub fn contains(&self, vni: u32) -> bool {
        let behind = self.0.partition_point(|[first, _]| *first <= vni);
        let range = behind.checked_sub(1).and_then(|at| self.0.get(at));
        range.is_some_and(|[_, last]| vni <= *last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::objects::{Range, Vni};

    fn listed(ends: &[(u32, u32)]) -> Vec<VniRange> {
        let vni = |number: u32| Vni::new(number).expect("24 bits");
        let range =
            |&(one, other): &(u32, u32)| Range::new(vni(one.min(other)), vni(one.max(other)));
        ends.iter().filter_map(range).collect()
    }

    proptest! {
        /// As if each of the listed ranges were asked.
        #[test]
        fn a_vni_is_trusted_if_a_range_has_it(
            ends in prop::collection::vec((0u32..60, 0u32..60), 0..20),
            shift in prop::sample::select(vec![0, Vni::MAX.get() - 59]),
        ) {
            let ends: Vec<_> = ends.iter().map(|(one, other)| (one + shift, other + shift)).collect();
            let ranges = listed(&ends);
            let trusted = TrustedVnis::new(&ranges);
            prop_assert_eq!(trusted.is_empty(), ranges.is_empty());
            for number in (shift.max(1) - 1)..=(shift + 61) {
                let vni = Vni::new(number);
                let is_listed = vni.is_some_and(|vni| ranges.iter().any(|range| range.contains(vni)));
                prop_assert_eq!(trusted.contains(number), is_listed);
            }
        }
    }

    proptest! {
        /// As if each VNI were asked of both.
        #[test]
        fn a_vni_is_left_if_the_other_list_has_it_not(
            ends in prop::collection::vec((0u32..60, 0u32..60), 0..20),
            others in prop::collection::vec((0u32..60, 0u32..60), 0..20),
        ) {
            let [own, other] = [ends, others].map(|ends| TrustedVnis::new(&listed(&ends)));
            let left = own.without(&other);
            for vni in 0..=61 {
                let is_left = own.contains(vni) && !other.contains(vni);
                prop_assert_eq!(left.contains(vni), is_left);
            }
        }
    }

    /// A packet looks at a logarithm of these.
    #[test]
    fn ranges_that_meet_are_one() {
        let ends: Vec<_> = (0..50_000)
            .map(|number| (2 * number, 2 * number + 1))
            .collect();
        assert_eq!(TrustedVnis::new(&listed(&ends)).0[..], [[0, 99_999]]);
        let apart = [(9, 9), (3, 5), (1, 1), (4, 7)];
        assert_eq!(
            TrustedVnis::new(&listed(&apart)).0[..],
            [[1, 1], [3, 7], [9, 9]]
        );
    }
}
