//! Which rule, route or cached entry a packet matches, and which of its bits decided that.
//!
//! Three classifiers, each pure data without input or output:
//!
//! * [`acl`]: an ordered list of rules over addresses, ports and protocol; the first that matches
//!   wins.
//! * [`lpm`]: routes; the longest prefix that covers an address wins.
//! * [`masked`]: rules of a mask and a value over a packet's match key, of which any that matches
//!   is right: what the rule cache holds.
//!
//! The first two say on request which bits of the packet they examined, with one guarantee: *a
//! packet that agrees with this one on all examined bits gets the same answer*. This is what
//! allows a decision to be cached as a rule of the third kind. Bits are collected as few as is
//! cheap, and always as leading bits of a field, so that cached rules share few distinct masks.
//!
//! All take IPv4 and IPv6 addresses as the 128-bit numbers of [`twinpath_core::wire::Address`].
#![forbid(unsafe_code)]

pub mod acl;
mod blocks;
pub mod lpm;
pub mod masked;
pub mod prefix;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
mod word;

pub use prefix::{Prefix, PrefixError, Versions};
