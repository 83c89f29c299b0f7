//! Bytes written as hexadecimal digits.

/// Why a text is no packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HexError {
    /// Another character.
    #[error("--hex: {found:?} at character {place} is no hexadecimal digit")]
    Digit {
        /// What is there.
        found: char,
        /// Where, counted from 1.
        place: usize,
    },
    /// Half a byte.
    #[error("--hex: {digits} digits: expected two for each byte")]
    Odd {
        /// How many there are.
        digits: usize,
    },
    /// Nothing.
    #[error("--hex: expected the bytes of a packet, from its Ethernet header on")]
    Empty,
}

/// The bytes that a text stands for; blanks and colons are passed over.
pub fn bytes(text: &str) -> Result<Vec<u8>, HexError> {
    let mut digits = Vec::new();
    for (place, found) in (1..).zip(text.chars()) {
        match found.to_digit(16) {
            Some(digit) => digits.push(digit as u8),
            None if found.is_whitespace() || found == ':' => {}
            None => return Err(HexError::Digit { found, place }),
        }
    }
    match digits.len() {
        0 => Err(HexError::Empty),
        odd if odd % 2 == 1 => Err(HexError::Odd { digits: odd }),
        _ => Ok(digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_may_be_set_apart() {
        assert_eq!(bytes("00fF 1a:2b\n3c"), Ok(vec![0, 255, 0x1a, 0x2b, 0x3c]));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let found = 'x';
        assert_eq!(bytes("00 0x"), Err(HexError::Digit { found, place: 5 }));
        assert_eq!(bytes("123"), Err(HexError::Odd { digits: 3 }));
        assert_eq!(bytes(" "), Err(HexError::Empty));
    }
}
