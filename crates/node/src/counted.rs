//! What functions count in the state of flows, at the end of a run: on whichever path that is.

use crate::fast_path::FastElement;
use crate::machine::Machine;
use crate::wiring::Node;
use crate::worker::{SlowElement, Worker};
use twinpath_coherence::{Grant, SlowFlows};
use twinpath_control::report::{LargeFlow, LargestFlows};
use twinpath_control::service::{Instance, Service};
use twinpath_core::Side;
use twinpath_nf::largest_flows::{LargeFlow as Large, LargestFlows as Candidates};
use twinpath_nf::records::FlowRecord;

/// Calls `each` with the record of every flow that a function of the chain counts, and the function's
/// place.
pub(crate) fn each_record(
    service: &Service,
    machine: &Machine,
    workers: &[Worker],
    each: &mut dyn FnMut(usize, FlowRecord),
) {
    for worker in workers {
        let mut first = 0;
        for (number, element) in worker.elements().iter().enumerate() {
            if let SlowElement::Flows(flows) = element {
                each_of_element(service, machine, (number, first), flows, each);
            }
            first += element.function_count();
        }
    }
}

/// The same of an element, by its number and the place of its first function.
fn each_of_element(
    service: &Service,
    machine: &Machine,
    (number, first): (usize, usize),
    flows: &SlowFlows,
    each: &mut dyn FnMut(usize, FlowRecord),
) {
    let stage = match machine.path().elements().get(number) {
        Some(FastElement::State(stage)) => Some(stage),
        _ => None,
    };
    let (store, chain) = (flows.store(), flows.chain());
    for id in store.ids() {
        let (key, words, grant) = store.view(id);
        let is_granted = matches!(grant, Grant::Granted(_));
        let fast = stage
            .filter(|_| is_granted)
            .and_then(|stage| stage.words_of(key));
        let (words, initiator) = (fast.unwrap_or(words), store.initiator(id));
        let mut from = 0;
        for place in 0..chain.len() {
            let own = words
                .get(from..from + chain.words_at(place))
                .unwrap_or_default();
            from += own.len();
            let config = service.chain.get(first + place).map(|one| &one.config);
            let record = config.and_then(|one| one.flow_record(key, initiator, own, flows.clock()));
            if let Some(record) = record {
                each(first + place, record);
            }
        }
    }
}

/// The largest flows of all shards, of each function that tells them.
pub(crate) fn largest_flows(service: &Service, nodes: &mut [&mut Node]) -> Vec<LargestFlows> {
    let of_function = |(place, one): (usize, &Instance)| {
        let (top, largest) = largest_of(service, place, nodes)?;
        Some(LargestFlows {
            function: one.name.to_string(),
            flows: largest.top(top).iter().map(told).collect(),
        })
    };
    service
        .chain
        .iter()
        .enumerate()
        .filter_map(of_function)
        .collect()
}

/// The candidates of the function at a place, with those of its flows that go on; and how many of them
/// are told.
fn largest_of(
    service: &Service,
    place: usize,
    nodes: &mut [&mut Node],
) -> Option<(usize, Candidates)> {
    let config = &service.chain.get(place)?.config;
    let mut all: Option<(usize, Candidates)> = None;
    for worker in nodes.iter_mut().flat_map(|node| &mut node.workers) {
        let function = worker.any_function_mut(place)?;
        let (top, more) = config.largest_flows(function)?;
        let (_, known) = all.get_or_insert_with(|| (top, Candidates::new(top)));
        known.merge(&more);
    }
    let (top, mut known) = all?;
    for node in nodes {
        each_record(
            service,
            &node.machine,
            &node.workers,
            &mut |counted, record| {
                if counted == place {
                    known.add(&record);
                }
            },
        );
    }
    Some((top, known))
}

fn told(flow: &Large) -> LargeFlow {
    LargeFlow {
        protocol: flow.key.protocol(),
        ends: [Side::Low, Side::High].map(|side| flow.key.end(side).to_string()),
        packets: flow.count.packets,
        bytes: flow.count.bytes,
        excess_bytes: flow.excess,
    }
}
