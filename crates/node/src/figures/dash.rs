//! What is seen of a DPU.

use std::collections::BTreeMap;
use twinpath_control::live::DashSnapshot;
use twinpath_control::report::{Dash, DirectionFigures, EniFigures, MeterFigures};
use twinpath_core::DropReason;
use twinpath_dash::Dpu;
use twinpath_dash::counters::{Drops, EniCounters};

/// What a DPU counted.
pub(crate) fn dash(dpu: &Dpu) -> Dash {
    let enis = dpu.tables().enis().filter_map(|(number, entry)| {
        let counters = dpu.counters(&entry.id)?;
        Some(EniFigures {
            eni: entry.id.to_string(),
            flows: dpu.flows_of(number).into(),
            ..eni(counters)
        })
    });
    Dash {
        flows: dpu.flow_count() as u64,
        drops: by_name(dpu.drops()),
        enis: enis.collect(),
    }
}

/// The same in short.
pub(crate) fn snapshot(dpu: &Dpu) -> DashSnapshot {
    DashSnapshot {
        enis: dpu.tables().eni_count() as u64,
        flows: dpu.flow_count() as u64,
    }
}

fn eni(counters: &EniCounters) -> EniFigures {
    let way = |number: usize| DirectionFigures {
        received_packets: counters.received[number].packets,
        received_bytes: counters.received[number].bytes,
        sent_packets: counters.sent[number].packets,
        sent_bytes: counters.sent[number].bytes,
    };
    let meters = counters.meters.iter();
    let mut meters: Vec<_> = meters
        .map(|(class, [outbound_bytes, inbound_bytes])| MeterFigures {
            class,
            outbound_bytes,
            inbound_bytes,
        })
        .collect();
    meters.sort_by_key(|meter| meter.class);
    EniFigures {
        outbound: way(0),
        inbound: way(1),
        flow_hits: counters.flow_hits,
        flow_misses: counters.flow_misses,
        flows_created: counters.flows_created,
        flows_removed: counters.flows_removed,
        flows_closed: counters.flows_closed,
        flows_aged: counters.flows_aged,
        flows_resimulated: counters.flows_resimulated,
        redirects: counters.redirects,
        flows_redirected: counters.flows_redirected,
        redirects_of_none: counters.redirects_of_none,
        drops: drops(counters),
        meters,
        ..EniFigures::default()
    }
}

/// Dropped packets of an ENI: those that found no room to wait are dropped by the node.
fn drops(counters: &EniCounters) -> BTreeMap<String, u64> {
    let mut drops = by_name(&counters.drops);
    if counters.not_held > 0 {
        let name = DropReason::AnswerBacklogFull.name();
        drops.insert(name.to_owned(), counters.not_held);
    }
    drops
}

fn by_name(drops: &Drops) -> BTreeMap<String, u64> {
    drops
        .nonzero()
        .map(|(reason, count)| (reason.name().to_owned(), count))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_found_no_room_to_wait_is_dropped_for_its_eni() {
        let counters = EniCounters {
            not_held: 3,
            ..EniCounters::default()
        };
        let figures = eni(&counters);
        assert_eq!(figures.dropped(), 3);
        assert_eq!(figures.drops["answer_backlog_full"], 3);
        assert_eq!(eni(&EniCounters::default()).drops, BTreeMap::new());
    }
}
