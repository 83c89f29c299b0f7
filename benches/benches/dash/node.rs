//! The same packets through a whole node: by its fast path with the question to the slow path that each new
//! connection asks, and by the slow path alone.

use std::fs;

use twinpath_benches::bench_node::BenchNode;
use twinpath_benches::packets::ARRIVAL;
use twinpath_benches::table::{ns_each, row};
use twinpath_control::service::Paths;
use twinpath_core::wire::tcp::flags;
use twinpath_core::{Frame, Metadata, Pool};
use twinpath_dash::samples::Large;

use crate::packets::{HEADROOM, PART, Traffic, scattered};
use crate::text;

/// New connections, and packets of known ones, of a DPU with such a configuration.
pub fn measure(sizes: &Large, traffic: Traffic, connections: usize) {
    for (paths, what) in [
        (Paths::Both, "both paths"),
        (Paths::Slow, "the slow path alone"),
    ] {
        let mut node = Loaded::new(sizes, paths, connections);
        let opened = node.each(traffic, 0..connections, flags::SYN);
        row(&format!("node, new connection, {what}"), opened, None);
        let known = scattered(connections)
            .cycle()
            .take(connections.max(200_000));
        let hit = node.each(traffic, known, flags::ACK);
        row(
            &format!("node, hit, {connections} flows, {what}"),
            hit,
            None,
        );
    }
}

/// A node with frames to send.
struct Loaded {
    node: BenchNode,
    _pool: Pool,
    frames: Vec<Frame>,
}

impl Loaded {
    fn new(sizes: &Large, paths: Paths, connections: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let parts = std::iter::once(text::shared(sizes));
        let parts = parts.chain((0..sizes.enis).map(|number| text::eni(sizes, number)));
        let names = parts.enumerate().map(|(number, text)| {
            let path = folder.path().join(format!("{number}.json"));
            fs::write(&path, text).expect("it can be written");
            format!("{:?}", path.display().to_string())
        });
        let names: Vec<_> = names.collect();
        let service = format!(
            "[service]\nname = \"bench\"\nchain = [\"dash\"]\n[dash]\nflows = {}\nconfig = [{}]\n",
            connections + connections / 2,
            names.join(", ")
        );
        let mut pool = Pool::new(PART, 256);
        let frames = std::iter::from_fn(|| pool.take()).collect();
        Self {
            node: touched(BenchNode::new(&service, paths)),
            _pool: pool,
            frames,
        }
    }

    /// Median nanoseconds for a packet of each of these connections, all of which must leave.
    fn each(&mut self, traffic: Traffic, flows: impl Iterator<Item = usize>, tcp_flags: u8) -> f64 {
        let (mut times, mut flows) = (Vec::new(), flows.peekable());
        let mut part = Vec::with_capacity(PART);
        while flows.peek().is_some() {
            for flow in flows.by_ref().take(PART) {
                let Some(mut frame) = self.frames.pop() else {
                    break;
                };
                frame.fill(&traffic.segment(flow, tcp_flags)[HEADROOM..]);
                frame.set_metadata(Metadata::default());
                frame.set_timestamp(ARRIVAL);
                part.push(frame);
            }
            let (count, started) = (part.len(), std::time::Instant::now());
            self.node.send(&mut part);
            times.push(ns_each(started.elapsed(), count));
            assert_eq!(part.len(), count, "all leave");
            self.frames.append(&mut part);
        }
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

/// Has the memory that packets need, as a node that is started.
fn touched(mut node: BenchNode) -> BenchNode {
    node.node.machine.touch();
    node.node
        .workers
        .iter_mut()
        .for_each(|worker| worker.touch());
    node
}
