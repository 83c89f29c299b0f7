//! Lines of a text by the bytes where they are.

use serde_json::value::RawValue;

/// Counts lines from the place that was asked for last, so that asking in order costs one pass.
pub(super) struct Lines<'a> {
    text: &'a str,
    offset: usize,
    line: u32,
}

impl<'a> Lines<'a> {
    pub const fn new(text: &'a str) -> Self {
        Self {
            text,
            offset: 0,
            line: 1,
        }
    }

    /// The line, from 1, of a value that was read from the text.
    pub fn of(&mut self, value: &RawValue) -> u32 {
        let start = self.text.as_ptr() as usize;
        let offset = (value.get().as_ptr() as usize).wrapping_sub(start);
        self.at(offset)
    }

    /// The line of a byte; one beyond the end is on the last line.
    pub fn at(&mut self, offset: usize) -> u32 {
        let offset = offset.min(self.text.len());
        if offset >= self.offset {
            self.line += self.newlines(self.offset, offset);
        } else {
            self.line -= self.newlines(offset, self.offset);
        }
        self.offset = offset;
        self.line
    }

    fn newlines(&self, from: usize, to: usize) -> u32 {
        let bytes = &self.text.as_bytes()[from..to];
        bytes.iter().map(|byte| u32::from(*byte == b'\n')).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_in_both_directions() {
        let text = "one\ntwo\n\nfour";
        let mut lines = Lines::new(text);
        assert_eq!(
            [0, 3, 4, 8, 9, 1000, 4].map(|at| lines.at(at)),
            [1, 1, 2, 3, 4, 4, 2]
        );
    }
}
