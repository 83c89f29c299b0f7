//! What there is of rules in a run, and their times.

use super::traffic::Traffic;
use crate::faults::draw::Draw;
use std::time::Duration;
use twinpath_core::Share;
use twinpath_rulecache::{ManagerConfig, SelectionConfig, SlowRulesConfig, TableConfig};

/// What there is of rules, and their times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleSettings {
    /// The table of each element.
    pub table: TableConfig,
    /// Each element on the slow path.
    pub slow: SlowRulesConfig,
}

impl RuleSettings {
    /// These, but what was used once becomes a rule at once, and nothing runs out.
    pub(super) fn prompt(drawn: &Self, round_trip: Duration, clock_rate: u32) -> Self {
        let mut settings = drawn.clone();
        let table = &mut settings.table;
        (table.exact, table.masked, table.masks, table.held) = (32, 32, 8, 64);
        let window = round_trip * clock_rate;
        (table.mark_timeout, table.report_interval) = (4 * round_trip, window);
        let slow = &mut settings.slow;
        slow.waiting = 64;
        (slow.selection.window, slow.selection.threshold) = (window, 0);
        let manager = &mut slow.manager;
        (manager.exact, manager.masked, manager.masks) = (32, 32, 8);
        (manager.retry, manager.window, manager.successors) = (4 * window, window, 16);
        settings
    }

    /// Any settings that go with this traffic.
    pub(super) fn drawn(draw: &mut Draw, traffic: &Traffic, delay_ns: u64) -> Self {
        let rate = traffic.clock_rate;
        let gap = Duration::from_nanos((traffic.gap_ns / 2).max(1) * rate);
        let round_trip = Duration::from_nanos(2 * delay_ns);
        let window = gap * draw.pick(&[4, 16, 64]);
        let table = table(draw, round_trip, window);
        Self {
            slow: slow(draw, &table, round_trip * rate as u32, window),
            table,
        }
    }
}

fn scarce(draw: &mut Draw, plenty: usize) -> usize {
    let few = draw.between(1, 4) as usize;
    if draw.one_in(4) { few } else { plenty }
}

fn table(draw: &mut Draw, round_trip: Duration, window: Duration) -> TableConfig {
    TableConfig {
        exact: scarce(draw, 32),
        masked: scarce(draw, 32),
        masks: scarce(draw, 8),
        held: scarce(draw, 64),
        promoted_together: draw.pick(&[1, 2, 64]),
        mark_timeout: round_trip * draw.pick(&[1, 4, 16]),
        report_interval: window / 2,
        identifications: Share::FAST_PATH,
        seed: draw.below(u64::MAX),
    }
}

fn slow(
    draw: &mut Draw,
    table: &TableConfig,
    round_trip: Duration,
    window: Duration,
) -> SlowRulesConfig {
    SlowRulesConfig {
        caching: true,
        waiting: scarce(draw, 64),
        selection: SelectionConfig {
            window,
            threshold: draw.pick(&[0, 0, 1]),
            entries: 64,
            judged: 64,
            seed: table.seed,
        },
        manager: ManagerConfig {
            exact: table.exact,
            masked: table.masked,
            masks: table.masks,
            retry: round_trip * draw.pick(&[1, 4, 16]),
            window,
            idle_windows: draw.pick(&[1, 2, 3]),
            successors: scarce(draw, 16),
        },
    }
}
