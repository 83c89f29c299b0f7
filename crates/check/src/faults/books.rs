//! The tables of rules on the fast path, and the workers' books of them.

use super::rule::Rule;
use super::simulation::Simulation;
use std::collections::BTreeSet;
use twinpath_node::{FastElement, Worker};
use twinpath_rulecache::{RuleName, RuleTable, SlowRules};

impl Simulation {
    /// Each element's table and the workers' book of it, with the element's number.
    pub(super) fn tables_and_books(&self) -> impl Iterator<Item = (u8, &RuleTable, &SlowRules)> {
        let elements = (0..).zip(self.machine.path().elements());
        let tables = elements.filter_map(|(number, element)| match element {
            FastElement::Rules(stage) => Some((number, &stage.table)),
            _ => None,
        });
        let books = self.workers.first().into_iter();
        let books = books.flat_map(Worker::rules_by_element);
        tables
            .zip(books)
            .map(|((number, table), (_, book))| (number, table, book))
    }

    /// Packets that are held for rules.
    pub(super) fn held_for_rules(&self) -> usize {
        let tables = self.tables_and_books();
        tables.map(|(_, table, _)| table.held()).sum()
    }

    /// How many packets may wait on a worker for rules to go.
    pub(super) fn most_waiting(&self, worker: usize) -> i64 {
        let rules = self.workers[worker].rules();
        let waiting = rules.filter(|rules| rules.is_waiting()).count();
        waiting as i64 * (self.scenario.rules.slow.waiting as i64 + 1)
    }

    /// Whether nothing waits for rules, and both sides know of the same.
    pub(super) fn rules_are_at_rest(&self) -> bool {
        let is_quiet = self.lines.iter().flatten().all(|line| line.is_empty());
        is_quiet
            && self.knows_epoch(0)
            && self.tables_and_books().all(|(_, table, book)| {
                table.held() == 0 && !book.is_waiting() && difference(table, book).is_none()
            })
    }

    /// Adds up what production counted of rules.
    pub(super) fn count_rules(&mut self) {
        let mut coverage = self.coverage;
        for (_, table, book) in self.tables_and_books() {
            let (table, manager) = (table.counters(), book.manager().counters());
            coverage.rules_added += manager.added;
            coverage.rules_activated += table.activated;
            coverage.rule_hits += table.hits;
            coverage.rule_holds += table.held;
            coverage.held_then_punted += table.held_then_punted;
            coverage.rules_demoted += table.demoted;
            coverage.rules_idle += table.idle;
            coverage.holds_full += table.hold_full;
            coverage.marks_repeated += table.marks_repeated;
            coverage.waited_for_rules += book.counters().waited;
            coverage.rules_invalidated += manager.invalidated;
            coverage.rules_replaced += manager.replaced;
            coverage.rules_aged += manager.aged;
            coverage.rule_requests_repeated += manager.repeated;
        }
        self.coverage = coverage;
    }

    /// What is still inside when nothing will happen any more was dropped.
    pub(super) fn settle_inside(&mut self) {
        if self.held_for_rules() > 0 {
            let what = format!("{} packets are held for ever", self.held_for_rules());
            self.step.fault(Rule::Progress, what);
        }
        if self
            .tables_and_books()
            .any(|(_, _, book)| book.is_waiting())
        {
            let what = "a packet waits for ever for a rule to go".into();
            self.step.fault(Rule::Progress, what);
        }
        self.justify_drops();
    }

    /// What is still inside while nothing is held was dropped.
    pub(super) fn justify_drops(&mut self) {
        let inside: Vec<u32> = self.inside.iter().copied().collect();
        inside
            .into_iter()
            .for_each(|number| self.justify_drop(number));
    }
}

/// Rules that packets meet.
fn active(table: &RuleTable) -> BTreeSet<RuleName> {
    let rules = (0..table.capacity() as u32).filter_map(|id| table.active_rule(id));
    rules.map(|(name, _)| name).collect()
}

/// A rule that packets meet and the workers do not know.
pub(super) fn unknown(table: &RuleTable, book: &SlowRules) -> Option<RuleName> {
    let known: BTreeSet<_> = book.manager().iter().map(|rule| rule.name).collect();
    active(table).difference(&known).next().copied()
}

/// A rule of which one side does not know, or that is under way.
pub(super) fn difference(table: &RuleTable, book: &SlowRules) -> Option<RuleName> {
    let rules = book.manager().iter();
    let installed: BTreeSet<_> = rules
        .filter(|rule| rule.is_installed)
        .map(|rule| rule.name)
        .collect();
    let mut all = book.manager().iter().map(|rule| rule.name);
    let is_under_way = |name: &RuleName| !installed.contains(name);
    active(table)
        .symmetric_difference(&installed)
        .next()
        .copied()
        .or_else(|| all.find(is_under_way))
}
