//! Which datagram a fragment is of.

use twinpath_core::wire::Address;

/// What fragments of one datagram have in common.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Datagram {
    pub source: Address,
    pub destination: Address,
    /// Of IPv4 alone: that of a later fragment of IPv6 may be another than the first one's.
    pub protocol: Option<u8>,
    pub identification: u32,
}
