//! How a group is compiled: each field's space is cut where the lists of rules begin and end. A tag is swept
//! once, however many rules name it.

use std::collections::HashMap;

use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

use super::super::ranges::{Number, Ranges};
use super::{Field, Sets};
use crate::objects::{AclRule, AclRuleId, PortRange, PrefixList, TagName};

/// An end of a packet.
#[derive(Copy, Clone)]
pub(super) enum End {
    Source,
    Destination,
}

impl End {
    pub(super) const BOTH: [Self; 2] = [Self::Source, Self::Destination];

    /// What a rule says of it.
    fn of(self, rule: &AclRule) -> (&PrefixList, &[TagName]) {
        match self {
            Self::Source => (&rule.src_addr, &rule.src_tag),
            Self::Destination => (&rule.dst_addr, &rule.dst_tag),
        }
    }
}

/// The prefixes of a tag, if it is there.
type Tags<'t, 'a> = &'t dyn Fn(&TagName) -> Option<&'a PrefixList>;

/// What rules say of a field.
struct Listed<N> {
    /// Rules that say nothing of it, and match everywhere.
    everywhere: Vec<u32>,
    lists: Vec<List<N>>,
}

/// Ranges, and the rules that match in them.
struct List<N> {
    ranges: Vec<(N, N)>,
    rules: Vec<u32>,
}

impl<N> Listed<N> {
    const fn new() -> Self {
        Self {
            everywhere: Vec::new(),
            lists: Vec::new(),
        }
    }

    fn add(&mut self, rule: u32, ranges: Vec<(N, N)>) {
        let rules = vec![rule];
        self.lists.push(List { ranges, rules });
    }
}

/// Gives sets numbers; the same sets have the same.
pub(super) struct Builder {
    sets: Sets,
    numbers: HashMap<Box<[u64]>, u32>,
    rules: usize,
}

impl Builder {
    pub(super) fn new(rules: usize) -> Self {
        Self {
            sets: Sets {
                words: Vec::new(),
                words_each: rules.div_ceil(64),
            },
            numbers: HashMap::new(),
            rules,
        }
    }

    pub(super) fn finish(self) -> Sets {
        self.sets
    }

    fn number(&mut self, set: &[u64]) -> u32 {
        if let Some(&number) = self.numbers.get(set) {
            return number;
        }
        let number = self.numbers.len() as u32;
        self.sets.push(set);
        self.numbers.insert(set.into(), number);
        number
    }

    pub(super) fn v4(
        &mut self,
        rules: &[(AclRuleId, AclRule)],
        end: End,
        tags: Tags,
    ) -> Field<u32> {
        self.addresses(rules, end, tags, |prefix| {
            let is_of_version = prefix.versions().includes(true);
            is_of_version.then(|| (prefix.network().0 as u32, last(prefix, true).0 as u32))
        })
    }

    pub(super) fn v6(
        &mut self,
        rules: &[(AclRuleId, AclRule)],
        end: End,
        tags: Tags,
    ) -> Field<u128> {
        self.addresses(rules, end, tags, |prefix| {
            let is_of_version = prefix.versions().includes(false);
            is_of_version.then(|| (prefix.network().0, last(prefix, false).0))
        })
    }

    fn addresses<N: Number>(
        &mut self,
        rules: &[(AclRuleId, AclRule)],
        end: End,
        tags: Tags,
        range: impl Fn(&Prefix) -> Option<(N, N)>,
    ) -> Field<N> {
        let ranges = |list: &PrefixList| list.iter().filter_map(|prefix| range(&prefix)).collect();
        let (mut listed, mut by_tag) = (Listed::new(), HashMap::new());
        for (place, (_, rule)) in (0..).zip(rules) {
            let (addresses, named) = end.of(rule);
            match addresses.is_empty() {
                false => listed.add(place, ranges(addresses)),
                true if named.is_empty() => listed.everywhere.push(place),
                true => {}
            }
            for name in named {
                let Some(prefixes) = tags(name) else {
                    continue;
                };
                let at = *by_tag.entry(name).or_insert_with(|| {
                    let (ranges, rules) = (ranges(prefixes), Vec::new());
                    listed.lists.push(List { ranges, rules });
                    listed.lists.len() - 1
                });
                listed.lists[at].rules.push(place);
            }
        }
        self.field(&listed)
    }

