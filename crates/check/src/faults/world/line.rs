//! One direction of one worker's queue: a link that loses, delays, doubles and reorders frames.
//!
//! The numbers on the frames are production's; the line only carries them. It knows of every
//! frame what it said when it was sent, and whether the receiver must drop it because a frame
//! behind it, or its double, has been received already.

use super::frame::Contents;
use crate::faults::draw::Draw;
use crate::faults::scenario::LineFaults;
use twinpath_core::{Frame, Pools};
use twinpath_link::{Sender, number};

/// A frame under way.
pub struct Transit {
    pub ticket: u64,
    /// The line's own number, and the sender's: what is forged on the way has none of those.
    pub number: u32,
    sent_as: u32,
    pub contents: Contents,
    pub frame: Frame,
    /// A frame behind it, or its double, was received: this one must be dropped.
    pub is_overtaken: bool,
}

/// What became of a frame that was sent.
pub enum Sending {
    /// It arrives then; `double` if it does so twice.
    Carried {
        number: u32,
        at: (u64, u64),
        double: Option<(u64, u64)>,
    },
    /// It is lost.
    Lost { number: u32, frame: Frame },
}

/// The line.
pub struct Line {
    sender: Sender,
    under_way: Vec<Transit>,
    /// The number that the sender gave the last frame.
    last_sent: u32,
    faults: LineFaults,
    draw: Draw,
    last_due: u64,
    outage_left: u64,
    next_ticket: u64,
    /// The highest number received so far.
    pub newest: u32,
    /// Numbers are given when frames are received, so that nobody can tell what overtook what.
    pub hides_order: bool,
}

impl Line {
    /// A line on which this goes wrong.
    pub fn new(faults: LineFaults, draw: Draw) -> Self {
        Self {
            sender: Sender::default(),
            under_way: Vec::new(),
            last_sent: 0,
            faults,
            draw,
            last_due: 0,
            outage_left: 0,
            next_ticket: 0,
            newest: 0,
            hides_order: false,
        }
    }

    /// The number that the sender gave the last frame.
    pub fn last_sent(&self) -> u32 {
        self.last_sent
    }

    /// Frames up to this one, by the sender's numbers, have been received or never will be.
    pub fn settled(&self) -> u32 {
        let under_way = self
            .under_way
            .iter()
            .filter(|transit| !transit.is_overtaken);
        under_way
            .map(|transit| transit.sent_as - 1)
            .min()
            .unwrap_or(self.last_sent)
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// From now on nothing goes wrong any more.
    pub fn calm_down(&mut self) {
        self.faults = LineFaults {
            delay_ns: self.faults.delay_ns,
            ..LineFaults::default()
        };
        self.outage_left = 0;
    }

    /// Sends a frame at `now` that bears the sender's number, if it has one. Buffers for doubles
    /// come from `spare`.
    pub fn send(
        &mut self,
        mut frame: Frame,
        (contents, sent_as): (Contents, Option<u32>),
        now: u64,
        spare: &mut Pools,
    ) -> Sending {
        let sequence = self.sender.number();
        self.last_sent = self.last_sent.max(sent_as.unwrap_or(sequence));
        number(&mut frame, sequence);
        let double = self
            .draw
            .permille(self.faults.duplicate_permille)
            .then(|| copy(&frame, spare))
            .flatten();
        if self.loses() {
            if let Some(double) = double {
                // Of two copies one comes through.
                drop(std::mem::replace(&mut frame, double));
                let at = self.carry(frame, sequence, contents, now, true);
                return Sending::Carried {
                    number: sequence,
                    at,
                    double: None,
                };
            }
            return Sending::Lost {
                number: sequence,
                frame,
            };
        }
        let double_contents = double.is_some().then(|| contents.clone());
        let at = self.carry(frame, sequence, contents, now, false);
        let double = double
            .zip(double_contents)
            .map(|(frame, contents)| self.carry(frame, sequence, contents, now, true));
        Sending::Carried {
            number: sequence,
            at,
            double,
        }
    }

    fn loses(&mut self) -> bool {
        if self.outage_left > 0 {
            self.outage_left -= 1;
            return true;
        }
        if self.draw.permille(self.faults.outage_permille) {
            self.outage_left = self.draw.below(self.faults.outage_frames);
        }
        self.draw.permille(self.faults.loss_permille)
    }

    /// Puts a frame under way; returns when it arrives, and its ticket.
    fn carry(
        &mut self,
        frame: Frame,
        number: u32,
        contents: Contents,
        now: u64,
        strays: bool,
    ) -> (u64, u64) {
        let due = self.due(now, strays);
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.under_way.push(Transit {
            ticket,
            number,
            sent_as: self.last_sent,
            contents,
            frame,
            is_overtaken: false,
        });
        (due, ticket)
    }

    fn due(&mut self, now: u64, strays: bool) -> u64 {
        let faults = self.faults;
        let spike = match self.draw.permille(faults.spike_permille) {
            true => self.draw.below(faults.spike_ns),
            false => 0,
        };
        let due = now + faults.delay_ns + self.draw.below(faults.jitter_ns + 1) + spike;
        if strays || self.draw.permille(faults.overtaken_permille) {
            return due.max(self.last_due) + self.draw.below(4 * faults.delay_ns + 1);
        }
        self.last_due = self.last_due.max(due);
        self.last_due
    }

    /// Takes a frame off the line, numbering it now if the line hides its order. Frames that it
    /// overtook are marked, and given to `overtaken`.
    pub fn receive(
        &mut self,
        ticket: u64,
        mut overtaken: impl FnMut(&Contents),
    ) -> Option<Transit> {
        let place = self
            .under_way
            .iter()
            .position(|transit| transit.ticket == ticket)?;
        let mut transit = self.under_way.remove(place);
        if self.hides_order {
            transit.number = self.newest + 1;
            number(&mut transit.frame, transit.number);
            self.newest = transit.number;
            return Some(transit);
        }
        if !transit.is_overtaken {
            self.newest = transit.number;
            let behind =
                |other: &&mut Transit| other.number <= transit.number && !other.is_overtaken;
            for other in self.under_way.iter_mut().filter(behind) {
                other.is_overtaken = true;
                overtaken(&other.contents);
            }
        }
        Some(transit)
    }

    /// Everything under way is lost.
    pub fn lose_all(&mut self) -> Vec<Transit> {
        std::mem::take(&mut self.under_way)
    }
}

/// A second copy of a frame.
pub fn copy(frame: &Frame, spare: &mut Pools) -> Option<Frame> {
    let mut copy = spare.take_filled(frame.bytes())?;
    copy.set_ordinal(frame.ordinal());
    copy.set_timestamp(frame.timestamp());
    copy.set_received_ns(frame.received_ns());
    Some(copy)
}
