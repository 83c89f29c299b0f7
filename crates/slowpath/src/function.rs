//! What a network function is.

use crate::common::Common;
use std::any::Any;
use twinpath_core::program::FastProgram;
use twinpath_core::steering::Alias;
use twinpath_core::{Direction, DropReason, FlowKey, Instant, Named, Packet, Pools, Side};

/// A network function's view of one flow while it handles a packet or a timer of it.
pub struct Flow<'a> {
    /// The flow's name.
    pub key: &'a FlowKey,
    /// The end that opened the flow, as the first packet told.
    pub initiator: &'a mut Side,
    /// The function's state words: what it shares with its fast program. All zero means that
    /// nothing is known of the flow.
    pub words: &'a mut [u32],
    /// A handle to private state in the function's own [`Slab`](crate::Slab); 0 for none. Private
    /// state never leaves the workers.
    pub handle: &'a mut u32,
    /// The packet clock: the time of the packet that is handled, or the deadline that has come.
    pub now: Instant,
}

impl Flow<'_> {
    /// Whether nothing is known of the flow.
    pub fn is_new(&self) -> bool {
        *self.handle == 0 && self.words.iter().all(|&word| word == 0)
    }
}

/// Where a network function puts packets. A packet that is put nowhere and not kept in private
/// state is lost, so do one or the other with each.
pub struct Outbox<'a> {
    pub(crate) onward: &'a mut Vec<Packet>,
    pub(crate) replies: &'a mut Vec<Packet>,
    pub(crate) drops: &'a mut twinpath_core::DropCounters,
    pub(crate) pools: &'a mut Pools,
    /// Whether it has dropped a packet.
    pub(crate) has_dropped: bool,
    /// Which way a packet went that is to be sent again.
    pub(crate) refused: Option<Direction>,
    /// Where drops are noted, if somebody follows packets.
    pub(crate) notes: Option<&'a mut Vec<DropNote>>,
}

/// A packet that a function of a chain has dropped, for whoever follows packets.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DropNote {
    /// The buffer that it was in.
    pub buffer: usize,
    /// Why.
    pub reason: DropReason,
    /// The function's place in the chain.
    pub place: usize,
    /// The flow.
    pub key: FlowKey,
}

impl<'a> Outbox<'a> {
    /// An outbox over the caller's buffers; for the chain and for tests of functions.
    pub fn new(
        onward: &'a mut Vec<Packet>,
        replies: &'a mut Vec<Packet>,
        drops: &'a mut twinpath_core::DropCounters,
        pools: &'a mut Pools,
    ) -> Self {
        Self {
            onward,
            replies,
            drops,
            pools,
            has_dropped: false,
            refused: None,
            notes: None,
        }
    }

    /// On to the next function of the chain, or out of the last.
    pub fn forward(&mut self, packet: Packet) {
        self.onward.push(packet);
    }

    /// Back to the sender, past all other functions. The function has already swapped the ends.
    pub fn reply(&mut self, packet: Packet) {
        self.replies.push(packet);
    }

    /// Drops a packet, for a reason that is counted. The buffer goes home.
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.drops.count(reason);
        self.has_dropped = true;
        if let Some(notes) = &mut self.notes {
            notes.push(DropNote {
                buffer: packet.frame.buffer(),
                reason,
                place: 0,
                key: FlowKey::default(),
            });
        }
        self.pools.give(packet.frame);
    }

    /// Drops a packet that its sender is to send again: functions in front, which let it pass, are
    /// [told](NetworkFunction::refused_behind). The fast path does not do so.
    pub fn refuse(&mut self, packet: Packet, reason: DropReason) {
        self.refused = Some(packet.direction);
        self.drop(packet, reason);
    }

    /// Buffers for packets that the function makes itself.
    pub fn pools(&mut self) -> &mut Pools {
        self.pools
    }
}

/// When a flow may be forgotten to make room for others, in the order of how much it is worth.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Eviction {
    /// Where too many flows are half-open: nobody has answered yet, or whoever asked has not shown
    /// that it hears the answer. Its packets may be anybody's, so only so many are remembered.
    HalfOpen,
    /// Where there is no room for another: it is over, or what is known of it follows from its next
    /// packet as well.
    WhenFull,
    /// Never: both ends take part.
    Never,
}

