//! Rules in Suricata's words that go on behind a `\\` at the end of a line.

use super::{column, suricata};
use std::borrow::Cow;

/// What is read as one line: a line of the file, or a rule that several make.
pub(super) struct Entry<'t> {
    /// Its text; what ended a line that goes on is left out.
    pub text: Cow<'t, str>,
    /// Where the lines after the first begin in the text.
    breaks: Vec<usize>,
    /// The first line's number, from 1.
    pub line: u32,
}

impl Entry<'_> {
    /// The line and the column, in characters from 1, of a byte of the text.
    pub fn place(&self, offset: usize) -> (u32, u32) {
        let lines = self.breaks.iter().take_while(|start| **start <= offset);
        let start = lines.clone().last().copied().unwrap_or(0);
        let line = self.line + lines.count() as u32;
        (line, column(&self.text[start..], offset - start))
    }
}

/// The entries of a file, in order.
pub(super) struct Entries<'t> {
    lines: std::str::Lines<'t>,
    next: u32,
}

impl<'t> Entries<'t> {
    pub fn of(text: &'t str) -> Self {
        Self {
            lines: text.lines(),
            next: 1,
        }
    }

    fn line(&mut self) -> Option<&'t str> {
        let line = self.lines.next()?;
        self.next += 1;
        Some(line)
    }

    /// A rule of several lines, of which the first is known.
    fn join(&mut self, first: &str) -> (String, Vec<usize>) {
        let (mut text, mut breaks) = (first.to_owned(), Vec::new());
        let is_remark = is_remark(first);
        while let Some(more) = self.lines.clone().next() {
            // A rule behind what is commented out is one: it must not go with that.
            if is_remark && suricata::is_begun(more) {
                break;
            }
            self.line();
            breaks.push(text.len());
            text += goes_on(more).unwrap_or(more);
            if goes_on(more).is_none() {
                break;
            }
        }
        (text, breaks)
    }
}

impl<'t> Iterator for Entries<'t> {
    type Item = Entry<'t>;

    fn next(&mut self) -> Option<Entry<'t>> {
        let (first, line) = (self.line()?, self.next - 1);
        let (text, breaks) = match goes_on(first).filter(|part| is_of_several(part)) {
            Some(part) => {
                let (text, breaks) = self.join(part);
                (text.into(), breaks)
            }
            None => (first.into(), Vec::new()),
        };
        Some(Entry { text, breaks, line })
    }
}

/// Whether a line that ends so is part of a rule in Suricata's words, be it commented out: whole, not a
/// remark.
fn is_of_several(line: &str) -> bool {
    match line.trim_start().strip_prefix('#') {
        Some(comment) => suricata::has_direction(comment.trim_start_matches('#')),
        None => suricata::is_begun(line),
    }
}

fn is_remark(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// What is in front of the `\\` with which a line ends that goes on.
fn goes_on(line: &str) -> Option<&str> {
    line.trim_end().strip_suffix('\\')
}
