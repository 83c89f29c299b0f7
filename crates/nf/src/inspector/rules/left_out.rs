//! Rules of a file that are not honoured, in words.

use super::Rules;
use crate::inspector::error::RulesError;
use std::collections::BTreeMap;
use std::fmt;

/// So many rules that are left out are told one by one, each with its line.
const TOLD: usize = 100;

/// A rule that was left out.
#[derive(Debug, Clone)]
pub struct LeftOut {
    /// By what such rules are counted.
    pub keyword: String,
    /// What is wrong with it, and where.
    pub error: RulesError,
}

/// How many rules of a file are left out, by keyword, and of the first few why.
pub struct Summary<'r>(&'r Rules);

impl Rules {
    /// Which rules are left out, for people to read; `None` if none are.
    pub fn summary(&self) -> Option<Summary<'_>> {
        (!self.left_out.is_empty()).then_some(Summary(self))
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rules {
            rules, left_out, ..
        } = self.0;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for one in left_out {
            *counts.entry(one.keyword.as_str()).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(keyword, count)| (std::cmp::Reverse(*count), *keyword));
        let counts = counts
            .iter()
            .map(|(keyword, count)| format!("{keyword} {count}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let (of, left) = (rules.len() + left_out.len(), left_out.len());
        write!(f, "{left} of {of} rules are left out ({counts}):")?;
        let mut errors: Vec<_> = left_out.iter().map(|one| &one.error).collect();
        errors.sort_by_key(|error| error.line);
        let told = errors.iter().take(TOLD);
        told.clone()
            .try_for_each(|error| write!(f, "\n  {error}"))?;
        match errors.len() - told.len() {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
