//! The inbound rules of an ENI: which tunnels its packets may come with.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

use super::numbers::{Numbers, Used};
use super::ranges::{Ranges, v4_range, v6_range};
use crate::objects::{EniId, InboundAction, MeterBits, Vni};
use crate::source::ObjectSource;

/// Of more rules of a VNI than these it is not asked rule by rule which is the first.
const FEW: usize = 8;
/// No rule's place.
const NONE: u32 = u32::MAX;

/// An inbound rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundRule {
    source: Prefix,
    /// The lower, the earlier.
    priority: u32,
    /// The inner protocol; `None` for any.
    protocol: Option<u8>,
    /// What is done.
    pub action: InboundAction,
    /// The network of the sender, if the outer source must be one of its physical addresses.
    pub validated: Option<u32>,
    /// What is done to the metering class.
    pub metering: MeterBits,
}

/// What packets it is for, beside their VNI, and how early it is asked.
impl fmt::Display for InboundRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {}, priority {}", self.source, self.priority)?;
        self.protocol
            .map_or(Ok(()), |number| write!(f, ", protocol {number}"))
    }
}

/// Rules by VNI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboundTable(HashMap<u32, Arc<RulesOfVni>>);

/// The rules for packets that come with a VNI.
#[derive(Debug)]
struct RulesOfVni {
    /// In the order in which they are asked.
    rules: Box<[InboundRule]>,
    /// Of more than [`FEW`]; it follows from them.
    index: Option<Index>,
}

impl PartialEq for RulesOfVni {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

impl Eq for RulesOfVni {}

/// Where the first rule is that matches: of those for any protocol, and of those for each.
#[derive(Debug)]
struct Index {
    any: FirstRules,
    /// By protocol, in order.
    by_protocol: Box<[(u8, FirstRules)]>,
}

/// Places of rules by the source that they are for, the first of those that are for the same.
#[derive(Debug)]
struct FirstRules {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
}

impl FirstRules {
    fn new(places: &[u32], rules: &[InboundRule]) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for &place in places {
            let source = rules[place as usize].source;
            if source.versions().includes(true) {
                let (first, last) = v4_range(source);
                v4.push((first, last, place, place));
            }
            if source.versions().includes(false) {
                let (first, last) = v6_range(source);
                v6.push((first, last, place, place));
            }
        }
        Self {
            v4: Ranges::best(&v4, NONE),
            v6: Ranges::best(&v6, NONE),
        }
    }

    fn of(&self, source: Address) -> u32 {
        match source.is_v4() {
            true => self.v4.of(source.0 as u32),
            false => self.v6.of(source.0),
        }
    }
}

impl Index {
    fn new(rules: &[InboundRule]) -> Self {
        let mut any = Vec::new();
        let mut by_protocol: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        for (place, rule) in (0..).zip(rules) {
            let places = match rule.protocol {
                None => &mut any,
                Some(protocol) => by_protocol.entry(protocol).or_default(),
            };
            places.push(place);
        }
        let by_protocol = by_protocol.into_iter();
        Self {
            any: FirstRules::new(&any, rules),
            by_protocol: by_protocol
                .map(|(protocol, places)| (protocol, FirstRules::new(&places, rules)))
                .collect(),
        }
    }

    fn place(&self, source: Address, protocol: u8) -> u32 {
        let own = self
            .by_protocol
            .binary_search_by_key(&protocol, |(protocol, _)| *protocol);
        let own = own.map_or(NONE, |at| self.by_protocol[at].1.of(source));
        own.min(self.any.of(source))
    }
}

impl RulesOfVni {
    fn new(rules: Vec<InboundRule>) -> Self {
        Self {
            index: (rules.len() > FEW).then(|| Index::new(&rules)),
            rules: rules.into(),
        }
    }

    fn first(&self, source: Address, protocol: u8) -> Option<&InboundRule> {
        match &self.index {
            None => self.rules.iter().find(|rule| rule.is_for(source, protocol)),
            Some(index) => self.rules.get(index.place(source, protocol) as usize),
        }
    }
}

impl InboundRule {
    fn is_for(&self, source: Address, protocol: u8) -> bool {
        self.source.includes(source) && self.protocol.is_none_or(|wanted| wanted == protocol)
    }

    /// In what order rules are asked: that for a protocol before that for any.
    fn rank(&self) -> (u32, u8, bool) {
        let any = self.protocol.is_none();
        (self.priority, 128 - self.source.length(), any)
    }
}

