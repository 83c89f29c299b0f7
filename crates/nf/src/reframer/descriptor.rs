//! What the catalogue knows of reframers.

use super::{Config, NAME, Reframer};
use crate::descriptor::{self, Descriptor, Form, Function, FunctionConfig, FunctionError};
use crate::memory::TableMemory;
use crate::schema;
use std::path::Path;
use std::time::Duration;
use twinpath_slowpath::PacketBuffer;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Flow,
    placement: "all packets wait on the slow path for others of their flow",
    needs_section: false,
    decides_last: false,
    read: descriptor::read::<Config>,
    schema: schema::of::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn is_for_slow_path(&self) -> bool {
        true
    }

    fn asks_for_checksums(&self) -> bool {
        false
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn does_with_headers(&self) -> &'static str {
        "looks at no packet: what it holds is headers, while payloads wait in memory"
    }

    fn longest_hold(&self) -> Option<Duration> {
        Some(self.window.duration())
    }

    fn needs_ports(&self) -> bool {
        true
    }

    /// Their frames are among the packets that a node has buffers for.
    fn memory(&self, _flows: usize) -> Vec<TableMemory> {
        let limits = self.limits();
        vec![TableMemory {
            count: limits.all.packets as u64,
            of: "waiting packets",
            bytes: PacketBuffer::bytes(&limits),
            key: "most_packets",
        }]
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::flow(Reframer::new(self)))
    }
}
