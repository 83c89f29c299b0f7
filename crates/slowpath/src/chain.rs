//! Several functions fused into one composite flow state.

use crate::common::Common;
use crate::function::{DropNote, Eviction, Flow, NetworkFunction, Outbox};
use crate::store::Record;
use std::collections::VecDeque;
use std::ops::Range;
use twinpath_core::guarantee::reply_order;
use twinpath_core::program::FastProgram;
use twinpath_core::steering::{Alias, Steering, SteeringError};
use twinpath_core::{Direction, DropCounters, FlowKey, Instant, Named, Packet, Pools};

/// The functions of a service, in order, with the place of each one's words among the flow's.
pub struct Chain {
    functions: Vec<Named<dyn NetworkFunction>>,
    words: Vec<Range<usize>>,
    /// The places of the functions, in the order in which replies pass them.
    reply_order: Vec<usize>,
    onward: Vec<Packet>,
    queue: VecDeque<(Packet, usize)>,
    /// The place of the function that was the last to drop a packet.
    dropper: Option<usize>,
    /// The packets that functions have dropped, if somebody follows packets.
    notes: Option<Vec<DropNote>>,
}

/// What a run of the chain yields and needs; the caller's buffers.
pub struct ChainIo<'a> {
    /// Packets that leave, in order.
    pub departing: &'a mut Vec<Packet>,
    /// Packets that a function answered.
    pub replies: &'a mut Vec<Packet>,
    /// Counted drops.
    pub drops: &'a mut DropCounters,
    /// Buffers for packets that functions make.
    pub pools: &'a mut Pools,
}

impl Chain {
    /// A chain of functions, each named after its kind.
    pub fn new(functions: Vec<Box<dyn NetworkFunction>>) -> Self {
        Self::named(functions.into_iter().map(Named::from).collect())
    }

    /// A chain of functions with names.
    pub fn named(functions: Vec<Named<dyn NetworkFunction>>) -> Self {
        let (mut first, mut words, mut guarantees) = (0, Vec::new(), Vec::new());
        for function in &functions {
            let program = function.program();
            words.push(first..first + program.words.len());
            guarantees.push(program.guarantees);
            first += program.words.len();
        }
        Self {
            functions,
            words,
            reply_order: reply_order(&guarantees),
            onward: Vec::new(),
            queue: VecDeque::new(),
            dropper: None,
            notes: None,
        }
    }

    /// The function at a place takes another configuration, under which flows are what they were.
    pub fn reconfigure(&mut self, place: usize, new: &mut dyn NetworkFunction) {
        if let Some(function) = self.functions.get_mut(place) {
            let goes_on = function.reconfigure(new);
            debug_assert!(goes_on, "a function of the same kind");
        }
    }

    /// State words of a flow.
    pub fn word_count(&self) -> usize {
        self.words.last().map_or(0, |range| range.end)
    }

    /// How many functions there are: one handle each.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether there are none: packets pass unchanged.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The functions' fast programs, under the functions' names.
    pub fn programs(&self) -> Vec<FastProgram> {
        let program = |function: &Named<dyn NetworkFunction>| FastProgram {
            name: function.name.to_string().into(),
            ..function.program()
        };
        self.functions.iter().map(program).collect()
    }

    /// How the chain's packets are assigned to flows.
    ///
    /// # Errors
    /// Functions whose flows differ in kind, or ambiguous aliases.
    pub fn steering(&self, seed: u64) -> Result<Steering, SteeringError> {
        let kv_port = self
            .functions
            .iter()
            .find_map(|function| function.kv_port());
        if kv_port.is_some() && self.functions.len() > 1 {
            return Err(SteeringError::MixedKeys);
        }
        let steering = Steering::new(seed).with_aliases(&self.aliases())?;
        Ok(match kv_port {
            Some(port) => steering.with_kv_port(port),
            None => steering,
        })
    }

    /// The endpoints that stand for others.
    pub fn aliases(&self) -> Vec<Alias> {
        let functions = self.functions.iter();
        functions.flat_map(|function| function.aliases()).collect()
    }

    /// Most frames that the functions may hold together.
    pub fn most_held_frames(&self) -> usize {
        self.functions
            .iter()
            .map(|function| function.most_held_frames())
            .sum()
    }

    /// The run begins at this packet time.
    pub fn start(&mut self, now: Instant) {
        self.functions
            .iter_mut()
            .for_each(|function| function.start(now));
    }

    /// Functions take their parts of what they have in common with those of other workers.
    pub fn share(&mut self, common: &Common) {
        for one in &mut self.functions {
            one.function.share(&one.name, common);
        }
    }

    /// The functions, in order.
    pub fn functions(&self) -> &[Named<dyn NetworkFunction>] {
        &self.functions
    }

