//! What the catalogue knows of reassemblers.

use super::held::HeldFlow;
use super::{Config, NAME, Reassembler};
use crate::descriptor::{self, Descriptor, Form, Function, FunctionConfig, FunctionError};
use crate::memory::TableMemory;
use crate::schema;
use std::path::Path;
use twinpath_core::Guarantees;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Flow,
    placement: "each segment moves the connection on, so both paths hold where it stands; what is out of order waits on the slow path",
    needs_section: false,
    decides_last: false,
    read: descriptor::read::<Config>,
    schema: schema::of::<Config>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn needs_payload(&self) -> Option<&'static str> {
        Some("puts payloads in order")
    }

    fn guarantees(&self) -> Guarantees {
        Self::guarantees(self)
    }

    /// Their frames are among the packets that a node has buffers for.
    fn memory(&self, _flows: usize) -> Vec<TableMemory> {
        let segments = self.most_segments;
        vec![TableMemory {
            count: segments.into(),
            of: "held segments",
            bytes: HeldFlow::bytes(segments as usize),
            key: "most_segments",
        }]
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, _seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::flow(Reassembler::new(self)))
    }
}
