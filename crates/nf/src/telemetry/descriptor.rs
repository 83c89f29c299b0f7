//! What the catalogue knows of telemetry.

use super::state::{LAST, UNIT_SHIFT, flag_names, record, units_since};
use super::{Config, NAME, Telemetry};
use crate::descriptor::{self, Descriptor, Form, Function, FunctionConfig, FunctionError};
use crate::largest_flows::LargestFlows;
use crate::records::{FlowRecord, FlowText};
use crate::schema;
use std::any::Any;
use std::path::Path;
use std::time::Duration;
use twinpath_core::{FlowKey, Instant, Side};

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Flow,
    placement: "each packet is counted in its flow's record, which both paths hold",
    needs_section: false,
    decides_last: false,
    read: descriptor::read::<Config>,
    schema: schema::of::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn asks_for_checksums(&self) -> bool {
        false
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn does_with_headers(&self) -> &'static str {
        "counts packets, bytes and flags, and lengths are in headers"
    }

    fn needs_ports(&self) -> bool {
        true
    }

    fn take_ended_flows(&self, function: &mut dyn Any, most: usize) -> Option<Vec<FlowRecord>> {
        let telemetry: &mut Telemetry = function.downcast_mut()?;
        let ended = std::iter::from_fn(|| telemetry.take_ended());
        Some(ended.take(most).collect())
    }

    fn flow_record(
        &self,
        key: &FlowKey,
        initiator: Side,
        words: &[u32],
        now: Instant,
    ) -> Option<FlowRecord> {
        record(key, initiator, words, now)
    }

    fn largest_flows(&self, function: &dyn Any) -> Option<(usize, LargestFlows)> {
        let telemetry: &Telemetry = function.downcast_ref()?;
        Some((self.top.0, telemetry.largest().clone()))
    }

    fn flow_text(&self, words: &[u32], now: Instant) -> Option<FlowText> {
        let record = record(&FlowKey::default(), Side::Low, words, now)?;
        let flags = record.tcp_flags.map(flag_names);
        let state = match flags.iter().all(String::is_empty) {
            true => "counted".into(),
            false => format!("flags {} and {}", flags[0], flags[1]),
        };
        let silent = u64::from(units_since(words[LAST], now)) << UNIT_SHIFT;
        Some(FlowText {
            state,
            unused: Duration::from_nanos(silent),
            backend: None,
            counted: Some(record),
        })
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::flow(Telemetry::new(self)))
    }
}
