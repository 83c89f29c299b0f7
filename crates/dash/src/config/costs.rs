//! What a configuration costs in memory.

use super::configuration::Configuration;
use super::tables::AclTable;
use crate::cost::Cost;

/// What there are millions of, and what it costs to keep it as configured. What packets meet is made of
/// this, and costs [its own memory](crate::tables::MemoryUse).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Outbound routes.
    pub routes: Cost,
    /// Mappings of customer addresses.
    pub mappings: Cost,
    /// Access control rules, with all that is in them.
    pub acl_rules: Cost,
    /// Prefixes in access control rules.
    pub acl_prefixes: Cost,
    /// Prefixes in tags.
    pub tag_prefixes: Cost,
}

impl Costs {
    /// Bytes of everything.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.routes.bytes + self.mappings.bytes + self.acl_rules.bytes + self.tag_prefixes.bytes
    }
}

impl Configuration {
    /// What it costs.
    #[must_use]
    pub fn costs(&self) -> Costs {
        let mut costs = Costs::default();
        for table in self.route_groups.values() {
            costs.routes.number += table.routes().len();
            costs.routes.bytes += table.memory_bytes();
        }
        for table in self.vnets.values() {
            let (v4, v6) = table.len_by_version();
            costs.mappings.number += v4 + v6;
            costs.mappings.bytes += table.memory_bytes();
        }
        for table in self.acl_groups.values() {
            costs.acl_rules.number += table.rules().len();
            costs.acl_rules.bytes += table.memory_bytes();
            costs.acl_prefixes.number += table.prefixes();
            costs.acl_prefixes.bytes += prefix_bytes(table);
        }
        for tag in self.tags.values() {
            costs.tag_prefixes.number += tag.prefixes.len();
            costs.tag_prefixes.bytes += tag.prefixes.memory_bytes();
        }
        costs
    }
}

fn prefix_bytes(table: &AclTable) -> usize {
    let rules = table.rules().values();
    rules
        .map(|rule| rule.src_addr.memory_bytes() + rule.dst_addr.memory_bytes())
        .sum()
}
