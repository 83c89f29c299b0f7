//! What a slot's first cache line holds, as the table's own page says.

use twinpath_core::FlowKey;
use twinpath_core::key::{KeyKind, V4Key};

/// A cache line of 32-bit numbers.
pub(super) type Line = [u32; NUMBERS];

/// The part of a slot that belongs to the mechanism which uses the table. All zero at first.
pub type Control = [u32; 5];

const NUMBERS: usize = 16;
const KIND: usize = 4;
const FIRST_CONTROL: usize = 5;
pub(super) const FIRST_WORD: usize = 10;

/// Lines that a slot with so many words takes.
pub(super) const fn lines_for(words: usize) -> usize {
    (FIRST_WORD + words).div_ceil(NUMBERS)
}

/// A key that lies in the slot.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct ShortKey {
    kind: u32,
    words: [u64; 2],
}

/// Kinds of keys in slots; no key is none of them.
const NONE: u32 = 0;
const CONNECTION_V4: u32 = 1;
const ENTRY: u32 = 2;
const WHOLE: u32 = 3;

/// The last word of every entry's key.
const ENTRY_WORD: u64 = (KeyKind::Entry as u64) << 16;

impl ShortKey {
    /// Of a connection over IPv4.
    #[inline(always)]
    pub const fn v4(key: V4Key) -> Self {
        Self {
            kind: CONNECTION_V4,
            words: key.words(),
        }
    }

    /// `None` if the key lies elsewhere.
    #[inline(always)]
    pub const fn of(key: &FlowKey) -> Option<Self> {
        match (V4Key::of(key), key.0) {
            (Some(key), _) => Some(Self::v4(key)),
            (None, [one, two, 0, 0, ENTRY_WORD]) => Some(Self {
                kind: ENTRY,
                words: [one, two],
            }),
            _ => None,
        }
    }
}

#[inline(always)]
const fn words(line: &Line) -> [u64; 2] {
    [
        line[0] as u64 | (line[1] as u64) << 32,
        line[2] as u64 | (line[3] as u64) << 32,
    ]
}

/// Whether the slot's key is this one.
#[inline(always)]
pub(super) const fn holds(line: &Line, key: ShortKey) -> bool {
    let [one, two] = words(line);
    let differences = (one ^ key.words[0]) | (two ^ key.words[1]);
    differences == 0 && line[KIND] == key.kind
}

/// Whether the slot's key lies elsewhere.
#[inline(always)]
pub(super) const fn holds_whole(line: &Line) -> bool {
    line[KIND] == WHOLE
}

/// Sets the key; `None` says that it lies elsewhere.
pub(super) fn set_key(line: &mut Line, key: Option<ShortKey>) {
    let ShortKey { kind, words } = key.unwrap_or(ShortKey {
        kind: WHOLE,
        words: [0; 2],
    });
    for (pair, word) in line.as_chunks_mut::<2>().0.iter_mut().zip(words) {
        *pair = [word as u32, (word >> 32) as u32];
    }
    line[KIND] = kind;
}

/// The key; `None` if it lies elsewhere.
pub(super) fn key(line: &Line) -> Option<FlowKey> {
    let [one, two] = words(line);
    match line[KIND] {
        NONE => Some(FlowKey::default()),
        CONNECTION_V4 => Some(V4Key::from_words([one, two]).whole()),
        ENTRY => Some(FlowKey([one, two, 0, 0, ENTRY_WORD])),
        _ => None,
    }
}

#[inline(always)]
pub(super) fn control(line: &Line) -> Control {
    let mut control = Control::default();
    control.copy_from_slice(&line[FIRST_CONTROL..FIRST_WORD]);
    control
}

#[inline(always)]
pub(super) fn set_control(line: &mut Line, control: Control) {
    line[FIRST_CONTROL..FIRST_WORD].copy_from_slice(&control);
}

/// What may change in a slot.
#[derive(Debug)]
pub struct Held<'a> {
    /// The mechanism's part.
    pub control: &'a mut Control,
    /// The flow's state words.
    pub words: &'a mut [u32],
}

impl<'a> Held<'a> {
    /// Of all of a slot's numbers.
    #[inline(always)]
    pub(super) fn of(numbers: &'a mut [u32], word_count: usize) -> Option<Self> {
        let (head, rest) = numbers.split_first_chunk_mut::<FIRST_WORD>()?;
        Some(Self {
            control: head.last_chunk_mut()?,
            words: rest.get_mut(..word_count)?,
        })
    }
}
