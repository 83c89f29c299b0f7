//! The elements of a run's chain: flow state, cached rules, or both one after the other.

use super::functions::{self, Handles, Variant};
use super::gate::{Changes, Gate};
use super::scenario::Scenario;
use super::simulation::SetupError;
use twinpath_classify::Prefix;
use twinpath_coherence::{Cores, StateStage};
use twinpath_core::Direction;
use twinpath_core::wire::Address;
use twinpath_fastpath::Interpreter;
use twinpath_node::{CoreElement, FastElement, RuleStage};
use twinpath_rulecache::{RuleCores, RuleFunction, RuleTable, Sides};
use twinpath_slowpath::Chain;

/// Which elements the chain has.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Elements {
    /// Functions that share flow state.
    State,
    /// One with a [gate](super::gate).
    Rules,
    /// One with two gates.
    RulesTwice,
    /// A gate, and behind it flow state.
    RulesThenState,
    /// Flow state, and behind it a gate.
    StateThenRules,
    /// Flow state between two gates.
    RulesAroundState,
}

/// One of them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Element {
    State,
    /// These gates.
    Rules(&'static [usize]),
}

impl Elements {
    /// Those with rules.
    pub const WITH_RULES: [Self; 5] = [
        Self::Rules,
        Self::RulesTwice,
        Self::RulesThenState,
        Self::StateThenRules,
        Self::RulesAroundState,
    ];

    pub(super) const fn list(self) -> &'static [Element] {
        match self {
            Self::State => &[Element::State],
            Self::Rules => &[Element::Rules(&[0])],
            Self::RulesTwice => &[Element::Rules(&[0, 1])],
            Self::RulesThenState => &[Element::Rules(&[0]), Element::State],
            Self::StateThenRules => &[Element::State, Element::Rules(&[0])],
            Self::RulesAroundState => &[Element::Rules(&[0]), Element::State, Element::Rules(&[1])],
        }
    }

    /// Whether any has rules.
    pub const fn have_rules(self) -> bool {
        !matches!(self, Self::State)
    }

    /// Whether one has flow state.
    pub const fn have_state(self) -> bool {
        !matches!(self, Self::Rules | Self::RulesTwice)
    }

    /// The number of the one with flow state.
    pub(super) fn state(self) -> Option<u8> {
        let place = self
            .list()
            .iter()
            .position(|&element| element == Element::State);
        place.map(|place| place as u8)
    }

    /// The elements in the order in which packets of this direction pass them.
    pub(super) fn passed(self, direction: Direction) -> impl Iterator<Item = Element> {
        let list = self.list();
        (0..list.len()).map(move |position| match direction {
            Direction::Original => list[position],
            Direction::Reply => list[list.len() - 1 - position],
        })
    }

    /// How many elements a packet of this direction has passed when it reaches one.
    pub(super) fn position(self, element: u8, direction: Direction) -> usize {
        match direction {
            Direction::Original => element.into(),
            Direction::Reply => (self.list().len() - 1).saturating_sub(element.into()),
        }
    }

    /// Packets go both ways, and in a chain with rules replies pass it in reverse.
    pub(super) fn sides(self) -> Sides {
        let inside = Prefix::covering(Address::from_v4([10, 0, 0, 0]), 8);
        match self.have_rules() {
            true => Sides::new(&[inside]).unwrap_or(Sides::ONE_WAY),
            false => Sides::ONE_WAY,
        }
    }
}

/// The chain's elements on the fast path.
///
/// # Errors
/// The programs of the functions that share flow state do not go together.
pub(super) fn fast(
    scenario: &Scenario,
    chain: &Chain,
    seed: u64,
) -> Result<Vec<FastElement>, SetupError> {
    let elements = scenario.elements.list().iter();
    elements
        .map(|element| fast_element(scenario, element, chain, seed))
        .collect()
}

/// One of them.
///
/// # Errors
/// The programs of the functions that share flow state do not go together.
pub(super) fn fast_element(
    scenario: &Scenario,
    element: &Element,
    chain: &Chain,
    seed: u64,
) -> Result<FastElement, SetupError> {
    Ok(match element {
        Element::State => {
            let interpreter = Interpreter::new(&chain.programs())?;
            let stage = StateStage::new(scenario.protocol.clone(), interpreter, seed);
            FastElement::State(Box::new(stage))
        }
        Element::Rules(_) => {
            let (rules, segment) = (scenario.rules.table, scenario.rules.cores.segment);
            FastElement::Rules(Box::new(RuleStage::new(RuleTable::new(rules), segment)))
        }
    })
}

/// What a worker has of the chain.
///
/// # Errors
/// The configuration of a function is refused.
pub(super) fn cores(
    scenario: &Scenario,
    variant: Variant,
    (notes, changes, seed): Handles<'_>,
) -> Result<Vec<CoreElement>, SetupError> {
    let element = |element: &Element| {
        Ok(match element {
            Element::State => {
                let chain = functions::chain(scenario, variant, notes)?;
                let cores = Cores::new(chain, scenario.resources.flows, 1, seed);
                CoreElement::Flows(Box::new(cores))
            }
            Element::Rules(gates) => {
                let gates = gates.iter().map(|&number| gate(scenario, number, changes));
                CoreElement::Rules(Box::new(rule_cores(scenario, gates.collect())))
            }
        })
    };
    scenario.elements.list().iter().map(element).collect()
}

/// An element with rules, on the cores.
pub(super) fn rule_cores(scenario: &Scenario, gates: Vec<Box<dyn RuleFunction>>) -> RuleCores {
    RuleCores::new(scenario.rules.cores, Sides::KNOWN, gates)
}

/// A gate that knows nothing yet.
pub(super) fn gate(scenario: &Scenario, number: usize, changes: &Changes) -> Box<dyn RuleFunction> {
    Box::new(Gate::new(number, scenario.rules.gates[number], changes))
}
