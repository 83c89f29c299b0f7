//! Fields that are read and change nothing of what packets meet, though somebody may count on it.

use super::configuration::Configuration;
use super::warnings::Warnings;
use crate::objects::*;

impl Configuration {
    /// Fields of routes that mean nothing to what the route does.
    pub(super) fn idle_field_warnings(&self, warnings: &mut Warnings) {
        for (group, table) in self.groups_of(self.enis.values()) {
            if table
                .distinct()
                .all(|route| self.idle_fields(route).is_empty())
            {
                continue;
            }
            for (prefix, route) in table.routes().iter() {
                for (field, message) in self.idle_fields(route) {
                    let group = group.clone();
                    let key = Key::Route(RouteKey { group, prefix });
                    warnings.tell(key, field, message);
                }
            }
        }
    }

    fn idle_fields(&self, route: &Route) -> Vec<(&'static str, &'static str)> {
        const DROPPED: &str = "has no effect: what is sent there is dropped";
        const NOT_FROM: &str =
            "has no effect: only packets to mappings of Private Link are sent from it";
        let is_drop = route.action == RouteAction::Drop;
        let mut idle = Vec::new();
        if route.underlay_sip.is_some() && !self.may_link(route) {
            idle.push(("underlay_sip", if is_drop { DROPPED } else { NOT_FROM }));
        }
        if is_drop && route.tunnel.is_some() {
            idle.push(("tunnel", DROPPED));
        }
        let none = MeterBits::default();
        if is_drop && route.metering.or != none.or {
            idle.push(("metering_class_or", DROPPED));
        }
        if is_drop && route.metering.and != none.and {
            idle.push(("metering_class_and", DROPPED));
        }
        idle
    }

    /// Whether a route may lead to a mapping of Private Link.
    fn may_link(&self, route: &Route) -> bool {
        let network = route.action.vnet().and_then(|vnet| self.vnets.get(vnet));
        network.is_some_and(|table| {
            let mut mappings = table.distinct();
            mappings.any(|mapping| mapping.private_link.is_some())
        })
    }

    /// Roles in which a DPU takes no packets: this one takes them all the same.
    pub(super) fn high_availability_warnings(&self, warnings: &mut Warnings) {
        const TAKES_ALL: &str = "has no effect, as no table of high availability has: packets are forwarded as if it were active";
        for (id, scope) in self.ha_scopes.iter() {
            let key = || Key::HaScope(id.clone());
            if scope.is_disabled {
                warnings.tell(key(), "disabled", TAKES_ALL);
            }
            if !matches!(scope.role, HaRole::Active | HaRole::Standalone) {
                warnings.tell(key(), "ha_role", TAKES_ALL);
            }
        }
        for (id, scope) in self.ha_scope_configs.iter() {
            let key = || Key::HaScopeConfig(id.clone());
            if scope.is_disabled {
                warnings.tell(key(), "disabled", TAKES_ALL);
            }
            if scope.desired_state == DesiredHaState::Dead {
                warnings.tell(key(), "desired_ha_state", TAKES_ALL);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::warnings::tests::{GOOD, warnings};

    #[test]
    fn fields_of_routes_that_mean_nothing_are_told() {
        let vnet = r#"{"DASH_VNET_TABLE:plain": {"vni": 1002}}"#;
        let route = |prefix: &str, fields: &str| {
            format!(r#"{{"DASH_ROUTE_TABLE:g:{prefix}": {{{fields}}}}}"#)
        };
        let sip = r#""underlay_sip": "10.1.0.5""#;
        let not_from = "underlay_sip: has no effect: only packets to mappings of Private Link are sent from it";
        for kind in [r#""direct""#, r#""vnet", "vnet": "plain""#] {
            let route = route("11.0.0.0/8", &format!(r#""routing_type": {kind}, {sip}"#));
            let told = format!("1 DASH_ROUTE_TABLE:g:11.0.0.0/8: {not_from}");
            assert_eq!(warnings(&[GOOD, vnet, &route]), [told]);
        }
        // The network has a mapping of Private Link.
        let linked = format!(r#""routing_type": "vnet", "vnet": "blue", {sip}"#);
        assert_eq!(
            warnings(&[GOOD, vnet, &route("11.0.0.0/8", &linked)]),
            [""; 0]
        );
        let tunnel = r#"{"DASH_TUNNEL_TABLE:t": {"endpoints": ["20.0.0.5"], "encap_type": "vxlan", "vni": 9}}"#;
        let dropped = format!(
            r#""routing_type": "drop", "tunnel": "t", "metering_class_or": 1, "metering_class_and": 3, {sip}"#
        );
        let told = ["underlay_sip", "tunnel", "metering_class_or", "metering_class_and"].map(|field| {
            format!(
                "1 DASH_ROUTE_TABLE:g:12.0.0.0/8: {field}: has no effect: what is sent there is dropped"
            )
        });
        assert_eq!(
            warnings(&[GOOD, tunnel, &route("12.0.0.0/8", &dropped)]),
            told
        );
        let plain = r#""routing_type": "drop""#;
        assert_eq!(warnings(&[GOOD, &route("12.0.0.0/8", plain)]), [""; 0]);
    }

    #[test]
    fn roles_that_take_no_packets_are_told_to_have_no_effect() {
        let without = "has no effect, as no table of high availability has: packets are forwarded as if it were active";
        let set = r#""DASH_HA_SET_TABLE:set": {}"#;
        let scope = |fields: &str| {
            format!(r#"{{{set}, "DASH_HA_SCOPE_TABLE:set": {{"ha_set_id": "set", {fields}}}}}"#)
        };
        for (fields, field) in [
            (r#""ha_role": "standby""#, "ha_role"),
            (r#""ha_role": "dead""#, "ha_role"),
            (r#""ha_role": "active", "disabled": true"#, "disabled"),
        ] {
            let told = format!("1 DASH_HA_SCOPE_TABLE:set: {field}: {without}");
            assert_eq!(warnings(&[GOOD, &scope(fields)]), [told]);
        }
        for role in ["active", "standalone"] {
            let good = scope(&format!(r#""ha_role": "{role}""#));
            assert_eq!(warnings(&[GOOD, &good]), [""; 0]);
        }
        let wanted =
            |fields: &str| format!(r#"{{"DASH_HA_SCOPE_CONFIG_TABLE:vdpu0:set": {{{fields}}}}}"#);
        for (fields, field) in [
            (r#""desired_ha_state": "dead""#, "desired_ha_state"),
            (
                r#""desired_ha_state": "active", "disabled": true"#,
                "disabled",
            ),
        ] {
            let told = format!("1 DASH_HA_SCOPE_CONFIG_TABLE:vdpu0:set: {field}: {without}");
            assert_eq!(warnings(&[GOOD, &wanted(fields)]), [told]);
        }
    }
}
