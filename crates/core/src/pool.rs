//! Packet buffers: a bounded pool of frames, each with headroom for the link header.
//!
//! A [`Frame`] is one pointer to a buffer that starts with its own bookkeeping, then headroom,
//! then the packet. Taking and giving back on the owning thread touches no atomics; a frame that
//! is dropped anywhere else goes home through a lock-free queue. A pool that is dropped while
//! frames are out leaves their memory in place until the last of them is dropped.
//!
//! One buffer, from its start:
//! ```text
//! | bookkeeping 64 | headroom 256 | packet, up to the pool's `packet_bytes` |
//! ```
//!
//! Buffers of a pool that lies [in a file](Pool::in_file) may be [lent](Pool::lend) to the kernel.

mod lending;
mod lost;

pub use lending::Borrower;
pub use lost::take_lost;

use crate::direction::Direction;
use crate::fragment_place::FragmentPlace;
use crate::memory::{CacheLine, ZeroedArray};
use crate::time::Instant;
use crossbeam_queue::ArrayQueue;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes in front of a packet that a header can be pushed into: the largest link header fits.
pub const HEADROOM: usize = 256;

/// What a node remembers of a packet on its way through the chain.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Metadata {
    /// Which way it goes through the chain.
    pub direction: Direction,
    /// The port that it leaves by, if a function said so.
    pub egress: Option<u16>,
    /// Whether it has been on the slow path.
    pub was_on_slow_path: bool,
    /// Whether it is an answer that a function of the chain has made, on its way back through what
    /// the packet has passed that it answers.
    pub is_answer: bool,
    /// How many bytes of its payload are parked: the frame is the header of a longer packet, and
    /// [`Frame::ticket`] says whose. 0 if the packet is whole.
    pub parked_bytes: u16,
    /// Whether the packet's transport checksum was wrong when its payload was parked.
    pub has_bad_checksum: bool,
    /// Whether it is a fragment, and [`Frame::place`] says where it belongs.
    pub has_place: bool,
}

/// Metadata as bookkeeping holds it, in six bytes: a frame's bookkeeping fills one line of the cache.
#[derive(Copy, Clone, Debug, Default)]
struct PackedMetadata {
    egress: u16,
    parked_bytes: u16,
    flags: u8,
}

impl PackedMetadata {
    const IS_REPLY: u8 = 1;
    const HAS_EGRESS: u8 = 2;
    const WAS_ON_SLOW_PATH: u8 = 4;
    const IS_ANSWER: u8 = 8;
    const HAS_BAD_CHECKSUM: u8 = 16;
    const HAS_PLACE: u8 = 32;

    #[inline(always)]
    fn of(metadata: Metadata) -> Self {
        let mut packed = Self {
            egress: metadata.egress.unwrap_or_default(),
            parked_bytes: metadata.parked_bytes,
            flags: 0,
        };
        packed.set(Self::IS_REPLY, metadata.direction == Direction::Reply);
        packed.set(Self::HAS_EGRESS, metadata.egress.is_some());
        packed.set(Self::WAS_ON_SLOW_PATH, metadata.was_on_slow_path);
        packed.set(Self::IS_ANSWER, metadata.is_answer);
        packed.set(Self::HAS_BAD_CHECKSUM, metadata.has_bad_checksum);
        packed.set(Self::HAS_PLACE, metadata.has_place);
        packed
    }

    #[inline(always)]
    fn unpacked(self) -> Metadata {
        Metadata {
            direction: Direction::BOTH[usize::from(self.has(Self::IS_REPLY))],
            egress: self.has(Self::HAS_EGRESS).then_some(self.egress),
            was_on_slow_path: self.has(Self::WAS_ON_SLOW_PATH),
            is_answer: self.has(Self::IS_ANSWER),
            parked_bytes: self.parked_bytes,
            has_bad_checksum: self.has(Self::HAS_BAD_CHECKSUM),
            has_place: self.has(Self::HAS_PLACE),
        }
    }

