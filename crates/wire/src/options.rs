//! The bytes of options that follow a fixed IPv4 or TCP header.

use crate::build::BuildError;

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
