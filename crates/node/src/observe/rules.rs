//! What is seen of cached rules.

use crate::fast_path::{FastElement, FastPath};
use crate::worker::{SlowElement, Worker};
use std::collections::BTreeMap;
use twinpath_control::report::{
    RuleCounters, RuleElement, RuleManagerCounters, RuleSelectionCounters, RuleTableCounters,
    Rules, SlowRuleCounters,
};
use twinpath_core::Named;
use twinpath_rulecache::{Obstacle, RuleTable, SlowRules};

/// The tables of all elements together, as they stand.
pub(super) fn tables(fast_path: &FastPath) -> RuleTableCounters {
    let mut all = RuleTableCounters::default();
    for stage in fast_path.rule_stages() {
        all.add(&table(&stage.table));
    }
    all
}

/// What happened to rules at each element whose decisions are cached.
pub(super) fn rules(fast_path: &FastPath, workers: &[Worker]) -> Rules {
    let mut rules = Rules::default();
    // Chains with rules have one worker.
    let Some(worker) = workers.first() else {
        return rules;
    };
    for (element, fast) in worker.elements().iter().zip(fast_path.elements()) {
        if let SlowElement::Rules(slow_path) = element {
            let table = match fast {
                FastElement::Rules(stage) => table(&stage.table),
                _ => RuleTableCounters::default(),
            };
            rules.push(RuleElement {
                functions: Named::names(slow_path.functions()),
                counts: RuleCounters {
                    table,
                    ..on_the_slow_path(slow_path)
                },
            });
        }
    }
    rules
}

fn table(table: &RuleTable) -> RuleTableCounters {
    let counters = table.counters();
    RuleTableCounters {
        capacity: table.capacity() as u64,
        active: table.active() as u64,
        hits: counters.hits,
        misses: counters.misses,
        guarded: counters.guarded,
        held: counters.held,
        held_then_punted: counters.held_then_punted,
        activated: counters.activated,
        demoted: counters.demoted,
        idle: counters.idle,
        hold_full: counters.hold_full,
        no_room: counters.no_room,
        marks_repeated: counters.marks_repeated,
    }
}

fn on_the_slow_path(slow_path: &SlowRules) -> RuleCounters {
    let counters = slow_path.counters();
    let selection = slow_path.selection().counters();
    let manager = slow_path.manager().counters();
    RuleCounters {
        table: RuleTableCounters::default(),
        slow_path: SlowRuleCounters {
            packets: counters.packets,
            waited: counters.waited,
            overflowed: counters.overflowed,
            stuck: counters.stuck,
        },
        obstacles: obstacles(slow_path),
        selection: RuleSelectionCounters {
            cacheable: selection.cacheable,
            selected: selection.selected,
        },
        manager: RuleManagerCounters {
            added: manager.added,
            replaced: manager.replaced,
            aged: manager.aged,
            invalidated: manager.invalidated,
            gone: manager.gone,
            repeated: manager.repeated,
        },
    }
}

fn obstacles(slow_path: &SlowRules) -> BTreeMap<String, u64> {
    let counted = Obstacle::ALL
        .into_iter()
        .zip(slow_path.counters().obstacles);
    let met = counted.filter(|&(_, count)| count > 0);
    met.map(|(obstacle, count)| (obstacle.name().to_owned(), count))
        .collect()
}
