//! What is compared, and what may differ.

use std::str::FromStr;
use std::time::Duration;
use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

/// How long a binding is silent until it counts as over, unless it is said otherwise: what RFC 4787
/// (REQ-5) asks of a UDP mapping at least.
pub const DEFAULT_BINDING_IDLE: Duration = Duration::from_secs(120);

/// What is compared, and what may differ. By default all bytes are, and timestamps are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Compare the packets' timestamps, too, to the nanosecond.
    pub timestamps: bool,
    /// Ignore the identification of IPv4 packets and of IPv6 fragments, also of quoted ones. Which
    /// fragments belong together is then not compared.
    pub ignore_ip_ids: bool,
    /// Names that may differ, up to a one-to-one renaming.
    pub renaming: Option<Renaming>,
    /// Packets in tunnels are those inside; of the headers around them this counts.
    pub inner: Option<Inner>,
}

/// What does not count of the headers around packets in tunnels (VXLAN and NVGRE, one or several).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inner {
    /// These fields.
    pub ignore: Vec<OuterField>,
    /// The outermost destination, if it is one of these.
    pub endpoints: Vec<Address>,
    /// A UDP port to which VXLAN goes beside its usual one.
    pub vxlan_port: Option<u16>,
}

/// A field of headers around a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum OuterField {
    /// Both MAC addresses.
    Macs,
    /// Time to live or hop limit, and the header's checksum.
    Ttl,
    /// IPv4's identification and flags, and the header's checksum.
    Id,
    /// VXLAN's source port, and the checksum of UDP.
    SourcePort,
    /// IPv6's flow label with the traffic class's last bits.
    FlowLabel,
}

/// A field that has no such name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchField;

impl std::fmt::Display for NoSuchField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "no such field: expected outer.macs, outer.ttl, outer.id, outer.source_port or outer.flow_label",
        )
    }
}

impl std::error::Error for NoSuchField {}

impl FromStr for OuterField {
    type Err = NoSuchField;

    fn from_str(text: &str) -> Result<Self, NoSuchField> {
        Ok(match text {
            "outer.macs" => Self::Macs,
            "outer.ttl" => Self::Ttl,
            "outer.id" => Self::Id,
            "outer.source_port" => Self::SourcePort,
            "outer.flow_label" => Self::FlowLabel,
            _ => return Err(NoSuchField),
        })
    }
}

/// Names that an address translation gives out, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renaming {
    external: Vec<Prefix>,
    binding_idle: Duration,
}

impl Renaming {
    /// Names are protocols, addresses and ports whose address is in one of these prefixes. A
    /// binding is over after [`DEFAULT_BINDING_IDLE`].
    pub fn of(external: Vec<Prefix>) -> Self {
        Self {
            external,
            binding_idle: DEFAULT_BINDING_IDLE,
        }
    }

    /// A binding is over when its name has been silent for longer than this.
    #[must_use]
    pub fn with_binding_idle(self, binding_idle: Duration) -> Self {
        Self {
            binding_idle,
            ..self
        }
    }

    /// The prefixes of external addresses.
    pub fn external(&self) -> &[Prefix] {
        &self.external
    }

    /// How long a name is silent until its binding counts as over.
    pub const fn binding_idle(&self) -> Duration {
        self.binding_idle
    }

    /// Whether an address is an external one.
    pub(crate) fn has(&self, address: Address) -> bool {
        self.external.iter().any(|prefix| prefix.includes(address))
    }

    /// [`Self::binding_idle`] in nanoseconds.
    pub(crate) fn binding_idle_ns(&self) -> u64 {
        u64::try_from(self.binding_idle.as_nanos()).unwrap_or(u64::MAX)
    }
}
