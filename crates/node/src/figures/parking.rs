//! What is seen of parked payloads.

use twinpath_control::report::Parking;
use twinpath_parking::ParkingStage;

/// What happened to payloads.
pub(crate) fn parking(stage: &ParkingStage) -> Parking {
    let (buffer, counts) = (stage.buffer().counters(), stage.counters());
    Parking {
        parked: buffer.parked,
        whole_small: counts.small,
        whole_unsuited: counts.unsuited,
        whole_no_room: counts.no_room + counts.with_state,
        whole_no_buffer: counts.no_buffer,
        refused: counts.refused,
        departed: buffer.departed - counts.header_too_long,
        declined: buffer.declined,
        missing: buffer.expired + buffer.late,
        header_too_long: counts.header_too_long,
        stale: buffer.headers_stale + buffer.headers_doubled,
        dropped_late: counts.dropped_late,
        followers: buffer.followers,
        followers_refused: buffer.followers_refused,
        fragments_alone: counts.fragments_alone,
        recirculations: buffer.recirculations,
        port_passes: buffer.port_passes,
        copies: buffer.copies,
        target_beyond_buffer: buffer.target_beyond_buffer,
        parked_bytes: counts.parked_bytes,
        most_queue_bytes: counts.most_queue_bytes,
        limit_bytes: stage.buffer().config().limit_bytes,
    }
}
