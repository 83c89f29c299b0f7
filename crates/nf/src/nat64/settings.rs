//! What a translation has beside its bindings.

use super::config::Config;
use super::prefix::Embedding;
use twinpath_core::wire::Address;

/// What a translation has beside its bindings.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub embedding: Embedding,
    pub is_well_known: bool,
    /// See [`Config`].
    pub mtu: u16,
    pub lowest_mtu: u16,
    /// Most ICMP errors in a second, and whom they come from in either IP version.
    pub errors_per_second: u32,
    pub errors_from: [Option<Address>; 2],
}

impl Settings {
    pub fn of(config: &Config) -> Self {
        let v4 = config.napt.first_external();
        Self {
            embedding: config.embedding,
            is_well_known: config.is_well_known(),
            mtu: config.mtu,
            lowest_mtu: config.lowest_mtu,
            errors_per_second: config.napt.errors_per_second,
            errors_from: [v4, v4.map(|v4| config.embedding.embed(v4))],
        }
    }
}
