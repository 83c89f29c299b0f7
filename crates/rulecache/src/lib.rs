//! What a chain does to a packet as one rule, cached on the fast path (SFCache).
//!
//! Many network functions decide per flow or per prefix and then always do the same: a firewall's
//! list, an address translation, a route, a balancer's choice. A chain of them does one thing to
//! all packets that agree in the bits they look at. This crate finds out which bits and what
//! thing, and does it without the chain:
//!
//! 1. On the slow path, a packet passes the functions as a [`Recorded`] packet. Its [`Recording`]
//!    collects the bits they examined, the fields they wrote and the table entries they used.
//! 2. [`synthesise`] makes a [`Rule`] of it: a mask and a value over the packet's [`MatchKey`],
//!    an [`Action`], and the entries it depends on.
//! 3. [`Selection`] decides which rules are hot.
//! 4. The [`Manager`] on the slow path gives hot rules a place, sends them to the fast path with
//!    [`CacheMessage`]s, and takes them out again before one of their entries may change.
//! 5. The [`RuleTable`] on the fast path matches packets and applies rules. A rule becomes active
//!    only when all earlier packets of its flows have come back from the slow path, so that nothing is
//!    overtaken.
//!
//! [`SlowRules`] puts the parts on the slow path's side together. **The chain alone is the oracle**:
//! with rules cached, every packet leaves with the same bytes, in the same order within its flow.
//!
//! Nothing here reads a clock, draws a random number or starts a thread.
#![forbid(unsafe_code)]

pub mod action;
pub mod chain;
mod exact;
pub mod field;
mod flows;
mod followers;
pub mod function;
mod headers;
mod index;
pub mod key;
pub mod manager;
mod matches;
pub mod message;
mod pending;
pub mod probe;
pub mod progress;
pub mod reconfigure;
pub mod recorded;
pub mod recording;
pub mod selection;
mod shared;
pub mod sides;
mod slots;
pub mod slow;
pub mod synthesis;
pub mod table;
mod variants;
pub mod words;

pub use action::{Action, Rewrites};
pub use chain::{Awaits, RuleChain};
pub use field::{Field, Fields};
pub use flows::LineKey;
pub use followers::Follower;
pub use function::{Answers, EntryText, Hits, RuleFunction, Verdict};
pub use key::MatchKey;
pub use manager::{CachedRule, Manager, ManagerConfig, ManagerCounters, Offer};
pub use message::{CacheMessage, Gone, MessageError, NewRule, RuleId, RuleName, Uses};
pub use probe::{NoProbe, Probe};
pub use progress::TcpProgress;
pub use reconfigure::{Affected, Concern, Reconfiguration, Reconfigure, ReconfigureError};
pub use recorded::{Dependents, NoRules, Recorded, Waited};
pub use recording::{Dependencies, Dependency, EntryId, Obstacle, Pattern, Recording};
pub use selection::{Selection, SelectionConfig, SelectionCounters};
pub use sides::Sides;
pub use slow::{Output, SlowRules, SlowRulesConfig, SlowRulesCounters};
pub use synthesis::{Rule, synthesise};
pub use table::{Effect, Found, Held, RuleTable, TableConfig, TableCounters};
