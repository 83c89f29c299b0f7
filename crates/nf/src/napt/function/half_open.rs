//! Half-open sessions give way where there is no port or no room, those that opened first before the others:
//! what nobody answers must not keep others out until its time-out.

use super::plan::{Leg, Stop};
use super::{MOST_WAITS, Napt, session_entry};
use crate::napt::ports::Slot;
use crate::records::Kind;
use twinpath_core::wire::Endpoint;
use twinpath_rulecache::{Recorded, Verdict};

/// Sessions that one newcomer looks at.
const MOST_LOOKS: usize = 32;

/// What became of a session that was to give way.
enum Gone {
    Yes,
    /// Not before cached rules of it are gone.
    Waits(u32),
    /// Rules of it have been waited for too often.
    No,
}

impl Napt {
    /// The slot of a binding that gives way with all its sessions.
    pub(super) fn slot_of_half_open(
        &mut self,
        packet: &Recorded<'_>,
        internal: Endpoint,
        kind: Kind,
    ) -> Result<Slot, Stop> {
        if kind != Kind::Tcp {
            return Err(Stop::NoPort);
        }
        let (mut looks, mut place) = (0, 0);
        while looks < MOST_LOOKS
            && let Some(address) = self.external.address_for(internal.address, place)
        {
            let Some((session, slot)) = self.first_half_open_at(address) else {
                place += 1;
                continue;
            };
            looks += 1;
            if !self.external.may_have(internal, slot) {
                self.table.spare_half_open(session);
                continue;
            }
            match self.give_way(packet, session) {
                Gone::Yes if self.external.binding(slot).is_none() => return Ok(slot),
                Gone::Yes => {}
                Gone::Waits(entry) => return Err(Stop::Wait(entry)),
                Gone::No => break,
            }
        }
        Err(Stop::NoPort)
    }

    fn first_half_open_at(&self, address: u32) -> Option<(u32, Slot)> {
        let session = self.table.first_half_open_at(address)?;
        let binding = self.table.session(session)?.binding;
        Some((session, self.table.binding(binding)?.slot))
    }

    /// Whether so many new sessions have room once others have given way. The bindings of the legs stay.
    pub(super) fn forget_half_open(
        &mut self,
        packet: &Recorded<'_>,
        legs: &[Leg],
        new: usize,
    ) -> Result<bool, Verdict> {
        for _ in 0..MOST_LOOKS {
            if self.table.has_room(new) {
                break;
            }
            let Some(number) = self.table.first_half_open() else {
                break;
            };
            let binding = self.table.session(number).map(|session| session.binding);
            if legs.iter().any(|leg| leg.binding == binding) {
                self.table.spare_half_open(number);
                continue;
            }
            match self.give_way(packet, number) {
                Gone::Yes => {}
                Gone::Waits(entry) => return Err(Verdict::Wait(entry)),
                Gone::No => break,
            }
        }
        Ok(self.table.has_room(new))
    }

    fn give_way(&mut self, packet: &Recorded<'_>, session: u32) -> Gone {
        let entry = session_entry(session);
        if packet.is_free(entry) {
            self.table.remove(session, &mut self.external);
            self.counters.half_open_forgotten += 1;
            return Gone::Yes;
        }
        match packet.can_wait() && packet.waits() < MOST_WAITS {
            true => Gone::Waits(entry),
            false => Gone::No,
        }
    }
}
