//! What happened, by name.

use crate::{MemoryServer, Requester};
use std::collections::BTreeMap;

/// Counts by name.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// Once more.
    pub fn count(&mut self, name: &str) {
        self.add_to(name, 1);
    }

    /// So many times more.
    pub fn add_to(&mut self, name: &str, many: u64) {
        *self.0.entry(name.to_owned()).or_default() += many;
    }

    /// How often.
    #[must_use]
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// All that another has.
    pub fn add(&mut self, other: &Self) {
        for (name, many) in &other.0 {
            self.add_to(name, *many);
        }
    }

    /// What a requester counted.
    pub fn add_requester(&mut self, requester: &Requester) {
        for (name, many) in requester.counters().named() {
            self.add_to(name, many);
        }
    }

    /// What a server counted.
    pub fn add_server(&mut self, server: &MemoryServer) {
        for (name, many) in server.endpoint().counters().named() {
            self.add_to(&format!("responder_{name}"), many);
        }
        for (name, many) in server.counters().named() {
            self.add_to(&format!("server_{name}"), many);
        }
    }

    /// Each of these happened.
    ///
    /// # Panics
    /// One did not.
    pub fn expect_some(&self, names: &[&str]) {
        let missing: Vec<_> = names.iter().filter(|name| self.of(name) == 0).collect();
        assert!(
            missing.is_empty(),
            "never happened: {missing:?} in {self:#?}"
        );
    }

    /// None of these did.
    ///
    /// # Panics
    /// One did.
    pub fn expect_none(&self, names: &[&str]) {
        let happened: Vec<_> = names.iter().filter(|name| self.of(name) > 0).collect();
        assert!(happened.is_empty(), "happened: {happened:?} in {self:#?}");
    }
}
