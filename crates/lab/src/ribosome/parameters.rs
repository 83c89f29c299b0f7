//! What a plan can say of the testbed, and what holds if it says nothing.

use crate::model::ParameterError;
use crate::number::number;
use crate::testbed::{BusPreset, CoresPreset, RdmaPreset, SramPreset, Testbed};
use crate::traffic::{FIELDS, TrafficParameters};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Parameters beside those of the [traffic](crate::traffic), each with its source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// The testbed's file, as seen from the plan.
    pub testbed: Option<PathBuf>,
    /// Where payloads wait.
    pub system: System,
    /// Which of the testbed's cores, named by the function that they run.
    pub function: String,
    /// Instead of the testbed's: servers with cores, each at a port of its own.
    pub nf_servers: Option<usize>,
    /// Instead of the testbed's: cores of each.
    pub cores: Option<usize>,
    /// Instead of the testbed's: memory servers.
    pub servers: Option<usize>,
    /// Packets of at least so many bytes are split (§3.1: 72).
    pub threshold_bytes: usize,
    /// Places for packets that are split (design page, from the published program: 2000).
    pub header_slots: usize,
    /// How long a packet keeps its place while its header is away. The paper has no such time: our
    /// assumption, far above what cores take.
    pub header_timeout_us: f64,
    /// How long the reframer holds packets (§4: tens of microseconds). Our choice: production's 30.
    pub window_us: f64,
    /// Ports whose queues payloads wait in, where they wait there.
    pub loopback_ports: usize,
    /// When memory servers are left alone (§5).
    pub back_off: BackOffName,
    /// Above which use of the link (§6.3: 40 Gb/s).
    pub back_off_gbps: f64,
    /// How much less lets a server come back (design page, from the published program: 5 Gb/s).
    pub hysteresis_gbps: f64,
    /// What a second of the paper is here, ms: control loop and growth of other traffic alike.
    pub second_ms: f64,
    /// Seconds at whose end the run ends; it begins four earlier.
    pub time_s: f64,
    /// By how much traffic that is not split to the first memory server grows each second, Gb/s.
    pub unsplit_gbps_per_s: f64,
    /// Share of the packets that come before measuring begins. Our choice.
    pub warm_up: f64,
    /// Instead of the testbed's: numbers of its parts, named as `rdma.queue_pairs`.
    #[serde(skip)]
    pub instead: Vec<(String, f64)>,
    /// The traffic.
    #[serde(skip)]
    pub traffic: TrafficParameters,
}

/// `system`; the [module](super) has a table.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// On memory servers.
    #[default]
    Split,
    /// Nowhere.
    Whole,
    /// In the switch's memory.
    Sram,
    /// In the switch's queues.
    Parking,
}

/// `back_off`
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackOffName {
    /// Never.
    #[default]
    Never,
    /// All or nothing, as in the paper.
    OnOff,
    /// As much as the link has room for.
    Proportional,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            testbed: None,
            system: System::Split,
            function: "forwarder".into(),
            nf_servers: None,
            cores: None,
            servers: None,
            threshold_bytes: 72,
            header_slots: 2000,
            header_timeout_us: 1000.0,
            window_us: 30.0,
            loopback_ports: 1,
            back_off: BackOffName::Never,
            back_off_gbps: 40.0,
            hysteresis_gbps: 5.0,
            second_ms: 10.0,
            time_s: 0.0,
            unsplit_gbps_per_s: 0.0,
            warm_up: 0.3,
            instead: Vec::new(),
            traffic: TrafficParameters::default(),
        }
    }
}

/// Seconds of the paper that a run with other traffic takes.
pub(super) const SECONDS: f64 = 4.0;

impl Parameters {
    fn read(table: &Table, folder: &Path) -> Result<Self, ParameterError> {
        let (instead, rest): (Table, Table) = table
            .clone()
            .into_iter()
            .partition(|(name, _)| name.contains('.'));
        let (traffic, own): (Table, Table) = rest
            .into_iter()
            .partition(|(name, _)| FIELDS.contains(&name.as_str()));
        let mut parameters: Self = own.try_into()?;
        parameters.instead = numbers(instead)?;
        parameters.traffic = traffic.try_into()?;
        parameters.traffic.resolve(folder);
        parameters.traffic.check()?;
        parameters.check()?;
        parameters.testbed = parameters.testbed.map(|path| folder.join(path));
        if parameters.has_seconds() {
            parameters.traffic.duration_ms = Some(SECONDS * parameters.second_ms);
        }
        Ok(parameters)
    }

    /// Whether the run is a part of a longer time.
    pub(super) fn has_seconds(&self) -> bool {
        self.time_s > 0.0
    }

