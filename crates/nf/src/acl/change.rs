//! Another list, while packets flow.

use super::config::Config;
use super::expand::packets;
use super::function::{AccessList, DEFAULT, Decided};
use super::list::{ListError, Prepared};
use crate::firewall::rule::Rule;
use std::collections::{HashMap, HashSet, VecDeque};
use twinpath_classify::acl::Rule as Packets;
use twinpath_rulecache::{Affected, Concern, Reconfigure};

/// A list ready to take the place of another, with the rules that both have.
#[derive(Debug)]
pub struct NewList {
    list: Prepared,
    /// Where each rule was in the list before; those that were have kept their order.
    origins: Vec<Option<u32>>,
    /// Where the rules were that are gone.
    gone: Vec<u32>,
    added: Vec<AddedRule>,
}

/// A rule that is new at its place.
#[derive(Debug)]
struct AddedRule {
    packets: Packets,
    /// Where rules were that match some of its packets and come after it; `None` for any.
    before: Option<Vec<u32>>,
}

/// So many rules behind added ones are looked for; of further added ones all rules are taken out
/// that their packets meet.
const MOST_LOOKS: usize = 10_000_000;

impl NewList {
    /// Builds the classifiers of a list, and finds out what of the former one stays.
    ///
    /// # Errors
    /// As for [`Prepared::new`].
    pub fn between(former: &Config, config: &Config) -> Result<Self, ListError> {
        let (before, after) = (&former.rules.0, &config.rules.0);
        let origins = origins(before, after);
        let stay: HashSet<u32> = origins.iter().flatten().copied().collect();
        Ok(Self {
            list: Prepared::new(config)?,
            gone: (0..before.len() as u32)
                .filter(|place| !stay.contains(place))
                .collect(),
            added: added(after, &origins),
            origins,
        })
    }
}

fn added(rules: &[Rule], origins: &[Option<u32>]) -> Vec<AddedRule> {
    let (mut added, mut looks) = (Vec::new(), 0);
    let is_new = |(_, origin): &(usize, &Option<u32>)| origin.is_none();
    for (index, _) in origins.iter().enumerate().filter(is_new) {
        let rule = &rules[index];
        let behind = rules[index..].iter().zip(&origins[index..]);
        looks += behind.len();
        let meets = behind.filter(|(other, _)| other.may_meet(rule));
        added.push(AddedRule {
            packets: packets(rule),
            before: (looks <= MOST_LOOKS)
                .then(|| meets.filter_map(|(_, origin)| *origin).collect()),
        });
    }
    added
}

/// Where rules were before, such that as many as can stay are in the same order; `None` for those
/// that are new or have moved. Where one rule of several equal ones comes or goes, it is that one.
fn origins(former: &[Rule], rules: &[Rule]) -> Vec<Option<u32>> {
    let is_same = |(one, other): &(&Rule, &Rule)| one == other;
    let ahead = former.iter().zip(rules).take_while(is_same).count();
    let (former_rest, rest) = (&former[ahead..], &rules[ahead..]);
    let from_the_end = former_rest.iter().rev().zip(rest.iter().rev());
    let behind = from_the_end.take_while(is_same).count();
    let middle = &former_rest[..former_rest.len() - behind];
    let first = ahead as u32;
    let moved = moved(middle, &rest[..rest.len() - behind]);
    let moved = moved.into_iter().map(|origin| Some(origin? + first));
    let last = (former.len() - behind) as u32..former.len() as u32;
    (0..first)
        .map(Some)
        .chain(moved)
        .chain(last.map(Some))
        .collect()
}

/// The same of lists that neither begin nor end with the same rule.
fn moved(former: &[Rule], rules: &[Rule]) -> Vec<Option<u32>> {
    let mut places: HashMap<&Rule, VecDeque<u32>> = HashMap::new();
    for (rule, place) in former.iter().zip(0..) {
        places.entry(rule).or_default().push_back(place);
    }
    let place = |rule| places.get_mut(rule).and_then(VecDeque::pop_front);
    let mut origins: Vec<Option<u32>> = rules.iter().map(place).collect();
    let stays = rising(&origins);
    for (origin, stays) in origins.iter_mut().zip(stays) {
        *origin = origin.filter(|_| stays);
    }
    origins
}

/// Marks a longest row of rising numbers.
fn rising(numbers: &[Option<u32>]) -> Vec<bool> {
    // Of rows of each length the index of the smallest last number, and of each number the one
    // before it in its row.
    let mut lasts: Vec<usize> = Vec::new();
    let mut before = vec![None; numbers.len()];
    for (index, number) in numbers.iter().enumerate() {
        if number.is_some() {
            let length = lasts.partition_point(|&last| numbers[last] < *number);
            before[index] = length.checked_sub(1).map(|shorter| lasts[shorter]);
            match lasts.get_mut(length) {
                Some(last) => *last = index,
                None => lasts.push(index),
            }
        }
    }
    let mut marks = vec![false; numbers.len()];
    let mut next = lasts.last().copied();
    while let Some(index) = next {
        marks[index] = true;
        next = before[index];
    }
    marks
}

