//! What a rule is made of: things to be found, each at a certain place.

use super::{GateLiterals, Pattern, RuleIndex};
use crate::inspector::expression::length;
use crate::inspector::words::Edge;
use regex_syntax::hir::Hir;

/// An item's position among all items of a file, from 0; below
/// [`MAX_ITEMS`](crate::inspector::MAX_ITEMS). A matcher reports patterns by it.
pub type ItemIndex = u16;

/// One thing that has to be there, or not to be there, for a rule to be met.
#[derive(Debug, Clone)]
pub struct Item {
    pub(in crate::inspector) rule: RuleIndex,
    pub(in crate::inspector) kind: ItemKind,
    pub(in crate::inspector) place: ItemBounds,
    /// It must not be there.
    pub(in crate::inspector) negated: bool,
    /// It is not relative to the item before it.
    pub(in crate::inspector) begins: bool,
    /// No other item is relative to it.
    pub(in crate::inspector) ends: bool,
    /// Which of its rule's chains it belongs to: an item that begins and those relative to it.
    pub(in crate::inspector) chain: u8,
}

impl Item {
    /// Whether a matcher looks for it.
    pub(in crate::inspector) fn is_pattern(&self) -> bool {
        matches!(self.kind, ItemKind::Pattern(_))
    }

    /// Whether it begins to be looked for with a stream, whatever is in it: a number, or what must not
    /// be there in a rule that names nothing else.
    fn opens(&self, names_only_absence: bool) -> bool {
        self.begins && (!self.is_pattern() || names_only_absence)
    }

    /// The items of rules that open, by their indexes.
    pub(super) fn openers<'a>(rules: impl Iterator<Item = &'a [Self]>) -> Vec<ItemIndex> {
        let (mut openers, mut first) = (Vec::new(), 0);
        for items in rules {
            let only = names_only_absence(items);
            let numbered = (first..).zip(items);
            openers.extend(
                numbered
                    .filter(|(_, item)| item.opens(only))
                    .map(|(index, _)| index),
            );
            first += items.len() as ItemIndex;
        }
        openers
    }
}

/// Whether items of a rule are all what must not be there.
pub(super) fn names_only_absence(items: &[Item]) -> bool {
    items.iter().all(|item| item.negated && item.is_pattern())
}

/// What is to be found.
#[derive(Debug, Clone)]
pub(in crate::inspector) enum ItemKind {
    /// Bytes, or what an expression matches.
    Pattern(Sought),
    /// A number in the stream that compares in a certain way.
    Test(ByteTest),
    /// A number that says where the next item is looked for.
    Jump(ByteJump),
    /// So many bytes more.
    DataAt(u32),
    /// A word ends or begins here, or none does.
    Edge(Edge),
}

/// A pattern and how it is looked for.
#[derive(Debug, Clone)]
pub struct Sought {
    pub(in crate::inspector) pattern: Pattern,
    pub(in crate::inspector) nocase: bool,
    pub(in crate::inspector) gate: GateLiterals,
    pub(in crate::inspector) expression: Option<Hir>,
    /// Whether an occurrence begins depends on the byte in front of it.
    pub(in crate::inspector) looks_back: bool,
}

impl Sought {
    /// What to look for.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether ASCII letters match in either case.
    pub fn is_nocase(&self) -> bool {
        self.nocase
    }

    /// What escalates a packet to the slow path: that with which every occurrence begins.
    pub fn gate(&self) -> &GateLiterals {
        &self.gate
    }

    /// Whether an occurrence begins depends on the byte in front of it.
    pub(in crate::inspector) fn looks_back(&self) -> bool {
        self.looks_back
    }

    /// The checked regular expression; none for a literal.
    pub(in crate::inspector) fn expression(&self) -> Option<&Hir> {
        self.expression.as_ref()
    }

    /// How long every occurrence is; 0 if they differ.
    pub(in crate::inspector) fn bytes(&self) -> u32 {
        match &self.pattern {
            Pattern::Literal(bytes) => bytes.len() as u32,
            Pattern::Regex(_) => self.expression.as_ref().and_then(length).unwrap_or(0),
        }
    }
}

/// Where an item has to be. All in bytes; 0 is a stream's or datagram's first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::inspector) struct ItemBounds {
    /// It begins here or later.
    pub offset: u32,
    /// It ends at most so far behind `offset`.
    pub depth: Option<u32>,
    /// It begins at least so far behind the end of the item before it.
    pub distance: i32,
    /// It ends at most so far behind the end of the item before it.
    pub within: Option<u32>,
    /// Nothing follows it.
    pub ends_with: bool,
}

