//! Why an object is not in force.

use std::fmt;

use super::configuration::Configuration;
use super::tables::EniTable;
use crate::objects::*;

/// What keeps an object from being in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The field that it is about, or `key`.
    pub field: &'static str,
    /// The object that keeps it: when this one comes, changes or goes, the other is tried again.
    pub by: Key,
    /// In which way.
    pub why: Why,
}

/// In which way an object keeps another from being in force.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is not there.
    Missing,
    /// It is about to be deleted, and waits for all that refer to it to go.
    Leaving,
    /// It is of the other IP version.
    Version,
    /// It has the same MAC address.
    MacAddress,
    /// It is a range of the same ports.
    Ports,
    /// It has the same block of external ports.
    Block,
    /// It has no such block.
    NoBlock,
    /// It has a block that would be gone.
    BlockGone,
}

impl Obstacle {
    /// Whether the two cannot be together, so that the newer is refused; otherwise it waits.
    #[must_use]
    pub const fn refuses(&self) -> bool {
        !matches!(self.why, Why::Missing | Why::Leaving)
    }

    /// Another ENI has the MAC address.
    pub(super) fn same_mac(other: &EniId) -> Self {
        Self {
            field: "mac_address",
            by: Key::Eni(other.clone()),
            why: Why::MacAddress,
        }
    }

    /// Whether the other has what the object is to have: when both change together each may get its own.
    #[must_use]
    pub(super) const fn is_taken(&self) -> bool {
        match self.why {
            Why::MacAddress | Why::Block | Why::NoBlock | Why::BlockGone => true,
            Why::Ports => matches!(self.by, Key::NatPool(_)),
            Why::Missing | Why::Leaving | Why::Version => false,
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, by, why } = self;
        match why {
            Why::Missing => write!(f, "{field}: waits for {by}, which is not there"),
            Why::Leaving => write!(f, "{field}: waits for {by}, which is being deleted"),
            Why::Version => write!(f, "{field}: {by} is of the other IP version"),
            Why::MacAddress => write!(f, "{field}: {by} has the same MAC address"),
            Why::Ports => write!(f, "{field}: {by} has some of the same ports"),
            Why::Block => write!(f, "{field}: {by} has the same block"),
            Why::NoBlock => write!(f, "{field}: {by} has no such block"),
            Why::BlockGone => write!(f, "{field}: {by} has a block that would be gone"),
        }
    }
}

impl Configuration {
    /// The first object that an object cannot be together with.
    pub(super) fn conflict(&self, object: &Object) -> Option<Obstacle> {
        match object {
            Object::AclRule(key, rule) => self.rule_of_other_version(key, rule),
            Object::AclGroup(id, group) => self.group_in_use_otherwise(id, group.ip_version),
            Object::AclIn(_, binding) | Object::AclOut(_, binding) => {
                self.binding_of_other_version(binding)
            }
            Object::PrefixTag(name, tag) => self.tag_in_use_otherwise(name, tag.ip_version),
            Object::MeterRule(key, rule) => self.meter_rule_of_other_version(key, rule),
            Object::MeterPolicy(id, policy) => self.policy_in_use_otherwise(id, policy.ip_version),
            Object::Eni(_, eni) => self.eni_with_other_policy(eni),
            Object::PortMapRange(key, _) => self.overlapping_range(key),
            Object::NatPool(id, pool) => self.pool_in_use_otherwise(id, pool),
            Object::EniNat(eni, nat) => self.block_of_another(eni, nat),
            _ => None,
        }
    }

    /// An ENI with the same MAC address, looked for among all: [`Store`](super::Store) knows who has one
    /// as long as only one has.
    pub(super) fn mac_of_another(&self, object: &Object) -> Option<Obstacle> {
        let Object::Eni(id, eni) = object else {
            return None;
        };
        let has_it = |other: &EniTable| other.eni.mac_address == eni.mac_address;
        let mut enis = self.enis.iter();
        let (other, _) = enis.find(|(other, table)| *other != id && has_it(table))?;
        Some(Obstacle::same_mac(other))
    }

