//! What ports have counted, and what was lost there.

use super::LivePorts;
use crate::shards::Handoff;
use twinpath_control::report::{
    KernelFigures, NeighborFigures, PortFigures, PortLosses, Report, ShardFigures,
};
use twinpath_core::counted;
use twinpath_neighbors::{Neighbors, PortAddresses, Resolver};
use twinpath_ports::{Copying, Port, State};

impl LivePorts {
    /// Adds what each port counted, under the service's names.
    pub fn figures_into(&self, report: &mut Report) {
        let ports = self.names.iter().zip(&self.ports);
        let own = Report {
            ports: ports.map(|(name, port)| figures(name, port)).collect(),
            neighbors: self.neighbor_figures(),
            kernel: self.kernel_figures(),
            shards: self.shard_figures().into_iter().collect(),
            ..Report::default()
        };
        report.add_ports(&own);
    }

    /// What was followed of the kernel; `None` if nothing was.
    pub fn kernel_figures(&self) -> Option<KernelFigures> {
        let kernel = self.kernel.as_ref()?;
        Some(KernelFigures {
            host_packets: self.host_packets,
            ..kernel.figures()
        })
    }

    /// What was asked and answered about neighbours; `None` if no port has an address.
    pub fn neighbor_figures(&self) -> Option<NeighborFigures> {
        let ports = self.neighbors.ports();
        let asks = |port: &PortAddresses| port.resolver == Resolver::Kernel || !port.own.is_empty();
        let has_addresses = ports.iter().any(asks);
        has_addresses.then(|| neighbor_figures(&self.neighbors))
    }

    fn shard_figures(&self) -> Option<ShardFigures> {
        self.handoff.as_ref().map(Handoff::figures)
    }

    /// What was lost at ports, on the way to neighbours, and between shards.
    pub(super) fn port_losses(&self) -> PortLosses {
        let mut losses = PortLosses {
            transmit_refused: self.unsent,
            without_neighbor: self.neighbor_figures().map_or(0, |figures| figures.lost()),
            between_shards: self.shard_figures().map_or(0, |figures| figures.lost()),
            ..PortLosses::default()
        };
        for port in &self.ports {
            let counters = port.counters();
            losses.receive_missed += counters.receive_missed;
            losses.receive_unread += counters.receive_unread;
            losses.receive_no_buffer += counters.receive_no_buffer;
            losses.receive_too_long += counters.receive_too_long;
            losses.receive_malformed += counters.receive_malformed;
            losses.transmit_refused += counters.transmit_refused;
            losses.transmit_too_long += counters.transmit_too_long;
        }
        losses
    }
}

fn figures(name: &str, port: &Port) -> PortFigures {
    let counters = port.counters();
    PortFigures {
        name: name.to_owned(),
        device: port.device().to_owned(),
        driver: port.driver().name().to_owned(),
        mode: mode(port).to_owned(),
        is_up: port.state() == State::Up,
        received_packets: counters.received_packets,
        received_bytes: counters.received_bytes,
        receive_missed: counters.receive_missed,
        receive_unread: counters.receive_unread,
        receive_no_buffer: counters.receive_no_buffer,
        receive_too_long: counters.receive_too_long,
        receive_malformed: counters.receive_malformed,
        transmitted_packets: counters.transmitted_packets,
        transmitted_bytes: counters.transmitted_bytes,
        transmit_refused: counters.transmit_refused,
        transmit_too_long: counters.transmit_too_long,
        copied_received: counters.receive_copied,
        copied_transmitted: counters.transmit_copied,
        outages: counters.outages,
    }
}

/// Who copies between the driver and us, in a report's word; empty where nobody knows.
pub(super) fn mode(port: &Port) -> &'static str {
    port.copying().map_or("", Copying::name)
}

fn neighbor_figures(neighbors: &Neighbors) -> NeighborFigures {
    let counters = neighbors.counters();
    NeighborFigures {
        known: neighbors.count() as u64,
        questions: counters.questions,
        answers: counters.answers,
        unanswered: counters.unanswered,
        unanswered_drops: counters.unanswered_drops,
        backlog_drops: counters.backlog_drops,
        unresolved_drops: counters.unresolved_drops,
        no_address_drops: counters.no_address_drops,
        conflicts: counters.conflicts,
        evictions: counters.evictions,
        waited: counters.waited,
        announcements: counters.announcements,
    }
}

/// What ports lost, in words.
pub fn losses_in_words(report: &Report) -> Vec<String> {
    let lost = |port: &PortFigures| {
        let device = &port.device;
        let lost = counted(port.lost(), "packet");
        let what = format!("the port {device} lost {lost}: see `ports` in the report");
        (port.lost() > 0).then_some(what)
    };
    let mut words: Vec<_> = report.ports.iter().filter_map(lost).collect();
    let lost: u64 = report.shards.iter().map(ShardFigures::lost).sum();
    if lost > 0 {
        let lost = counted(lost, "packet");
        words.push(format!(
            "lost between shards: {lost}, see `shards` in the report"
        ));
    }
    words
}