impl ItemBounds {
    /// Everywhere.
    pub const ANYWHERE: Self = Self {
        offset: 0,
        depth: None,
        distance: 0,
        within: None,
        ends_with: false,
    };
}

/// How a number is written in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inspector) enum Encoding {
    /// Most significant byte first.
    Big,
    /// Least significant byte first.
    Little,
    /// Digits, in a base of 8, 10 or 16.
    Text(u32),
}

/// How a number compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inspector) enum Compare {
    Less,
    AtMost,
    Equal,
    AtLeast,
    Greater,
    /// A bit of both is set.
    And,
    /// They differ in some bit.
    Xor,
}

/// A number behind the end of the item before it, or behind the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inspector) struct Number {
    /// Where it begins.
    pub offset: i32,
    /// How many bytes it has.
    pub bytes: u32,
    pub encoding: Encoding,
}

/// Whether a number compares in a certain way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inspector) struct ByteTest {
    pub number: Number,
    pub compare: Compare,
    pub with: u64,
    /// The comparison must not hold.
    pub inverted: bool,
}

/// How far the next item is behind a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inspector) struct ByteJump {
    pub number: Number,
    pub multiplier: u32,
    /// Rounded up to a multiple of four.
    pub aligned: bool,
    /// Added to where it leads.
    pub after: i32,
}

impl Number {
    /// How far behind the end of the item before it it ends.
    pub fn end(&self) -> i64 {
        i64::from(self.offset) + i64::from(self.bytes)
    }

    /// The number that these bytes write; `None` if they are no digits.
    pub fn read(&self, bytes: &[u8]) -> Option<u64> {
        let shift = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        match self.encoding {
            Encoding::Big => Some(bytes.iter().fold(0, shift)),
            Encoding::Little => Some(bytes.iter().rev().fold(0, shift)),
            Encoding::Text(base) => digits(bytes, base),
        }
    }
}

/// The number that a text begins with, after blanks and the mark of its base.
fn digits(bytes: &[u8], base: u32) -> Option<u64> {
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    let text = text.trim_start();
    let text = match base {
        16 => text
            .strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))
            .unwrap_or(text),
        _ => text,
    };
    let length = text.find(|c: char| !c.is_digit(base)).unwrap_or(text.len());
    u64::from_str_radix(&text[..length], base).ok()
}

impl ByteTest {
    pub fn holds(&self, value: u64) -> bool {
        let holds = match self.compare {
            Compare::Less => value < self.with,
            Compare::AtMost => value <= self.with,
            Compare::Equal => value == self.with,
            Compare::AtLeast => value >= self.with,
            Compare::Greater => value > self.with,
            Compare::And => value & self.with != 0,
            Compare::Xor => value ^ self.with != 0,
        };
        holds != self.inverted
    }
}

impl ByteJump {
    /// Where the next item is looked for, if the number ends at a position.
    pub fn target(&self, value: u64, end: u32) -> Option<u32> {
        let distance = value.checked_mul(u64::from(self.multiplier))?;
        let distance = match self.aligned {
            true => distance.checked_next_multiple_of(4)?,
            false => distance,
        };
        let target = u64::from(end).checked_add(distance)?;
        u32::try_from(target.checked_add_signed(i64::from(self.after))?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_every_encoding() {
        let number = |encoding| Number {
            offset: 0,
            bytes: 4,
            encoding,
        };
        assert_eq!(number(Encoding::Big).read(b"\0\0\x01\x02"), Some(258));
        assert_eq!(number(Encoding::Little).read(b"\x02\x01\0\0"), Some(258));
        assert_eq!(number(Encoding::Text(10)).read(b" 12a"), Some(12));
        assert_eq!(number(Encoding::Text(16)).read(b"0x1F"), Some(31));
        assert_eq!(number(Encoding::Text(8)).read(b"0178"), Some(15));
        assert_eq!(number(Encoding::Text(10)).read(b"abcd"), None);
    }

    #[test]
    fn jumps_lead_behind_the_number() {
        let jump = ByteJump {
            number: Number {
                offset: 0,
                bytes: 1,
                encoding: Encoding::Big,
            },
            multiplier: 2,
            aligned: true,
            after: -1,
        };
        assert_eq!(jump.target(3, 100), Some(107));
        assert_eq!(jump.target(u64::MAX, 100), None);
        assert_eq!(jump.target(u64::from(u32::MAX), 100), None);
    }
}
