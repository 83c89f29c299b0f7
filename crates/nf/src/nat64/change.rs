//! Another configuration, while packets flow.

use super::config::Config;
use super::function::Nat64;
use super::settings::Settings;
use crate::napt::NewNapt;
use twinpath_rulecache::{Affected, Reconfigure};

/// What becomes of a translation while packets flow.
pub struct NewNat64 {
    /// Its bindings.
    napt: NewNapt,
    /// The rest, unless bindings alone end.
    settings: Option<Settings>,
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
