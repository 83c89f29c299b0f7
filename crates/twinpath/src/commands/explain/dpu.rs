//! A DPU: what its configuration holds, and what packets meet on which path.

use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use twinpath_control::report::units;
use twinpath_control::service::{Paths, Service};
use twinpath_dash::objects::Table;
use twinpath_nf::dash::Config;

/// What a DPU is made of.
#[derive(Serialize)]
pub struct DpuFacts {
    files: Vec<String>,
    /// Objects in force.
    objects: usize,
    /// Objects that wait for others.
    waiting: usize,
    enis: usize,
    /// Most flows of all ENIs.
    flows: usize,
    /// Bytes that the objects take, as they are kept.
    configuration_bytes: usize,
    has_fast_path: bool,
}

impl DpuFacts {
    /// The facts, if the service is a DPU.
    pub fn of(service: &Service) -> Option<Self> {
        let mut instances = service.chain.iter();
        let config = instances.find_map(|instance| instance.config.of::<Config>())?;
        let snapshot = config.store().snapshot();
        let configuration = &snapshot.configuration;
        let files = config.files().iter();
        Some(Self {
            files: files.map(|path| path.display().to_string()).collect(),
            objects: Table::ALL
                .iter()
                .map(|table| configuration.count(*table))
                .sum(),
            waiting: config.store().waiting().count(),
            enis: configuration.count(Table::Eni),
            flows: config.settings().flows,
            configuration_bytes: configuration.costs().bytes(),
            has_fast_path: service.run.paths == Paths::Both,
        })
    }
}

impl Display for DpuFacts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let count = |number: usize| units::count(number as u64);
        let enis = if self.enis == 1 { "ENI" } else { "ENIs" };
        writeln!(f, "A DPU of {} {enis}", count(self.enis))?;
        writeln!(
            f,
            "  configuration  {} objects in force, {} waiting, {}; from {}",
            count(self.objects),
            count(self.waiting),
            units::bytes(self.configuration_bytes as u64),
            match self.files.as_slice() {
                [] => "no file".to_owned(),
                files => files.join(", "),
            }
        )?;
        let (flows, policies) = match self.has_fast_path {
            true => ("fast path", "slow path"),
            false => ("slow path", "slow path"),
        };
        writeln!(
            f,
            "  {flows}      outer headers, direction by VNI, ENI by MAC address, its limits, flows (at most {}), actions, counters and meters",
            count(self.flows)
        )?;
        write!(
            f,
            "  {policies}      for first packets, and after changes: trusted VNIs, access lists, routes, mappings, port maps, tunnels, inbound rules, PA validation, metering class"
        )
    }
}
