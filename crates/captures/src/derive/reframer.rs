//! A reframer that holds every packet of a capture's flows for a moment.

use super::{FunctionText, Lacking};
use crate::expectation::Expectation;
use crate::profile::Profile;

const NAME: &str = "reframer";

impl Profile {
    /// A reframer with its defaults.
    ///
    /// # Errors
    /// A capture without whole packets of flows.
    pub fn reframer(&self) -> Result<FunctionText, Lacking> {
        self.framing("", "")
    }

    /// One whose packets wait for each other for milliseconds, a few at a time.
    ///
    /// # Errors
    /// As for [`Self::reframer`].
    pub fn reframer_waiting(&self) -> Result<FunctionText, Lacking> {
        self.framing("waiting", "window = \"3ms\"\nbatch = 5\n")
    }

    fn framing(&self, variant: &'static str, settings: &str) -> Result<FunctionText, Lacking> {
        let packets = self.counts.tcp + self.counts.udp;
        if packets == 0 {
            return Err(Lacking("neither TCP nor UDP"));
        }
        Ok(FunctionText {
            function: NAME,
            variant,
            table: format!("[{NAME}]\n{settings}"),
            files: Vec::new(),
            expectations: vec![
                Expectation::counted(NAME, &["packets"], packets),
                Expectation::counted(NAME, &["runs"], 1),
            ],
        })
    }
}
