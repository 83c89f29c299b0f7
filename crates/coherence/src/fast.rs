//! The switch's side: the state stage of the fast path.

mod retire;
mod waiting;

use crate::config::Config;
use crate::counters::CoherenceCounters;
use crate::fsm::{Action, Event, Fsm, Packed, Slot};
use crate::safeguards::All;
use twinpath_core::key::Role;
use twinpath_core::program::Exit;
use twinpath_core::steering::{PlainKey, opener};
use twinpath_core::wire::layout::{Layout, Plain};
use twinpath_core::{Decision, Direction, FlowKey, Frame, HashKey, Instant, Keyed, Side};
use twinpath_fastpath::few_words::are_zero;
use twinpath_fastpath::state_table::{Finder, Held, SlotId};
use twinpath_fastpath::{
    Interpreter, PacketView, PlainPrograms, PlainView, Sketch, StateTable, StepTaken,
};
use twinpath_link::{Header, Message};
use waiting::Waiting;

/// The two clocks of a path.
///
/// Live they are one. When a capture is replayed, flows age by the capture's clock, while the
/// link's delays are real.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The clock that packets are stamped with: time to live, decay of the sketch.
    pub packet: Instant,
    /// The clock of the link: time-outs of the protocol.
    pub link: Instant,
}

/// What parsing and steering found of a packet.
#[derive(Copy, Clone, Debug, Default)]
pub struct Parsed {
    /// Where its headers are.
    pub layout: Layout,
    /// Its flow.
    pub keyed: Keyed,
    /// The hash of the flow's key.
    pub hash: u64,
    /// A hint: the slot that probably holds the flow, or
    /// [`NO_SLOT`](twinpath_fastpath::state_table::NO_SLOT).
    pub hint: SlotId,
}

/// A stage as the packets of a batch see it, plain ones in a shorter way.
pub struct PlainStage<'a> {
    table: &'a mut StateTable,
    programs: PlainPrograms<'a>,
}

/// The state table, the sketch and the programs, under the protocol.
pub struct StateStage {
    table: StateTable,
    sketch: Sketch,
    interpreter: Interpreter,
    config: Config,
    generation: u32,
    hash_key: HashKey,
    sweep_hand: SlotId,
    waiting: Waiting,
    /// No more flows are taken.
    is_retiring: bool,
    stats: CoherenceCounters,
}

impl StateStage {
    /// A stage for a chain's fused programs. `seed` is that of the flow hash.
    pub fn new(config: Config, interpreter: Interpreter, seed: u64) -> Self {
        let table = StateTable::new(config.slots, config.ways, interpreter.word_count());
        let mut stats = CoherenceCounters::default();
        stats.population[Fsm::Initial as usize] = table.slots() as u64;
        let sketch = Sketch::new(config.sketch_width, config.sketch_window);
        Self {
            table,
            sketch,
            interpreter,
            config,
            generation: 0,
            hash_key: HashKey::new(seed),
            sweep_hand: 0,
            waiting: Waiting::default(),
            is_retiring: false,
            stats,
        }
    }

    /// The run begins at this packet time.
    pub fn start(&mut self, now: Instant) {
        self.interpreter.start(now);
        self.sketch.advance(now);
    }

    /// Takes the memory of all slots now, before packets could wait for it.
    pub fn touch(&mut self) {
        self.table.touch();
    }

    /// What the protocol did so far.
    pub fn counters(&self) -> &CoherenceCounters {
        &self.stats
    }

    /// Slots of the state table.
    pub fn slots(&self) -> usize {
        self.table.slots()
    }

    /// Memory of the state table when full, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// Every slot with its flow, for checkers and `explain`.
    pub fn each_slot(&self) -> impl Iterator<Item = (FlowKey, Slot, &[u32])> {
        (0..self.table.slots() as SlotId).map(|slot| {
            (
                self.table.key(slot),
                Slot::unpack(self.table.control(slot)),
                self.table.words(slot),
            )
        })
    }

    /// A flow's state words, if the fast path holds them.
    pub fn words_of(&self, key: &FlowKey) -> Option<&[u32]> {
        let id = self.table.find(key, key.hash(&self.hash_key))?;
        let slot = Slot::unpack(self.table.control(id));
        (slot.fsm == Fsm::Active).then(|| self.table.words(id))
    }

