//! Virtual reassembly: which flow a fragment belongs to.
//!
//! Only the first fragment of a datagram has ports. Whoever decides by ports needs the others
//! behind it, and is told whose they are; nothing is put together, and what passes are the
//! fragments themselves (as Cisco's virtual reassembly and VPP's shallow one do). A [`Fragments`]
//! stands in front of an element that needs ports, and sees the fragments that come to it:
//!
//! - The first fragment of a datagram tells the ports, and the numbers that TCP's sequence
//!   tracking needs of the others ([`FragmentPlace`]).
//! - A fragment that comes before the first is held until that has passed, at most [`LIFETIME`],
//!   and at most [`MAX_HELD`] of all and [`MAX_HELD_OF_HOST`] of one sender: the oldest gives way.
//! - Of fragments that overlap the first to come wins: bytes that have passed, or are held, never
//!   come again, so a receiver sees one version of a datagram whatever its own policy is. A fragment
//!   that does not fit the others' idea of where the datagram ends is dropped too.
//! - Datagrams that are not complete are remembered for [`LIFETIME`], at most [`MAX_DATAGRAMS`], and
//!   of one sender those in its share of the table alone ([`SHARE`] of them): who opens more
//!   displaces its own.
//!
//! Time is that of the packets, and is looked at when a fragment comes. No memory is taken after
//! the first fragment.

mod datagram;
mod flows;

pub use flows::DatagramFlows;

use crate::drop_reason::DropReason;
use crate::fragment_place::FragmentPlace;
use crate::hash::HashKey;
use crate::key::Keyed;
use crate::pool::Frame;
use crate::steering::Steering;
use crate::time::Instant;
use crate::wire::Address;
use crate::wire::layout::{Fragment, Layout};
use datagram::{Datagram, Name};
use std::ops::Range;
use std::time::Duration;

/// How long the rest of a datagram is waited for. Fragments of one datagram follow each other at
/// once; a receiver may wait for minutes, but has no crowd to serve.
pub const LIFETIME: Duration = Duration::from_secs(5);
/// Most datagrams that are known.
pub const MAX_DATAGRAMS: usize = 4096;
/// Most of them that one sender can have.
pub const SHARE: usize = 64;
/// Most fragments that are held.
pub const MAX_HELD: usize = 256;
/// Most of them of one sender.
pub const MAX_HELD_OF_HOST: usize = 64;

/// What is to become of a fragment.
#[derive(Debug)]
pub enum FragmentOutcome {
    /// It goes on, and [`Fragments::key`] tells its flow; if it is a first one, what was held goes
    /// on behind it ([`Fragments::next_follower`]).
    Known(Frame),
    /// It is held.
    Held,
    /// It is dropped.
    Refused(Frame, DropReason),
}

/// The datagram of the fragment that was met last.
#[derive(Copy, Clone, Debug)]
struct Current {
    ports: [u16; 2],
    protocol: u8,
}

/// A fragment that waits for the first one of its datagram.
#[derive(Debug)]
struct Held {
    name: Name,
    since: Instant,
    frame: Frame,
}

/// Virtual reassembly in front of an element.
#[derive(Debug)]
pub struct Fragments {
    hash_key: HashKey,
    datagrams: Vec<Option<Datagram>>,
    held: Vec<Held>,
    current: Option<Current>,
    /// Whose followers go on, and what their frames say.
    passing: Option<(Name, FragmentPlace)>,
    /// What is given up, and why.
    given_up: Vec<(Frame, DropReason)>,
}

impl Fragments {
    /// One that has seen nothing.
    pub fn new(hash_key: HashKey) -> Self {
        Self {
            hash_key,
            datagrams: Vec::new(),
            held: Vec::new(),
            current: None,
            passing: None,
            given_up: Vec::new(),
        }
    }

    /// A fragment comes, with this layout.
    pub fn meet(&mut self, mut frame: Frame, layout: &Layout) -> FragmentOutcome {
        self.reserve();
        let now = frame.timestamp();
        self.give_up(DropReason::FragmentAlone, |held| is_old(held.since, now));
        let Some((name, part)) = Name::of(frame.bytes(), layout) else {
            return FragmentOutcome::Refused(frame, DropReason::FragmentMisfit);
        };
        let place = self.place_of(&name, now);
        let datagram =
            self.datagrams[place].get_or_insert_with(|| Datagram::new(name, layout.protocol, now));
        if !datagram.take(&part) {
            return FragmentOutcome::Refused(frame, DropReason::FragmentMisfit);
        }
        if layout.fragment == Fragment::First {
            datagram.learn(frame.bytes(), layout, &part);
            self.passing = Some((name, datagram.place));
        }
        let Some(ports) = datagram.ports else {
            self.hold(name, frame, now);
            return FragmentOutcome::Held;
        };
        self.current = Some(Current {
            ports,
            protocol: datagram.protocol,
        });
        frame.set_place(datagram.place);
        if datagram.is_complete() {
            self.datagrams[place] = None;
        }
        FragmentOutcome::Known(frame)
    }

