//! Testbeds as files: what the papers' devices can do, with the evidence for each number.
//!
//! A testbed is a switch, one or more kinds of cores behind it or DPUs beside it, and where a paper has
//! them a control-plane agent, a store for payloads, memory servers and the like. The files are in
//! `plans/testbeds`; a plan names one
//! (`testbed = "testbeds/switchnic.toml"`, as seen from the plan) and may set some of its numbers
//! itself, where a figure sweeps them (`"agent.entries_per_s" = [5000, 50_000]`). A number without a
//! paper's section, a derivation or the word `assumption` beside it is refused, and so is one that no
//! device can have.

mod constant;

pub use constant::{Constant, ConstantError, Evidence};

use crate::error::PlanError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// A testbed, read and checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Testbed {
    /// What it is.
    pub name: String,
    /// Which paper sections are meant where none is named.
    pub paper: String,
    /// The switch.
    pub switch: SwitchPreset,
    /// What packets are handed to, by name.
    #[serde(default)]
    pub cores: BTreeMap<String, CoresPreset>,
    /// The DPUs in one box with the switch, each the same.
    pub dpu: Option<DpuPreset>,
    /// What writes match-action tables.
    pub agent: Option<AgentPreset>,
    /// Where payloads wait outside of the switch.
    pub store: Option<StorePreset>,
    /// What sharing a core costs.
    pub sharing: Option<SharingPreset>,
    /// Memory servers: their cards, and queue pairs of these.
    pub rdma: Option<RdmaPreset>,
    /// The bus of a server whose cores see every packet.
    pub bus: Option<BusPreset>,
    /// Where payloads wait in the switch's own memory.
    pub sram: Option<SramPreset>,
}

/// What a constant may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bounds {
    /// Any value between these.
    Amount(f64, f64),
    /// A whole number between these.
    Count(f64, f64),
}

impl Bounds {
    fn check(self, value: f64) -> Result<(), String> {
        let (low, high) = match self {
            Self::Amount(low, high) | Self::Count(low, high) => (low, high),
        };
        let is_whole = matches!(self, Self::Amount(..)) || value.fract() == 0.0;
        let fits = RangeInclusive::new(low, high).contains(&value);
        match (fits && is_whole, self) {
            (true, _) => Ok(()),
            (false, Self::Amount(..)) => Err(format!("must be {low} to {high}")),
            (false, Self::Count(..)) => Err(format!("must be a whole number from {low} to {high}")),
        }
    }
}

macro_rules! presets {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $bounds:expr,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: Constant,)*
        }

        impl $name {
            /// Every constant with its name and what it may be.
            pub fn constants(&self) -> Vec<(&'static str, &Constant, Bounds)> {
                vec![$((stringify!($field), &self.$field, $bounds)),*]
            }

            fn constant_mut(&mut self, name: &str) -> Option<(&mut Constant, Bounds)> {
                match name {
                    $(stringify!($field) => Some((&mut self.$field, $bounds)),)*
                    _ => None,
                }
            }
        }
    )*};
}