    /// Clears what has expired, so that functions only see state that counts.
    pub fn expire<T>(&mut self, record: &mut Record<'_, T>, now: Instant) {
        for (place, function) in self.functions.iter_mut().enumerate() {
            let words = &mut record.words[self.words[place].clone()];
            if words.iter().any(|&word| word != 0) && function.is_expired(words, now) {
                function.ended(record.key, *record.initiator, words, now);
                words.fill(0);
                if record.handles[place] != 0 {
                    function.forget(std::mem::take(&mut record.handles[place]));
                }
            }
        }
    }

    /// Whether a function has work pending that only the workers can do.
    pub fn is_pending<T>(&self, record: &Record<'_, T>) -> bool {
        self.functions
            .iter()
            .zip(&self.words)
            .zip(record.handles.iter())
            .any(|((function, words), &handle)| {
                function.is_pending(&record.words[words.clone()], handle)
            })
    }

    /// When a flow may be forgotten to make room: when all functions that tell agree. One that does
    /// not tell and has work pending keeps it, for its private state may hold packets.
    pub fn eviction<T>(&self, record: &Record<'_, T>) -> Eviction {
        let functions = self.functions.iter().zip(&self.words);
        let each = functions.zip(record.handles.iter());
        let told = each.filter_map(|((function, words), &handle)| {
            let words = &record.words[words.clone()];
            let is_pending = || function.is_pending(words, handle);
            let told = function.eviction(words);
            told.or_else(|| is_pending().then_some(Eviction::Never))
        });
        told.max().unwrap_or(Eviction::Never)
    }

    /// Tells functions that a flow is about to be forgotten which has not expired.
    pub fn end<T>(&mut self, record: &Record<'_, T>, now: Instant) {
        for (function, words) in self.functions.iter_mut().zip(&self.words) {
            let words = &record.words[words.clone()];
            if words.iter().any(|&word| word != 0) {
                function.ended(record.key, *record.initiator, words, now);
            }
        }
    }

    /// The function at a place, for whoever takes something that packets do not meet.
    pub fn function_mut(&mut self, place: usize) -> Option<&mut dyn NetworkFunction> {
        let named = self.functions.get_mut(place)?;
        Some(&mut *named.function)
    }

    /// Releases the private state of a flow that is reset.
    pub fn forget<T>(&mut self, record: &mut Record<'_, T>) {
        for (function, handle) in self.functions.iter_mut().zip(record.handles.iter_mut()) {
            if *handle != 0 {
                function.forget(std::mem::take(handle));
            }
        }
    }

    /// Packets that functions keep (see [`NetworkFunction::kept_packets`]).
    pub fn kept_packets(&self) -> usize {
        (0..self.len()).map(|place| self.kept_by(place)).sum()
    }

    /// Packets that the function at this place keeps; none if there is no such place.
    pub fn kept_by(&self, place: usize) -> usize {
        let function = self.functions.get(place);
        function.map_or(0, |function| function.kept_packets())
    }

    /// Packets that are between functions: there are none but while one of those runs.
    pub fn passing(&self) -> impl Iterator<Item = &Packet> {
        let queued = self.queue.iter().map(|(packet, _)| packet);
        queued.chain(&self.onward)
    }

    /// When a function wants to be woken for a flow; [`Instant::NEVER`] if none does.
    #[inline]
    pub fn deadline<T>(&self, record: &Record<'_, T>) -> Instant {
        let handles = self.functions.iter().zip(record.handles.iter());
        let keeping = handles.filter(|&(_, &handle)| handle != 0);
        let deadlines = keeping.map(|(function, &handle)| function.deadline(handle));
        deadlines.min().unwrap_or(Instant::NEVER)
    }

    /// Lets go of all packets that the functions keep of a flow: they pass the rest of the chain.
    pub fn release<T>(&mut self, record: &mut Record<'_, T>, now: Instant, io: &mut ChainIo<'_>) {
        self.call_each(record, now, io, |function, flow, out| {
            function.release(flow, out);
        })
    }

    pub(crate) fn take_functions(
        &mut self,
    ) -> (Vec<Named<dyn NetworkFunction>>, Vec<Range<usize>>) {
        (
            std::mem::take(&mut self.functions),
            std::mem::take(&mut self.words),
        )
    }

    /// How many state words a function has.
    pub fn words_at(&self, place: usize) -> usize {
        self.words.get(place).map_or(0, Range::len)
    }

    /// Where a function's words are among a flow's.
    pub(crate) fn words_of(&self, place: usize) -> Range<usize> {
        self.words[place].clone()
    }

    pub(crate) fn adapt(&mut self, place: usize, words: &mut [u32], handle: &mut u32) {
        self.functions[place].adapt(words, handle);
    }

