//! What our code takes, as measured, where no paper says how long a DPU does.

use crate::measured_costs::MeasuredCosts;
use crate::model::ParameterError;
use std::path::Path;

/// Measured times of a table with so many flows.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    all: MeasuredCosts,
    /// A packet of a known flow, ns.
    pub(super) hit_ns: f64,
    /// A packet that opens a connection, ns.
    pub(super) open_ns: f64,
    /// The same where no other flow is known, ns.
    pub(super) open_empty_ns: f64,
}

impl Costs {
    pub(super) fn read(path: &Path, flows: u64) -> Result<Self, ParameterError> {
        let all = MeasuredCosts::read(path, "costs")?;
        let of = |what: &str, flows: u64| {
            let found = all.ns(&format!("{what}-{flows}"));
            found.map_err(|wrong| ParameterError::new("table_flows", wrong))
        };
        Ok(Self {
            hit_ns: of("hit", flows.max(1000))?,
            open_ns: of("open", flows)?,
            open_empty_ns: of("open", 0)?,
            all,
        })
    }

    /// How much longer a connection takes than in an empty table.
    pub(super) fn slower(&self) -> f64 {
        self.open_ns / self.open_empty_ns
    }

    pub(super) fn told(&self) -> String {
        self.all.told()
    }
}
