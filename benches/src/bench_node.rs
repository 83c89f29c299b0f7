//! A node in one thread: what the fast path punts goes to its only worker at once.

use crate::packets::ARRIVAL;
use std::path::Path;
use std::time::Duration;
use twinpath_coherence::Clock;
use twinpath_control::service::{Paths, Service};
use twinpath_core::{Frame, Instant};
use twinpath_node::{BURST, FETCHED_AHEAD, Limits, Node, Output, build};

/// A node, and what is under way in it.
pub struct BenchNode {
    /// The node.
    pub node: Node,
    /// Frames that its port hands over together; for those among them that are punted the round
    /// trip to the worker is as long.
    pub burst: usize,
    output: Output,
    to_worker: Vec<Frame>,
    returns: Vec<Frame>,
    batch: Vec<Frame>,
    clock: Clock,
}

impl BenchNode {
    /// A node for a load balancer with eight backends.
    pub fn load_balancer(slots: usize, flows: usize, paths: Paths) -> Self {
        Self::half_open(slots, flows, flows, paths)
    }

    /// The same, with so many flows at most that have heard no answer: others are forgotten for new ones.
    pub fn half_open(slots: usize, flows: usize, half_open: usize, paths: Paths) -> Self {
        let backends: Vec<String> = (1..=8)
            .map(|n| format!("{{ endpoint = \"10.254.0.{n}:8080\" }}"))
            .collect();
        Self::new(
            &format!(
                "[service]\nname = \"bench\"\nchain = [\"load_balancer\"]\n\
                 [fast_path]\nslots = {slots}\nhot_packets = 1\ntime_to_live = \"1h\"\n\
                 [slow_path]\nflows = {flows}\nhalf_open = {half_open}\n\
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
        node.machine.set_limits(Limits {
            ring_frames: 1 << 20,
            is_lossless: false,
            is_replay: false,
        });
        node.machine.start(now);
        node.workers[0].start(now);
        Self {
            node,
            burst: BURST,
            output: Output::default(),
            to_worker: Vec::new(),
            returns: Vec::new(),
            batch: Vec::with_capacity(BURST),
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
            machine,
            workers,
            worker_pools,
            ..
        } = &mut self.node;
        machine.advance(self.clock, &mut self.output);
        let time = machine.time();
        for (worker, pools) in workers.iter_mut().zip(worker_pools) {
            worker.advance(time, pools, &mut self.returns);
        }
        self.serve_punts();
        now
    }

    /// Sends all frames through both paths; they come back into `frames`, in order of departure.
    pub fn send(&mut self, frames: &mut Vec<Frame>) {
        let mut done = Vec::with_capacity(frames.len());
        let mut waiting = frames.drain(..);
        loop {
            self.batch.extend(waiting.by_ref().take(self.burst));
            // A driver has just written these; here no cache holds what comes first in the next burst.
            let next = waiting.as_slice().iter().take(FETCHED_AHEAD);
            next.for_each(Frame::prefetch);
            if self.batch.is_empty() {
                break;
            }
            self.node
                .machine
                .receive(&mut self.batch, self.clock, &mut self.output);
            if !self.output.frames.is_empty() {
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
            machine,
            workers,
            worker_pools,
            ..
        } = &mut self.node;
        // What comes back may make the fast path send again.
        while !self.output.frames.is_empty() {
            let to_worker = self.output.frames.drain(..).map(|(_, frame)| frame);
            self.to_worker.extend(to_worker);
            let (worker, pools) = (&mut workers[0], &mut worker_pools[0]);
            worker.receive_burst(&mut self.to_worker, pools, &mut self.returns);
            let out = &mut self.output;
            machine.returned(0, &mut self.returns, self.clock, out);
            machine.progress(0, worker.progress(), out);
        }
    }

    /// Share of packets since the start that never saw the workers.
    pub fn fast_packets(&self) -> u64 {
        self.node.machine.path().counters().fast_packets
    }
}
