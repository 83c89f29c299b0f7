//! The life of a slot: state x event -> state and action.
//!
//! | state | simple packet | complex packet | STATE(g) | DECLINE(g) | ACK(g) | deadline | idle |
//! |---|---|---|---|---|---|---|---|
//! | INITIAL | hot: PULL -> INCOMPLETE, else PLAIN | PLAIN | ignore | ignore | ignore | - | - |
//! | INCOMPLETE | cancel: PULL again, or wait, or PLAIN -> INITIAL | PLAIN -> INITIAL | install -> ACTIVE | -> INITIAL | ignore | -> INITIAL | - |
//! | ACTIVE | update, exit | WB -> FROZEN | ignore | ignore | ignore | - | own WB -> FROZEN |
//! | FROZEN | WB | WB | ignore | ignore | -> INITIAL | own WB | - |
//!
//! A message counts only if its generation is the slot's; the key was compared before. The whole
//! table, for every generation relation, is in the snapshot test below.
//!
//! A pull succeeds only if no packet of its flow passes while the answer is under way. A flow whose
//! packets follow each other faster than the slow path answers would so never come to the fast path,
//! and just these flows keep the queue long that they wait in. So after some cancelled pulls in
//! a row the packets behind the next one [wait](Action::Wait) on the fast path for its answer, where
//! the device has room for them; none waits longer than it would have at the slow path. The paper
//! (SwitchNIC §4.5) leaves such flows on the slow path: a switch has nowhere to keep packets.

use crate::safeguards::{Safeguard, Safeguards};
use twinpath_core::Side;

/// Where a slot is in its life (SwitchNIC §4.5).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Fsm {
    /// Free; the workers hold the state of whatever flow was here.
    #[default]
    Initial = 0,
    /// Pulled; the answer is under way.
    Incomplete = 1,
    /// The fast path holds the state and alone may write it.
    Active = 2,
    /// The state is on its way back and may not be written until acknowledged.
    Frozen = 3,
}

impl Fsm {
    /// All states, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Initial, Self::Incomplete, Self::Active, Self::Frozen];

    #[inline(always)]
    const fn from_bits(bits: u32) -> Self {
        Self::ALL[(bits & 3) as usize]
    }

    /// The state's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Incomplete => "incomplete",
            Self::Active => "active",
            Self::Frozen => "frozen",
        }
    }
}

/// What happens to a slot. Packets are those of the slot's own flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A packet that the fast path could finish if it had the state (or can, since it has).
    Simple {
        /// Whether the flow is worth a slot.
        hot: bool,
    },
    /// A packet that only the workers can finish.
    Complex,
    /// The workers granted the state of this generation.
    State(u32),
    /// The workers keep the state.
    Decline(u32),
    /// The workers have the value of this generation.
    Acknowledge(u32),
    /// The slot's deadline has passed.
    Deadline,
    /// The flow has been idle for longer than the slot's time to live.
    Idle,
    /// More packets of the flow wait than may.
    Crowded,
    /// The link had no room for the pull.
    Refused,
}

/// What to do about it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send the packet to the slow path as PLAIN.
    Plain,
    /// Send the packet to the slow path as PULL of the slot's (new) generation.
    Pull,
    /// Update the state and let the packet out.
    Update,
    /// Let the packet wait for the answer to the pull.
    Wait,
    /// Send the packet to the slow path with the frozen value.
    WriteBack,
    /// Send the frozen value on a packet of our own.
    OwnWriteBack,
    /// Store the value that came with the message.
    Install,
    /// The slot is free.
    Free,
    /// Nothing.
    Ignore,
}

/// How eagerly cancelled pulls are repeated.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// How often a cancelled pull is repeated at once before packets wait for the answer, or the flow
    /// is left alone for a while.
    pub rearms: u8,
    /// Whether packets may wait.
    pub waits: bool,
}

/// A flow that was cancelled too often is left alone for at most 2 to this many packets.
const MAX_PAUSE_EXPONENT: u8 = 10;

/// The bits that a slot has for its pauses.
const PAUSES_MASK: u8 = 0x1f;

/// The bit of a packed slot that says that packets wait; those below it are the pause's.
const WAITS_BIT: u32 = 1 << 31;

const _: () = assert!(1 << MAX_PAUSE_EXPONENT < WAITS_BIT >> 16);

const _: () = assert!(MAX_PAUSE_EXPONENT <= PAUSES_MASK);

/// A [`Slot`] as the state table keeps it.
pub type Packed = [u32; 5];

