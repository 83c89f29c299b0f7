//! Packets that wait for what caused them, and for room, as a replay's do: then what leaves is the
//! same whatever is under way in between.

use super::World;
use crate::common::Outcome;
use std::collections::BTreeSet;
use std::time::Duration;
use twinpath_core::{Frame, Instant};
use twinpath_node::Limits;
use twinpath_node::causality::Causality;
use twinpath_node::machine::ChangeOutcome::Stopped;

/// Time goes on by so much when a run ends, or nothing is under way.
const TICK: Duration = Duration::from_millis(1);

/// So often at most in a run that goes on.
const MOST_TICKS: u32 = 10_000;

/// Nothing is under way on the link for longer, and no burst lasts longer.
const MOST_UNDER_WAY: Duration = Duration::from_millis(1);

/// The packets of a run, handed in together in bursts.
pub struct CausalRun<'a> {
    pub world: World<'a>,
    causality: Causality,
    burst: Vec<Frame>,
    burst_size: usize,
    /// Frames that are under way for a while on each way.
    under_way: usize,
    /// Ticks in which packets waited and nothing was under way.
    idle_ticks: u32,
}

impl<'a> CausalRun<'a> {
    pub fn new(
        mut world: World<'a>,
        causality: Causality,
        ring_frames: usize,
        burst_size: usize,
        under_way: usize,
    ) -> Self {
        world.node.machine.set_limits(Limits {
            ring_frames,
            is_lossless: true,
            is_replay: false,
        });
        world.may_split = true;
        Self {
            world,
            causality,
            burst: Vec::new(),
            burst_size,
            under_way,
            idle_ticks: 0,
        }
    }

    /// A packet comes, when what caused it has left; packets have numbers from 0.
    pub fn packet(&mut self, number: u64, at: Instant, ingress: u16, bytes: &[u8]) {
        if let Some(sender) = self.causality.sender(bytes) {
            self.wait_for(self.causality.cause(sender));
            self.causality.enters(sender, number);
        }
        let first = self.burst.first().map(Frame::timestamp);
        if first.is_some_and(|first| at.since(first) > MOST_UNDER_WAY) {
            self.hand_in();
        }
        let mut frame = self.world.frame(number, at.0, bytes);
        frame.set_port(ingress);
        self.burst.push(frame);
        if self.burst.len() >= self.burst_size {
            self.hand_in();
        }
    }

    /// All before this number have left, or were dropped or kept.
    pub fn wait_for(&mut self, number: u64) {
        if self.world.node.machine.watermark() >= number {
            return;
        }
        self.hand_in();
        while self.world.node.machine.watermark() < number {
            self.step();
        }
    }

    /// All that is under way arrives.
    pub fn settle(&mut self) {
        self.hand_in();
        self.world.carry(0);
    }

    /// All that is under way arrives, and what functions hold until then leaves.
    pub fn let_go_until(&mut self, until: Instant) {
        self.settle();
        self.let_time_pass(until);
        self.settle();
    }

    fn hand_in(&mut self) {
        while let Some(first) = self.burst.first() {
            // It is no later: packets may wait for what happens between those of a burst.
            self.let_time_pass(first.timestamp());
            let room = self.room();
            if room == 0 {
                self.step();
                continue;
            }
            let mut frames: Vec<_> = self.burst.drain(..room).collect();
            let clock = self.world.clock();
            let (machine, out) = (&mut self.world.node.machine, &mut self.world.out);
            machine.receive(&mut frames, clock, out);
            assert!(frames.is_empty(), "frames are left in a burst");
            self.world.advance();
        }
        self.world.carry(self.under_way);
    }

    /// Packets that may enter now: there is room, and deadlines before them have come.
    fn room(&mut self) -> usize {
        let machine = &mut self.world.node.machine;
        let room = machine.room();
        let times = self.burst.iter().take(room).map(Frame::timestamp);
        times.take_while(|&at| machine.lets_in(at)).count()
    }

    fn let_time_pass(&mut self, until: Instant) {
        let world = &mut self.world;
        if until.since(world.now) > MOST_UNDER_WAY {
            world.carry(0);
        }
        world.now = world.now.max(until);
        world.advance();
    }

    /// One frame arrives at each end that any is under way to; if none is, time goes on.
    fn step(&mut self) {
        let world = &mut self.world;
        match world.to_worker.len().max(world.to_machine.len()) {
            0 => {
                self.idle_ticks += 1;
                assert!(self.idle_ticks < MOST_TICKS, "packets wait for nothing");
                world.now = world.now + TICK;
            }
            most => world.carry(most - 1),
        }
        world.advance();
    }

    /// All that is under way arrives, functions let go of what they keep, and the run ends as every
    /// run does. Returns also the numbers of
    /// the packets that left.
    pub fn finish(mut self) -> (Outcome, BTreeSet<u64>) {
        self.settle();
        let world = &mut self.world;
        world.node.machine.stop(&mut world.out);
        while world.out.outcomes.is_empty() {
            world.now = world.now + TICK;
            world.advance();
            for (worker, command) in std::mem::take(&mut world.out.commands) {
                let (mut returns, pools) = (Vec::new(), &mut world.node.worker_pools[worker]);
                let answer = world.node.workers[worker].execute(command, pools, &mut returns);
                world.give_back(worker, returns);
                world.carry(0);
                let clock = world.clock();
                world
                    .node
                    .machine
                    .answered(worker, answer, clock, &mut world.out);
            }
            world.carry(0);
        }
        let outcomes = &world.out.outcomes;
        let is_drained = matches!(outcomes[..], [Stopped { is_drained: true }]);
        assert!(is_drained, "something is still under way");
        let numbers = self.world.left.keys().copied().collect();
        (self.world.outcome(), numbers)
    }
}