impl AccessList {
    /// The entries of rules by their places.
    fn entries_at(&self, places: &[u32]) -> impl Iterator<Item = u32> {
        places
            .iter()
            .filter_map(|&place| self.entries.get(place as usize).copied())
    }

    /// An entry for a rule that is new.
    fn add_entry(&mut self, decided: Decided) -> u32 {
        if let Some(entry) = self.free.pop() {
            self.decided[entry as usize] = decided;
            return entry;
        }
        self.decided.push(decided);
        self.decided.len() as u32 - 1
    }
}

impl Reconfigure for AccessList {
    type New = NewList;

    /// Rules that came from what is gone; and of the packets that a new rule matches those about
    /// which something behind it has decided so far.
    fn affected_by(&self, new: &NewList) -> Affected {
        let mut gone: Vec<u32> = self.entries_at(&new.gone).collect();
        if new.list.default != self.list.default {
            gone.push(DEFAULT);
        }
        let mut concerns = vec![Concern::entries(gone)];
        for AddedRule { packets, before } in &new.added {
            let behind = |places: &Vec<u32>| {
                let entries = self.entries_at(places);
                entries.chain([DEFAULT]).collect()
            };
            concerns.push(Concern {
                entries: before.as_ref().map(behind),
                packets: *packets,
            });
        }
        Affected::Rules(concerns)
    }

    fn apply(&mut self, new: &mut NewList) {
        let gone: Vec<u32> = self.entries_at(&new.gone).collect();
        self.free.extend(gone);
        let kept = |origin: &Option<u32>| self.entries.get((*origin)? as usize).copied();
        let kept: Vec<Option<u32>> = new.origins.iter().map(kept).collect();
        let rules = kept.into_iter().zip(&new.list.rules);
        self.entries = rules
            .map(|(kept, rule)| kept.unwrap_or_else(|| self.add_entry(Decided::first(rule.action))))
            .collect();
        self.decided[DEFAULT as usize].action = new.list.default;
        std::mem::swap(&mut self.list, &mut new.list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rules of these kinds, of which some are equal.
    fn list(kinds: &[u16]) -> Vec<Rule> {
        let rule = |kind: &u16| format!("deny protocol tcp to_port {kind}").parse();
        kinds
            .iter()
            .map(rule)
            .collect::<Result<_, _>>()
            .expect("rules")
    }

    /// The first of two equal rules went, and took with it what was between them.
    #[test]
    fn of_equal_rules_the_one_that_is_meant_comes_and_goes() {
        let [twice, once] = [&[1, 2, 3, 1, 4][..], &[2, 3, 1, 4]].map(list);
        let stay = [1, 2, 3, 4].map(Some);
        assert_eq!(origins(&twice, &once), stay);
        let came = [None, Some(0), Some(1), Some(2), Some(3)];
        assert_eq!(origins(&once, &twice), came);
        assert_eq!(
            origins(&list(&[1, 1]), &list(&[1, 1, 1])),
            [Some(0), Some(1), None]
        );
        assert_eq!(origins(&[], &once), [None; 4]);
    }

    proptest! {
        /// Whatever changes, rules that stay are the same and in their order.
        #[test]
        fn what_stays_is_the_same_and_in_order(
            former in prop::collection::vec(1u16..5, 0..9),
            rules in prop::collection::vec(1u16..5, 0..9),
        ) {
            let (former, rules) = (list(&former), list(&rules));
            let origins = origins(&former, &rules);
            prop_assert_eq!(origins.len(), rules.len());
            let stay: Vec<u32> = origins.iter().flatten().copied().collect();
            prop_assert!(stay.is_sorted_by(|one, other| one < other));
            for (rule, origin) in rules.iter().zip(&origins) {
                prop_assert!(origin.is_none_or(|place| former[place as usize] == *rule));
            }
        }

        #[test]
        fn marks_a_longest_rising_row(numbers in prop::collection::vec(prop::option::of(0u32..12), 0..14)) {
            let marks = rising(&numbers);
            let row: Vec<u32> = numbers.iter().zip(&marks).filter(|(_, mark)| **mark).filter_map(|(number, _)| *number).collect();
            prop_assert_eq!(row.len(), marks.iter().filter(|mark| **mark).count());
            prop_assert!(row.windows(2).all(|pair| pair[0] < pair[1]));
            let mut lengths = vec![0; numbers.len()];
            for index in 0..numbers.len() {
                let Some(number) = numbers[index] else { continue };
                let before = (0..index).filter(|&other| numbers[other].is_some_and(|other| other < number));
                lengths[index] = 1 + before.map(|other| lengths[other]).max().unwrap_or(0);
            }
            prop_assert_eq!(row.len(), lengths.into_iter().max().unwrap_or(0));
        }
    }
}
