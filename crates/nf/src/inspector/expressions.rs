//! Many regular expressions as few automata of bounded size.

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};
use regex_syntax::hir::Hir;

use super::automaton::{Automaton, ByteClasses, START, Table};
use super::error::{Problem, RulesError};
use super::limits::EXPRESSION_TABLES;
use super::minimise::minimised;
use super::rules::{ItemIndex, RuleIndex, Rules};

/// How much more memory than the limit may be used before states are merged.
const WORKING_FACTOR: usize = 4;

/// One automaton for a run of rules.
struct Group {
    first: RuleIndex,
    table: Table,
}

/// At most [`EXPRESSION_TABLES`] automata that together report every regular
/// expression. Each one serves a run of rules.
pub(super) fn automata(rules: &Rules, table_bytes: usize) -> Result<Vec<Automaton>, RulesError> {
    let expressions = rules
        .patterns()
        .filter_map(|(index, sought)| Some((index, sought.expression()?)));
    let single = |(index, hir)| {
        let first = rules.rule_of(index);
        let table = table(index, hir, table_bytes);
        table
            .map(|table| Group { first, table })
            .ok_or_else(|| too_large(rules, first, table_bytes))
    };
    let singles = expressions.map(single).collect::<Result<Vec<_>, _>>()?;
    let groups = grouped(rules, singles, table_bytes)?;
    Ok(groups
        .iter()
        .map(|group| Automaton::new(&group.table))
        .collect())
}

fn too_large(rules: &Rules, rule: RuleIndex, limit_bytes: usize) -> RulesError {
    rules.error_at(
        rule,
        Problem::RuleTooLarge {
            rule: name_of(rules, rule),
            limit_bytes,
        },
    )
}

fn name_of(rules: &Rules, rule: RuleIndex) -> String {
    rules
        .rule(rule)
        .map_or_else(String::new, |rule| rule.name().to_owned())
}

fn too_large_together(rules: &Rules, rule: RuleIndex, limit_bytes: usize) -> RulesError {
    let (rule_name, tables) = (name_of(rules, rule), EXPRESSION_TABLES);
    rules.error_at(
        rule,
        Problem::RulesTooLarge {
            rule: rule_name,
            tables,
            limit_bytes,
        },
    )
}

/// Joins neighbours as far as they fit, halves first, so that a long file of
/// small rules costs few large joins. A join that fails costs a table for
/// good, so the limit on tables also limits the failures.
fn grouped(
    rules: &Rules,
    mut left: Vec<Group>,
    table_bytes: usize,
) -> Result<Vec<Group>, RulesError> {
    if left.len() < 2 {
        return Ok(left);
    }
    let right = left.split_off(left.len() / 2);
    let mut groups = grouped(rules, left, table_bytes)?;
    let mut right = grouped(rules, right, table_bytes)?.into_iter();
    if let (Some(last), Some(next)) = (groups.last_mut(), right.next()) {
        match joined(&last.table, &next.table, table_bytes) {
            Some(table) => last.table = table,
            None => groups.push(next),
        }
    }
    groups.extend(right);
    match groups.get(EXPRESSION_TABLES) {
        Some(group) => Err(too_large_together(rules, group.first, table_bytes)),
        None => Ok(groups),
    }
}

/// One table that does what both do.
fn joined(one: &Table, other: &Table, table_bytes: usize) -> Option<Table> {
    let label = |byte| one.classes.of(byte) * 256 + other.classes.of(byte);
    let step = |(a, b), byte| (one.step(a, byte), other.step(b, byte));
    let reports = |(a, b)| [one.reported(a), other.reported(b)].concat();
    let both = Table::explore(
        ByteClasses::new(label),
        (START, START),
        table_bytes,
        step,
        reports,
    )?;
    Some(minimised(&both))
}

/// The automaton of one pattern, as a table that reports it on the very byte
/// that completes an occurrence; none if it would be too large.
fn table(index: ItemIndex, hir: &Hir, table_bytes: usize) -> Option<Table> {
    let dfa = determinised(hir, table_bytes)?;
    let start = dfa
        .start_state(&start::Config::new().anchored(Anchored::No))
        .ok()?;
    let classes = ByteClasses::new(|byte| usize::from(dfa.byte_classes().get(byte)));
    let step = |state, byte| dfa.next_state(state, byte);
    // The library enters a matching state one byte late. Without look-around,
    // what the end of the stream would complete is complete already.
    let is_complete = |state| dfa.is_match_state(dfa.next_eoi_state(state));
    let reports = |state| {
        if is_complete(state) {
            vec![index]
        } else {
            vec![]
        }
    };
    let table = Table::explore(classes, start, WORKING_FACTOR * table_bytes, step, reports)?;
    let small = minimised(&table);
    (small.bytes() <= table_bytes).then_some(small)
}

fn determinised(hir: &Hir, table_bytes: usize) -> Option<dense::DFA<Vec<u32>>> {
    let working_bytes = Some(WORKING_FACTOR * table_bytes);
    let nfa = thompson::Compiler::new()
        .configure(
            thompson::Config::new()
                .utf8(false)
                .which_captures(WhichCaptures::None)
                .nfa_size_limit(working_bytes),
        )
        .build_from_hir(hir)
        .ok()?;
    dense::Builder::new()
        .configure(
            dense::Config::new()
                .match_kind(MatchKind::All)
                .start_kind(StartKind::Unanchored)
                .accelerate(false)
                .dfa_size_limit(working_bytes)
                .determinize_size_limit(working_bytes),
        )
        .build_from_nfa(&nfa)
        .ok()
}
