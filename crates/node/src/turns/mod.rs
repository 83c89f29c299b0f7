//! Packets of one connection that cross in opposite directions take turns.
//!
//! In a chain of several elements a packet that needs the cores at one of them can be overtaken.
//! Not by packets of its own flow and direction: each element sees to that. But one from the other
//! end of the connection passes the elements in reverse, and would meet those behind before a
//! packet that arrived earlier: a firewall there would see an answer before its question.
//!
//! This matters at elements that remember connections ([`Turns::orders`]); in front of each stand
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
use gates::{Gates, Pass};
use inside::{Kept, OnCores};
use std::time::Duration;
use twinpath_core::wire::layout::Layout;
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
struct InHand {
    /// What it claims, if that is not to be told from what it looks like later.
    claim: Option<Claim>,
    passes: Passes,
}

/// A packet in front of an element.
pub struct Waiting {
    /// The packet.
    pub frame: Frame,
    /// The element.
    pub place: Place,
    in_hand: InHand,
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
    /// By worker and element.
    on_cores: Vec<OnCores<Passes>>,
    elements: usize,
    kept: Kept<Passes>,
    in_hand: Option<InHand>,
    counts: Counts,
}

impl Turns {
    /// Nobody is inside a chain of so many elements, with so many workers behind it. No more than
    /// [`MOST_ORDERED`] elements are ordered.
    pub fn new(meeting: Meeting, ordered: &[u8], elements: usize, workers: usize) -> Self {
        let ordered = ordered.iter().take(MOST_ORDERED);
        Self {
            meeting,
            ordered: ordered
                .map(|&element| (element, Gates::default()))
                .collect(),
            on_cores: vec![OnCores::default(); elements * workers],
            elements,
            kept: Kept::default(),
            in_hand: None,
            counts: Counts::default(),
        }
    }

    /// What packets have in common.
    pub fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    /// What the packet of the walk claims, as it was told when it arrived, or is told now.
    #[inline]
    pub fn claim(&self, frame: &Frame, layout: &Layout, steering: &Steering) -> Claim {
        let claimed = self.in_hand.as_ref().and_then(|in_hand| in_hand.claim);
        claimed.unwrap_or_else(|| self.meeting.claim(frame, layout, steering))
    }

