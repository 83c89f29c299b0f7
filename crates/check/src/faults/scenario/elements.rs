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
    /// Flow state in two elements, with an access list and a monitor between.
    StateTwice,
    /// Flow state in two elements, and behind them an address translation.
    StateTwiceThenTranslation,
    /// A firewall, and behind it an address translation.
    FirewallThenTranslation,
    /// A reassembler with a firewall between an access list and a translation with a router.
    RulesAroundReassembler,
    /// A firewall and a load balancer in two elements, with a monitor between.
    FirewallThenBalancer,
    /// A reassembler, a firewall and a load balancer in three elements.
    FlowsThrice,
    /// A rate limiter that delays between an access list and a translation with a router.
    RulesAroundLimiter,
    /// Telemetry between a monitor and an access list.
    RulesAroundTelemetry,
    /// A reframer, and behind it a monitor.
    ReframerThenRules,
    /// An inspector behind its reassembler, between an access list and a monitor.
    RulesAroundInspector,
    /// An inspector without a reassembler, behind an access list and a monitor.
    RulesThenInspector,
    /// An inspector behind its reassembler, between a translation and a monitor.
    TranslationThenInspector,
    /// A firewall, and behind an access list an inspector with its reassembler: state in two elements.
    FirewallThenInspector,
    /// A key-value store behind an access list and a monitor.
    RulesThenStore,
    /// A key-value store between an access list and a monitor with a router.
    RulesAroundStore,
    /// A DPU.
    Dpu,
    /// A translation of prefixes.
    Prefixes,
    /// A translation of prefixes and a monitor, in one element.
    PrefixesAndMonitor,
    /// Flow state, and behind it a translation of prefixes.
    StateThenPrefixes,
    /// A translation between IP versions.
    Versions,
}

/// One of them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// The scenario's functions that share flow state.
    State,
    /// These functions of production, which share flow state.
    Flows(&'static [&'static str]),
    /// These functions, whose decisions are cached.
    Rules(&'static [&'static str]),
    /// A DPU: its flows are on the fast path, its policies on the slow one.
    Dpu,
}

impl Element {
    /// Whether it has this function of production, unless the scenario says which it has.
    pub fn has(&self, function: &str) -> bool {
        match self {
            Self::State | Self::Dpu => false,
            Self::Flows(functions) | Self::Rules(functions) => functions.contains(&function),
        }
    }

    /// Whether it translates addresses by bindings.
    pub fn translates(&self) -> bool {
        self.has("napt") || self.has("nat64")
    }

    /// Whether it has flow state.
    pub const fn has_state(&self) -> bool {
        matches!(self, Self::State | Self::Flows(_))
    }
}

impl Elements {
    /// Those with rules, alone or beside the scenario's functions.
    pub const WITH_RULES: [Self; 7] = [
        Self::Translation,
        Self::Gateway,
        Self::RulesThenState,
        Self::StateThenTranslation,
        Self::RulesAroundState,
        Self::StateTwice,
        Self::StateTwiceThenTranslation,
    ];

    /// Those with translations of IPv6.
    pub const OVER_V6: [Self; 4] = [
        Self::Prefixes,
        Self::PrefixesAndMonitor,
        Self::StateThenPrefixes,
        Self::Versions,
    ];

    /// Those with rules beside functions of production that share flow state.
    pub const MIXED: [Self; 13] = [
        Self::FirewallThenTranslation,
        Self::RulesAroundReassembler,
        Self::FirewallThenBalancer,
        Self::FlowsThrice,
        Self::RulesAroundLimiter,
        Self::RulesAroundTelemetry,
        Self::ReframerThenRules,
        Self::RulesAroundInspector,
        Self::RulesThenInspector,
        Self::TranslationThenInspector,
        Self::FirewallThenInspector,
        Self::RulesThenStore,
        Self::RulesAroundStore,
    ];