    #[inline(always)]
    const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline(always)]
    fn set(&mut self, flag: u8, is_set: bool) {
        self.flags = (self.flags & !flag) | (flag * u8::from(is_set));
    }
}

/// Names a payload that is parked on the fast path's side (see the parking crate). Slots are used
/// again; the generation tells one use from another.
///
/// Generations wrap after 2^32 uses of one slot. Slots are given out in the order in which they
/// became free, so at 100 million packets a second and 8192 slots that takes four days, and only
/// a header exactly that old could be mistaken.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Where the payload's record is.
    pub slot: u32,
    /// Which use of the slot this is.
    pub generation: u32,
}

#[repr(C, align(64))]
struct Bookkeeping {
    home: Option<Arc<Region>>,
    timestamp: Instant,
    received_ns: u64,
    ordinal: u64,
    capacity: u32,
    head: u32,
    len: u32,
    port: u16,
    segment_bytes: u16,
    metadata: PackedMetadata,
    ticket: Ticket,
}

const _: () = assert!(size_of::<Bookkeeping>() == 64, "one line of the cache");

const BOOKKEEPING: usize = size_of::<Bookkeeping>();

/// Bytes of a buffer in front of a packet with full headroom.
pub const OVERHEAD: usize = BOOKKEEPING + HEADROOM;

/// One packet buffer, owned by whoever holds it.
pub struct Frame(NonNull<Bookkeeping>);

// SAFETY: a frame is the only owner of its buffer; the shared part of its home is thread-safe.
unsafe impl Send for Frame {}

impl Frame {
    #[inline(always)]
    fn book(&self) -> &Bookkeeping {
        // SAFETY: the pointer is to initialised bookkeeping that only this frame refers to.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    fn book_mut(&mut self) -> &mut Bookkeeping {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { self.0.as_mut() }
    }

    #[inline(always)]
    fn data(&self, from: u32) -> *mut u8 {
        // SAFETY: `from` is at most `capacity`, which lies inside the buffer.
        unsafe {
            self.0
                .as_ptr()
                .cast::<u8>()
                .add(BOOKKEEPING + from as usize)
        }
    }

    /// Names the buffer: no two frames that there are have the same.
    pub fn buffer(&self) -> usize {
        self.0.addr().get()
    }

