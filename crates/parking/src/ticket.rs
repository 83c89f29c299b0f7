//! What ties a header to its payload.

use twinpath_core::Instant;

/// Names one parked payload. Slots are used again; the generation tells one use from another.
///
/// Generations wrap after 2^32 uses of one slot. Slots are given out in the order in which they
/// became free, so at 100 million packets a second and 8192 slots that takes four days, and only
/// a header exactly that old could be mistaken.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Where the payload's record is.
    pub slot: u32,
    /// Which use of the slot this is.
    pub generation: u32,
    /// When the packet was split. It travels with the header, so that also a header that comes too
    /// late tells how long the cores took.
    pub parked_at: Instant,
}
