//! Packets of one connection that cross in opposite directions take turns.
//!
//! In a chain of several elements a packet that needs the cores at one of them can be overtaken.
//! Not by packets of its own flow and direction: each element sees to that. But one from the other
//! end of the connection passes the elements in reverse, and would meet those behind before a
//! packet that arrived earlier: a firewall there would see an answer before its question.
//!
//! This matters at elements that remember connections; in front of each stand
//! [gates]. A packet [claims](Claim) the gate of what it [has in common](Meeting) with those it
//! may cross. One that goes to the cores before it has met all such elements is *expected* at those
//! ahead, as of its arrival. One that comes to a gate where a packet of another kind is expected
//! that arrived before it waits there until that one has passed. So all that is not yet at the gate
//! is worked on at the same time, and packets that find all they need on the fast path pass at
//! once, without being counted.
//!
//! Some that are expected never come: functions drop them, links and crashes lose them. A frame
//! that comes back [from the cores](inside) tells that all before it are gone. Where somebody waits
//! and nothing else comes back a probe does.

mod gates;
mod inside;
mod meeting;

pub use gates::Claim;
pub use meeting::Meeting;

use crate::place::Place;
use gates::{AtElement, Gates, Pass};
use inside::{Kept, OnCores};
use std::time::Duration;
use twinpath_core::wire::layout::{Layout, PlainEnds};
use twinpath_core::{Frame, Instant, Steering};

/// Most packets that wait for their turn; more are dropped, as at any full ring.
pub const MOST_WAITING: usize = 4096;

/// Most packets that are expected; more are dropped, as at any full ring.
const MOST_EXPECTED: usize = 32_768;

/// Most elements of a chain that remember connections: the one with flow state, and one each for
/// functions of rules that do.
pub const MOST_ORDERED: usize = 2;

/// A probe that has not come back for so long is lost.
const PROBE_PATIENCE: Duration = Duration::from_millis(1);

/// Packets on the cores of one element behind which a probe follows though nobody waits, so that
/// those that never come back are forgotten.
const PROBE_EVERY: usize = 1024;

/// What happened so far.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that waited for their turn.
    pub waited: u64,
    /// Packets dropped because too many waited, or were expected.
    pub overflowed: u64,
    /// Probes sent.
    pub probes: u64,
}

impl Counts {
    /// Adds what happened elsewhere.
    pub fn absorb(&mut self, other: &Self) {
        self.waited += other.waited;
        self.overflowed += other.overflowed;
        self.probes += other.probes;
    }
}

/// A probe to be sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// To this worker.
    pub worker: usize,
    /// For this element.
    pub element: u8,
    /// Its own number in turns.
    pub turn: u16,
}

/// Where a packet is expected, by number of the gates.
type Passes = [Option<Pass>; MOST_ORDERED];

/// The packet whose walk this is.
#[derive(Copy, Clone, Debug, Default)]
enum Walker {
    /// There is none, or one that is not told of: a function made it.
    #[default]
    Nobody,
    /// It has just arrived, with what it claims if that is not to be told from what it looks like
    /// later.
    Arrived(Option<Claim>),
    /// It is expected wherever it has yet to come.
    Expected(Passes),
}

/// A packet in front of an element.
pub struct Waiting {
    frame: Frame,
    place: Place,
    /// Where it is expected behind this element.
    passes: Passes,
}

/// What a packet finds at an element.
pub enum Reached {
    /// It is its turn.
    Meets(Frame),
    /// It waits.
    Waits,
    /// Too many wait.
    Refused(Frame),
}

/// The gates of a chain, and who is inside.
pub struct Turns {
    meeting: Meeting,
    /// The elements that remember connections, and their gates.
    ordered: Vec<(u8, Gates<Waiting>)>,
    /// The element that gives out what all connections share, as external ports: there those that
    /// go to the cores do so in the order of all. It is one with rules and remembers connections.
    shares: Option<u8>,
    /// Bits by number of the element: whether it does.
    remembers: u64,
    /// By worker and element.
    on_cores: Vec<OnCores<Passes>>,
    elements: usize,
    kept: Kept<Passes>,
    walker: Walker,
    /// What the packet of the walk is about to meet, by number, until it goes on.
    met: Option<(usize, AtElement)>,
    /// The packet of the walk is the first of all at its element.
    is_first: bool,
    waiting: usize,
    counts: Counts,
}

