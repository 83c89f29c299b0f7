//! What both paths have of an element's rules.

use std::collections::BTreeSet;
use twinpath_node::{FastElement, Worker};
use twinpath_rulecache::{RuleName, RuleTable, SlowRules};

/// An element's table on the fast path, and the workers' book of it.
pub struct ElementRules<'a> {
    /// The element's number.
    pub element: u8,
    pub table: &'a RuleTable,
    pub book: &'a SlowRules,
}

impl<'a> ElementRules<'a> {
    /// Those of each element with rules.
    pub fn of_each(
        elements: &'a [FastElement],
        worker: Option<&'a Worker>,
    ) -> impl Iterator<Item = Self> {
        let tables = (0..).zip(elements).filter_map(|(number, element)| {
            let FastElement::Rules(stage) = element else {
                return None;
            };
            Some((number, &stage.table))
        });
        let books = worker.into_iter().flat_map(Worker::rules_by_element);
        tables.zip(books).map(|((element, table), (_, book))| Self {
            element,
            table,
            book,
        })
    }

    /// Whether nothing waits for rules, and both sides know of the same.
    pub fn are_at_rest(&self) -> bool {
        self.table.held() == 0 && !self.book.is_waiting() && self.difference().is_none()
    }

    /// A rule that packets meet and the workers do not know.
    pub fn unknown(&self) -> Option<RuleName> {
        let known: BTreeSet<_> = self.book.manager().iter().map(|rule| rule.name).collect();
        self.active().difference(&known).next().copied()
    }

    /// A rule of which one side does not know, or that is under way.
    pub fn difference(&self) -> Option<RuleName> {
        let rules = || self.book.manager().iter();
        let installed = rules().filter(|rule| rule.is_installed);
        let installed: BTreeSet<_> = installed.map(|rule| rule.name).collect();
        let mut under_way = rules().filter(|rule| !installed.contains(&rule.name));
        let active = self.active();
        let differing = active.symmetric_difference(&installed).next().copied();
        differing.or_else(|| under_way.next().map(|rule| rule.name))
    }

    /// Rules that packets meet.
    fn active(&self) -> BTreeSet<RuleName> {
        let rules = (0..self.table.capacity() as u32).filter_map(|id| self.table.active_rule(id));
        rules.map(|(name, _)| name).collect()
    }
}