    /// Whether nobody is expected anywhere, and so nobody waits.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.ordered.iter().all(|(_, gates)| gates.is_idle())
    }

    /// What happened so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether packets that cross meet an element in the order of their arrival.
    #[inline]
    pub fn orders(&self, element: u8) -> bool {
        self.ordered.iter().any(|(ordered, _)| *ordered == element)
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.ordered.iter().map(|(_, gates)| gates.waiting()).sum()
    }

    /// Whether nobody is inside, or waits.
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0 && self.kept.is_empty() && self.on_cores.iter().all(OnCores::is_empty)
    }

    /// When the oldest of those arrived that wait.
    pub fn oldest(&self) -> Option<Instant> {
        let waiting = self
            .ordered
            .iter()
            .flat_map(|(_, gates)| gates.each_waiting());
        waiting.map(|waiting| waiting.frame.timestamp()).min()
    }

    /// The walk of a packet begins that has just arrived; what it claims must be told now if
    /// functions change what it looks like.
    #[inline]
    pub fn arrives(&mut self, claim: Option<Claim>) {
        let passes = Passes::default();
        self.in_hand = Some(InHand { claim, passes });
    }

    /// The packet of the walk comes to an element that remembers connections, with its claim.
    #[inline]
    pub fn reaches(&mut self, place: Place, claim: Claim, frame: Frame) -> Reached {
        let Some(number) = self.number(place.element) else {
            return Reached::Meets(frame);
        };
        let gates = &mut self.ordered[number].1;
        let pass = self
            .in_hand
            .as_mut()
            .and_then(|one| one.passes[number].take());
        match pass {
            Some(pass) if gates.is_turn(pass) => gates.forget(pass),
            Some(_) => return self.wait(number, pass, place, claim, frame),
            None if gates.admits(claim) => {}
            None => return self.wait(number, pass, place, claim, frame),
        }
        Reached::Meets(frame)
    }

    #[inline]
    fn number(&self, element: u8) -> Option<usize> {
        let is_it = |(ordered, _): &(u8, _)| *ordered == element;
        self.ordered.iter().position(is_it)
    }

    #[cold]
    fn wait(
        &mut self,
        number: usize,
        pass: Option<Pass>,
        place: Place,
        claim: Claim,
        frame: Frame,
    ) -> Reached {
        let is_full = self.waiting() >= MOST_WAITING;
        if is_full || !self.expect_ahead(place, claim) {
            self.counts.overflowed += 1;
            let gates = &mut self.ordered[number].1;
            pass.into_iter().for_each(|pass| gates.forget(pass));
            return Reached::Refused(frame);
        }
        self.counts.waited += 1;
        let waiting = Waiting {
            frame,
            place,
            in_hand: self.in_hand.take().unwrap_or_default(),
        };
        let gates = &mut self.ordered[number].1;
        match pass {
            Some(pass) => gates.wait_as_expected(pass, waiting),
            None => gates.wait(claim, waiting),
        }
        Reached::Waits
    }

    /// From now on the packet of the walk is expected wherever it has yet to come behind this
    /// place. Returns whether there is room.
    fn expect_ahead(&mut self, place: Place, claim: Claim) -> bool {
        let Some(in_hand) = &mut self.in_hand else {
            return true;
        };
        for ((element, gates), pass) in self.ordered.iter_mut().zip(&mut in_hand.passes) {
            if place.is_before(*element) && pass.is_none() {
                if gates.coming() >= MOST_EXPECTED {
                    return false;
                }
                *pass = Some(gates.expect(claim));
            }
        }
        true
    }

    /// The next packet that has waited for its turn; its walk goes on.
    #[inline]
    pub fn next(&mut self) -> Option<(Frame, Place)> {
        let Waiting {
            frame,
            place,
            in_hand,
        } = self
            .ordered
            .iter_mut()
            .find_map(|(_, gates)| gates.next())?;
        self.in_hand = Some(in_hand);
        Some((frame, place))
    }

    /// The walk is over: the packet has left, or waits, or is on its way to the cores.
    #[inline]
    pub fn walked(&mut self) {
        if let Some(in_hand) = self.in_hand.take() {
            self.forget(&in_hand.passes);
        }
    }

    fn forget(&mut self, passes: &Passes) {
        for ((_, gates), pass) in self.ordered.iter_mut().zip(passes) {
            pass.iter().for_each(|pass| gates.forget(*pass));
        }
    }

    /// Whether the packet of the walk, about to go to the cores or to be kept, meets elements
    /// behind this place that remember connections: it has to be expected there.
    pub fn has_more_ahead(&self, place: Place) -> bool {
        self.in_hand.is_some()
            && self
                .ordered
                .iter()
                .any(|(ordered, _)| place.is_before(*ordered))
    }

    /// The packet of the walk, with its claim, goes to a worker for an element. Returns whether
    /// there is room.
    pub fn to_cores(
        &mut self,
        frame: &mut Frame,
        worker: usize,
        place: Place,
        claim: Claim,
    ) -> bool {
        let has_room = self.expect_ahead(place, claim);
        if has_room && let Some(in_hand) = self.in_hand.take() {
            let on_cores = &mut self.on_cores[worker * self.elements + usize::from(place.element)];
            frame.set_turn(on_cores.add(Some(in_hand.passes)));
        }
        self.counts.overflowed += u64::from(!has_room);
        has_room
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
        let passes = on_cores.take(turn, |gone| {
            for ((_, gates), pass) in ordered.iter_mut().zip(&gone) {
                pass.iter().for_each(|pass| gates.forget(*pass));
            }
        });
        self.in_hand = passes.map(InHand::expected);
    }

    /// The packet of the walk, with its claim, is kept on the fast path at an element. Returns
    /// whether there is room.
    pub fn keep(&mut self, frame: &mut Frame, place: Place, claim: Claim) -> bool {
        let has_room = self.expect_ahead(place, claim);
        if has_room && let Some(in_hand) = self.in_hand.take() {
            frame.set_turn(self.kept.add(in_hand.passes));
        }
        self.counts.overflowed += u64::from(!has_room);
        has_room
    }

    /// A packet that was kept goes on.
    pub fn go_on(&mut self, frame: &mut Frame) {
        let passes = self.kept.take(frame.trip().turn);
        frame.set_turn(0);
        self.in_hand = passes.map(InHand::expected);
    }

    /// A probe that is due, if there is one: where packets are on the cores while somebody waits,
    /// or many of them are, or in any case at the end.
    pub fn probe(&mut self, now: Instant, is_at_end: bool) -> Option<Probe> {
        let somebody_waits = is_at_end || self.waiting() > 0;
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

impl InHand {
    /// A packet that is expected needs no claim any more.
    fn expected(passes: Passes) -> Self {
        let claim = None;
        Self { claim, passes }
    }
}
