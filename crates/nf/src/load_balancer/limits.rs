//! How much a configuration may ask for.

/// Most rows of the backend table: backends of all services, those added later too. A state word
/// has 16 bits for a row, and the last number would look like no row at all.
pub const MAX_BACKENDS: usize = 65_535;
/// Most services.
pub const MAX_SERVICES: usize = 1024;
/// Most changes of one service's backends.
pub const MAX_CHANGES: usize = 1024;
/// Most entries of all lookup tables together: one table for each service and each of its
/// changes. Two bytes each.
pub const MAX_TABLE_ENTRIES: u64 = 1 << 26;
/// Largest lookup table.
pub const MAX_TABLE_SIZE: u32 = 655_373;
/// Largest weight.
pub const MAX_WEIGHT: u32 = 1000;