    fn check(&self) -> Result<(), ParameterError> {
        let within = |value: f64, low: f64, high: f64| (low..=high).contains(&value);
        let count =
            |count: Option<usize>, most: usize| count.is_none_or(|n| (1..=most).contains(&n));
        let checks = [
            (count(self.nf_servers, 64), "nf_servers", "1 to 64"),
            (count(self.cores, 64), "cores", "1 to 64"),
            (count(self.servers, 64), "servers", "1 to 64"),
            (
                self.threshold_bytes <= 9000,
                "threshold_bytes",
                "at most 9000",
            ),
            (
                (1..=1_000_000).contains(&self.header_slots),
                "header_slots",
                "1 to a million",
            ),
            (
                within(self.header_timeout_us, 0.0, 1e6),
                "header_timeout_us",
                "0 to a second",
            ),
            (
                within(self.window_us, 0.001, 1e4),
                "window_us",
                "above 0, at most 10,000",
            ),
            (
                (1..=64).contains(&self.loopback_ports),
                "loopback_ports",
                "1 to 64",
            ),
            (
                within(self.back_off_gbps, 0.001, 1e5),
                "back_off_gbps",
                "above 0",
            ),
            (
                within(self.hysteresis_gbps, 0.0, 1e5),
                "hysteresis_gbps",
                "0 or more",
            ),
            (
                within(self.second_ms, 0.1, 1000.0),
                "second_ms",
                "0.1 to 1000",
            ),
            (
                self.time_s == 0.0 || within(self.time_s, SECONDS, 1e4),
                "time_s",
                "0, or 4 to 10,000",
            ),
            (
                within(self.unsplit_gbps_per_s, 0.0, 1e4),
                "unsplit_gbps_per_s",
                "0 to 10,000",
            ),
            (within(self.warm_up, 0.0, 0.95), "warm_up", "0 to 0.95"),
        ];
        let wrong = checks.into_iter().find(|(holds, ..)| !holds);
        wrong.map_or(Ok(()), |(_, field, range)| {
            Err(ParameterError::new(field, format!("must be {range}")))
        })
    }
}

/// Parameters and what they refer to: all that a run needs.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) parameters: Parameters,
    pub(super) testbed: Testbed,
    pub(super) cores: CoresPreset,
    pub(super) rdma: RdmaPreset,
    pub(super) bus: BusPreset,
    pub(super) sram: SramPreset,
}

impl Setting {
    pub(super) fn read(table: &Table, folder: &Path) -> Result<Self, ParameterError> {
        let parameters = Parameters::read(table, folder)?;
        let path = parameters
            .testbed
            .as_deref()
            .ok_or_else(|| ParameterError::new("testbed", "missing: the file with the devices"))?;
        let mut testbed =
            Testbed::load(path).map_err(|e| ParameterError::new("testbed", e.to_string()))?;
        for (name, value) in &parameters.instead {
            let set = testbed.set(name, *value);
            set.map_err(|wrong| ParameterError::new(name.clone(), wrong))?;
        }
        parameters.traffic.check_complete()?;
        let cores = cores(&testbed, &parameters.function)?;
        let lacks = |part: &str| ParameterError::new("testbed", format!("it has no {part}"));
        Ok(Self {
            cores,
            rdma: testbed.rdma.clone().ok_or_else(|| lacks("rdma"))?,
            bus: testbed.bus.clone().ok_or_else(|| lacks("bus"))?,
            sram: testbed.sram.clone().ok_or_else(|| lacks("sram"))?,
            testbed,
            parameters,
        })
    }

    pub(super) fn nf_servers(&self) -> usize {
        let devices = self.cores.devices.count();
        self.parameters.nf_servers.unwrap_or(devices)
    }

    pub(super) fn cores_each(&self) -> usize {
        self.parameters.cores.unwrap_or(self.cores.cores.count())
    }

    /// Memory servers that there are.
    pub(super) fn servers(&self) -> usize {
        match self.parameters.system {
            System::Split => self.parameters.servers.unwrap_or(self.rdma.servers.count()),
            _ => 0,
        }
    }
}

fn cores(testbed: &Testbed, function: &str) -> Result<CoresPreset, ParameterError> {
    testbed.cores.get(function).cloned().ok_or_else(|| {
        let names: Vec<&str> = testbed.cores.keys().map(String::as_str).collect();
        let message = format!("expected one of {}", names.join(", "));
        ParameterError::new("function", message)
    })
}

fn numbers(table: Table) -> Result<Vec<(String, f64)>, ParameterError> {
    let read = |(name, value): (String, Value)| match number(&value) {
        Some(value) => Ok((name, value)),
        None => Err(ParameterError::new(name, "expected a number")),
    };
    table.into_iter().map(read).collect()
}
