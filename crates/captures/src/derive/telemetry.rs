//! Telemetry of a capture's flows.

use super::{FunctionText, Lacking};
use crate::expectation::Expectation;
use crate::profile::Profile;

const NAME: &str = "telemetry";

impl Profile {
    /// Telemetry whose records end with a second's silence.
    ///
    /// # Errors
    /// A capture without whole packets of flows.
    pub fn telemetry(&self) -> Result<FunctionText, Lacking> {
        if self.counts.tcp + self.counts.udp == 0 {
            return Err(Lacking("neither TCP nor UDP"));
        }
        Ok(FunctionText {
            function: NAME,
            variant: "",
            table: format!("[{NAME}]\nidle = \"1s\"\n"),
            files: Vec::new(),
            expectations: vec![Expectation::counted(NAME, &["records_started"], 1)],
        })
    }
}
