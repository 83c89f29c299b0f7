//! Another configuration, while packets flow.

use super::config::Config;
use super::function::{Napt, session_entry};
use super::ports::External;
use super::sides::Sides;
use super::table::Binding;
use crate::bindings::{Bindings, EndBindings};
use crate::records::{BindingRecord, Kind, Page};
use std::collections::HashSet;
use twinpath_classify::Prefix;
use twinpath_classify::acl::Rule as Packets;
use twinpath_rulecache::{Affected, Concern, Reconfigure};

/// What becomes of a translation while packets flow.
pub enum NewNapt {
    /// It takes another configuration.
    Config(Box<Prepared>),
    /// Bindings end.
    End(EndBindings),
}

/// A configuration ready to take effect.
pub struct Prepared {
    config: Config,
    sides: Sides,
    external: External,
}

impl NewNapt {
    /// Prepares a configuration. With another seed than [the one before](Napt::new), other ports
    /// are tried first if external addresses change.
    pub fn new(config: &Config, seed: u64) -> Self {
        Self::Config(Box::new(Prepared {
            config: config.clone(),
            sides: Sides::new(config),
            external: External::new(config, seed),
        }))
    }
}

impl Config {
    /// Whether another configuration concerns all cached rules: what sessions know of the other
    /// end follows from filtering, and with other blocks many bindings end.
    pub fn changes_all_rules(&self, former: &Self) -> bool {
        self.filtering != former.filtering
            || self.deterministic != former.deterministic
            || self.dynamic != former.dynamic
    }
}

impl Reconfigure for Napt {
    type New = NewNapt;

    fn affected_by(&self, new: &NewNapt) -> Affected {
        match new {
            NewNapt::Config(new) => self.affected_by_config(new),
            NewNapt::End(which) => self.affected_by_end(*which),
        }
    }

    fn apply(&mut self, new: &mut NewNapt) {
        match new {
            NewNapt::Config(new) => self.take(new),
            NewNapt::End(which) => self.end(*which),
        }
    }
}

impl Napt {
    pub(crate) fn affected_by_end(&self, which: EndBindings) -> Affected {
        let sessions = self.sessions_of(which);
        let entries = sessions.into_iter().map(session_entry);
        Affected::Rules(vec![Concern::entries(entries.collect())])
    }

    pub(crate) fn end(&mut self, which: EndBindings) {
        for session in self.sessions_of(which) {
            self.table.remove(session, &mut self.external);
        }
    }

    /// Bindings of these numbers end, whatever rules there are. Returns the next number, if there is one.
    pub(crate) fn end_all(&mut self, from: u32, most: u32) -> Option<u32> {
        let bound = self.table.binding_bound() as u32;
        let end = from.saturating_add(most).min(bound);
        (from..end).for_each(|number| self.table.end_binding(number, &mut self.external));
        (end < bound).then_some(end)
    }

    /// Packets from and to what joins or leaves, and of protocols that have other time-outs: those
    /// are in their rules. Which ports are given out concerns no rule.
    fn affected_by_config(&self, new: &Prepared) -> Affected {
        let has_other_blocks = self.external.has_other_blocks(&new.external);
        if new.config.filtering != self.filtering || has_other_blocks {
            return Affected::Everything;
        }
        let ending = self.ending(&new.external).into_iter().map(session_entry);
        let mut concerns = vec![Concern::entries(ending.collect())];
        for prefix in differing(self.sides.inside(), new.sides.inside()) {
            concerns.extend([Concern::from(prefix), Concern::to(prefix)]);
        }
        for prefix in differing(self.sides.untranslated(), new.sides.untranslated()) {
            concerns.push(Concern::to(prefix));
        }
        for address in self.external.renumbered(&new.external) {
            let prefix = address.into();
            concerns.extend([Concern::from(prefix), Concern::to(prefix)]);
        }
        for protocol in self.table.other_time_outs(&new.config) {
            concerns.push(Concern::packets(Packets {
                protocol: Some(protocol),
                ..Packets::ANY
            }));
        }
        Affected::Rules(concerns)
    }

