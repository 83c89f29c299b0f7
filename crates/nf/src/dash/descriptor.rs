//! What the catalogue knows of a DPU.

use super::config::Written;
use super::{Config, NAME};
use crate::descriptor::{
    ConfigWarning, Descriptor, Form, Function, FunctionConfig, FunctionError, MigrationError,
    ReadError, SectionContext,
};
use crate::memory::TableMemory;
use crate::schema;
use crate::shard::{HostShards, Shard};
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use toml::de::ValueDeserializer;
use twinpath_dash::flows::FlowTable;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Dash,
    placement: "flows are on the fast path, with what was decided for both directions; policies judge first packets, and those of flows that a change has touched, on the slow path",
    needs_section: true,
    decides_last: false,
    read,
    schema: schema::of::<Written>,
};

fn read(
    section: ValueDeserializer<'_>,
    context: SectionContext<'_>,
) -> Result<Arc<dyn FunctionConfig>, ReadError> {
    let written = Written::deserialize(section)?;
    Ok(Arc::new(Config::read(written, context)?))
}

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn needs_payload(&self) -> Option<&'static str> {
        Some("it looks for packets in what outer headers carry")
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other
            .of::<Self>()
            .is_some_and(|other| self.says_the_same(other))
    }

    fn build(&self, _folder: &Path, seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::Dash(Box::new(self.slow(seed))))
    }

    fn changes_in_place(&self, former: &dyn FunctionConfig) -> bool {
        former
            .of::<Self>()
            .is_some_and(|former| former.settings() == self.settings())
    }

    fn check_migration(&self, former: &dyn FunctionConfig) -> Result<(), MigrationError> {
        let Some(former) = former.of::<Self>() else {
            return Ok(());
        };
        let keys = self.differing_keys(former);
        let Some(&key) = keys.first() else {
            return Ok(());
        };
        let (keys, differ) = (
            keys.join(", "),
            if keys.len() == 1 { "differs" } else { "differ" },
        );
        Err(MigrationError {
            key,
            why: format!(
                "{keys} {differ} from the running service's: expected the same, because only what the files of config say can change while packets flow"
            ),
        })
    }

    fn of_shard(
        &self,
        shard: Shard,
        _hosts: HostShards,
    ) -> Result<Option<Arc<dyn FunctionConfig>>, FunctionError> {
        Ok(Some(Arc::new(Self::of_shard(self, shard))))
    }

    fn memory(&self, _flows: usize) -> Vec<TableMemory> {
        let flows = FlowTable::cost(self.settings().flows);
        vec![TableMemory {
            count: flows.number as u64,
            of: "flows",
            bytes: flows.bytes as u64,
            key: "flows",
        }]
    }

    fn warnings(&self) -> Vec<ConfigWarning> {
        Self::warnings(self)
    }
}