/// A network function: flow state words, a fast program over them, and a slow function that does
/// on the slow path exactly what the fast program does, and everything it cannot.
///
/// Rules that make the two paths agree:
/// - **Zero is absence**: all-zero words mean an unknown flow, to program and function alike.
/// - **Time-outs are lazy**: a flow's idle time-out is judged from a last-seen word (in
///   [ticks](Instant::ticks)) when its next packet arrives; the program escalates such a packet,
///   the chain clears [expired](Self::is_expired) words before it calls [`Self::handle`].
/// - **Simple means equal**: wherever the program does not escalate, `handle` must leave the
///   same words and the same packet. A property test holds every function to it.
/// - While [pending](Self::is_pending) the flow stays on the slow path, so private state may matter;
///   otherwise the words alone must determine what happens.
pub trait NetworkFunction: Any + Send {
    /// What kind of function it is; reports show the name that it has in its chain.
    fn name(&self) -> &'static str;

    /// What it does on the fast path; also says how many state words a flow has.
    fn program(&self) -> FastProgram;

    /// The run begins at this packet time: times in the configuration count from here.
    fn start(&mut self, _now: Instant) {}

    /// Takes its part of what it has in common with the same function, by this name, of other
    /// workers: counts that hold for the whole service. It is told so at the latest when its worker
    /// begins, and may be again.
    fn share(&mut self, _name: &str, _common: &Common) {}

    /// Handles one packet of a flow.
    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>);

    /// A function behind this one has [refused](Outbox::refuse) a packet that goes this way: what this
    /// one let pass may have to pass again.
    fn refused_behind(&mut self, _direction: Direction, _flow: &mut Flow<'_>) {}

    /// When the flow with this private state is to be [woken](Self::wake); [`Instant::NEVER`] if it
    /// need not be. It is asked after each call that was about the flow, and what it said before no
    /// longer counts.
    fn deadline(&self, _handle: u32) -> Instant {
        Instant::NEVER
    }

    /// The [deadline](Self::deadline) of a function of the flow has come, perhaps another's. Of the
    /// flow's packets those that are older have been handled, and no other. Afterwards the
    /// function's own deadline must be later.
    fn wake(&mut self, _flow: &mut Flow<'_>, _out: &mut Outbox<'_>) {}

    /// Whether work is pending that only the workers can do, or no packet of the flow is for the fast
    /// path as it stands, so that the state must not be granted (the answer is DECLINE).
    fn is_pending(&self, _words: &[u32], _handle: u32) -> bool {
        false
    }

    /// Whether words that are not zero have become equal to zero by lapse of time.
    fn is_expired(&self, words: &[u32], now: Instant) -> bool;

    /// When a flow with these words may be forgotten to make room; `None` if the function does not
    /// tell.
    fn eviction(&self, _words: &[u32]) -> Option<Eviction> {
        None
    }

    /// What is known of a flow is about to be forgotten: it has expired, or gives its place to another.
    fn ended(&mut self, _key: &FlowKey, _initiator: Side, _words: &[u32], _now: Instant) {}

    /// Releases private state of a flow that has expired, was reset, or gave its place to another.
    fn forget(&mut self, _handle: u32) {}

    /// Lets go of every packet that is kept of a flow, in order: the chain around the function is
    /// about to change, and what it kept belongs to the old one.
    fn release(&mut self, _flow: &mut Flow<'_>, _out: &mut Outbox<'_>) {}

    /// Packets that are kept at this moment.
    fn kept_packets(&self) -> usize {
        0
    }

    /// Takes the configuration of `new`, which has just been built and knows nothing, and goes on
    /// with what is known. It swaps, so that what was replaced is freed with `new`, elsewhere.
    /// False if `new` is of another kind: then it takes over, and begins anew.
    fn reconfigure(&mut self, _new: &mut dyn NetworkFunction) -> bool {
        false
    }

    /// Makes a flow's words and handle suit the configuration that
    /// [`reconfigure`](Self::reconfigure) took last. It is called once for each flow that there
    /// was, with what the old configuration left, and at no particular time: what it does depends
    /// on nothing but its arguments. Then the flow's next packet is handled by the slow path: the fast
    /// path never sees words that no packet has met under the new configuration.
    fn adapt(&mut self, _words: &mut [u32], _handle: &mut u32) {}

    /// Endpoints that stand for others (see [`twinpath_core::steering`]).
    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    /// The UDP port whose flows are key-value keys, if this is a key-value store.
    fn kv_port(&self) -> Option<u16> {
        None
    }

    /// Most frames that the function may keep at any time: pools are sized by it.
    fn most_held_frames(&self) -> usize {
        0
    }

    /// Calls `each` with every counter's name and value.
    fn counters(&self, each: &mut dyn FnMut(&'static str, u64));
}

/// One that needs no other name than its kind's.
impl From<Box<dyn NetworkFunction>> for Named<dyn NetworkFunction> {
    fn from(function: Box<dyn NetworkFunction>) -> Self {
        let name = function.name().into();
        Self { name, function }
    }
}
