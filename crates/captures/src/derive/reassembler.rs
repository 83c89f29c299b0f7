//! A reassembler that puts a capture's segments in order.

use super::{FunctionText, Lacking, verified};
use crate::expectation::Expectation;
use crate::profile::Profile;

const NAME: &str = "reassembler";

impl Profile {
    /// A reassembler that forwards retransmissions.
    ///
    /// # Errors
    /// A capture without TCP.
    pub fn reassembler(&self) -> Result<FunctionText, Lacking> {
        self.in_order("", "retransmissions = \"forward\"\noverlap = \"first\"\n")
    }

    /// One that drops retransmissions, prefers bytes that came last, and waits for a short time
    /// only.
    ///
    /// # Errors
    /// A capture without TCP.
    pub fn reassembler_dropping(&self) -> Result<FunctionText, Lacking> {
        let settings = "retransmissions = \"drop\"\noverlap = \"last\"\ngap_timeout = \"20ms\"\n";
        self.in_order("dropping", settings)
    }

    fn in_order(&self, variant: &'static str, settings: &str) -> Result<FunctionText, Lacking> {
        if self.counts.tcp == 0 {
            return Err(Lacking("no TCP"));
        }
        let some = |counters, is_expected: bool| {
            is_expected.then(|| Expectation::counted(NAME, counters, 1))
        };
        let expectations = [
            some(&["bare", "in_order", "opened", "picked_up", "stray"], true),
            some(&["held"], self.counts.ahead > 0),
            some(&["retransmissions"], self.counts.repeated > 0),
        ];
        Ok(FunctionText {
            function: NAME,
            variant,
            table: format!("[reassembler]\n{}{settings}", verified(self)),
            files: Vec::new(),
            expectations: expectations.into_iter().flatten().collect(),
        })
    }
}