    /// The flow of the fragment that was met last.
    pub fn key(&self, frame: &[u8], layout: &Layout, steering: &Steering) -> Option<Keyed> {
        let Current { ports, protocol } = self.current?;
        Some(steering.key_of_fragment(frame, layout, ports, protocol))
    }

    /// The next fragment that was held for the one that has just passed. It is of the same flow.
    pub fn next_follower(&mut self) -> Option<Frame> {
        let (name, of_datagram) = self.passing?;
        let Some(place) = self.held.iter().position(|held| held.name == name) else {
            self.passing = None;
            return None;
        };
        let mut frame = self.held.remove(place).frame;
        frame.set_place(of_datagram);
        Some(frame)
    }

    /// Gives up what has waited longest, until no more than `most` are held.
    pub fn hold_at_most(&mut self, most: usize) {
        while self.held.len() > most {
            self.give_up_first(|_| true);
        }
    }

    /// How many are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Fragments that were given up since the last call: they waited for too long, or too many did.
    pub fn given_up(&mut self) -> impl Iterator<Item = (Frame, DropReason)> {
        self.given_up.drain(..)
    }

    /// Gives all up that wait, and forgets all datagrams.
    pub fn clear(&mut self) {
        self.datagrams.iter_mut().for_each(|place| *place = None);
        self.give_up(DropReason::FragmentAlone, |_| true);
        (self.current, self.passing) = (None, None);
    }

    #[inline]
    fn reserve(&mut self) {
        if self.datagrams.is_empty() {
            self.datagrams.resize(MAX_DATAGRAMS, None);
            self.held.reserve_exact(MAX_HELD);
            self.given_up.reserve_exact(MAX_HELD);
        }
    }

    /// Where a datagram is known, or would be: a place of its sender's share, at worst that of the
    /// oldest there.
    fn place_of(&mut self, name: &Name, now: Instant) -> usize {
        let places = self.share_of(name.source);
        for place in &mut self.datagrams[places.clone()] {
            if place.is_some_and(|known| is_old(known.since, now)) {
                *place = None;
            }
        }
        let is_it = |&place: &usize| self.datagrams[place].is_some_and(|known| known.name == *name);
        if let Some(place) = places.clone().find(is_it) {
            return place;
        }
        let age = |&place: &usize| self.datagrams[place].map(|known| known.since);
        let place = places.clone().min_by_key(age).unwrap_or(places.start);
        if let Some(oldest) = self.datagrams[place].take() {
            self.give_up(DropReason::FragmentBacklogFull, |held| {
                held.name == oldest.name
            });
        }
        place
    }

    /// The places that datagrams of a sender can have. Nobody who does not know the seed can choose
    /// addresses that share another's.
    fn share_of(&self, source: Address) -> Range<usize> {
        let [high, low] = [(source.0 >> 64) as u64, source.0 as u64];
        let share = (self.hash_key.hash([high, low]) >> 32) as usize % (MAX_DATAGRAMS / SHARE);
        share * SHARE..(share + 1) * SHARE
    }

    fn hold(&mut self, name: Name, frame: Frame, now: Instant) {
        let of_host = |held: &&Held| held.name.source == name.source;
        if self.held.iter().filter(of_host).count() >= MAX_HELD_OF_HOST {
            self.give_up_first(|held| held.name.source == name.source);
        } else if self.held.len() >= MAX_HELD {
            self.give_up_first(|_| true);
        }
        self.held.push(Held {
            name,
            since: now,
            frame,
        });
    }

    /// Makes room.
    fn give_up_first(&mut self, which: impl Fn(&Held) -> bool) {
        if let Some(place) = self.held.iter().position(which) {
            let frame = self.held.remove(place).frame;
            self.given_up.push((frame, DropReason::FragmentBacklogFull));
        }
    }

    fn give_up(&mut self, why: DropReason, which: impl Fn(&Held) -> bool) {
        let gone = self.held.extract_if(.., |held| which(held));
        self.given_up.extend(gone.map(|held| (held.frame, why)));
    }
}

fn is_old(since: Instant, now: Instant) -> bool {
    now.since(since) > LIFETIME
}

#[cfg(test)]
mod tests;
