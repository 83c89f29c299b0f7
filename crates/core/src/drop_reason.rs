//! Why a packet was dropped.

use crate::dash_reason::DashReason;
use crate::wire::Unparsed;
use crate::wire::malformed::Malformed;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $reason:ident => $name:literal, $kind:ident;)+) => {
        /// Why a packet was dropped. Every drop in Twinpath is one of these, and is counted.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        pub enum DropReason {
            /// The bytes are no valid packet.
            Malformed(Malformed),
            /// No IP packet was found in it, and such frames are not forwarded.
            Unparsed(Unparsed),
            /// A DPU drops it; for which ENI, the DPU's own counters say.
            Dash(DashReason),
            $($(#[doc = $doc])+ $reason,)+
        }

        const PLAIN: &[DropReason] = &[$(DropReason::$reason,)+];

        enum Index {
            $($reason,)+
        }

        impl DropReason {
            /// The reason's place in [`Self::all`]: what counters are indexed by.
            pub fn index(self) -> usize {
                match self {
                    Self::Malformed(malformed) => PLAIN.len() + malformed as usize,
                    Self::Unparsed(what) => PLAIN.len() + Malformed::ALL.len() + what as usize,
                    Self::Dash(why) => {
                        PLAIN.len() + Malformed::ALL.len() + Unparsed::ALL.len() + why as usize
                    }
                    $(Self::$reason => Index::$reason as usize,)+
                }
            }

            /// What the reason is: a decision about the packet, or a loss.
            pub const fn kind(self) -> DropKind {
                match self {
                    Self::Malformed(_) | Self::Unparsed(_) => DropKind::Decision,
                    Self::Dash(why) if why.is_loss() => DropKind::Loss,
                    Self::Dash(_) => DropKind::Decision,
                    $(Self::$reason => DropKind::$kind,)+
                }
            }

            /// The reason's name in reports and metrics: snake case.
            pub fn name(self) -> &'static str {
                match self {
                    Self::Malformed(malformed) => malformed.name(),
                    Self::Unparsed(what) => what.name(),
                    Self::Dash(why) => why.drop_name(),
                    $(Self::$reason => $name,)+
                }
            }

            /// What the reason means, in a sentence or two.
            pub fn meaning(self) -> &'static str {
                match self {
                    Self::Malformed(malformed) => malformed.meaning(),
                    Self::Unparsed(what) => what.meaning(),
                    Self::Dash(why) => why.meaning(),
                    $(Self::$reason => concat!($($doc,)+).trim_ascii_start(),)+
                }
            }
        }
    };
}

/// What a drop reason is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DropKind {
    /// Somebody decided about the packet, or the reason lies in it.
    Decision,
    /// The packet was lost for want of room or by a fault.
    Loss,
}

