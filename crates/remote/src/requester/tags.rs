//! What tells whether a payload is the one that was written: a keyed hash, which stays at the switch.
//!
//! A server's card checks key, address and length, and Header Info has the payload's number, but all of that can
//! be read on the cable: whoever sits there could copy it and compute an ICRC. The hash they cannot know, for
//! neither it nor its key leaves the switch. It holds against a server, too, whose memory fails or who lies.

use crate::server::Draws;
use highway::{HighwayHash, HighwayHasher, Key};

/// The key; none if nobody is to look.
pub struct Tags(Option<Key>);

impl Tags {
    pub fn new(draws: &mut Draws, authenticates: bool) -> Self {
        let key = [draws.next(), draws.next(), draws.next(), draws.next()];
        Self(authenticates.then_some(Key(key)))
    }

    /// What a payload's tag is.
    pub fn of(&self, payload: &[u8]) -> u64 {
        let hash = |key| HighwayHasher::new(key).hash64(payload);
        self.0.map_or(0, hash)
    }
}
