//! What an operator looks at in a running service: flows, bindings, backends, counters, and all
//! figures. Answers are bounded, whatever there is.

use crate::flow_filter::FlowFilter;
use crate::report::Report;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Most things that an answer tells.
pub const MOST_TOLD: usize = 20_000;

/// What to look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "look", rename_all = "snake_case")]
pub enum Look {
    /// Flows that functions know.
    Flows(Query),
    /// Bindings of translations.
    Bindings(Query),
    /// Backends of load balancers.
    Backends(Query),
    /// How often entries of functions' tables decided.
    Counters(Query),
    /// Flows of a DPU.
    DashFlows(DashQuery),
    /// What a report would say.
    Figures,
}

/// Which flows of a DPU; all that are not excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DashQuery {
    /// Those of this ENI.
    pub eni: Option<String>,
    /// Those with this address at either end, as packets come or as they are translated.
    pub address: Option<IpAddr>,
    /// Those with this port at either end, likewise.
    pub port: Option<u16>,
    /// Those of such a flow, likewise.
    pub flow: Option<FlowFilter>,
    /// Those without a packet for so long, ns.
    pub least_unused_ns: u64,
    /// At most so many, and never more than [`MOST_TOLD`].
    pub most: Option<usize>,
}

impl DashQuery {
    /// At most so many are told.
    pub fn most(&self) -> usize {
        self.most.unwrap_or(MOST_TOLD).min(MOST_TOLD)
    }
}

/// A flow of a DPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DashFlowView {
    /// Its ENI.
    pub eni: String,
    /// `outbound` if its machine opened it, else `inbound`.
    pub direction: String,
    /// The IP protocol number.
    pub protocol: u8,
    /// Where the packets come from that opened it.
    pub source: String,
    /// Where they go.
    pub destination: String,
    /// How far a TCP connection has come: `opened`, `answered` or `ended`; `open` of any other flow.
    pub state: String,
    /// What is done to packets as those that opened it.
    pub action: DashActionView,
    /// What is done to answers.
    pub answers: DashActionView,
    /// How long no packet has come, ns, within 67 ms.
    pub unused_ns: u64,
}

/// What is done to a flow's packets in one direction, once they are out of the tunnel that they came by. What
/// is not there stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DashActionView {
    /// All of it, in words.
    pub text: String,
    /// The inner source address that they get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The inner destination address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The inner source port, or an echo's identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// The inner destination port, or an echo's identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// The inner source MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_mac: Option<String>,
    /// The inner destination MAC address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_mac: Option<String>,
    /// The tunnels that they are put into, from the inside out; none if they leave without.
    pub tunnels: Vec<DashTunnelView>,
}

/// A tunnel's header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DashTunnelView {
    /// `VXLAN` or `NVGRE`.
    pub encapsulation: String,
    /// VNI, or VSID.
    pub key: u32,
    /// Outer source address.
    pub source: String,
    /// Outer destination address.
    pub destination: String,
}

/// Which of them; all that are not excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Query {
    /// Those of this function, by its name in the chain.
    pub function: Option<String>,
    /// Those with this address at either end.
    pub address: Option<IpAddr>,
    /// Those with this port at either end.
    pub port: Option<u16>,
    /// Those of such a flow.
    pub flow: Option<FlowFilter>,
    /// Of flows those that have most bytes, the largest first; else those that are found first.
    pub largest: bool,
    /// At most so many, and never more than [`MOST_TOLD`].
    pub most: Option<usize>,
}

impl Query {
    /// At most so many are told.
    pub fn most(&self) -> usize {
        self.most.unwrap_or(MOST_TOLD).min(MOST_TOLD)
    }
}

/// What is told for as long as somebody listens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "stream", rename_all = "snake_case")]
pub enum Stream {
    /// A [`DropView`] on a line for each packet that is dropped.
    Drops,
    /// Packets as pcapng.
    Capture {
        /// Where.
        at: CapturePoint,
        /// At most so many bytes of each.
        bytes: usize,
    },
    /// A [`PacketView`] on a line for each packet that [`Self::Capture`] would have.
    Packets {
        /// Where.
        at: CapturePoint,
    },
}

/// Where packets are captured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapturePoint {
    /// At all ports, in and out.
    Ports,
    /// At one, by its name or number.
    Port(String),
    /// In front of the element of the chain that a function is in, by the function's name.
    Function(String),
    /// Where they are dropped.
    Drops,
}

