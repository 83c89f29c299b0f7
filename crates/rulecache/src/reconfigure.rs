//! Another configuration for a function, while packets flow.
//!
//! 1. Whoever reads configurations prepares what is slow to build, on a thread of its own
//!    ([`Reconfigure::New`]), and sends it to the worker as a [`Reconfiguration`].
//! 2. The worker asks which cached rules the change concerns and takes those out:
//!    [`SlowRules::begin_change`](crate::SlowRules::begin_change). All others stay. Packets of
//!    these rules are decided on the slow path from then on, still as before.
//! 3. When those rules are gone the change is made:
//!    [`SlowRules::finish_change`](crate::SlowRules::finish_change). No packet taken up later
//!    meets an old decision, and none was lost or overtaken.
//!
//! A change of one entry concerns the rules that came from what decided before, and of those the
//! ones that packets meet of which the entry speaks ([`Concern`]).

use crate::action::Rewrites;
use crate::field::Field;
use crate::function::RuleFunction;
use crate::message::NewRule;
use crate::recording::EntryId;
use crate::synthesis::Rule;
use std::any::Any;
use twinpath_classify::Prefix;
use twinpath_classify::acl::{PortRange, Rule as Packets};
use twinpath_core::wire::Endpoint;

/// Which cached rules a change concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affected {
    /// Those that one of these speaks of; none if there is none.
    Rules(Vec<Concern>),
    /// Any: the change may concern packets of which the function has no entry.
    Everything,
}

impl Affected {
    /// Whether a rule must go before the function at a place is changed.
    pub fn concerns(&self, function: u8, rule: &Rule) -> bool {
        let Self::Rules(concerns) = self else {
            return true;
        };
        let has = |&entry: &u32| rule.dependencies.has(EntryId { function, entry });
        let as_sent = NewRule {
            mask: rule.mask,
            value: rule.value,
            action: rule.action,
            used: rule.used,
        };
        concerns.iter().any(|Concern { entries, packets }| {
            let entries = entries.as_ref();
            entries.is_none_or(|entries| entries.iter().any(has))
                && may_meet(packets, &as_sent, rule.hides_ends)
        })
    }
}

/// Cached rules that came from entries of a function and that certain packets may meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concern {
    /// The entries, or `None` for whatever they came from.
    pub entries: Option<Vec<u32>>,
    /// The packets as the function sees them. Which rules they meet is decided on the safe side:
    /// more may be taken for theirs.
    pub packets: Packets,
}

impl Concern {
    /// All rules that came from these entries.
    pub const fn entries(entries: Vec<u32>) -> Self {
        Self {
            entries: Some(entries),
            packets: Packets::ANY,
        }
    }

    /// All rules that these packets may meet.
    pub const fn packets(packets: Packets) -> Self {
        Self {
            entries: None,
            packets,
        }
    }

    /// Packets from a prefix.
    pub const fn from(source: Prefix) -> Self {
        Self::packets(Packets {
            source,
            ..Packets::ANY
        })
    }

    /// Packets to a prefix.
    pub const fn to(destination: Prefix) -> Self {
        Self::packets(Packets {
            destination,
            ..Packets::ANY
        })
    }
}

/// Whether packets, as a function in the chain sees them, may meet a rule.
///
/// Of each field a function sees what came in, or what a function has written. A field that was
/// written twice may have had any value in between, and so may all ends if the rule hides them
/// ([`Rule::hides_ends`](crate::Rule::hides_ends)).
pub(crate) fn may_meet(packets: &Packets, rule: &NewRule, hides_ends: bool) -> bool {
    let seen = FieldValues { rule, hides_ends };
    let Rewrites {
        source,
        destination,
        ..
    } = rule.action.rewrites;
    seen.protocol(packets.protocol)
        && seen.address(Field::SourceAddress, source, packets.source)
        && seen.address(Field::DestinationAddress, destination, packets.destination)
        && seen.port(Field::SourcePort, source, packets.source_ports)
        && seen.port(
            Field::DestinationPort,
            destination,
            packets.destination_ports,
        )
}

