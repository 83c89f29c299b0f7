//! What is seen of parked payloads.

use twinpath_control::report::Parking;
use twinpath_parking::Stage;

/// What happened to payloads.
pub(crate) fn parking(stage: &Stage) -> Parking {
    let (stats, counts) = (stage.buffer().counters(), stage.counters());
    Parking {
        parked: stats.parked,
        whole_small: counts.small,
        whole_unsuited: counts.unsuited,
        whole_no_room: counts.no_room + counts.with_state,
        whole_no_buffer: counts.no_buffer,
        refused: counts.refused,
        departed: stats.departed - counts.header_too_long,
        declined: stats.declined,
        missing: stats.expired + stats.late,
        header_too_long: counts.header_too_long,
        stale: stats.headers_stale + stats.headers_doubled,
        dropped_late: counts.dropped_late,
        followers: stats.followers,
        followers_refused: stats.followers_refused,
        fragments_alone: counts.fragments_alone,
        recirculations: stats.recirculations,
        port_passes: stats.port_passes,
        copies: stats.copies,
        target_beyond_buffer: stats.target_beyond_buffer,
        parked_bytes: counts.parked_bytes,
        most_queue_bytes: counts.most_queue_bytes,
        limit_bytes: stage.buffer().config().limit_bytes,
    }
}