    /// The elements, in the order of the original direction.
    pub(crate) const fn list(self) -> &'static [Element] {
        use Element::{Flows, Rules, State};
        match self {
            Self::State => &[State],
            Self::Translation => &[Rules(&["napt"])],
            Self::Gateway => &[Rules(&["acl", "napt", "monitor", "router"])],
            Self::RulesThenState => &[Rules(&["acl", "monitor"]), State],
            Self::StateThenTranslation => &[State, Rules(&["napt"])],
            Self::RulesAroundState => {
                &[Rules(&["acl"]), State, Rules(&["napt"]), Rules(&["router"])]
            }
            Self::StateTwice => &[State, Rules(&["acl", "monitor"]), State],
            Self::StateTwiceThenTranslation => {
                &[State, Rules(&["monitor"]), State, Rules(&["napt"])]
            }
            Self::FirewallThenTranslation => &[Flows(&["firewall"]), Rules(&["napt"])],
            Self::RulesAroundReassembler => &[
                Rules(&["acl"]),
                Flows(&["reassembler", "firewall"]),
                Rules(&["napt"]),
                Rules(&["router"]),
            ],
            Self::FirewallThenBalancer => &[
                Flows(&["firewall"]),
                Rules(&["monitor"]),
                Flows(&["load_balancer"]),
            ],
            Self::FlowsThrice => &[
                Flows(&["reassembler"]),
                Rules(&["acl"]),
                Flows(&["firewall"]),
                Rules(&["monitor"]),
                Flows(&["load_balancer"]),
            ],
            Self::RulesAroundLimiter => &[
                Rules(&["acl"]),
                Flows(&["rate_limiter"]),
                Rules(&["napt"]),
                Rules(&["router"]),
            ],
            Self::RulesAroundTelemetry => {
                &[Rules(&["monitor"]), Flows(&["telemetry"]), Rules(&["acl"])]
            }
            Self::ReframerThenRules => &[Flows(&["reframer"]), Rules(&["monitor"])],
            Self::RulesAroundInspector => &[
                Rules(&["acl"]),
                Flows(&["reassembler", "inspector"]),
                Rules(&["monitor"]),
            ],
            Self::RulesThenInspector => &[Rules(&["acl", "monitor"]), Flows(&["inspector"])],
            Self::TranslationThenInspector => &[
                Rules(&["napt"]),
                Flows(&["reassembler", "inspector"]),
                Rules(&["monitor"]),
            ],
            Self::FirewallThenInspector => &[
                Flows(&["firewall"]),
                Rules(&["acl"]),
                Flows(&["reassembler", "inspector"]),
                Rules(&["monitor"]),
            ],
            Self::RulesThenStore => &[Rules(&["acl", "monitor"]), Flows(&["kv_store"])],
            Self::RulesAroundStore => &[
                Rules(&["acl"]),
                Flows(&["kv_store"]),
                Rules(&["monitor"]),
                Rules(&["router"]),
            ],
            Self::Dpu => &[Element::Dpu],
            Self::Prefixes => &[Rules(&["nptv6"])],
            Self::PrefixesAndMonitor => &[Rules(&["nptv6", "monitor"])],
            Self::StateThenPrefixes => &[State, Rules(&["nptv6"])],
            Self::Versions => &[Rules(&["nat64"])],
        }
    }

    /// Whether any has rules.
    pub const fn have_rules(self) -> bool {
        !matches!(self, Self::State | Self::Dpu)
    }

    /// Whether any has flow state.
    pub const fn have_state(self) -> bool {
        !matches!(
            self,
            Self::Translation
                | Self::Gateway
                | Self::Dpu
                | Self::Prefixes
                | Self::PrefixesAndMonitor
                | Self::Versions
        )
    }

    /// Whether several have flow state.
    pub fn have_state_twice(self) -> bool {
        self.with_state().nth(1).is_some()
    }

    /// Whether one translates addresses by bindings.
    pub(crate) fn translate(self) -> bool {
        self.list().iter().any(Element::translates)
    }

    /// Whether packets from inside are of IPv6.
    pub(crate) fn are_over_v6(self) -> bool {
        self.have("nptv6") || self.have("nat64")
    }

    /// Whether one has this function of production.
    pub(crate) fn have(self, function: &str) -> bool {
        self.list().iter().any(|element| element.has(function))
    }

    /// The numbers of those with flow state.
    pub(crate) fn with_state(self) -> impl Iterator<Item = u8> {
        let list = (0u8..).zip(self.list());
        list.filter_map(|(number, element)| element.has_state().then_some(number))
    }

    /// Whether this is one with flow state.
    pub(crate) fn is_state(self, element: u8) -> bool {
        let element = self.list().get(usize::from(element));
        element.is_some_and(Element::has_state)
    }

    /// Whether this is the first with flow state that packets of this direction pass.
    pub(crate) fn is_first_state(self, element: u8, direction: Direction) -> bool {
        let mut passed = self.walk(direction).map(|element| element as u8);
        passed.find(|&element| self.is_state(element)) == Some(element)
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
