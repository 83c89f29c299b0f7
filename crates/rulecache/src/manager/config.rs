//! Limits, outcomes and counters of the manager.

use crate::message::RuleId;
use std::time::Duration;

/// Limits and times of the manager. The capacities are those of the fast path's table.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ManagerConfig {
    /// Rules that match all addresses and ports.
    pub exact: usize,
    /// Rules with other masks.
    pub masked: usize,
    /// Distinct masks of those.
    pub masks: usize,
    /// A request is repeated after so long.
    pub retry: Duration,
    /// Length of a window of ageing; longer than the table's report interval.
    pub window: Duration,
    /// A rule is taken out after so many windows without a reported use.
    pub idle_windows: u8,
    /// Rules that may wait for the place of a colder one.
    pub successors: usize,
}

impl Default for ManagerConfig {
    fn default() -> Self {
        Self {
            exact: 32_768,
            masked: 8192,
            masks: 64,
            retry: Duration::from_millis(10),
            window: Duration::from_secs(1),
            idle_windows: 2,
            successors: 64,
        }
    }
}

/// What became of a rule that was offered.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is on its way to this place.
    Added(RuleId),
    /// It will be when the colder rule at this place is gone.
    Replaces(RuleId),
    /// It has a place already.
    Known,
    /// One of its entries is closed.
    Closed,
    /// There are as many rules as there may be, and none is colder.
    NoRoom,
}

/// Counters of the manager.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagerCounters {
    /// Rules sent to the fast path.
    pub added: u64,
    /// Offers of rules that had a place.
    pub known: u64,
    /// Offers of rules with a closed entry.
    pub closed: u64,
    /// Offers without room.
    pub no_room: u64,
    /// Rules narrowed to the exact match for want of masks.
    pub narrowed: u64,
    /// Rules taken out for hotter ones.
    pub replaced: u64,
    /// Rules taken out because nobody used them.
    pub aged: u64,
    /// Rules taken out because an entry was to change.
    pub invalidated: u64,
    /// Rules that the fast path took out itself.
    pub gone: u64,
    /// Requests sent again.
    pub repeated: u64,
    /// Messages about rules that are no more.
    pub stale: u64,
}
