//! Access lists that ask packets of one IP version alone, where an ENI's machine sends both.

use super::configuration::Configuration;
use super::tables::{EniTable, RouteTable, Stages};
use super::warnings::Warnings;
use crate::objects::*;

impl Configuration {
    /// ENIs whose lists of a direction are all for one IP version, and whose routes lead somewhere for
    /// the other, too: a stage without a list is skipped.
    pub(super) fn one_version_warnings(&self, warnings: &mut Warnings) {
        for (id, table) in self.enis.iter() {
            if !table.is_enabled() {
                continue;
            }
            let routes = table.route_group.as_ref();
            let routes = routes.and_then(|group| self.route_groups.get(group));
            if let Some(routes) = routes {
                table.one_version_warnings(id, routes, warnings);
            }
        }
    }
}

impl EniTable {
    fn one_version_warnings(&self, id: &EniId, routes: &RouteTable, warnings: &mut Warnings) {
        let key_in: fn(AclStageKey) -> Key = Key::AclIn;
        for (stages, key) in [(&self.acl_in, key_in), (&self.acl_out, Key::AclOut)] {
            let Some((first, missing)) = one_sided(stages) else {
                continue;
            };
            let leads = |route: &Route| !matches!(route.action, RouteAction::Drop);
            if !routes.routes().any_of(missing, |route| leads(route)) {
                continue;
            }
            let (field, version) = match missing {
                IpVersion::V4 => ("v4_acl_group_id", "IPv4"),
                IpVersion::V6 => ("v6_acl_group_id", "IPv6"),
            };
            let message = format!(
                "missing at each stage of this direction: no list asks the ENI's packets of {version}, though its routes take such"
            );
            let (eni, stage) = (id.clone(), first);
            warnings.tell(key(AclStageKey { eni, stage }), field, message);
        }
    }
}

/// The first stage with a list, and the IP version for which none has one; nothing where there is no
/// list, or one for either.
fn one_sided(stages: &Stages) -> Option<(AclStage, IpVersion)> {
    let first =
        |version| AclStage::all().find(|stage| stages[stage.index()].group(version).is_some());
    match (first(IpVersion::V4), first(IpVersion::V6)) {
        (Some(stage), None) => Some((stage, IpVersion::V6)),
        (None, Some(stage)) => Some((stage, IpVersion::V4)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::warnings::tests::{GOOD, warnings};

    #[test]
    fn lists_for_one_ip_version_are_told_where_routes_take_the_other() {
        let lists = r#"{
            "DASH_ACL_GROUP_TABLE:four": {"ip_version": "ipv4"},
            "DASH_ACL_RULE_TABLE:four:1": {"priority": 1, "action": "allow", "terminating": true},
            "DASH_ACL_GROUP_TABLE:six": {"ip_version": "ipv6"},
            "DASH_ACL_RULE_TABLE:six:1": {"priority": 1, "action": "allow", "terminating": true}}"#;
        let four = r#"{"DASH_ACL_OUT_TABLE:one:2": {"v4_acl_group_id": "four"}}"#;
        let six = r#"{"DASH_ACL_OUT_TABLE:one:3": {"v6_acl_group_id": "six"}}"#;
        let of_six = r#"{"DASH_ROUTE_TABLE:g:fd00::/8": {"routing_type": "vnet", "vnet": "blue"}}"#;
        let dropped = r#"{"DASH_ROUTE_TABLE:g:fd00::/8": {"routing_type": "drop"}}"#;
        let told = |stage: u8, [missing, version]: [&str; 2]| {
            format!(
                "1 DASH_ACL_OUT_TABLE:one:{stage}: {missing}_acl_group_id: missing at each stage of this direction: no list asks the ENI's packets of {version}, though its routes take such"
            )
        };
        let without_six = told(2, ["v6", "IPv6"]);
        assert_eq!(warnings(&[GOOD, lists, four, of_six]), [without_six]);
        // Nothing of it goes anywhere, or a list asks it, at whatever stage.
        assert_eq!(warnings(&[GOOD, lists, four]), [""; 0]);
        assert_eq!(warnings(&[GOOD, lists, four, dropped]), [""; 0]);
        assert_eq!(warnings(&[GOOD, lists, four, six, of_six]), [""; 0]);
        assert_eq!(warnings(&[GOOD, lists, of_six]), [""; 0]);
        let without_four = told(3, ["v4", "IPv4"]);
        assert_eq!(warnings(&[GOOD, lists, six]), [without_four]);
    }
}
