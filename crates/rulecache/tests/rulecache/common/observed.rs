//! Functions that tell in which order they took packets, and what they forgot.

use std::sync::{Arc, Mutex};
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::{Answers, EntryId, Hits, Recorded, RuleFunction, Verdict};

/// What a function did.
#[derive(Clone, Copy, Debug)]
pub enum Did {
    /// The one at this place handled the packet with this number.
    Handled(u64, u8),
    /// An entry was forgotten.
    Forgot(EntryId, Instant),
}

/// What functions did since this was last emptied, in order.
pub type Done = Arc<Mutex<Vec<Did>>>;

/// A function that does what another does.
pub struct Observed {
    function: Box<dyn RuleFunction>,
    place: u8,
    done: Done,
}

impl Observed {
    /// The functions of a chain.
    pub fn all(functions: Vec<Box<dyn RuleFunction>>, done: &Done) -> Vec<Box<dyn RuleFunction>> {
        let observed = |(place, function)| Self::one(place, function, done);
        (0..).zip(functions).map(observed).collect()
    }

    /// One function.
    pub fn one(place: u8, function: Box<dyn RuleFunction>, done: &Done) -> Box<dyn RuleFunction> {
        let done = done.clone();
        Box::new(Self {
            function,
            place,
            done,
        })
    }
}

impl RuleFunction for Observed {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    fn start(&mut self, now: Instant) {
        self.function.start(now);
    }

    fn handle(
        &mut self,
        packet: &mut Recorded<'_>,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Verdict {
        let ordinal = packet.ordinal();
        let verdict = self.function.handle(packet, now, answers);
        if !matches!(verdict, Verdict::Wait(_)) {
            let did = Did::Handled(ordinal, self.place);
            self.done.lock().expect("one thread").push(did);
        }
        verdict
    }

    fn credit(&mut self, entry: u32, hits: &Hits) {
        self.function.credit(entry, hits);
    }

    fn each_expired(&mut self, now: Instant, each: &mut dyn FnMut(u32)) {
        self.function.each_expired(now, each);
    }

    fn forget(&mut self, entry: u32, now: Instant) {
        let function = self.place;
        let did = Did::Forgot(EntryId { function, entry }, now);
        self.done.lock().expect("one thread").push(did);
        self.function.forget(entry, now);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.function.counters(each);
    }
}

/// What happened to one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Left { bytes: Vec<u8>, egress: Option<u16> },
    Dropped(DropReason),
}
