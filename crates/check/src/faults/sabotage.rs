//! What no link may do: to show that every rule can fail.
//!
//! Production code stays as it is. The simulated link forges, replays or steals frames in ways
//! that neither loss nor delay nor detected reordering amounts to, the driver of a change does not
//! wait for what it must wait for, or the fast path is built without a part.

use super::draw::{self, Draw};
use super::record::happened::Happened;
use super::rule::Rule;
use super::simulation::Simulation;
use super::world::frame::{Cargo, overwrite};
use super::world::line::copy;
use super::world::line_id::LineId;
use twinpath_coherence::fsm::Fsm;
use twinpath_core::Frame;
use twinpath_link::header::FIXED_BYTES;
use twinpath_link::{Header, Message, attach};

macro_rules! sabotages {
    ($($sabotage:ident, $name:literal, breaks $rule:ident: $prose:literal;)*) => {
        /// One way to break the protocol from outside.
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub enum Sabotage {
            $(#[doc = $prose] $sabotage,)*
        }

        impl Sabotage {
            /// Each with the rule that it must break.
            pub const ALL: [(Self, Rule); [$(Self::$sabotage),*].len()] =
                [$((Self::$sabotage, Rule::$rule)),*];

            /// The name by which the command asks for it, and what it does.
            pub const fn name_and_prose(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$sabotage => ($name, $prose),)*
                }
            }
        }
    };
}

sabotages! {
    UnnoticedReordering, "unnoticed-reordering", breaks NothingBehind:
        "Frames overtake each other, and their numbers do not tell";
    CorruptedState, "corrupted-state", breaks OneTruth:
        "A word of the state is changed on its way to the fast path";
    ReplayFromFormerLife, "replay-from-former-life", breaks OneImport:
        "Old write-backs are sent again, as if other workers had granted their value";
    ForgedAcknowledgement, "forged-acknowledgement", breaks FreedAfterImport:
        "A write-back is lost and acknowledged nevertheless";
    Replay, "replay", breaks OnceInOrder:
        "Old write-backs are sent again";
    CorruptedWriteBack, "corrupted-write-back", breaks FrozenStays:
        "A word of the state is changed on its way to the slow path";
    StaleGeneration, "stale-generation", breaks NoCrossTalk:
        "The answer to an old pull is given for one to the present one";
    SwallowedAcknowledgements, "swallowed-acknowledgements", breaks Progress:
        "No acknowledgement ever arrives";
    WrongNumbers, "wrong-numbers", breaks LinkChecked:
        "Frames bear wrong numbers";
    StolenPackets, "stolen-packets", breaks Conserved:
        "Packets are taken off their frames";
    HastyChange, "hasty-change", breaks Migration:
        "The chain is changed before all flows are home";
    HastyProgress, "hasty-progress", breaks Watermark:
        "The machine is told that workers are further than they are";
    ChangedRules, "changed-rules", breaks AsAlone:
        "Rules are changed on their way to the fast path";
    WrongBindings, "wrong-bindings", breaks InForce:
        "Rules are sent with the ports of other bindings";
    ForgottenUses, "forgotten-uses", breaks AliveInUse:
        "How often rules were used is forgotten on the way to the slow path";
    ForgedRemoval, "forged-removal", breaks BooksAgree:
        "A request to take a rule out is lost, and answered nevertheless";
    HastyMarks, "hasty-marks", breaks OnceInOrder:
        "Marks are answered before all in front of them has come back";
    SwallowedRemovals, "swallowed-removals", breaks Progress:
        "Nobody ever hears that a rule is gone";
    HiddenCrashes, "hidden-crashes", breaks BooksAgree:
        "All that workers say bears the epoch of their first life";
    SwappedTickets, "swapped-tickets", breaks Whole:
        "Of two headers on their way back one is lost, and the other bears its ticket";
}

impl Sabotage {
    /// Whether frames are numbered only when they are received.
    pub(super) const fn hides_order(self) -> bool {
        matches!(
            self,
            Self::UnnoticedReordering | Self::ReplayFromFormerLife | Self::Replay
        )
    }

    const fn replays(self) -> bool {
        matches!(self, Self::ReplayFromFormerLife | Self::Replay)
    }
}

/// Who does it.
pub(super) struct Saboteur {
    sabotage: Sabotage,
    draw: Draw,
    /// An old write-back.
    memory: Option<(LineId, Cargo, Frame)>,
    is_at_work: bool,
    /// What named the payload of a header that is lost.
    pub(super) ticket: Option<[u8; 8]>,
}

impl Saboteur {
    pub fn new(sabotage: Sabotage, seed: u64) -> Self {
        Self {
            sabotage,
            draw: Draw::new(seed, draw::SABOTAGE),
            memory: None,
            is_at_work: false,
            ticket: None,
        }
    }
}

/// Where the header has what is forged (see [`twinpath_link::header`]).
const MESSAGE_AT: usize = 3;
const FLAGS_AT: usize = 6;
const SEQUENCE_AT: usize = 8;
const EPOCH_AT: usize = 12;
const GENERATION_AT: usize = 16;

impl Simulation {
    pub(super) fn sabotage(&self) -> Option<Sabotage> {
        self.saboteur.as_ref().map(|saboteur| saboteur.sabotage)
    }

    pub(super) fn strikes(&mut self, one_in: u64) -> bool {
        self.saboteur
            .as_mut()
            .is_some_and(|saboteur| saboteur.draw.one_in(one_in))
    }

