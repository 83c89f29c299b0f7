//! A stateful firewall.
//!
//! Rules decide about the first packet of a connection. Once it is allowed, all packets of the
//! connection pass, in both directions, for as long as they make sense as part of it: a TCP
//! segment must suit the connection's state and lie in its windows. What is denied is dropped
//! silently and leaves no state, so that the rules see its next packet too. (The firewall of
//! SwitchNIC §A.1 keeps one bit, whether a connection is allowed; this one keeps what a firewall
//! in the field does.)
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! What a rule does not say matches everything, and the first rule that matches decides.
//!
//! ```toml
//! [firewall]
//! default = "deny"
//! rules = [
//!     { action = "deny", protocol = "tcp", to_port = 25 },
//!     { action = "allow", protocol = "tcp", from = "10.0.0.0/8", to_port = "80,443,8000-8100" },
//!     { action = "allow", protocol = "udp", from = "10.0.0.0/8", to = "192.0.2.53", to_port = 53 },
//!     { action = "allow", protocol = "icmp", from = "10.0.0.0/8" },
//!     { action = "allow", protocol = "icmp6" },                # neighbour discovery is ICMPv6 too
//! ]
//! timeouts = { tcp_established = "5d", udp_unreplied = "10s" }
//! ```
//!
//! A rule with `ingress` matches connections whose first packet comes in by that one of the node's
//! ports, by the name that `ports` in `[service]` gives it; other rules match whichever port it comes
//! in by. Later packets of a connection, and its answers, may come in by any. Not to be confused with
//! `from_port` and `to_port`, which are those of TCP and UDP.
//!
//! A connection is known by its addresses, ports and protocol alone: all VLANs of a trunk share it. What
//! one VLAN may hear of a connection that another has opened, it may answer, too.
//!
//! ```toml
//! [service]
//! ports = ["lan", "uplink"]
//!
//! [firewall]
//! rules = [{ action = "allow", ingress = "lan" }] # who is outside opens no connection
//! ```
//!
//! # On the fast path
//! Data and acknowledgements of an established TCP connection that lie in its windows, in either
//! direction, and leave no gap; UDP, echoes and other protocols whose opener has gone on after an
//! answer; and what their opener sends until they are answered. Segments with SYN, FIN or RST are for the slow path always, and so are fragments
//! and ICMP errors. A flow has eleven state words: its stage, the time of its last packet, its
//! time-out, and for each direction the highest byte sent, the highest that may be sent, the
//! largest window, and the highest byte acknowledged. A switch ASIC has not enough registers and
//! conditions for that.
//!
//! # On the slow path
//! * **TCP states.** From SYN sent to time wait, simultaneous open and half-closed connections
//!   included; the file `tcp_state.txt` beside the code has the whole table. In time wait, and
//!   after a reset, a SYN from either end is the first packet of a new connection.
//! * **Windows.** The bounds of van Rooij (2001): a segment ends within the window that its
//!   receiver has offered, and not more than one window before what was sent already; it
//!   acknowledges nothing that was not sent. What it acknowledges lies at most a window (66,000
//!   bytes at least, 1 MiB at most) before what was acknowledged already (RFC 5961 §5), so that
//!   who does not see the connection has to guess two numbers, one of them of 4,096 ranges, however
//!   large the windows. Windows are scaled if both SYNs say so; a closed window counts as one byte,
//!   for probes.
//! * **Resets** count only if their number is the one that their receiver expects (RFC 5961 §3):
//!   what it has acknowledged, or the end of what was sent to it, unless a segment before that end
//!   was not seen and its receiver has not acknowledged all of it since. They leave the connection closed:
//!   segments in its windows still pass, but not after `tcp_closed`. A reset elsewhere in the window
//!   passes and changes nothing, as in Linux: its receiver challenges it, and a sender that has
//!   really gone answers with one that is right. (Dropping it, as pf does, would leave that receiver
//!   waiting where the firewall has missed the sender's last segments.) One outside is dropped, and
//!   one that answers a SYN must acknowledge it.
//! * **A FIN** ends its half of the connection where it is the next of its end. One elsewhere in the
//!   window passes and counts as data (who guesses numbers does not end a connection), until the other
//!   end has acknowledged it and all before it; meanwhile the connection stays on the slow path.
//! * **A SYN in a living connection** passes and changes nothing. An end that has lost its memory
//!   gets the other's acknowledgement in answer and resets the connection itself.
//! * **SYNs that wait for an answer**: of several with other numbers the first and the last are
//!   kept, and an answer to either is right. Nothing but a SYN that acknowledges one of them moves
//!   the connection on, and nothing but an acknowledgement of that makes it established: a SYN from
//!   the responder that acknowledges nothing passes (both may open at once) and is not believed.
//! * **Mid-stream.** A connection that is picked up may use any window scale, so the largest is
//!   assumed, and its first segment may be one that is sent again: the other end may acknowledge
//!   32 MiB behind it. It is established when the other end has been heard too, and the first has
//!   acknowledged about what that has sent last (at most a window behind it, 66,000 bytes at least,
//!   1 MiB at most): who does not hear it does not know that number.
//! * **Everything else** passes for a connection, which is established when its opener goes on after
//!   an answer: two endpoints for UDP, two addresses and an
//!   identifier for echoes (either end may ask), two addresses for other protocols. A firewall
//!   with `pick_up = false` drops an echo reply that nobody asked for.
//! * **ICMP errors** pass if they quote a packet of a known connection that can be under way: of TCP
//!   one that was sent and is not acknowledged yet (RFC 5927 §4.1). Others need a rule that allows
//!   them: `default = "allow"` does not. None passes that is for another than the sender of what it
//!   quotes, whose checksum or quoted IPv4 checksum is wrong, or whose type is out of use (source
//!   quench) or whose code has no meaning; redirects pass only with `redirects = true`.
//! * **Fragments** belong to the connection of their datagram, whose first one has the ports: it
//!   decides, the others pass while the connection is known, and of TCP their bytes are counted.
//!   Those that come before the first [wait for it](twinpath_core::fragments), within limits, and
//!   what overlaps is dropped. Checksums of fragmented packets are not verified. A SYN or a reset in
//!   fragments is dropped (`fragment`).
//!
//! # In front of a translation
//! A host inside that sends to another one's external address (of [`napt`](crate::napt),
//! [`nptv6`](crate::nptv6) or [`nat64`](crate::nat64)) meets a firewall in front of the translation with
//! that address, and the host that it stands for never: rules about addresses inside do not decide there,
//! which `validate` warns of. An [`acl`](crate::acl) behind the translation sees whom such packets are
//! for, so in `chain = ["firewall", "napt", "acl", "router"]` one with the same `to` stops them. What
//! the receiver answers is sent to an external address, too, and is the first packet of another
//! connection for the firewall: rules have to allow what hosts inside send, `pick_up = false` refuses
//! it (`invalid_state`), and a reset with which a closed port answers is dropped. Where hosts inside
//! reach each other so and that matters, an `acl` in front of the translation does, too, which keeps no
//! state.
//! # Changes
//! Other rules decide about connections that are met from then on: those that are known were
//! allowed and go on, where their state is, as operators of stateful firewalls expect. (To judge all of them again,
//! leave the firewall out of the chain and put it back.) Other time-outs hold for a connection
//! from its next packet on.
//!
//! # Under attack
//! A connection is *half-open* until both ends are known to take part: TCP until the opener has
//! acknowledged what the responder sent, others until the opener has gone on after an answer.
//! Where there are more than `half_open` of `[slow_path]` those that have been silent for longest are
//! forgotten. Where there is no room for another connection one that has expired, one that is over
//! (closed by a reset, or in time wait), or a half-open one gives its place; an established connection
//! never does.
//!
//! # Drops and counters
//! Packets are dropped as `denied` (by a rule, by default, or ICMP errors about nothing known),
//! as `host_limit` (a connection too many of one host),
//! as `invalid_state` (segments that suit neither state nor windows), and, where they are ICMP
//! errors that nobody should believe, as `icmp_type`, `icmp_recipient`, `icmp_quote` or
//! `bad_checksum`. Other packets are dropped as `bad_checksum` where checksums are verified. These
//! counters are of the workers:
//!
//! | counter | meaning |
//! |---|---|
//! | `connections_opened` | connections that were allowed, of any protocol |
//! | `connections_picked_up` | of these, TCP connections met in mid-stream |
//! | `connections_over_host_limit` | packets dropped as `host_limit` |
//! | `packets_denied` | packets dropped as `denied` |
//! | `packets_invalid` | packets dropped as `invalid_state` |
//! | `segments_out_of_window` | segments outside the windows, whether dropped or, if `liberal`, forwarded; among them resets of a host that closed while segments were under way to it, of numbers before its FIN, which the other end ignores too |
//! | `segments_challenged` | resets and SYNs that passed and changed nothing |
//! | `packets_with_bad_checksum` | packets other than ICMP errors whose checksum is wrong |
//! | `icmp_errors_related` | ICMP errors about known connections |
//! | `icmp_errors_unrelated` | ICMP errors about nothing known, whether a rule allowed them or not |
//! | `icmp_redirects_refused`, `icmp_errors_of_refused_type`, `icmp_errors_with_bad_checksum`, `icmp_errors_for_another`, `icmp_errors_with_bad_quote`, `icmp_errors_out_of_window` | ICMP messages that were [refused](crate::icmp_errors) |

pub mod config;
mod connection;
pub(crate) mod cover;
mod decided;
mod descriptor;
pub(crate) mod edit;
mod errors;
mod function;
mod handshake;
mod packets;
mod program;
pub mod rule;
mod rules;
mod segment;
mod tcp;
mod tcp_state;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use segment::window_scale;

pub use config::{Config, Verify};
pub use cover::Opening;
pub use descriptor::FUNCTION;
pub use function::Firewall;

/// The function's name.
pub const NAME: &str = "firewall";
