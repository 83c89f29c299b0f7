//! Places in files that people write, as errors tell them.

/// How many characters are shown on each side of a place.
const SHOWN_CHARACTERS: usize = 80;

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPlace {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Its line, or as much of it as people can look at, with a mark below the place.
    pub excerpt: String,
}

impl TextPlace {
    /// The place at a byte of a text; one beyond its end is there.
    pub fn of(offset: usize, text: &str) -> Self {
        let before = &text[..character_start(offset, text)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = text[line_start..].lines().next().unwrap_or("");
        let column = before[line_start..].chars().count();
        Self {
            line: before.matches('\n').count() + 1,
            column: column + 1,
            excerpt: excerpt(line, column),
        }
    }
}

/// Where the character begins that a byte belongs to.
fn character_start(offset: usize, text: &str) -> usize {
    let mut starts = (0..=offset.min(text.len())).rev();
    starts.find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The line around a column, counted from 0, and the mark.
fn excerpt(line: &str, column: usize) -> String {
    let skipped = column.saturating_sub(SHOWN_CHARACTERS);
    let mut rest = line.chars().skip(skipped);
    let (head, mark) = match skipped {
        0 => ("", column + 1),
        _ => ("…", SHOWN_CHARACTERS + 2),
    };
    let shown: String = rest
        .by_ref()
        .take(column - skipped + SHOWN_CHARACTERS)
        .collect();
    let tail = if rest.next().is_some() { "…" } else { "" };
    format!("    {head}{shown}{tail}\n    {:>mark$}", '^')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(offset: usize, text: &str) -> (usize, usize, String) {
        let TextPlace {
            line,
            column,
            excerpt,
        } = TextPlace::of(offset, text);
        (line, column, excerpt)
    }

    #[test]
    fn a_place_is_told_in_characters() {
        let text = "one\nzwölf = 12\r\n";
        assert_eq!(place(0, text), (1, 1, "    one\n    ^".into()));
        let equals = text.find('=').unwrap();
        let expected = (2, 7, "    zwölf = 12\n          ^".into());
        assert_eq!(place(equals, text), expected);
        // In the middle of a character, and beyond the end.
        assert_eq!(place(7, text).1, 3);
        assert_eq!(place(1000, text), (3, 1, "    \n    ^".into()));
        assert_eq!(place(9, ""), (1, 1, "    \n    ^".into()));
    }

    #[test]
    fn of_a_long_line_only_what_is_near_is_shown() {
        let text = format!("{}!{}", "é".repeat(100_000), "x".repeat(100_000));
        let (line, column, excerpt) = place(200_000, &text);
        assert_eq!((line, column), (1, 100_001));
        let (before, behind) = ("é".repeat(80), "x".repeat(79));
        let expected = format!("    …{before}!{behind}…\n    {}^", " ".repeat(81));
        assert_eq!(excerpt, expected);
    }

    #[test]
    fn a_line_that_just_fits_is_shown_whole() {
        let text = "x".repeat(160);
        let expected = format!("    {text}\n    {}^", " ".repeat(80));
        assert_eq!(place(80, &text).2, expected);
    }
}
