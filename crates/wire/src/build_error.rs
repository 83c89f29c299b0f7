//! Why a header or a packet cannot be written.

use thiserror::Error;

use crate::malformed::Malformed;

/// Why a header or a packet could not be written.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// The buffer has no room for it.
    #[error("buffer too small")]
    BufferTooSmall,
    /// Longer than its length field can say.
    #[error("longer than its length field can say")]
    TooLong,
    /// A value that the field has no room for.
    #[error("value out of the field's range")]
    FieldRange,
    /// Addresses of different IP versions, or a message that this version does not have.
    #[error("addresses or message of the wrong IP version")]
    Family,
    /// More than 40 bytes of options.
    #[error("more than 40 bytes of options")]
    OptionsTooLong,
    /// More VLAN tags than [`MAX_VLAN_TAGS`](crate::layout::MAX_VLAN_TAGS).
    #[error("more VLAN tags than are followed")]
    TooManyVlanTags,
    /// More extension headers than [`MAX_EXTENSIONS`](crate::ipv6::MAX_EXTENSIONS), or extension
    /// headers in an IPv4 packet.
    #[error("too many extension headers, or not IPv6")]
    Extensions,
    /// A setter for another kind of packet, such as a sequence number for UDP.
    #[error("setter for another kind of packet")]
    WrongKind,
    /// The packet would not be read as it was meant.
    #[error("packet would be malformed: {0}")]
    Malformed(#[from] Malformed),
}
