//! What is done to a packet, as data: what policies decide for a flow and what its entry keeps.

use std::fmt;

use twinpath_core::wire::tunnel::Encapsulation;
use twinpath_core::wire::{Address, Endpoint, MacAddress, protocol};

use super::arrival::Arrival;
use crate::headers::{Direction, Headers};
use crate::objects::PortRange;
use crate::tables::MAX_LAYERS;

/// A tunnel's header that is put in front.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layer {
    /// Its kind.
    pub encapsulation: Encapsulation,
    /// VNI or virtual subnet.
    pub key: u32,
    /// Outer source; of the same IP version as the destination.
    pub source: Address,
    /// Outer destination.
    pub destination: Address,
}

/// What is done to all packets of a flow and direction, once their outer headers are off. The parts
/// do not depend on each other; layers come last, from the inside out.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Action {
    /// Inner source and destination. Of the other IP version than the packet's, its header is
    /// translated.
    pub addresses: Option<[Address; 2]>,
    /// Source port of TCP and UDP, or an echo's identifier.
    pub source_port: Option<u16>,
    /// Destination port of TCP and UDP, or an echo's identifier.
    pub destination_port: Option<u16>,
    /// Inner source MAC address.
    pub source_mac: Option<MacAddress>,
    /// Inner destination MAC address.
    pub destination_mac: Option<MacAddress>,
    /// Headers put in front. Without any the packet leaves as it is, between MAC addresses of the
    /// underlay.
    pub layers: [Option<Layer>; MAX_LAYERS],
    /// VNIs with which packets of the flow come from the network, beside that of the ENI's own
    /// network and those that are trusted.
    pub accepts: [Option<u32>; 2],
    /// In what is done to answers: how the packet came that opened the flow. A flow is judged anew as
    /// that packet, whatever its later ones come by.
    pub origin: Option<Origin>,
    /// In what is done to packets whose way a load balancer has told: what their way was before.
    pub detour: Option<Detour>,
}

impl Action {
    /// The backend that packets are sent to, if it is one of a load balancer's.
    #[must_use]
    pub const fn backend(&self) -> Option<Endpoint> {
        match (self.addresses, self.destination_port, self.source_port) {
            (Some([_, address]), Some(port), None) => Some(Endpoint::new(address, port)),
            _ => None,
        }
    }

    /// Whether packets leave with an address that others have, too: that of a NAT gateway.
    #[must_use]
    pub const fn hides_source(&self) -> bool {
        self.source_port.is_some() && self.origin.is_none()
    }

    /// What is done to answers to packets that this is done to, if a load balancer has told their way:
    /// they may come by the tunnel that it has told, too. Else nothing changes for them.
    #[must_use]
    pub fn answered_by(&self, before: &Self) -> Self {
        let told = self.detour.filter(|detour| detour.adds_tunnel);
        let key = told.and(self.layers[0]).map(|layer| layer.key);
        Self {
            accepts: key.map_or(before.accepts, |key| [Some(key), None]),
            ..*before
        }
    }

    /// Whether the packet inside is changed.
    #[must_use]
    pub const fn changes_inside(&self) -> bool {
        self.addresses.is_some() || self.source_port.is_some() || self.destination_port.is_some()
    }
}

/// What the way was of packets that a load balancer's redirect has moved.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Detour {
    /// The host that they were sent to. Whoever is there may move them again.
    pub instead_of: Address,
    /// Whether they went without a tunnel: the redirect has put one around them.
    pub adds_tunnel: bool,
}

/// How a packet came, beside its inner headers.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Which way it came, as its VNI told.
    pub direction: Direction,
    /// The tunnel it came by.
    pub encapsulation: Encapsulation,
    /// VNI or virtual subnet.
    pub key: u32,
    /// Outer source.
    pub outer_source: Address,
    /// Inner source MAC address.
    pub source_mac: MacAddress,
}

impl Origin {
    /// That of a packet.
    #[must_use]
    pub const fn of(arrival: &Arrival) -> Self {
        Self {
            direction: arrival.direction,
            encapsulation: arrival.encapsulation,
            key: arrival.key,
            outer_source: arrival.outer_source,
            source_mac: arrival.source_mac,
        }
    }
}

/// Whether this is the number of ICMP, of either IP version.
#[must_use]
pub const fn is_icmp(number: u8) -> bool {
    matches!(number, protocol::ICMP | protocol::ICMP6)
}

/// What a tunnel's kind and its number are called.
#[must_use]
pub const fn tunnel_names(encapsulation: Encapsulation) -> [&'static str; 2] {
    match encapsulation {
        Encapsulation::Vxlan => ["VXLAN", "VNI"],
        Encapsulation::Nvgre => ["NVGRE", "VSID"],
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, number] = tunnel_names(self.encapsulation);
        let Self {
            key,
            source,
            destination,
            ..
        } = self;
        write!(f, "{name} from {source} to {destination}, {number} {key}")
    }
}

/// What is done, in words.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some([source, destination]) = self.addresses {
            parts.push(format!("addresses {source} to {destination}"));
        }
        for (what, port) in [
            ("source port", self.source_port),
            ("destination port", self.destination_port),
        ] {
            parts.extend(port.map(|port| format!("{what} {port}")));
        }
        for (what, mac) in [
            ("source MAC", self.source_mac),
            ("destination MAC", self.destination_mac),
        ] {
            parts.extend(mac.map(|mac| format!("{what} {mac}")));
        }
        parts.extend(self.layers.iter().flatten().map(ToString::to_string));
        match parts.is_empty() {
            true => f.write_str("taken out of its tunnel"),
            false => f.write_str(&parts.join("; ")),
        }
    }
}

/// What policies decide about a flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PolicyDecision {
    /// What is done to packets as the one that was judged.
    pub forward: Action,
    /// What is done to answers: the forward action undone.
    pub reverse: Action,
    /// What headers an answer comes with. Ports are those of the flow's key.
    pub answers: Headers,
    /// What the flow's bytes are counted for; 0 for nothing.
    pub meter_class: u32,
    /// The epoch of the mapping that was looked at, if one was.
    pub mapping_epoch: Option<u16>,
    /// Ports of which the flow gets one as its source port, whichever is free: a NAT gateway's. Who
    /// keeps the flow [chooses](Self::set_source_port). An echo gets one as its identifier.
    pub source_ports: Option<PortRange>,
}

impl PolicyDecision {
    /// The port that was chosen for a flow: packets leave with it, and answers come to it. Of an echo
    /// policies do not know the identifier, which stands in the flow's key in place of both ports.
    pub const fn set_source_port(&mut self, port: u16, [source, _]: [u16; 2]) {
        self.forward.source_port = Some(port);
        match &mut self.answers.ports {
            Some([_, destination]) if !is_icmp(self.answers.protocol) => *destination = port,
            ports => {
                *ports = Some([port; 2]);
                self.reverse.destination_port = Some(source);
            }
        }
    }
}
