//! Rules of access lists that never decide: another comes first and matches all that they match.

use twinpath_classify::Prefix;

use super::configuration::Configuration;
use super::tables::AclTable;
use super::warnings::Warnings;
use crate::objects::*;

/// Rules of a list with which those behind them are compared: the widest, so that the cost grows with the
/// number of rules and not with its square.
const MOST_COMPARED: usize = 64;
/// Prefixes, tags, ranges and protocols that a rule of them may have, each.
const MOST_ITEMS: usize = 16;
/// Prefixes of a list that are looked at for it, in all.
const MOST_PREFIXES: usize = 100_000;

impl Configuration {
    /// Rules that never decide because of one other.
    pub(super) fn shadow_warnings(&self, warnings: &mut Warnings) {
        for (group, table) in self.acl_groups.iter() {
            table.shadowed(&mut |rule, first| {
                let [rule, first] = [rule, first].map(|rule| {
                    let (group, rule) = (group.clone(), rule.clone());
                    Key::AclRule(AclRuleKey { group, rule })
                });
                let message =
                    format!("never decides: {first} comes first and matches all that it matches");
                warnings.tell(rule, None, message);
            });
        }
    }
}

impl AclTable {
    /// Calls `each` with rules that never decide, and the one that does in their place. Not all are found
    /// where there are many.
    fn shadowed(&self, each: &mut dyn FnMut(&AclRuleId, &AclRuleId)) {
        let mut widest: Vec<(&AclRuleId, &AclRule, usize)> = Vec::new();
        let mut left = MOST_PREFIXES;
        for (id, rule) in self.in_order() {
            let first = widest
                .iter()
                .find(|(_, first, _)| covers(first, rule, &mut left));
            if let Some((first, ..)) = first {
                each(id, first);
                continue;
            }
            if !is_short(rule) {
                continue;
            }
            let fields = asked_fields(rule);
            if widest.len() == MOST_COMPARED {
                let narrowest = widest.iter().enumerate().max_by_key(|(_, known)| known.2);
                match narrowest {
                    Some((place, known)) if known.2 > fields => _ = widest.remove(place),
                    _ => continue,
                }
            }
            widest.push((id, rule, fields));
        }
    }
}

fn is_short(rule: &AclRule) -> bool {
    let lengths = [
        rule.protocols.len(),
        rule.src_addr.len() + rule.src_tag.len(),
        rule.dst_addr.len() + rule.dst_tag.len(),
        rule.src_port.len(),
        rule.dst_port.len(),
    ];
    lengths.iter().all(|length| *length <= MOST_ITEMS)
}

/// How many fields of a packet a rule asks.
fn asked_fields(rule: &AclRule) -> usize {
    let asks = [
        !rule.protocols.is_empty(),
        !rule.src_addr.is_empty() || !rule.src_tag.is_empty(),
        !rule.dst_addr.is_empty() || !rule.dst_tag.is_empty(),
        !rule.src_port.is_empty(),
        !rule.dst_port.is_empty(),
    ];
    asks.into_iter().filter(|asks| *asks).count()
}

/// Whether a rule matches all that another does, as far as it can be told with so many looks at prefixes.
fn covers(first: &AclRule, rule: &AclRule, left: &mut usize) -> bool {
    let protocols = first.protocols.is_empty()
        || !rule.protocols.is_empty()
            && rule.protocols.iter().all(|it| first.protocols.contains(it));
    protocols
        && covers_ports(&first.src_port, &rule.src_port)
        && covers_ports(&first.dst_port, &rule.dst_port)
        && covers_end(
            (&first.src_addr, &first.src_tag),
            (&rule.src_addr, &rule.src_tag),
            left,
        )
        && covers_end(
            (&first.dst_addr, &first.dst_tag),
            (&rule.dst_addr, &rule.dst_tag),
            left,
        )
}

fn covers_ports(first: &[PortRange], rule: &[PortRange]) -> bool {
    let is_inside = |range: &PortRange| {
        let mut wider = first.iter();
        wider.any(|it| it.first() <= range.first() && range.last() <= it.last())
    };
    first.is_empty() || !rule.is_empty() && rule.iter().all(is_inside)
}

/// An end's addresses: prefixes, and tags of such.
type End<'a> = (&'a PrefixList, &'a [TagName]);

