//! Access lists: groups of rules, bound to stages of an ENI.

use super::names::{AclGroupId, AclRuleId, EniId, TagName};
use super::values::{Guid, IpVersion, PortRange, PrefixList};

/// A group of rules for one IP version. Many ENIs may share it, in many stages.
///
/// The rule with the lowest priority number that matches decides; a packet that none matches is
/// denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclGroup {
    /// Of which packets its rules speak.
    pub ip_version: IpVersion,
    /// The controller's own name for it.
    pub guid: Option<Guid>,
}

/// A rule. An empty list matches everything; a list of addresses and one of tags for the same end
/// match if either does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclRule {
    /// The lower, the earlier. Rules of the same priority are in the order of their names.
    pub priority: u32,
    /// Whether the packet may pass.
    pub action: AclAction,
    /// The action is final: no later stage is asked. A permission that is not final may still be
    /// refused by a later stage, and a denial that is not final may still be permitted by one.
    pub terminating: bool,
    /// Protocol numbers.
    pub protocols: Box<[u8]>,
    /// Source addresses.
    pub src_addr: PrefixList,
    /// Destination addresses.
    pub dst_addr: PrefixList,
    /// Source addresses, by tags.
    pub src_tag: Box<[TagName]>,
    /// Destination addresses, by tags.
    pub dst_tag: Box<[TagName]>,
    /// Source ports. Packets without ports match only if the list is empty.
    pub src_port: Box<[PortRange]>,
    /// Destination ports, likewise.
    pub dst_port: Box<[PortRange]>,
}

impl AclRule {
    /// Tags that the rule refers to.
    pub fn tags(&self) -> impl Iterator<Item = &TagName> {
        self.src_tag.iter().chain(&*self.dst_tag)
    }

    /// Tags that the rule refers to, each with the field that names it.
    pub(crate) fn tags_by_field(&self) -> impl Iterator<Item = (&'static str, &TagName)> {
        let source = self.src_tag.iter().map(|tag| ("src_tag", tag));
        source.chain(self.dst_tag.iter().map(|tag| ("dst_tag", tag)))
    }
}

/// Whether a packet may pass.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AclAction {
    /// It may.
    Permit,
    /// It may not.
    Deny,
}

/// Which rule of which group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclRuleKey {
    /// The group.
    pub group: AclGroupId,
    /// Which of its rules.
    pub rule: AclRuleId,
}

/// A stage: 1 to 5, in this order. One without a group is skipped.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclStage(u8);

impl AclStage {
    /// How many there are for each direction.
    pub const COUNT: usize = 5;

    /// The stage of this number; `None` if there is none.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number >= 1 && number as usize <= Self::COUNT {
            Some(Self(number))
        } else {
            None
        }
    }

    /// All of them, in order.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (1..=Self::COUNT as u8).map(Self)
    }

    /// Its number, from 1.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its place in an array, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize - 1
    }
}

/// Which stage of which ENI; the table says the direction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclStageKey {
    /// The ENI.
    pub eni: EniId,
    /// The stage.
    pub stage: AclStage,
}

/// The groups that a stage asks. At least one is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclBinding {
    /// For IPv4.
    pub v4: Option<AclGroupId>,
    /// For IPv6.
    pub v6: Option<AclGroupId>,
}

impl AclBinding {
    /// The group for a version.
    #[must_use]
    pub const fn group(&self, version: IpVersion) -> Option<&AclGroupId> {
        match version {
            IpVersion::V4 => self.v4.as_ref(),
            IpVersion::V6 => self.v6.as_ref(),
        }
    }
}

/// A named list of prefixes, all of one version, that rules of many groups refer to. An empty one
/// matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixTag {
    /// The prefixes' version.
    pub ip_version: IpVersion,
    /// The prefixes.
    pub prefixes: PrefixList,
}
