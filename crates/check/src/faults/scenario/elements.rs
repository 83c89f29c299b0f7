//! The elements of a run's chain: flow state, cached rules, or both one after the other.

use twinpath_core::Direction;
use twinpath_node::position::ElementOrder;

/// Which elements the chain has.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Elements {
    /// Functions that share flow state.
    State,
    /// An address translation.
    Translation,
    /// An access list, an address translation, a router and a monitor, in one element.
    Gateway,
    /// An access list and a monitor, and behind them flow state.
    RulesThenState,
    /// Flow state, and behind it an address translation.
    StateThenTranslation,
    /// Flow state between an access list and a translation with a router.
    RulesAroundState,
}

/// One of them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Element {
    State,
    /// These functions.
    Rules(&'static [&'static str]),
}

impl Element {
    /// Whether it translates addresses.
    pub fn translates(&self) -> bool {
        matches!(self, Self::Rules(functions) if functions.contains(&"napt"))
    }
}

impl Elements {
    /// Those with rules.
    pub const WITH_RULES: [Self; 5] = [
        Self::Translation,
        Self::Gateway,
        Self::RulesThenState,
        Self::StateThenTranslation,
        Self::RulesAroundState,
    ];

    /// The elements, in the order of the original direction.
    pub(crate) const fn list(self) -> &'static [Element] {
        use Element::{Rules, State};
        match self {
            Self::State => &[State],
            Self::Translation => &[Rules(&["napt"])],
            Self::Gateway => &[Rules(&["acl", "napt", "monitor", "router"])],
            Self::RulesThenState => &[Rules(&["acl", "monitor"]), State],
            Self::StateThenTranslation => &[State, Rules(&["napt"])],
            Self::RulesAroundState => {
                &[Rules(&["acl"]), State, Rules(&["napt"]), Rules(&["router"])]
            }
        }
    }

    /// Whether any has rules.
    pub const fn have_rules(self) -> bool {
        !matches!(self, Self::State)
    }

    /// Whether one has flow state.
    pub const fn have_state(self) -> bool {
        !matches!(self, Self::Translation | Self::Gateway)
    }

    /// Whether one translates addresses.
    pub(crate) fn translate(self) -> bool {
        self.list().iter().any(|element| element.translates())
    }

    /// The number of the one with flow state.
    pub(crate) fn state(self) -> Option<u8> {
        let mut list = self.list().iter();
        let place = list.position(|&element| element == Element::State);
        place.map(|place| place as u8)
    }

    /// Whether this is the one with flow state.
    pub(crate) fn is_state(self, element: u8) -> bool {
        self.state() == Some(element)
    }

    /// The elements in the order in which packets of this direction pass them.
    pub(crate) fn passed(self, direction: Direction) -> impl Iterator<Item = Element> {
        self.walk(direction)
            .map(move |element| self.list()[element])
    }

    /// Their numbers in that order.
    pub(crate) fn walk(self, direction: Direction) -> impl Iterator<Item = usize> {
        let order = self.order();
        let first = Some(order.first(direction));
        let positions = std::iter::successors(first, move |position| order.next(*position));
        positions.map(|position| position.element.into())
    }

    fn order(self) -> ElementOrder {
        let list = self.list();
        let decides_last = |element: &&Element| **element == Element::Rules(&["router"]);
        ElementOrder {
            elements: list.len() as u8,
            last: list.iter().filter(decides_last).count() as u8,
        }
    }

    /// How many elements a packet of this direction has passed when it reaches one.
    pub(crate) fn position(self, element: u8, direction: Direction) -> usize {
        let mut walk = self.walk(direction);
        walk.position(|passed| passed == usize::from(element))
            .unwrap_or(0)
    }
}