    /// Before a frame is sent. True if it must not be.
    pub(super) fn tamper_on_sending(
        &mut self,
        line: LineId,
        cargo: &Cargo,
        frame: &mut Frame,
    ) -> bool {
        match (self.sabotage(), cargo.message) {
            (Some(Sabotage::ForgedAcknowledgement), Message::WriteBack) => {
                self.strikes(4) && self.forge_acknowledgement(line, cargo)
            }
            (Some(Sabotage::SwallowedAcknowledgements), Message::Acknowledge) => {
                self.note(Happened::Sabotaged {
                    line,
                    how: "an ACK is swallowed",
                });
                overwrite(frame, MESSAGE_AT, &[Message::Return as u8]);
                cargo.packet.is_none()
            }
            (Some(sabotage), _) if sabotage.replays() && !line.is_back => {
                self.remember_or_replay(line, cargo, frame);
                false
            }
            (Some(Sabotage::SwappedTickets), _) if line.is_back => self.swap_ticket(line, frame),
            _ => self.tamper_with_rules(line, cargo, frame),
        }
    }

    fn forge_acknowledgement(&mut self, line: LineId, cargo: &Cargo) -> bool {
        self.note(Happened::Sabotaged {
            line,
            how: "a WB is lost, and acknowledged",
        });
        let mut header = Header::new(Message::Acknowledge, cargo.key);
        (header.slot, header.generation) = (cargo.slot, cargo.generation);
        let Some(mut frame) = self.spare.take(0) else {
            return false;
        };
        let is_written = attach(&mut frame, &header).is_ok();
        self.send(LineId::from_worker(line.worker), frame);
        is_written
    }

    fn remember_or_replay(&mut self, line: LineId, cargo: &Cargo, frame: &Frame) {
        let strikes = self.strikes(8);
        let Some(saboteur) = &mut self.saboteur else {
            return;
        };
        if saboteur.is_at_work {
            return;
        }
        if saboteur.memory.is_none() && cargo.message == Message::WriteBack {
            let copy = copy(frame, &mut self.spare);
            saboteur.memory = copy.map(|copy| (line, cargo.clone(), copy));
            return;
        }
        if let Some((line, _, frame)) = saboteur.memory.take_if(|_| strikes) {
            saboteur.is_at_work = true;
            self.send_again(line, frame);
        }
    }

    fn send_again(&mut self, line: LineId, mut frame: Frame) {
        self.note(Happened::Sabotaged {
            line,
            how: "an old WB is sent again",
        });
        if self.sabotage() == Some(Sabotage::ReplayFromFormerLife) {
            overwrite(&mut frame, EPOCH_AT, &[0xff; 4]);
        }
        self.send(line, frame);
        if let Some(saboteur) = &mut self.saboteur {
            saboteur.is_at_work = false;
        }
    }

    /// Before a frame is received by a worker.
    pub(super) fn tamper_at_worker(&mut self, worker: usize, cargo: &Cargo, frame: &mut Frame) {
        let line = LineId::to_worker(worker);
        match self.sabotage() {
            Some(Sabotage::CorruptedWriteBack) if cargo.message == Message::WriteBack => {
                self.note(Happened::Sabotaged {
                    line,
                    how: "a word is changed",
                });
                flip(frame, FIXED_BYTES);
            }
            Some(Sabotage::WrongNumbers) if self.strikes(20) => {
                self.note(Happened::Sabotaged {
                    line,
                    how: "a number is changed",
                });
                flip(frame, SEQUENCE_AT + 2);
            }
            Some(Sabotage::StolenPackets) if self.strikes(20) => {
                self.note(Happened::Sabotaged {
                    line,
                    how: "a packet is stolen",
                });
                let flags = frame.bytes().get(FLAGS_AT).map_or(0, |flags| flags & !1);
                overwrite(frame, FLAGS_AT, &[flags]);
            }
            _ => {}
        }
    }

    /// Before a frame is received by the fast path.
    pub(super) fn tamper_on_return(&mut self, line: LineId, cargo: &Cargo, frame: &mut Frame) {
        if self.sabotage() == Some(Sabotage::HiddenCrashes) && cargo.epoch > 1 {
            self.note(Happened::Sabotaged {
                line,
                how: "the epoch is made the first",
            });
            overwrite(frame, EPOCH_AT, &1u32.to_be_bytes());
        }
        if cargo.message != Message::State {
            return;
        }
        match self.sabotage() {
            Some(Sabotage::CorruptedState) => {
                self.note(Happened::Sabotaged {
                    line,
                    how: "a word is changed",
                });
                flip(frame, FIXED_BYTES);
            }
            Some(Sabotage::StaleGeneration) => {
                let flow = self.history.flow_of(&cargo.key);
                let slot = flow.and_then(|flow| self.slot_of(&self.history.flows[flow]));
                if let Some(slot) = slot.filter(|slot| slot.fsm == Fsm::Incomplete) {
                    overwrite(frame, GENERATION_AT, &slot.generation.to_be_bytes());
                    self.note(Happened::Sabotaged {
                        line,
                        how: "the generation is made the present one",
                    });
                }
            }
            _ => {}
        }
    }
}

fn flip(frame: &mut Frame, at: usize) {
    if let Some(byte) = frame.bytes_mut().get_mut(at) {
        *byte ^= 1;
    }
}
