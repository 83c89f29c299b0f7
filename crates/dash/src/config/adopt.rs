//! A configuration that was made anew, and shares what it has in common with the one before.

use super::configuration::Configuration;
use super::shared_map::adopt;

impl Configuration {
    /// Has the very values of another configuration where they are equal, so that who builds
    /// something from them builds nothing anew.
    pub(super) fn adopt(&mut self, other: &Self) {
        self.adopt_plain(other);
        adopt(&mut self.vnets, &other.vnets);
        adopt(&mut self.port_maps, &other.port_maps);
        adopt(&mut self.meter_policies, &other.meter_policies);
        adopt(&mut self.acl_groups, &other.acl_groups);
        adopt(&mut self.route_groups, &other.route_groups);
        adopt(&mut self.enis, &other.enis);
    }
}
