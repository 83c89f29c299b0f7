//! The packet reassembler: TCP segments leave in the order of their sequence numbers
//! (SwitchNIC §2.1, appendix A.1).
//!
//! Whatever stands behind it (an inspector, a recorder, a receiver that is slow with segments out
//! of order) sees each byte of a TCP stream once as new, in order. Both directions of a connection
//! are put in order, each on its own. Nothing is terminated: the ends still talk to each other,
//! and every segment that can be forwarded as it came is.
//!
//! # Configuration
//! The keys are the fields of [`Config`].
//!
//! ```toml
//! [reassembler]
//! overlap = "last"
//! gap_timeout = "200ms"
//! ```
//!
//! `retransmissions = "drop"` is for uses where nothing is lost between Twinpath and the receiver,
//! such as a recorder: a receiver that did lose a segment would never get it again.
//!
//! # On the fast path
//! A segment with ACK, without SYN, FIN, RST or URG, whose checksums hold and that starts at the next
//! expected byte moves that byte on by its length and leaves, so does an acknowledgement without data,
//! once both ends were heard, or while one alone is. What is not TCP leaves unchanged. Everything else goes to the slow
//! path, with the flow's four state words.
//!
//! # On the slow path
//! * **What no receiver takes** is dropped before it changes anything: segments with a bad checksum
//!   (`bad_checksums`), data without ACK (`without_ack`), and what is outside the window of a direction
//!   whose SYN was seen (`outside_window`). Whether an acknowledgement is one of data that was sent is
//!   the [firewall](crate::firewall)'s to check: one in the same element stands in front in both
//!   directions. With `retransmissions = "drop"` it has to, or the service is refused: a segment that
//!   is refused behind the reassembler would count as delivered.
//! * **Opening.** A SYN says what the next byte is. The same SYN again changes nothing. Another one on
//!   a living connection passes and changes nothing either, for its receiver asks about it (RFC 5961
//!   §4, `challenged`). If that receiver answers with a SYN of its own, the addresses and ports are used
//!   again: what is held is released and the flow starts over. That answer also says where the other
//!   direction begins. A SYN is recognised by ten bits of its sequence number that the flags word
//!   keeps.
//! * **Half-open.** Until both ends were heard, and one has acknowledged what the other sent, a
//!   connection is half-open. It is forgotten after `half_open_timeout`, or earlier, where more than
//!   `half_open` of `[slow_path]` are: that which has been silent for longest goes first. While more
//!   than a quarter of `most_segments` is held, such connections hold nothing.
//! * **Mid-stream.** A direction whose SYN was not seen starts at its first segment. Without
//!   data, or with a FIN, a segment starts no *flow*, so that the last packets of a connection
//!   do not bring it back to life.
//! * **Ahead.** Data beyond the next byte is held: the frame itself, no copy. When the gap closes
//!   the held segments leave in order, with the time of the packet that closed it.
//! * **Behind.** Retransmissions of delivered data are governed by `retransmissions`. Always
//!   forwarded are segments without data, keep-alives and window probes (one byte before the next
//!   one), and everything behind in a direction in which bytes may be missing: one that was picked
//!   up mid-stream, where a gap was given up, or of which a function behind had no room for a segment. A retransmission of a segment that is *held* is
//!   dropped as `already_held`.
//! * **Overlaps.** Delivered bytes are never delivered again as new. Where a segment starts before
//!   the next byte, its first part is a retransmission: it leaves as a segment of its own if a
//!   retransmission would be forwarded, otherwise it is cut off. (A sender whose one-byte window
//!   probe was refused sends that byte again with what follows it, so the receiver does need it.)
//!   Among held segments and a new one `overlap` decides. The second part of a segment that is
//!   split gets a copy of the headers. Sequence number, lengths, urgent pointer and checksums are
//!   mended, and a checksum that was wrong stays wrong.
//! * **Giving up.** After `gap_timeout`, at a limit (then including the new segment), and when a
//!   segment lies outside the window of a direction that was picked up, the gap is given up: what is
//!   held leaves in order and the next byte is the one after it. No packet is ever lost for lack of
//!   room. An [inspector](crate::inspector) behind decides what becomes of bytes behind a gap.
//! * **Closing.** A FIN takes a place in the order like a byte. Where a byte of data has the same number
//!   or a later one, whichever comes first, the FIN was none and its number is free for a byte
//!   (`fins_taken_back`): so whoever forges a FIN, or sends one that never arrives, moves and hides
//!   nothing behind it. A RST ends the connection where its
//!   receiver believes it: at the very next byte, or as the answer to a SYN (RFC 5961 §3.2); it leaves
//!   after everything held. One elsewhere in the window passes and ends nothing (`challenged`). When
//!   both directions have delivered their FINs, or after a RST, the flow is remembered for ten seconds
//!   more, so that late segments keep their places; a SYN starts it over.
//! * **Left alone.** Fragments, ICMP errors, and everything that is not TCP.
//!
//! While anything is held the flow is pending: its state stays on the slow path.
//!
//! # Changes
//! Other limits hold from the next segment on, and what is held stays. A shorter `gap_timeout`
//! holds for gaps that are there from their connection's next segment on. When functions beside
//! the reassembler come, go or change places, or the backends of a balancer beside it, what is
//! held leaves in order first, as when a gap is given up.
//!
//! # Counters
//! The counters are the fields of [`Counters`].
//!
//! `gaps_closed` against `gaps_timed_out`, `limits_reached` and `resynchronised` tell how often
//! waiting was worth it.

mod config;
mod counters;
mod cut;
mod descriptor;
mod function;
mod held;
mod overlap;
mod program;
mod segment;
mod state;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, Overlap, Retransmissions, Urgent};
pub use counters::Counters;
pub use descriptor::FUNCTION;
pub use function::Reassembler;

/// The function's name.
pub const NAME: &str = "reassembler";
