//! What happened, by name.

use std::collections::BTreeMap;
use twinpath_remote::{MemoryServer, Requester};

#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    pub fn count(&mut self, name: &str) {
        self.add_to(name, 1);
    }

    pub fn add_to(&mut self, name: &str, many: u64) {
        *self.0.entry(name.to_owned()).or_default() += many;
    }

    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub fn add(&mut self, other: &Self) {
        for (name, many) in &other.0 {
            self.add_to(name, *many);
        }
    }

    pub fn add_requester(&mut self, requester: &Requester) {
        for (name, many) in requester.counters().named() {
            self.add_to(name, many);
        }
    }

    pub fn add_server(&mut self, server: &MemoryServer) {
        for (name, many) in server.responder().counters().named() {
            self.add_to(&format!("responder_{name}"), many);
        }
        for (name, many) in server.counters().named() {
            self.add_to(&format!("server_{name}"), many);
        }
    }

    /// Each of these happened.
    pub fn expect_some(&self, names: &[&str]) {
        let missing: Vec<_> = names.iter().filter(|name| self.of(name) == 0).collect();
        assert!(
            missing.is_empty(),
            "never happened: {missing:?} in {self:#?}"
        );
    }

    /// None of these did.
    pub fn expect_none(&self, names: &[&str]) {
        let happened: Vec<_> = names.iter().filter(|name| self.of(name) > 0).collect();
        assert!(happened.is_empty(), "happened: {happened:?} in {self:#?}");
    }
}
