//! Which switches a memory server serves, for people: a server is one switch's, for a queue pair has one peer.

use crate::registration::Restore;
use std::fmt;
use twinpath_core::wire::{Address, MacAddress};

/// A switch on the link.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Its address.
    pub ip: Address,
    /// Its MAC address.
    pub mac: MacAddress,
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.ip.to_ip(), self.mac)
    }
}

/// What happened to a server, for people.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SwitchEvent {
    /// A switch, or another run of it, uses the server now.
    Connected(Switch),
    /// A switch has taken a queue pair that another one had.
    Taken {
        /// Which.
        index: u16,
        /// Who had it.
        from: Switch,
        /// Who has it.
        by: Switch,
    },
}

impl SwitchEvent {
    /// Whether something is wrong.
    #[must_use]
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Taken { .. })
    }
}

impl fmt::Display for SwitchEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected(switch) => write!(f, "switch {switch} has connected"),
            Self::Taken { index, from, by } => write!(
                f,
                "switch {by} has taken queue pair {index} from switch {from}: expected one switch for each server"
            ),
        }
    }
}

/// Most that waits to be told: whoever is on the link may ask as often as they like.
const MOST_EVENTS: usize = 4;

/// The switches of a server.
#[derive(Debug, Default)]
pub struct Switches {
    /// The last one that connected, and which run of it.
    last: Option<(Switch, u32)>,
    events: Vec<SwitchEvent>,
}

impl Switches {
    /// A queue pair has begun a life, after one that somebody else may have asked for.
    pub fn begun(&mut self, asked: &Restore, former: Option<&Restore>) {
        let switch = |asked: &Restore| Switch {
            ip: asked.ip,
            mac: asked.mac,
        };
        let by = switch(asked);
        if let Some(from) = former.map(switch).filter(|&from| from != by) {
            let index = asked.index;
            self.tell(SwitchEvent::Taken { index, from, by });
        }
        let run = (by, asked.life);
        if self.last.replace(run) != Some(run) {
            self.tell(SwitchEvent::Connected(by));
        }
    }

    fn tell(&mut self, event: SwitchEvent) {
        if self.events.len() < MOST_EVENTS {
            self.events.push(event);
        }
    }

    /// What happened since this was called last, of that the first so many.
    pub fn take_events(&mut self) -> Vec<SwitchEvent> {
        std::mem::take(&mut self.events)
    }
}
