//! What a translation's tables take.

use super::config::Config;
use super::ports::{BlockTable, External};
use super::table::Table;
use crate::memory::TableMemory;

impl Config {
    /// What sessions take, and the ports of external addresses.
    pub(crate) fn memory(&self) -> Vec<TableMemory> {
        let (sessions, addresses) = (self.sessions, self.external.len());
        let bytes_of = |settings| BlockTable::bytes(settings, self.shared);
        let blocks = self.dynamic.as_ref().map_or(0, bytes_of);
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
                bytes: External::bytes(addresses) + blocks,
                key: "external",
            },
        ]
    }
}
