//! Key-value store.
//!
//! The network itself is the store (SwitchNIC §A.1): requests of the [key-value
//! protocol](twinpath_wire::kv) to one UDP port are answered by Twinpath and go no further. A
//! request names an operation (get, put, delete), a key of 16 bytes and a value of up to 128
//! bytes; the reply goes back to the client, with the request's sequence number.
//!
//! The flow is the *key*, not the connection: whoever asks for a key meets the same state, on the
//! same worker and in the same slot of the fast path. A key-value store therefore has a service
//! for itself; it cannot share a chain with functions whose flows are connections.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [kv_store]
//! port = 11211
//! ```
//!
//! How many keys the store takes is the number of flows that the workers may know (`flows` in
//! `[slow_path]`); a put beyond it is dropped and counted (`flow_table_full`), and the client times
//! out. Entries never expire.
//!
//! # On the fast path
//! 33 state words: the value's length plus one (0 if there is none), and the value, padded with
//! zeros. Everything about a key is simple: a get answers with the words, a put replaces them, a
//! delete clears them; so reads *and* writes of frequent keys never reach the workers. What the
//! request carries beyond its operation's need (a value in a get or delete, a status) is ignored.
//! Only a delete that carries a value, and a put or delete with a wrong checksum, go to the slow path.
//!
//! # Changes
//! Keys keep their values when the port changes.
//!
//! # What happens to other packets
//! - Replies sent to the port are dropped (`bad_request`).
//! - Datagrams to the port that are no request are answered with "bad request" or "too large" if
//!   they are the protocol's and have a header to answer with; otherwise they are dropped
//!   (`bad_request`).
//! - Puts and deletes with a wrong checksum are dropped (`bad_checksum`): a damaged key or value would
//!   be stored for all to read. `verify_checksums = "none"` is for where that cannot be told.
//! - First fragments to the port are dropped (`fragment`): a request fits any packet.
//! - Everything else passes unchanged, on the slow path.
//!
//! # Counters
//! The function counts what the workers did; a report adds what the fast path [answered](Answers) alone.
//!
//! | counter | meaning |
//! |---|---|
//! | `gets`, `puts`, `deletes` | requests of each kind |
//! | `hits` | gets that found a value |
//! | `too_large` | puts of more bytes than the store takes |
//! | `bad_requests` | datagrams to the port that are no request |
//! | `answered` | of these, those that were told so |
//! | `packets_with_bad_checksum` | puts and deletes dropped for a wrong checksum |
//!
//! # Speaking to it
//! [`client`] is a client without sockets and clocks: it builds requests, matches replies, and
//! repeats what got no answer.

mod answers;
pub mod client;
mod config;
mod descriptor;
mod function;
mod program;
#[cfg(test)]
mod tests;

pub use answers::Answers;
pub use config::{Config, PortZero};
pub use descriptor::FUNCTION;
pub use function::KvStore;

/// The function's name.
pub const NAME: &str = "kv_store";
