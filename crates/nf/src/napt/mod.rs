//! Network address and port translation (RFC 4787, RFC 5382, RFC 5508).
//!
//! Hosts inside share a few external addresses. The first packet that an inside endpoint sends
//! out gives it a *binding*: an external address and port that stand for it, whomever it talks
//! to (endpoint-independent mapping), until it has been silent for long enough.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [napt]
//! inside = ["10.0.0.0/8"]
//! external = ["192.0.2.1", "192.0.2.2"]
//! filtering = "address_dependent"
//! timeouts = { udp = "2m" }
//! ```
//!
//! # What is translated
//! Packets from inside to anywhere else, and packets to an external address. All others pass
//! untouched: between hosts inside, between others, and of an IP version of which there is no
//! external address. What is not IP passes.
//!
//! - **Ports.** A binding keeps its port if that is free, also below 1024. Otherwise it gets
//!   another: below 1024 if its own is and one is left, of the same parity if there is one, else
//!   any. The first free one is taken from a place on that follows from the inside endpoint; only
//!   if there is none at all, the packet is dropped (`no_port`). No two bindings of a protocol
//!   share an external port. The search takes no longer when most ports are taken.
//! - **Sessions.** For TCP, and for whatever is filtered, the table knows with whom a binding
//!   speaks. A binding ends with its last session. A packet in either direction keeps a session
//!   alive (RFC 4787 REQ-6 allows that of packets from outside).
//! - **TCP.** A session is established when both ends have been heard, and transitory after a
//!   reset or when both have sent FIN. From outside only a SYN opens one, to a binding that is
//!   there. An unexpected one is dropped silently (RFC 5382 REQ-4 a).
//! - **Hairpinning.** A host inside that sends to a binding's external endpoint reaches the host
//!   behind it, and appears with its own external endpoint.
//! - **ICMP errors** are translated with the packet that they quote, in both directions and
//!   between hosts inside; those about no session are dropped. They keep nothing alive.
//! - **Echoes** have their identifier translated like a port.
//! - **Fragments** are translated if the first of their datagram, which alone has ports, comes
//!   before the others (RFC 4787 REQ-14 a); those that come before it are dropped
//!   (`fragment`), for they would have to be kept. Up to 4096 datagrams are remembered for up to a
//!   minute.
//! - **Dropped** is what cannot be translated: protocols without ports (`denied`), their fragments
//!   too (`fragment`).
//!
//! # What is cached
//! Cached rules depend on a session, or, if they drop what nobody asked for, on an external
//! port. TCP segments with SYN, FIN or RST make no rules and match none, nor do segments that
//! open a connection. A rule ends when its session's time-out has passed, that of TCP after the
//! transitory one: the workers then know whether the session is alive.
//!
//! # Changes
//! Any part of the configuration can change while packets flow ([`NewNapt`], with a
//! [`Reconfiguration`](twinpath_rulecache::Reconfiguration)). That concerns the cached rules of packets from and to
//! addresses and prefixes that join or leave, and of protocols with another time-out; another
//! filtering concerns all. An operator can end the bindings of an endpoint: its next packet opens
//! new ones. Bindings and sessions
//! stay, those of external addresses or hosts inside that are no longer listed excepted. With
//! stricter filtering, a host has to send again before others may.
//!
//! # Counters
//! | counter | meaning |
//! |---|---|
//! | `bindings`, `sessions` | at the moment |
//! | `bindings_created`, `sessions_created` | ever |
//! | `ports_exhausted` | packets dropped because no external port was left that the binding may have |
//! | `sessions_exhausted` | packets dropped because there were too many sessions |
//! | `unsolicited` | packets to an external address that nobody asked for, as far as rules have reported |
//! | `not_picked_up` | TCP segments from inside that open nothing |
//! | `hairpinned` | packets between hosts inside that the workers translated |
//! | `errors_translated`, `errors_dropped` | ICMP errors |
//! | `fragments_translated` | fragments |
//! | `fragments_early` | those that came before the first of their datagram, or long after it |
//! | `untranslatable` | packets of protocols without ports |

mod change;
mod config;
mod descriptor;
mod function;
mod ports;
mod sides;
mod table;
mod taken;
mod tcp;
#[cfg(test)]
mod tests;
mod wheel;

pub use change::NewNapt;
pub use config::{Config, ConfigError, Filtering, MAX_ADDRESSES, MAX_SESSIONS, Pooling};
pub use descriptor::FUNCTION;
pub use function::Napt;
pub use ports::{Kind, KindError};

/// The function's name.
pub const NAME: &str = "napt";