    /// The slot of a packet's flow and its words, if it has one.
    pub fn slot_of(&self, parsed: &Parsed) -> Option<(Slot, &[u32])> {
        let (key, hash) = (&parsed.keyed.key, parsed.hash);
        let id = self.table.find_near(parsed.hint, key, hash)?;
        let slot = Slot::unpack(self.table.control(id));
        (slot.fsm != Fsm::Initial).then(|| (slot, self.table.words(id)))
    }

    /// What each program would do with a packet whose flow has this slot and these words; nothing if
    /// the words are not here to be worked on, or it is no packet that programs see.
    pub fn steps_taken(
        &mut self,
        frame: &Frame,
        parsed: &Parsed,
        slot: &Slot,
        words: &[u32],
    ) -> Vec<StepTaken> {
        if slot.fsm != Fsm::Active || parsed.keyed.role != Role::Member {
            return Vec::new();
        }
        let initiator = match are_zero(words) {
            true => opener(frame.bytes(), &parsed.layout, &parsed.keyed),
            false => slot.initiator,
        };
        self.interpreter
            .steps_taken(&view(frame, parsed, initiator), words)
    }

    /// What is needed to fetch flows' slots.
    #[inline(always)]
    pub fn finder(&self) -> Finder<'_> {
        self.table.finder()
    }

    /// Decides about one packet; if it goes on it has been rewritten. One that is for a worker
    /// leaves with `header`; of one that is held the header has the slot (see [`Self::wait`]). The
    /// hint at the packet's slot becomes what was found.
    #[inline]
    pub fn packet(
        &mut self,
        frame: &mut Frame,
        parsed: &mut Parsed,
        clock: Clock,
        header: &mut Header,
    ) -> Decision {
        let found = self
            .table
            .find_near(parsed.hint, &parsed.keyed.key, parsed.hash);
        let Some(id) = found else {
            return self.without_slot(frame, parsed, clock, header);
        };
        parsed.hint = id;
        let control = self.table.control(id);
        match Slot::fsm_of(&control) {
            Fsm::Active => {
                let initiator = Slot::initiator_of(&control);
                self.active(id, initiator, frame, parsed, clock, header)
            }
            _ => self.waiting(id, Slot::unpack(control), frame, parsed, clock, header),
        }
    }

    /// What serves nearly all packets: those that are plain, and whose slot that was fetched is
    /// active and knows the flow. `None` if the programs need more than is looked at there.
    #[inline(always)]
    pub fn plain(&mut self) -> Option<PlainStage<'_>> {
        Some(PlainStage {
            table: &mut self.table,
            programs: self.interpreter.plain_programs()?,
        })
    }

    /// A packet of a flow whose state is here.
    fn active(
        &mut self,
        id: SlotId,
        mut initiator: Side,
        frame: &mut Frame,
        parsed: &Parsed,
        clock: Clock,
        header: &mut Header,
    ) -> Decision {
        if are_zero(self.table.words(id)) {
            // Nothing is known of the flow, so this packet opens it, exactly as on the slow path.
            initiator = opener(frame.bytes(), &parsed.layout, &parsed.keyed);
            self.set_initiator(id, initiator);
        }
        let Held { control, words } = self.table.parts_mut(id);
        let exit = match parsed.keyed.role {
            Role::Member => {
                let view = view(frame, parsed, initiator);
                self.interpreter.run_in_place(&view, words)
            }
            Role::Fragment | Role::Error => Exit::Escalate,
        };
        if exit != Exit::Escalate {
            Slot::set_time_of(control, frame.timestamp().0);
        }
        match self.done(exit, frame, &parsed.layout) {
            Some(decision) => decision,
            None => self.freeze(id, frame, parsed, clock, header),
        }
    }

    /// Does with the packet what the programs decided; `None` if it is complex.
    #[inline(always)]
    fn done(&mut self, exit: Exit, frame: &mut Frame, layout: &Layout) -> Option<Decision> {
        if matches!(exit, Exit::Continue | Exit::Reply) {
            self.interpreter.commit(frame, layout);
        }
        decision(exit)
    }

    fn set_initiator(&mut self, id: SlotId, initiator: Side) {
        let mut slot = Slot::unpack(self.table.control(id));
        slot.initiator = initiator;
        self.table.set_control(id, slot.pack());
    }

    #[cold]
    fn freeze(
        &mut self,
        id: SlotId,
        frame: &Frame,
        parsed: &Parsed,
        clock: Clock,
        header: &mut Header,
    ) -> Decision {
        self.stats.write_backs += 1;
        let slot = Slot::unpack(self.table.control(id));
        self.transition(id, slot, Event::Complex, clock);
        *header = self.header(id, Message::WriteBack, frame, &parsed.keyed);
        Decision::Punt
    }

    /// A packet of a flow that has, or had, a slot without valid state.
    #[cold]
    fn waiting(
        &mut self,
        id: SlotId,
        slot: Slot,
        frame: &Frame,
        parsed: &Parsed,
        clock: Clock,
        header: &mut Header,
    ) -> Decision {
        let event = self.event_without_state(frame, parsed, slot.fsm);
        if slot.fsm == Fsm::Incomplete && !slot.waits {
            self.stats.cancellations += 1;
        }
        let action = self.transition(id, slot, event, clock);
        let message = match action {
            Action::Pull => {
                self.stats.pulls += 1;
                self.stats.rearms += u64::from(slot.fsm == Fsm::Incomplete);
                Message::Pull
            }
            Action::WriteBack => Message::WriteBack,
            _ => Message::Plain,
        };
        *header = self.header(id, message, frame, &parsed.keyed);
        match action {
            Action::Wait => Decision::Hold,
            _ => Decision::Punt,
        }
    }

    /// A packet of a flow without a slot: take one if the flow is worth it and one is free.
    #[cold]
    fn without_slot(
        &mut self,
        frame: &Frame,
        parsed: &Parsed,
        clock: Clock,
        header: &mut Header,
    ) -> Decision {
        *header = match self.slot_for(frame, parsed, clock) {
            Some(id) => self.header(id, Message::Pull, frame, &parsed.keyed),
            None => Header::of_packet(Message::Plain, frame, &parsed.keyed),
        };
        Decision::Punt
    }

    fn slot_for(&mut self, frame: &Frame, parsed: &Parsed, clock: Clock) -> Option<SlotId> {
        let event = self.event_without_state(frame, parsed, Fsm::Initial);
        if event != (Event::Simple { hot: true }) {
            return None;
        }
        let is_free = |control: &Packed| Slot::unpack(*control).fsm == Fsm::Initial;
        let Some(id) = self.table.vacant(parsed.hash, is_free) else {
            self.stats.collisions += 1;
            return None;
        };
        self.table.assign(id, &parsed.keyed.key, parsed.hash);
        self.stats.pulls += 1;
        self.transition(id, Slot::default(), event, clock);
        Some(id)
    }

    /// What a packet is to a slot that has no state to run the programs on.
    fn event_without_state(&mut self, frame: &Frame, parsed: &Parsed, fsm: Fsm) -> Event {
        // Whether a packet is always complex never depends on the direction's programs alone, so
        // either direction may be asked while the opener is not known.
        let is_complex = parsed.keyed.role != Role::Member
            || self
                .interpreter
                .is_always_complex(&view(frame, parsed, parsed.keyed.side));
        match is_complex {
            true => Event::Complex,
            false => Event::Simple {
                hot: fsm == Fsm::Initial
                    && !self.is_retiring
                    && self.sketch.count(parsed.hash) >= self.config.hot_packets,
            },
        }
    }

    /// Steps a slot and stores it, with the deadline that its new state has.
    fn transition(&mut self, id: SlotId, mut slot: Slot, event: Event, clock: Clock) -> Action {
        let (before, waited) = (slot.fsm, slot.waits);
        let generation = &mut self.generation;
        let next_generation = || {
            *generation = generation.wrapping_add(1);
            *generation
        };
        let backoff = self.config.backoff();
        let action = slot.step(event, backoff, next_generation, &All);
        if waited && !slot.waits {
            self.waiting.release(id);
        }
        match (slot.fsm, action) {
            (Fsm::Incomplete, Action::Pull) => {
                slot.time_ns = (clock.link + self.config.incomplete_timeout).0
            }
            (Fsm::Frozen, _) if before == Fsm::Active || action == Action::OwnWriteBack => {
                slot.time_ns = (clock.link + self.config.write_back_timeout).0;
            }
            (Fsm::Active, Action::Install) => slot.time_ns = clock.packet.0,
            _ => {}
        }
        self.stats.population[before as usize] -= 1;
        self.stats.population[slot.fsm as usize] += 1;
        self.table.set_control(id, slot.pack());
        action
    }

    fn header(&self, id: SlotId, message: Message, frame: &Frame, keyed: &Keyed) -> Header {
        let slot = Slot::unpack(self.table.control(id));
        let mut header = Header::of_packet(message, frame, keyed);
        (header.slot, header.generation) = (id, slot.generation);
        if message == Message::WriteBack {
            (header.epoch, header.initiator) = (slot.epoch, slot.initiator);
            header.set_words(self.table.words(id));
        }
        header
    }

    /// Takes a message from the slow path. A recall may need an answer, which is returned.
    pub fn message(&mut self, header: &Header, clock: Clock) -> Option<Header> {
        let event = match header.message {
            Message::State => Event::State(header.generation),
            Message::Decline => Event::Decline(header.generation),
            Message::Acknowledge => Event::Acknowledge(header.generation),
            Message::Recall => return self.recall(header, clock),
            _ => return None,
        };
        if !self.table.contains(header.slot) || self.table.key(header.slot) != header.key {
            self.stats.stale_messages += 1;
            return None;
        }
        let slot = Slot::unpack(self.table.control(header.slot));
        match self.transition(header.slot, slot, event, clock) {
            Action::Install => self.install(header),
            Action::Free => self.count_freed(event),
            _ => self.stats.stale_messages += 1,
        }
        None
    }

    fn install(&mut self, header: &Header) {
        self.stats.installs += 1;
        let mut slot = Slot::unpack(self.table.control(header.slot));
        (slot.initiator, slot.epoch) = (header.initiator, header.epoch);
        self.table.set_control(header.slot, slot.pack());
        let words = self.table.words_mut(header.slot);
        let count = words.len().min(header.words().len());
        words.fill(0);
        words[..count].copy_from_slice(&header.words()[..count]);
    }

    fn count_freed(&mut self, event: Event) {
        match event {
            Event::Decline(_) => self.stats.declines += 1,
            Event::Acknowledge(_) => self.stats.acknowledgements += 1,
            _ => self.stats.incomplete_timeouts += 1,
        }
    }

    /// The workers want to forget a flow that they believe granted. If it is here, it goes back; if
    /// not, say so. A pull or write-back under way will tell them anyway.
    fn recall(&mut self, header: &Header, clock: Clock) -> Option<Header> {
        let id = self
            .table
            .find(&header.key, header.key.hash(&self.hash_key));
        let Some(id) = id else {
            return Some(Header::new(Message::Plain, header.key));
        };
        let slot = Slot::unpack(self.table.control(id));
        match slot.fsm {
            Fsm::Active if slot.generation == header.generation => {
                Some(self.give_back(id, slot, clock))
            }
            Fsm::Initial => Some(Header::new(Message::Plain, header.key)),
            _ => None,
        }
    }

    /// Freezes an idle slot; returns the write-back to send on a packet of our own.
    fn give_back(&mut self, id: SlotId, slot: Slot, clock: Clock) -> Header {
        self.stats.idle_write_backs += 1;
        self.transition(id, slot, Event::Idle, clock);
        self.own_write_back(id, clock)
    }

    fn own_write_back(&self, id: SlotId, clock: Clock) -> Header {
        let slot = Slot::unpack(self.table.control(id));
        let mut header = Header::new(Message::WriteBack, self.table.key(id));
        (header.slot, header.generation, header.epoch) = (id, slot.generation, slot.epoch);
        (header.initiator, header.timestamp) = (slot.initiator, clock.packet);
        header.set_words(self.table.words(id));
        header
    }

    /// Lets time pass: decays the sketch and looks at the next slots' timers. Write-backs of our
    /// own go to `send`, which says whether it could send; if not, the slot is left for later.
    pub fn sweep(&mut self, clock: Clock, mut send: impl FnMut(&Header) -> bool) {
        self.sketch.advance(clock.packet);
        self.give_up_refused(clock);
        let slots = self.table.slots();
        for _ in 0..self.config.sweep_slots.min(slots) {
            let id = self.sweep_hand;
            self.sweep_hand = if id as usize + 1 == slots { 0 } else { id + 1 };
            // Most have no timer: what tells that is one number of the slot, which is cheaper than all of it.
            if Slot::fsm_of(&self.table.control(id)) == Fsm::Initial {
                continue;
            }
            if !self.look_at_timer(id, clock, &mut send) {
                return;
            }
        }
    }

    fn look_at_timer(
        &mut self,
        id: SlotId,
        clock: Clock,
        send: &mut impl FnMut(&Header) -> bool,
    ) -> bool {
        let slot = Slot::unpack(self.table.control(id));
        match slot.fsm {
            Fsm::Initial => true,
            Fsm::Incomplete => {
                if clock.link.0 >= slot.time_ns {
                    self.stats.incomplete_timeouts += 1;
                    self.transition(id, slot, Event::Deadline, clock);
                }
                true
            }
            Fsm::Active => {
                clock.packet.since(Instant(slot.time_ns)) <= self.config.time_to_live
                    || self.freeze_idle(id, slot, clock, send)
            }
            Fsm::Frozen => clock.link.0 < slot.time_ns || self.send_again(id, slot, clock, send),
        }
    }

    /// Sends first and freezes then: if nothing could be sent the slot stays active, which is as
    /// right as before.
    fn freeze_idle(
        &mut self,
        id: SlotId,
        slot: Slot,
        clock: Clock,
        send: &mut impl FnMut(&Header) -> bool,
    ) -> bool {
        let sent = send(&self.own_write_back(id, clock));
        if sent {
            self.stats.idle_write_backs += 1;
            self.transition(id, slot, Event::Idle, clock);
        }
        sent
    }

    fn send_again(
        &mut self,
        id: SlotId,
        slot: Slot,
        clock: Clock,
        send: &mut impl FnMut(&Header) -> bool,
    ) -> bool {
        let sent = send(&self.own_write_back(id, clock));
        if sent {
            self.stats.write_back_retries += 1;
            self.transition(id, slot, Event::Deadline, clock);
        }
        sent
    }

    /// Gives every active slot back, as at the end of a run or before a change of configuration.
    /// Returns false if it has to be called again because `send` could not send.
    pub fn give_all_back(&mut self, clock: Clock, mut send: impl FnMut(&Header) -> bool) -> bool {
        if self.stats.population[Fsm::Active as usize] == 0 {
            return true;
        }
        (0..self.table.slots() as SlotId).all(|id| {
            let slot = Slot::unpack(self.table.control(id));
            slot.fsm != Fsm::Active || self.freeze_idle(id, slot, clock, &mut send)
        })
    }

    /// Slots that wait for the slow path.
    pub fn waiting_slots(&self) -> u64 {
        self.stats.population[Fsm::Incomplete as usize]
            + self.stats.population[Fsm::Frozen as usize]
    }
}