reasons! {
    /// The frame is longer than the largest buffer.
    FrameTooLong => "frame_too_long", Loss;
    /// No free buffer in the pool.
    NoBuffer => "no_buffer", Loss;
    /// The ring towards a worker was full: the slow path is overloaded (live traffic only; a replay
    /// waits instead).
    PuntRingFull => "punt_ring_full", Loss;
    /// As many packets wait for a DPU's policies as may, those of one flow or of one ENI, whose share of the
    /// room is as large as what the others leave. Counted for that ENI, too.
    AnswerBacklogFull => "answer_backlog_full", Loss;
    /// What a DPU's policies said of it came when it was no longer waited for: those behind it have gone on.
    AnswerLate => "answer_late", Loss;
    /// The workers know as many flows as they may.
    FlowTableFull => "flow_table_full", Loss;
    /// An inspector remembers as many streams of which something is half seen as it may.
    StreamTableFull => "stream_table_full", Loss;
    /// An address translation knows as many sessions as it may.
    SessionTableFull => "session_table_full", Loss;
    /// As many packets wait in a function's lines as may, those of all flows together.
    BufferFull => "buffer_full", Loss;
    /// More than the rate that a limiter gives its flow, and not to be delayed, or its line is full.
    RateLimited => "rate_limited", Decision;
    /// A rule of a firewall or access list denies it, or the default does.
    Denied => "denied", Decision;
    /// A segment outside the connection's window, or a packet that its state does not allow.
    InvalidState => "invalid_state", Decision;
    /// The inspector has banned the flow.
    Banned => "banned", Decision;
    /// All bytes of the segment were delivered before.
    AlreadyDelivered => "already_delivered", Decision;
    /// All bytes of the segment are held in another copy, which waits for those before them.
    AlreadyHeld => "already_held", Decision;
    /// No backend is left for this service.
    NoBackend => "no_backend", Decision;
    /// A fragment where the function needs the transport header.
    Fragment => "fragment", Decision;
    /// A key-value request that cannot be read.
    BadRequest => "bad_request", Decision;
    /// A frame on the link that is no link message, or is about what its receiver does not have.
    BadLinkFrame => "bad_link_frame", Loss;
    /// A packet that was on the link while the chain became another.
    AnotherChain => "another_chain", Loss;
    /// A packet with no room in front of it for the link's header.
    NoHeadroom => "no_headroom", Loss;
    /// A frame on the link whose number is older than one already received.
    LinkReordered => "link_reordered", Loss;
    /// No route to the destination, or one that discards.
    NoRoute => "no_route", Decision;
    /// The time to live, or hop limit, has ended.
    TimeToLive => "time_to_live", Decision;
    /// Longer than the link that it was to leave by carries, and not to be fragmented: its sender
    /// is told.
    TooLong => "too_long", Decision;
    /// No external port is left for an address translation.
    NoPort => "no_port", Loss;
    /// It has passed the chain, and there is no port that it is to leave by: the service names none
    /// of that number, or no function has chosen one of several.
    NoEgress => "no_egress", Loss;
    /// The queue in which payloads are parked had no room.
    ParkingFull => "parking_full", Loss;
    /// A packet's payload did not come back from remote memory: it was lost on its way, or with its
    /// server, or had lost its place there to others.
    PayloadLost => "payload_lost", Loss;
    /// A payload that was parked or in remote memory was given up, because its header did not come back
    /// in time.
    HeaderMissing => "header_missing", Loss;
    /// A header came back from the slow path with more bytes than fit in front of its payload.
    HeaderTooLong => "header_too_long", Loss;
    /// Too many packets waited on a worker for cached rules to go.
    RuleBacklogFull => "rule_backlog_full", Loss;
    /// A worker crashed while it had the packet.
    WorkerCrashed => "worker_crashed", Loss;
    /// The run ended while the packet was inside, for it could not come to its end.
    RunEnded => "run_ended", Loss;
    /// The checksum of the transport header is wrong.
    BadChecksum => "bad_checksum", Decision;
    /// An ICMP error of a type that is not let through.
    IcmpType => "icmp_type", Decision;
    /// An ICMP error for another than the sender of the packet that it quotes.
    IcmpRecipient => "icmp_recipient", Decision;
    /// An ICMP error that quotes a packet which cannot be under way.
    IcmpQuote => "icmp_quote", Decision;
    /// An ICMP error about no session that an address translation knows.
    IcmpSession => "icmp_session", Decision;
    /// To an external address of a translation, for no binding or refused by its filtering.
    Unsolicited => "unsolicited", Decision;
    /// Between hosts inside that belong to two shards, by an external address, through a translation that knows
    /// each in its own shard alone (nat64).
    OtherShard => "other_shard", Decision;
    /// Of a protocol without ports, or an ICMP message, that an address translation cannot translate.
    UntranslatableProtocol => "untranslatable_protocol", Decision;
    /// From or to an address that a translation cannot translate (RFC 6296 §3, RFC 6052 §3.1).
    UntranslatableAddress => "untranslatable_address", Decision;
    /// It has no counterpart in the other IP version (RFC 7915).
    Untranslatable => "untranslatable", Decision;
    /// Its source is inside, or what a translation gives out to hosts inside, but it came in by a port
    /// outside (`source_check` in `[service]`).
    SourceInside => "source_inside", Decision;
    /// Its source is not inside, but it came in by a port inside (`source_check` in `[service]`).
    SourceOutside => "source_outside", Decision;
    /// Its source is an address that no packet on a wire comes from (RFC 1812 §5.3.7).
    Martian => "martian", Decision;
    /// The frame is for another station than the router, or for a group (RFC 1812 §5.3.4).
    OtherStation => "other_station", Decision;
    /// Its sender wants to say which way it goes (RFC 7126 §4.3, §4.4, RFC 5095).
    SourceRoute => "source_route", Decision;
    /// It is for the router itself, which answers echo requests and nothing else.
    ForRouter => "for_router", Decision;
    /// It is for all hosts of a network, to which no router forwards (RFC 1812 §5.3.5, RFC 2644).
    Broadcast => "broadcast", Decision;
    /// A host has as many connections, ports or half-seen streams, or its binding as many sessions, as
    /// one may have.
    HostLimit => "host_limit", Decision;
    /// A fragment of bytes that have come before, or that does not fit the end of its datagram.
    FragmentMisfit => "fragment_misfit", Decision;
    /// A fragment that waited for the first one of its datagram, which did not come.
    FragmentAlone => "fragment_alone", Decision;
    /// A fragment that waited for the first one of its datagram, and gave way to others: too many did.
    FragmentBacklogFull => "fragment_backlog_full", Loss;
    /// A TCP segment far from what its receiver expects, or with data and without ACK.
    Unacceptable => "unacceptable", Decision;
    /// A TCP segment with urgent data, which the service does not let pass.
    Urgent => "urgent", Decision;
    /// Bytes of a TCP stream before this segment are missing, so it cannot be inspected.
    OutOfOrder => "out_of_order", Decision;
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize =
        PLAIN.len() + Malformed::ALL.len() + Unparsed::ALL.len() + DashReason::COUNT;

    /// Every reason, in the order of [`Self::index`].
    pub fn all() -> impl Iterator<Item = Self> {
        let malformed = Malformed::ALL.iter().map(|&why| Self::Malformed(why));
        let unparsed = Unparsed::ALL.iter().map(|&what| Self::Unparsed(what));
        let dash = DashReason::ALL.iter().map(|&why| Self::Dash(why));
        let plain = PLAIN.iter().copied();
        plain.chain(malformed).chain(unparsed).chain(dash)
    }

    /// The reason of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|reason| reason.name() == name)
    }

    /// Whether packets were lost for want of room or by a fault. Any other reason is a decision
    /// about the packet, or lies in it.
    pub fn is_loss(self) -> bool {
        self.kind() == DropKind::Loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_reason_has_its_own_index_and_name() {
        let names: HashSet<_> = DropReason::all().map(DropReason::name).collect();
        assert_eq!(names.len(), DropReason::COUNT);
        for (index, reason) in DropReason::all().enumerate() {
            assert!(reason.meaning().ends_with('.'), "{reason:?}");
            assert_eq!(reason.index(), index);
            assert_eq!(DropReason::named(reason.name()), Some(reason));
        }
    }

    #[test]
    fn what_a_function_decides_is_no_loss() {
        let losses: Vec<_> = DropReason::all()
            .filter(|reason| reason.is_loss())
            .collect();
        assert!(losses.contains(&DropReason::PuntRingFull));
        assert!(!losses.contains(&DropReason::Denied));
        assert!(!losses.contains(&DropReason::Malformed(Malformed::ALL[0])));
    }
}
