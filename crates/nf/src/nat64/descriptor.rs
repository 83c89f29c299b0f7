//! What the catalogue knows of translations between IP versions.

use super::config::Written;
use super::{Config, ConfigError, NAME, Nat64, NewNat64};
use crate::bindings::{Bindings, EndBindings};
use crate::descriptor::{
    self, Descriptor, Form, Function, FunctionConfig, FunctionError, Translation,
};
use crate::edit::{Edit, EditError, Object};
use crate::memory::TableMemory;
use crate::napt::NewNapt;
use crate::records::BindingEvents;
use crate::schema;
use crate::shard::{HostShards, Owners, Shard, TooFewPorts};
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use twinpath_rulecache::{Reconfiguration, RuleFunction};

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Rules,
    placement: "only of packets that pass it as they are; what is translated gets another IP version, which no rule can write, and stays on the slow path",
    needs_section: true,
    decides_last: false,
    read: descriptor::read_placed::<Written, Config, ConfigError>,
    schema: schema::of::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn needs_payload(&self) -> Option<&'static str> {
        Some("moves what follows the headers, and computes checksums that IPv4 may leave out")
    }

    fn memory(&self, _flows: usize) -> Vec<TableMemory> {
        self.napt.memory()
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::rules(Nat64::new(self, seed)))
    }

    fn change_from(
        &self,
        _former: &dyn FunctionConfig,
        _folder: &Path,
        seed: u64,
    ) -> Result<Option<Reconfiguration>, FunctionError> {
        let new = NewNat64::new(self, seed);
        Ok(Some(Reconfiguration::of::<Nat64>(new)))
    }

    fn changes_in_place(&self, former: &dyn FunctionConfig) -> bool {
        let former: Option<&Self> = former.of();
        former.is_some_and(|former| {
            self.embedding == former.embedding && !self.napt.changes_all_rules(&former.napt)
        })
    }

    fn of_shard(
        &self,
        shard: Shard,
        hosts: HostShards,
    ) -> Result<Option<Arc<dyn FunctionConfig>>, FunctionError> {
        let napt = self.napt.of_shard(shard, hosts);
        let own = Self {
            napt: napt.ok_or_else(|| FunctionError::of(TooFewPorts(shard.of)))?,
            ..self.clone()
        };
        Ok(Some(Arc::new(own)))
    }

    fn owners(&self, shards: u16) -> Option<Box<dyn Owners>> {
        Some(Box::new(self.napt.owners(shards)))
    }

    fn translation(&self) -> Option<Translation<'_>> {
        Some(Translation {
            inside: self.inside(),
            external: self.external(),
            outside: self.outside(),
        })
    }

    fn has(&self, object: Object) -> bool {
        matches!(object, Object::Binding | Object::Forward)
    }

    fn listed(&self, _object: Object) -> Vec<String> {
        self.napt.listed_forwards()
    }

    fn edited(&self, edit: &Edit) -> Result<Arc<dyn FunctionConfig>, EditError> {
        Ok(Arc::new(Self {
            napt: self.napt.after(edit)?,
            ..self.clone()
        }))
    }

    fn take_binding_events(
        &self,
        function: &mut dyn RuleFunction,
        most: usize,
    ) -> Option<BindingEvents> {
        let function: &mut dyn Any = function;
        let nat64: &mut Nat64 = function.downcast_mut()?;
        Some(nat64.take_binding_events(most))
    }

    fn end_all_bindings(
        &self,
        function: &mut dyn RuleFunction,
        from: u32,
        most: u32,
    ) -> Option<u32> {
        let function: &mut dyn Any = function;
        let nat64: &mut Nat64 = function.downcast_mut()?;
        nat64.end_all_bindings(from, most)
    }

    fn bindings<'f>(&self, function: &'f dyn RuleFunction) -> Option<&'f dyn Bindings> {
        let function: &dyn Any = function;
        let nat64: Option<&Nat64> = function.downcast_ref();
        nat64.map(|nat64| nat64.bindings() as &dyn Bindings)
    }

    fn end_bindings(&self, which: EndBindings) -> Option<Reconfiguration> {
        Some(Reconfiguration::of::<Nat64>(NewNat64::end(NewNapt::End(
            which,
        ))))
    }
}
