//! What operators may want otherwise, and what no object says.

use std::time::Duration;

use twinpath_core::wire::MacAddress;

/// What becomes of a packet that opens no connection and belongs to none.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Stray {
    /// It is dropped.
    Drop,
    /// Policies judge it as if it opened one, but none is remembered.
    Judge,
}

/// How the outer headers get their DSCP; of a packet that leaves without a tunnel its own header is the
/// outer one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Dscp {
    /// From the outer headers that the packet came with.
    Preserve,
    /// From the inner packet: the uniform model of RFC 2983.
    Uniform,
    /// Always this, 0 to 63: the pipe model.
    Pipe(u8),
}

/// Settings of a DPU, with the defaults that `docs/dash-conformance.md` gives reasons for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The DPU's own MAC address in the underlay; absent, the one that the packet was sent to.
    pub underlay_mac: Option<MacAddress>,
    /// The next hop's; absent, the one that the packet was sent by.
    pub next_hop_mac: Option<MacAddress>,
    /// Time to live of outer headers.
    pub ttl: u8,
    /// DSCP of outer headers.
    pub dscp: Dscp,
    /// Whether VXLAN over IPv6 has UDP checksums.
    pub udp_checksum_v6: bool,
    /// The longest outer IP packet in bytes.
    pub mtu: usize,
    /// TCP segments that open no connection and belong to none.
    pub stray_tcp: Stray,
    /// Whether an access list without rules that is bound denies all, or is skipped.
    pub empty_acl_denies: bool,
    /// Whether a destination port in no range of a port map is dropped, or keeps the mapping's
    /// endpoint.
    pub port_map_must_match: bool,
    /// Whether outbound packets must come from the host that carries the ENI's machine.
    pub check_outbound_source: bool,
    /// Whether frames with VLAN tags may be inside.
    pub inner_vlan: bool,
    /// Most flows of all ENIs, in both directions one.
    pub flows: usize,
    /// Over how many such DPUs the ENIs are spread: each has the tables of all, and packets of its own.
    pub shards: usize,
    /// Which of them this is, from 0: what it draws for packets no other does.
    pub shard: u16,
    /// Whether what was decided for a flow holds until a policy changes. Without, each of its packets
    /// is judged anew: the same leaves, only slower.
    pub caching: bool,
    /// After how long without a packet a flow is over.
    pub idle: IdleTimes,
    /// How many bytes an ENI with a bandwidth limit may send at once, as time at its limit.
    pub burst: Duration,
}

/// Times without a packet after which a flow is over.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct IdleTimes {
    /// An open TCP connection (RFC 5382: at least two hours and four minutes).
    pub tcp: Duration,
    /// One that has seen the first segment of one end only, or a reset, or the last segments of
    /// both ends.
    pub tcp_transitory: Duration,
    /// UDP (RFC 4787: at least two minutes).
    pub udp: Duration,
    /// Any other protocol.
    pub other: Duration,
}

impl Default for IdleTimes {
    fn default() -> Self {
        Self {
            tcp: Duration::from_secs(7_440),
            tcp_transitory: Duration::from_secs(30),
            udp: Duration::from_secs(120),
            other: Duration::from_secs(60),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            underlay_mac: None,
            next_hop_mac: None,
            ttl: 64,
            dscp: Dscp::Preserve,
            udp_checksum_v6: true,
            mtu: 9_100,
            stray_tcp: Stray::Drop,
            empty_acl_denies: true,
            port_map_must_match: false,
            check_outbound_source: true,
            inner_vlan: false,
            flows: 1 << 20,
            shards: 1,
            shard: 0,
            caching: true,
            idle: IdleTimes::default(),
            burst: Duration::from_millis(10),
        }
    }
}
