//! The interfaces that a capture's packets came from.

/// An interface as a capture describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name (pcapng's `if_name`), if the capture has one. A classic pcap never has.
    pub name: Option<String>,
    /// LINKTYPE number of its packets as the file holds them; whoever reads them gets Ethernet.
    pub link_type: u32,
    /// What its timestamps count.
    pub resolution: Resolution,
}

/// The unit in which timestamps are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// A second divided by this power of ten: 6 for microseconds, 9 for nanoseconds.
    Decimal(u8),
    /// A second divided by this power of two.
    Binary(u8),
}

impl Resolution {
    /// Millionths of a second, what pcapng means where it says nothing.
    pub const MICROSECONDS: Self = Self::Decimal(6);
    /// Billionths of a second.
    pub const NANOSECONDS: Self = Self::Decimal(9);
}
