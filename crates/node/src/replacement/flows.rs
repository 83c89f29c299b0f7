//! Functions that share flow state: what becomes of their flows.

use super::{Origin, ReplaceError, SlowPlan, elements};
use crate::build_error::BuildError;
use crate::wiring;
use std::ops::Range;
use twinpath_control::service::{Instance, Service};
use twinpath_slowpath::NextFunction;

/// What a change means for flows.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowPlan {
    /// The fast path must give their state back.
    pub brings_home: bool,
    /// Functions must let go of packets that they keep.
    pub releases_packets: bool,
}

impl FlowPlan {
    /// Between two services.
    pub fn between(
        old: &Service,
        new: &Service,
        origins: &[(Origin, Range<usize>)],
    ) -> Result<Self, BuildError> {
        let (before, after) = (sharing(old), sharing(new));
        let goes_on = |number: usize| {
            let is_it = |origin: &Origin| matches!(origin, Origin::Same(old) | Origin::Changed(old) if *old == number);
            origins.iter().any(|(origin, _)| is_it(origin))
        };
        let all = elements(old);
        let numbers = before
            .iter()
            .filter_map(|range| all.iter().position(|one| one == range));
        let brings_home = !numbers.into_iter().all(goes_on);
        // Packets that are kept have passed functions in front, in the order that there was, and
        // were told apart by the backends that there were.
        let releases_packets = brings_home
            && (names(old, &before) != names(new, &after)
                || wiring::chain(old)?.aliases() != wiring::chain(new)?.aliases());
        Ok(Self {
            brings_home,
            releases_packets,
        })
    }
}

/// The names of the functions of elements.
fn names<'a>(service: &'a Service, elements: &[Range<usize>]) -> Vec<Vec<&'a str>> {
    let names = |element: &Range<usize>| {
        let functions = service.chain[element.clone()].iter();
        functions.map(|function| &*function.name).collect()
    };
    elements.iter().map(names).collect()
}

/// The elements whose functions share flow state.
fn sharing(service: &Service) -> Vec<Range<usize>> {
    let shares = |range: &Range<usize>| service.chain[range.start].shares_state();
    elements(service).into_iter().filter(shares).collect()
}

/// The element of the old chain whose flows become those of an element of the new one: the first
/// that has a function of it, and that no element in front has taken.
fn former(old: &Service, new: &Service, element: &Range<usize>) -> Option<Range<usize>> {
    let mut free = sharing(old);
    for wanting in sharing(new) {
        let has_heir = |former: &Range<usize>| {
            let mut heirs = new.chain[wanting.clone()].iter();
            heirs.any(|heir| place_of(old, former, heir).is_some())
        };
        let taken = free
            .iter()
            .position(has_heir)
            .map(|place| free.remove(place));
        if wanting == *element {
            return taken;
        }
    }
    None
}

/// Where in an old element a function was.
fn place_of(old: &Service, element: &Range<usize>, function: &Instance) -> Option<usize> {
    let mut known = old.chain[element.clone()].iter();
    known.position(|one| function.is_heir_of(one))
}

/// Functions of the new chain that begin anew although they were in the old one: they share flow
/// state with others than before, and those have taken it with them.
pub(super) fn beginning<'a>(old: &Service, new: &'a Service) -> Vec<&'a str> {
    let mut begin = Vec::new();
    for element in sharing(new) {
        let former = former(old, new, &element);
        let goes_on = |function: &&Instance| {
            let place = former
                .as_ref()
                .and_then(|former| place_of(old, former, function));
            place.is_some()
        };
        let functions = new.chain[element].iter().filter(|one| !goes_on(one));
        begin.extend(functions.map(|function| &*function.name));
    }
    begin
}

/// The plan for one worker's flows.
pub(super) fn plan(
    old: &Service,
    before: &[Range<usize>],
    new: &Service,
    element: &Range<usize>,
) -> Result<SlowPlan, ReplaceError> {
    let instances = &new.chain[element.clone()];
    let former = former(old, new, element);
    let number = before
        .iter()
        .position(|range| Some(range) == former.as_ref());
    let (Some(former), Some(number)) = (former, number) else {
        let slow = wiring::slow_flows(new, instances)?;
        return Ok(SlowPlan::NewFlows(Box::new(slow)));
    };
    let mut successors = Vec::new();
    for function in instances {
        let place = place_of(old, &former, function);
        let known = place.map(|place| &old.chain[former.start + place]);
        let is_same = known.is_some_and(|known| known == function);
        successors.push(match place {
            Some(place) if is_same => NextFunction::Same(place),
            Some(place) => NextFunction::Reconfigured(place, wiring::flow_function(new, function)?),
            None => NextFunction::New(wiring::flow_function(new, function)?),
        });
    }
    Ok(SlowPlan::Flows(number, successors))
}
