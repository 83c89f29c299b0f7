//! The chains of a scenario.

use crate::faults::draw::Draw;
use crate::faults::scenario::Traffic;

/// One of the chains of a scenario, which become each other.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// What stands around the ledger.
    pub order: Order,
    /// Which functions with rules have another name than usual, and so are other ones.
    renamed: Renamed,
    /// Functions that share flow state are configured another way.
    pub has_other_state: bool,
    /// Functions with rules are.
    pub has_other_rules: bool,
}

/// What stands around the ledger; real functions only change their order.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Usual,
    BlankInFront,
    BlankBehind,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Renamed {
    #[default]
    None,
    /// The first one of each element.
    First,
    All,
}

impl Variant {
    /// Any of them.
    pub fn drawn(draw: &mut Draw) -> Self {
        Self {
            order: draw.pick(&[Order::Usual, Order::BlankInFront, Order::BlankBehind]),
            has_other_state: draw.flip(),
            renamed: draw.pick(&[Renamed::None, Renamed::First, Renamed::All]),
            has_other_rules: draw.flip(),
        }
    }

    /// Whether the elements with rules stay, with all that is cached.
    pub fn keeps_rules_of(self, former: Self) -> bool {
        self.renamed == former.renamed
    }

    /// After how many ticks a ledger's flow expires.
    pub fn expiry_ticks(self, traffic: &Traffic) -> u32 {
        traffic.expiry_ticks << u32::from(self.has_other_state)
    }

    /// Whether the order is another than usual, or the ledger has others beside it.
    pub fn is_unusual(self) -> bool {
        self.order != Order::Usual
    }

    /// The name of a function of an element.
    pub fn name_of(self, function: &str, place: usize) -> String {
        let is_renamed = match self.renamed {
            Renamed::None => false,
            Renamed::First => place == 0,
            Renamed::All => true,
        };
        let end = if is_renamed { "-too" } else { "" };
        format!("{function}{end}")
    }
}
