//! Identifications that a translation draws for what leaves from external addresses.

use crate::datagram::Datagram;
use crate::digest::Digest;
use crate::ids;
use crate::options::Renaming;
use std::collections::HashMap;
use twinpath_core::wire::{Layout, fields, rewrite};

/// Replaces drawn identifications by such as are the same whatever was drawn.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    datagrams: HashMap<Datagram, Begun>,
}

/// A datagram of which a fragment has come.
#[derive(Copy, Clone, Debug)]
struct Begun {
    /// Where in the datagram the one is that came first: if it comes again, another has begun.
    place: u32,
    stands_for: u16,
}

/// What may be drawn in a packet.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Places {
    own: bool,
    quoted: bool,
}

impl Places {
    /// Of a packet whose names have not been blanked.
    pub fn of(renaming: &Renaming, frame: &[u8], layout: &Layout) -> Self {
        Self {
            own: renaming.has(fields::source_address(frame, layout))
                && ids::may_be_drawn(frame, layout),
            // Back inside, an error quotes what was drawn behind the host's own address.
            quoted: ids::quoted_may_be_drawn(frame, layout),
        }
    }
}

impl Drawn {
    /// Replaces what was drawn in a packet whose names have been blanked; of a fragment the datagram
    /// is told as it was before.
    pub fn replace(
        &mut self,
        places: Places,
        frame: &mut [u8],
        layout: &Layout,
        datagram: Option<Datagram>,
    ) {
        if places.quoted {
            ids::blank_quoted(frame, layout);
        }
        if !places.own {
            return;
        }
        // What may be drawn is IPv4, and whole.
        let _ = rewrite::set_identification(frame, layout, 0);
        if let Some(datagram) = datagram {
            let stands_for = self.stands_for(datagram, frame, layout);
            let _ = rewrite::set_identification(frame, layout, stands_for);
        }
    }

    fn stands_for(&mut self, datagram: Datagram, frame: &[u8], layout: &Layout) -> u16 {
        let place = fields::fragment_offset_bytes(frame, layout);
        let known = self.datagrams.get(&datagram);
        if let Some(begun) = known.filter(|begun| begun.place != place) {
            return begun.stands_for;
        }
        let stands_for = Digest::of(frame).short();
        self.datagrams.insert(datagram, Begun { place, stands_for });
        stands_for
    }
}
