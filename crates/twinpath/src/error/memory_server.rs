//! Why there is no memory server.

use twinpath_control::report::units;
use twinpath_ports::OpenError;

/// Why there is no memory server.
#[derive(Debug, thiserror::Error)]
pub enum MemoryServerError {
    /// More than the machine has.
    #[error(
        "--memory of {} is more than the {} that this machine has left",
        units::bytes(*bytes),
        units::bytes(*available)
    )]
    Memory {
        /// What was asked for.
        bytes: u64,
        /// What there is.
        available: u64,
    },
    /// Not even one packet has room.
    #[error("--memory of {bytes} bytes: expected room for a packet of {mtu}, or a smaller --mtu")]
    TooLittle {
        /// What was asked for.
        bytes: u64,
        /// The most payload of a packet.
        mtu: u16,
    },
    /// Packets would be longer than the interface sends.
    #[error(
        "--mtu {mtu}: expected at most {fitting}, which the MTU of {device} leaves for payload"
    )]
    Mtu {
        /// What was asked for.
        mtu: u16,
        /// What fits.
        fitting: u16,
        /// The interface.
        device: String,
    },
    /// The interface.
    #[error(transparent)]
    Port(OpenError),
    /// The kernel would answer, too.
    #[error(
        "--address {address}: {device} of this host has it, whose kernel would answer what is for the memory server: expected another one"
    )]
    OwnAddress {
        /// What was asked for.
        address: std::net::IpAddr,
        /// Which interface has it.
        device: String,
    },
    /// The system does not tell its addresses.
    #[error("cannot ask for this host's addresses: {0}")]
    Addresses(std::io::Error),
    /// The card.
    #[cfg(feature = "verbs")]
    #[error(transparent)]
    Card(#[from] twinpath_verbs::CardError),
    /// The operating system gives no random numbers, of which keys are made.
    #[error("cannot draw a key: {0}")]
    Random(getrandom::Error),
}