    /// The packet's bytes.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        let book = self.book();
        // SAFETY: `head + len <= capacity`, kept by every method that changes them.
        unsafe { std::slice::from_raw_parts(self.data(book.head), book.len as usize) }
    }

    /// The packet's bytes, to change.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, len) = (self.data(self.book().head), self.book().len as usize);
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    /// The packet with all that is in front of it in its buffer, and where in that it begins.
    #[inline]
    pub fn with_headroom(&mut self) -> (&mut [u8], usize) {
        let (head, len) = (self.book().head as usize, self.book().len as usize);
        let start = self.data(0);
        // SAFETY: `head + len <= capacity`, and all of the buffer was initialised when its pool was
        // made; `self` is borrowed exclusively.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, head + len) };
        (bytes, head)
    }

    /// The packet is these bytes of its buffer, as [`Self::with_headroom`] counts them. Returns whether
    /// the buffer has them.
    #[inline]
    pub fn set_bounds(&mut self, packet: std::ops::Range<usize>) -> bool {
        let book = self.book_mut();
        let fits = packet.start <= packet.end && packet.end <= book.capacity as usize;
        if fits {
            (book.head, book.len) = (packet.start as u32, packet.len() as u32);
        }
        fits
    }

    /// Length of the packet in bytes.
    #[inline(always)]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a frame without bytes is no special case"
    )]
    pub fn len(&self) -> usize {
        self.book().len as usize
    }

    /// How long the packet could grow at its end.
    pub fn room(&self) -> usize {
        (self.book().capacity - self.book().head) as usize
    }

    /// Sets the packet's length, keeping its start. Returns whether the buffer has that much room.
    pub fn set_len(&mut self, len: usize) -> bool {
        let fits = len <= self.room();
        if fits {
            self.book_mut().len = len as u32;
        }
        fits
    }

    /// Empties the frame and copies `packet` in behind full headroom. Returns whether it fitted.
    #[inline]
    pub fn fill(&mut self, packet: &[u8]) -> bool {
        let book = self.book_mut();
        (book.head, book.len, book.segment_bytes) = (HEADROOM as u32, 0, 0);
        let fits = self.set_len(packet.len());
        if fits {
            self.bytes_mut().copy_from_slice(packet);
        }
        fits
    }

    /// Grows the packet at its front by `bytes`, whose content is whatever was there; `None` if
    /// the headroom is used up.
    #[inline]
    pub fn push_front(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let book = self.book_mut();
        let head = (book.head as usize).checked_sub(bytes)?;
        book.head = head as u32;
        book.len += bytes as u32;
        Some(&mut self.bytes_mut()[..bytes])
    }

    /// Cuts `bytes` off the packet's front. Returns whether it had that many.
    #[inline]
    pub fn pull_front(&mut self, bytes: usize) -> bool {
        let book = self.book_mut();
        let had = bytes <= book.len as usize;
        if had {
            book.head += bytes as u32;
            book.len -= bytes as u32;
        }
        had
    }

    /// When the packet arrived, on the run's packet clock.
    #[inline(always)]
    pub fn timestamp(&self) -> Instant {
        self.book().timestamp
    }

    /// Sets [`Self::timestamp`].
    #[inline(always)]
    pub fn set_timestamp(&mut self, timestamp: Instant) {
        self.book_mut().timestamp = timestamp;
    }

    /// When the packet was received, in nanoseconds of the clock that latencies are measured on.
    pub fn received_ns(&self) -> u64 {
        self.book().received_ns
    }

    /// Sets [`Self::received_ns`].
    pub fn set_received_ns(&mut self, received_ns: u64) {
        self.book_mut().received_ns = received_ns;
    }

    /// The packet's number in the order of arrival.
    pub fn ordinal(&self) -> u64 {
        self.book().ordinal
    }

    /// Sets [`Self::ordinal`].
    pub fn set_ordinal(&mut self, ordinal: u64) {
        self.book_mut().ordinal = ordinal;
    }

    /// The port that the packet arrived on or leaves by.
    pub fn port(&self) -> u16 {
        self.book().port
    }

    /// Sets [`Self::port`].
    pub fn set_port(&mut self, port: u16) {
        self.book_mut().port = port;
    }

    /// How many bytes of payload each packet has that the frame is to be cut into when it leaves; 0
    /// if it leaves as it is. A host sends such frames to a card that does the cutting. It stays
    /// with the buffer, so it need not cross the link.
    #[inline]
    pub fn segment_bytes(&self) -> u16 {
        self.book().segment_bytes
    }

    /// Sets [`Self::segment_bytes`].
    #[inline]
    pub fn set_segment_bytes(&mut self, bytes: u16) {
        self.book_mut().segment_bytes = bytes;
    }

    /// What the node remembers of the packet.
    #[inline]
    pub fn metadata(&self) -> Metadata {
        self.book().metadata.unpacked()
    }

    /// Sets what the node remembers of the packet.
    #[inline]
    pub fn set_metadata(&mut self, metadata: Metadata) {
        self.book_mut().metadata = PackedMetadata::of(metadata);
    }

    /// What names the frame's parked payload: of no meaning unless [`Metadata::parked_bytes`] says
    /// that there is one.
    pub fn ticket(&self) -> Ticket {
        self.book().ticket
    }

    /// Sets [`Self::ticket`].
    pub fn set_ticket(&mut self, ticket: Ticket) {
        self.book_mut().ticket = ticket;
    }

    /// Where a fragment belongs: of no meaning unless [`Metadata::has_place`] says so. It stands
    /// where a ticket would: fragments are never parked.
    pub fn place(&self) -> FragmentPlace {
        let Ticket { slot, generation } = self.ticket();
        FragmentPlace {
            sequence: slot,
            acknowledgement: generation,
        }
    }

    /// Sets [`Self::place`].
    pub fn set_place(&mut self, place: FragmentPlace) {
        let FragmentPlace {
            sequence: slot,
            acknowledgement: generation,
        } = place;
        let book = self.book_mut();
        book.metadata.set(PackedMetadata::HAS_PLACE, true);
        book.ticket = Ticket { slot, generation };
    }

    /// Sets which way the packet goes through the chain.
    #[inline]
    pub fn set_direction(&mut self, direction: Direction) {
        let is_reply = direction == Direction::Reply;
        self.book_mut()
            .metadata
            .set(PackedMetadata::IS_REPLY, is_reply);
    }

    /// Sets the port that the packet leaves by.
    #[inline]
    pub fn set_egress(&mut self, egress: Option<u16>) {
        let metadata = &mut self.book_mut().metadata;
        metadata.set(PackedMetadata::HAS_EGRESS, egress.is_some());
        metadata.egress = egress.unwrap_or_default();
    }

    /// Asks the processor to fetch the frame's bookkeeping and the packet's first line.
    #[inline(always)]
    pub fn prefetch(&self) {
        self.prefetch_bookkeeping();
        self.prefetch_packet();
    }

    /// Asks the processor to fetch the frame's bookkeeping.
    #[inline(always)]
    pub fn prefetch_bookkeeping(&self) {
        crate::memory::prefetch(self.book());
    }

    /// Asks the processor to fetch the packet's first line.
    #[inline(always)]
    pub fn prefetch_packet(&self) {
        // SAFETY: within the buffer; headroom lies between bookkeeping and packet.
        crate::memory::prefetch(unsafe { &*self.data(HEADROOM as u32) });
    }

    /// Asks the processor to fetch what lies in front of the packet, where a header of up to 128
    /// bytes will be written.
    #[inline(always)]
    pub fn prefetch_headroom(&self) {
        for line in 1..=2 {
            // SAFETY: within the buffer, as headroom is longer.
            crate::memory::prefetch(unsafe { &*self.data((HEADROOM - 64 * line) as u32) });
        }
    }

    fn region(&self) -> Option<&Arc<Region>> {
        self.book().home.as_ref()
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Frame")
            .field("ordinal", &self.ordinal())
            .field("len", &self.len())
            .finish()
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lost::note(self);
        }
        let Some(region) = self.region().cloned() else {
            return;
        };
        let homecoming = ManuallyDrop::new(Frame(self.0));
        // The queue has a place for every buffer of the region, so this never fails.
        let _ = region
            .returned
            .push(ManuallyDrop::into_inner(homecoming).into_raw());
        if region.closed.load(Ordering::SeqCst) {
            region.retire_returned();
        }
    }
}

