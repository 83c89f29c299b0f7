//! Where a fragment belongs in its TCP segment.

/// What a fragment's frame says of its place in a TCP segment, so that a worker can count its bytes
/// ([`Frame::place`](crate::Frame::place)).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FragmentPlace {
    /// The sequence number of the datagram's first byte, as if the TCP header were payload. Where
    /// the segment has a FIN it is one more, for that comes in front of what a later fragment ends
    /// with.
    pub sequence: u32,
    /// What the segment acknowledges.
    pub acknowledgement: u32,
}
