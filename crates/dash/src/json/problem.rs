//! What is wrong with a configuration that somebody wrote.

use std::fmt;

/// Something that is wrong, or worth a look, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: u32,
    /// The object, as it is written; none if it is about the file.
    pub object: Option<Box<str>>,
    /// Its field; none if it is about the object.
    pub field: Option<Box<str>>,
    /// What it is.
    pub wrong: Wrong,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// Not JSON.
    #[error("no JSON: {0}")]
    Syntax(String),
    /// Bytes that are no text.
    #[error("no JSON: not UTF-8")]
    Encoding,
    /// Not a list of changes, nor a table of objects.
    #[error(
        "expected a list such as [{{\"DASH_VNET_TABLE:Vnet1\": {{...}}, \"OP\": \"SET\"}}], or an object of tables"
    )]
    Form,
    /// An entry of the list that says nothing, or not what to do.
    #[error("expected an object such as {{\"DASH_VNET_TABLE:Vnet1\": {{...}}, \"OP\": \"SET\"}}")]
    Entry,
    /// An `OP` that is none.
    #[error("found {found}, expected \"SET\" or \"DEL\"")]
    Operation {
        /// What is there.
        found: String,
    },
    /// A name that would change more than the line that it is printed on.
    #[error("a name with control characters")]
    Control,
    /// A table that DASH does not have.
    #[error("DASH has no such table{meant}")]
    UnknownTable {
        /// Which one is meant, as the end of the sentence.
        meant: String,
    },
    /// A table that DASH has, and that is not supported.
    #[error("DASH has this table, and it is not supported: not read, and without effect")]
    AbsentTable,
    /// A table that SONiC has, and that says nothing about packets here.
    #[error("a table of SONiC's, not of DASH: not read")]
    OtherTable,
    /// A field that the table does not have.
    #[error("no such field{meant}")]
    UnknownField {
        /// Which one is meant, as the end of the sentence.
        meant: String,
    },
    /// A field, an object or a table twice in one: which of them counts is not said.
    #[error("given twice, first in line {first}")]
    Twice {
        /// Where it is given first.
        first: u32,
    },
    /// More fields than are read.
    #[error("more than {most} fields, which no object has")]
    TooManyFields {
        /// How many are read.
        most: usize,
    },
    /// A field that must be there.
    #[error("missing: expected {expected}")]
    Missing {
        /// What it would be.
        expected: &'static str,
    },
    /// A value, or a part of a key, of another kind.
    #[error("found {found}, expected {expected}{meant}")]
    Value {
        /// What is there.
        found: String,
        /// What would be right.
        expected: &'static str,
        /// What is perhaps meant, as the end of the sentence.
        meant: String,
    },
    /// A value that cannot be.
    #[error("{0}")]
    Impossible(String),
    /// Something that the type of an object leaves no meaning.
    #[error("has no effect: {0}")]
    NoEffect(&'static str),
    /// Something that is understood in one way of several.
    #[error("{0}")]
    Remark(String),
}

impl Problem {
    /// Whether the object is read in spite of it.
    #[must_use]
    pub const fn is_remark(&self) -> bool {
        matches!(
            self.wrong,
            Wrong::AbsentTable | Wrong::OtherTable | Wrong::NoEffect(_) | Wrong::Remark(_)
        )
    }
}

/// The line, the object, the field and what is wrong, with colons between them.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.line)?;
        for part in [&self.object, &self.field].into_iter().flatten() {
            write!(f, "{part}: ")?;
        }
        self.wrong.fmt(f)
    }
}

/// Problems of a file that are told; what is beyond is counted.
pub(super) const MOST_PROBLEMS: usize = 1000;

/// What is wrong with a file.
#[derive(Debug, Default)]
pub(super) struct Problems {
    /// The first errors and the first remarks.
    pub told: Vec<Problem>,
    /// How many errors there are.
    errors: usize,
    /// How many remarks.
    remarks: usize,
}

impl Problems {
    /// One more.
    pub fn push(&mut self, problem: Problem) {
        // Remarks take no error's place: what is wrong is never hidden behind what is worth a look.
        let count = match problem.is_remark() {
            true => &mut self.remarks,
            false => &mut self.errors,
        };
        *count += 1;
        if *count <= MOST_PROBLEMS {
            self.told.push(problem);
        }
    }

    /// How many there are.
    pub const fn count(&self) -> usize {
        self.errors + self.remarks
    }

    /// How many errors are not told.
    pub const fn more_errors(&self) -> usize {
        self.errors.saturating_sub(MOST_PROBLEMS)
    }

    /// How many remarks.
    pub const fn more_remarks(&self) -> usize {
        self.remarks.saturating_sub(MOST_PROBLEMS)
    }
}

/// How much is shown of a value that is wrong.
const SHOWN_CHARACTERS: usize = 40;

/// A value as it is written, shortened.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The end of a sentence about a word that is not known; nothing if nothing is similar.
pub(super) fn did_you_mean<'n>(written: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    const LEAST: f64 = 0.6;
    /// What is longer is no slip, and to compare takes room.
    const LONGEST: usize = 64;
    if written.len() > LONGEST {
        return String::new();
    }
    let written = written.to_lowercase();
    let likeness =
        |name: &str| strsim::normalized_damerau_levenshtein(&written, &name.to_lowercase());
    let known = known.into_iter().map(|name| (likeness(name), name));
    let best = known
        .filter(|(likeness, _)| *likeness >= LEAST)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.map_or_else(String::new, |(_, meant)| format!("; did you mean {meant}?"))
}
