//! Port maps: destination ports of a private endpoint that have backends of their own.

use twinpath_core::wire::Address;

use super::names::PortMapId;
use super::values::PortRange;

/// A port map; what is in it are its ranges. A port in no range keeps the mapping's endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortMap {
    /// The controller's own name for it.
    pub guid: Option<Box<str>>,
}

/// What happens to destination ports of a range.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PortMapRange {
    /// They keep the mapping's endpoint.
    SkipMapping,
    /// The destination is another: `base + (port - first port of the range)`.
    PrivateLinkService {
        /// The destination; its address in the underlay, and the last 32 bits of the inner one.
        backend_ip: Address,
        /// The port that the range's first becomes.
        backend_port_base: u16,
    },
}

/// Which ports of which map. Ranges of a map do not overlap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortMapRangeKey {
    /// The map.
    pub map: PortMapId,
    /// Destination ports.
    pub ports: PortRange,
}
