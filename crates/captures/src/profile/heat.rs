//! Which packets a fast path could settle, given the times at which they came.

use std::collections::HashMap;
use std::time::Duration;
use twinpath_core::key::Keyed;
use twinpath_core::{FlowKey, Side};

/// A conversation's first packets are met on the slow path.
const FIRST_PACKETS: u64 = 2;
/// When a conversation has been silent for so long, the workers have surely answered.
const ANSWERED: Duration = Duration::from_micros(20);

/// Packets that a fast path could settle at best.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Settleable {
    /// Where it holds the state of flows: not the first packets of a conversation, nor those that
    /// open or end a connection, nor what follows either before the workers have answered.
    pub by_state: u64,
    /// Of these, packets of conversations in which both ends have been heard.
    pub of_both_ends: u64,
    /// Where it has a rule for each direction of a flow: not before two packets of it have come in
    /// windows next to each other, and none that opens or ends a connection.
    pub by_rules: u64,
}

/// What a packet is to the fast path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// TCP or UDP that opens and ends nothing.
    Plain,
    /// Of a protocol without ports, of which no rules are made.
    WithoutRules,
    /// It opens or ends a connection.
    Marked,
}

/// Watches conversations become hot.
#[derive(Debug)]
pub(super) struct Heat {
    window_ns: u64,
    flows: HashMap<FlowKey, Flow>,
    directions: HashMap<(FlowKey, Side), Direction>,
    settleable: Settleable,
}

#[derive(Debug, Default)]
struct Flow {
    packets: u64,
    last_ns: u64,
    /// The last packet was none that keeps the state with the slow path.
    was_plain: bool,
    /// The workers have given its state away.
    is_held: bool,
    sides: [bool; 2],
}

#[derive(Debug, Default)]
struct Direction {
    window: u64,
    is_hot: bool,
}

impl Heat {
    pub fn new(window: Duration) -> Self {
        Self {
            window_ns: window.as_nanos().max(1) as u64,
            flows: HashMap::new(),
            directions: HashMap::new(),
            settleable: Settleable::default(),
        }
    }

    pub fn packet(&mut self, keyed: &Keyed, at_ns: u64, kind: Kind) {
        self.flow(keyed, at_ns, kind != Kind::Marked);
        if kind == Kind::Plain {
            self.direction(keyed, at_ns / self.window_ns);
        }
    }

    fn flow(&mut self, keyed: &Keyed, at_ns: u64, is_plain: bool) {
        let flow = self.flows.entry(keyed.key).or_default();
        let silence_ns = at_ns.saturating_sub(flow.last_ns);
        let is_answered = u128::from(silence_ns) > ANSWERED.as_nanos();
        flow.is_held |= flow.packets >= FIRST_PACKETS && flow.was_plain && is_answered;
        flow.is_held &= is_plain;
        flow.was_plain = is_plain;
        flow.packets += 1;
        flow.last_ns = at_ns;
        flow.sides[keyed.side as usize] = true;
        self.settleable.by_state += u64::from(flow.is_held);
        self.settleable.of_both_ends += u64::from(flow.is_held && flow.sides == [true; 2]);
    }

    fn direction(&mut self, keyed: &Keyed, window: u64) {
        let new = Direction {
            window,
            is_hot: false,
        };
        let direction = self
            .directions
            .entry((keyed.key, keyed.side))
            .or_insert(new);
        self.settleable.by_rules += u64::from(direction.is_hot);
        direction.is_hot |= window == direction.window + 1;
        direction.window = window;
    }

    pub fn settleable(&self) -> Settleable {
        self.settleable
    }
}
