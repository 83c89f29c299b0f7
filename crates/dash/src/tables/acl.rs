//! A group of access control rules, compiled once and shared by all ENIs that it is bound to.
//!
//! A rule is a list of source prefixes by a list of destination prefixes by lists of ports and
//! protocols: a hundred by a hundred of them would be ten thousand rules of one prefix each, which is
//! what `twinpath-classify` takes. Here each field of a packet is looked up by itself, among the
//! ranges that all lists of the group cut the field's space into; what is found is the *set* of
//! rules whose list for that field holds it, as a bit for each rule in the order of priority (the bit
//! vectors of Lakshman and Stiliadis, SIGCOMM 1998). The first bit that is set in all five sets is the
//! first rule that matches. Ranges with the same set share it, so a prefix takes two starts of a
//! range, however many rules there are. In front of each set stands a bit for each of its words that
//! is not zero, so that few words are looked at (Baboescu and Varghese, SIGCOMM 2001).

use builder::{Builder, End};

use super::ranges::Ranges;
use crate::headers::Headers;
use crate::objects::{AclAction, AclGroupId, AclRule, AclRuleId, IpVersion, PrefixList, TagName};
use crate::source::ObjectSource;

/// What the rule that matches says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AclMatch {
    /// Whether the packet may pass.
    pub action: AclAction,
    /// Whether no later stage is asked.
    pub terminating: bool,
    /// Its place in the order of priority; [`AclTable::name`] tells its name.
    pub place: u32,
}

/// The rules of a group.
#[derive(Clone, Debug)]
pub struct AclTable {
    id: AclGroupId,
    /// In the order of priority.
    rules: Box<[AclMatch]>,
    names: Box<[AclRuleId]>,
    /// Of each so many of them in a row. If there are several, summaries stand behind them: in these a part
    /// is a rule, whose lists are those of all its rules together, and only parts that match are asked.
    parts: Box<[Part]>,
}

/// Most rules that are looked up together. A set has a bit for each of them, and there may be as many sets as
/// prefixes: in parts they grow with the rules and not with their square.
const RULES_OF_A_PART: usize = 1024;

// The words of a set have a bit each in a word, and the bits of words are all of a part that is full.
const _: () = assert!(RULES_OF_A_PART <= 64 * 64 && RULES_OF_A_PART.is_multiple_of(64));

/// Rules in a row.
#[derive(Clone, Debug)]
struct Part {
    sides: Sides,
    source_ports: Field<u16>,
    destination_ports: Field<u16>,
    /// The set of each protocol.
    protocols: Box<[u32]>,
    sets: Sets,
}

/// The addresses of the group's version.
#[derive(Clone, Debug)]
enum Sides {
    V4([Field<u32>; 2]),
    V6([Field<u128>; 2]),
}

/// The numbers of sets, by a field of the packet.
#[derive(Clone, Debug)]
struct Field<N> {
    ranges: Ranges<N>,
    /// Of packets that have no such field.
    absent: u32,
}

/// Sets of rules, by number: a bit for each word that is not zero, and then those words, in which a bit
/// stands for each rule.
#[derive(Clone, Debug, Default)]
struct Sets {
    words: Vec<u64>,
    /// Words of bits for rules.
    words_each: usize,
}

impl Default for AclTable {
    /// No rules.
    fn default() -> Self {
        Self::new("".into(), IpVersion::V4, &[], &|_| None)
    }
}

impl AclTable {
    /// Compiles a group; `None` if it is not there.
    pub fn compile(group: &AclGroupId, source: &dyn ObjectSource) -> Option<Self> {
        let version = source.acl_group(group)?.ip_version;
        let mut rules = Vec::new();
        source.acl_rules(group, &mut |name, rule| {
            rules.push((name.clone(), rule.clone()))
        });
        // Of two rules with the same priority the one comes first whose name is the lower number, or
        // else comes first as a word.
        rules.sort_by_cached_key(|(name, rule)| {
            let number = name.as_str().parse().unwrap_or(u64::MAX);
            (rule.priority, number, name.clone())
        });
        let tag = |name: &TagName| source.prefix_tag(name).map(|tag| &tag.prefixes);
        Some(Self::new(group.clone(), version, &rules, &tag))
    }

