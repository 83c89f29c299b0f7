//! Results as aligned rows.

use std::time::{Duration, Instant};

/// Runs `body` over `rounds` rounds, each after `prepare`, and returns the median time.
pub fn median<T>(
    rounds: usize,
    state: &mut T,
    mut prepare: impl FnMut(&mut T),
    mut body: impl FnMut(&mut T),
) -> Duration {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            prepare(state);
            let started = Instant::now();
            body(state);
            started.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// Nanoseconds per packet over several passes.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Passes {
    /// Of the pass in the middle.
    pub median: f64,
    /// Of the quickest one.
    pub best: f64,
}

/// Runs `body`, which says how long it took, over `rounds` rounds, each after `prepare`.
pub fn passes<T>(
    rounds: usize,
    packets: usize,
    state: &mut T,
    mut prepare: impl FnMut(&mut T),
    mut body: impl FnMut(&mut T) -> Duration,
) -> Passes {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            prepare(state);
            ns_each(body(state), packets)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    Passes {
        median: times[times.len() / 2],
        best: times[0],
    }
}

/// Nanoseconds each.
pub fn ns_each(time: Duration, count: usize) -> f64 {
    time.as_nanos() as f64 / count.max(1) as f64
}

/// What a link carries, of so many packets that cross the node.
#[derive(Default)]
pub struct Load {
    frames: u64,
    octets: u64,
}

impl Load {
    /// A frame of so many octets.
    pub fn add(&mut self, octets: usize) {
        self.frames += 1;
        self.octets += octets as u64;
    }

    /// One row: which link, and of each packet the bits and frames on it.
    pub fn row(&self, link: &str, packets: usize) {
        let each = |count: u64| count as f64 / packets.max(1) as f64;
        println!(
            "{link:<58} {:8.0} bits/packet {:5.2} frames/packet",
            each(8 * self.octets),
            each(self.frames)
        );
    }
}

/// One row: what, ns per packet, Mpps, and how it compares with the machine's limit.
pub fn row(what: &str, ns: f64, limit_ns: Option<f64>) {
    let against = limit_ns.map_or(String::new(), |limit| {
        format!("   limit {limit:6.1} ns, ratio {:5.2}", ns / limit)
    });
    println!(
        "{what:<58} {ns:8.1} ns/packet {:8.2} Mpps{against}",
        1000.0 / ns
    );
}
