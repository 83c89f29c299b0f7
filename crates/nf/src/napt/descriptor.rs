//! What the catalogue knows of address translations.

use super::config::Written;
use super::{Config, ConfigError, NAME, Napt, NewNapt};
use crate::bindings::{Bindings, EndBindings};
use crate::descriptor::{
    self, Descriptor, Form, Function, FunctionConfig, FunctionError, Translation,
};
use crate::edit::{Edit, EditError, Object};
use crate::memory::TableMemory;
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
    placement: "a session's entry decides, and a rule draws identifications for what may be fragmented (DF is 0); what opens or ends a session, and ICMP errors, are for the slow path",
    needs_section: true,
    decides_last: false,
    read: descriptor::read_placed::<Written, Config, ConfigError>,
    schema: schema::of::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn asks_for_checksums(&self) -> bool {
        self.verify_checksums.of_state()
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn does_with_headers(&self) -> &'static str {
        "rewrites addresses and ports, and mends checksums by what it changed"
    }

    fn memory(&self, _flows: usize) -> Vec<TableMemory> {
        Self::memory(self)
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::rules(Napt::new(self, seed)))
    }

    fn of_shard(
        &self,
        shard: Shard,
        hosts: HostShards,
    ) -> Result<Option<Arc<dyn FunctionConfig>>, FunctionError> {
        let own = Self::of_shard(self, shard, hosts);
        let own = own.ok_or_else(|| FunctionError::of(TooFewPorts(shard.of)))?;
        Ok(Some(Arc::new(own)))
    }

    fn joins_shards(&self) -> bool {
        true
    }

    fn owners(&self, shards: u16) -> Option<Box<dyn Owners>> {
        Some(Box::new(Self::owners(self, shards)))
    }

    fn translation(&self) -> Option<Translation<'_>> {
        Some(Translation {
            inside: self.inside(),
            external: self.external(),
            outside: &[],
        })
    }

    fn change_from(
        &self,
        _former: &dyn FunctionConfig,
        _folder: &Path,
        seed: u64,
    ) -> Result<Option<Reconfiguration>, FunctionError> {
        Ok(Some(Reconfiguration::of::<Napt>(NewNapt::new(self, seed))))
    }

    fn changes_in_place(&self, former: &dyn FunctionConfig) -> bool {
        let former = former.of();
        former.is_some_and(|former| !self.changes_all_rules(former))
    }

    fn has(&self, object: Object) -> bool {
        matches!(object, Object::Binding | Object::Forward)
    }

    fn listed(&self, _object: Object) -> Vec<String> {
        self.listed_forwards()
    }

    fn edited(&self, edit: &Edit) -> Result<Arc<dyn FunctionConfig>, EditError> {
        Ok(Arc::new(self.after(edit)?))
    }

    fn take_binding_events(
        &self,
        function: &mut dyn RuleFunction,
        most: usize,
    ) -> Option<BindingEvents> {
        let function: &mut dyn Any = function;
        let napt: &mut Napt = function.downcast_mut()?;
        Some(napt.table.log.take(most))
    }

    fn end_all_bindings(
        &self,
        function: &mut dyn RuleFunction,
        from: u32,
        most: u32,
    ) -> Option<u32> {
        let function: &mut dyn Any = function;
        let napt: &mut Napt = function.downcast_mut()?;
        napt.end_all(from, most)
    }

    fn bindings<'f>(&self, function: &'f dyn RuleFunction) -> Option<&'f dyn Bindings> {
        let function: &dyn Any = function;
        let napt: Option<&Napt> = function.downcast_ref();
        napt.map(|napt| napt as &dyn Bindings)
    }

    fn end_bindings(&self, which: EndBindings) -> Option<Reconfiguration> {
        Some(Reconfiguration::of::<Napt>(NewNapt::End(which)))
    }
}
