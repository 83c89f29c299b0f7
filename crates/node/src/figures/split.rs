//! What is seen of split packets and memory servers.

use twinpath_control::report::{MemoryServer, QueuePair, Split};
use twinpath_remote::SplitStage;
use twinpath_remote::fast::ServerFigures;
use twinpath_remote::payloads::QueuePairFigures;

/// What happened to payloads, and at servers.
pub(crate) fn split(stage: &SplitStage) -> Split {
    Split {
        counts: *stage.counters(),
        servers: stage.servers().into_iter().map(server).collect(),
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
