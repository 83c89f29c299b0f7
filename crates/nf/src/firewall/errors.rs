//! ICMP errors: which pass with the connection that they are about, and which need a rule.

use twinpath_core::Packet;
use twinpath_core::wire::fields;
use twinpath_slowpath::Flow;

use super::connection::{Connection, Phase};
use super::function::{Checked, Firewall};
use super::rule::Action;
use crate::icmp_errors::{self, Refusal};

impl Firewall {
    /// Refuses what no flow and no rule can make good. Everything but ICMP errors and redirects
    /// passes.
    pub(super) fn judge_error(&mut self, packet: &Packet) -> Checked {
        let judged = icmp_errors::judge(packet.bytes(), &packet.layout, self.redirects);
        judged.map_err(|refusal| self.refusals.count(refusal))
    }

    /// An ICMP error passes with the connection that it is about. One that is about no known
    /// connection needs a rule of its own.
    pub(super) fn error(&mut self, packet: &Packet, flow: &Flow<'_>) -> Checked {
        let Some(connection) = Connection::load(flow.words) else {
            return self.unrelated_error(packet);
        };
        if !quotes_what_is_under_way(packet, &connection) {
            return Err(self.refusals.count(Refusal::Window));
        }
        self.counters.related_errors += 1;
        Ok(())
    }

    pub(super) fn unrelated_error(&mut self, packet: &Packet) -> Checked {
        self.counters.unrelated_errors += 1;
        match self.ask_rules(packet) {
            Some(Action::Allow) => Ok(()),
            _ => Err(self.deny()),
        }
    }
}

/// Whether the quoted segment may be under way (RFC 5927 §4.1). The error comes from where the
/// segment went, so the segment goes the other way. Only TCP numbers its packets.
fn quotes_what_is_under_way(packet: &Packet, connection: &Connection) -> bool {
    let sequence = fields::inner_tcp_sequence(packet.bytes(), &packet.layout);
    match (connection.phase, sequence) {
        (Phase::Tcp(state), Some(sequence)) => {
            let direction = packet.direction.other();
            let windows = &connection.windows;
            windows.is_under_way(state, direction, sequence)
        }
        _ => true,
    }
}
