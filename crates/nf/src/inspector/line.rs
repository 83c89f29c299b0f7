//! A cursor over one line of a rules file that knows its column.

use super::error::{Expected, Problem};

/// A problem and the byte offset in the line where it was met.
pub(super) type At<T> = Result<T, (usize, Problem)>;

/// What is left of one line.
pub(super) struct Line<'t> {
    text: &'t str,
    offset: usize,
}

impl<'t> Line<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut line = Self { text, offset: 0 };
        line.skip_blank();
        line
    }

    /// The byte offset of the next word.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// Whether nothing but a comment is left.
    pub(super) fn is_done(&self) -> bool {
        self.rest().is_empty() || self.rest().starts_with('#')
    }

    /// The next word up to a blank, which may be empty at the line's end.
    pub(super) fn word(&mut self) -> &'t str {
        let length = self.rest().find(is_blank).unwrap_or(self.rest().len());
        let word = &self.rest()[..length];
        self.offset += length;
        self.skip_blank();
        word
    }

    /// Steps over `word` if it stands next, and the blanks behind it.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let is_next = self.is_next_word(word);
        if is_next {
            self.word();
        }
        is_next
    }

    /// Whether `word` stands next.
    pub(super) fn is_next_word(&self, word: &str) -> bool {
        self.rest().split(is_blank).next() == Some(word)
    }

    /// Steps over `mark` if it stands next.
    pub(super) fn take(&mut self, mark: &str) -> bool {
        let found = self.rest().starts_with(mark);
        self.offset += if found { mark.len() } else { 0 };
        found
    }

    /// The text between two double quotes, escapes as they are, and the
    /// offset of its first byte.
    pub(super) fn quoted(&mut self, expected: Expected) -> At<(usize, &'t str)> {
        let opening = self.offset;
        if !self.take("\"") {
            return Err((opening, Problem::Expected(expected)));
        }
        let start = self.offset;
        let length = closing_quote(self.rest())
            .ok_or((self.text.len(), Problem::Expected(Expected::ClosingQuote)))?;
        self.offset += length + 1;
        self.end_of_word()?;
        Ok((start, &self.text[start..start + length]))
    }

    fn end_of_word(&mut self) -> At<()> {
        if !self.rest().is_empty() && !self.rest().starts_with(is_blank) {
            return Err((self.offset, Problem::Expected(Expected::Space)));
        }
        self.skip_blank();
        Ok(())
    }

    fn skip_blank(&mut self) {
        self.offset = self.text.len() - self.rest().trim_start_matches(is_blank).len();
    }

    fn rest(&self) -> &'t str {
        &self.text[self.offset..]
    }
}

/// Where an unescaped double quote stands.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(offset),
            _ => {}
        }
    }
    None
}

fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

/// The bytes that a literal's text stands for. An error's offset counts from
/// the text's first byte.
pub(super) fn unescape(text: &str) -> At<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match first {
            b'\\' => {
                let wrong = (text.len() - rest.len(), Problem::Expected(Expected::Escape));
                let (byte, after) = escape(after).ok_or(wrong)?;
                bytes.push(byte);
                after
            }
            &plain => {
                bytes.push(plain);
                after
            }
        };
    }
    Ok(bytes)
}

/// The byte of the escape whose backslash was just read, and what follows.
fn escape(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'n', rest @ ..] => Some((b'\n', rest)),
        [b'r', rest @ ..] => Some((b'\r', rest)),
        [b't', rest @ ..] => Some((b'\t', rest)),
        [mark @ (b'\\' | b'"'), rest @ ..] => Some((*mark, rest)),
        [b'x', high, low, rest @ ..] => Some((hex(*high)? << 4 | hex(*low)?, rest)),
        _ => None,
    }
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_bytes() {
        let bytes = unescape(r#"a\x00\xfF\n\r\t\\\""#).unwrap();
        assert_eq!(bytes, b"a\x00\xff\n\r\t\\\"");
    }

    #[test]
    fn a_wrong_escape_is_located() {
        for (text, at) in [(r"ab\q", 2), (r"\x0", 0), (r"\\\xg0", 2), ("é\\", 2)] {
            assert_eq!(unescape(text).unwrap_err().0, at, "{text}");
        }
    }

    #[test]
    fn quotes_may_hold_quotes_and_hashes() {
        let mut line = Line::new(r##"  "a\"#b\\" next # gone"##);
        assert_eq!(line.quoted(Expected::Pattern).unwrap(), (3, r##"a\"#b\\"##));
        assert_eq!(line.word(), "next");
        assert!(line.is_done());
    }
}