/// A buffer at home: the pointer of a frame, without its duty to go home when dropped.
struct Buffer(NonNull<Bookkeeping>);

// SAFETY: whoever takes the buffer from the queue is its only owner.
unsafe impl Send for Buffer {}

impl Frame {
    fn into_raw(self) -> Buffer {
        Buffer(ManuallyDrop::new(self).0)
    }
}

struct Region {
    start: NonNull<u8>,
    /// Owns what `start` points at; frames alone look inside.
    _memory: Box<dyn Any + Send + Sync>,
    returned: ArrayQueue<Buffer>,
    closed: AtomicBool,
}

// SAFETY: the memory is reached only through frames, each of which owns its own part.
unsafe impl Send for Region {}
// SAFETY: the queue and the flag are thread-safe; `start` is only read.
unsafe impl Sync for Region {}

impl Region {
    /// Over memory that begins there and has so many buffers.
    fn new(start: NonNull<u8>, frames: usize, memory: impl Any + Send + Sync) -> Arc<Self> {
        Arc::new(Self {
            start,
            _memory: Box::new(memory),
            returned: ArrayQueue::new(frames.max(1)),
            closed: AtomicBool::new(false),
        })
    }

    /// Takes buffers that came home after the pool was gone out of use: each drops its hold on
    /// the region, and with the last one the memory goes.
    fn retire_returned(&self) {
        while let Some(mut buffer) = self.returned.pop() {
            // SAFETY: the queue gave us sole ownership of initialised bookkeeping. A caller holds
            // an `Arc` of this region, so this cannot be the last one.
            drop(unsafe { buffer.0.as_mut() }.home.take());
        }
    }
}

