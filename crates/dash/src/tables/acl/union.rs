//! A rule that matches whatever one of several does, and perhaps more.

use crate::objects::{AclRule, AclRuleId, PrefixList, TagName};

/// That of rules in a row, under the name of the first; `None` if there are none.
pub(super) fn of(rules: &[(AclRuleId, AclRule)]) -> Option<(AclRuleId, AclRule)> {
    let (name, first) = rules.first()?;
    let [(src_addr, src_tag), (dst_addr, dst_tag)] = [
        addresses(rules, |rule| (&rule.src_addr, &rule.src_tag)),
        addresses(rules, |rule| (&rule.dst_addr, &rule.dst_tag)),
    ];
    let union = AclRule {
        protocols: listed(rules, |rule| &rule.protocols),
        src_port: listed(rules, |rule| &rule.src_port),
        dst_port: listed(rules, |rule| &rule.dst_port),
        src_addr,
        src_tag,
        dst_addr,
        dst_tag,
        ..first.clone()
    };
    Some((name.clone(), union))
}

/// All that lists have; an empty one, which matches everything, if one is.
fn listed<T: Copy + Ord>(rules: &[(AclRuleId, AclRule)], list: fn(&AclRule) -> &[T]) -> Box<[T]> {
    if rules.iter().any(|(_, rule)| list(rule).is_empty()) {
        return Box::default();
    }
    let mut all: Vec<T> = rules
        .iter()
        .flat_map(|(_, rule)| list(rule))
        .copied()
        .collect();
    all.sort_unstable();
    all.dedup();
    all.into()
}

/// The same of addresses and tags, one of which is enough.
fn addresses(
    rules: &[(AclRuleId, AclRule)],
    end: fn(&AclRule) -> (&PrefixList, &[TagName]),
) -> (PrefixList, Box<[TagName]>) {
    let ends = rules.iter().map(|(_, rule)| end(rule));
    let is_everywhere =
        |(prefixes, tags): (&PrefixList, &[TagName])| prefixes.is_empty() && tags.is_empty();
    if ends.clone().any(is_everywhere) {
        return (PrefixList::default(), Box::default());
    }
    let prefixes = ends.clone().flat_map(|(prefixes, _)| prefixes.iter());
    let prefixes = prefixes.collect();
    let mut tags: Vec<TagName> = ends.flat_map(|(_, tags)| tags).cloned().collect();
    tags.sort_unstable();
    tags.dedup();
    (prefixes, tags.into())
}
