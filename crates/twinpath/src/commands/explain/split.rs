//! Payloads that wait in remote memory.

use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use twinpath_control::report::units;
use twinpath_control::service::{BackOffMode, Service, Split};

/// Whether packets are split, why, and where their payloads wait.
#[derive(Serialize)]
pub struct SplitFacts {
    /// Whether all functions do with headers.
    is_split: bool,
    functions: Vec<FunctionNeed>,
    threshold_bytes: u32,
    header_slots: usize,
    header_timeout_ns: u64,
    never_classes: usize,
    /// Payloads that this process holds; absent if there are servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    store_payloads: Option<usize>,
    servers: Vec<ServerFacts>,
    back_off: &'static str,
}

/// What a function needs of a packet.
#[derive(Serialize)]
struct FunctionNeed {
    name: String,
    /// Whether it may see headers only.
    sees_headers_only: bool,
    why: &'static str,
}

#[derive(Serialize)]
struct ServerFacts {
    name: String,
    number: u16,
    device: String,
    queue_pairs: usize,
}

impl SplitFacts {
    /// The facts, if the service has `[split]`.
    pub fn of(service: &Service) -> Option<Self> {
        let split = service.split.as_ref()?;
        let need = |one: &twinpath_control::service::Instance| {
            let needs = one.config.needs_payload();
            FunctionNeed {
                name: one.name.to_string(),
                sees_headers_only: needs.is_none(),
                why: needs.unwrap_or_else(|| one.config.does_with_headers()),
            }
        };
        Some(Self {
            is_split: service.splits().is_some(),
            functions: service.chain.iter().map(need).collect(),
            threshold_bytes: split.threshold_bytes,
            header_slots: split.header_slots,
            header_timeout_ns: split.header_timeout.duration().as_nanos() as u64,
            never_classes: split.never.len(),
            store_payloads: split.servers.is_empty().then_some(split.store.payloads),
            servers: servers(split, service.run.shards.0),
            back_off: match split.back_off.mode.unwrap_or_default() {
                BackOffMode::Off => "off",
                BackOffMode::OnOff => "on_off",
                BackOffMode::Proportional => "proportional",
            },
        })
    }
}

fn servers(split: &Split, shards: u16) -> Vec<ServerFacts> {
    let facts = split.servers().map(|server| ServerFacts {
        name: server.name.clone(),
        number: server.number,
        device: server.device.clone(),
        queue_pairs: split.queue_pairs * usize::from(shards),
    });
    facts.collect()
}

impl Display for SplitFacts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.is_split {
            true => writeln!(
                f,
                "Only headers go to the slow path of packets from {} bytes on",
                self.threshold_bytes
            )?,
            false => writeln!(
                f,
                "No packet is split: a function of the chain needs payloads"
            )?,
        }
        for FunctionNeed {
            name,
            sees_headers_only,
            why,
        } in &self.functions
        {
            let sees = match sees_headers_only {
                true => "headers only",
                false => "whole packets",
            };
            writeln!(f, "  {name:<16} {sees}: {why}")?;
        }
        if !self.is_split {
            return write!(f, "  so the rest of [split] has no effect");
        }
        match self.store_payloads {
            Some(payloads) => writeln!(
                f,
                "  payloads wait in this process, {} at most",
                units::count(payloads as u64)
            )?,
            None => writeln!(
                f,
                "  payloads wait on memory servers, back-off {}",
                self.back_off
            )?,
        }
        for server in &self.servers {
            writeln!(
                f,
                "    {}: number {} at {}, {} queue pairs",
                server.name, server.number, server.device, server.queue_pairs
            )?;
        }
        let protection = units::duration(self.header_timeout_ns);
        writeln!(
            f,
            "  {} packets are split at a time; a header that is not back after {protection} may lose its slot, and its packet",
            units::count(self.header_slots as u64)
        )?;
        write!(
            f,
            "  whole travel: shorter packets, fragments, neither TCP nor UDP, a time to live that ends"
        )?;
        match self.never_classes {
            0 => Ok(()),
            1 => write!(f, ", and a class that is never split"),
            classes => write!(f, ", and {classes} classes that are never split"),
        }
    }
}
