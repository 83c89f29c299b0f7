//! Translation between IPv6 hosts and IPv4 (RFC 6146), with the headers of RFC 7915.
//!
//! Hosts inside have IPv6 alone. They reach an IPv4 host by an address that has it behind a prefix
//! (RFC 6052; a DNS64 tells them so), and appear there with one of a few external addresses and a
//! port: bindings and sessions are those of an [address translation](crate::napt).
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [nat64]
//! inside = ["2001:db8:1::/48"]
//! external = ["192.0.2.0/28"]
//! forward = [
//!     { protocol = "tcp", external = "192.0.2.1:8080", to = "[2001:db8:1::5]:80" },
//!     { external = "192.0.2.17", to = "2001:db8:1::9" },
//! ]
//! ```
//!
//! # What is translated
//! Packets from hosts inside to addresses behind the prefix, and packets to an external address. All
//! others pass untouched.
//!
//! - **Ports, sessions, filtering, limits, time-outs, resets, checksums** are as [there](crate::napt#what-is-translated).
//! - **Forwards** are as [there](crate::napt#what-is-translated), from an IPv4 address or port to one of
//!   IPv6 inside; a whole address stands for a host with its ports and echoes, not with other protocols.
//! - **Identifications.** What leaves as IPv4 and is not atomic gets one as
//!   [there](crate::napt#what-is-translated) (RFC 7915 §5.1); others have 0.
//! - **Headers.** The time to live is one less; extension headers are left out, but for one of a
//!   fragment; options are left out, and with a source route that is not over the packet is dropped.
//!   Checksums are mended; UDP over IPv4 without one gets one, unless it comes in parts.
//! - **Length.** A packet to IPv6 is longer by 20 bytes. One that would not fit `mtu` is answered
//!   with "fragmentation needed" where it may not be fragmented (RFC 4787 REQ-13); one that may is
//!   fragmented if it would not fit `lowest_mtu` (RFC 7915 §4).
//! - **Fragments** are translated as those of an [address translation](crate::napt#what-is-translated);
//!   those of ICMP are dropped, for their checksum covers a length that is not known, but between hosts
//!   inside.
//! - **ICMP errors** are translated with the packet that they quote, if both have a counterpart, they
//!   are [believed](crate::icmp_errors) and about a session that is alive (else `icmp_session`). A
//!   quoted TCP segment has to be one that its host can have sent, as behind an
//!   [address translation](crate::napt).
//! - **Hairpinning.** A host that sends to an external address behind the prefix reaches the host
//!   that has it, over IPv6; so do fragments, and ICMP errors about what was so sent. Errors about echoes
//!   do not: an echo has one identifier, its sender's if it asks. With several shards packets between hosts of
//!   two of them are dropped (`other_shard`).
//!   An [`acl`](crate::acl) behind the translation decides who inside is reached so, and a
//!   [firewall](crate::firewall) in front of it does not, as it sees the external address.
//! - **Dropped** is what cannot be translated: other protocols, and with the well-known prefix
//!   addresses that mean something on one network only (RFC 6052 §3.1): `untranslatable_protocol`,
//!   `untranslatable_address`, and for whatever else has no counterpart `untranslatable`.
//!
//! # What is cached
//! Packets that pass. What is translated changes its IP version, which no rule can write: it takes
//! the slow path.
//!
//! # Changes
//! The configuration can change while packets flow, as that of [`napt`](crate::napt) does: bindings
//! stay whose hosts and external addresses do. With another `prefix` all cached rules go, and hosts
//! that know the former one are no longer translated.
//!
//! # Counters
//! | counter | meaning |
//! |---|---|
//! | `translated_out`, `translated_in` | packets to IPv4, and to IPv6 |
//! | `hairpinned` | packets between hosts inside |
//! | `errors_translated`, `errors_dropped` | ICMP errors of others |
//! | `icmp_redirects_refused`, `icmp_errors_of_refused_type`, `icmp_errors_with_bad_checksum`, `icmp_errors_for_another`, `icmp_errors_with_bad_quote`, `icmp_errors_out_of_window` | those dropped that are [not believed](crate::icmp_errors); the last are those that quote a segment that its host has not sent, as far as is known |
//! | `fragmented` | packets that were too long, and could be fragmented |
//! | `too_long` | packets that could not: their senders are told |
//! | `untranslatable` | packets other than ICMP errors that were dropped because they have no counterpart |
//! | `errors_sent`, `errors_limited` | ICMP errors of its own, and those that there was no allowance for |
//! | `bindings`, `sessions` | at the moment |
//! | `bindings_created`, `sessions_created` | ever |
//! | `ports_exhausted`, `host_ports_exhausted` | packets dropped because no external port was left, or the host has as many as it may |
//! | `half_open_forgotten` | half-open TCP sessions that gave way to others where no port or no room was left |
//! | `sessions_exhausted`, `host_sessions_exhausted`, `binding_sessions_exhausted` | packets dropped because there were too many sessions, in all, of the host or of the binding |
//! | `unsolicited` | packets to an external address that nobody asked for (`unsolicited`) |
//! | `not_picked_up` | TCP segments from inside that open nothing |
//! | `packets_with_bad_checksum` | packets other than ICMP errors that were dropped for a wrong checksum |
//! | `fragments_held`, `fragments_given_up` | fragments that came before the first of their datagram, and those of them that were dropped in the end |

mod change;
mod config;
mod datagram;
mod descriptor;
mod ends;
mod errors;
mod fragmenting;
mod function;
mod icmp;
mod prefix;
mod settings;
#[cfg(test)]
mod tests;

pub use change::NewNat64;
pub use config::{Config, ConfigError};
pub use descriptor::FUNCTION;
pub use function::Nat64;

/// The function's name.
pub const NAME: &str = "nat64";
