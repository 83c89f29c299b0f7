//! What a machine knows of a run.

use super::{MachineFigures, dash, parking, rules, split};
use crate::fast_path::FastPath;
use crate::machine::Machine;
use std::collections::BTreeMap;
use twinpath_control::report::{Coherence, Report, SlotCounters};
use twinpath_core::DropCounters;
use twinpath_nf::kv_store::Answers;

impl MachineFigures {
    /// What a machine knows, without what whoever watches it has seen leave.
    pub fn of(machine: &Machine) -> Self {
        let fast_path = machine.path();
        let mut report = Report::default();
        let counts = *fast_path.counters();
        report.totals.packets_in = counts.packets_in;
        report.totals.bytes_in = counts.bytes_in;
        report.slow.packets = counts.punted_packets;
        report.slow.bytes = counts.punted_bytes;
        report.fast.packets = counts.settled_packets();
        report.fast.bytes = counts.settled_bytes();
        report.coherence = coherence(fast_path);
        report.slots_at_end = slot_counts(fast_path);
        report.parking = fast_path.parking().map(parking::parking);
        report.split = fast_path.split().map(split::split);
        report.dash = fast_path.dash().map(|stage| dash::dash(stage.dpu()));
        Self {
            report,
            drops: fast_path.drops().clone(),
            latency: Default::default(),
            tables: rules::each_table(fast_path),
            answers: Answers::default(),
        }
    }
}

/// Drops by the names of their reasons.
pub(crate) fn by_name(drops: &DropCounters) -> BTreeMap<String, u64> {
    drops
        .nonzero()
        .map(|(reason, count)| (reason.name().to_owned(), count))
        .collect()
}

/// Slots of all tables, by state.
pub(crate) fn slot_counts(fast_path: &FastPath) -> SlotCounters {
    let mut all = SlotCounters::default();
    for stage in fast_path.stages() {
        let [initial, incomplete, active, frozen] = stage.counters().population;
        all.capacity += stage.slots() as u64;
        all.initial += initial;
        all.incomplete += incomplete;
        all.active += active;
        all.frozen += frozen;
    }
    all
}

/// Frames that workers missed are still to be added.
fn coherence(fast_path: &FastPath) -> Coherence {
    let protocol = fast_path.coherence();
    let counts = fast_path.counters();
    Coherence {
        pulls: protocol.pulls,
        pulls_granted: protocol.installs,
        pulls_declined: protocol.declines,
        cancellations: protocol.cancellations,
        rearms: protocol.rearms,
        incomplete_timeouts: protocol.incomplete_timeouts,
        refused_pulls: protocol.refused_pulls,
        waited: protocol.waited,
        waited_then_punted: protocol.waited_then_punted,
        write_backs: protocol.write_backs + protocol.idle_write_backs,
        write_back_retries: protocol.write_back_retries,
        ttl_write_backs: protocol.idle_write_backs,
        acknowledgements: protocol.acknowledgements,
        stale_messages_ignored: protocol.stale_messages,
        collisions: protocol.collisions,
        reordered_frames: counts.link_reordered,
        lost_frames: counts.link_lost,
    }
}