/// A bounded set of equal buffers, owned by one thread.
pub struct Pool {
    region: Arc<Region>,
    free: Vec<Buffer>,
    /// Buffers that have been in use; the others are untouched memory behind them.
    fresh: usize,
    stride: Stride,
    frames: usize,
    packet_bytes: usize,
    low_water: usize,
    exhausted: u64,
    /// Whether behind the buffers there are marks of who has them.
    is_lending: bool,
}

impl Pool {
    /// A pool of `frames` buffers, each for packets of up to `packet_bytes` bytes.
    pub fn new(frames: usize, packet_bytes: usize) -> Self {
        let frames = frames.max(1);
        // An odd number of cache lines: with an even one, above all a power of two, the headers of
        // a batch would lie in few sets of the cache and drive each other out.
        let stride = ((BOOKKEEPING + HEADROOM + packet_bytes).div_ceil(64) | 1) * 64;
        let lines = (stride / 64)
            .checked_mul(frames)
            .expect("a pool's size fits the address space");
        let mut memory = ZeroedArray::<CacheLine>::new(lines);
        let start = NonNull::from(&mut *memory).cast();
        let region = Region::new(start, frames, memory);
        let mut pool = Self::over(region, frames, Stride::of(stride));
        pool.packet_bytes = packet_bytes;
        pool
    }

    /// A pool of buffers that have yet to come into being.
    fn over(region: Arc<Region>, frames: usize, stride: Stride) -> Self {
        Self {
            region,
            free: Vec::new(),
            fresh: 0,
            packet_bytes: stride.bytes - OVERHEAD,
            stride,
            frames,
            low_water: frames,
            exhausted: 0,
            is_lending: false,
        }
    }

