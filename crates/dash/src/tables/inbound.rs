//! The inbound rules of an ENI: which tunnels its packets may come with.

use std::collections::HashMap;
use std::fmt;

use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

use super::numbers::{Numbers, Used};
use crate::objects::{EniId, InboundAction, MeterBits, Vni};
use crate::source::ObjectSource;

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

/// Rules by VNI, in the order in which they are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboundTable(HashMap<u32, Box<[InboundRule]>>);

impl InboundTable {
    /// Compiles the rules of an ENI. `vnet` is the ENI's own network, which a rule that names none
    /// means.
    pub(crate) fn compile(
        eni: &EniId,
        vnet: u32,
        source: &dyn ObjectSource,
        numbers: &mut Numbers,
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
            rules.sort_by_key(|rule| {
                let any = rule.protocol.is_none();
                (rule.priority, 128 - rule.source.length(), any)
            });
            (vni, rules.into())
        });
        Self(sorted.collect())
    }

    /// The rule for a packet.
    #[must_use]
    pub fn lookup(&self, vni: u32, source: Address, protocol: u8) -> Option<&InboundRule> {
        self.0.get(&vni)?.iter().find(|rule| {
            rule.source.includes(source) && rule.protocol.is_none_or(|wanted| wanted == protocol)
        })
    }

    /// Notes the numbers that rules hold.
    pub(crate) fn note_used(&self, used: &mut Used) {
        let rules = self.0.values().flatten();
        used.vnets.extend(rules.filter_map(|rule| rule.validated));
    }

    /// Whether there are rules for packets that come with a VNI.
    pub(crate) fn has(&self, vni: Vni) -> bool {
        self.0.contains_key(&vni.get())
    }

    /// How many rules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.values().map(|rules| rules.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
