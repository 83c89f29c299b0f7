//! Why an object is not in force.

use std::fmt;

use super::configuration::Configuration;
use crate::objects::*;

/// What is told of an object that nobody asked for.
pub const NOT_THERE: &str = "which is not there";

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
    /// There are as many ENIs as may be; the object keeps itself, until one of them goes.
    NoRoom {
        /// How many there may be.
        most: usize,
    },
}

impl Obstacle {
    /// Whether the two cannot be together, so that the newer is refused; otherwise it waits.
    #[must_use]
    pub const fn refuses(&self) -> bool {
        !matches!(self.why, Why::Missing | Why::Leaving)
    }

    /// What the object is kept by, as it is told.
    #[must_use]
    pub fn cause(&self) -> String {
        match self.why {
            Why::NoRoom { .. } => "the number of ENIs".into(),
            _ => self.by.to_string(),
        }
    }

    /// An ENI is one too many.
    pub(super) fn no_room(id: &EniId, most: usize) -> Self {
        Self {
            field: "key",
            by: Key::Eni(id.clone()),
            why: Why::NoRoom { most },
        }
    }

    /// Another ENI has the MAC address.
    pub(super) fn same_mac(other: &EniId) -> Self {
        Self {
            field: "mac_address",
            by: Key::Eni(other.clone()),
            why: Why::MacAddress,
        }
    }

    /// Whether the two may come to be together when both change at once: the other has what the object
    /// is to have, or is of the IP version that the object no longer has.
    #[must_use]
    pub(super) const fn is_taken(&self) -> bool {
        match self.why {
            Why::MacAddress | Why::Block | Why::NoBlock | Why::BlockGone | Why::Version => true,
            Why::Ports => matches!(self.by, Key::NatPool(_)),
            Why::Missing | Why::Leaving | Why::NoRoom { .. } => false,
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, by, why } = self;
        match why {
            Why::Missing => write!(f, "{field}: waits for {by}, {NOT_THERE}"),
            Why::Leaving => write!(f, "{field}: waits for {by}, which is being deleted"),
            Why::Version => write!(f, "{field}: {by} is of the other IP version"),
            Why::MacAddress => write!(f, "{field}: {by} has the same MAC address"),
            Why::Ports => write!(f, "{field}: {by} has some of the same ports"),
            Why::Block => write!(f, "{field}: {by} has the same block"),
            Why::NoBlock => write!(f, "{field}: {by} has no such block"),
            Why::BlockGone => write!(f, "{field}: {by} has a block that would be gone"),
            Why::NoRoom { most } => write!(
                f,
                "{field}: no more than {} ENIs are served: waits until one is deleted",
                grouped(*most)
            ),
        }
    }
}

/// A number with commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What an object cannot be together with.
type Conflicts<'c> = Box<dyn Iterator<Item = Obstacle> + 'c>;

fn several<'c>(conflicts: impl IntoIterator<Item = Obstacle, IntoIter: 'c>) -> Conflicts<'c> {
    Box::new(conflicts.into_iter())
}

impl Configuration {
    /// The objects that an object cannot be together with. Objects in force agree with each other: so one
    /// that keeps its version there is not compared with them again.
    pub(super) fn conflicts<'c>(&'c self, object: &'c Object, in_force: &Self) -> Conflicts<'c> {
        match object {
            Object::AclRule(key, rule) => several(self.rule_of_other_version(key, rule)),
            Object::AclGroup(id, group) if in_force.acl_version(id) != Some(group.ip_version) => {
                several(self.group_in_use_otherwise(id, group.ip_version))
            }
            Object::AclIn(_, binding) | Object::AclOut(_, binding) => {
                several(self.binding_of_other_version(binding))
            }
            Object::PrefixTag(name, tag) if in_force.tag_version(name) != Some(tag.ip_version) => {
                several(self.tag_in_use_otherwise(name, tag.ip_version))
            }
            Object::MeterRule(key, rule) => several(self.meter_rule_of_other_version(key, rule)),
            Object::MeterPolicy(id, policy)
                if in_force.meter_version(id) != Some(policy.ip_version) =>
            {
                several(self.policy_in_use_otherwise(id, policy.ip_version))
            }
            Object::Eni(_, eni) => several(self.eni_with_other_policy(eni)),
            Object::PortMapRange(key, _) => several(self.overlapping_range(key)),
            Object::NatPool(id, pool) => several(self.pool_in_use_otherwise(id, pool)),
            Object::EniNat(eni, nat) => several(self.block_of_another(eni, nat)),
            _ => several(None),
        }
    }

    fn acl_version(&self, id: &AclGroupId) -> Option<IpVersion> {
        self.acl_groups.get(id).map(|table| table.group.ip_version)
    }

    fn tag_version(&self, tag: &TagName) -> Option<IpVersion> {
        self.tags.get(tag).map(|tag| tag.ip_version)
    }