impl Turns {
    /// Nobody is inside a chain of so many elements, with so many workers behind it. No more than
    /// [`MOST_ORDERED`] elements are ordered.
    pub fn new(
        meeting: Meeting,
        ordered: &[u8],
        shares: Option<u8>,
        elements: usize,
        workers: usize,
    ) -> Self {
        let ordered = ordered.iter().take(MOST_ORDERED);
        Self {
            meeting,
            shares,
            remembers: ordered.clone().fold(0, |bits, element| bits | 1 << element),
            ordered: ordered
                .map(|&element| (element, Gates::default()))
                .collect(),
            on_cores: vec![OnCores::default(); elements * workers],
            elements,
            kept: Kept::default(),
            walker: Walker::Nobody,
            met: None,
            is_first: false,
            waiting: 0,
            counts: Counts::default(),
        }
    }

    /// What packets have in common.
    pub fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    /// What happened so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many wait.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether nobody is expected anywhere, and so nobody waits.
    #[inline]
    fn is_idle(&self) -> bool {
        self.ordered.iter().all(|(_, gates)| gates.is_idle())
    }

    /// Whether nobody is inside, or waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0 && self.kept.is_empty() && self.on_cores.iter().all(OnCores::is_empty)
    }

    /// When the oldest of those arrived that wait.
    pub fn oldest(&self) -> Option<Instant> {
        let gates = self.ordered.iter();
        let waiting = gates.flat_map(|(_, gates)| gates.each_waiting());
        waiting.map(|waiting| waiting.frame.timestamp()).min()
    }

    /// Whether a packet that comes to an element may have to wait.
    #[inline(always)]
    pub fn concern(&self, element: u8) -> bool {
        self.remembers & 1 << element != 0 && !self.is_idle()
    }

    /// The walk of a packet begins that has just arrived.
    #[inline]
    pub fn arrives(&mut self, frame: &Frame, layout: &Layout, steering: &Steering) {
        let claim = self.meeting.claim_in_advance(frame, layout, steering);
        self.walker = Walker::Arrived(claim);
        (self.met, self.is_first) = (None, false);
    }

    /// The same of a plain packet that had these ends when it arrived, unless its walk has begun.
    #[inline]
    pub fn arrives_with(&mut self, ends: PlainEnds, steering: &Steering) {
        if !self.is_walking() {
            let claim = self.meeting.claim_of_ends(ends, steering);
            self.walker = Walker::Arrived(claim);
            (self.met, self.is_first) = (None, false);
        }
    }

    /// Whether somebody's walk has begun and is not over.
    #[inline(always)]
    pub const fn is_walking(&self) -> bool {
        !matches!(self.walker, Walker::Nobody)
    }

    /// Whether the packet of the walk, which has just arrived and comes to an element that may
    /// [concern](Self::concern) it, need not wait there.
    pub fn passes_at_once(
        &mut self,
        place: Place,
        frame: &Frame,
        layout: &Layout,
        steering: &Steering,
    ) -> bool {
        let Some(number) = self.number(place) else {
            return true;
        };
        let claim = self.claim(frame, layout, steering);
        let admits = self.ordered[number].1.admits(claim);
        if admits {
            self.goes_on();
            self.met = Some((number, Gates::<Waiting>::pass_straight(claim)));
        }
        admits
    }

    fn number(&self, place: Place) -> Option<usize> {
        let is_it = |(element, _): &(u8, _)| *element == place.element;
        self.ordered.iter().position(is_it)
    }

    /// The packet of the walk comes to an element that may [concern](Self::concern) it.
    pub fn reaches(
        &mut self,
        place: Place,
        frame: Frame,
        layout: &Layout,
        steering: &Steering,
    ) -> Reached {
        let Some(number) = self.number(place) else {
            return Reached::Meets(frame);
        };
        self.goes_on();
        let pass = match &mut self.walker {
            Walker::Expected(passes) => passes[number].take(),
            _ => None,
        };
        match pass {
            Some(pass) => self.comes_as_expected(number, pass, place, frame),
            None => {
                let claim = self.claim(&frame, layout, steering);
                self.comes_straight(number, claim, place, frame)
            }
        }
    }

    /// What the packet of the walk claims, as it was told when it arrived, or is told now.
    #[inline]
    fn claim(&self, frame: &Frame, layout: &Layout, steering: &Steering) -> Claim {
        match self.walker {
            Walker::Arrived(Some(claim)) => claim,
            _ => self.meeting.claim(frame, layout, steering),
        }
    }

    #[inline]
    fn comes_straight(
        &mut self,
        number: usize,
        claim: Claim,
        place: Place,
        frame: Frame,
    ) -> Reached {
        if self.ordered[number].1.admits(claim) {
            self.met = Some((number, Gates::<Waiting>::pass_straight(claim)));
            return Reached::Meets(frame);
        }
        if !self.is_expected(place, claim) {
            return Reached::Refused(frame);
        }
        match self.stays(place, frame) {
            Ok(waiting) => self.ordered[number].1.wait(claim, waiting),
            Err(frame) => return Reached::Refused(frame),
        }
        Reached::Waits
    }

    fn comes_as_expected(
        &mut self,
        number: usize,
        pass: Pass,
        place: Place,
        frame: Frame,
    ) -> Reached {
        let gates = &mut self.ordered[number].1;
        if gates.is_turn(pass) {
            self.met = Some((number, gates.pass(pass)));
            return Reached::Meets(frame);
        }
        match self.stays(place, frame) {
            Ok(waiting) => self.ordered[number].1.wait_as_expected(pass, waiting),
            Err(frame) => {
                self.ordered[number].1.forget(pass);
                return Reached::Refused(frame);
            }
        }
        Reached::Waits
    }

    /// The packet of the walk has met what it was about to.
    #[inline]
    fn goes_on(&mut self) {
        if let Some((number, one)) = self.met.take() {
            self.ordered[number].1.has_met(one);
        }
    }

    /// The packet of the walk is about to go to the cores for an element. Where that gives out what
    /// all connections share it may have to wait until it is the first of all who have yet to
    /// come there.
    pub fn leaves(
        &mut self,
        place: Place,
        frame: Frame,
        layout: &Layout,
        steering: &Steering,
    ) -> Reached {
        let Some((number, one)) = self.met.filter(|_| self.shares == Some(place.element)) else {
            return Reached::Meets(frame);
        };
        if self.is_first || self.ordered[number].1.is_first(one) {
            return Reached::Meets(frame);
        }
        if !self.is_expected_again(&frame, place, layout, steering) {
            return Reached::Refused(frame);
        }
        match self.stays(place, frame) {
            Ok(waiting) => self.ordered[number].1.bar(one, waiting),
            Err(frame) => return Reached::Refused(frame),
        }
        self.met = None;
        Reached::Waits
    }

    /// The packet of the walk is about to wait. It comes back if there is no room.
    #[cold]
    fn stays(&mut self, place: Place, mut frame: Frame) -> Result<Waiting, Frame> {
        if self.waiting >= MOST_WAITING {
            self.counts.overflowed += 1;
            return Err(frame);
        }
        frame.set_direction(place.direction);
        self.counts.waited += 1;
        self.waiting += 1;
        Ok(Waiting {
            frame,
            place,
            passes: self.take_passes(),
        })
    }

    /// From now on the packet of the walk, with its claim, is expected wherever it has yet to come
    /// behind a place. Returns whether there is room.
    fn is_expected(&mut self, place: Place, claim: Claim) -> bool {
        if !matches!(self.walker, Walker::Arrived(_)) || !self.has_more_ahead(place) {
            return true;
        }
        let mut gates = self.ordered.iter();
        if gates.any(|(_, gates)| gates.coming() >= MOST_EXPECTED) {
            self.counts.overflowed += 1;
            return false;
        }
        let mut passes = Passes::default();
        for ((element, gates), pass) in self.ordered.iter_mut().zip(&mut passes) {
            if place.is_before(*element) {
                *pass = Some(gates.expect(claim));
            }
        }
        self.walker = Walker::Expected(passes);
        true
    }

    fn has_more_ahead(&self, place: Place) -> bool {
        let mut ordered = self.ordered.iter();
        ordered.any(|(element, _)| place.is_before(*element))
    }

    /// Takes the packet of the walk out of it, with where it is expected.
    fn take_passes(&mut self) -> Passes {
        match std::mem::take(&mut self.walker) {
            Walker::Expected(passes) => passes,
            Walker::Nobody | Walker::Arrived(_) => Passes::default(),
        }
    }

    /// The next packet that has waited for its turn; its walk goes on.
    #[inline]
    pub fn take_next(&mut self) -> Option<(Frame, Place)> {
        if self.waiting == 0 {
            return None;
        }
        let mut gates = self.ordered.iter_mut().enumerate();
        let next = gates.find_map(|(number, (_, gates))| Some((number, gates.next()?)));
        let (number, (waiting, one)) = next?;
        self.waiting -= 1;
        self.walker = Walker::Expected(waiting.passes);
        self.met = one.map(|one| (number, one));
        self.is_first = one.is_none();
        Some((waiting.frame, waiting.place))
    }

    /// The walk is over: the packet has left, or waits, or is on its way to the cores.
    #[inline]
    pub fn walked(&mut self) {
        self.goes_on();
        self.is_first = false;
        if let Walker::Expected(passes) = &self.walker {
            forget(&mut self.ordered, passes);
        }
        self.walker = Walker::Nobody;
    }

    /// The packet of the walk goes to a worker for an element. Returns whether there is room.
    pub fn to_cores(
        &mut self,
        frame: &mut Frame,
        worker: usize,
        place: Place,
        layout: &Layout,
        steering: &Steering,
    ) -> bool {
        let on_cores = worker * self.elements + usize::from(place.element);
        self.ends_walk(frame, place, layout, steering, |turns, passes| {
            turns.on_cores[on_cores].add(Some(passes))
        })
    }

    /// The packet of the walk is kept on the fast path at an element. Returns whether there is
    /// room.
    pub fn keep(
        &mut self,
        frame: &mut Frame,
        place: Place,
        layout: &Layout,
        steering: &Steering,
    ) -> bool {
        self.ends_walk(frame, place, layout, steering, |turns, passes| {
            turns.kept.add(passes)
        })
    }

    /// The packet of the walk goes where it is found again by the number that it gets there, if
    /// it is expected anywhere. Returns whether there is room.
    #[inline(always)]
    fn ends_walk(
        &mut self,
        frame: &mut Frame,
        place: Place,
        layout: &Layout,
        steering: &Steering,
        number: impl FnOnce(&mut Self, Passes) -> u16,
    ) -> bool {
        self.goes_on();
        let has_room = self.is_expected_again(frame, place, layout, steering);
        if let (true, Walker::Expected(passes)) = (has_room, self.walker) {
            self.walker = Walker::Nobody;
            frame.set_turn(number(self, passes));
        }
        has_room
    }

    /// The same as [`Self::is_expected`] of a packet that is about to leave the walk.
    fn is_expected_again(
        &mut self,
        frame: &Frame,
        place: Place,
        layout: &Layout,
        steering: &Steering,
    ) -> bool {
        if !matches!(self.walker, Walker::Arrived(_)) || !self.has_more_ahead(place) {
            return true;
        }
        let claim = self.claim(frame, layout, steering);
        self.is_expected(place, claim)
    }

    /// A frame comes back from a worker, from behind an element: if it is a packet its walk goes
    /// on. All that went there before it and have not come back never will.
    pub fn from_cores(&mut self, frame: &mut Frame, worker: usize, element: u8) {
        let turn = frame.trip().turn;
        frame.set_turn(0);
        let place = worker * self.elements + usize::from(element);
        let Some(on_cores) = self.on_cores.get_mut(place) else {
            return;
        };
        let ordered = &mut self.ordered;
        let passes = on_cores.take(turn, |gone| forget(ordered, &gone));
        self.walker = passes.map_or(Walker::Nobody, Walker::Expected);
    }

    /// A packet that was kept goes on.
    pub fn go_on(&mut self, frame: &mut Frame) {
        let passes = self.kept.take(frame.trip().turn);
        frame.set_turn(0);
        self.walker = passes.map_or(Walker::Nobody, Walker::Expected);
    }

    /// A probe that is due, if there is one: where packets are on the cores while somebody waits,
    /// or many of them are, or in any case at the end.
    pub fn probe(&mut self, now: Instant, is_at_end: bool) -> Option<Probe> {
        let somebody_waits = is_at_end || self.waiting > 0;
        let is_due = |one: &OnCores<Passes>| {
            (somebody_waits && !one.is_empty() || one.len() >= PROBE_EVERY)
                && one.probed().is_none_or(|at| now >= at + PROBE_PATIENCE)
        };
        let place = self.on_cores.iter().position(is_due)?;
        self.counts.probes += 1;
        let (worker, element) = (place / self.elements, (place % self.elements) as u8);
        let turn = self.on_cores[place].add_probe(now);
        Some(Probe {
            worker,
            element,
            turn,
        })
    }
}

/// A packet is expected nowhere any more.
fn forget(ordered: &mut [(u8, Gates<Waiting>)], passes: &Passes) {
    for ((_, gates), pass) in ordered.iter_mut().zip(passes) {
        pass.iter().for_each(|pass| gates.forget(*pass));
    }
}