impl InboundTable {
    /// Compiles the rules of an ENI. `vnet` is the ENI's own network, which a rule that names none
    /// means. Of VNIs whose rules are those of `known` what that has is kept.
    pub(crate) fn compile(
        eni: &EniId,
        vnet: u32,
        source: &dyn ObjectSource,
        numbers: &mut Numbers,
        known: Option<&Self>,
    ) -> Self {
        let mut rules: HashMap<u32, Vec<InboundRule>> = HashMap::new();
        source.route_rules(eni, &mut |key, rule| {
            let sender = match &rule.vnet {
                Some(name) => numbers.vnets.of(name),
                None => vnet,
            };
            // Where a rule does not say, a network that it names is validated, as SONiC does.
            let validates = rule.pa_validation.unwrap_or(rule.vnet.is_some());
            rules.entry(key.vni.get()).or_default().push(InboundRule {
                source: key.source,
                priority: rule.priority,
                protocol: rule.protocol.filter(|protocol| *protocol != 0),
                action: rule.action,
                validated: validates.then_some(sender),
                metering: rule.metering,
            });
        });
        let sorted = rules.into_iter().map(|(vni, mut rules)| {
            rules.sort_by_key(InboundRule::rank);
            let known = known.and_then(|known| known.0.get(&vni));
            let same = known.filter(|known| *known.rules == *rules);
            let new = || Arc::new(RulesOfVni::new(rules));
            (vni, same.cloned().unwrap_or_else(new))
        });
        Self(sorted.collect())
    }

    /// The rule for a packet.
    #[must_use]
    pub fn lookup(&self, vni: u32, source: Address, protocol: u8) -> Option<&InboundRule> {
        self.0.get(&vni)?.first(source, protocol)
    }

    /// Notes the numbers that rules hold.
    pub(crate) fn note_used(&self, used: &mut Used) {
        let rules = self.0.values().flat_map(|of_vni| &of_vni.rules);
        used.vnets.extend(rules.filter_map(|rule| rule.validated));
    }

    /// Whether there are rules for packets that come with a VNI.
    pub(crate) fn has(&self, vni: Vni) -> bool {
        self.0.contains_key(&vni.get())
    }

    /// How many rules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.values().map(|of_vni| of_vni.rules.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(is_v4: bool, bits: u8) -> Address {
        match is_v4 {
            true => Address::from_v4([10, 0, 0, bits]),
            false => Address(0xfd << 120 | u128::from(bits)),
        }
    }

    /// Lengths near the last octet, and such as cover everything.
    fn prefix() -> impl Strategy<Value = Prefix> {
        let of_version = (any::<bool>(), any::<u8>(), 0u8..=10).prop_map(|(is_v4, bits, short)| {
            let bits_of = if is_v4 { 32 } else { 128 };
            let length = if short > 8 { 0 } else { bits_of - short };
            Prefix::covering(address(is_v4, bits), length)
        });
        prop_oneof![9 => of_version, 1 => Just(Prefix::ANY)]
    }

    fn rule(number: usize, source: Prefix, priority: u32, protocol: u8) -> InboundRule {
        InboundRule {
            source,
            priority,
            protocol: Some(protocol).filter(|protocol| *protocol != 0),
            action: InboundAction::Decap,
            validated: None,
            // Which one it is.
            metering: MeterBits {
                or: number as u32,
                ..MeterBits::default()
            },
        }
    }

    #[test]
    fn a_rule_for_a_protocol_is_asked_before_one_for_any() {
        let rules = [(5, 0), (5, 6), (4, 17)];
        let rules = rules.map(|(priority, protocol)| rule(0, Prefix::ANY, priority, protocol));
        let mut sorted = rules.to_vec();
        sorted.sort_by_key(InboundRule::rank);
        assert_eq!(sorted, [&rules[2], &rules[1], &rules[0]].map(Clone::clone));
    }

    proptest! {
        /// As if the rules were asked one by one in their order.
        #[test]
        fn the_first_rule_is_found(
            rules in prop::collection::vec((prefix(), 0u32..4, 0u8..4), 0..60),
            is_v4 in any::<bool>(),
        ) {
            let rules = rules.into_iter().enumerate();
            let rules = rules.map(|(number, (source, priority, protocol))| {
                rule(number, source, priority, protocol)
            });
            let mut rules: Vec<_> = rules.collect();
            rules.sort_by_key(InboundRule::rank);
            let found = RulesOfVni::new(rules.clone());
            prop_assert_eq!(found.index.is_some(), rules.len() > FEW);
            for (bits, protocol) in (0..=u8::MAX).flat_map(|bits| (0..5).map(move |it| (bits, it))) {
                let source = address(is_v4, bits);
                let first = rules.iter().find(|rule| rule.is_for(source, protocol));
                prop_assert_eq!(found.first(source, protocol), first);
            }
        }
    }
}
