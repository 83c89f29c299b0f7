//! The flows of one worker: found by key, bounded, aged.
//!
//! Flows lie in chunks that never move, so that growing to millions of flows never copies them
//! and never stalls a packet. An open-addressing index of 64-bit entries (half hash, half flow
//! number) finds them; its memory is reserved at once and taken only as it is touched.
//!
//! Where another chain has other words, flows get them chunk by chunk ([`FlowStore::move_chunk`]):
//! each chunk knows its own shape, so a store of millions need not stop.

mod evictable;

use crate::function::Eviction;
use evictable::{Lists, Neighbours};
use twinpath_core::memory::{ZeroedArray, prefetch};
use twinpath_core::probing::Places;
use twinpath_core::{FlowKey, Instant, Side};

/// A flow's number in its store; reused after the flow is gone.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(u32);

const CHUNK: usize = 1024;

struct Head<T> {
    key: FlowKey,
    hash: u64,
    last_seen: Instant,
    deadline: Instant,
    incarnation: u32,
    initiator: Side,
    is_live: bool,
    neighbours: Neighbours,
    tag: T,
}

/// How many words and handles each flow has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Shape {
    words: usize,
    handles: usize,
    /// Counts the changes of shape; the same numbers may stand for other functions.
    version: u32,
}

struct Chunk<T> {
    heads: Vec<Head<T>>,
    words: Vec<u32>,
    handles: Vec<u32>,
    shape: Shape,
}

impl<T> Chunk<T> {
    fn new(shape: Shape) -> Self {
        Self {
            heads: Vec::with_capacity(CHUNK),
            words: vec![0; CHUNK * shape.words],
            handles: vec![0; CHUNK * shape.handles],
            shape,
        }
    }

    #[inline]
    fn words(&self, place: usize) -> &[u32] {
        let count = self.shape.words;
        &self.words[place * count..(place + 1) * count]
    }
}

/// One flow, to read and change.
pub struct Record<'a, T> {
    /// Its name.
    pub key: &'a FlowKey,
    /// The end that opened it.
    pub initiator: &'a mut Side,
    /// The state words of all functions of the chain.
    pub words: &'a mut [u32],
    /// Handles to private state, one per function.
    pub handles: &'a mut [u32],
    /// When it last had a packet.
    pub last_seen: &'a mut Instant,
    /// When functions want to be woken for it; [`Instant::NEVER`] if they do not.
    pub deadline: &'a mut Instant,
    /// What a mechanism keeps with each flow.
    pub tag: &'a mut T,
}

/// A bounded set of flows with `T` attached to each.
pub struct FlowStore<T> {
    index: ZeroedArray<u64>,
    chunks: Vec<Chunk<T>>,
    free: Vec<FlowId>,
    next: usize,
    limit: usize,
    live: usize,
    crowded: u64,
    lists: Lists,
    shape: Shape,
    hand: usize,
    /// All chunks before this one have the present shape.
    to_move: usize,
}

impl<T: Default> FlowStore<T> {
    /// A store for at most `limit` flows, with `words` state words and `handles` handles each.
    pub fn new(limit: usize, words: usize, handles: usize) -> Self {
        let limit = limit.clamp(1, u32::MAX as usize - 1);
        let index = ZeroedArray::new((limit * 3 / 2 + 1).next_power_of_two());
        Self {
            index,
            chunks: Vec::new(),
            free: Vec::new(),
            next: 0,
            limit,
            live: 0,
            crowded: 0,
            lists: Lists::default(),
            shape: Shape {
                words,
                handles,
                version: 0,
            },
            hand: 0,
            to_move: 0,
        }
    }

