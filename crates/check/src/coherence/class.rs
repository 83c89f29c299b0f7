//! What packets are to the fast path.

/// What a packet is to the fast path.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// Simple, and its flow is hot.
    Simple,
    /// Simple, but its flow is not worth a slot.
    Cold,
    /// Simple, and the flow is over afterwards: its value becomes zero.
    Last,
    /// Only the workers can finish it.
    Complex,
}