presets! {
    /// A switch.
    SwitchPreset {
        /// From the first bit in to the first bit out, ns.
        pipeline_ns: Bounds::Amount(0.0, 1e9),
        /// Rate of its ports, Gb/s.
        port_gbps: Bounds::Amount(0.001, 1e5),
        /// What the queue of a port may hold, kB.
        port_queue_kb: Bounds::Amount(2.0, 1e9),
        /// Bytes of wire that each frame takes besides its own.
        wire_bytes: Bounds::Count(0.0, 1000.0),
        /// Packets that the pipeline can take, millions a second.
        capacity_mpps: Bounds::Amount(0.001, 1e6),
        /// Power of a port in use, W.
        port_w: Bounds::Amount(0.0, 1e6),
    }

    /// Cores behind the switch: on network cards or in servers.
    CoresPreset {
        /// Cards or sockets.
        devices: Bounds::Count(1.0, 64.0),
        /// Cores of each that work on packets.
        cores: Bounds::Count(1.0, 64.0),
        /// Rate of each one's port, Gb/s.
        port_gbps: Bounds::Amount(0.001, 1e5),
        /// From the switch to a core and back without the core's work, us.
        round_trip_us: Bounds::Amount(0.0, 1e6),
        /// Bytes that a packet is longer on this link, for what is told with it.
        link_bytes: Bounds::Count(0.0, 9000.0),
        /// Packets that may wait for a core.
        ring_packets: Bounds::Count(1.0, 1e6),
        /// What a packet takes a core, ns.
        packet_ns: Bounds::Amount(0.001, 1e9),
        /// What each byte takes more where payload is searched, ns.
        byte_ns: Bounds::Amount(0.0, 1e6),
        /// Power of each device without its cores, W.
        device_w: Bounds::Amount(0.0, 1e6),
        /// Power of a core at work, W.
        core_w: Bounds::Amount(0.0, 1e6),
    }

    /// A control-plane agent.
    AgentPreset {
        /// Table entries that it writes a second.
        entries_per_s: Bounds::Amount(0.001, 1e9),
        /// From a request's turn to the entry that packets meet, us.
        latency_us: Bounds::Amount(0.0, 1e9),
        /// Requests that may wait.
        backlog: Bounds::Count(1.0, 1e9),
        /// Entries that a rule takes.
        entries_per_rule: Bounds::Count(1.0, 1000.0),
        /// Rules that the tables hold.
        entries: Bounds::Count(1.0, 16e6),
    }

    /// Cores that two functions share.
    SharingPreset {
        /// What is left of a core for each packet, where the system switches between two functions: a
        /// share of one.
        core_share: Bounds::Amount(0.001, 1.0),
    }

    /// A DPU, and the box that it is in.
    DpuPreset {
        /// Cores that judge what opens a connection.
        cores: Bounds::Count(1.0, 1024.0),
        /// Memory of tables and flows, GB of 2^30 bytes.
        memory_gb: Bounds::Amount(0.001, 1e6),
        /// Rate of its port to the switch, Gb/s.
        port_gbps: Bounds::Amount(0.001, 1e5),
        /// What the queue of that port may hold, at either end, kB.
        port_queue_kb: Bounds::Amount(2.0, 1e9),
        /// Packets of known flows that its pipeline takes, millions a second.
        capacity_mpps: Bounds::Amount(0.001, 1e6),
        /// What a packet of a known flow takes it otherwise, ns.
        latency_ns: Bounds::Amount(0.0, 1e9),
        /// What a connection that is opened takes a core, ns.
        connection_ns: Bounds::Amount(0.001, 1e9),
        /// Packets that may wait for the pipeline, and for each core.
        ring_packets: Bounds::Count(1.0, 1e6),
        /// Connections that it must hold.
        flows: Bounds::Count(1.0, 1e9),
        /// Power of a DPU at work, W.
        device_w: Bounds::Amount(0.0, 1e6),
        /// Power of the box without DPUs, W.
        box_w: Bounds::Amount(0.0, 1e6),
        /// Height of the box, rack units.
        rack_units: Bounds::Count(1.0, 64.0),
    }

    /// A store for payloads, over RDMA.
    StorePreset {
        /// Payload that a store's card moves each way, Gb/s.
        port_gbps: Bounds::Amount(0.001, 1e5),
        /// From a read to its answer, ns.
        read_ns: Bounds::Amount(0.0, 1e9),
        /// Bytes of a packet that go to the cores.
        header_bytes: Bounds::Count(14.0, 9000.0),
        /// Power of a store, W.
        device_w: Bounds::Amount(0.0, 1e6),
    }

    /// Memory servers: cards that WRITE and READ without a processor.
    RdmaPreset {
        /// Servers.
        servers: Bounds::Count(1.0, 64.0),
        /// Rate of the port to each, Gb/s.
        port_gbps: Bounds::Amount(0.001, 1e5),
        /// Payload that a card moves each way, Gb/s.
        payload_gbps: Bounds::Amount(0.001, 1e5),
        /// Requests that a card takes, millions a second.
        capacity_mops: Bounds::Amount(0.001, 1e6),
        /// What may wait in a card for its turn, kB.
        buffer_kb: Bounds::Amount(2.0, 1e9),
        /// Queue pairs of each.
        queue_pairs: Bounds::Count(1.0, 1024.0),
        /// How long a queue pair is busy with a READ, ns: it serves one after the other.
        queue_pair_ns: Bounds::Amount(0.0, 1e9),
        /// What a READ takes besides, ns.
        read_ns: Bounds::Amount(0.0, 1e9),
        /// READs of a queue pair that may be outstanding.
        reads: Bounds::Count(1.0, 255.0),
    }

    /// The bus between a server's card and its cores.
    BusPreset {
        /// Packets that it carries, millions a second.
        capacity_mpps: Bounds::Amount(0.001, 1e6),
        /// Mean of what chance adds to a packet's way, us.
        spread_us: Bounds::Amount(0.0, 1e6),
    }

    /// Payloads in the switch's own memory.
    SramPreset {
        /// Bytes of each payload that stay there.
        payload_bytes: Bounds::Count(1.0, 9000.0),
        /// Payloads that have a place.
        slots: Bounds::Count(1.0, 1e6),
        /// Bytes of a packet that say where they are.
        tag_bytes: Bounds::Count(0.0, 100.0),
    }
}

