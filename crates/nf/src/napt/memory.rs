//! What a translation's tables take.

use super::config::Config;
use super::ports::External;
use super::table::Table;
use crate::memory::TableMemory;

impl Config {
    /// What sessions take, and the ports of external addresses.
    pub(crate) fn memory(&self) -> Vec<TableMemory> {
        let (sessions, addresses) = (self.sessions, self.external.len());
        vec![
            TableMemory {
                count: sessions as u64,
                of: "sessions",
                bytes: Table::bytes(sessions),
                key: "sessions",
            },
            TableMemory {
                count: addresses as u64,
                of: "external addresses",
                bytes: External::bytes(addresses),
                key: "external",
            },
        ]
    }
}
