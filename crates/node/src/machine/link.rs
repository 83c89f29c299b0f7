//! The fast path's end of the link to one worker: numbers, room, and what the worker has not
//! finished with.

use crate::worker::{Moment, Progress};
use std::collections::VecDeque;
use twinpath_core::{Frame, Instant};
use twinpath_link::{Sender, asked_with, carries_packet, number};

/// Frames in front of a worker that has enough to do. With their buffers they fit into a core's own
/// cache, and take a worker longer than it takes to wake one.
const ENOUGH: usize = 256;

/// The link to one worker.
///
/// There is room for as many frames as the ring to the worker holds, so a driver never finds the
/// ring full: what the link has no room for is dropped and counted here, or waits here if nothing
/// may be lost.
#[derive(Debug)]
pub struct Link {
    numbers: Sender,
    /// Frames that the worker has not finished with.
    in_flight: VecDeque<InFlight>,
    /// Frames that wait for room, in a run that must not lose any.
    backlog: VecDeque<Frame>,
    room: usize,
    progress: Progress,
}

#[derive(Copy, Clone, Debug)]
struct InFlight {
    sequence: u32,
    /// Of the packet on board; none for a message alone.
    ordinal: Option<u64>,
    /// Under which ticket it asks a DPU's policies, if it does.
    ticket: Option<u32>,
}

impl Link {
    /// A link with room for so many frames.
    pub fn new(room: usize) -> Self {
        Self {
            numbers: Sender::default(),
            in_flight: VecDeque::new(),
            backlog: VecDeque::new(),
            room: room.max(1),
            progress: Progress::default(),
        }
    }

    /// Room for so many frames from now on.
    pub fn set_room(&mut self, room: usize) {
        self.room = room.max(1);
    }

    /// Frames that can be sent at once.
    #[inline]
    pub fn room(&self) -> usize {
        self.room.saturating_sub(self.in_flight.len())
    }

    /// Whether nothing is under way to the worker or waits there.
    pub fn is_quiet(&self) -> bool {
        self.in_flight.is_empty()
            && self.backlog.is_empty()
            && self.progress.waiting_since == u64::MAX
    }

    /// Whether the worker has not finished with all frames.
    pub fn has_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether so many frames are under way that the worker has enough to do, or there is room for no
    /// more.
    pub fn is_busy(&self) -> bool {
        self.in_flight.len() >= ENOUGH.min(self.room)
    }

    /// Frames that wait for room.
    pub fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// The packets among them.
    pub fn packets_waiting(&self) -> usize {
        let packets = self.backlog.iter().filter(|frame| carries_packet(frame));
        packets.count()
    }

    /// The oldest packet that waits at the worker for rules to go.
    pub fn waiting_since(&self) -> u64 {
        self.progress.waiting_since
    }

    /// The earliest time of packets that wait there; [`Instant::NEVER`] if none does.
    pub fn oldest_waiting(&self) -> Instant {
        self.progress.oldest_waiting
    }

    /// The next deadline of a function there.
    pub fn next_deadline(&self) -> Moment {
        self.progress.next_deadline
    }

    /// Up to which deadline the worker has come.
    pub fn passed(&self) -> Moment {
        self.progress.passed
    }

    /// Numbers a frame that is sent now; there must be [room](Self::room).
    pub fn send(&mut self, mut frame: Frame) -> Frame {
        let sequence = self.numbers.number();
        number(&mut frame, sequence);
        let ordinal = carries_packet(&frame).then(|| frame.ordinal());
        self.in_flight.push_back(InFlight {
            sequence,
            ordinal,
            ticket: asked_with(&frame),
        });
        frame
    }

    /// Keeps a frame until there is room.
    pub fn wait(&mut self, frame: Frame) {
        self.backlog.push_back(frame);
    }

    /// The next frame that waited, if there is room for it now.
    pub fn next_waiting(&mut self) -> Option<Frame> {
        match self.room() {
            0 => None,
            _ => self.backlog.pop_front(),
        }
    }

    /// Whether the worker is further than it was.
    pub fn is_news(&self, progress: &Progress) -> bool {
        self.progress != *progress
    }

    /// The worker has come so far. Calls `finished` with each packet that it has finished with, and
    /// the ticket under which that asked.
    pub fn progress(&mut self, progress: Progress, mut finished: impl FnMut(u64, Option<u32>)) {
        self.progress = progress;
        while let Some(first) = self.in_flight.front()
            && progress.finished.wrapping_sub(first.sequence) as i32 >= 0
        {
            let InFlight {
                ordinal, ticket, ..
            } = *first;
            if let Some(ordinal) = ordinal {
                finished(ordinal, ticket);
            }
            self.in_flight.pop_front();
        }
    }
}
