//! What the reassembler counts.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What the workers' part of the reassembler has seen and done. The fast path counts its
        /// own packets.
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Calls `each` with every counter's name and value.
            pub fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
                $(each(stringify!($name), self.$name);)+
            }
        }
    };
}

counters! {
    /// Packets forwarded without a look: not TCP, fragments, ICMP errors.
    passed,
    /// Segments without data, SYN, FIN or RST, forwarded at once.
    bare,
    /// Segments with data or FIN that came in order.
    in_order,
    /// Segments that came ahead of their turn and were held.
    held,
    /// Segments released in order: those held, and those that closed the gap before them.
    released,
    /// Gaps that the missing bytes closed.
    gaps_closed,
    /// Gaps given up because a segment behind them had waited long enough.
    gaps_timed_out,
    /// Times that a connection, or all of them, held as much as they may: the gaps were given up.
    limits_reached,
    /// Segments outside the window, from which a direction whose SYN was not seen went on.
    resynchronised,
    /// Segments outside the window of a direction whose SYN was seen, dropped.
    outside_window,
    /// SYNs and RSTs on a living connection that their receiver does not take at their word but
    /// asks about (RFC 5961): forwarded, and nothing changed.
    challenged,
    /// Segments dropped because a checksum did not hold.
    bad_checksums,
    /// Segments with data that acknowledge nothing, which no receiver takes, dropped.
    without_ack,
    /// Segments that had urgent data: the mark was taken off, or they were dropped.
    urgent,
    /// Segments all of whose data had been delivered.
    retransmissions,
    /// Segments, or parts of one, all of whose bytes were held in another.
    already_held,
    /// Segments of which some bytes were cut off because others had them.
    trimmed,
    /// Copies made because the bytes that a segment kept were not in one piece.
    split,
    /// Times that no buffer was free for such a copy: the segment that covers the other won,
    /// whichever came first, or what was held was released before a segment that left whole.
    unsplit,
    /// SYNs that started a direction.
    opened,
    /// Directions that started without a SYN.
    picked_up,
    /// SYNs seen before.
    repeated_opens,
    /// SYNs of a new connection on one that lived.
    reused,
    /// Connections that both ends finished.
    finished,
    /// FINs in the place of a byte of data, which were none: the byte stands there.
    fins_taken_back,
    /// Connections that ended with a RST.
    reset,
    /// Segments without data, or with a FIN or RST, of connections that are not known.
    stray,
    /// Held segments lost with their flow when the workers were reset.
    forgotten,
}
