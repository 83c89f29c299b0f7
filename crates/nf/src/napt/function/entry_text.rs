//! What entries of a translation are, in words.

use super::super::ports::Slot;
use super::{Napt, PAST, SESSION};
use twinpath_core::wire::{Address, Endpoint};

impl Napt {
    /// A binding with whom it speaks, or an external endpoint that nobody has.
    pub(super) fn told(&self, entry: u32) -> Option<String> {
        if entry == PAST {
            return Some("what it does not translate".to_owned());
        }
        if entry & SESSION != 0 {
            return self.session_told(entry & !SESSION);
        }
        let slot = Slot(entry);
        let (kind, external) = (slot.kind(), self.external.endpoint(slot));
        Some(format!("no session of {kind} {external}"))
    }

    fn session_told(&self, number: u32) -> Option<String> {
        let session = self.table.session(number)?;
        let binding = self.table.binding(session.binding)?;
        let external = self.external.endpoint(binding.slot);
        let (kind, internal) = (binding.kind, binding.internal);
        let remote = match session.remote {
            // As much of the other end as filtering looks at.
            remote if remote.address == Address::UNSPECIFIED_V6 => String::new(),
            Endpoint { address, port: 0 } => format!(", with {address}"),
            remote => format!(", with {remote}"),
        };
        Some(format!("{kind} {internal} as {external}{remote}"))
    }
}
