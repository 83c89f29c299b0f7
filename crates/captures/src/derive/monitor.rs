//! A monitor that counts a capture's packets.

use super::{FunctionText, Lacking};
use crate::expectation::Expectation;
use crate::profile::Profile;

const NAME: &str = "monitor";

impl Profile {
    /// A monitor of connections.
    ///
    /// # Errors
    /// A capture without IP.
    pub fn monitor(&self) -> Result<FunctionText, Lacking> {
        self.watching("", "by = \"connection\"\n")
    }

    /// A monitor of pairs of hosts, whose flows end with a second's silence.
    ///
    /// # Errors
    /// A capture without IP.
    pub fn monitor_of_hosts(&self) -> Result<FunctionText, Lacking> {
        self.watching("of hosts", "by = \"hosts\"\nidle = \"1s\"\n")
    }

    fn watching(&self, variant: &'static str, settings: &str) -> Result<FunctionText, Lacking> {
        let packets = self.counts.v4 + self.counts.v6;
        if packets == 0 {
            return Err(Lacking("no IP"));
        }
        Ok(FunctionText {
            function: NAME,
            variant,
            table: format!("[monitor]\n{settings}"),
            files: Vec::new(),
            expectations: vec![
                Expectation::counted(NAME, &["packets"], packets),
                Expectation::counted(NAME, &["flows_started"], 1),
            ],
        })
    }
}
