//! What there is of rules in a run, and their times.

use super::draw::Draw;
use super::gate::GateConfig;
use super::scenario::Traffic;
use std::time::Duration;
use twinpath_rulecache::{CoresConfig, ManagerConfig, SelectionConfig, TableConfig};

/// What there is of rules, and their times.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSettings {
    /// The gates.
    pub gates: [GateConfig; 2],
    /// The table of each element.
    pub table: TableConfig,
    /// Each element on the cores.
    pub cores: CoresConfig,
}

impl Default for RuleSettings {
    fn default() -> Self {
        let gate = GateConfig {
            entries: 1,
            looks_whole: false,
            idle: None,
        };
        Self {
            gates: [gate; 2],
            table: TableConfig::default(),
            cores: CoresConfig::default(),
        }
    }
}

impl RuleSettings {
    pub(super) fn drawn(draw: &mut Draw, traffic: &Traffic, delay_ns: u64) -> Self {
        let rate = traffic.clock_rate;
        let gap = Duration::from_nanos((traffic.gap_ns / 2).max(1) * rate);
        let round_trip = Duration::from_nanos(2 * delay_ns);
        let window = gap * draw.pick(&[4, 16, 64]);
        let table = table(draw, round_trip, window);
        Self {
            gates: [gate(draw, gap), gate(draw, gap)],
            cores: cores(draw, &table, round_trip * rate as u32, window),
            table,
        }
    }
}

fn gate(draw: &mut Draw, gap: Duration) -> GateConfig {
    let idle = gap * draw.pick(&[4, 16, 64, 256]);
    GateConfig {
        entries: draw.pick(&[1, 2, 4, 8]),
        looks_whole: draw.flip(),
        idle: draw.flip().then_some(idle),
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
        seed: draw.below(u64::MAX),
    }
}

fn cores(
    draw: &mut Draw,
    table: &TableConfig,
    round_trip: Duration,
    window: Duration,
) -> CoresConfig {
    CoresConfig {
        segment: 0,
        caching: true,
        waiting: scarce(draw, 64),
        selection: SelectionConfig {
            window,
            threshold: draw.pick(&[0, 0, 1]),
            entries: 64,
            judged: 64,
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
