//! What a plan can say of a switch with DPUs.

use super::costs::Costs;
use crate::model::ParameterError;
use crate::number::number;
use crate::testbed::{DpuPreset, SwitchPreset, Testbed};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Table;

/// Parameters, each with its source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// The testbed's file, as seen from the plan.
    pub testbed: Option<PathBuf>,
    /// Seed of arrivals, and of which flows send.
    pub seed: u64,
    /// DPUs in the box (DASH §7.2: 1 to 8).
    pub dpus: u16,
    /// ENIs of all DPUs (DASH Table 5: 32), which are dealt to them in turn.
    pub enis: u32,
    /// Exponent of Zipf's law over ENIs; 0 if all send alike (DASH Fig. 7: even traffic).
    pub eni_zipf: f64,
    /// Flows of each DPU that are known before anything counts, each of which sends alike.
    pub flows: u32,
    /// Length of packets as testers count it, with a checksum and without the tunnel (DASH Fig. 6).
    pub frame_bytes: u32,
    /// Packets of known flows, of the most that all DPUs could take.
    pub load: f64,
    /// Connections that are opened, of the most that the cores of all DPUs could open.
    pub connection_load: f64,
    /// How packets and connections come.
    pub arrivals: Arrivals,
    /// Time that a host takes to answer. Our assumption.
    pub host_us: f64,
    /// Time that is simulated.
    pub duration_us: f64,
    /// Of it, what does not count.
    pub warm_up: f64,
    /// Rules of access lists of all ENIs (DASH Table 5: 320,000), ten lists an ENI.
    pub acl_rules: u32,
    /// Outbound routes of all ENIs (DASH Table 5: 160,000).
    pub routes: u32,
    /// Mappings of all networks (DASH Table 5: 80,320).
    pub mappings: u32,
    /// What carries packets of known flows.
    pub pipeline: Pipeline,
    /// Times of our own code, as seen from the plan.
    pub costs: Option<PathBuf>,
    /// Flows in the table in which these times were measured.
    pub table_flows: u64,
    /// Instead of the testbed's: numbers of its parts, named as `dpu.capacity_mpps`.
    #[serde(skip)]
    pub instead: Vec<(String, f64)>,
}

/// `arrivals`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Evenly spaced, as of a traffic generator.
    Constant,
    /// At random.
    Poisson,
}

/// `pipeline`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pipeline {
    /// The DPU's.
    Asic,
    /// Our code on the DPU's cores.
    Software,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            testbed: None,
            seed: 1,
            dpus: 1,
            enis: 32,
            eni_zipf: 0.0,
            flows: 1024,
            frame_bytes: 64,
            load: 0.0,
            connection_load: 0.0,
            arrivals: Arrivals::Poisson,
            host_us: 10.0,
            duration_us: 1000.0,
            warm_up: 0.2,
            acl_rules: 320,
            routes: 320,
            mappings: 320,
            pipeline: Pipeline::Asic,
            costs: None,
            table_flows: 0,
            instead: Vec::new(),
        }
    }
}

/// Parameters with what they refer to.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) parameters: Parameters,
    pub(super) switch: SwitchPreset,
    pub(super) dpu: DpuPreset,
    pub(super) costs: Option<Costs>,
}

/// Most packets that a run may have.
const MOST_PACKETS: f64 = 50e6;

impl Parameters {
    /// Reads and checks the parameters by themselves.
    pub(super) fn read(table: &Table, folder: &Path) -> Result<Self, ParameterError> {
        let (instead, rest): (Table, Table) = table
            .clone()
            .into_iter()
            .partition(|(name, _)| name.contains('.'));
        let mut parameters: Self = rest.try_into()?;
        for (name, value) in instead {
            let value = number(&value)
                .ok_or_else(|| ParameterError::new(name.clone(), "expected a number"))?;
            parameters.instead.push((name, value));
        }
        parameters.testbed = parameters.testbed.map(|path| folder.join(path));
        parameters.costs = parameters.costs.map(|path| folder.join(path));
        parameters.check()?;
        Ok(parameters)
    }

