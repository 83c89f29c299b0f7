//! Why the client has no answer.

use std::io;
use std::net::SocketAddr;
use twinpath_nf::kv_store::client::ClientError;
use twinpath_wire::kv::MAX_VALUE_BYTES;

/// Why the client has no answer.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
    /// A key that the protocol cannot carry.
    #[error("a key has 1 to 16 bytes, this one has {0}")]
    KeyLength(usize),
    /// A value that the protocol cannot carry.
    #[error("a value has at most {MAX_VALUE_BYTES} bytes, this one has {0}")]
    ValueLength(usize),
    /// A name without an address.
    #[error("cannot find {server}: {source}")]
    Unknown {
        /// As given.
        server: String,
        /// What the system says.
        source: io::Error,
    },
    /// No socket, or none that reaches the server.
    #[error("cannot talk to {server}: {source}")]
    Socket {
        /// Its address.
        server: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Silence.
    #[error("no answer from {server} after {attempts} attempts in {waited}")]
    NoAnswer {
        /// Its address.
        server: SocketAddr,
        /// How often the request was sent.
        attempts: u32,
        /// For how long, told for people.
        waited: String,
    },
    /// The server's host says that nobody listens.
    #[error(
        "nothing listens at {server}: start a store with twinpath run SERVICE.toml --listen {server}"
    )]
    NobodyThere {
        /// Its address.
        server: SocketAddr,
    },
    /// A request that cannot be made.
    #[error(transparent)]
    Client(#[from] ClientError),
}
