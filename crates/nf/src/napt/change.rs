//! Another configuration, while packets flow.

use super::config::Config;
use super::function::Napt;
use super::ports::External;
use super::sides::Sides;
use std::error::Error;
use twinpath_rulecache::{Affected, Reconfigure};

/// A configuration ready to take effect.
pub struct NewNapt {
    config: Config,
    sides: Sides,
    external: External,
}

impl NewNapt {
    /// Prepares a configuration. With another seed than [the one before](Napt::new), other ports
    /// are tried first if external addresses change.
    pub fn new(config: &Config, seed: u64) -> Self {
        Self {
            config: config.clone(),
            sides: Sides::new(config),
            external: External::new(config, seed),
        }
    }
}

impl Reconfigure for Napt {
    type New = NewNapt;

    /// Packets that pass untouched share an entry, and time-outs are in every rule.
    fn affected_by(&self, _: &NewNapt) -> Affected {
        Affected::Everything
    }

    fn apply(&mut self, new: &mut NewNapt) -> Result<(), Box<dyn Error + Send + Sync>> {
        let moved = self.external.numbers_in(&new.external);
        let is_same_inside = self.sides.inside() == new.sides.inside();
        std::mem::swap(&mut self.sides, &mut new.sides);
        self.filtering = new.config.filtering;
        self.pick_up = new.config.pick_up;
        self.table.configure(&new.config, &mut self.external);
        if moved.is_none() && is_same_inside {
            self.external.configure(&new.config);
            return Ok(());
        }
        self.end_strangers(moved.as_deref());
        match moved {
            Some(moved) => {
                std::mem::swap(&mut self.external, &mut new.external);
                self.table.renumber(&moved, &mut self.external);
            }
            None => self.external.configure(&new.config),
        }
        Ok(())
    }
}

impl Napt {
    /// Ends the sessions of hosts that are no longer inside, and of external addresses that have
    /// no new number.
    fn end_strangers(&mut self, moved: Option<&[Option<u32>]>) {
        let Self {
            sides,
            table,
            external,
            ..
        } = self;
        let stays = |binding: &super::table::Binding| {
            let has_slot = moved.is_none_or(|moved| binding.slot.moved(moved).is_some());
            has_slot && sides.is_inside(binding.internal.address)
        };
        table.retain(stays, external);
    }
}