    fn rule_of_other_version(&self, key: &AclRuleKey, rule: &AclRule) -> Option<Obstacle> {
        let version = self.acl_groups.get(&key.group)?.group.ip_version;
        let prefixes = [("src_addr", &rule.src_addr), ("dst_addr", &rule.dst_addr)];
        for (field, list) in prefixes {
            if list.of_version(version) != list.len() {
                return Some(other_version(field, Key::AclGroup(key.group.clone())));
            }
        }
        let tags = [("src_tag", &rule.src_tag), ("dst_tag", &rule.dst_tag)];
        let mut tags = tags
            .into_iter()
            .flat_map(|(field, tags)| tags.iter().map(move |tag| (field, tag)));
        let (field, tag) = tags.find(|(_, tag)| self.tag_version(tag) != Some(version))?;
        Some(other_version(field, Key::PrefixTag(tag.clone())))
    }

    fn tag_version(&self, tag: &TagName) -> Option<IpVersion> {
        self.tags.get(tag).map(|tag| tag.ip_version)
    }

    /// Rules or stages for which a group's new version would be wrong.
    fn group_in_use_otherwise(&self, id: &AclGroupId, version: IpVersion) -> Option<Obstacle> {
        let known = self.acl_groups.get(id)?;
        if known.group.ip_version == version {
            return None;
        }
        if let Some(rule) = known.rules.keys().next() {
            let (group, rule) = (id.clone(), rule.clone());
            let key = Key::AclRule(AclRuleKey { group, rule });
            return Some(other_version("ip_version", key));
        }
        self.stage_with(id)
            .map(|key| other_version("ip_version", key))
    }

    /// A stage that asks a group.
    fn stage_with(&self, id: &AclGroupId) -> Option<Key> {
        let asks = |binding: &AclBinding| [&binding.v4, &binding.v6].contains(&&Some(id.clone()));
        self.enis.iter().find_map(|(eni, table)| {
            let of = |stages: &[AclBinding]| stages.iter().position(asks);
            let (inbound, outbound) = (of(&table.acl_in), of(&table.acl_out));
            let stage = AclStage::new(inbound.or(outbound)? as u8 + 1)?;
            let eni = eni.clone();
            let key = AclStageKey { eni, stage };
            Some(match inbound {
                Some(_) => Key::AclIn(key),
                None => Key::AclOut(key),
            })
        })
    }

    fn binding_of_other_version(&self, binding: &AclBinding) -> Option<Obstacle> {
        let fields = [
            ("v4_acl_group_id", IpVersion::V4),
            ("v6_acl_group_id", IpVersion::V6),
        ];
        fields.into_iter().find_map(|(field, version)| {
            let id = binding.group(version)?;
            let group = self.acl_groups.get(id)?;
            (group.group.ip_version != version)
                .then(|| other_version(field, Key::AclGroup(id.clone())))
        })
    }

    /// A rule for which a tag's new version would be wrong.
    fn tag_in_use_otherwise(&self, name: &TagName, version: IpVersion) -> Option<Obstacle> {
        if self.tag_version(name)? == version {
            return None;
        }
        self.acl_groups.iter().find_map(|(group, table)| {
            let mut rules = table.rules.iter();
            let (rule, _) = rules.find(|(_, rule)| rule.tags().any(|tag| tag == name))?;
            let (group, rule) = (group.clone(), rule.clone());
            let key = Key::AclRule(AclRuleKey { group, rule });
            Some(other_version("ip_version", key))
        })
    }

    fn meter_rule_of_other_version(
        &self,
        key: &MeterRuleKey,
        rule: &MeterRule,
    ) -> Option<Obstacle> {
        let version = self.meter_policies.get(&key.policy)?.policy.ip_version;
        let wrong = IpVersion::of(rule.prefix.network()) != version;
        wrong.then(|| other_version("ip_prefix", Key::MeterPolicy(key.policy.clone())))
    }

