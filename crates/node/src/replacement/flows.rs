//! Functions that share flow state: what becomes of their flows.

use super::{CorePlan, ReplaceError, elements, is_same, is_same_function};
use crate::wiring::{self, BuildError};
use std::ops::Range;
use twinpath_control::service::{Instance, Service};
use twinpath_slowpath::Chain;
use twinpath_slowpath::Successor;

/// What a change means for flows.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// The fast path must give their state back.
    pub brings_home: bool,
    /// Functions must let go of packets that they keep.
    pub releases_packets: bool,
}

impl Change {
    /// Between two services; `chain` is of what shares flow state in the new one.
    pub fn between(old: &Service, new: &Service, chain: &Chain) -> Result<Self, BuildError> {
        let (Some(before), after) = (sharing(old), sharing(new)) else {
            return Ok(Self::default());
        };
        let is_kept = |after: &Range<usize>| is_same(old, &before, new, after);
        if after.as_ref().is_some_and(is_kept) {
            return Ok(Self::default());
        }
        let names = |functions: &[Instance]| -> Vec<_> {
            functions.iter().map(|one| one.name.clone()).collect()
        };
        let functions = after.map_or(&[][..], |after| &new.chain[after]);
        // Packets that are kept have passed functions in front, in the order that there was, and
        // were told apart by the backends that there were.
        let releases_packets = names(&old.chain[before]) != names(functions)
            || wiring::chain(old)?.aliases() != chain.aliases();
        Ok(Self {
            brings_home: true,
            releases_packets,
        })
    }
}

/// The element whose functions share flow state.
fn sharing(service: &Service) -> Option<Range<usize>> {
    let shares = |range: &Range<usize>| !service.chain[range.start].makes_rules();
    elements(service).into_iter().find(shares)
}

/// The plan for one worker's flows.
pub(super) fn plan(
    old: &Service,
    before: &[Range<usize>],
    new: &Service,
    element: &Range<usize>,
) -> Result<CorePlan, ReplaceError> {
    let Some(former) = sharing(old) else {
        return Ok(CorePlan::NewFlows(Box::new(wiring::cores(new, 1)?)));
    };
    let number = before.iter().position(|range| *range == former);
    let known = &old.chain[former];
    let mut successors = Vec::new();
    for function in &new.chain[element.clone()] {
        let place = known.iter().position(|one| function.is_heir_of(one));
        let is_same =
            place.is_some_and(|place| is_same_function(old, &known[place], new, function));
        successors.push(match place {
            Some(place) if is_same => Successor::Same(place),
            Some(place) => Successor::Reconfigured(place, wiring::flow_function(new, function)?),
            None => Successor::New(wiring::flow_function(new, function)?),
        });
    }
    Ok(CorePlan::Flows(number.unwrap_or(0), successors))
}