/// One number as tables show it: its part, its name, the constant.
pub type Row<'a> = (String, &'static str, &'a Constant);

impl Testbed {
    /// Reads a testbed.
    ///
    /// # Errors
    /// The file cannot be read, or is wrong: the message names file, line and field.
    pub fn load(path: &Path) -> Result<Self, PlanError> {
        let text = PlanError::read(path)?;
        Self::parse(&text, path)
    }

    /// Reads a testbed's text; `path` is for messages.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, PlanError> {
        let testbed: Self =
            toml::from_str(text).map_err(|error| PlanError::of_toml(&error, text, path))?;
        for (part, name, constant, bounds) in testbed.all() {
            bounds.check(constant.value()).map_err(|wrong| {
                let span = place(text, part, name).unwrap_or(0..0);
                PlanError::at((span, format!("{name}: {wrong}")), text, path)
            })?;
        }
        Ok(testbed)
    }

    /// The same with another value of one number, named as `agent.entries_per_s`.
    ///
    /// # Errors
    /// There is no such number, or it may not be that.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), String> {
        let unknown = || format!("the testbed has no number {name}");
        let (part, number) = name.split_once('.').ok_or_else(unknown)?;
        let found = match part {
            "switch" => self.switch.constant_mut(number),
            "dpu" => self.dpu.as_mut().and_then(|p| p.constant_mut(number)),
            "agent" => self.agent.as_mut().and_then(|p| p.constant_mut(number)),
            "store" => self.store.as_mut().and_then(|p| p.constant_mut(number)),
            "sharing" => self.sharing.as_mut().and_then(|p| p.constant_mut(number)),
            "rdma" => self.rdma.as_mut().and_then(|p| p.constant_mut(number)),
            "bus" => self.bus.as_mut().and_then(|p| p.constant_mut(number)),
            "sram" => self.sram.as_mut().and_then(|p| p.constant_mut(number)),
            cores => self
                .cores
                .get_mut(cores)
                .and_then(|p| p.constant_mut(number)),
        };
        let (constant, bounds) = found.ok_or_else(unknown)?;
        bounds.check(value)?;
        *constant = Constant::of_plan(value);
        Ok(())
    }

    /// Every number.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let all = self.all().into_iter();
        all.map(|(part, name, constant, _)| (part.to_owned(), name, constant))
            .collect()
    }

    fn all(&self) -> Vec<(&str, &'static str, &Constant, Bounds)> {
        let cores = self.cores.iter();
        let cores = cores.map(|(name, cores)| (name.as_str(), cores.constants()));
        let agent = self.agent.iter().map(|part| ("agent", part.constants()));
        let store = self.store.iter().map(|part| ("store", part.constants()));
        let dpu = self.dpu.iter().map(|part| ("dpu", part.constants()));
        let sharing = self.sharing.iter();
        let sharing = sharing.map(|part| ("sharing", part.constants()));
        let rdma = self.rdma.iter().map(|part| ("rdma", part.constants()));
        let bus = self.bus.iter().map(|part| ("bus", part.constants()));
        let sram = self.sram.iter().map(|part| ("sram", part.constants()));
        let parts = std::iter::once(("switch", self.switch.constants()))
            .chain(dpu)
            .chain(cores)
            .chain(agent)
            .chain(store)
            .chain(sharing)
            .chain(rdma)
            .chain(bus)
            .chain(sram);
        parts
            .flat_map(|(part, constants)| {
                let named = constants.into_iter();
                named.map(move |(name, constant, bounds)| (part, name, constant, bounds))
            })
            .collect()
    }
}

