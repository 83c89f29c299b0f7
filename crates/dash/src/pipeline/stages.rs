//! The stages: what policies decide about a packet of no known flow.
//!
//! A packet that leaves a stage goes on to the next one on this page, in this order:
//!
//! 1. trusted VNI,
//! 2. access lists, up to five of its direction, as the machine sees it, and IP version,
//! 3. outbound: route, mapping, port map, tunnel ([`outbound`](super::outbound)); inbound: rule and
//!    validation of the sender's physical address ([`inbound`](super::inbound)),
//! 4. metering class.
//!
//! Nothing is changed here, neither the packet nor any state: the answer is a [`PolicyDecision`].

use super::action::PolicyDecision;
use super::arrival::Arrival;
use super::notes::Note;
use super::policy::Policies;
use super::{inbound, outbound};
use crate::headers::Direction;
use crate::objects::{EniMode, MeterBits};
use crate::reason::Reason;

impl Policies<'_> {
    /// Judges a packet.
    ///
    /// # Errors
    /// Why it is dropped.
    pub fn decide(&self, arrival: &Arrival) -> Result<PolicyDecision, Reason> {
        let is_trusted = self.is_trusted(arrival);
        self.note(|| {
            let action = if is_trusted { "trusted" } else { "dropped" };
            Note::new("trusted VNI", format!("VNI {}", arrival.key), action)
        });
        if !is_trusted {
            return Err(Reason::UntrustedVni);
        }
        match (arrival.direction, self.eni.mode) {
            (Direction::Outbound, _) => {
                self.permit(Direction::Outbound, &arrival.headers)?;
                outbound::decide(self, arrival, (MeterBits::default(), None))
            }
            // What opened a connection as a floating NIC's machine, before the ENI was a machine's own.
            (Direction::Inbound, EniMode::Vm) if arrival.way == Direction::Outbound => {
                Err(Reason::NoFlow)
            }
            (Direction::Inbound, EniMode::Vm) => {
                self.permit(Direction::Inbound, &arrival.headers)?;
                inbound::decide(self, arrival)
            }
            // What a floating NIC sends comes as what is sent to it does: the ways to it are among its
            // routes, too.
            (Direction::Inbound, EniMode::FloatingNic) => {
                let admitted = inbound::admit(self, arrival)?;
                self.permit(arrival.way, &arrival.headers)?;
                outbound::decide(self, arrival, admitted)
            }
        }
    }

    /// Whether inbound rules let a packet's sender in.
    ///
    /// # Errors
    /// Why not.
    pub fn admits(&self, arrival: &Arrival) -> Result<(), Reason> {
        inbound::admit(self, arrival).map(|_| ())
    }
}
