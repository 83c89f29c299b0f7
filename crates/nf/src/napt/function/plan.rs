//! What a packet will use or make, found out before anything is changed: a packet that has to
//! wait must leave all as it was.
//!
//! Sessions that have expired and are free are removed on the way. That is no change: they count
//! as gone from the moment on that they expired.

use super::super::config::Filtering;
use super::super::ports::{Kind, Slot};
use super::{Napt, session_entry};
use twinpath_core::wire::tcp::flags::{ACK, RST, SYN};
use twinpath_core::wire::{Address, Endpoint};
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::Recorded;

/// One end of a translation.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Leg {
    /// The session, if it is there.
    pub session: Option<u32>,
    /// The binding, if it is there.
    pub binding: Option<u32>,
    /// The external endpoint.
    pub slot: Slot,
    /// The other end, as far as the session knows it.
    pub remote: Endpoint,
}

/// Why a packet is not translated.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// An entry must be free first.
    Wait(u32),
    /// Nobody asked for it.
    Unsolicited,
    /// A TCP segment from inside that opens nothing.
    NotPickedUp,
    /// No external port is left.
    NoPort,
}

impl Stop {
    /// The reason that the packet is dropped for.
    pub fn reason(self) -> DropReason {
        match self {
            Self::NoPort => DropReason::NoPort,
            Self::NotPickedUp => DropReason::InvalidState,
            Self::Wait(_) | Self::Unsolicited => DropReason::Denied,
        }
    }
}

/// Sessions of one binding that are looked at for the address of a TCP SYN from outside.
const MOST_LOOKED_AT: usize = 1024;

impl Napt {
    /// As much of the other end as a session of this kind knows.
    pub(super) fn scope(&self, remote: Endpoint, kind: Kind) -> Endpoint {
        match (kind, self.filtering) {
            (Kind::Tcp, _) => remote,
            (_, Filtering::EndpointIndependent) => Endpoint::new(Address::UNSPECIFIED_V6, 0),
            (Kind::Udp, Filtering::AddressAndPortDependent) => remote,
            _ => Endpoint::new(remote.address, 0),
        }
    }

    /// The leg of a packet that an inside endpoint sends.
    pub(super) fn plan_out(
        &mut self,
        packet: &Recorded<'_>,
        internal: Endpoint,
        remote: Endpoint,
        kind: Kind,
        flags: Option<u8>,
        now: Instant,
    ) -> Result<Leg, Stop> {
        let remote = self.scope(remote, kind);
        if let Some(binding) = self.table.binding_of(internal, kind)
            && let Some(leg) = self.live_leg(packet, binding, remote, now)?
        {
            return Ok(leg);
        }
        if flags.is_some_and(|flags| !self.opens(flags)) {
            return Err(Stop::NotPickedUp);
        }
        let binding = match self.table.binding_of(internal, kind) {
            Some(binding) if self.is_live(packet, binding, now)? => Some(binding),
            _ => None,
        };
        let known = binding.and_then(|binding| self.table.binding(binding));
        let slot = match known {
            Some(binding) => binding.slot,
            None => self.free_slot(packet, internal, kind, now)?,
        };
        must_be_free(packet, slot.0)?;
        Ok(Leg {
            session: None,
            binding,
            slot,
            remote,
        })
    }

    /// The leg of a packet that somebody sends to an external endpoint.
    pub(super) fn plan_in(
        &mut self,
        packet: &Recorded<'_>,
        slot: Slot,
        remote: Endpoint,
        kind: Kind,
        flags: Option<u8>,
        now: Instant,
    ) -> Result<Leg, Stop> {
        let scoped = self.scope(remote, kind);
        let binding = self.external.binding(slot).ok_or(Stop::Unsolicited)?;
        if let Some(leg) = self.live_leg(packet, binding, scoped, now)? {
            return Ok(leg);
        }
        let is_opening = flags.is_some_and(|flags| flags & (SYN | ACK | RST) == SYN);
        let may_open = is_opening
            && self.table.binding(binding).is_some()
            && self.is_live(packet, binding, now)?
            && self.lets_in(packet, binding, remote, now)?;
        if !may_open {
            return Err(Stop::Unsolicited);
        }
        must_be_free(packet, slot.0)?;
        Ok(Leg {
            session: None,
            binding: Some(binding),
            slot,
            remote: scoped,
        })
    }

