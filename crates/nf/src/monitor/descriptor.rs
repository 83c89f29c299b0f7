//! What the catalogue knows of monitors.

use super::flows::Flows;
use super::{By, Config, Monitor, NAME, NewMonitor};
use crate::descriptor::{self, Descriptor, Form, Function, FunctionConfig, FunctionError};
use crate::memory::TableMemory;
use crate::records::{FlowRecord, Page};
use crate::schema;
use std::any::Any;
use std::path::Path;
use twinpath_rulecache::Reconfiguration;
use twinpath_rulecache::RuleFunction;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Rules,
    placement: "it only counts, and what rules handle is reported to it",
    needs_section: false,
    decides_last: false,
    read: descriptor::read::<Config>,
    schema: schema::of::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn take_ended_flows(&self, function: &mut dyn Any, most: usize) -> Option<Vec<FlowRecord>> {
        let monitor: &mut Monitor = function.downcast_mut()?;
        let ended = std::iter::from_fn(|| monitor.take_ended());
        Some(ended.take(most).collect())
    }

    fn flow_records(
        &self,
        function: &dyn RuleFunction,
        from: u32,
        most: u32,
    ) -> Option<Page<FlowRecord>> {
        let function: &dyn Any = function;
        let monitor: &Monitor = function.downcast_ref()?;
        Some(monitor.page(from, most))
    }

    fn asks_for_checksums(&self) -> bool {
        false
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn does_with_headers(&self) -> &'static str {
        "counts packets and bytes, and lengths are in headers"
    }

    fn looks_at_each(&self) -> Option<&'static str> {
        Some(match self.by {
            By::Connection => "connection",
            By::Hosts => "pair of hosts",
            By::Source => "source",
            By::Destination => "destination",
        })
    }

    fn memory(&self, _flows: usize) -> Vec<TableMemory> {
        let count = self.flows.0;
        vec![TableMemory {
            count: count as u64,
            of: "flows",
            bytes: Flows::bytes(count),
            key: "flows",
        }]
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::rules(Monitor::new(self, seed)))
    }

    fn change_from(
        &self,
        _former: &dyn FunctionConfig,
        _folder: &Path,
        seed: u64,
    ) -> Result<Option<Reconfiguration>, FunctionError> {
        Ok(Some(Reconfiguration::of::<Monitor>(NewMonitor::new(
            self, seed,
        ))))
    }

    fn changes_in_place(&self, former: &dyn FunctionConfig) -> bool {
        let former = former.of::<Self>();
        former.is_some_and(|former| former.by == self.by)
    }
}
