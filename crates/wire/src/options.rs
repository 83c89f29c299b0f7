//! The bytes of options that follow a fixed IPv4 or TCP header.

use crate::build_error::BuildError;

/// The most option bytes that a header length of 15 words leaves room for.
pub const MAX_OPTION_BYTES: usize = 40;

/// Up to 40 bytes of options, padded with zeros (end of list) to whole 32-bit words.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct OptionBytes {
    bytes: [u8; MAX_OPTION_BYTES],
    length: u8,
}

impl OptionBytes {
    /// No options.
    pub const EMPTY: Self = Self {
        bytes: [0; MAX_OPTION_BYTES],
        length: 0,
    };

    /// Copies `options` and pads them to a multiple of four bytes.
    ///
    /// # Errors
    /// [`BuildError::OptionsTooLong`] above 40 bytes.
    pub fn from_slice(options: &[u8]) -> Result<Self, BuildError> {
        let mut result = Self::EMPTY;
        let slot = result
            .bytes
            .get_mut(..options.len())
            .ok_or(BuildError::OptionsTooLong)?;
        slot.copy_from_slice(options);
        result.length = options.len().next_multiple_of(4) as u8;
        Ok(result)
    }

    /// The padded bytes; their number is a multiple of four.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }

    /// How many bytes, padding included.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length as usize
    }
}

impl std::fmt::Debug for OptionBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// What stands at the start of a list of options.
pub(crate) enum SplitOption<'a> {
    /// Nothing more: the end of the bytes or of the list.
    End,
    /// An option that runs over its end or is shorter than its own head.
    Malformed,
    /// One option: its number, what follows kind and length, and the options after it.
    One {
        kind: u8,
        data: &'a [u8],
        rest: &'a [u8],
    },
}

/// Splits the first option off. IPv4 and TCP share this form: kind 0 ends the list, kind 1 is one
/// byte, others carry their length.
pub(crate) fn split_option(bytes: &[u8]) -> SplitOption<'_> {
    match bytes {
        [] | [0, ..] => SplitOption::End,
        [1, rest @ ..] => SplitOption::One {
            kind: 1,
            data: &[],
            rest,
        },
        [kind, length, ..] => split_sized_option(*kind, usize::from(*length), bytes),
        [_] => SplitOption::Malformed,
    }
}

fn split_sized_option(kind: u8, length: usize, bytes: &[u8]) -> SplitOption<'_> {
    match (bytes.get(2..length), bytes.get(length..)) {
        (Some(data), Some(rest)) => SplitOption::One { kind, data, rest },
        _ => SplitOption::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pads_to_words_and_refuses_more_than_40() {
        assert_eq!(
            OptionBytes::from_slice(&[1, 2, 3]).unwrap().as_slice(),
            &[1, 2, 3, 0]
        );
        assert_eq!(OptionBytes::from_slice(&[7; 40]).unwrap().length(), 40);
        assert_eq!(
            OptionBytes::from_slice(&[7; 41]),
            Err(BuildError::OptionsTooLong)
        );
        assert_eq!(OptionBytes::EMPTY.as_slice(), &[0u8; 0]);
    }
}