/// The control part of a slot.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Where it is in its life.
    pub fsm: Fsm,
    /// The pull that the slot's content belongs to.
    pub generation: u32,
    /// The end that opened the flow.
    pub initiator: Side,
    /// Incarnation of the slow path that granted the state.
    pub epoch: u32,
    /// ACTIVE: when the flow last had a packet (packet clock). INCOMPLETE, FROZEN: when to act
    /// (link clock). Nanoseconds.
    pub time_ns: u64,
    /// Pulls cancelled in a row since the last pause.
    pub cancelled: u8,
    /// Pauses in a row without a pull that succeeded, counted up to the longest.
    pub pauses: u8,
    /// Packets of the flow to let pass before the next pull.
    pub pause: u16,
    /// INCOMPLETE: packets of the flow wait for the answer.
    pub waits: bool,
    /// For the checker alone: a slot that should be frozen and is not yet.
    pub freezes_late: bool,
}

impl Slot {
    /// Packs the slot into what a slot of the state table has for it.
    #[inline(always)]
    pub const fn pack(&self) -> Packed {
        let flags = self.fsm as u32
            | (self.initiator as u32) << 2
            | (self.pauses as u32) << 3
            | (self.cancelled as u32) << 8
            | (self.pause as u32) << 16
            | (self.waits as u32) << 31;
        let time_ns = self.time_ns;
        let [low, high] = [time_ns as u32, (time_ns >> 32) as u32];
        [flags, low, high, self.generation, self.epoch]
    }

    /// Sets [`Self::time_ns`] of a packed slot.
    #[inline(always)]
    pub const fn set_time_of(packed: &mut Packed, time_ns: u64) {
        (packed[1], packed[2]) = (time_ns as u32, (time_ns >> 32) as u32);
    }

    /// [`Self::fsm`] of a packed slot.
    #[inline(always)]
    pub const fn fsm_of(packed: &Packed) -> Fsm {
        Fsm::from_bits(packed[0])
    }

    /// [`Self::initiator`] of a packed slot.
    #[inline(always)]
    pub const fn initiator_of(packed: &Packed) -> Side {
        Side::from_bit(packed[0] >> 2 & 1 != 0)
    }

    /// The reverse of [`Self::pack`].
    #[inline(always)]
    pub const fn unpack([flags, low, high, generation, epoch]: Packed) -> Self {
        Self {
            fsm: Fsm::from_bits(flags),
            generation,
            initiator: Side::from_bit(flags & 4 != 0),
            epoch,
            time_ns: low as u64 | (high as u64) << 32,
            cancelled: (flags >> 8) as u8,
            pauses: (flags >> 3) as u8 & PAUSES_MASK,
            pause: ((flags & !WAITS_BIT) >> 16) as u16,
            waits: flags & WAITS_BIT != 0,
            freezes_late: false,
        }
    }

    /// The transition. `next_generation` is called for every pull and only then; it must never
    /// give a number twice while frames of its first use may be under way.
    #[inline]
    pub fn step(
        &mut self,
        event: Event,
        backoff: Backoff,
        next_generation: impl FnOnce() -> u32,
        safeguards: &impl Safeguards,
    ) -> Action {
        match self.fsm {
            Fsm::Initial => self.initial(event, next_generation),
            Fsm::Incomplete => self.incomplete(event, backoff, next_generation, safeguards),
            Fsm::Active => self.active(event, safeguards),
            Fsm::Frozen => self.frozen(event, safeguards),
        }
    }

    fn initial(&mut self, event: Event, next_generation: impl FnOnce() -> u32) -> Action {
        match event {
            Event::Simple { hot: true } if self.pause == 0 => {
                self.fsm = Fsm::Incomplete;
                self.generation = next_generation();
                Action::Pull
            }
            Event::Simple { .. } => {
                self.pause = self.pause.saturating_sub(1);
                Action::Plain
            }
            Event::Complex => Action::Plain,
            _ => Action::Ignore,
        }
    }

