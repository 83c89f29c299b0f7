//! Redirects of load balancers.

use twinpath_core::Instant;

use super::{Dpu, Stop};
use crate::counters::EniCounters;
use crate::flows::EntryKey;
use crate::headers::Direction;
use crate::pipeline::{Arrival, Received, Redirect};
use crate::reason::Reason;

impl Dpu {
    /// The redirect that a packet is, if it is one that counts: from the network, to an ENI that listens.
    /// A machine's counts, too, as what must not leave.
    pub(super) fn redirect_in(&self, inside: &[u8], received: &Received) -> Option<Redirect> {
        let arrival = &received.arrival;
        let listens = self.tables.eni(arrival.eni)?.is_redirected;
        let may_be = listens || arrival.way == Direction::Outbound;
        may_be.then(|| Redirect::read(inside, &received.inner))?
    }

    /// Moves the flow that a redirect is about, if whoever sent it
    /// [may](crate::pipeline::Policies::redirected). Returns why it goes no further.
    pub(super) fn redirected(
        &mut self,
        redirect: &Redirect,
        arrival: &Arrival,
        now: Instant,
    ) -> Stop {
        // Tenants are no load balancers: what they send would be believed elsewhere.
        if arrival.way == Direction::Outbound {
            return Reason::ForgedRedirect.into();
        }
        let moved = match self.move_flow(redirect, arrival, now) {
            Err(stop @ (Stop::Ask(_) | Stop::Wait(_))) => return stop,
            moved => moved,
        };
        let counters = self.eni_counters(arrival);
        counters.redirects += 1;
        match moved {
            Ok(true) => counters.flows_redirected += 1,
            Ok(false) => counters.redirects_of_none += 1,
            Err(stop) => return stop,
        }
        Reason::Redirect.into()
    }

    fn eni_counters(&mut self, arrival: &Arrival) -> &mut EniCounters {
        &mut self.enis[usize::from(arrival.eni)].counters
    }

    /// Whether there was a flow to move.
    fn move_flow(
        &mut self,
        redirect: &Redirect,
        arrival: &Arrival,
        now: Instant,
    ) -> Result<bool, Stop> {
        let eni = self.tables.eni(arrival.eni).ok_or(Reason::EniMiss)?;
        let key = key_of_answers(eni.serial, redirect);
        self.wait_for_others(&key)?;
        let Some(place) = self.flows.find(&key, self.flows.hash(&key)) else {
            self.wait_for_opening(&key)?;
            return Ok(false);
        };
        let entry = self.flows.get(place);
        if self.is_over(&entry, key.protocol(), now) {
            return Ok(false);
        }
        let (place, entry) = self.judged_anew(place, arrival.eni, now)?;
        let sent = self.flows.get(entry.peer);
        let before = self.actions.get(sent.action).ok_or(Reason::NoFlow)?;
        let eni = self.tables.eni(arrival.eni).ok_or(Reason::EniMiss)?;
        let after = self.policies(eni).redirected(redirect, arrival, before)?;
        let of_answers = self.actions.get(entry.action).ok_or(Reason::NoFlow)?;
        let of_answers = after.answered_by(of_answers);
        self.set_action(entry.peer, &after);
        self.set_action(place, &of_answers);
        self.keep(place);
        Ok(true)
    }
}

/// The key of answers to the packet that a redirect quotes.
pub(super) fn key_of_answers(serial: u32, redirect: &Redirect) -> EntryKey {
    let answers = redirect.sent.turned();
    let ports = answers.ports.unwrap_or([0; 2]);
    EntryKey::new(serial, Direction::Inbound, &answers, ports)
}