    /// An empty frame with full headroom, or `None` (counted) when all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        if self.free.is_empty() {
            self.collect_returned();
        }
        let Some(buffer) = self.free.pop().or_else(|| self.fresh_buffer()) else {
            self.exhausted += 1;
            return None;
        };
        self.low_water = self
            .low_water
            .min(self.free.len() + self.frames - self.fresh);
        let mut frame = Frame(buffer.0);
        let book = frame.book_mut();
        (book.head, book.len, book.segment_bytes) = (HEADROOM as u32, 0, 0);
        (book.metadata, book.ordinal) = (PackedMetadata::default(), 0);
        Some(frame)
    }

    /// A frame with a copy of `packet`, or `None` when all are in use or it is too long.
    pub fn take_filled(&mut self, packet: &[u8]) -> Option<Frame> {
        let mut frame = self.take()?;
        frame.fill(packet).then_some(frame)
    }

    /// Gives a frame back. A frame of another pool finds its own way home.
    #[inline]
    pub fn give(&mut self, frame: Frame) {
        if self.owns(&frame) {
            self.free.push(frame.into_raw());
        }
    }

    /// Buffers come into being when they are first needed, so that a large pool that is hardly
    /// used hardly takes memory.
    #[cold]
    fn fresh_buffer(&mut self) -> Option<Buffer> {
        if self.fresh == self.frames {
            return None;
        }
        let buffer = new_buffer(
            &self.region,
            self.fresh * self.stride.bytes,
            self.stride.capacity,
        );
        self.fresh += 1;
        Some(buffer)
    }

    /// Makes the buffers now that would be made when they are first needed, unless they are too
    /// many: see [`ZeroedArray::touch`].
    fn touch(&mut self) {
        const MOST_BYTES: usize = 256 << 20;
        let most = (MOST_BYTES / self.stride.bytes).min(self.frames);
        let missing = most.saturating_sub(self.fresh);
        self.free.reserve(missing);
        for _ in 0..missing {
            let Some(buffer) = self.fresh_buffer() else {
                return;
            };
            self.free.push(buffer);
        }
    }

    /// Becomes `larger` if that has more buffers, and goes on counting; what is left of the two is
    /// returned. Frames under way find their own way home.
    fn grow_to(&mut self, mut larger: Self) -> Self {
        if larger.frames > self.frames {
            (larger.low_water, larger.exhausted) = (self.low_water, self.exhausted);
            std::mem::swap(self, &mut larger);
        }
        larger
    }

    fn collect_returned(&mut self) {
        while let Some(buffer) = self.region.returned.pop() {
            self.free.push(buffer);
        }
    }

    /// Buffers in the pool.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Longest packet that a buffer takes, in bytes.
    pub fn packet_bytes(&self) -> usize {
        self.packet_bytes
    }

    /// Buffers free at this moment.
    pub fn available(&mut self) -> usize {
        self.collect_returned();
        self.at_hand()
    }

    /// Whether more buffers than these are free.
    #[inline]
    pub fn has_more_than(&mut self, frames: usize) -> bool {
        self.at_hand() > frames || self.available() > frames
    }

    /// Free buffers, but for those that came back since they were last collected.
    fn at_hand(&self) -> usize {
        self.free.len() + self.frames - self.fresh
    }

    /// Fewest buffers that were ever free on the owner's side.
    pub fn low_water(&self) -> usize {
        self.low_water
    }

    /// How often [`Self::take`] found nothing.
    pub fn exhausted(&self) -> u64 {
        self.exhausted
    }
}

/// How buffers lie in their region.
#[derive(Copy, Clone)]
struct Stride {
    bytes: usize,
    capacity: u32,
}

impl Stride {
    const fn of(bytes: usize) -> Self {
        Self {
            bytes,
            capacity: (bytes - BOOKKEEPING) as u32,
        }
    }
}

fn new_buffer(region: &Arc<Region>, offset: usize, capacity: u32) -> Buffer {
    let book = Bookkeeping {
        home: Some(Arc::clone(region)),
        timestamp: Instant::ZERO,
        received_ns: 0,
        ordinal: 0,
        capacity,
        head: HEADROOM as u32,
        len: 0,
        port: 0,
        segment_bytes: 0,
        metadata: PackedMetadata::default(),
        ticket: Ticket::default(),
    };
    // SAFETY: `offset` is a multiple of the stride below the region's size, and the region is
    // aligned for bookkeeping because the stride is a multiple of 64.
    let place = unsafe { region.start.add(offset) }.cast::<Bookkeeping>();
    // SAFETY: the place is ours, aligned and large enough.
    unsafe { place.write(book) };
    Buffer(place)
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.region.closed.store(true, Ordering::SeqCst);
        for mut buffer in self.free.drain(..) {
            // SAFETY: a free buffer is owned by the pool alone; the pool still holds the region.
            drop(unsafe { buffer.0.as_mut() }.home.take());
        }
        self.write_off_lent();
        self.region.retire_returned();
    }
}

/// Buffers of two sizes: many for ordinary packets and a few for the longest there are, such as
/// captures taken in front of segmentation offload hold.
pub struct Pools {
    small: Pool,
    large: Pool,
    /// See [`Self::note_headers`].
    headers: Option<Vec<DroppedHeader>>,
}

/// A header that was given back to its pool, while its payload waits elsewhere.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DroppedHeader {
    /// What it was split under.
    pub ticket: Ticket,
    /// Bytes of the payload.
    pub parked_bytes: u16,
}

