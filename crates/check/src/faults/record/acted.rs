//! What the functions of a run did, by their own counters.

use std::collections::BTreeMap;
use std::fmt;
use twinpath_core::DropReason;
use twinpath_nf::kv_store::Answers;
use twinpath_node::FastPath;

/// Who did something on the fast path, which no function's own counters tell.
const INSPECTOR: &str = "inspector, fast path";
const KV_STORE: &str = "kv_store, fast path";

/// Counts by kind of function and counter, of all workers and their lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acted(BTreeMap<(&'static str, &'static str), u64>);

impl Acted {
    /// Adds what another run did.
    pub fn absorb(&mut self, other: &Self) {
        for (&(function, counter), &times) in &other.0 {
            self.add(function, counter, times);
        }
    }

    /// How often a function did something.
    pub fn times(&self, function: &'static str, counter: &'static str) -> u64 {
        self.0.get(&(function, counter)).copied().unwrap_or(0)
    }

    /// A function did something so often.
    pub(crate) fn add(&mut self, function: &'static str, counter: &'static str, times: u64) {
        *self.0.entry((function, counter)).or_default() += times;
    }

    /// So often a function still says it did something, which it has been added for.
    pub(crate) fn take(&mut self, function: &'static str, counter: &'static str, times: u64) {
        let known = self.0.entry((function, counter)).or_default();
        *known = known.saturating_sub(times);
    }

    /// Adds what was done on the fast path.
    pub(crate) fn count_fast_path(&mut self, path: &FastPath, answers: &Answers) {
        self.add(INSPECTOR, "banned", path.drops().of(DropReason::Banned));
        answers.counters(&mut |counter, times| self.add(KV_STORE, counter, times));
    }
}

/// A line for each function.
impl fmt::Display for Acted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = "";
        for (&(function, counter), times) in self.0.iter().filter(|&(_, &times)| times > 0) {
            if function != std::mem::replace(&mut last, function) {
                write!(f, "\n    {function}:")?;
            }
            write!(f, " {counter} {times}")?;
        }
        Ok(())
    }
}