    /// The leg of a session that is there and alive.
    pub(super) fn live_leg(
        &mut self,
        packet: &Recorded<'_>,
        binding: u32,
        remote: Endpoint,
        now: Instant,
    ) -> Result<Option<Leg>, Stop> {
        let Some(session) = self.table.session_of(binding, remote) else {
            return Ok(None);
        };
        if self.table.is_expired(session, now) {
            must_be_free(packet, session_entry(session))?;
            self.table.remove(session, &mut self.external);
            return Ok(None);
        }
        let leg = |slot| Leg {
            session: Some(session),
            binding: Some(binding),
            slot,
            remote,
        };
        Ok(self.table.binding(binding).map(|binding| leg(binding.slot)))
    }

    /// Whether a segment from inside may open a session.
    fn opens(&self, flags: u8) -> bool {
        let is_opening = flags & (SYN | ACK | RST) == SYN;
        is_opening || self.pick_up && flags & RST == 0
    }

    /// Whether a slot has a binding that is alive.
    pub(super) fn is_bound(
        &mut self,
        packet: &Recorded<'_>,
        slot: Slot,
        now: Instant,
    ) -> Result<bool, Stop> {
        match self.external.binding(slot) {
            Some(binding) => self.is_live(packet, binding, now),
            None => Ok(false),
        }
    }

    /// Whether any session of a binding is alive. If none is, and all are free, they are removed.
    fn is_live(&mut self, packet: &Recorded<'_>, binding: u32, now: Instant) -> Result<bool, Stop> {
        let mut next = self.first_session(binding);
        let mut undecided = None;
        while let Some(session) = self.table.session(next) {
            let (number, after) = (next, session.next);
            if !self.table.is_expired(number, now) {
                return Ok(true);
            }
            match must_be_free(packet, session_entry(number)) {
                Ok(()) => self.table.remove(number, &mut self.external),
                Err(stop) => undecided = undecided.or(Some(stop)),
            }
            next = after;
        }
        undecided.map_or(Ok(false), Err)
    }

    /// Whether filtering lets a new TCP connection in.
    fn lets_in(
        &mut self,
        packet: &Recorded<'_>,
        binding: u32,
        remote: Endpoint,
        now: Instant,
    ) -> Result<bool, Stop> {
        match self.filtering {
            Filtering::EndpointIndependent => return Ok(true),
            Filtering::AddressAndPortDependent => return Ok(false),
            Filtering::AddressDependent => {}
        }
        let mut next = self.first_session(binding);
        let mut undecided = None;
        for _ in 0..MOST_LOOKED_AT {
            let Some(session) = self.table.session(next) else {
                break;
            };
            let number = next;
            next = session.next;
            if session.remote.address != remote.address {
                continue;
            }
            if !self.table.is_expired(number, now) {
                return Ok(true);
            }
            if let Err(stop) = must_be_free(packet, session_entry(number)) {
                undecided = undecided.or(Some(stop));
            }
        }
        undecided.map_or(Ok(false), Err)
    }

    fn first_session(&self, binding: u32) -> u32 {
        let binding = self.table.binding(binding);
        binding.map_or(0, |binding| binding.sessions)
    }

    /// The first slot that no live binding has.
    fn free_slot(
        &mut self,
        packet: &Recorded<'_>,
        internal: Endpoint,
        kind: Kind,
        now: Instant,
    ) -> Result<Slot, Stop> {
        self.table.advance(now, &mut self.external);
        let mut search = self.external.search(internal, kind);
        while let Some(slot) = search.next(&self.external) {
            // One that is not taken may have a binding that is used by cached rules.
            match self.external.binding(slot) {
                Some(binding) if self.is_live(packet, binding, now)? => {}
                _ => return Ok(slot),
            }
        }
        Err(Stop::NoPort)
    }
}

fn must_be_free(packet: &Recorded<'_>, entry: u32) -> Result<(), Stop> {
    match packet.is_free(entry) {
        true => Ok(()),
        false => Err(Stop::Wait(entry)),
    }
}
