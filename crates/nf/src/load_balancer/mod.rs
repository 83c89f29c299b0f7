//! Layer-4 load balancer.
//!
//! Clients talk to a *service*: an address, a port and a protocol (TCP or UDP, IPv4 or IPv6).
//! Each connection is given to one of the service's *backends* by [Maglev hashing](maglev), and
//! stays with it for as long as it lives, whatever happens to the others (SwitchNIC §A.1).
//!
//! # Two ways back
//! - `return = "through"`: packets for the service have their destination rewritten to the
//!   backend; the backend's answers, which must come back through Twinpath, have their source
//!   rewritten to the service. A packet from a backend belongs to the connection that the client
//!   has with the service (the balancer tells steering so, as [aliases](twinpath_core::steering)),
//!   and therefore one endpoint cannot be the backend of two such services. What a backend sends
//!   that belongs to no connection passes unchanged.
//! - `return = "direct"`: every backend has the service's address itself (on a loopback
//!   interface, say) and answers the client straight. Only the destination MAC address of packets
//!   for the service is rewritten. Twinpath need not see the answers; if it does, they pass.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [[load_balancer.services]]
//! vip = "192.0.2.1:80"
//! protocol = "tcp"
//! backends = [{ endpoint = "10.1.0.2:8080" }, { endpoint = "10.1.0.3:8080", weight = 2 }]
//! changes = [
//!     { at = "10s", drain = "10.1.0.2:8080" },
//!     { at = "60s", remove = "10.1.0.2:8080" },
//!     { at = "60s", add = "10.1.0.4:8080" },
//! ]
//! ```
//!
//! # Changes
//! A *drained* backend gets no new connections and keeps those that it has; it can be added
//! again, with another weight if need be (`twinpath change backend add` without one keeps its own).
//! When one is *removed*, each of its connections goes to
//! another backend with the client's next packet (and is counted as `reassigned`); connections of
//! other backends are not disturbed, and nothing is remembered of it: if it is added again it is a new
//! one. An *added* backend gets new connections only. Changes take
//! effect by packet time, on both paths at the same packet.
//!
//! Another configuration while packets flow does the same at once: backends that it does not list
//! are removed, those that are `drained` drained, others added; connections to a service that it
//! does not have pass unchanged. Times of `changes` count from the start of the run.
//!
//! # What happens to other packets
//! - To no service: they pass unchanged. Such a flow has one mark in its state, so that the fast
//!   path need not ask again.
//! - From a backend before the client has sent anything, or from another backend than the
//!   connection's: they pass unchanged.
//! - Fragments go where the first of their datagram goes, whose ports tell; those that come before
//!   it [wait for it](twinpath_core::fragments), within limits.
//! - ICMP errors about a connection are translated, the packet that they quote too, in both
//!   directions, so that path MTU discovery works. With direct return they go to the backend. They
//!   must be [believable](crate::icmp_errors): of a type in use (no redirect), for the end that sent
//!   the quoted packet, with right checksums. All others are dropped and counted. The sequence number
//!   of a quoted TCP segment is not checked: two state words have no room for a window. The end whose
//!   segment it is does so (RFC 5927 §4.1), and a [firewall](crate::firewall) in the chain.
//! - A reset closes a connection unless something tells against it: the end that it was for
//!   acknowledges something (a challenge, RFC 5961 §3: the reset was not exact), or the end that is
//!   said to have sent it sends anything else. Two state words have no room for sequence numbers.
//! - Anybody may have sent what a connection began with: it is *half-open* until more is known, and
//!   where there are more than `half_open` of `[slow_path]` those that have been silent for longest are
//!   forgotten. TCP is established when the backend sends data, or acknowledges more than the client's
//!   SYN: an acknowledgement of the client proves nothing, for two state words have no room for the
//!   number that would be right. UDP is when the client goes on after an answer. With direct return
//!   nothing shows that a client hears its server: where there is no room for another connection, one
//!   of those that have been silent for longest is forgotten, unless `pick_up` is `false`; its next
//!   packet is picked up, and goes to the backend that a new connection would get. Before them those go
//!   that are closed or reset. An established connection through Twinpath is never forgotten so.
//! - A FIN counts until the end that is said to have sent it sends data. Two close a connection, and
//!   with direct return the client's alone, for the other is not seen.
//! - No backend for a connection: dropped (`no_backend`).
//! - A connection too many of one client (`per_host_connections`): dropped (`host_limit`).
//!
//! # On the fast path
//! Two state words: row of the backend with flags, and when the last packet came. Packets of live
//! connections are rewritten from a table of backends and a table of services, row by row. To the
//! workers go TCP packets with SYN, FIN or RST, packets of half-open and of closed connections (but not
//! UDP that nobody answers), data of an end that has sent FIN, packets of connections that
//! have been silent for too long, or whose backend is gone, and everything unusual.
//!
//! # Counters
//! All count what the workers did.
//!
//! | counter | meaning |
//! |---|---|
//! | `new_connections` | connections that got a backend; in all, and by backend |
//! | `picked_up` | of these, TCP connections met in mid-connection |
//! | `reassigned` | connections that got another backend, because theirs was gone |
//! | `without_backend` | packets dropped because there was no backend |
//! | `not_picked_up` | packets dropped because their connection is unknown and `pick_up` is `false` |
//! | `connections_over_host_limit` | packets dropped as `host_limit` |
//! | `packets_with_bad_checksum` | packets other than ICMP errors that were dropped for a wrong checksum |
//! | `errors_translated` | ICMP errors about a connection |
//! | `unexpected_replies` | packets from a service that belong to no connection of their sender |
//! | `icmp_redirects_refused`, `icmp_errors_of_refused_type`, `icmp_errors_with_bad_checksum`, `icmp_errors_for_another`, `icmp_errors_with_bad_quote`, `icmp_errors_out_of_window` | ICMP messages that were [refused](crate::icmp_errors); the last is 0, for no window is known here |

mod backends;
mod choice;
pub mod config;
mod connection;
mod descriptor;
mod edit;
pub mod error;
mod function;
mod icmp_errors;
mod limits;
pub mod maglev;
mod migration;
mod program;
mod protocol;
mod schedule;
#[cfg(test)]
mod tests;
mod values;

pub use config::Config;
pub use descriptor::FUNCTION;
pub use error::ConfigError;
pub use function::LoadBalancer;
pub use limits::{
    MAX_BACKENDS, MAX_CHANGES, MAX_SERVICES, MAX_TABLE_ENTRIES, MAX_TABLE_SIZE, MAX_WEIGHT,
};
pub use protocol::Protocol;

/// The function's name.
pub const NAME: &str = "load_balancer";
