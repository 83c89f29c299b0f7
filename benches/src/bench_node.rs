//! A node in one thread: what the fast path punts goes to the worker at once.

use crate::packets::ARRIVAL;
use std::path::Path;
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_control::service::{Paths, Service};
use twinpath_core::{Frame, Instant};
use twinpath_link::{Sender, number};
use twinpath_node::{BATCH, FETCHED_AHEAD, FastOutput, Node, build};

/// A node with the numbering of its link.
pub struct BenchNode {
    /// The node.
    pub node: Node,
    output: FastOutput,
    returns: Vec<Frame>,
    batch: Vec<Frame>,
    to_cores: Sender,
    from_cores: Sender,
    clock: Clock,
}

impl BenchNode {
    /// A node for a load balancer with eight backends.
    pub fn load_balancer(slots: usize, flows: usize, paths: Paths) -> Self {
        let backends: Vec<String> = (1..=8)
            .map(|n| format!("{{ endpoint = \"10.254.0.{n}:8080\" }}"))
            .collect();
        Self::new(
            &format!(
                "[service]\nname = \"bench\"\nchain = [\"load_balancer\"]\n\
                 [fast_path]\nslots = {slots}\nhot_packets = 1\ntime_to_live = \"1h\"\n\
                 [slow_path]\nflows = {flows}\n\
                 [load_balancer]\nservices = [{{ vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [{}] }}]\n",
                backends.join(", ")
            ),
            paths,
        )
    }

    /// A node for any service.
    pub fn new(text: &str, paths: Paths) -> Self {
        let service =
            Service::parse(text, Path::new("bench.toml")).unwrap_or_else(|error| panic!("{error}"));
        let mut node = build(&service, paths).unwrap_or_else(|error| panic!("{error}"));
        let now = ARRIVAL;
        node.fast_path.start(now);
        node.workers[0].start(now);
        Self {
            node,
            output: FastOutput::default(),
            returns: Vec::new(),
            batch: Vec::with_capacity(BATCH),
            to_cores: Sender::default(),
            from_cores: Sender::default(),
            clock: Clock {
                packet: now,
                link: now,
            },
        }
    }

    /// Lets time pass on both paths. Returns what time it is now.
    pub fn pass_time(&mut self, time: Duration) -> Instant {
        let now = self.clock.packet + time;
        self.clock = Clock {
            packet: now,
            link: now,
        };
        let Node {
            fast_path, pools, ..
        } = &mut self.node;
        fast_path.sweep(self.clock, pools, &mut self.output);
        self.serve_punts();
        now
    }

    /// Sends all frames through both paths; they come back into `frames`, in order of departure.
    pub fn send(&mut self, frames: &mut Vec<Frame>) {
        let mut done = Vec::with_capacity(frames.len());
        let mut waiting = frames.drain(..);
        loop {
            self.batch.extend(waiting.by_ref().take(BATCH));
            // As a driver does: fetch what comes first in the next batch.
            let next = waiting.as_slice().iter().take(FETCHED_AHEAD);
            next.for_each(Frame::prefetch);
            if self.batch.is_empty() {
                break;
            }
            self.node.fast_path.process(
                &mut self.batch,
                self.clock,
                &mut self.node.pools,
                &mut self.output,
            );
            if !self.output.punts.is_empty() {
                self.serve_punts();
            }
            done.extend(
                self.output
                    .departures
                    .drain(..)
                    .map(|departure| departure.frame),
            );
        }
        drop(waiting);
        *frames = done;
    }

    fn serve_punts(&mut self) {
        let Node {
            fast_path,
            workers,
            pools,
            worker_pools,
        } = &mut self.node;
        // What comes back may make the fast path send again.
        while !self.output.punts.is_empty() {
            let punts = std::mem::take(&mut self.output.punts);
            for (worker, mut frame) in punts {
                number(&mut frame, self.to_cores.number());
                workers[worker].receive(frame, &mut worker_pools[worker], &mut self.returns);
                for mut frame in self.returns.drain(..) {
                    number(&mut frame, self.from_cores.number());
                    fast_path.returned(worker, frame, self.clock, pools, &mut self.output);
                }
            }
        }
    }

    /// Share of packets since the start that never saw the cores.
    pub fn fast_packets(&self) -> u64 {
        self.node.fast_path.counts().fast_packets
    }
}