    /// Takes the memory of the index now, before packets could wait for it (see
    /// [`ZeroedArray::touch`](twinpath_core::memory::ZeroedArray::touch)).
    pub fn touch(&mut self) {
        self.index.touch();
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Whether there are as many as there may be.
    pub fn is_full(&self) -> bool {
        self.live == self.limit
    }

    /// Flows turned away because too many others lay where they would.
    pub fn crowded(&self) -> u64 {
        self.crowded
    }

    /// Memory per flow when the store is full, in bytes.
    pub fn bytes_per_flow(&self) -> usize {
        size_of::<Head<T>>()
            + 4 * (self.shape.words + self.shape.handles)
            + self.index.len() * 8 / self.limit
    }

    /// Asks the processor to fetch the index entry of a hash.
    #[inline]
    pub fn prefetch_index(&self, hash: u64) {
        prefetch(&self.index[self.home(hash)]);
    }

    /// Asks the processor to fetch the flow that a hash's index entry names; it should be there
    /// (see [`Self::prefetch_index`]). A flow that had to go elsewhere is not looked for.
    #[inline]
    pub fn prefetch_flow(&self, hash: u64) {
        let entry = self.index[self.home(hash)];
        if entry == 0 {
            return;
        }
        let number = entry as u32 as usize - 1;
        let (chunk, place) = (&self.chunks[number / CHUNK], number % CHUNK);
        let head = &chunk.heads[place];
        prefetch(&head.key);
        prefetch(&head.tag);
        if let Some(word) = chunk.words.get(place * chunk.shape.words) {
            prefetch(word);
        }
        if let Some(handle) = chunk.handles.get(place * chunk.shape.handles) {
            prefetch(handle);
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.index.len() - 1)
    }

    fn head(&self, id: FlowId) -> &Head<T> {
        &self.chunks[id.0 as usize / CHUNK].heads[id.0 as usize % CHUNK]
    }

    fn head_mut(&mut self, id: FlowId) -> &mut Head<T> {
        &mut self.chunks[id.0 as usize / CHUNK].heads[id.0 as usize % CHUNK]
    }

    /// The place in the index of a flow, or the free one where the search for it ends. There always
    /// is one near, for no run is long.
    #[inline]
    fn probe(&self, key: &FlowKey, hash: u64) -> (usize, Option<FlowId>) {
        let mask = self.index.len() - 1;
        let mut place = self.home(hash);
        loop {
            let entry = self.index[place];
            if entry == 0 {
                return (place, None);
            }
            let id = FlowId(entry as u32 - 1);
            if entry >> 32 == hash >> 32 && self.head(id).key == *key {
                return (place, Some(id));
            }
            place = (place + 1) & mask;
        }
    }

    /// The flow with this key.
    #[inline]
    pub fn find(&self, key: &FlowKey, hash: u64) -> Option<FlowId> {
        self.probe(key, hash).1
    }

    /// The flow with this key, made if need be with zero words; `None` if the store is full, or too
    /// many others lie where it would.
    #[inline]
    pub fn find_or_insert(&mut self, key: &FlowKey, hash: u64) -> Option<FlowId> {
        match self.probe(key, hash) {
            (_, Some(id)) => Some(id),
            (place, None) => self.insert_at(place, key, hash),
        }
    }

    fn insert_at(&mut self, place: usize, key: &FlowKey, hash: u64) -> Option<FlowId> {
        if !self.may_take(place) {
            self.crowded += 1;
            return None;
        }
        let id = self.free.pop().or_else(|| self.fresh())?;
        let head = self.head_mut(id);
        (head.key, head.hash, head.is_live) = (*key, hash, true);
        head.incarnation = head.incarnation.wrapping_add(1);
        head.tag = T::default();
        (head.initiator, head.last_seen) = (Side::Low, Instant::ZERO);
        head.deadline = Instant::NEVER;
        self.index[place] = hash >> 32 << 32 | u64::from(id.0 + 1);
        self.live += 1;
        Some(id)
    }

    fn fresh(&mut self) -> Option<FlowId> {
        if self.next == self.limit {
            return None;
        }
        if self.next.is_multiple_of(CHUNK) {
            self.chunks.push(Chunk::new(self.shape));
        }
        let id = FlowId(self.next as u32);
        let head = Head {
            key: FlowKey::default(),
            hash: 0,
            last_seen: Instant::ZERO,
            deadline: Instant::NEVER,
            incarnation: 0,
            initiator: Side::Low,
            is_live: false,
            neighbours: Neighbours::default(),
            tag: T::default(),
        };
        self.chunks[self.next / CHUNK].heads.push(head);
        self.next += 1;
        Some(id)
    }

    /// One flow, to read and change.
    #[inline]
    pub fn record(&mut self, id: FlowId) -> Record<'_, T> {
        let (chunk, place) = (
            &mut self.chunks[id.0 as usize / CHUNK],
            id.0 as usize % CHUNK,
        );
        let Shape { words, handles, .. } = chunk.shape;
        let head = &mut chunk.heads[place];
        Record {
            key: &head.key,
            initiator: &mut head.initiator,
            words: &mut chunk.words[place * words..(place + 1) * words],
            handles: &mut chunk.handles[place * handles..(place + 1) * handles],
            last_seen: &mut head.last_seen,
            deadline: &mut head.deadline,
            tag: &mut head.tag,
        }
    }

