//! A meter policy, compiled once and shared by all ENIs that have it.

use std::cmp::Reverse;

use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

use super::ranges::{Ranges, v4_range, v6_range};
use crate::objects::{IpVersion, MeterPolicyId};
use crate::source::ObjectSource;

/// Metering classes by address. Class 0 is none.
#[derive(Clone, Debug)]
pub enum MeterTable {
    /// Of IPv4.
    V4(MeterRanges<u32>),
    /// Of IPv6.
    V6(MeterRanges<u128>),
}

/// The classes of addresses of one version.
#[derive(Clone, Debug)]
pub struct MeterRanges<N>(Ranges<N>);

/// The rule with the lowest priority number is taken, of equals that with the longest prefix, of those
/// the one with the lowest number.
type Rank = (u32, Reverse<u8>, u32);

impl MeterTable {
    /// Compiles a policy; `None` if it is not there.
    pub fn compile(policy: &MeterPolicyId, source: &dyn ObjectSource) -> Option<Self> {
        let version = source.meter_policy(policy)?.ip_version;
        let mut rules: Vec<(Prefix, Rank, u32)> = Vec::new();
        source.meter_rules(policy, &mut |number, rule| {
            let rank = (rule.priority, Reverse(rule.prefix.length()), number);
            rules.push((rule.prefix, rank, rule.metering_class));
        });
        Some(match version {
            IpVersion::V4 => Self::V4(MeterRanges(v4(&rules))),
            IpVersion::V6 => Self::V6(MeterRanges(v6(&rules))),
        })
    }

    /// The class of an address; 0 if no rule has one.
    #[must_use]
    pub fn class(&self, address: Address) -> u32 {
        match (self, address.is_v4()) {
            (Self::V4(classes), true) => classes.0.of(address.0 as u32),
            (Self::V6(classes), false) => classes.0.of(address.0),
            _ => 0,
        }
    }

    /// Memory taken, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::V4(classes) => classes.0.memory_bytes(),
            Self::V6(classes) => classes.0.memory_bytes(),
        }
    }
}

fn v4(rules: &[(Prefix, Rank, u32)]) -> Ranges<u32> {
    let of_version = rules.iter().filter(|rule| rule.0.versions().includes(true));
    let ranges = of_version.map(|&(prefix, rank, class)| {
        let (first, last) = v4_range(prefix);
        (first, last, rank, class)
    });
    Ranges::best(&ranges.collect::<Vec<_>>(), 0)
}

fn v6(rules: &[(Prefix, Rank, u32)]) -> Ranges<u128> {
    let of_version = rules
        .iter()
        .filter(|rule| rule.0.versions().includes(false));
    let ranges = of_version.map(|&(prefix, rank, class)| {
        let (first, last) = v6_range(prefix);
        (first, last, rank, class)
    });
    Ranges::best(&ranges.collect::<Vec<_>>(), 0)
}