impl PlainStage<'_> {
    /// Runs the programs on a packet of the flow that `slot` probably holds, and rewrites it if it
    /// goes on. Returns what was decided; if nothing, nothing has happened to it, and
    /// [`StateStage::packet`] is to decide.
    #[inline(always)]
    pub fn packet(
        &mut self,
        frame: &mut Frame,
        plain: Plain,
        flow: &PlainKey,
        slot: SlotId,
    ) -> Option<Decision> {
        let Held { control, words } = self.table.known(slot, flow.key)?;
        if Slot::fsm_of(control) != Fsm::Active {
            return None;
        }
        let view = PlainView {
            plain,
            direction: Direction::between(flow.side, Slot::initiator_of(control)),
            alias_row: flow.alias_row,
        };
        let decision = decision(self.programs.run(frame, view, words))?;
        Slot::set_time_of(control, frame.timestamp().0);
        Some(decision)
    }

    /// The same for any packet.
    #[inline(never)]
    pub fn other_packet(
        &mut self,
        frame: &mut Frame,
        parsed: &Parsed,
        slot: SlotId,
    ) -> Option<Decision> {
        let Held { control, words } = self.table.held(slot, &parsed.keyed.key)?;
        let is_here = Slot::fsm_of(control) == Fsm::Active && !are_zero(words);
        if !is_here || parsed.keyed.role != Role::Member {
            return None;
        }
        let view = view(frame, parsed, Slot::initiator_of(control));
        let exit = self.programs.decide(&view, words);
        let decision = decision(exit)?;
        if matches!(exit, Exit::Continue | Exit::Reply) {
            self.programs.commit(frame, &parsed.layout);
        }
        Slot::set_time_of(control, frame.timestamp().0);
        Some(decision)
    }
}

/// What a packet's programs decided; `None` if it is complex.
#[inline(always)]
const fn decision(exit: Exit) -> Option<Decision> {
    match exit {
        Exit::Continue => Some(Decision::FORWARD),
        Exit::Reply => Some(Decision::Reply),
        Exit::Drop(reason) => Some(Decision::Drop(reason)),
        Exit::Escalate => None,
    }
}

/// A packet as programs see it in a flow that `initiator` opened.
#[inline(always)]
fn view<'a>(frame: &'a Frame, parsed: &'a Parsed, initiator: Side) -> PacketView<'a> {
    PacketView {
        bytes: frame.bytes(),
        layout: &parsed.layout,
        keyed: &parsed.keyed,
        direction: Direction::between(parsed.keyed.side, initiator),
        now: frame.timestamp(),
    }
}
