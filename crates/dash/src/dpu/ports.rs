//! Ports of NAT gateways, and identifiers of echoes. A flow has its port for as long as it lives, and
//! that it has it is told by the key of its answers: there is no other table to agree with.

use twinpath_core::Instant;

use super::Dpu;
use super::flows::answer_key;
use crate::flows::{EntryKey, EntryNumber};
use crate::pipeline::{PolicyDecision, is_icmp};
use crate::reason::Reason;

/// Ports that are looked at for one that is free. The first is drawn for the flow, so if nine of ten
/// are taken one flow in a thousand finds none.
const MOST_TRIES: u32 = 64;

impl Dpu {
    /// Gives a new flow a port, if it is one that gets one: of the ENI's block the first that no other
    /// flow to the same destination has.
    pub(super) fn choose_port(
        &mut self,
        forward: &EntryKey,
        decision: &mut PolicyDecision,
        now: Instant,
    ) -> Result<(), Reason> {
        let Some(ports) = decision.source_ports else {
            return Ok(());
        };
        let (headers, own) = (forward.headers(), forward.ports());
        let identifier = match headers.ports {
            Some(_) => 0,
            // Of ICMP an echo request alone opens a flow.
            None if is_icmp(forward.protocol()) => own[0].into(),
            None => return Err(Reason::NatProtocol),
        };
        let count = u32::from(ports.last() - ports.first()) + 1;
        let start = self.tables.spread_of(&headers, identifier).below(count);
        for step in 0..count.min(MOST_TRIES) {
            let port = ports.first() + ((start + step) % count) as u16;
            decision.set_source_port(port, own);
            let answers = answer_key(forward, decision);
            if !self.is_taken(&answers, self.flows.hash(&answers), now) {
                return Ok(());
            }
        }
        Err(Reason::NatPorts)
    }

    /// Leaves a flow the port that its answers come to, if it is one that policies still allow.
    pub(super) fn keep_port(&self, reverse: EntryNumber, decision: &mut PolicyDecision) -> bool {
        let Some(ports) = decision.source_ports else {
            return true;
        };
        let answers = self.flows.key(reverse);
        let [_, port] = answers.ports();
        let [_, address] = answers.addresses();
        let is_same = decision.answers.destination == address && ports.contains(port);
        if is_same {
            let forward = self.flows.get(reverse).peer;
            decision.set_source_port(port, self.flows.key(forward).ports());
        }
        is_same
    }
}