/// Longest packet of an ordinary buffer, in bytes: a full Ethernet frame with tags, and room for
/// what a rewrite may add. Such a buffer takes 33 cache lines, [an odd number](Pool::new).
pub const SMALL_PACKET_BYTES: usize = 33 * 64 - BOOKKEEPING - HEADROOM;

/// Longest packet at all, in bytes.
pub const LARGE_PACKET_BYTES: usize = 65_536 + 64;

impl Pools {
    /// Pools of `small` ordinary and `large` long buffers.
    pub fn new(small: usize, large: usize) -> Self {
        Self {
            small: Pool::new(small, SMALL_PACKET_BYTES),
            large: Pool::new(large, LARGE_PACKET_BYTES),
            headers: None,
        }
    }

    /// From now on headers that are [given](Self::give) back are noted, for whoever is to hear that
    /// they were dropped.
    pub fn note_headers(&mut self) {
        self.headers.get_or_insert_default();
    }

    /// One of the headers that were given back since they were noted.
    pub fn take_dropped_header(&mut self) -> Option<DroppedHeader> {
        self.headers.as_mut()?.pop()
    }

    /// Nobody is to hear of the headers that were given back so far.
    pub fn forget_dropped_headers(&mut self) {
        self.headers.iter_mut().for_each(Vec::clear);
    }

    /// Takes the memory of ordinary buffers now, before packets could wait for it. Long buffers
    /// are rarely needed, and theirs is taken in passing.
    pub fn touch(&mut self) {
        self.small.touch();
    }

    /// An empty frame with room for `packet_bytes`.
    #[inline]
    pub fn take(&mut self, packet_bytes: usize) -> Option<Frame> {
        match packet_bytes {
            0..=SMALL_PACKET_BYTES => self.small.take(),
            _ if packet_bytes <= LARGE_PACKET_BYTES => self.large.take(),
            _ => None,
        }
    }

    /// A frame with a copy of `packet`.
    #[inline]
    pub fn take_filled(&mut self, packet: &[u8]) -> Option<Frame> {
        let mut frame = self.take(packet.len())?;
        frame.fill(packet).then_some(frame)
    }

    /// Gives a frame back to the pool it came from.
    #[inline]
    pub fn give(&mut self, frame: Frame) {
        self.note_header(&frame);
        if frame.book().capacity > self.small.stride.capacity {
            self.large.give(frame)
        } else {
            self.small.give(frame)
        }
    }

    /// The same frame without its packet, for a message. If it was a header, none is left.
    pub fn emptied(&mut self, mut frame: Frame) -> Frame {
        self.note_header(&frame);
        frame.fill(&[]);
        let metadata = frame.metadata();
        frame.set_metadata(Metadata {
            parked_bytes: 0,
            ..metadata
        });
        frame
    }

    #[inline]
    fn note_header(&mut self, frame: &Frame) {
        if let Some(headers) = &mut self.headers {
            let parked_bytes = frame.metadata().parked_bytes;
            if parked_bytes != 0 {
                let ticket = frame.ticket();
                headers.push(DroppedHeader {
                    ticket,
                    parked_bytes,
                });
            }
        }
    }

    /// Becomes `larger` where that has more buffers, and goes on counting. Returns what is left of
    /// the two, to be freed elsewhere; frames under way find their own way home.
    pub fn grow_to(&mut self, larger: Self) -> Self {
        Self {
            small: self.small.grow_to(larger.small),
            large: self.large.grow_to(larger.large),
            headers: None,
        }
    }

    /// The pool of ordinary buffers.
    pub fn small(&mut self) -> &mut Pool {
        &mut self.small
    }

