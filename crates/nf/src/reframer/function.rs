//! What the reframer does.

use super::{Config, NAME};
use std::any::Any;
use twinpath_core::key::Role;
use twinpath_core::program::{Comparison, Condition, FastProgram, Operand, Word};
use twinpath_core::{Direction, Instant, Packet};
use twinpath_slowpath::{Eviction, Flow, NetworkFunction, Outbox, PacketBuffer};

/// The word that says of which directions packets wait.
const WAITING: usize = 0;

/// The reframer; see the [module](super).
pub struct Reframer {
    config: Config,
    buffer: PacketBuffer,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    packets: u64,
    runs: u64,
    full_runs: u64,
    early_runs: u64,
    passed: u64,
    forgotten: u64,
}

impl Reframer {
    /// A reframer that holds nothing.
    pub fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            buffer: PacketBuffer::new(config.limits()),
            counters: Counters::default(),
        }
    }

    /// Puts a packet in line. All of a line leave at the same time.
    fn join(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let way = packet.direction;
        let first = self.buffer.line(*flow.handle, way).next();
        let window_ends = flow.now + self.config.window.duration();
        let until = first.map_or(window_ends, |(_, until)| until);
        self.counters.packets += 1;
        if let Err((packet, _)) = self.buffer.hold(flow.handle, packet, until) {
            self.counters.early_runs += 1;
            self.run(way, flow, out);
            return out.forward(packet);
        }
        if self.buffer.length(*flow.handle, way) >= self.config.batch.get() as usize {
            self.counters.full_runs += 1;
            self.run(way, flow, out);
        }
    }

    /// A line leaves.
    fn run(&mut self, way: Direction, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        self.counters.runs += 1;
        while let Some(packet) = self.buffer.take_first(flow.handle, way) {
            out.forward(packet);
        }
    }

    fn settle(&self, flow: &mut Flow<'_>) {
        let waiting = Direction::BOTH.into_iter();
        let waiting = waiting.filter(|way| !self.buffer.is_empty(*flow.handle, *way));
        flow.words[WAITING] = waiting.map(|way| 1 << way.index()).sum();
    }
}

impl NetworkFunction for Reframer {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Every packet is for the slow path.
    fn program(&self) -> FastProgram {
        let zero = Operand::Constant(0);
        FastProgram {
            name: NAME.into(),
            words: vec![Word {
                name: "waiting",
                meaning: "of which directions packets wait",
            }],
            always_complex: vec![vec![Condition::of(zero, Comparison::Equal, zero)]],
            ..FastProgram::default()
        }
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        if packet.role == Role::Error {
            self.counters.passed += 1;
            return out.forward(packet);
        }
        self.join(packet, flow, out);
        self.settle(flow);
    }

    fn deadline(&self, handle: u32) -> Instant {
        self.buffer.deadline(handle)
    }

    fn wake(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        for way in Direction::BOTH {
            let first = self.buffer.line(*flow.handle, way).next();
            if first.is_some_and(|(_, until)| until <= flow.now) {
                self.run(way, flow, out);
            }
        }
        self.settle(flow);
    }

    fn is_pending(&self, _words: &[u32], handle: u32) -> bool {
        handle != 0
    }

    /// What waits leaves at its time.
    fn is_expired(&self, _words: &[u32], _now: Instant) -> bool {
        false
    }

    fn eviction(&self, words: &[u32]) -> Option<Eviction> {
        (words[WAITING] != 0).then_some(Eviction::Never)
    }

    fn forget(&mut self, handle: u32) {
        self.counters.forgotten += self.buffer.forget(handle) as u64;
    }

    fn release(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        for way in Direction::BOTH {
            if !self.buffer.is_empty(*flow.handle, way) {
                self.run(way, flow, out);
            }
        }
        self.settle(flow);
    }

    fn kept_packets(&self) -> usize {
        self.buffer.load().packets
    }

    fn most_held_frames(&self) -> usize {
        self.buffer.most_frames()
    }

    fn reconfigure(&mut self, new: &mut dyn NetworkFunction) -> bool {
        let Some(new) = (new as &mut dyn Any).downcast_mut::<Self>() else {
            return false;
        };
        std::mem::swap(&mut self.config, &mut new.config);
        self.buffer.set_limits(self.config.limits());
        true
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("packets", self.counters.packets);
        each("runs", self.counters.runs);
        each("full_runs", self.counters.full_runs);
        each("early_runs", self.counters.early_runs);
        each("passed", self.counters.passed);
        each("forgotten", self.counters.forgotten);
    }
}
