//! The value that the checked network function keeps: which packets it has applied, in order.

use std::fmt;

/// A list of packets as hexadecimal digits, the first packet in front. Order and multiplicity
/// show; the empty list is the zero value that need not be kept.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Value(u64);

/// The digit of a change that the workers made on their own account.
pub(super) const TIMER: u8 = 14;

/// The digit of whatever is applied in a search that renames: differs from all digits in use.
pub(super) const FRESH: u8 = 15;

/// Packets beyond this number get digits that were used before.
const PACKET_DIGITS: u8 = 13;

/// The digit of a packet, by its number from 1.
pub(super) const fn packet_digit(packet: u8) -> u8 {
    (packet - 1) % PACKET_DIGITS + 1
}

impl Value {
    pub const NOTHING: Self = Self(0);

    pub fn is_nothing(self) -> bool {
        self == Self::NOTHING
    }

    pub fn push(&mut self, digit: u8) {
        self.0 = self.0 << 4 | u64::from(digit);
    }

    fn len(self) -> u32 {
        (u64::BITS - self.0.leading_zeros()).div_ceil(4)
    }

    fn digit(self, place: u32) -> u8 {
        (self.0 >> (4 * (self.len() - 1 - place)) & 15) as u8
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        for place in 0..self.len() {
            let space = if place == 0 { "" } else { " " };
            match self.digit(place) {
                TIMER => write!(f, "{space}timer")?,
                digit => write!(f, "{space}{digit}")?,
            }
        }
        write!(f, "]")
    }
}

/// Shortens and renames values while keeping what can be told of them: which are equal, which
/// are empty, and which continue which. They form a tree of lists; every stretch without a fork
/// or an end becomes one digit, and the branches of a fork are numbered as they first appear.
///
/// This loses nothing that a later step could see: a step appends a digit never used before,
/// copies a value, or empties it, and asks of values only whether they are equal or empty.
pub(super) fn shorten(values: &mut [Value]) {
    let old = Tree(values);
    let mut new = [Value::NOTHING; 32];
    old.branch(&mut new, (1 << old.0.len()) - 1, 0);
    values.copy_from_slice(&new[..values.len()]);
}

/// Most values that can be shortened together.
pub(super) const MOST_VALUES: usize = 31;

struct Tree<'a>(&'a [Value]);

impl Tree<'_> {
    /// The members of `set` (bits) all agree on the first `depth` digits.
    fn branch(&self, new: &mut [Value; 32], set: u32, depth: u32) {
        let mut rest = self.select(set, |value| value.len() > depth);
        let mut label = 0;
        while rest != 0 {
            let digit = self.0[rest.trailing_zeros() as usize].digit(depth);
            let group = self.select(rest, |value| value.digit(depth) == digit);
            rest &= !group;
            label += 1;
            let end = self.end_of_stretch(group, depth + 1);
            (0..self.0.len())
                .filter(|place| group >> place & 1 == 1)
                .for_each(|place| new[place].push(label));
            self.branch(new, group, end);
        }
    }

    fn end_of_stretch(&self, group: u32, from: u32) -> u32 {
        let first = self.0[group.trailing_zeros() as usize];
        let goes_on = |end| {
            let agrees = |value: Value| value.len() > end && value.digit(end) == first.digit(end);
            first.len() > end && self.select(group, agrees) == group
        };
        (from..).find(|&end| !goes_on(end)).unwrap_or(from)
    }

    fn select(&self, set: u32, wanted: impl Fn(Value) -> bool) -> u32 {
        (0..self.0.len())
            .filter(|&place| set >> place & 1 == 1 && wanted(self.0[place]))
            .fold(0, |chosen, place| chosen | 1 << place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(digits: &[u8]) -> Value {
        let mut value = Value::NOTHING;
        digits.iter().for_each(|&digit| value.push(digit));
        value
    }

    fn continues(longer: Value, shorter: Value) -> bool {
        shorter.len() <= longer.len()
            && (0..shorter.len()).all(|place| longer.digit(place) == shorter.digit(place))
    }

    #[test]
    fn shared_stretches_become_one_digit() {
        let mut values = [
            value(&[1, 2, 3, 4]),
            value(&[1, 2, 7, 8, 9]),
            value(&[1, 2]),
            value(&[]),
        ];
        shorten(&mut values);
        assert_eq!(
            values,
            [value(&[1, 1]), value(&[1, 2]), value(&[1]), value(&[])]
        );
    }

    #[test]
    fn values_print_as_lists() {
        assert_eq!(value(&[3, TIMER, 12]).to_string(), "[3 timer 12]");
        assert_eq!(Value::NOTHING.to_string(), "[]");
    }

    proptest! {
        #[test]
        fn shortening_keeps_what_can_be_told(
            lists in prop::collection::vec(prop::collection::vec(1u8..4, 0..6), 1..12)
        ) {
            let old: Vec<Value> = lists.iter().map(|list| value(list)).collect();
            let mut new = old.clone();
            shorten(&mut new);
            for (a, b) in old.iter().zip(&new) {
                prop_assert_eq!(a.is_nothing(), b.is_nothing());
                prop_assert!(b.len() <= a.len());
                for (c, d) in old.iter().zip(&new) {
                    prop_assert_eq!(a == c, b == d);
                    prop_assert_eq!(continues(*a, *c), continues(*b, *d));
                }
            }
            let mut again = new.clone();
            shorten(&mut again);
            prop_assert_eq!(again, new, "a shortened set is as short as it gets");
        }
    }
}