    fn incomplete(
        &mut self,
        event: Event,
        backoff: Backoff,
        next_generation: impl FnOnce() -> u32,
        safeguards: &impl Safeguards,
    ) -> Action {
        let ours =
            |generation| generation == self.generation || !safeguards.keeps(Safeguard::Generations);
        match event {
            Event::Simple { .. } | Event::Complex if !safeguards.keeps(Safeguard::Cancel) => {
                Action::Plain
            }
            Event::Simple { .. } if self.waits => Action::Wait,
            // Those that wait go first.
            Event::Complex if self.waits => {
                self.give_up();
                Action::Wait
            }
            Event::Simple { .. } => self.cancel(backoff, next_generation),
            Event::Complex => {
                self.fsm = Fsm::Initial;
                Action::Plain
            }
            Event::State(generation) if ours(generation) => {
                (self.fsm, self.cancelled, self.pauses) = (Fsm::Active, 0, 0);
                self.waits = false;
                Action::Install
            }
            Event::Decline(generation) if ours(generation) => self.give_up(),
            Event::Deadline | Event::Crowded => self.give_up(),
            Event::Refused => self.free(),
            _ => Action::Ignore,
        }
    }

    /// A packet passed while the answer was under way: that answer will be stale. Pull again with
    /// this packet. If it keeps happening the packets behind this one wait, or the flow is left alone
    /// for a while.
    fn cancel(&mut self, backoff: Backoff, next_generation: impl FnOnce() -> u32) -> Action {
        if self.cancelled < backoff.rearms {
            self.cancelled += 1;
            self.generation = next_generation();
            return Action::Pull;
        }
        if backoff.waits && !self.waits {
            self.waits = true;
            self.generation = next_generation();
            return Action::Pull;
        }
        self.pause();
        Action::Plain
    }

    /// No pull is under way any more; a flow whose packets have waited in vain is left alone for a
    /// while.
    fn give_up(&mut self) -> Action {
        match self.waits {
            true => self.pause(),
            false => self.fsm = Fsm::Initial,
        }
        Action::Free
    }

    /// The flow is left alone, each time twice as long as before, up to the longest pause.
    fn pause(&mut self) {
        self.pauses = MAX_PAUSE_EXPONENT.min(self.pauses + 1);
        (self.cancelled, self.pause) = (0, 1 << self.pauses);
        (self.fsm, self.waits) = (Fsm::Initial, false);
    }

    fn active(&mut self, event: Event, safeguards: &impl Safeguards) -> Action {
        match event {
            Event::Simple { .. } => {
                if self.freezes_late {
                    (self.freezes_late, self.fsm) = (false, Fsm::Frozen);
                }
                Action::Update
            }
            Event::Complex => self.give_back(Action::WriteBack, safeguards),
            Event::Idle if !safeguards.keeps(Safeguard::TtlWriteBack) => self.free(),
            Event::Idle => self.give_back(Action::OwnWriteBack, safeguards),
            _ => Action::Ignore,
        }
    }

    fn give_back(&mut self, action: Action, safeguards: &impl Safeguards) -> Action {
        if !safeguards.keeps(Safeguard::Freeze) && !self.freezes_late {
            self.freezes_late = true;
            return action;
        }
        self.freezes_late = false;
        self.fsm = if safeguards.keeps(Safeguard::WriteBack) {
            Fsm::Frozen
        } else {
            Fsm::Initial
        };
        action
    }

    fn frozen(&mut self, event: Event, safeguards: &impl Safeguards) -> Action {
        let ours =
            |generation| generation == self.generation || !safeguards.keeps(Safeguard::Generations);
        match event {
            Event::Simple { .. } | Event::Complex => Action::WriteBack,
            Event::Acknowledge(generation) if ours(generation) => self.free(),
            Event::Deadline => Action::OwnWriteBack,
            _ => Action::Ignore,
        }
    }