    /// Rules or ENIs for which a policy's new version would be wrong.
    fn policy_in_use_otherwise(&self, id: &MeterPolicyId, version: IpVersion) -> Option<Obstacle> {
        let known = self.meter_policies.get(id)?;
        if known.policy.ip_version == version {
            return None;
        }
        if let Some(&rule) = known.rules.keys().next() {
            let policy = id.clone();
            let key = Key::MeterRule(MeterRuleKey { policy, rule });
            return Some(other_version("ip_version", key));
        }
        let mut enis = self.enis.iter();
        let (eni, _) = enis.find(|(_, table)| {
            let eni = &table.eni;
            [&eni.v4_meter_policy, &eni.v6_meter_policy].contains(&&Some(id.clone()))
        })?;
        Some(other_version("ip_version", Key::Eni(eni.clone())))
    }

    fn eni_with_other_policy(&self, eni: &Eni) -> Option<Obstacle> {
        let fields = [
            ("v4_meter_policy_id", IpVersion::V4),
            ("v6_meter_policy_id", IpVersion::V6),
        ];
        fields.into_iter().find_map(|(field, version)| {
            let id = eni.meter_policy(version)?;
            let policy = self.meter_policies.get(id)?;
            (policy.policy.ip_version != version)
                .then(|| other_version(field, Key::MeterPolicy(id.clone())))
        })
    }

    /// A pool with the same endpoints, or an ENI whose block would be no more.
    fn pool_in_use_otherwise(&self, id: &NatPoolId, pool: &NatPool) -> Option<Obstacle> {
        let mut pools = self.nat_pools.iter();
        if let Some((other, _)) = pools.find(|(other, own)| *other != id && own.overlaps(pool)) {
            return Some(Obstacle {
                field: "addresses",
                by: Key::NatPool(other.clone()),
                why: Why::Ports,
            });
        }
        let is_beyond = |nat: &EniNat| nat.pool == *id && u64::from(nat.block) >= pool.blocks();
        let mut enis = self.enis.iter();
        let (eni, _) = enis.find(|(_, table)| table.nat.as_ref().is_some_and(is_beyond))?;
        Some(Obstacle {
            field: "block_size",
            by: Key::EniNat(eni.clone()),
            why: Why::BlockGone,
        })
    }

    /// The pool, if it has no such block, or an ENI that has it.
    fn block_of_another(&self, id: &EniId, nat: &EniNat) -> Option<Obstacle> {
        let pool = self.nat_pools.get(&nat.pool)?;
        if u64::from(nat.block) >= pool.blocks() {
            return Some(Obstacle {
                field: "block",
                by: Key::NatPool(nat.pool.clone()),
                why: Why::NoBlock,
            });
        }
        let mut enis = self.enis.iter();
        let (other, _) =
            enis.find(|(other, table)| *other != id && table.nat.as_ref() == Some(nat))?;
        Some(Obstacle {
            field: "block",
            by: Key::EniNat(other.clone()),
            why: Why::Block,
        })
    }

    fn overlapping_range(&self, key: &PortMapRangeKey) -> Option<Obstacle> {
        // Those that are there do not overlap each other.
        let neighbors = self.port_maps.get(&key.map)?.ranges.neighbors(&key.ports);
        let mut neighbors = neighbors.into_iter().flatten().map(|(ports, _)| *ports);
        let ports = neighbors
            .find(|ports| ports.first() <= key.ports.last() && key.ports.first() <= ports.last())?;
        let map = key.map.clone();
        Some(Obstacle {
            field: "key",
            by: Key::PortMapRange(PortMapRangeKey { map, ports }),
            why: Why::Ports,
        })
    }
}

const fn other_version(field: &'static str, by: Key) -> Obstacle {
    Obstacle {
        field,
        by,
        why: Why::Version,
    }
}
