//! Testbeds as files: what the papers' devices can do, with the evidence for each number.
//!
//! A testbed is a switch, one or more kinds of cores behind it, and where a paper has them a
//! control-plane agent and a store for payloads. The files are in `plans/testbeds`; a plan names one
//! (`testbed = "testbeds/switchnic.toml"`, as seen from the plan) and may set some of its numbers
//! itself, where a figure sweeps them. A number without a paper's section, a derivation or the word
//! `assumption` beside it is refused.

mod constant;

pub use constant::{Constant, ConstantError, Evidence};

use crate::error::PlanError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

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
    pub cores: BTreeMap<String, CoresPreset>,
    /// What writes match-action tables.
    pub agent: Option<AgentPreset>,
    /// Where payloads wait outside of the switch.
    pub store: Option<StorePreset>,
    /// What sharing a core costs.
    pub sharing: Option<SharingPreset>,
}

macro_rules! presets {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: Constant,)*
        }

        impl $name {
            /// Every constant with its name.
            pub fn constants(&self) -> Vec<(&'static str, &Constant)> {
                vec![$((stringify!($field), &self.$field)),*]
            }
        }
    )*};
}

presets! {
    /// A switch.
    SwitchPreset {
        /// From the first bit in to the first bit out, ns.
        pipeline_ns,
        /// Rate of its ports, Gb/s.
        port_gbps,
        /// What the queue of a port may hold, kB.
        port_queue_kb,
        /// Bytes of wire that each frame takes besides its own.
        wire_bytes,
        /// Packets that the pipeline can take, millions a second.
        capacity_mpps,
        /// Power of a port in use, W.
        port_w,
    }

    /// Cores behind the switch: on network cards or in servers.
    CoresPreset {
        /// Cards or sockets.
        devices,
        /// Cores of each that work on packets.
        cores,
        /// Rate of each one's port, Gb/s.
        port_gbps,
        /// From the switch to a core and back without the core's work, us.
        round_trip_us,
        /// Bytes that a packet is longer on this link, for what is told with it.
        link_bytes,
        /// Packets that may wait for a core.
        ring_packets,
        /// What a packet takes a core, ns.
        packet_ns,
        /// What each byte takes more where payload is searched, ns.
        byte_ns,
        /// Power of each device without its cores, W.
        device_w,
        /// Power of a core at work, W.
        core_w,
    }

    /// A control-plane agent.
    AgentPreset {
        /// Table entries that it writes a second.
        entries_per_s,
        /// From a request's turn to the entry that packets meet, us.
        latency_us,
        /// Requests that may wait.
        backlog,
        /// Entries that a rule takes.
        entries_per_rule,
        /// Rules that the tables hold.
        entries,
    }

    /// Cores that two functions share.
    SharingPreset {
        /// What is left of a core for each packet, where the system switches between two functions: a
        /// share of one.
        core_share,
    }

    /// A store for payloads, over RDMA.
    StorePreset {
        /// Payload that a store's card moves each way, Gb/s.
        port_gbps,
        /// From a read to its answer, ns.
        read_ns,
        /// Bytes of a packet that go to the cores.
        header_bytes,
        /// Power of a store, W.
        device_w,
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
        toml::from_str(text).map_err(|error| PlanError::of_toml(&error, text, path))
    }

    /// Every number.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let cores = self.cores.iter();
        let cores = cores.map(|(name, cores)| (name.as_str(), cores.constants()));
        let agent = self.agent.iter().map(|part| ("agent", part.constants()));
        let store = self.store.iter().map(|part| ("store", part.constants()));
        let sharing = self
            .sharing
            .iter()
            .map(|part| ("sharing", part.constants()));
        let parts = std::iter::once(("switch", self.switch.constants()))
            .chain(cores)
            .chain(agent)
            .chain(store)
            .chain(sharing);
        parts
            .flat_map(|(part, constants)| {
                let named = constants.into_iter();
                named.map(move |(name, constant)| (part.to_owned(), name, constant))
            })
            .collect()
    }
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
                let cites = ["§", "Table", "Fig.", "Ethernet"]
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
            ("pipeline_ns ", "pipeline_us ", "pipeline_us"),
        ] {
            let message = parse(from, to);
            assert!(
                message.contains(&place) && message.contains(told),
                "{message}"
            );
        }
    }
}
