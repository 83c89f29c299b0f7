//! What the catalogue knows of access lists.

use super::list::classified_rules;
use super::{AccessList, Config, NAME, NewList, Prepared};
use crate::descriptor::{
    ConfigWarning, Descriptor, Form, Function, FunctionConfig, FunctionError, ReadError,
    SectionContext,
};
use crate::edit::{Edit, EditError, Object};
use crate::firewall::cover::unreachable_rules;
use crate::firewall::edit::edited_rules;
use crate::memory::TableMemory;
use crate::records::{EntryHits, Page};
use crate::schema;
use serde::Deserialize;
use serde::de::Error;
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use toml::de::ValueDeserializer;
use twinpath_classify::acl::RULE_BYTES;
use twinpath_rulecache::Reconfiguration;
use twinpath_rulecache::RuleFunction;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Rules,
    placement: "addresses, ports and protocol decide, and the list, which seldom changes",
    needs_section: true,
    decides_last: false,
    read,
    schema: schema::of::<Config>,
};

fn read(
    section: ValueDeserializer<'_>,
    context: SectionContext<'_>,
) -> Result<Arc<dyn FunctionConfig>, ReadError> {
    let mut config = Config::deserialize(section)?;
    config.ports = context.ports.to_vec();
    config.ingress_ports().map_err(toml::de::Error::custom)?;
    Ok(Arc::new(config))
}

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn placement(&self) -> &'static str {
        match self.rules().iter().any(|rule| rule.ingress.is_some()) {
            true => {
                "the port of arrival, addresses, ports and protocol decide, and the list, which seldom changes"
            }
            false => FUNCTION.placement,
        }
    }

    fn asks_for_checksums(&self) -> bool {
        false
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn does_with_headers(&self) -> &'static str {
        "decides by addresses, ports and protocol"
    }

    fn warnings(&self) -> Vec<ConfigWarning> {
        unreachable_rules(self.rules(), &self.ports)
    }

    /// The list is built before the run, and each rule may be in several classifiers.
    fn memory(&self, _flows: usize) -> Vec<TableMemory> {
        let count = classified_rules(self);
        let table = TableMemory {
            count: count as u64,
            of: "classified rules",
            bytes: (count * RULE_BYTES) as u64,
            key: "rules",
        };
        Vec::from_iter((count > 0).then_some(table))
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        let prepared = Prepared::new(self).map_err(FunctionError::of)?;
        Ok(Function::rules(AccessList::new(prepared)))
    }

    fn change_from(
        &self,
        former: &dyn FunctionConfig,
        _folder: &Path,
        _seed: u64,
    ) -> Result<Option<Reconfiguration>, FunctionError> {
        let list = former.of().map(|former| NewList::between(former, self));
        let list = list.transpose().map_err(FunctionError::of)?;
        Ok(list.map(Reconfiguration::of::<AccessList>))
    }

    fn changes_in_place(&self, _former: &dyn FunctionConfig) -> bool {
        true
    }

    fn has(&self, object: Object) -> bool {
        object == Object::Rule
    }

    fn hits(&self, function: &dyn RuleFunction, from: u32, most: u32) -> Option<Page<EntryHits>> {
        let function: &dyn Any = function;
        let list: &AccessList = function.downcast_ref()?;
        Some(Page::of(from, most, list.rule_count() + 1, |number| {
            list.hits(number as usize)
        }))
    }

    fn listed(&self, _object: Object) -> Vec<String> {
        self.rules().iter().map(ToString::to_string).collect()
    }

    fn edited(&self, edit: &Edit) -> Result<Arc<dyn FunctionConfig>, EditError> {
        let edited = self.with_rules(edited_rules(self.rules(), edit)?);
        Ok(Arc::new(edited.map_err(EditError::of)?))
    }
}