    fn meter_version(&self, id: &MeterPolicyId) -> Option<IpVersion> {
        let table = self.meter_policies.get(id)?;
        Some(table.policy.ip_version)
    }

    /// The group, or tags, of another version than the rule; one without addresses and tags has none.
    fn rule_of_other_version<'c>(
        &'c self,
        key: &'c AclRuleKey,
        rule: &'c AclRule,
    ) -> impl Iterator<Item = Obstacle> + 'c {
        let version = self.acl_version(&key.group);
        let field = version.and_then(|version| field_of_other_version(rule, version));
        let group = field.map(|field| other_version(field, Key::AclGroup(key.group.clone())));
        let tags = rule.tags_by_field();
        let tags = tags.filter(move |(_, tag)| self.tag_version(tag) != version);
        let tags = tags.map(|(field, tag)| other_version(field, Key::PrefixTag(tag.clone())));
        group.into_iter().chain(tags)
    }

    /// Rules and stages for which a group's new version would be wrong.
    fn group_in_use_otherwise<'c>(
        &'c self,
        id: &'c AclGroupId,
        version: IpVersion,
    ) -> impl Iterator<Item = Obstacle> + 'c {
        let known = self.acl_groups.get(id).into_iter();
        let rules = known.flat_map(|table| table.rules.iter());
        let rules = rules.filter(move |(_, rule)| {
            field_of_other_version(rule, version).is_some()
                || self.tags_of_other_version(rule, version).next().is_some()
        });
        let rules = rules.map(|(rule, _)| {
            let (group, rule) = (id.clone(), rule.clone());
            Key::AclRule(AclRuleKey { group, rule })
        });
        let keys = rules.chain(self.stages_that_ask(id, version));
        keys.map(|key| other_version("ip_version", key))
    }

    fn tags_of_other_version<'c>(
        &'c self,
        rule: &'c AclRule,
        version: IpVersion,
    ) -> impl Iterator<Item = &'c TagName> {
        rule.tags()
            .filter(move |tag| self.tag_version(tag) != Some(version))
    }

    /// The tags that keep a rule from being of its group's version; `None` if its addresses do, too.
    pub(super) fn tags_in_the_way(&self, key: &AclRuleKey) -> Option<Vec<Key>> {
        let table = self.acl_groups.get(&key.group)?;
        let version = table.group.ip_version;
        let rule = table.rules.get(&key.rule)?;
        let tags = self.tags_of_other_version(rule, version);
        let tags = tags.map(|tag| Key::PrefixTag(tag.clone()));
        let is_of_version = field_of_other_version(rule, version).is_none();
        is_of_version.then(|| tags.collect())
    }

    /// Whether a tag and a group are of one version.
    pub(super) fn tag_is_of_group(&self, tag: &TagName, group: &AclGroupId) -> bool {
        self.tag_version(tag) == self.acl_version(group)
    }

    /// The tags of a rule.
    pub(super) fn tags_of_rule(&self, key: &AclRuleKey) -> Vec<Key> {
        let table = self.acl_groups.get(&key.group);
        let rule = table.and_then(|table| table.rules.get(&key.rule));
        let tags = rule.into_iter().flat_map(|rule| rule.tags());
        tags.map(|tag| Key::PrefixTag(tag.clone())).collect()
    }

    /// Stages that ask a group about packets of another version than this.
    fn stages_that_ask<'c>(
        &'c self,
        id: &'c AclGroupId,
        version: IpVersion,
    ) -> impl Iterator<Item = Key> + 'c {
        let known = self.acl_groups.contains(id);
        let enis = self.enis.iter().filter(move |_| known);
        enis.flat_map(move |(eni, table)| {
            let asks = move |binding: &AclBinding| binding.group(version.other()) == Some(id);
            AclStage::all().flat_map(move |stage| {
                let key = || AclStageKey {
                    eni: eni.clone(),
                    stage,
                };
                let inbound = asks(&table.acl_in[stage.index()]).then(|| Key::AclIn(key()));
                let outbound = asks(&table.acl_out[stage.index()]).then(|| Key::AclOut(key()));
                inbound.into_iter().chain(outbound)
            })
        })
    }

    fn binding_of_other_version<'c>(
        &'c self,
        binding: &'c AclBinding,
    ) -> impl Iterator<Item = Obstacle> + 'c {
        let fields = [
            ("v4_acl_group_id", IpVersion::V4),
            ("v6_acl_group_id", IpVersion::V6),
        ];
        fields.into_iter().filter_map(|(field, version)| {
            let id = binding.group(version)?;
            let wrong = self.acl_version(id)? != version;
            wrong.then(|| other_version(field, Key::AclGroup(id.clone())))
        })
    }

    /// Rules for which a tag's new version would be wrong.
    fn tag_in_use_otherwise<'c>(
        &'c self,
        name: &'c TagName,
        version: IpVersion,
    ) -> impl Iterator<Item = Obstacle> + 'c {
        let known = self.tags.contains(name);
        let groups = self.acl_groups.iter();
        let groups = groups.filter(move |(_, table)| known && table.group.ip_version != version);
        let rules = groups.flat_map(|(group, table)| {
            let rules = table.rules.iter();
            rules.map(move |(rule, value)| (group, rule, value))
        });
        let rules = rules.filter(move |(_, _, rule)| rule.tags().any(|tag| tag == name));
        rules.map(|(group, rule, _)| {
            let (group, rule) = (group.clone(), rule.clone());
            other_version("ip_version", Key::AclRule(AclRuleKey { group, rule }))
        })
    }

    fn meter_rule_of_other_version(
        &self,
        key: &MeterRuleKey,
        rule: &MeterRule,
    ) -> Option<Obstacle> {
        let wrong = rule.version() != self.meter_version(&key.policy)?;
        wrong.then(|| other_version("ip_prefix", Key::MeterPolicy(key.policy.clone())))
    }

    /// Rules and ENIs for which a policy's new version would be wrong.
    fn policy_in_use_otherwise<'c>(
        &'c self,
        id: &'c MeterPolicyId,
        version: IpVersion,
    ) -> impl Iterator<Item = Obstacle> + 'c {
        let known = self.meter_policies.get(id);
        let rules = known.into_iter().flat_map(|table| table.rules.iter());
        let rules = rules.filter(move |(_, rule)| rule.version() != version);
        let rules = rules.map(|(&rule, _)| {
            let policy = id.clone();
            Key::MeterRule(MeterRuleKey { policy, rule })
        });
        let enis = self.enis.iter().filter(move |_| known.is_some());
        let enis =
            enis.filter(move |(_, table)| table.eni.meter_policy(version.other()) == Some(id));
        let keys = rules.chain(enis.map(|(eni, _)| Key::Eni(eni.clone())));
        keys.map(|key| other_version("ip_version", key))
    }

    fn eni_with_other_policy<'c>(&'c self, eni: &'c Eni) -> impl Iterator<Item = Obstacle> + 'c {
        let fields = [
            ("v4_meter_policy_id", IpVersion::V4),
            ("v6_meter_policy_id", IpVersion::V6),
        ];
        fields.into_iter().filter_map(|(field, version)| {
            let id = eni.meter_policy(version)?;
            let wrong = self.meter_version(id)? != version;
            wrong.then(|| other_version(field, Key::MeterPolicy(id.clone())))
        })
    }

    /// Pools with the same endpoints, and ENIs whose blocks would be no more.
    fn pool_in_use_otherwise<'c>(
        &'c self,
        id: &'c NatPoolId,
        pool: &'c NatPool,
    ) -> impl Iterator<Item = Obstacle> + 'c {
        let pools = self.nat_pools.iter();
        let pools = pools.filter(move |(other, own)| *other != id && own.overlaps(pool));
        let pools = pools.map(|(other, _)| Obstacle {
            field: "addresses",
            by: Key::NatPool(other.clone()),
            why: Why::Ports,
        });
        let known = self.nat_pools.contains(id);
        let is_beyond =
            move |nat: &EniNat| nat.pool == *id && u64::from(nat.block) >= pool.blocks();
        let enis = self.enis.iter().filter(move |_| known);
        let enis = enis.filter(move |(_, table)| table.nat.as_ref().is_some_and(is_beyond));
        let enis = enis.map(|(eni, _)| Obstacle {
            field: "block_size",
            by: Key::EniNat(eni.clone()),
            why: Why::BlockGone,
        });
        pools.chain(enis)
    }

    /// The pool, if it has no such block, and ENIs that have it.
    fn block_of_another<'c>(
        &'c self,
        id: &'c EniId,
        nat: &'c EniNat,
    ) -> impl Iterator<Item = Obstacle> + 'c {
        let pool = self.nat_pools.get(&nat.pool);
        let pool = pool.filter(|pool| u64::from(nat.block) >= pool.blocks());
        let pool = pool.map(|_| Obstacle {
            field: "block",
            by: Key::NatPool(nat.pool.clone()),
            why: Why::NoBlock,
        });
        let enis = self.enis_with_block(nat).filter(move |other| *other != id);
        let enis = enis.map(|other| Obstacle {
            field: "block",
            by: Key::EniNat(other.clone()),
            why: Why::Block,
        });
        pool.into_iter().chain(enis)
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

/// The field of a rule with addresses of another version.
fn field_of_other_version(rule: &AclRule, version: IpVersion) -> Option<&'static str> {
    let fields = [("src_addr", &rule.src_addr), ("dst_addr", &rule.dst_addr)];
    let mut fields = fields.into_iter();
    let wrong = fields.find(|(_, list)| list.of_version(version) != list.len());
    wrong.map(|(field, _)| field)
}

const fn other_version(field: &'static str, by: Key) -> Obstacle {
    Obstacle {
        field,
        by,
        why: Why::Version,
    }
}
