//! What a packet will use or make, found out before anything is changed: a packet that has to
//! wait must leave all as it was.
//!
//! Sessions that have expired and are free are removed on the way. That is no change: they count
//! as gone from the moment on that they expired. Half-open ones that give way are gone, too, whatever
//! becomes of the packet: when it comes again after a wait their port is still free, or another's.

use super::super::config::Filtering;
use super::super::ports::{Search, Slot};
use super::super::tcp::NatDirection;
use super::{Napt, segment_of, session_entry};
use crate::records::Kind;
use twinpath_core::wire::tcp::flags::{ACK, RST, SYN};
use twinpath_core::wire::{Address, Endpoint};
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::Recorded;

/// One end of a translation.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leg {
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
pub(crate) enum Stop {
    /// An entry must be free first.
    Wait(u32),
    /// Nobody asked for it.
    Unsolicited,
    /// A TCP segment from inside that opens nothing.
    NotPickedUp,
    /// No external port is left.
    NoPort,
    /// The host has as many external ports as it may.
    HostLimit,
    /// The host has as many sessions as it may.
    HostSessions,
    /// The binding has as many sessions as others may open.
    BindingLimit,
    /// An error quotes a segment that the host cannot have sent.
    Quote,
}

impl Stop {
    /// The reason that the packet is dropped for.
    pub fn reason(self) -> DropReason {
        match self {
            Self::NoPort => DropReason::NoPort,
            Self::HostLimit | Self::HostSessions | Self::BindingLimit => DropReason::HostLimit,
            Self::NotPickedUp => DropReason::InvalidState,
            Self::Quote => DropReason::IcmpQuote,
            Self::Wait(_) | Self::Unsolicited => DropReason::Unsolicited,
        }
    }
}

/// Sessions of one binding that are looked at for the address of a TCP SYN from outside.
const MOST_LOOKED_AT: usize = 1024;

impl Napt {
    /// As much of the other end as a session of this kind knows.
    pub(crate) fn scope(&self, remote: Endpoint, kind: Kind) -> Endpoint {
        match (kind, self.filtering) {
            (Kind::Tcp, _) => remote,
            (_, Filtering::EndpointIndependent) => Endpoint::new(Address::UNSPECIFIED_V6, 0),
            (Kind::Udp, Filtering::AddressAndPortDependent) => remote,
            _ => Endpoint::new(remote.address, 0),
        }
    }

    /// The leg of a packet that an inside endpoint sends.
    pub(crate) fn plan_out(
        &mut self,
        packet: &mut Recorded<'_>,
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
            return self.undisturbed(packet, leg, NatDirection::Out, flags);
        }
        if flags.is_some_and(|flags| !self.opens(flags)) {
            return Err(Stop::NotPickedUp);
        }
        self.check_sessions_of(internal.address, now)?;
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
    pub(crate) fn plan_in(
        &mut self,
        packet: &mut Recorded<'_>,
        slot: Slot,
        remote: Endpoint,
        kind: Kind,
        flags: Option<u8>,
        now: Instant,
    ) -> Result<Leg, Stop> {
        let scoped = self.scope(remote, kind);
        let known = self.external.binding(slot);
        if let Some(binding) = known
            && let Some(leg) = self.live_leg(packet, binding, scoped, now)?
        {
            return self.undisturbed(packet, leg, NatDirection::In, flags);
        }
        let is_forwarded = self.external.forwarded(slot).is_some();
        let may_open = match flags {
            Some(flags) => flags & (SYN | ACK | RST) == SYN,
            None => is_forwarded,
        };
        if !may_open {
            return Err(Stop::Unsolicited);
        }
        let binding = match self.external.binding(slot) {
            Some(binding) if self.is_live(packet, binding, now)? => Some(binding),
            _ => None,
        };
        if !is_forwarded {
            let binding = binding.ok_or(Stop::Unsolicited)?;
            if !self.lets_in(packet, binding, remote, now)? {
                return Err(Stop::Unsolicited);
            }
            self.check_binding(packet, binding, now)?;
        }
        must_be_free(packet, slot.0)?;
        Ok(Leg {
            session: None,
            binding,
            slot,
            remote: scoped,
        })
    }

    /// The leg of a session that is there and alive.
    pub(crate) fn live_leg(
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

    /// The leg, once no rule is left whose hits would have to be known after this segment. A reset that
    /// does not count leaves all rules where they are: whoever is outside can send any number of them.
    fn undisturbed(
        &self,
        packet: &mut Recorded<'_>,
        leg: Leg,
        way: NatDirection,
        flags: Option<u8>,
    ) -> Result<Leg, Stop> {
        let session = leg.session.and_then(|number| self.table.session(number));
        let (Some(number), Some(session), Some(flags)) = (leg.session, session, flags) else {
            return Ok(leg);
        };
        if session.tcp.asks_for_last_segment(way, flags) {
            must_be_told(packet, session_entry(number))?;
        }
        if session.tcp.is_undone_by(way, segment_of(packet, flags)) {
            must_be_free(packet, session_entry(number))?;
        }
        Ok(leg)
    }

    /// Whether a segment from inside may open a session.
    fn opens(&self, flags: u8) -> bool {
        let is_opening = flags & (SYN | ACK | RST) == SYN;
        is_opening || self.pick_up && flags & RST == 0
    }

    /// Whether any session of a binding is alive. If none is, and all are free, they are removed.
    pub(crate) fn is_live(
        &mut self,
        packet: &Recorded<'_>,
        binding: u32,
        now: Instant,
    ) -> Result<bool, Stop> {
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
        if let Some(slot) = self.external.forward_of(internal, kind) {
            return Ok(slot);
        }
        self.table.advance(now, &mut self.external);
        self.check_host(packet, internal.address, kind, now)?;
        if self.external.blocks().is_some() {
            return self.free_slot_in_blocks(packet, internal, kind, now);
        }
        let search = self.external.search(internal, kind);
        match self.first_free(packet, search, now)? {
            Some(slot) => Ok(slot),
            None => self.slot_of_half_open(packet, internal, kind),
        }
    }

    /// The first slot of a search that no live binding has.
    pub(super) fn first_free(
        &mut self,
        packet: &Recorded<'_>,
        mut search: Search,
        now: Instant,
    ) -> Result<Option<Slot>, Stop> {
        while let Some(slot) = search.next(&self.external) {
            // One that is not taken may have a binding that is used by cached rules.
            match self.external.binding(slot) {
                Some(binding) if self.is_live(packet, binding, now)? => {}
                _ => return Ok(Some(slot)),
            }
        }
        Ok(None)
    }
}

/// How cached rules have used an entry must be known, as far as it has come.
pub(crate) fn must_be_told(packet: &Recorded<'_>, entry: u32) -> Result<(), Stop> {
    match packet.is_told(entry) {
        true => Ok(()),
        false => Err(Stop::Wait(entry)),
    }
}

pub(crate) fn must_be_free(packet: &Recorded<'_>, entry: u32) -> Result<(), Stop> {
    match packet.is_free(entry) {
        true => Ok(()),
        false => Err(Stop::Wait(entry)),
    }
}
