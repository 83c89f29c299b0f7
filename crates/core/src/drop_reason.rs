//! Why a packet was dropped.

use crate::wire::malformed::Malformed;

/// Why a packet was dropped. Every drop in Twinpath is one of these, and is counted.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The bytes are no valid packet.
    Malformed(Malformed),
    /// The frame is longer than the largest buffer.
    FrameTooLong,
    /// No free buffer in the pool.
    NoBuffer,
    /// The ring towards a worker was full: the slow path is overloaded (live traffic only; a replay
    /// waits instead).
    PuntRingFull,
    /// The workers know as many flows as they may.
    FlowTableFull,
    /// A firewall rule or its default denies the connection.
    Denied,
    /// A segment outside the connection's window, or a packet that its state does not allow.
    InvalidState,
    /// The inspector has banned the flow.
    Banned,
    /// All bytes of the segment were delivered before.
    AlreadyDelivered,
    /// All bytes of the segment are held in another copy, which waits for those before them.
    AlreadyHeld,
    /// No backend is left for this service.
    NoBackend,
    /// A fragment where the function needs the transport header.
    Fragment,
    /// A key-value request that cannot be read.
    BadRequest,
    /// A frame on the link that is no link message.
    BadLinkFrame,
    /// A frame on the link whose number is older than one already received.
    LinkReordered,
    /// No route to the destination.
    NoRoute,
    /// The time to live, or hop limit, has ended.
    TimeToLive,
    /// No external port is left for an address translation.
    NoPort,
    /// The queue in which payloads are parked had no room.
    ParkingFull,
    /// A parked payload was given up, because its header did not come back in time.
    HeaderMissing,
    /// A header came back from the slow path with more bytes than fit in front of its payload.
    HeaderTooLong,
    /// Too many packets waited on a worker for cached rules to go.
    RuleBacklogFull,
    /// A worker crashed while it had the packet.
    WorkerCrashed,
    /// A checksum does not hold, so no receiver takes the packet.
    BadChecksum,
    /// A TCP segment far from what its receiver expects, or without what it must have.
    Unacceptable,
    /// A TCP segment with urgent data, which the service does not let pass.
    Urgent,
    /// Bytes of a TCP stream before this segment are missing, so it cannot be inspected yet.
    OutOfOrder,
}

const PLAIN: [DropReason; 26] = [
    DropReason::FrameTooLong,
    DropReason::NoBuffer,
    DropReason::PuntRingFull,
    DropReason::FlowTableFull,
    DropReason::Denied,
    DropReason::InvalidState,
    DropReason::Banned,
    DropReason::AlreadyDelivered,
    DropReason::NoBackend,
    DropReason::Fragment,
    DropReason::BadRequest,
    DropReason::BadLinkFrame,
    DropReason::LinkReordered,
    DropReason::AlreadyHeld,
    DropReason::NoRoute,
    DropReason::TimeToLive,
    DropReason::NoPort,
    DropReason::ParkingFull,
    DropReason::HeaderMissing,
    DropReason::HeaderTooLong,
    DropReason::RuleBacklogFull,
    DropReason::WorkerCrashed,
    DropReason::BadChecksum,
    DropReason::Unacceptable,
    DropReason::Urgent,
    DropReason::OutOfOrder,
];

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = PLAIN.len() + Malformed::ALL.len();

    /// Every reason, in the order of [`Self::index`].
    pub fn all() -> impl Iterator<Item = Self> {
        PLAIN.into_iter().chain(
            Malformed::ALL
                .iter()
                .map(|&malformed| Self::Malformed(malformed)),
        )
    }

    /// The reason's place in [`Self::all`]: what counters are indexed by.
    pub fn index(self) -> usize {
        match self {
            Self::Malformed(malformed) => PLAIN.len() + malformed as usize,
            Self::FrameTooLong => 0,
            Self::NoBuffer => 1,
            Self::PuntRingFull => 2,
            Self::FlowTableFull => 3,
            Self::Denied => 4,
            Self::InvalidState => 5,
            Self::Banned => 6,
            Self::AlreadyDelivered => 7,
            Self::NoBackend => 8,
            Self::Fragment => 9,
            Self::BadRequest => 10,
            Self::BadLinkFrame => 11,
            Self::LinkReordered => 12,
            Self::AlreadyHeld => 13,
            Self::NoRoute => 14,
            Self::TimeToLive => 15,
            Self::NoPort => 16,
            Self::ParkingFull => 17,
            Self::HeaderMissing => 18,
            Self::HeaderTooLong => 19,
            Self::RuleBacklogFull => 20,
            Self::WorkerCrashed => 21,
            Self::BadChecksum => 22,
            Self::Unacceptable => 23,
            Self::Urgent => 24,
            Self::OutOfOrder => 25,
        }
    }

    /// The reason of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|reason| reason.name() == name)
    }

    /// Whether packets were lost for want of room or by a fault. Any other reason is a decision
    /// about the packet, or lies in it.
    pub const fn is_loss(self) -> bool {
        matches!(
            self,
            Self::FrameTooLong
                | Self::NoBuffer
                | Self::PuntRingFull
                | Self::FlowTableFull
                | Self::BadLinkFrame
                | Self::LinkReordered
                | Self::NoPort
                | Self::ParkingFull
                | Self::HeaderMissing
                | Self::HeaderTooLong
                | Self::RuleBacklogFull
                | Self::WorkerCrashed
        )
    }

    /// The reason's name in reports and metrics: snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed(malformed) => malformed.name(),
            Self::FrameTooLong => "frame_too_long",
            Self::NoBuffer => "no_buffer",
            Self::PuntRingFull => "punt_ring_full",
            Self::FlowTableFull => "flow_table_full",
            Self::Denied => "denied",
            Self::InvalidState => "invalid_state",
            Self::Banned => "banned",
            Self::AlreadyDelivered => "already_delivered",
            Self::AlreadyHeld => "already_held",
            Self::NoBackend => "no_backend",
            Self::Fragment => "fragment",
            Self::BadRequest => "bad_request",
            Self::BadLinkFrame => "bad_link_frame",
            Self::LinkReordered => "link_reordered",
            Self::NoRoute => "no_route",
            Self::TimeToLive => "time_to_live",
            Self::NoPort => "no_port",
            Self::ParkingFull => "parking_full",
            Self::HeaderMissing => "header_missing",
            Self::HeaderTooLong => "header_too_long",
            Self::RuleBacklogFull => "rule_backlog_full",
            Self::WorkerCrashed => "worker_crashed",
            Self::BadChecksum => "bad_checksum",
            Self::Unacceptable => "unacceptable",
            Self::Urgent => "urgent",
            Self::OutOfOrder => "out_of_order",
        }
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