    /// The place of the function that was the last to drop a packet since this was asked before.
    pub fn take_dropper_place(&mut self) -> Option<usize> {
        self.dropper.take()
    }

    /// Packets that functions drop are noted from now on, for whoever follows packets.
    pub fn note_drops(&mut self) {
        self.notes.get_or_insert_default();
    }

    /// The packets noted since they were taken before.
    pub fn take_notes(&mut self) -> Vec<DropNote> {
        self.notes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What was noted of a function's drops, in order, is of this function and this flow.
    #[cold]
    fn sign_notes(&mut self, place: usize, key: FlowKey) {
        self.dropper = Some(place);
        let notes = self.notes.iter_mut().flatten().rev();
        for note in notes.take_while(|note| note.key == FlowKey::default()) {
            (note.place, note.key) = (place, key);
        }
    }

    /// Runs one packet through the chain.
    pub fn run<T>(
        &mut self,
        packet: Packet,
        record: &mut Record<'_, T>,
        now: Instant,
        io: &mut ChainIo<'_>,
    ) {
        self.queue.push_back((packet, 0));
        self.drain(record, now, io);
    }

    /// Wakes the functions of a flow whose deadline has come.
    pub fn wake<T>(&mut self, record: &mut Record<'_, T>, now: Instant, io: &mut ChainIo<'_>) {
        self.call_each(record, now, io, |function, flow, out| {
            function.wake(flow, out);
        })
    }

    /// Lets each function act on a flow, and what it puts out pass the rest of the chain.
    fn call_each<T>(
        &mut self,
        record: &mut Record<'_, T>,
        now: Instant,
        io: &mut ChainIo<'_>,
        act: impl Fn(&mut dyn NetworkFunction, &mut Flow<'_>, &mut Outbox<'_>),
    ) {
        for place in 0..self.functions.len() {
            let (function, mut flow) = (
                &mut *self.functions[place],
                flow_of(record, place, &self.words, now),
            );
            let mut out = Outbox::new(&mut self.onward, io.replies, io.drops, io.pools);
            out.notes = self.notes.as_mut();
            act(function, &mut flow, &mut out);
            if out.has_dropped {
                self.sign_notes(place, *record.key);
            }
            self.pass_on(place, now);
            self.drain(record, now, io);
        }
    }

    /// Takes packets through the rest of the chain, in the order they were put out.
    fn drain<T>(&mut self, record: &mut Record<'_, T>, now: Instant, io: &mut ChainIo<'_>) {
        while let Some((packet, step)) = self.queue.pop_front() {
            if step == self.functions.len() {
                io.departing.push(packet);
                continue;
            }
            let place = self.place_at(packet.direction, step);
            let mut flow = flow_of(record, place, &self.words, now);
            let mut out = Outbox::new(&mut self.onward, io.replies, io.drops, io.pools);
            out.notes = self.notes.as_mut();
            self.functions[place].handle(packet, &mut flow, &mut out);
            let refused = out.refused.take();
            if out.has_dropped {
                self.sign_notes(place, *record.key);
            }
            if let Some(direction) = refused {
                self.tell_those_in_front(direction, step, record, now);
            }
            self.pass_on(place, now);
        }
    }

    /// A packet that these functions let pass is to be sent again.
    #[cold]
    fn tell_those_in_front<T>(
        &mut self,
        direction: Direction,
        steps: usize,
        record: &mut Record<'_, T>,
        now: Instant,
    ) {
        for step in 0..steps {
            let place = self.place_at(direction, step);
            let mut flow = flow_of(record, place, &self.words, now);
            self.functions[place].refused_behind(direction, &mut flow);
        }
    }

    /// What a function let go of goes on as of now: that is the time by which whatever is behind
    /// judges it, in this element and in others.
    fn pass_on(&mut self, place: usize, now: Instant) {
        let in_reply = self.reply_order.iter().position(|&other| other == place);
        for mut packet in self.onward.drain(..) {
            packet.frame.set_timestamp(now);
            let step = match packet.direction {
                Direction::Original => place,
                Direction::Reply => in_reply.unwrap_or(place),
            };
            self.queue.push_back((packet, step + 1));
        }
    }

    /// Replies pass the functions in [an order of their own](twinpath_core::guarantee).
    fn place_at(&self, direction: Direction, step: usize) -> usize {
        match direction {
            Direction::Original => step,
            Direction::Reply => self.reply_order[step],
        }
    }
}

fn flow_of<'a, T>(
    record: &'a mut Record<'_, T>,
    place: usize,
    words: &[Range<usize>],
    now: Instant,
) -> Flow<'a> {
    Flow {
        key: record.key,
        initiator: record.initiator,
        words: &mut record.words[words[place].clone()],
        handle: &mut record.handles[place],
        now,
    }
}
