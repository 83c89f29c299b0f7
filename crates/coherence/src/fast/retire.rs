//! A stage gives everything back while packets flow, and another takes its place.

use super::StateStage;
use crate::fast::Clock;
use crate::fsm::{Fsm, Slot};
use twinpath_fastpath::state_table::SlotId;
use twinpath_link::Header;

/// Slots that one call of [`StateStage::retire`] looks at, unless it may send more messages.
const RETIRED_TOGETHER: usize = 1024;

impl StateStage {
    /// Takes no more flows and gives back those that are here, in at most `most` messages to
    /// `send`, which says whether it could. Call it until it returns true: the stage holds nothing
    /// any more. [`Self::resume`] ends this.
    pub fn retire(
        &mut self,
        clock: Clock,
        most: usize,
        mut send: impl FnMut(&Header) -> bool,
    ) -> bool {
        self.is_retiring = true;
        self.give_up_refused(clock);
        let mut sent = 0;
        let slots = self.table.slots();
        for _ in 0..RETIRED_TOGETHER.max(most).min(slots) {
            if self.is_empty() || sent == most {
                break;
            }
            let id = self.sweep_hand;
            self.sweep_hand = (id + 1) % slots as SlotId;
            let slot = Slot::unpack(self.table.control(id));
            let is_active = slot.fsm == Fsm::Active;
            sent += usize::from(is_active);
            let done = match is_active {
                true => self.freeze_idle(id, slot, clock, &mut send),
                false => self.look_at_timer(id, clock, &mut send),
            };
            if !done {
                break;
            }
        }
        self.is_empty()
    }

    /// Takes flows again.
    pub fn resume(&mut self) {
        self.is_retiring = false;
    }

    /// Whether no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.slots_in_use() == 0
    }

    /// How many flows have a slot.
    pub fn slots_in_use(&self) -> u64 {
        self.stats.population[Fsm::Active as usize] + self.waiting_slots()
    }

    /// Takes the place of another stage that all flows have left: what the workers may remember of
    /// pulls must not look like one of this stage's.
    pub fn go_on_from(&mut self, former: &Self) {
        self.generation = self.generation.max(former.generation);
    }
}