    /// The state words of one flow.
    pub fn words(&self, id: FlowId) -> &[u32] {
        self.chunks[id.0 as usize / CHUNK].words(id.0 as usize % CHUNK)
    }

    /// The end that opened a flow.
    pub fn initiator(&self, id: FlowId) -> Side {
        self.head(id).initiator
    }

    /// Whether a function keeps anything of a flow beside its words.
    pub fn keeps_handles(&self, id: FlowId) -> bool {
        let (chunk, place) = (&self.chunks[id.0 as usize / CHUNK], id.0 as usize % CHUNK);
        let count = chunk.shape.handles;
        let handles = &chunk.handles[place * count..(place + 1) * count];
        handles.iter().any(|&handle| handle != 0)
    }

    /// A number that changes when the flow's place is given to another flow.
    pub fn incarnation(&self, id: FlowId) -> u32 {
        self.head(id).incarnation
    }

    /// Whether this flow of this incarnation still lives.
    pub fn lives(&self, id: FlowId, incarnation: u32) -> bool {
        let head = self.head(id);
        head.is_live && head.incarnation == incarnation
    }

    /// When functions want to be woken for a flow of this incarnation; [`Instant::NEVER`] if it is
    /// gone, or they do not.
    pub fn deadline(&self, id: FlowId, incarnation: u32) -> Instant {
        match self.lives(id, incarnation) {
            true => self.head(id).deadline,
            false => Instant::NEVER,
        }
    }

    /// Forgets a flow. Its words and handles become zero.
    pub fn remove(&mut self, id: FlowId) {
        if !self.head(id).is_live {
            return;
        }
        let (key, hash) = (self.head(id).key, self.head(id).hash);
        let (place, found) = self.probe(&key, hash);
        debug_assert_eq!(found, Some(id));
        let gap = self.close_gap(place);
        self.index[gap] = 0;
        self.set_eviction(id, Eviction::Never);
        let head = self.head_mut(id);
        (head.is_live, head.deadline) = (false, Instant::NEVER);
        let record = self.record(id);
        record.words.fill(0);
        record.handles.fill(0);
        self.free.push(id);
        self.live -= 1;
    }

    /// The next `count` flows under a hand that goes round all of them: for ageing.
    pub fn under_the_hand(&mut self, count: usize, into: &mut Vec<FlowId>) {
        for _ in 0..count.min(self.next) {
            let id = FlowId(self.hand as u32);
            self.hand = if self.hand + 1 >= self.next {
                0
            } else {
                self.hand + 1
            };
            if self.head(id).is_live {
                into.push(id);
            }
        }
    }

