//! What the catalogue knows of rate limiters.

use super::config::{Excess, RawConfig};
use super::{Config, ConfigError, NAME, RateLimiter};
use crate::descriptor::{
    self, ConfigWarning, Descriptor, Form, Function, FunctionConfig, FunctionError,
};
use crate::memory::TableMemory;
use crate::schema;
use std::path::Path;
use std::time::Duration;
use twinpath_slowpath::PacketBuffer;

/// The function.
pub const FUNCTION: Descriptor = Descriptor {
    name: NAME,
    form: Form::Flow,
    placement: "each packet takes from its flow's bucket, so both paths hold the buckets; excess that is delayed waits on the slow path",
    needs_section: true,
    decides_last: false,
    read: descriptor::read_placed::<RawConfig, Config, ConfigError>,
    schema: schema::of::<RawConfig>,
};

impl FunctionConfig for Config {
    fn descriptor(&self) -> &'static Descriptor {
        &FUNCTION
    }

    fn placement(&self) -> &'static str {
        match self.prefixes {
            None => FUNCTION.placement,
            Some(_) => "flows of a network take from one bucket, and the slow path holds those",
        }
    }

    fn is_for_slow_path(&self) -> bool {
        self.prefixes.is_some()
    }

    fn asks_for_checksums(&self) -> bool {
        false
    }

    fn needs_payload(&self) -> Option<&'static str> {
        None
    }

    fn does_with_headers(&self) -> &'static str {
        match self.excess {
            Excess::Drop => "counts packets and bytes, and lengths are in headers",
            Excess::Delay => {
                "counts packets and bytes, and lengths are in headers; what it delays is headers, while payloads wait in memory"
            }
        }
    }

    fn longest_hold(&self) -> Option<Duration> {
        (self.excess == Excess::Delay).then(|| self.longest_delay.duration())
    }

    fn needs_ports(&self) -> bool {
        true
    }

    fn warnings(&self) -> Vec<ConfigWarning> {
        self.small_burst().into_iter().collect()
    }

    /// Their frames are among the packets that a node has buffers for.
    fn memory(&self, _flows: usize) -> Vec<TableMemory> {
        let limits = self.limits();
        let lines = (self.excess == Excess::Delay).then(|| TableMemory {
            count: limits.all.packets as u64,
            of: "delayed packets",
            bytes: PacketBuffer::bytes(&limits),
            key: "most_packets",
        });
        let buckets = self.prefixes.map(|prefixes| TableMemory {
            count: prefixes.most as u64,
            of: "prefixes",
            bytes: prefixes.bytes() as u64,
            key: "most_prefixes",
        });
        lines.into_iter().chain(buckets).collect()
    }

    fn is_same(&self, other: &dyn FunctionConfig) -> bool {
        other.of() == Some(self)
    }

    fn build(&self, _folder: &Path, seed: u64) -> Result<Function, FunctionError> {
        Ok(Function::flow(RateLimiter::new(self, seed)))
    }
}