    fn check(&self) -> Result<(), ParameterError> {
        let share = |value: f64| (0.0..=10.0).contains(&value);
        let checks = [
            ((1..=64).contains(&self.dpus), "dpus", "1 to 64"),
            ((1..=4096).contains(&self.enis), "enis", "1 to 4096"),
            ((0.0..=3.0).contains(&self.eni_zipf), "eni_zipf", "0 to 3"),
            (
                (1..=64_000_000).contains(&self.flows),
                "flows",
                "1 to 64 million",
            ),
            (
                (64..=9000).contains(&self.frame_bytes),
                "frame_bytes",
                "64 to 9000",
            ),
            (share(self.load), "load", "0 to 10"),
            (share(self.connection_load), "connection_load", "0 to 10"),
            (
                (0.0..=1e6).contains(&self.host_us),
                "host_us",
                "0 to a million",
            ),
            (
                (1.0..=1e7).contains(&self.duration_us),
                "duration_us",
                "1 to ten million",
            ),
            ((0.0..=0.95).contains(&self.warm_up), "warm_up", "0 to 0.95"),
            (
                self.acl_rules <= 4_000_000,
                "acl_rules",
                "at most 4 million",
            ),
            (
                (1..=4_000_000).contains(&self.routes) && self.routes / self.enis.max(1) <= 60_000,
                "routes",
                "1 to 4 million, at most 60,000 for each ENI",
            ),
            (
                (1..=8_000_000).contains(&self.mappings)
                    && self.mappings / self.enis.max(1) <= 1_000_000,
                "mappings",
                "1 to 8 million, at most a million for each ENI",
            ),
        ];
        let wrong = checks.into_iter().find(|(holds, ..)| !holds);
        wrong.map_or(Ok(()), |(_, field, range)| {
            Err(ParameterError::new(field, format!("must be {range}")))
        })
    }

    /// Finds everything that the parameters refer to.
    pub(super) fn setting(self) -> Result<Setting, ParameterError> {
        let path = self
            .testbed
            .as_deref()
            .ok_or_else(|| ParameterError::new("testbed", "missing: the file with the devices"))?;
        let wrong = |message: String| ParameterError::new("testbed", message);
        let mut testbed = Testbed::load(path).map_err(|error| wrong(error.to_string()))?;
        for (name, value) in &self.instead {
            let set = testbed.set(name, *value);
            set.map_err(|wrong| ParameterError::new(name.clone(), wrong))?;
        }
        let dpu = testbed.dpu.ok_or_else(|| wrong("it has no DPUs".into()))?;
        let costs = self.costs.as_deref();
        let costs = costs
            .map(|path| Costs::read(path, self.table_flows))
            .transpose()?;
        if self.pipeline == Pipeline::Software && costs.is_none() {
            let message = "missing: software takes as long as it was measured to";
            return Err(ParameterError::new("costs", message));
        }
        let setting = Setting {
            switch: testbed.switch,
            dpu,
            costs,
            parameters: self,
        };
        let conversations = u64::from(PORTS) * u64::from(setting.mappings_of_eni());
        if u64::from(setting.flows_of_eni()) > conversations {
            let message = "more than the ports of an ENI's machine with all that has a mapping";
            return Err(ParameterError::new("flows", message));
        }
        if setting.parameters.load + setting.parameters.connection_load == 0.0 {
            let message = "nothing comes: must be above 0 where connection_load is 0";
            return Err(ParameterError::new("load", message));
        }
        if setting.packets() > MOST_PACKETS {
            let message = format!(
                "{:.0} packets in it; {MOST_PACKETS:.0} are the most",
                setting.packets()
            );
            return Err(ParameterError::new("duration_us", message));
        }
        Ok(setting)
    }
}

/// The tunnel's headers: Ethernet, IPv4, UDP, VXLAN.
const TUNNEL_BYTES: u32 = 50;
/// Of a frame.
const CHECKSUM_BYTES: u32 = 4;
/// Ports from which a machine speaks with each of its peers.
pub(super) const PORTS: u32 = 60_000;
/// Packets of a connection, from the first SYN to the last ACK.
pub(super) const CONNECTION_PACKETS: u32 = 8;