    /// All flows there are, for checkers and reports.
    pub fn ids(&self) -> impl Iterator<Item = FlowId> + '_ {
        (0..self.next)
            .map(|number| FlowId(number as u32))
            .filter(|&id| self.head(id).is_live)
    }

    /// The flows that there are among so many numbers, and how many numbers there are: for whoever
    /// looks at all of them in parts.
    pub fn ids_among(&self, numbers: std::ops::Range<usize>) -> impl Iterator<Item = FlowId> + '_ {
        let numbers = numbers.start..numbers.end.min(self.next);
        numbers
            .map(|number| FlowId(number as u32))
            .filter(|&id| self.head(id).is_live)
    }

    /// No flow's number is this large, or larger.
    pub fn bound(&self) -> usize {
        self.next
    }

    /// A flow's key, words and attachment, for checkers and reports.
    pub fn view(&self, id: FlowId) -> (&FlowKey, &[u32], &T) {
        let (chunk, place) = (&self.chunks[id.0 as usize / CHUNK], id.0 as usize % CHUNK);
        (
            &chunk.heads[place].key,
            chunk.words(place),
            &chunk.heads[place].tag,
        )
    }

    /// Whether a flow has the words and handles that flows have now, for checkers.
    pub fn has_moved(&self, id: FlowId) -> bool {
        self.chunks[id.0 as usize / CHUNK].shape == self.shape
    }

    /// Flows have so many words and handles from now on. Those that there are keep what they have
    /// until their chunk is moved. Whatever was still to be moved must have been.
    pub fn reshape(&mut self, words: usize, handles: usize) {
        debug_assert!(self.to_move().is_none());
        let version = self.shape.version.wrapping_add(1);
        self.shape = Shape {
            words,
            handles,
            version,
        };
        self.to_move = 0;
    }

    /// A flow in a chunk that is still to be moved; `None` if all have been.
    pub fn to_move(&mut self) -> Option<FlowId> {
        while self.chunks.get(self.to_move)?.shape == self.shape {
            self.to_move += 1;
        }
        Some(FlowId((self.to_move * CHUNK) as u32))
    }

    /// Moves the chunk that a flow is in to the present shape, unless that has been done:
    /// `follow` gets each flow's old words and handles, and its new ones, which are zero.
    pub fn move_chunk(
        &mut self,
        id: FlowId,
        mut follow: impl FnMut(&[u32], &[u32], &mut [u32], &mut [u32]),
    ) {
        let number = id.0 as usize / CHUNK;
        if self.chunks[number].shape == self.shape {
            return;
        }
        let chunk = &mut self.chunks[number];
        let mut new = Chunk::new(self.shape);
        new.heads = std::mem::take(&mut chunk.heads);
        let heads = new.heads.iter().enumerate();
        for (place, _) in heads.filter(|(_, head)| head.is_live) {
            let (old, now) = (chunk.shape, self.shape);
            follow(
                &chunk.words[place * old.words..(place + 1) * old.words],
                &chunk.handles[place * old.handles..(place + 1) * old.handles],
                &mut new.words[place * now.words..(place + 1) * now.words],
                &mut new.handles[place * now.handles..(place + 1) * now.handles],
            );
        }
        *chunk = new;
    }

    /// A flow's hash.
    pub fn hash(&self, id: FlowId) -> u64 {
        self.head(id).hash
    }
}

/// The places of the index.
impl<T> Places for FlowStore<T> {
    fn places(&self) -> usize {
        self.index.len()
    }

    fn is_taken(&self, place: usize) -> bool {
        self.index[place] != 0
    }

    fn home_of(&self, place: usize) -> usize {
        let number = self.index[place] as u32 as usize - 1;
        let hash = self.chunks[number / CHUNK].heads[number % CHUNK].hash;
        hash as usize & (self.index.len() - 1)
    }

    fn move_to(&mut self, from: usize, to: usize) {
        self.index[to] = self.index[from];
    }
}

#[cfg(test)]
mod tests;
