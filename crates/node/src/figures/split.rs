//! What is seen of split packets and memory servers.

use twinpath_control::report::{MemoryServerFigures, QueuePairFigures, SplitFigures};
use twinpath_remote::SplitStage;
use twinpath_remote::fast::ServerFigures;
use twinpath_remote::payloads::QueuePairStatus;

/// What happened to payloads, and at servers.
pub(crate) fn split(stage: &SplitStage) -> SplitFigures {
    SplitFigures {
        counts: *stage.counters(),
        servers: stage.servers().into_iter().map(server).collect(),
    }
}

fn server(figures: ServerFigures) -> MemoryServerFigures {
    let counters = figures.counters.into_iter();
    MemoryServerFigures {
        name: figures.name,
        is_up: figures.is_up,
        share_per_mille: figures.share_per_mille,
        rate_bps: figures.rate_bps,
        last_error: figures.last_error,
        last_error_age_ms: figures.last_error_age.map(|age| age.as_millis() as u64),
        counters: counters
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
        queue_pairs: figures.queue_pairs.into_iter().map(queue_pair).collect(),
    }
}

fn queue_pair(figures: QueuePairStatus) -> QueuePairFigures {
    QueuePairFigures {
        number: figures.number,
        is_up: figures.is_ready,
        writes: figures.writes,
        reads: figures.reads,
        payloads: figures.payloads,
        lives: figures.lives,
        errors: figures.errors,
        last_error: figures.last_error.map(|why| why.to_string()),
    }
}