impl Setting {
    /// Bytes of a frame of known flows without its checksum: in its tunnel, as it is in memory.
    pub(super) fn outer_bytes(&self) -> u32 {
        self.parameters.frame_bytes - CHECKSUM_BYTES + TUNNEL_BYTES
    }

    /// What a packet of a known flow takes a DPU's pipeline, or one of its cores, ns.
    pub(super) fn packet_ns(&self) -> f64 {
        match (&self.costs, self.parameters.pipeline) {
            (Some(costs), Pipeline::Software) => costs.hit_ns,
            _ => 1e3 / self.dpu.capacity_mpps.value(),
        }
    }

    /// What a connection that is opened takes a core, ns.
    pub(super) fn connection_ns(&self) -> f64 {
        match (&self.costs, self.parameters.pipeline) {
            (Some(costs), Pipeline::Software) => costs.open_ns,
            (Some(costs), Pipeline::Asic) => self.dpu.connection_ns.value() * costs.slower(),
            (None, _) => self.dpu.connection_ns.value(),
        }
    }

    /// Packets of known flows that a DPU takes at most, a second.
    pub(super) fn most_packets_per_s(&self) -> f64 {
        let lanes = match self.parameters.pipeline {
            Pipeline::Asic => 1.0,
            Pipeline::Software => self.dpu.cores.value(),
        };
        let by_pipeline = lanes * 1e9 / self.packet_ns();
        let wire_bits = 8.0 * (f64::from(self.outer_bytes()) + self.switch.wire_bytes.value());
        by_pipeline.min(self.dpu.port_gbps.value() * 1e9 / wire_bits)
    }

    /// Connections that a DPU's cores open at most, a second. Where they carry packets of known flows,
    /// too, those of the connection are among them.
    pub(super) fn most_connections_per_s(&self) -> f64 {
        let others = match self.parameters.pipeline {
            Pipeline::Asic => 0.0,
            Pipeline::Software => f64::from(CONNECTION_PACKETS - 1) * self.packet_ns(),
        };
        self.dpu.cores.value() * 1e9 / (self.connection_ns() + others)
    }

    /// Packets of known flows that come, a second.
    pub(super) fn packets_per_s(&self) -> f64 {
        self.parameters.load * f64::from(self.parameters.dpus) * self.most_packets_per_s()
    }

    /// Connections that come, a second.
    pub(super) fn connections_per_s(&self) -> f64 {
        let each = self.most_connections_per_s();
        self.parameters.connection_load * f64::from(self.parameters.dpus) * each
    }

    /// Packets that come in all, about.
    fn packets(&self) -> f64 {
        let per_s = self.packets_per_s() + self.connections_per_s() * f64::from(CONNECTION_PACKETS);
        per_s * self.parameters.duration_us / 1e6
    }

    /// The DPU that an ENI is on.
    pub(super) fn dpu_of(&self, eni: u32) -> u16 {
        (eni % u32::from(self.parameters.dpus)) as u16
    }

    /// The ENIs of a DPU.
    pub(super) fn enis_of(&self, dpu: u16) -> impl Iterator<Item = u32> {
        let step = usize::from(self.parameters.dpus);
        (u32::from(dpu)..self.parameters.enis).step_by(step)
    }

    /// Flows of each ENI that are known before anything counts.
    pub(super) fn flows_of_eni(&self) -> u32 {
        let Parameters {
            flows, dpus, enis, ..
        } = self.parameters;
        (u64::from(flows) * u64::from(dpus)).div_ceil(u64::from(enis)) as u32
    }

    /// Connections that a DPU may hold besides.
    pub(super) fn room_for_connections(&self) -> usize {
        // An uneven share of them may come to one DPU.
        (self.connections_per_s() * self.parameters.duration_us / 1e6) as usize + 1024
    }

    /// Mappings of each network.
    pub(super) fn mappings_of_eni(&self) -> u32 {
        (self.parameters.mappings / self.parameters.enis).max(1)
    }
}
