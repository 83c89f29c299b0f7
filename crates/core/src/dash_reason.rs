//! Why a DPU drops packets.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident => $text:literal,)+) => {
        /// Why a packet is dropped. Counted for the ENI that it is of, or else for the DPU.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DashReason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl DashReason {
            /// Every reason, in the order of its number.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// What counters and reports call it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// What the drop counters of a node call it, among all other reasons.
            #[must_use]
            pub const fn drop_name(self) -> &'static str {
                match self {
                    $(Self::$name => concat!("dash_", $text),)+
                }
            }

            /// What it means, in a sentence or two.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc,)+).trim_ascii_start(),)+
                }
            }
        }
    };
}

reasons! {
    /// Broken outer headers.
    OuterMalformed => "outer_malformed",
    /// Neither VXLAN nor NVGRE, or such without a VNI.
    NotEncapsulated => "not_encapsulated",
    /// A fragment of an encapsulated packet.
    OuterFragment => "outer_fragment",
    /// The outer destination is not the appliance's address.
    VipMiss => "vip_miss",
    /// VXLAN from a source port outside the configured ones, with `vxlan_security`.
    VxlanSourcePort => "vxlan_source_port",
    /// No ENI has the inner MAC address.
    EniMiss => "eni_miss",
    /// The inner frame is no sound IP packet, or has VLAN tags.
    InnerMalformed => "inner_malformed",
    /// The ENI is disabled.
    EniDisabled => "eni_disabled",
    /// An outbound packet whose outer source is not the host that carries the ENI's machine.
    SpoofedSource => "spoofed_source",
    /// The outer headers met congestion, of which the inner packet's ends would not understand.
    Congestion => "congestion",
    /// A VNI that is not trusted.
    UntrustedVni => "untrusted_vni",
    /// A packet of a known flow that came with a VNI of none of its ends.
    FlowVni => "flow_vni_mismatch",
    /// Refused by an outbound access list.
    AclOutbound => "acl_outbound",
    /// Refused by an inbound access list.
    AclInbound => "acl_inbound",
    /// The ENI follows no routes.
    RouteGroupMiss => "route_group_miss",
    /// No route covers the inner destination.
    RouteMiss => "route_miss",
    /// The route says so.
    RouteDrop => "route_drop",
    /// The network has no mapping for the address.
    MappingMiss => "mapping_miss",
    /// The mapping's port map is not there.
    PortMapMiss => "port_map_miss",
    /// The port map has no range for the destination port, and the settings say that it must.
    PortRangeMiss => "port_range_miss",
    /// What a route or mapping refers to is not there: a tunnel, a network, a routing type.
    Unresolved => "unresolved",
    /// Actions that make no packet: no outer destination, ends of two IP versions, more than two
    /// tunnels, other than IPv4 to IPv6.
    Unsupported => "unsupported_action",
    /// A direct route, or a service tunnel without a host of its own, would send the packet to the DPU itself,
    /// which would take it for whosever its sender likes, or from the DPU's own address, which hosts would.
    OwnAddress => "own_address",
    /// A direct route, or a service tunnel without a host of its own, would send the packet to or from an address
    /// that no host has, such as a group of the underlay's routers.
    Martian => "martian",
    /// No inbound rule matches.
    InboundRouteMiss => "inbound_route_miss",
    /// The inbound rule says so.
    InboundRouteDrop => "inbound_route_drop",
    /// The outer source is none of the network's physical addresses.
    PaValidation => "pa_validation",
    /// TCP other than a connection's first segment, of no known flow.
    NoFlow => "tcp_without_flow",
    /// Another flow has the key of the packet's answers.
    FlowClash => "flow_clash",
    /// A packet to an external endpoint of the ENI's NAT gateway, of no known flow.
    NatUnsolicited => "nat_unsolicited",
    /// Neither TCP nor UDP nor an echo with an identifier, on a direct route of an ENI with a NAT
    /// gateway.
    NatProtocol => "nat_protocol",
    /// No port of the ENI's block was found free towards this destination.
    NatPorts => "nat_ports",
    /// A fragment whose first one did not come before it.
    FragmentAlone => "fragment_alone",
    /// An ICMP error about a packet of no known flow, or of one whose IP version was changed; or an
    /// error about a translated packet that is not to be believed.
    IcmpError => "icmp_error",
    /// A load balancer's redirect, which the machine does not get: it has moved its connection, or
    /// there was none to move.
    Redirect => "redirect",
    /// A redirect of load balancers that a machine sent, or that would send its connection to no one
    /// host, or to the DPU itself.
    ForgedRedirect => "forged_redirect",
    /// A packet that has no counterpart in the other IP version.
    Untranslatable => "untranslatable",
    /// The ENI has as many flows as it may.
    FlowLimit => "flow_limit",
    /// The ENI opens more connections a second than it may.
    ConnectionRate => "connection_rate",
    /// The ENI sends and gets more than it may.
    Bandwidth => "bandwidth",
    /// The table of flows has no room for another.
    FlowTableFull => "flow_table_full",
    /// The packet would be longer than the link carries.
    TooLong => "too_long",
    /// The buffer has no room for the headers.
    NoRoom => "no_room",
}

impl DashReason {
    /// Whether the packet was lost for want of room. Any other reason is a decision about it, or lies in
    /// it.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        matches!(self, Self::FlowTableFull | Self::NoRoom | Self::NatPorts)
    }

    /// Whether no entry decided about the packet, but how much there is room for, or may be used.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        let is_own = matches!(
            self,
            Self::FlowLimit | Self::ConnectionRate | Self::Bandwidth
        );
        is_own || self.is_loss()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_in_order() {
        let names: std::collections::BTreeSet<_> =
            DashReason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), DashReason::COUNT);
        for (number, reason) in DashReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number);
            assert!(!reason.meaning().is_empty());
        }
    }
}
