//! What tells the fast path that a packet may meet a rule.

/// What the fast path must see in the window to escalate a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateLiterals {
    /// One of these, or a beginning of one at the window's end; in either case if the pattern is
    /// `nocase`.
    AnyOf(Vec<Vec<u8>>),
    /// Nothing in particular: every packet with a payload is escalated.
    Always,
}
