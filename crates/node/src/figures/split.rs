//! What is seen of split packets and memory servers.

use twinpath_control::report::{MemoryServer, QueuePair, Split, SplitCounts};
use twinpath_remote::Stage;
use twinpath_remote::fast::ServerFigures;
use twinpath_remote::payloads::QueuePairFigures;

/// What happened to payloads, and at servers.
pub(crate) fn split(stage: &Stage) -> Split {
    Split {
        counts: counts(stage),
        servers: stage.servers().into_iter().map(server).collect(),
    }
}

fn counts(stage: &Stage) -> SplitCounts {
    let c = stage.counters();
    SplitCounts {
        packets: c.packets,
        bytes: c.bytes,
        whole_small: c.whole_small,
        whole_unsuited: c.whole_unsuited,
        whole_class: c.whole_class,
        whole_chain: c.whole_chain,
        whole_no_buffer: c.whole_no_buffer,
        whole_no_slot: c.whole_no_slot,
        whole_no_server: c.whole_no_server,
        whole_down: c.whole_down,
        whole_window: c.whole_window,
        whole_no_memory: c.whole_no_memory,
        whole_too_long: c.whole_too_long,
        merged: c.merged,
        declined: c.declined,
        missing: c.missing,
        payload_lost: c.payload_lost,
        payload_gone: c.payload_gone,
        payload_refused: c.payload_refused,
        header_too_long: c.header_too_long,
        headers_stale: c.headers_stale,
        dropped_late: c.dropped_late,
        headers_doubled: c.headers_doubled,
        followers: c.followers,
        followers_refused: c.followers_refused,
        most_slots: c.most_slots,
        other_frames: c.other_frames,
        events_lost: c.events_lost,
    }
}

fn server(figures: ServerFigures) -> MemoryServer {
    let counters = figures.counters.into_iter();
    MemoryServer {
        name: figures.name,
        is_up: figures.is_up,
        share_per_mille: figures.share_per_mille,
        rate_bps: figures.rate_bps,
        last_error: figures.last_error,
        counters: counters
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
        queue_pairs: figures.queue_pairs.into_iter().map(queue_pair).collect(),
    }
}

fn queue_pair(figures: QueuePairFigures) -> QueuePair {
    QueuePair {
        is_up: figures.is_ready,
        writes: figures.writes,
        reads: figures.reads,
        payloads: figures.payloads,
        lives: figures.lives,
        errors: figures.errors,
        last_error: figures.last_error.map(|why| why.to_string()),
    }
}
