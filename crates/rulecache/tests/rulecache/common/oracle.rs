//! The functions of a chain as servers in a row, each of which takes packets in an order of its own.

use super::functions::sides;
use super::observed::Outcome;
use twinpath_core::{Direction, Packet, Pools};
use twinpath_rulecache::{
    Answers, MatchKey, NoRules, Recorded, Recording, RuleChain, RuleFunction, Verdict,
};

/// A packet somewhere in the row.
struct Walk {
    packet: Packet,
    recording: Recording,
    has_begun: bool,
    /// How many functions it has passed.
    passed: usize,
    verdict: Verdict,
}

pub struct Oracle {
    chain: RuleChain,
    walks: Vec<Walk>,
    pools: Pools,
    replies: usize,
}

impl Oracle {
    pub fn new(functions: Vec<Box<dyn RuleFunction>>, packets: Vec<Packet>) -> Self {
        let walk = |packet: Packet| Walk {
            recording: Recording::new(MatchKey::of(
                packet.bytes(),
                &packet.layout,
                packet.frame.port(),
                Direction::Original,
            )),
            packet,
            has_begun: false,
            passed: 0,
            verdict: Verdict::Forward,
        };
        Self {
            chain: RuleChain::new(functions),
            walks: packets.into_iter().map(walk).collect(),
            pools: Pools::new(64, 1),
            replies: 0,
        }
    }

    pub fn chain(&mut self) -> &mut RuleChain {
        &mut self.chain
    }

    pub fn replies(&self) -> usize {
        self.replies
    }

    /// The function at a place takes a packet.
    pub fn handle(&mut self, ordinal: u64, place: u8) {
        let functions = self.chain.len();
        let walk = &mut self.walks[ordinal as usize];
        walk.begin();
        assert_eq!(
            walk.place(functions),
            usize::from(place),
            "packet {ordinal}"
        );
        let now = walk.packet.timestamp();
        let mut recorded = Recorded::new(&mut walk.packet, &mut walk.recording, &NoRules, place);
        let mut replies = Vec::new();
        let mut answers = Answers::new(&mut replies, &mut self.pools);
        let function = self.chain.function(place).expect("in the chain");
        walk.verdict = function.handle(&mut recorded, now, &mut answers);
        walk.passed += 1;
        drop(answers);
        self.replies += replies.len();
    }

    /// All functions take a packet, one after the other, as far as it comes.
    pub fn handle_by_all(&mut self, ordinal: u64) {
        let functions = self.chain.len();
        loop {
            let walk = &mut self.walks[ordinal as usize];
            walk.begin();
            if walk.passed == functions || walk.verdict != Verdict::Forward {
                return;
            }
            let place = walk.place(functions) as u8;
            self.handle(ordinal, place);
        }
    }

    /// What became of a packet that has passed all that it will.
    pub fn outcome(&mut self, ordinal: u64) -> Option<Outcome> {
        let functions = self.chain.len();
        let walk = &self.walks[ordinal as usize];
        match walk.verdict {
            Verdict::Forward if walk.passed == functions => Some(Outcome::Left {
                bytes: walk.packet.bytes().to_vec(),
                egress: walk.recording.rewrites().egress(),
            }),
            Verdict::Drop(reason) => Some(Outcome::Dropped(reason)),
            _ => None,
        }
    }
}

impl Walk {
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            sides().tell(&mut self.packet, &mut self.recording);
        }
    }

    fn place(&self, functions: usize) -> usize {
        match self.packet.direction {
            Direction::Original => self.passed,
            Direction::Reply => functions - 1 - self.passed,
        }
    }
}
