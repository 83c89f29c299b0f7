//! What a network function is whose decisions can be cached.

use crate::followers::{Follower, NO_STEP};
use crate::progress::TcpProgress;
use crate::recorded::Recorded;
use std::any::Any;
use twinpath_core::wire::Address;
use twinpath_core::{DropReason, Frame, Instant, Named, Packet, Pools};

/// What a function made of a packet, or all functions of an element; `W` says what it waits for: of a
/// function an entry, by its number.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Verdict<W = u32> {
    /// On to the next function.
    Forward,
    /// Dropped, for a reason that is counted.
    Drop(DropReason),
    /// The function has taken it, or answered it: it goes nowhere.
    Consumed,
    /// One of the function's entries must change or end before this packet can be decided, but
    /// cached rules depend on it ([`Recorded::is_free`] says no). Nothing may have changed yet,
    /// neither packet nor function: it will be called again with the same packet, first when the
    /// fast path has reported how the rules were used (the entry may turn out to be alive, or
    /// [what was told](Recorded::is_told) may be enough to decide), then, if it still answers so, when
    /// they are gone.
    Wait(W),
}

/// How often an entry was used by packets that the function never saw.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Packets since the last report.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// When the last of them arrived.
    pub last: Instant,
    /// What the last of them said, if it was a TCP segment and the entry
    /// [hears of it](Recorded::depends_on_sender).
    pub progress: Option<TcpProgress>,
}

/// Where functions put packets that they make.
pub struct Answers<'a> {
    replies: &'a mut Vec<Frame>,
    followers: Vec<Follower>,
    pools: &'a mut Pools,
}

impl<'a> Answers<'a> {
    /// Answers into the caller's buffers.
    pub fn new(replies: &'a mut Vec<Frame>, pools: &'a mut Pools) -> Self {
        Self {
            replies,
            followers: Vec::new(),
            pools,
        }
    }

    /// How many frames were made so far.
    pub(crate) fn count(&self) -> usize {
        self.replies.len()
    }

    /// Takes out the frames made since there were so many.
    pub(crate) fn take_from(&mut self, first: usize) -> Vec<Frame> {
        self.replies.split_off(first.min(self.replies.len()))
    }

    /// A frame leaves the chain, or its buffer is used again.
    pub(crate) fn put_back(&mut self, frame: Frame, leaves: bool) {
        match leaves {
            true => self.replies.push(frame),
            false => self.pools.give(frame),
        }
    }

    /// Answers to a frame that is an answer itself.
    pub(crate) fn again<'b>(&'b mut self, replies: &'b mut Vec<Frame>) -> Answers<'b> {
        Answers::new(replies, self.pools)
    }

    /// Packets that functions let go behind the one at hand, in order.
    pub fn take_followers(&mut self) -> Vec<Follower> {
        std::mem::take(&mut self.followers)
    }

    /// The same, behind others.
    #[inline]
    pub(crate) fn hand_over_followers(&mut self, behind: &mut Vec<Follower>) {
        if !self.followers.is_empty() {
            behind.append(&mut self.followers);
        }
    }

    /// A function at a step has handled a packet: what it let go goes on behind that.
    pub(crate) fn follow_from(&mut self, step: usize, packet: &Packet, egress: Option<u16>) {
        let own = self.followers.iter_mut().rev();
        for follower in own.take_while(|follower| follower.step == NO_STEP) {
            follower.goes_on(step + 1, packet, egress);
        }
    }

    /// Lets a packet go that the function has kept: it goes on behind the one at hand, and meets the
    /// functions that are still to come. Returns whether there was a buffer.
    pub fn release(&mut self, bytes: &[u8]) -> bool {
        let Some(frame) = self.pools.take_filled(bytes) else {
            return false;
        };
        let step = NO_STEP;
        self.followers.push(Follower { step, frame });
        true
    }

    /// Sends a frame of its own, back through the functions that the packet has passed: as if it
    /// had come from behind this one. Returns whether there was a buffer. Mark the packet that caused it with [`Recorded::quote`] or [`Recorded::uncacheable`], so
    /// that the next one is answered too.
    pub fn reply(&mut self, bytes: &[u8]) -> bool {
        match self.pools.take_filled(bytes) {
            Some(frame) => self.replies.push(frame),
            None => return false,
        }
        true
    }
}

impl Drop for Answers<'_> {
    /// Nobody has taken them.
    fn drop(&mut self) {
        for follower in self.followers.drain(..) {
            self.pools.give(follower.frame);
        }
    }
}

/// A network function whose decisions depend on nothing but header bits and table entries, as
/// far as they are recorded.
///
/// The contract that makes cached rules right:
/// - What decides is looked at through [`Recorded`], or reported to it.
/// - Each table entry that decided is named with [`Recorded::depends_on`], also one whose
///   *absence* decided. An entry changes, ends or comes into being only while it
///   [is free](Recorded::is_free): otherwise answer [`Verdict::Wait`].
/// - Two packets that agree in the recorded bits and meet the same entries are treated alike,
///   except for statistics ([`Self::credit`]) and idle times.
///
/// A function is `Any`, so that a [`Reconfiguration`](crate::Reconfiguration) of its configuration can get at it.
pub trait RuleFunction: Send + Any {
    /// What kind of function it is; reports show the name that it has in its chain.
    fn name(&self) -> &'static str;

    /// The run begins at `now`, before the first packet.
    fn start(&mut self, _now: Instant) {}

    /// Takes the memory of its tables now, before packets could wait for it.
    fn take_memory(&mut self) {}

    /// Handles one packet that arrived at `now`.
    fn handle(
        &mut self,
        packet: &mut Recorded<'_>,
        now: Instant,
        answers: &mut Answers<'_>,
    ) -> Verdict;

    /// Packets that cached rules handled used this entry: count them, and refresh its idle time
    /// with the later of `hits.last` and what is known.
    fn credit(&mut self, _entry: u32, _hits: &Hits) {}

    /// Calls `each` with entries whose idle time has passed as far as is known, at most a few at
    /// a time; those that are free are then [forgotten](Self::forget), of others the use is asked
    /// for.
    fn each_expired(&mut self, _now: Instant, _each: &mut dyn FnMut(u32)) {}

    /// Ends an entry whose idle time has passed and that is free.
    fn forget(&mut self, _entry: u32, _now: Instant) {}

    /// What an entry of its table is, if the function says so.
    fn entry(&self, _entry: u32) -> Option<EntryText> {
        None
    }

    /// The same of an entry that has decided about packets to a destination, as they leave: what leads
    /// to it may differ from one to the other.
    fn entry_towards(&self, entry: u32, _destination: Address) -> Option<EntryText> {
        self.entry(entry)
    }

    /// Calls `each` with every counter's name and value.
    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}

/// An entry of a table, for people to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryText {
    /// The number of the rule that it is, counted from 1, as an operator changes it; absent if it is
    /// something else.
    pub rule: Option<usize>,
    /// The rule as it is written on one line, or what else it is.
    pub text: String,
}

impl EntryText {
    /// Something that is no rule.
    pub fn other(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { rule: None, text }
    }
}

impl std::fmt::Display for EntryText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rule {
            Some(number) => write!(f, "rule {number}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// One that needs no other name than its kind's.
impl From<Box<dyn RuleFunction>> for Named<dyn RuleFunction> {
    fn from(function: Box<dyn RuleFunction>) -> Self {
        let name = function.name().into();
        Self { name, function }
    }
}
