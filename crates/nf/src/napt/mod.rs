//! Network address and port translation (RFC 4787, RFC 5382, RFC 5508, RFC 7857).
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
//! external = ["192.0.2.0/30"]
//! filtering = "address_dependent"
//! timeouts = { udp = "2m" }
//! forward = [
//!     { protocol = "tcp", external = "192.0.2.1:8080", to = "10.0.0.5:80" },
//!     { protocol = "udp", external = "192.0.2.1:27000-27010", to = "10.0.0.5:27000" },
//!     { external = "192.0.2.9", to = "10.0.0.9" },
//! ]
//! ```
//!
//! # What is translated
//! Packets from inside to anywhere else but `untranslated`, and packets to an external address. From inside is what
//! came in from there, by a port or network as the service says, from an address in `inside`. All
//! others pass untouched: between hosts inside, between others, straight from outside to a host
//! inside (that is for a firewall), and of an IP version of which there is no external address.
//! What is not IP, and is let into the chain, passes. VLAN tags are not looked at: hosts
//! of two VLANs that have the same address are one host.
//!
//! - **Ports.** A binding of a port below 1024 gets one of those if one is left. The first free
//!   one is taken from a place on that follows from the inside endpoint and the service's seed; only
//!   if there is none at all, the packet is dropped (`no_port`). No two bindings of a protocol
//!   share an external port. The search takes no longer when most ports are taken.
//! - **Forwards.** With `protocol` (`"tcp"` or `"udp"`) an external port, or a range of them, stands
//!   for a port inside and those behind it; without, a whole address stands for a host with all
//!   its ports, its echoes and protocols without ports. Anyone may open sessions to them, whatever
//!   the filtering; a firewall in front of the translation decides too, by the inside address and
//!   port. The host inside appears with them whenever it sends, so that one inside endpoint
//!   has one external one. They are given to nobody else. A whole address must not be in `external`.
//! - **Blocks.** With `assignment = "deterministic"` hosts in the order of `inside` have blocks of
//!   `ports` in order: as many as fit of the first address in `external`, then of the next. Who had a
//!   port can be computed, and nothing has to be logged. There must be blocks for all hosts. With
//!   `"dynamic"` a host is given a block with its first binding, and another one, up to `per_host`, when
//!   those that it has are full; a block comes back with the last binding in it, and one in which nobody
//!   is alive any more goes to who needs it. What is exported is one record for each block that is given
//!   or comes back (RFC 8158 §5.2), in place of those for bindings.
//! - **Sessions.** For TCP, and for whatever is filtered, the table knows with whom a binding
//!   speaks. A binding ends with its last session. A packet in either direction keeps a session
//!   alive (RFC 4787 REQ-6 allows that of packets from outside).
//! - **Floods.** TCP sessions of which one end alone has been heard are half-open. Where no external port
//!   is left for a TCP connection, those give way that opened first at the addresses which its host may
//!   have, and where the table is full, those that opened first of all, up to 32 for each newcomer: so
//!   segments that nobody answers take ports and sessions from nobody for long. Blocks of ports are
//!   their hosts' own, and the half-open sessions in them give way to no other host.
//! - **TCP.** A session is established when both ends have been heard, and transitory after a
//!   reset or when both have sent FIN; it is what it was before with the next segment
//!   that is no reset (RFC 7857 §2.2). A reset from outside may come from anybody: it counts with
//!   the sequence number that the host has acknowledged last (RFC 5961 §3.2), or if it acknowledges the host's
//!   FIN; a FIN from outside counts when the host has sent its own, and one of them is acknowledged by the other
//!   end. Else they pass and shorten nothing. Cached rules tell what the host's last segment said. A reset
//!   that its receiver takes though it is ahead of that, behind data that the host has not acknowledged yet,
//!   leaves the session for `tcp_established`. From outside only a SYN opens one, to a
//!   binding that is there. An unexpected one is dropped silently (RFC 5382 REQ-4 a).
//! - **Hairpinning.** A host inside that sends to a binding's external endpoint reaches the host
//!   behind it, and appears with its own external endpoint. If filtering holds the packet back, it
//!   has opened a session of its own, so that the other host may send. Echoes are translated so by the
//!   workers; errors about those that nobody has answered are dropped: their one
//!   identifier does not tell both ends. With several shards a packet between hosts of two of them is
//!   translated in each, and meets what is in front of the translation in the sender's, what is behind it in
//!   the receiver's; of an echo the identifier that the receiver has outside is then not known, so that a
//!   request reaches hosts with a whole address of their own alone (`unsolicited`).
//!   Functions in front of the translation see the external endpoint, and those behind it the host that the
//!   packet is for: an [`acl`](crate::acl) behind it decides who inside is reached so, and a
//!   [firewall](crate::firewall) in front of it does not.
//! - **ICMP errors** are translated with the packet that they quote, in both directions and
//!   between hosts inside. Dropped are those about no session, those straight to a host inside,
//!   (`icmp_session`), those for another than the sender of the quoted packet, those with a wrong
//!   checksum (RFC 5508 REQ-3), fragments and redirects. They keep nothing alive. The sequence number of a
//!   quoted TCP segment of a host inside has to be one that may be under way (`icmp_quote`, RFC 5927 §4.1):
//!   that of its SYN while it has sent nothing else; in front of its FIN once that was sent; in between no
//!   farther from that of the host's last segment, on either side, than the largest window that the other end
//!   can grant, which the scale in its SYN tells. A guess hits with a chance of twice that window in 2^32, one
//!   in 256 with a scale of 7. A [firewall](crate::firewall) in the chain knows the window itself. Such an
//!   error waits until cached rules of its session have told of the last segment, and are gone.
//! - **Echoes** have their identifier translated like a port.
//! - **Exhaustion.** A host inside that gets no port or session is told: "communication
//!   administratively prohibited", from the first external address, with the headers of its packet
//!   (RFC 5508 REQ-8).
//! - **Fragments** have no ports, but for the first of a datagram. What a host sends is translated
//!   in any order (RFC 4787 REQ-14) unless `pooling` is arbitrary or some of its ports are
//!   forwarded; of other datagrams those that come before the first are kept until it comes, up
//!   to 256 for up to five seconds. Up to 4096 datagrams are remembered for up to a minute.
//! - **Identifications.** Datagrams over IPv4 that leave from an address that hosts share get another
//!   identification, unless they are atomic (whole, with DF 1): parts of two hosts' datagrams must not
//!   be put together (RFC 7857 §10, RFC 6864 §5.3.1). Each path draws from numbers of its own.
//! - **Checksums** are verified of packets that open a session, and of TCP segments with SYN, FIN or
//!   RST (`bad_checksum`): what no receiver takes must not take a port, or end a session. The others'
//!   are left to the receiver, and so are those of fragments, which none of them tells.
//! - **Dropped** is what cannot be translated: protocols without ports (`untranslatable_protocol`),
//!   their fragments too (`fragment`), unless a whole address stands for the host.
//!
//! # What is cached
//! Cached rules depend on a session, or, if they drop what nobody asked for, on an external
//! port. TCP segments with SYN, FIN or RST make no rules and match none, nor do segments that
//! open a connection. A reset, and an ICMP error about a connection, waits until its session's rules are
//! gone. A rule ends when its
//! session's time-out has passed, that of TCP after the transitory one: the workers then know
//! whether the session is alive.
//!
//! # Changes
//! Any part of the configuration can change while packets flow (`twinpath apply`; forwards one by one
//! with `twinpath change forward`); with several shards, which connections belong to by them,
//! networks inside, external addresses and forwards stay. A change concerns the
//! cached rules of packets from and to addresses, prefixes and forwards that join or leave, and of
//! protocols with another time-out; another filtering, or other blocks, concern all. An operator can end the bindings of an endpoint: its
//! next packet opens new ones. Bindings and sessions stay, those excepted whose external address or
//! host inside is no longer listed, or that forwards or blocks give to others. With stricter
//! filtering, a host has to send again before others may.
//!
//! # Counters
//! | counter | meaning |
//! |---|---|
//! | `bindings`, `sessions` | at the moment |
//! | `bindings_created`, `sessions_created` | ever |
//! | `blocks`, `blocks_given` | of ports, with `assignment = "dynamic"`: at the moment, and ever |
//! | `half_open_forgotten` | half-open sessions that gave way to others |
//! | `ports_exhausted` | packets dropped because no external port was left that the binding may have |
//! | `host_ports_exhausted` | packets dropped because their host has as many ports as it may (`host_limit`) |
//! | `sessions_exhausted` | packets dropped because there were too many sessions |
//! | `host_sessions_exhausted` | packets dropped because their host has as many sessions as it may (`host_limit`) |
//! | `binding_sessions_exhausted` | connections from outside that were dropped because the binding had too many (`host_limit`) |
//! | `errors_sent`, `errors_limited` | ICMP errors to hosts inside, and those that there was no allowance for |
//! | `unsolicited` | packets to an external address that nobody asked for (`unsolicited`), as far as rules have reported |
//! | `not_picked_up` | TCP segments from inside that open nothing |
//! | `packets_with_bad_checksum` | packets other than ICMP errors that were dropped for a wrong checksum |
//! | `hairpinned` | packets between hosts inside that the workers translated |
//! | `errors_translated`, `errors_dropped` | ICMP errors of others |
//! | `icmp_redirects_refused`, `icmp_errors_of_refused_type`, `icmp_errors_with_bad_checksum`, `icmp_errors_for_another`, `icmp_errors_with_bad_quote`, `icmp_errors_out_of_window` | those dropped that are [not believed](crate::icmp_errors); the last are those that quote a segment that its host has not sent, as far as is known |
//! | `fragments_translated` | fragments |
//! | `fragments_held` | those that came before the first of their datagram and were kept |
//! | `fragments_given_up` | of them, those that were dropped in the end: the first was not let through, did not come for five seconds, or there were more than 256 |
//! | `untranslatable` | packets of protocols without ports |

mod change;
pub(crate) mod config;
mod descriptor;
mod edit;
mod function;
mod lists;
mod memory;
mod ports;
mod sharding;
mod sides;
mod table;
mod taken;
mod tcp;
#[cfg(test)]
mod tests;
mod wheel;

/// What a translation between IP versions is made of, too.
pub(crate) mod core {
    pub(crate) use super::Napt;
    pub(crate) use super::function::datagram::Datagram;
    pub(crate) use super::function::fragments::{FragmentTranslation, Part};
    pub(crate) use super::function::icmp_errors::{reason_of, rewrite_error};
    pub(crate) use super::function::plan::{Leg, Stop};
    pub(crate) use super::function::translatable::{Translatable, kind_of, translatable};
    pub(crate) use super::function::{flags_of, set_ends};
    pub(crate) use super::ports::Slot;
    pub(crate) use super::tcp::NatDirection;
}

pub use change::NewNapt;
pub use config::{
    Assignment, BlockAssignment, Blocks, Config, ConfigError, Filtering, ForwardError,
    MAX_ADDRESSES, MAX_SESSIONS, Pooling,
};
pub use descriptor::FUNCTION;
pub use function::Napt;

/// The function's name.
pub const NAME: &str = "napt";