fn covers_end(first: End<'_>, rule: End<'_>, left: &mut usize) -> bool {
    let is_any = |end: End<'_>| end.0.is_empty() && end.1.is_empty();
    if is_any(first) || first.0.iter().any(|prefix| prefix.length() == 0) {
        return true;
    }
    let mut is_inside = |prefix: Prefix| {
        *left = left.saturating_sub(1);
        let mut wider = first.0.iter();
        *left > 0 && wider.any(|it| it.length() <= prefix.length() && it.includes(prefix.network()))
    };
    !is_any(rule)
        && rule.1.iter().all(|tag| first.1.contains(tag))
        && rule.0.iter().all(&mut is_inside)
}

#[cfg(test)]
mod tests {
    use super::super::warnings::tests::{GOOD, warnings};

    const GROUP: &str = r#""DASH_ACL_GROUP_TABLE:l": {"ip_version": "ipv4"}"#;

    fn told(rules: &[(&str, &str)]) -> Vec<String> {
        let rules = rules.iter().map(|(priority, fields)| {
            format!(r#", "DASH_ACL_RULE_TABLE:l:r{priority}": {{"priority": {priority}, "terminating": true, {fields}}}"#)
        });
        let rules: String = rules.collect();
        warnings(&[GOOD, &format!("{{{GROUP}{rules}}}")])
    }

    #[test]
    fn a_rule_behind_one_that_matches_more_is_told() {
        let shadow = "1 DASH_ACL_RULE_TABLE:l:r2: -: never decides: DASH_ACL_RULE_TABLE:l:r1 comes first and matches all that it matches";
        for (first, second) in [
            (
                r#""action": "deny""#,
                r#""action": "allow", "dst_port": "80""#,
            ),
            (
                r#""action": "allow", "src_addr": "10.0.0.0/8,30.0.0.0/8", "protocol": "6,17""#,
                r#""action": "deny", "src_addr": "10.1.0.0/16,30.0.0.0/8", "protocol": "6""#,
            ),
            (
                r#""action": "allow", "dst_port": "10-20""#,
                r#""action": "deny", "dst_port": "12-20", "src_addr": "10.1.0.0/16""#,
            ),
            (
                r#""action": "allow", "src_addr": "0.0.0.0/0""#,
                r#""action": "deny""#,
            ),
        ] {
            assert_eq!(told(&[("1", first), ("2", second)]), [shadow], "{first}");
        }
    }

    #[test]
    fn a_rule_that_may_decide_is_not_told() {
        for (first, second) in [
            (
                r#""action": "deny", "dst_port": "80""#,
                r#""action": "allow""#,
            ),
            (
                r#""action": "allow", "src_addr": "10.0.0.0/8""#,
                r#""action": "deny", "src_addr": "10.1.0.0/16,11.0.0.0/8""#,
            ),
            (
                r#""action": "allow", "protocol": "6""#,
                r#""action": "deny", "protocol": "6,17""#,
            ),
            (
                r#""action": "allow", "dst_port": "10-20""#,
                r#""action": "deny", "dst_port": "12-21""#,
            ),
            // Packets without ports meet the second alone.
            (
                r#""action": "allow", "dst_port": "1-65535""#,
                r#""action": "deny", "src_addr": "10.1.0.0/16""#,
            ),
        ] {
            assert_eq!(told(&[("1", first), ("2", second)]), [""; 0], "{first}");
        }
        // The order is that of priorities.
        assert_eq!(
            told(&[
                ("7", r#""action": "deny""#),
                ("2", r#""action": "allow", "dst_port": "80""#)
            ]),
            [""; 0]
        );
    }

    /// As many as a group may have, each of which could only be found behind all of the others.
    #[test]
    fn a_long_list_is_looked_at_in_part() {
        let rules: Vec<_> = (0..2000)
            .map(|number| {
                let end = format!("10.{}.{}.0/24", number / 200, number % 200);
                (
                    number.to_string(),
                    format!(r#""action": "deny", "src_addr": "{end}""#),
                )
            })
            .chain([("2000".into(), r#""action": "allow""#.into())])
            .chain([(
                "2001".into(),
                r#""action": "deny", "dst_port": "80""#.into(),
            )])
            .collect();
        let rules: Vec<_> = rules
            .iter()
            .map(|(name, fields)| (&**name, &**fields))
            .collect();
        let told = told(&rules);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("1 DASH_ACL_RULE_TABLE:l:r2001: "));
    }
}