    pub(super) fn ports(
        &mut self,
        rules: &[(AclRuleId, AclRule)],
        of: fn(&AclRule) -> &[PortRange],
    ) -> Field<u16> {
        let mut listed = Listed::new();
        for (place, (_, rule)) in (0..).zip(rules) {
            match of(rule) {
                [] => listed.everywhere.push(place),
                ports => {
                    let ends = ports.iter().map(|range| (range.first(), range.last()));
                    listed.add(place, ends.collect());
                }
            }
        }
        self.field(&listed)
    }

    /// Cuts a field's space.
    fn field<N: Number>(&mut self, listed: &Listed<N>) -> Field<N> {
        let mut bits = vec![0; self.sets.words_each].into_boxed_slice();
        for place in &listed.everywhere {
            set(&mut bits, *place, true);
        }
        let (mut ends, mut list_of) = (Vec::new(), Vec::new());
        for (number, list) in (0..).zip(&listed.lists) {
            ends.extend_from_slice(&list.ranges);
            list_of.resize(ends.len(), number);
        }
        let absent = self.number(&bits);
        let mut open = Open {
            bits,
            in_list: vec![0; listed.lists.len()],
            by_rule: vec![0; self.rules],
            list_of: &list_of,
            lists: &listed.lists,
            builder: self,
        };
        let ranges = Ranges::sweep(&ends, &mut open, Open::begin, Open::end, Open::number);
        Field { ranges, absent }
    }

    pub(super) fn protocols(&mut self, rules: &[(AclRuleId, AclRule)]) -> Box<[u32]> {
        let of = |protocol: u8| {
            let mut bits = vec![0; rules.len().div_ceil(64)];
            for (place, (_, rule)) in rules.iter().enumerate() {
                let matches = rule.protocols.is_empty() || rule.protocols.contains(&protocol);
                set(&mut bits, place as u32, matches);
            }
            bits
        };
        (0..=u8::MAX)
            .map(|protocol| self.number(&of(protocol)))
            .collect()
    }
}

/// The rules that hold at a point of the sweep.
struct Open<'a, N> {
    /// Of each rule whether it does.
    bits: Box<[u64]>,
    /// By how many ranges of each list.
    in_list: Vec<u32>,
    /// By how many lists of each rule.
    by_rule: Vec<u32>,
    /// The list of each range.
    list_of: &'a [u32],
    lists: &'a [List<N>],
    builder: &'a mut Builder,
}

impl<N> Open<'_, N> {
    fn begin(&mut self, range: u32) {
        let list = self.list_of[range as usize] as usize;
        self.in_list[list] += 1;
        if self.in_list[list] == 1 {
            for rule in &self.lists[list].rules {
                self.by_rule[*rule as usize] += 1;
                set(&mut self.bits, *rule, true);
            }
        }
    }

    fn end(&mut self, range: u32) {
        let list = self.list_of[range as usize] as usize;
        self.in_list[list] -= 1;
        if self.in_list[list] == 0 {
            for rule in &self.lists[list].rules {
                let lists = &mut self.by_rule[*rule as usize];
                *lists -= 1;
                let holds = *lists > 0;
                set(&mut self.bits, *rule, holds);
            }
        }
    }

    fn number(&mut self) -> u32 {
        self.builder.number(&self.bits)
    }
}

/// The last address of a prefix in one version: "any" is of both.
fn last(prefix: &Prefix, v4: bool) -> Address {
    match (v4, prefix.length()) {
        (true, 0) => Address::from_v4([255; 4]),
        (false, 0) => Address(u128::MAX),
        _ => prefix.last(),
    }
}

fn set(bits: &mut [u64], place: u32, value: bool) {
    if let Some(word) = bits.get_mut(place as usize / 64) {
        let bit = 1 << (place % 64);
        *word = if value { *word | bit } else { *word & !bit };
    }
}