/// The values that fields of a rule's packets can have on their way.
struct FieldValues<'a> {
    rule: &'a NewRule,
    hides_ends: bool,
}

impl FieldValues<'_> {
    fn bits(&self, field: Field) -> (u128, u128) {
        (field.of(&self.rule.mask), field.of(&self.rule.value))
    }

    fn is_unknown(&self, field: Field) -> bool {
        self.hides_ends || self.rule.action.rewrites.again.has(field)
    }

    fn is_written(&self, field: Field) -> bool {
        self.rule.action.rewrites.written.has(field)
    }

    fn protocol(&self, wanted: Option<u8>) -> bool {
        let (mask, value) = self.bits(Field::Protocol);
        wanted.is_none_or(|wanted| (u128::from(wanted) ^ value) & mask == 0)
    }

    fn address(&self, field: Field, written: Endpoint, prefix: Prefix) -> bool {
        let (mask, value) = self.bits(field);
        prefix.versions().includes(!self.rule.value.is_v6())
            && (self.is_unknown(field)
                || prefix.meets(mask, value)
                || self.is_written(field) && prefix.includes(written.address))
    }

    fn port(&self, field: Field, written: Endpoint, range: PortRange) -> bool {
        let (mask, value) = self.bits(field);
        let (least, most) = (value as u16, (value | !mask) as u16);
        self.is_unknown(field)
            || least <= range.last() && range.first() <= most
            || self.is_written(field) && range.includes(written.port)
    }
}

/// A function whose configuration can change while packets flow.
pub trait Reconfigure: RuleFunction {
    /// The new configuration, with whatever takes long to build.
    type New: Any + Send;

    /// Which rules must be gone before the change is made. All others are as right after it.
    fn affected_by(&self, new: &Self::New) -> Affected;

    /// Makes the change; the rules that it affects are gone. It takes effect at once and in short
    /// time: what was replaced may be left in `new`, to be freed elsewhere. It cannot fail:
    /// whoever prepared it has seen to that.
    fn apply(&mut self, new: &mut Self::New);
}

/// Why a change cannot be made.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReconfigureError {
    /// There is no function at this place.
    #[error("there is no function at place {0} of the chain")]
    NoFunction(u8),
    /// The change is for another kind of function.
    #[error("{0} cannot take a configuration of another function")]
    OtherFunction(&'static str),
}

/// A change for a function of some kind.
pub struct Reconfiguration(Box<dyn AnyReconfiguration>);

trait AnyReconfiguration: Send {
    fn affected(&self, function: &dyn RuleFunction) -> Option<Affected>;
    fn apply(&mut self, function: &mut dyn RuleFunction) -> Option<()>;
}

struct For<F: Reconfigure>(F::New);

impl<F: Reconfigure> AnyReconfiguration for For<F> {
    fn affected(&self, function: &dyn RuleFunction) -> Option<Affected> {
        let function = (function as &dyn Any).downcast_ref::<F>()?;
        Some(function.affected_by(&self.0))
    }

    fn apply(&mut self, function: &mut dyn RuleFunction) -> Option<()> {
        let function = (function as &mut dyn Any).downcast_mut::<F>()?;
        function.apply(&mut self.0);
        Some(())
    }
}

impl Reconfiguration {
    /// A new configuration for a function of the kind `F`.
    pub fn of<F: Reconfigure>(new: F::New) -> Self {
        Self(Box::new(For::<F>(new)))
    }

    /// The rules that must be gone before the change of this function is made.
    ///
    /// # Errors
    /// The function is of another kind.
    pub fn affected(&self, function: &dyn RuleFunction) -> Result<Affected, ReconfigureError> {
        let other = ReconfigureError::OtherFunction(function.name());
        self.0.affected(function).ok_or(other)
    }

    /// Makes the change, whose rules are gone. What was replaced is freed with the change itself:
    /// let that happen where it disturbs nobody.
    ///
    /// # Errors
    /// The function is of another kind; nothing has changed.
    pub fn apply(&mut self, function: &mut dyn RuleFunction) -> Result<(), ReconfigureError> {
        let other = ReconfigureError::OtherFunction(function.name());
        self.0.apply(function).ok_or(other)
    }
}
