//! Functions whose forgetting is noted down.

use std::sync::{Arc, Mutex};
use twinpath_core::Instant;
use twinpath_rulecache::{Answers, EntryId, Hits, Recorded, RuleFunction, Verdict};

/// What was forgotten since this was last emptied, and when.
pub type Forgotten = Arc<Mutex<Vec<(EntryId, Instant)>>>;

/// A function that does what another does.
pub struct Watched {
    function: Box<dyn RuleFunction>,
    place: u8,
    forgotten: Forgotten,
}

impl Watched {
    /// The functions of a chain.
    pub fn all(
        functions: Vec<Box<dyn RuleFunction>>,
        forgotten: &Forgotten,
    ) -> Vec<Box<dyn RuleFunction>> {
        let watched = |(place, function)| -> Box<dyn RuleFunction> {
            let forgotten = forgotten.clone();
            Box::new(Self {
                function,
                place,
                forgotten,
            })
        };
        (0..).zip(functions).map(watched).collect()
    }
}

impl RuleFunction for Watched {
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
        self.function.handle(packet, now, answers)
    }

    fn credit(&mut self, entry: u32, hits: &Hits) {
        self.function.credit(entry, hits);
    }

    fn each_expired(&mut self, now: Instant, each: &mut dyn FnMut(u32)) {
        self.function.each_expired(now, each);
    }

    fn forget(&mut self, entry: u32, now: Instant) {
        let function = self.place;
        let forgotten = (EntryId { function, entry }, now);
        self.forgotten.lock().expect("one thread").push(forgotten);
        self.function.forget(entry, now);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.function.counters(each);
    }
}
