//! Changes of IP versions, of whatever belongs together, in any order and any batches.

use proptest::prelude::*;

use super::*;
use crate::json;
use crate::objects::*;

/// Whether something is of IPv6, of two groups, two tags and a meter policy, and which rules have what.
#[derive(Clone, Debug)]
struct Plan {
    groups: [bool; 2],
    tags: [bool; 2],
    policy: bool,
    /// Whether each of a group's two rules has an address, and which tags it would like.
    rules: [[(bool, [bool; 2]); 2]; 2],
    /// Whether a stage asks a group, and an ENI its policy.
    is_bound: [bool; 2],
}

fn plan() -> impl Strategy<Value = Plan> {
    any::<(
        [bool; 2],
        [bool; 2],
        bool,
        [[(bool, [bool; 2]); 2]; 2],
        [bool; 2],
    )>()
    .prop_map(|(groups, tags, policy, rules, is_bound)| Plan {
        groups,
        tags,
        policy,
        rules,
        is_bound,
    })
}

const fn version(is_v6: bool) -> &'static str {
    if is_v6 { "ipv6" } else { "ipv4" }
}

const fn prefix(is_v6: bool) -> &'static str {
    if is_v6 { "fd00::/8" } else { "10.0.0.0/8" }
}

impl Plan {
    /// The objects, which can all be together.
    fn changes(&self) -> Vec<Change> {
        let mut objects = vec![r#""DASH_VNET_TABLE:blue": {"vni": 1}"#.to_owned()];
        for (name, is_v6) in ["t", "u"].into_iter().zip(self.tags) {
            let (version, prefix) = (version(is_v6), prefix(is_v6));
            objects.push(format!(
                r#""DASH_PREFIX_TAG_TABLE:{name}": {{"ip_version": "{version}", "prefix_list": "{prefix}"}}"#
            ));
        }
        for (group, is_v6) in self.groups.into_iter().enumerate() {
            let version = version(is_v6);
            objects.push(format!(
                r#""DASH_ACL_GROUP_TABLE:{group}": {{"ip_version": "{version}"}}"#
            ));
            for rule in 0..2 {
                objects.push(self.rule(group, rule));
            }
        }
        let policy = (version(self.policy), prefix(self.policy));
        objects.push(format!(
            r#""DASH_METER_POLICY_TABLE:p": {{"ip_version": "{}"}}"#,
            policy.0
        ));
        objects.push(format!(
            r#""DASH_METER_RULE_TABLE:p:1": {{"priority": 1, "ip_prefix": "{}", "metering_class": 7}}"#,
            policy.1
        ));
        objects.push(self.eni());
        objects.extend(self.stage());
        let reading = json::read(format!("{{{}}}", objects.join(",")).as_bytes());
        assert_eq!(reading.problems, []);
        let changes = reading.changes.into_iter();
        changes.map(|(change, _)| change).collect()
    }

    fn rule(&self, group: usize, rule: usize) -> String {
        let is_v6 = self.groups[group];
        let (has_address, wanted) = self.rules[group][rule];
        let tags = ["t", "u"].into_iter().zip(self.tags).zip(wanted);
        let tags = tags.filter(|((_, tag), wanted)| *wanted && *tag == is_v6);
        let tags: Vec<_> = tags.map(|((name, _), _)| name).collect();
        let address = match has_address {
            true => format!(r#", "dst_addr": "{}""#, prefix(is_v6)),
            false => String::new(),
        };
        let tags = match tags.is_empty() {
            true => String::new(),
            false => format!(r#", "src_tag": "{}""#, tags.join(",")),
        };
        format!(
            r#""DASH_ACL_RULE_TABLE:{group}:{rule}": {{"priority": {rule}, "action": "deny"{address}{tags}}}"#
        )
    }

    fn eni(&self) -> String {
        let policy = match (self.is_bound[1], self.policy) {
            (false, _) => "",
            (true, false) => r#", "v4_meter_policy_id": "p""#,
            (true, true) => r#", "v6_meter_policy_id": "p""#,
        };
        format!(
            r#""DASH_ENI_TABLE:a": {{"mac_address": "02:00:00:00:00:01", "vnet": "blue"{policy}}}"#
        )
    }

    /// The first group, and the second if it is of the other version.
    fn stage(&self) -> Option<String> {
        let [first, second] = self.groups;
        let slot = |is_v6: bool, group: usize| {
            let slot = if is_v6 { "v6" } else { "v4" };
            format!(r#""{slot}_acl_group_id": "{group}""#)
        };
        let mut slots = vec![slot(first, 0)];
        if first != second {
            slots.push(slot(second, 1));
        }
        let slots = slots.join(", ");
        self.is_bound[0].then(|| format!(r#""DASH_ACL_IN_TABLE:a:1": {{{slots}}}"#))
    }
}

fn apply(store: &mut Store, changes: &[Change]) {
    let changes = changes.iter().cloned();
    store.apply(changes.map(|change| (change, Origin::default())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// What is asked for in the end is in force, as if nothing else had ever been.
    #[test]
    fn versions_change_in_any_order_and_end_as_if_loaded_at_once(
        before in plan(),
        (after, order) in plan().prop_flat_map(|plan| {
            let order: Vec<_> = (0..plan.changes().len()).collect();
            (Just(plan), Just(order).prop_shuffle())
        }),
        batch in 1..20usize,
    ) {
        let mut store = Store::default();
        apply(&mut store, &before.changes());
        prop_assert_eq!(store.unsettled(), [0; 2]);
        let changes = after.changes();
        let mut wanted: Vec<_> = order.iter().map(|&at| changes[at].clone()).collect();
        // A stage that is no longer wanted goes.
        if before.is_bound[0] && !after.is_bound[0] {
            let stage = before.changes().iter().map(Change::key).find(|key| matches!(key, Key::AclIn(_)));
            wanted.extend(stage.map(Change::Delete));
        }
        for changes in wanted.chunks(batch) {
            apply(&mut store, changes);
        }
        let waiting: Vec<_> = store.waiting().map(|(key, waiting)| format!("{key}: {}", store.why(waiting))).collect();
        prop_assert_eq!(waiting, Vec::<String>::new());
        let mut fresh = Store::default();
        apply(&mut fresh, &changes);
        prop_assert_eq!(fresh.unsettled(), [0; 2]);
        prop_assert_eq!(&store.snapshot().configuration, &fresh.snapshot().configuration);
    }
}