    fn take(&mut self, new: &mut Prepared) {
        let moved = self.external.numbers_in(&new.external);
        let is_same_inside = self.sides.inside() == new.sides.inside();
        std::mem::swap(&mut self.sides, &mut new.sides);
        self.other_shards.clone_from(&new.config.other_shards);
        self.filtering = new.config.filtering;
        self.pick_up = new.config.pick_up;
        self.checksums = new.config.verify_checksums;
        self.sessions_per_binding = new.config.sessions_per_binding;
        self.ports_per_host = new.config.ports_per_host;
        self.sessions_per_host = new.config.sessions_per_host;
        self.exhaustion.configure(&new.config);
        self.table.configure(&new.config, &mut self.external);
        if moved.is_none() && is_same_inside {
            return self.external.configure(&new.config);
        }
        for session in self.ending(&new.external) {
            self.table.remove(session, &mut self.external);
        }
        self.end_unlisted(moved.as_deref());
        match moved {
            Some(moved) => {
                std::mem::swap(&mut self.external, &mut new.external);
                self.table.renumber(&moved, &mut self.external);
            }
            None => self.external.configure(&new.config),
        }
    }

    /// The sessions of bindings.
    fn sessions_of(&self, EndBindings { internal, kind }: EndBindings) -> Vec<u32> {
        let kinds = Kind::ALL
            .into_iter()
            .filter(|&one| kind.is_none_or(|kind| kind == one));
        let bindings = kinds.filter_map(|kind| self.table.binding_of(internal, kind));
        bindings
            .flat_map(|binding| self.table.sessions_of(binding))
            .collect()
    }

    /// The sessions of bindings whose external endpoints are others', or that have others in any
    /// case, with other forwards and blocks.
    fn ending(&self, new: &External) -> Vec<u32> {
        if self.external.has_same_promises(new) {
            return Vec::new();
        }
        // Two hosts' bindings may be in what is one host's block.
        let ends_all = new.blocks().is_some() && self.external.has_other_blocks(new);
        let bindings = self.table.bindings().filter(|(_, binding)| {
            let external = self.external.endpoint(binding.slot);
            ends_all || !new.allows(binding.internal, external, binding.kind)
        });
        bindings
            .flat_map(|(number, _)| self.table.sessions_of(number))
            .collect()
    }

    /// Ends the sessions of hosts that are no longer inside, and of external addresses that have
    /// no new number.
    fn end_unlisted(&mut self, moved: Option<&[Option<u32>]>) {
        let Self {
            sides,
            table,
            external,
            ..
        } = self;
        let stays = |binding: &Binding| {
            let has_slot = moved.is_none_or(|moved| binding.slot.moved(moved).is_some());
            has_slot && sides.is_inside(binding.internal.address)
        };
        table.retain(stays, external);
    }
}

impl Bindings for Napt {
    fn page(&self, from: u32, most: u32) -> Page<BindingRecord> {
        Page::of(from, most, self.table.binding_bound(), |number| {
            let binding = self.table.binding(number)?;
            Some(BindingRecord {
                kind: binding.kind,
                internal: binding.internal,
                external: self.external.endpoint(binding.slot),
                sessions: binding.count,
            })
        })
    }

    fn has(&self, which: EndBindings) -> bool {
        !self.sessions_of(which).is_empty()
    }

    /// The forwards, and the bindings that there are.
    fn told(&self) -> Vec<String> {
        let mut bindings: Vec<_> = self.table.bindings().collect();
        bindings.sort_by_key(|(number, binding)| (binding.internal, binding.kind as u8, *number));
        let told = |(number, binding): &(u32, &Binding)| {
            let (kind, internal) = (binding.kind, binding.internal);
            let external = self.external.endpoint(binding.slot);
            let sessions = self.table.sessions_of(*number).count();
            format!("{internal} {kind} as {external}, sessions: {sessions}")
        };
        let mut all = self.external.forwards().told();
        all.extend(bindings.iter().map(told));
        all
    }
}

/// What is in one of two lists alone.
fn differing(one: &[Prefix], other: &[Prefix]) -> Vec<Prefix> {
    let [here, there]: [HashSet<_>; 2] = [one, other].map(|list| list.iter().copied().collect());
    here.symmetric_difference(&there).copied().collect()
}
