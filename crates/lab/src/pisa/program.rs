//! The state table, stage by stage.
//!
//! | stage | registers | who touches them |
//! |---|---|---|
//! | 2 | first indicator and generation | everybody |
//! | 3 | state | everybody whose flow is active |
//! | 4 | second indicator: frozen (`duplicate` alone) | the same |
//! | 5 | second copy of the state (`duplicate` alone) | the same |
//!
//! Stages 0 and 1 stand for hashing and for comparing keys.

use super::parameters::Freeze;
use super::pipeline::{Program, Registers};

const FIRST_INDICATOR: usize = 2;
const STATE: usize = 3;
const SECOND_INDICATOR: usize = 4;
const SECOND_STATE: usize = 5;

/// A packet, with what it has learnt on its way through the stages.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) flow: u32,
    /// In order of arrival.
    pub(crate) number: u64,
    pub(crate) is_complex: bool,
    pub(crate) kind: Kind,
    pub(crate) found: Found,
    /// What the switch told it.
    pub(crate) value: Option<u64>,
    /// The state it carries to the cores.
    pub(crate) write_back: Option<u64>,
}

/// What a packet is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A packet of a flow.
    New,
    /// One that goes round to freeze its flow's state.
    Freeze { generation: u32, is_copy: bool },
    /// A state from the cores.
    Install { generation: u32, value: u64 },
    /// The cores have the state: the slot is free.
    Acknowledge { generation: u32 },
}

/// What a packet has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing yet, or nothing of use.
    Nothing,
    /// No state: it asks the cores for it.
    Empty { generation: u32 },
    /// The state is here.
    Active { generation: u32 },
    /// The state is frozen, or to be frozen by this packet.
    Frozen { generation: u32 },
    /// Its own message is meant for this generation.
    Meant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Status {
    #[default]
    Initial,
    Incomplete,
    Active,
    /// Set by packets that go round.
    Frozen,
}

#[derive(Clone, Copy, Debug, Default)]
struct Indicator {
    status: Status,
    generation: u32,
}

/// All registers of the table.
#[derive(Debug)]
pub(crate) struct StateTable {
    freeze: Freeze,
    first: Registers<Indicator>,
    state: Registers<u64>,
    frozen: Registers<bool>,
    second: Registers<u64>,
}

impl StateTable {
    pub(crate) fn new(freeze: Freeze, flows: u32) -> Self {
        let count = flows as usize;
        Self {
            freeze,
            first: Registers::new(count),
            state: Registers::new(count),
            frozen: Registers::new(count),
            second: Registers::new(count),
        }
    }
}

impl Program for StateTable {
    type Packet = Packet;

    fn stage(&mut self, stage: usize, cycle: u64, packet: &mut Packet) {
        let slot = packet.flow as usize;
        let is_doubled = self.freeze == Freeze::Duplicate;
        match stage {
            FIRST_INDICATOR => {
                packet.found = self
                    .first
                    .access(cycle, slot, |at| indicate(at, packet.kind));
            }
            STATE => self
                .state
                .access(cycle, slot, |state| first_state(state, packet)),
            SECOND_INDICATOR if is_doubled => {
                self.frozen
                    .access(cycle, slot, |frozen| second_indicator(frozen, packet));
            }
            SECOND_STATE if is_doubled => {
                self.second
                    .access(cycle, slot, |state| second_state(state, packet));
            }
            _ => (),
        }
    }
}

fn indicate(at: &mut Indicator, kind: Kind) -> Found {
    let generation = at.generation;
    match (kind, at.status) {
        (Kind::Install { generation: of, .. }, Status::Incomplete) if of == generation => {
            at.status = Status::Active;
            Found::Meant
        }
        (Kind::Acknowledge { generation: of }, Status::Active | Status::Frozen)
            if of == generation =>
        {
            at.status = Status::Initial;
            Found::Meant
        }
        (Kind::Install { .. } | Kind::Acknowledge { .. }, _) => Found::Nothing,
        (Kind::Freeze { generation: of, .. }, Status::Active) if of == generation => {
            at.status = Status::Frozen;
            Found::Frozen { generation }
        }
        (Kind::Freeze { is_copy: true, .. }, _) => Found::Nothing,
        (Kind::New | Kind::Freeze { .. }, status) => visit(at, status),
    }
}

/// A packet of the flow passes.
fn visit(at: &mut Indicator, status: Status) -> Found {
    match status {
        Status::Initial => {
            at.status = Status::Incomplete;
            at.generation = at.generation.wrapping_add(1);
            Found::Empty {
                generation: at.generation,
            }
        }
        // Another packet before the state is here: the request is cancelled.
        Status::Incomplete => {
            at.status = Status::Initial;
            Found::Nothing
        }
        Status::Active => Found::Active {
            generation: at.generation,
        },
        Status::Frozen => Found::Frozen {
            generation: at.generation,
        },
    }
}

fn first_state(state: &mut u64, packet: &mut Packet) {
    match (packet.found, packet.kind) {
        (Found::Meant, Kind::Install { value, .. }) => *state = value,
        (Found::Active { .. }, _) if !packet.is_complex => {
            *state += 1;
            packet.value = Some(*state);
        }
        (Found::Active { .. } | Found::Frozen { .. }, _) => packet.write_back = Some(*state),
        _ => (),
    }
}

fn second_indicator(frozen: &mut bool, packet: &mut Packet) {
    match packet.found {
        Found::Meant => *frozen = false,
        Found::Active { generation } => {
            *frozen |= packet.is_complex;
            if *frozen {
                packet.found = Found::Frozen { generation };
            }
        }
        _ => (),
    }
}

/// This copy is the one that counts: a packet that polluted the first is told nothing by it.
fn second_state(state: &mut u64, packet: &mut Packet) {
    match (packet.found, packet.kind) {
        (Found::Meant, Kind::Install { value, .. }) => *state = value,
        (Found::Active { .. }, _) => {
            *state += 1;
            packet.value = Some(*state);
        }
        (Found::Frozen { .. }, _) => {
            packet.value = None;
            packet.write_back = Some(*state);
        }
        _ => (),
    }
}