    fn free(&mut self) -> Action {
        (self.fsm, self.waits) = (Fsm::Initial, false);
        Action::Free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safeguards::All;
    use std::fmt::Write;

    const BACKOFF: Backoff = Backoff {
        rearms: 1,
        waits: false,
    };

    /// Every state under every event, messages with the slot's generation (7) and another. A slot that
    /// packets wait for is told by another name.
    fn table() -> String {
        let events = [
            Event::Simple { hot: false },
            Event::Simple { hot: true },
            Event::Complex,
            Event::State(7),
            Event::State(6),
            Event::Decline(7),
            Event::Decline(6),
            Event::Acknowledge(7),
            Event::Acknowledge(6),
            Event::Deadline,
            Event::Idle,
            Event::Crowded,
            Event::Refused,
        ];
        let name = |slot: &Slot| match slot.waits {
            true => "waiting",
            false => slot.fsm.name(),
        };
        let slots = Fsm::ALL.map(|fsm| (fsm, false));
        let mut text = String::new();
        for (fsm, waits) in slots.into_iter().chain([(Fsm::Incomplete, true)]) {
            for event in events {
                let before = Slot {
                    fsm,
                    waits,
                    generation: 7,
                    ..Slot::default()
                };
                let mut slot = before;
                let action = slot.step(event, BACKOFF, || 8, &All);
                writeln!(
                    text,
                    "{:<10} {:<23} -> {:<10} {:?} (g {})",
                    name(&before),
                    format!("{event:?}"),
                    name(&slot),
                    action,
                    slot.generation
                )
                .expect("a string grows");
            }
        }
        text
    }

    #[test]
    fn the_whole_transition_table() {
        assert_eq!(table(), include_str!("fsm_table.txt"));
    }

    #[test]
    fn slots_survive_packing() {
        let slot = Slot {
            fsm: Fsm::Frozen,
            generation: 0xfedc_ba98,
            initiator: Side::High,
            epoch: 77,
            time_ns: 1 << 60,
            cancelled: 250,
            pauses: 10,
            pause: 1024,
            waits: true,
            freezes_late: false,
        };
        assert_eq!(Slot::unpack(slot.pack()), slot);
        assert_eq!(
            Slot::unpack([0; 5]),
            Slot::default(),
            "a zeroed table is a table of free slots"
        );
    }

    /// The packets with which a flow that never pauses pulls.
    fn pulls(rearms: u8, packets: u32) -> Vec<u32> {
        let mut slot = Slot::default();
        let mut step = |number: &u32| {
            let event = Event::Simple { hot: true };
            slot.step(
                event,
                Backoff {
                    rearms,
                    waits: false,
                },
                || *number,
                &All,
            ) == Action::Pull
        };
        (0..packets).filter(|packet| step(packet)).collect()
    }

    #[test]
    fn cancellations_back_off_exponentially_and_for_ever() {
        for rearms in [0, 1, 4, 255] {
            // A round is a pull, its repetitions, the packet that ends them, and the pause.
            let round = u32::from(rearms) + 2;
            let pulls = pulls(rearms, 600_000);
            let firsts: Vec<_> = pulls.iter().step_by(usize::from(rearms) + 1).collect();
            for (number, pair) in firsts.windows(2).enumerate() {
                let pause = 2 << number.min(usize::from(MAX_PAUSE_EXPONENT) - 1);
                assert_eq!(
                    pair[1] - pair[0],
                    round + pause,
                    "round {number} of {rearms}"
                );
            }
            assert!(firsts.len() > 400, "{} rounds", firsts.len());
        }
    }

    #[test]
    fn packets_wait_behind_a_pull_that_was_cancelled_too_often() {
        const WAITS: Backoff = Backoff {
            rearms: 2,
            waits: true,
        };
        let simple = Event::Simple { hot: true };
        let waiting = || {
            let mut slot = Slot::default();
            let mut step = |number: u32| slot.step(simple, WAITS, || number, &All);
            let actions: Vec<_> = (1..=6).map(&mut step).collect();
            let [first @ .., fifth, sixth] = &actions[..] else {
                panic!("six steps")
            };
            assert_eq!(
                first,
                [Action::Pull; 4],
                "one, two repeated, one with waiting"
            );
            assert_eq!([*fifth, *sixth], [Action::Wait; 2]);
            assert_eq!((slot.fsm, slot.generation), (Fsm::Incomplete, 4));
            slot
        };
        for (event, action, fsm) in [
            (Event::State(4), Action::Install, Fsm::Active),
            (Event::Decline(4), Action::Free, Fsm::Initial),
            (Event::Deadline, Action::Free, Fsm::Initial),
            (Event::Crowded, Action::Free, Fsm::Initial),
            (Event::Complex, Action::Wait, Fsm::Initial),
        ] {
            let mut slot = waiting();
            assert_eq!(slot.step(event, WAITS, || 9, &All), action, "{event:?}");
            assert_eq!((slot.fsm, slot.waits), (fsm, false), "{event:?}");
            assert_eq!(slot.pause > 0, fsm == Fsm::Initial, "{event:?}");
        }
        let mut slot = waiting();
        assert_eq!(slot.step(Event::Refused, WAITS, || 9, &All), Action::Free);
        assert_eq!(
            slot.step(simple, WAITS, || 9, &All),
            Action::Pull,
            "a full link is no reason for a pause"
        );
    }

    #[test]
    fn an_answer_that_comes_in_time_ends_the_back_off() {
        let mut slot = Slot {
            fsm: Fsm::Incomplete,
            cancelled: 1,
            pauses: 5,
            ..Slot::default()
        };
        slot.step(Event::State(0), BACKOFF, || 1, &All);
        assert_eq!((slot.cancelled, slot.pauses), (0, 0));
    }
}
