//! A configuration that was made anew, and shares what it has in common with the one before.

use std::sync::Arc;

use super::configuration::Configuration;
use super::shared_map::SharedMap;

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

/// The same for one table.
pub(super) fn adopt<K: Ord + Clone, T: PartialEq>(
    map: &mut SharedMap<K, Arc<T>>,
    other: &SharedMap<K, Arc<T>>,
) {
    for (key, known) in other.iter() {
        if let Some(value) = map.get_mut(key)
            && **value == **known
        {
            *value = known.clone();
        }
    }
}