/// A packet that was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropView {
    /// When it came, ns on the packet clock.
    pub time_ns: u64,
    /// Why it was dropped, as in reports.
    pub reason: String,
    /// Where: by the fast path, or by a worker.
    pub path: FlowPath,
    /// The function that dropped it, or those of the element that did, as far as is known.
    pub functions: Vec<String>,
    /// The port that it came in by.
    pub port: String,
    /// How long it was.
    pub bytes: usize,
    /// Its headers in words.
    pub headers: Vec<String>,
    /// Packets until now that were not told, because they were too many.
    pub shed: u64,
}

/// A packet of a capture, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketView {
    /// When it came, ns on the packet clock.
    pub time_ns: u64,
    /// What became of it there.
    pub event: PacketEvent,
    /// The port that it came in by, or leaves by.
    pub port: String,
    /// The function that it meets or that dropped it, or those of the element; none at ports.
    pub functions: Vec<String>,
    /// Why it was dropped, as in reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long it was.
    pub bytes: usize,
    /// Its headers in words.
    pub headers: Vec<String>,
    /// Packets until now that were not told, because they were too many.
    pub shed: u64,
}

/// What becomes of a packet where it is captured.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacketEvent {
    /// A port has taken it.
    Received,
    /// A port is about to send it.
    Transmitted,
    /// A function is about to meet it.
    Meets,
    /// It is dropped.
    Dropped,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "seen", rename_all = "snake_case")]
pub enum LookResult {
    /// Flows.
    Flows(Part<FlowView>),
    /// Bindings.
    Bindings(Part<BindingView>),
    /// Backends.
    Backends(Part<BackendView>),
    /// Counters.
    Counters(Part<CounterView>),
    /// Flows of a DPU.
    DashFlows(Part<DashFlowView>),
    /// Figures.
    Figures(Box<Report>),
}

/// Some of what was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part<T> {
    /// What is told.
    pub told: Vec<T>,
    /// Whether there is more of it, which is not told.
    pub has_more: bool,
    /// Whether there was no time to look at all.
    #[serde(default)]
    pub is_cut: bool,
    /// Whether no function of the chain ever has any.
    #[serde(default)]
    pub is_without: bool,
}

/// Which path holds a flow's state.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowPath {
    /// The fast path: simple packets leave at once.
    Fast,
    /// A worker.
    Slow,
}

/// A flow that functions know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowView {
    /// The functions that share its state, or the one that counts it.
    pub functions: Vec<String>,
    /// The IP protocol number.
    pub protocol: u8,
    /// Its ends, the lower first, of a DPU's flow whoever opened it; those of a key-value entry are its
    /// key.
    pub ends: Vec<String>,
    /// What each function's state says, by function; empty for functions that do not say.
    pub state: Vec<(String, String)>,
    /// Which path holds its state; absent for flows that are only counted.
    pub path: Option<FlowPath>,
    /// Packets either way, as far as reported; absent where nobody counts.
    pub packets: Option<u64>,
    /// Bytes of their frames.
    pub bytes: Option<u64>,
    /// How long ago its first packet came, ns of packet time; absent where nobody knows.
    pub age_ns: Option<u64>,
    /// How long ago its last packet came that counted, ns of packet time.
    pub unused_ns: Option<u64>,
}

/// A binding of a translation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingView {
    /// The function, by its name in the chain.
    pub function: String,
    /// `tcp`, `udp` or `icmp`.
    pub protocol: String,
    /// The endpoint inside.
    pub internal: String,
    /// What stands for it outside.
    pub external: String,
    /// With how many others it speaks.
    pub sessions: u32,
}

/// A backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendView {
    /// The function, by its name in the chain.
    pub function: String,
    /// The service that it serves.
    pub service: String,
    /// Where it is: its address and port.
    pub backend: String,
    /// Its share of new connections, relative to others'.
    #[serde(default = "usual_weight")]
    pub weight: u32,
    /// Its MAC address, for direct return.
    #[serde(default)]
    pub mac: Option<String>,
    /// Whether it gets no new connections.
    #[serde(default)]
    pub is_drained: bool,
    /// Connections that it was given since the start.
    pub opened: u64,
    /// Connections that are known at the moment.
    pub connections: u64,
}

/// That of a backend of which nothing is said.
fn usual_weight() -> u32 {
    1
}

/// How often an entry of a function's table decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterView {
    /// The function, by its name in the chain.
    pub function: String,
    /// Where it is a rule of a list: its number, counted from 1.
    pub rule: Option<usize>,
    /// What it is, on one line.
    pub text: String,
    /// Packets on either path, as far as reported.
    pub packets: u64,
    /// Bytes of their frames, if they are counted.
    pub bytes: Option<u64>,
}
