//! Another configuration, while packets flow.

use super::config::Config;
use super::function::Nat64;
use super::prefix::Embedding;
use crate::napt::NewNapt;
use twinpath_core::wire::Address;
use twinpath_rulecache::{Affected, Reconfigure};

/// What becomes of a translation while packets flow.
pub struct NewNat64 {
    /// Its bindings.
    napt: NewNapt,
    /// The rest, unless bindings alone end.
    settings: Option<Settings>,
}

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

impl NewNat64 {
    /// Prepares a configuration, as [`NewNapt::new`].
    pub fn new(config: &Config, seed: u64) -> Self {
        Self {
            napt: NewNapt::new(&config.napt, seed),
            settings: Some(Settings::of(config)),
        }
    }

    /// Bindings end.
    pub fn end(napt: NewNapt) -> Self {
        let settings = None;
        Self { napt, settings }
    }
}

/// Rules are those of packets that pass: what translates them concerns their addresses.
impl Reconfigure for Nat64 {
    type New = NewNat64;

    fn affected_by(&self, new: &NewNat64) -> Affected {
        let embedding = new.settings.map(|settings| settings.embedding);
        match embedding.is_some_and(|new| new != self.settings.embedding) {
            true => Affected::Everything,
            false => self.napt.affected_by(&new.napt),
        }
    }

    fn apply(&mut self, new: &mut NewNat64) {
        self.napt.apply(&mut new.napt);
        if let Some(settings) = new.settings {
            self.configure(settings);
        }
    }
}