    /// The pool of long buffers.
    pub fn large(&mut self) -> &mut Pool {
        &mut self.large
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_bounded_and_counts_when_it_is_empty() {
        let mut pool = Pool::new(2, 100);
        let (first, second) = (pool.take(), pool.take());
        assert!(first.is_some() && second.is_some() && pool.take().is_none());
        assert_eq!((pool.exhausted(), pool.low_water()), (1, 0));
        drop(first);
        assert_eq!(pool.available(), 1, "a dropped frame comes home");
        pool.give(second.expect("taken above"));
        assert_eq!(pool.available(), 2);
    }

    #[test]
    fn headers_are_pushed_into_the_headroom_and_pulled_off() {
        let mut pool = Pool::new(1, 100);
        let mut frame = pool.take_filled(b"packet").expect("room");
        frame
            .push_front(4)
            .expect("headroom")
            .copy_from_slice(b"head");
        assert_eq!(frame.bytes(), b"headpacket");
        assert!(frame.pull_front(4));
        assert_eq!(frame.bytes(), b"packet");
        assert!(frame.push_front(HEADROOM + 1).is_none());
        assert!(!frame.pull_front(7));
        assert!(!frame.set_len(4096));
    }

    #[test]
    fn frames_come_home_from_other_threads() {
        let mut pool = Pool::new(64, 64);
        for _ in 0..100 {
            let frames: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
            assert_eq!(frames.len(), 64);
            std::thread::spawn(move || drop(frames))
                .join()
                .expect("no panic");
        }
    }

    #[test]
    fn frames_outlive_their_pool() {
        for _ in 0..50 {
            let mut pool = Pool::new(8, 64);
            let mut frames: Vec<_> = std::iter::from_fn(|| pool.take_filled(b"x")).collect();
            let dropper = std::thread::spawn(move || drop(pool));
            frames.truncate(4);
            dropper.join().expect("no panic");
            assert!(frames.iter().all(|frame| frame.bytes() == b"x"));
        }
    }

    #[test]
    fn pools_grow_while_frames_are_under_way() {
        let mut pools = Pools::new(2, 3);
        let [first, second] = [(); 2].map(|()| pools.take_filled(b"x").expect("room"));
        assert!(pools.take(1).is_none());
        let left = pools.grow_to(Pools::new(3, 2));
        assert_eq!((pools.small.frames, pools.large.frames), (3, 3));
        assert_eq!((pools.small.exhausted, pools.small.low_water), (1, 0));
        assert_eq!((left.small.frames, left.large.frames), (2, 2));
        pools.give(first);
        drop(left);
        assert_eq!(second.bytes(), b"x");
        drop(second);
        let taken: Vec<_> = std::iter::from_fn(|| pools.take(1)).collect();
        assert_eq!(taken.len(), 3);
    }

    #[test]
    fn metadata_is_kept_whole() {
        let mut frame = Pool::new(1, 64).take().expect("free");
        for bits in 0..128u16 {
            let is = |bit: u16| bits & 1 << bit != 0;
            let metadata = Metadata {
                direction: Direction::BOTH[usize::from(is(0))],
                egress: is(1).then_some(bits),
                was_on_slow_path: is(2),
                is_answer: is(3),
                parked_bytes: if is(4) { 900 } else { 0 },
                has_bad_checksum: is(5),
                has_place: is(6),
            };
            frame.set_metadata(metadata);
            assert_eq!(frame.metadata(), metadata);
            frame.set_egress(None);
            frame.set_direction(Direction::Reply);
            let changed = Metadata {
                egress: None,
                direction: Direction::Reply,
                ..metadata
            };
            assert_eq!(frame.metadata(), changed);
        }
    }

    #[test]
    fn pools_choose_by_size() {
        let mut pools = Pools::new(1, 1);
        let long = pools.take_filled(&[1; 9000]).expect("fits a long buffer");
        assert!(pools.take(9000).is_none());
        pools.give(long);
        assert_eq!(pools.large().available(), 1);
        assert!(pools.take(LARGE_PACKET_BYTES + 1).is_none());
        let small = pools
            .take_filled(&[1; SMALL_PACKET_BYTES])
            .expect("fits an ordinary buffer");
        pools.give(small);
        assert_eq!(pools.small().available(), 1);
    }
}
