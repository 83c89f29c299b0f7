//! What is seen of cached rules.

use crate::fast_path::{FastElement, FastPath};
use crate::worker::Worker;
use std::collections::BTreeMap;
use twinpath_control::report::{
    RuleCounters, RuleElement, RuleManagerCounters, RuleSelectionCounters, RuleTableCounters,
    SlowRuleCounters,
};
use twinpath_core::Named;
use twinpath_rulecache::{Obstacle, RuleTable, SlowRules};

/// The tables of all elements together, as they stand.
pub(crate) fn tables(fast_path: &FastPath) -> RuleTableCounters {
    let mut all = RuleTableCounters::default();
    for stage in fast_path.rule_stages() {
        all.add(&table(&stage.table));
    }
    all
}

/// The table of each element of the chain; empty where there is none.
pub(crate) fn each_table(fast_path: &FastPath) -> Vec<RuleTableCounters> {
    let elements = fast_path.elements().iter();
    let table = |element: &FastElement| match element {
        FastElement::Rules(stage) => table(&stage.table),
        _ => RuleTableCounters::default(),
    };
    elements.map(table).collect()
}

/// What happened to rules with a worker, at each element whose decisions are cached: without what
/// the fast path's tables count. Each has its number.
pub(crate) fn elements(worker: &Worker) -> Vec<(u8, RuleElement)> {
    let elements = worker.rules_by_element();
    let told = elements.map(|(number, slow_path)| {
        let element = RuleElement {
            functions: Named::names(slow_path.functions()),
            counts: on_the_slow_path(slow_path),
        };
        (number, element)
    });
    told.collect()
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
        fragments_alone: counters.fragments_alone,
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