    fn new<'a>(
        id: AclGroupId,
        version: IpVersion,
        rules: &[(AclRuleId, AclRule)],
        tag: &dyn Fn(&TagName) -> Option<&'a PrefixList>,
    ) -> Self {
        Self::in_parts(id, version, rules, tag, RULES_OF_A_PART)
    }

    fn in_parts<'a>(
        id: AclGroupId,
        version: IpVersion,
        rules: &[(AclRuleId, AclRule)],
        tag: &dyn Fn(&TagName) -> Option<&'a PrefixList>,
        rules_of_a_part: usize,
    ) -> Self {
        let parts = rules.chunks(rules_of_a_part);
        let unions: Vec<_> = match parts.len() {
            0..=1 => Vec::new(),
            _ => parts.clone().filter_map(union::of).collect(),
        };
        let summaries = unions.chunks(rules_of_a_part);
        Self {
            id,
            rules: (0..)
                .zip(rules)
                .map(|(place, (_, rule))| found(place, rule))
                .collect(),
            names: rules.iter().map(|(name, _)| name.clone()).collect(),
            parts: parts
                .chain(summaries)
                .map(|rules| Part::new(version, rules, tag))
                .collect(),
        }
    }

    /// The first rule that matches. A packet of the other version matches none.
    #[must_use]
    pub fn lookup(&self, headers: &Headers) -> Option<AclMatch> {
        let place = match &*self.parts {
            [] => None,
            [part] => part.first_that_matches(headers),
            several => self.first_of_several(several, headers),
        };
        self.rules.get(place?).copied()
    }

    #[inline(never)]
    fn first_of_several(&self, parts: &[Part], headers: &Headers) -> Option<usize> {
        // The first is full.
        let of_a_part = parts.first()?.sets.words_each * 64;
        let (parts, summaries) = parts.split_at_checked(self.rules.len().div_ceil(of_a_part))?;
        let summaries = summaries.iter().zip((0..).step_by(of_a_part));
        let mut asked = summaries.flat_map(|(summary, first)| {
            let matching = summary.all_that_match(headers);
            matching.map(move |place| first + place)
        });
        asked.find_map(|number| {
            let place = parts.get(number)?.first_that_matches(headers)?;
            Some(number * of_a_part + place)
        })
    }

    /// Its name.
    #[must_use]
    pub const fn id(&self) -> &AclGroupId {
        &self.id
    }

    /// The name of the rule at a place.
    #[must_use]
    pub fn name(&self, place: u32) -> Option<&AclRuleId> {
        self.names.get(place as usize)
    }

    /// How many rules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Memory taken, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(Part::memory_bytes).sum();
        size_of::<Self>() + size_of_val(&*self.rules) + size_of_val(&*self.names) + parts
    }
}