/// Where a testbed's text has a number.
fn place(text: &str, part: &str, number: &str) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?;
    let table = document.get_ref();
    let at_top = table.get(part).map(|part| part.get_ref());
    let of_cores = || {
        let cores = table.get("cores")?.get_ref().as_table()?;
        cores.get(part).map(|part| part.get_ref())
    };
    let part: &DeValue<'_> = at_top.or_else(of_cores)?;
    part.as_table()?.get(number).map(|number| number.span())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/testbeds")
    }

    #[test]
    fn the_papers_testbeds_are_good_and_say_why() {
        let files = std::fs::read_dir(folder()).expect("testbeds are in the repository");
        let mut count = 0;
        for file in files {
            let path = file.expect("an entry").path();
            let testbed = Testbed::load(&path).unwrap_or_else(|error| panic!("{error}"));
            let rows = testbed.rows();
            let given = rows
                .iter()
                .filter(|(_, _, constant)| constant.evidence().kind() != "assumption");
            assert!(
                given.count() * 3 > rows.len(),
                "{} assumes all",
                path.display()
            );
            for (part, name, constant) in rows {
                let text = constant.evidence().text();
                assert!(text.len() > 5, "{part}.{name}: {text}");
                let cites = ["§", "Table", "Fig.", "Appendix", "Ethernet"]
                    .iter()
                    .any(|word| text.contains(word));
                assert!(
                    cites || constant.evidence().kind() == "assumption",
                    "{part}.{name}: {text}"
                );
            }
            count += 1;
        }
        assert!(count >= 2);
    }

    #[test]
    fn a_number_without_evidence_is_refused_with_its_place() {
        let text = std::fs::read_to_string(folder().join("switchnic.toml")).expect("a file");
        let parse = |from: &str, to: &str| {
            assert!(text.contains(from));
            let changed = text.replacen(from, to, 1);
            let parsed = Testbed::parse(&changed, Path::new("t.toml"));
            parsed.expect_err("this is wrong").to_string()
        };
        let line = 1 + text
            .lines()
            .position(|line| line.starts_with("pipeline_ns"))
            .expect("it is there");
        let place = format!("t.toml:{line}:");
        for (from, to, told) in [
            (
                ", source = \"§6.1, §6.4.1: about 350 ns on the fast path\"",
                "",
                "expected one of source",
            ),
            (
                "value = 350, ",
                "value = 350, assumption = \"x\", ",
                "expected one of source",
            ),
            ("value = 350", "value = -1", "not negative"),
            ("value = 350", "value = 1e12", "must be 0 to 1000000000"),
            ("pipeline_ns ", "pipeline_us ", "pipeline_us"),
        ] {
            let message = parse(from, to);
            assert!(
                message.contains(&place) && message.contains(told),
                "{message}"
            );
        }
    }

    /// What no device can have is refused where it stands, not when packets come.
    #[test]
    fn numbers_have_ranges() {
        let text = std::fs::read_to_string(folder().join("switchnic.toml")).expect("a file");
        let server = text.find("[cores.server]").expect("it is there");
        for (number, value, told) in [
            (
                "devices",
                "0",
                "devices: must be a whole number from 1 to 64",
            ),
            ("cores", "0", "cores: must be a whole number from 1 to 64"),
            ("cores", "1.5", "cores: must be a whole number"),
            ("port_gbps", "0", "port_gbps: must be 0.001 to 100000"),
            ("packet_ns", "0", "packet_ns: must be"),
            ("ring_packets", "0", "ring_packets: must be"),
        ] {
            let at = server + text[server..].find(&format!("\n{number} ")).expect(number) + 1;
            let begin = at + text[at..].find("value = ").expect(number) + "value = ".len();
            let end = begin + text[begin..].find(',').expect(number);
            let changed = format!("{}{value}{}", &text[..begin], &text[end..]);
            let line = 1 + text[..at].matches('\n').count();
            let error = Testbed::parse(&changed, Path::new("t.toml")).expect_err(number);
            let message = error.to_string();
            let is_told = message.contains(&format!("t.toml:{line}:")) && message.contains(told);
            assert!(is_told, "{message}");
        }
    }

    #[test]
    fn a_plan_can_set_a_number() {
        let mut testbed = Testbed::load(&folder().join("switchnic.toml")).expect("a testbed");
        assert_eq!(testbed.set("agent.entries_per_s", 5.0), Ok(()));
        assert_eq!(testbed.set("smartnic.packet_ns", 7.0), Ok(()));
        let agent = testbed.agent.as_ref().expect("there is one");
        assert_eq!(agent.entries_per_s.value(), 5.0);
        assert_eq!(testbed.cores["smartnic"].packet_ns.value(), 7.0);
        for (name, value, told) in [
            ("agent.entries", 0.0, "whole number"),
            ("agent.speed", 1.0, "no number agent.speed"),
            ("sharing.core_share", 0.5, "no number"),
            ("gpu.cores", 1.0, "no number"),
            ("entries", 1.0, "no number"),
        ] {
            let error = testbed.set(name, value).expect_err(name);
            assert!(error.contains(told), "{error}");
        }
    }
}
