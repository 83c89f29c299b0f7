//! Which entry of the configuration packets have met, for whoever follows them. Tables keep what entries
//! do, not what they are called: names are looked up in what the tables were made of, if that is there.

use std::cmp::Reverse;
use std::sync::Arc;

use twinpath_classify::Prefix;
use twinpath_core::wire::Address;

use super::{EniEntry, RouteTable, Tables};
use crate::objects::MeterPolicyId;
use crate::source::ObjectSource;

/// What tables were made of.
pub(super) type ToldFrom = Arc<dyn ObjectSource + Send + Sync>;

impl Tables {
    /// Entries are told by what the tables were made of last; forgotten with the next
    /// [update](Self::update).
    pub fn tell_from(&mut self, source: Arc<dyn ObjectSource + Send + Sync>) {
        self.told_from = Some(source);
    }

    /// The route of a group to an address. Without what tables were made of it is told by the addresses
    /// with which the same is done.
    pub(crate) fn route_in_words(&self, routes: &RouteTable, destination: Address) -> String {
        let group = routes.group();
        let Some(source) = &self.told_from else {
            let alike = routes.alike(destination);
            return format!("group {group}, route to {destination}, as for {alike}");
        };
        let mut longest: Option<Prefix> = None;
        source.routes_about(group, destination.into(), &mut |prefix, _| {
            let is_longer = longest.is_none_or(|other| other.length() < prefix.length());
            if prefix.includes(destination) && is_longer {
                longest = Some(prefix);
            }
        });
        match longest {
            Some(prefix) => format!("group {group}, route {prefix} for {destination}"),
            None => format!("group {group}, no route for {destination}"),
        }
    }

    /// What an ENI's meter policy says of an address.
    pub(crate) fn meter_rule_in_words(&self, eni: &EniEntry, far_end: Address) -> String {
        let is_v4 = far_end.is_v4();
        if eni.meter(is_v4).is_none() {
            let version = if is_v4 { "IPv4" } else { "IPv6" };
            return format!("no policy for {version}");
        }
        let source = self.told_from.as_deref();
        let told = source.and_then(|source| {
            let configured = source.eni(&eni.id)?;
            let policy = match is_v4 {
                true => configured.v4_meter_policy.as_ref(),
                false => configured.v6_meter_policy.as_ref(),
            };
            Some(meter_rule(source, policy?, far_end))
        });
        told.unwrap_or_else(|| format!("the ENI's policy for {far_end}"))
    }
}

fn meter_rule(source: &dyn ObjectSource, policy: &MeterPolicyId, far_end: Address) -> String {
    let mut first = None;
    source.meter_rules(policy, &mut |number, rule| {
        let rank = (rule.priority, Reverse(rule.prefix.length()), number);
        let is_first = first.is_none_or(|(other, _)| rank < other);
        if rule.prefix.includes(far_end) && is_first {
            first = Some((rank, rule.prefix));
        }
    });
    match first {
        Some(((_, _, number), prefix)) => {
            format!("policy {policy}, rule {number} ({prefix}) for {far_end}")
        }
        None => format!("policy {policy}, no rule for {far_end}"),
    }
}