impl Part {
    fn new<'a>(
        version: IpVersion,
        rules: &[(AclRuleId, AclRule)],
        tag: &dyn Fn(&TagName) -> Option<&'a PrefixList>,
    ) -> Self {
        let mut sets = Builder::new(rules.len());
        let sides = match version {
            IpVersion::V4 => Sides::V4(End::BOTH.map(|end| sets.v4(rules, end, tag))),
            IpVersion::V6 => Sides::V6(End::BOTH.map(|end| sets.v6(rules, end, tag))),
        };
        Self {
            source_ports: sets.ports(rules, |rule| &rule.src_port),
            destination_ports: sets.ports(rules, |rule| &rule.dst_port),
            protocols: sets.protocols(rules),
            sides,
            sets: sets.finish(),
        }
    }

    /// The place of the first rule that matches.
    fn first_that_matches(&self, headers: &Headers) -> Option<usize> {
        self.sets.of_all(self.numbers(headers)?).first()
    }

    /// The places of all that do.
    fn all_that_match(&self, headers: &Headers) -> impl Iterator<Item = usize> {
        let numbers = self.numbers(headers).into_iter();
        numbers.flat_map(|numbers| self.sets.of_all(numbers).each())
    }

    /// The sets of the rules whose lists hold a packet's fields.
    fn numbers(&self, headers: &Headers) -> Option<[u32; 5]> {
        let (source, destination) = match &self.sides {
            Sides::V4([source, destination]) if headers.is_v4() => (
                source.ranges.of(headers.source.0 as u32),
                destination.ranges.of(headers.destination.0 as u32),
            ),
            Sides::V6([source, destination]) if !headers.is_v4() => (
                source.ranges.of(headers.source.0),
                destination.ranges.of(headers.destination.0),
            ),
            _ => return None,
        };
        let [source_port, destination_port] = match headers.ports {
            Some([source, destination]) => [
                self.source_ports.ranges.of(source),
                self.destination_ports.ranges.of(destination),
            ],
            None => [self.source_ports.absent, self.destination_ports.absent],
        };
        let protocol = self.protocols.get(usize::from(headers.protocol)).copied();
        Some([
            source,
            destination,
            source_port,
            destination_port,
            protocol.unwrap_or(0),
        ])
    }

    fn memory_bytes(&self) -> usize {
        let sides: usize = match &self.sides {
            Sides::V4(sides) => sides.iter().map(|side| side.ranges.memory_bytes()).sum(),
            Sides::V6(sides) => sides.iter().map(|side| side.ranges.memory_bytes()).sum(),
        };
        size_of::<Self>()
            + sides
            + self.source_ports.ranges.memory_bytes()
            + self.destination_ports.ranges.memory_bytes()
            + size_of_val(&*self.protocols)
            + self.sets.words.capacity() * size_of::<u64>()
    }
}

impl Sets {
    /// These sets, for what all of them have.
    #[inline]
    fn of_all(&self, numbers: [u32; 5]) -> Common<'_> {
        Common(numbers.map(|number| self.of(number)))
    }

    #[inline]
    fn of(&self, number: u32) -> &[u64] {
        let each = 1 + self.words_each;
        let from = number as usize * each;
        self.words.get(from..from + each).unwrap_or(&[])
    }

    /// One more.
    fn push(&mut self, set: &[u64]) {
        let is_any = set.iter().map(|word| u64::from(*word != 0));
        let head = is_any.zip(0..).fold(0, |head, (bit, at)| head | bit << at);
        self.words.push(head);
        self.words.extend_from_slice(set);
    }
}

/// Sets, for the rules that all of them have.
struct Common<'s>([&'s [u64]; 5]);

impl<'s> Common<'s> {
    /// The bits of a word that all have.
    #[inline]
    fn word(&self, at: usize) -> u64 {
        let words = self.0.iter().map(|set| set.get(at).copied().unwrap_or(0));
        words.fold(u64::MAX, |all, word| all & word)
    }

    /// The first rule.
    #[inline]
    fn first(&self) -> Option<usize> {
        let mut left = self.word(0);
        while left != 0 {
            let word = left.trailing_zeros() as usize;
            let bits = self.word(1 + word);
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            left &= left - 1;
        }
        None
    }

    /// All rules, in order.
    fn each(self) -> impl Iterator<Item = usize> + 's {
        bits(self.word(0)).flat_map(move |word| {
            let places = bits(self.word(1 + word));
            places.map(move |place| word * 64 + place)
        })
    }
}

/// Where the bits of a word are set.
fn bits(word: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |place| word >> place & 1 != 0)
}

const fn found(place: u32, rule: &AclRule) -> AclMatch {
    AclMatch {
        action: rule.action,
        terminating: rule.terminating,
        place,
    }
}

mod builder;
#[cfg(test)]
mod tests;
mod union;
