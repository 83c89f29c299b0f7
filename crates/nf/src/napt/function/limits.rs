//! What one host, or whoever is outside, may take of ports and sessions.
//!
//! What cached rules use may be alive although it is not known: before something is refused for
//! want of room, whatever seems to be over is looked at, so that the answer is that of a translation
//! that sees every packet.

use super::plan::{Stop, must_be_free};
use super::{Napt, session_entry};
use crate::records::Kind;
use twinpath_core::Instant;
use twinpath_core::wire::Address;
use twinpath_rulecache::Recorded;

impl Napt {
    /// Whether a host may have another binding (RFC 6888 REQ-4).
    pub(super) fn check_host(
        &mut self,
        packet: &Recorded<'_>,
        host: Address,
        kind: Kind,
        now: Instant,
    ) -> Result<(), Stop> {
        let of_host = self.table.host(host, kind);
        if of_host.live + of_host.idle < self.ports_per_host {
            return Ok(());
        }
        let (mut live, mut idle, mut next) = (of_host.live, of_host.idle, of_host.first_idle);
        while live < self.ports_per_host && next != 0 {
            let binding = next;
            next = self.table.next_idle(binding);
            match self.is_live(packet, binding, now)? {
                true => live += 1,
                false => idle -= 1,
            }
            if of_host.live + idle < self.ports_per_host {
                return Ok(());
            }
        }
        Err(Stop::HostLimit)
    }

    /// Whether a host may open another session: it could fill the table.
    pub(super) fn check_sessions_of(&mut self, host: Address, now: Instant) -> Result<(), Stop> {
        self.table.advance(now, &mut self.external);
        match self.table.sessions_of_host(host) < self.sessions_per_host {
            true => Ok(()),
            false => Err(Stop::HostSessions),
        }
    }

    /// Whether somebody outside may open another session to a binding that is alive (RFC 6888
    /// REQ-5): whoever knows of it could fill the table.
    pub(super) fn check_binding(
        &mut self,
        packet: &Recorded<'_>,
        binding: u32,
        now: Instant,
    ) -> Result<(), Stop> {
        self.table.advance(now, &mut self.external);
        let most = self.sessions_per_binding;
        let Some(known) = self.table.binding(binding) else {
            return Ok(());
        };
        let (mut count, mut next) = (known.count, known.sessions);
        if known.live >= most {
            return Err(Stop::BindingLimit);
        }
        while count >= most
            && let Some(session) = self.table.session(next)
        {
            let (number, after) = (next, session.next);
            if self.table.is_expired(number, now) {
                must_be_free(packet, session_entry(number))?;
                self.table.remove(number, &mut self.external);
                count -= 1;
            }
            next = after;
        }
        match count < most {
            true => Ok(()),
            false => Err(Stop::BindingLimit),
        }
    }
}
