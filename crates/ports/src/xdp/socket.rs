//! The socket of one queue, and the memory that it shares with the kernel.

use super::rings::{Ring, Side};
use crate::counters::PortCounters;
use crate::interface::Interface;
use crate::kept::Keeper;
use crate::sys::{self, Mapping};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};
use twinpath_core::{Frame, Pools};

/// Entries of each ring, and chunks of memory for either direction.
const ENTRIES: u32 = 4096;

/// The page of each ring in the socket's file.
const RX_PAGE: u64 = 0;
const TX_PAGE: u64 = 0x8000_0000;
const FILL_PAGE: u64 = 0x1_0000_0000;
const COMPLETION_PAGE: u64 = 0x1_8000_0000;

/// Frames that a copying kernel sends in one go; absent in older kernels.
const MAX_TX_BUDGET: i32 = 9;
const TX_BUDGET: u32 = 256;

/// How often the kernel is asked to send what it left of a burst.
const KICKS: usize = 8;

/// A packet in the shared memory: `struct xdp_desc`.
#[repr(C)]
#[derive(Copy, Clone)]
struct Descriptor {
    address: u64,
    len: u32,
    options: u32,
}

pub struct Socket {
    socket: OwnedFd,
    memory: Mapping,
    chunk_bytes: usize,
    rx: Ring<Descriptor>,
    tx: Ring<Descriptor>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    /// Chunks for packets that leave.
    free: Vec<u64>,
    is_zero_copy: bool,
}

/// What of a queue's socket is kept beyond the process, and under which names.
struct Names {
    socket: String,
    memory: String,
}

impl Names {
    fn of(interface: u32, queue: u32) -> Self {
        let name = |what| format!("xdp-{interface}-{queue}-{what}");
        Self {
            socket: name("socket"),
            memory: name("memory"),
        }
    }
}

/// How long the kernel is waited for that has yet to send what a former process has left.
const SENDING: Duration = Duration::from_millis(200);
const SENDING_LOOK: Duration = Duration::from_millis(1);

impl Socket {
    /// Opens the socket of a queue, or goes on with one that was kept.
    pub fn open(interface: &Interface, queue: u32, keeper: &Keeper) -> io::Result<Self> {
        let names = Names::of(interface.index, queue);
        let kept = keeper.take(&names.socket).zip(keeper.take(&names.memory));
        if let Some((socket, memory)) = kept
            && let Ok(socket) = Self::go_on(socket, &memory, interface.mtu)
        {
            return Ok(socket);
        }
        // Whoever has the queue keeps others from it.
        Self::forget(interface.index, queue, keeper);
        let chunk_bytes = chunk_bytes(interface.mtu)?;
        let len = 2 * ENTRIES as usize * chunk_bytes;
        let file = sys::memory_file(len)?;
        let memory = Mapping::of_memory(&file, len)?;
        let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        register(&socket, &memory, chunk_bytes)?;
        make_rings(&socket)?;
        let _ = sys::set_option(&socket, libc::SOL_XDP, MAX_TX_BUDGET, TX_BUDGET);
        let mut own = Self::over(socket, memory, chunk_bytes)?;
        (0..ENTRIES).for_each(|number| {
            own.fill.put(own.chunk(number));
        });
        own.fill.submit();
        own.free = (ENTRIES..2 * ENTRIES).map(|one| own.chunk(one)).collect();
        own.is_zero_copy = bind(&own.socket, interface.index, queue)?;
        keeper.keep(&names.memory, &file);
        keeper.keep(&names.socket, &own.socket);
        Ok(own)
    }

    /// Nobody keeps the socket of a queue any more.
    pub fn forget(interface: u32, queue: u32, keeper: &Keeper) {
        let names = Names::of(interface, queue);
        keeper.forget(&names.socket);
        keeper.forget(&names.memory);
    }

    /// Goes on where a former process has left off: what has arrived is in the ring. Of the chunks for
    /// packets that leave those are free that the kernel does not have.
    fn go_on(socket: OwnedFd, file: &OwnedFd, mtu: usize) -> io::Result<Self> {
        let chunk_bytes = chunk_bytes(mtu)?;
        let len = 2 * ENTRIES as usize * chunk_bytes;
        if sys::length(file)? != len as u64 || !sys::is_of_this_network(&socket) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let memory = Mapping::of_memory(file, len)?;
        let mut own = Self::over(socket, memory, chunk_bytes)?;
        own.is_zero_copy = is_zero_copy(&own.socket);
        own.wait_until_sent()?;
        own.take_back();
        let waiting: Vec<u64> = own.tx.waiting().map(|one| one.address).collect();
        let chunks = (ENTRIES..2 * ENTRIES).map(|one| own.chunk(one));
        own.free = chunks.filter(|one| !waiting.contains(one)).collect();
        Ok(own)
    }

    /// Each packet that the kernel has taken comes back when it is sent.
    fn wait_until_sent(&self) -> io::Result<()> {
        let end = Instant::now() + SENDING;
        while self.tx.count_taken() != self.completion.count_put() {
            if Instant::now() > end {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(SENDING_LOOK);
        }
        Ok(())
    }

    /// Over a socket whose rings are made, wherever they are.
    fn over(socket: OwnedFd, memory: Mapping, chunk_bytes: usize) -> io::Result<Self> {
        let at = ring_offsets(&socket)?;
        Ok(Self {
            fill: Ring::map(&socket, FILL_PAGE, &at.fr, ENTRIES, Side::Producer)?,
            completion: Ring::map(&socket, COMPLETION_PAGE, &at.cr, ENTRIES, Side::Consumer)?,
            rx: Ring::map(&socket, RX_PAGE, &at.rx, ENTRIES, Side::Consumer)?,
            tx: Ring::map(&socket, TX_PAGE, &at.tx, ENTRIES, Side::Producer)?,
            socket,
            memory,
            chunk_bytes,
            free: Vec::new(),
            is_zero_copy: false,
        })
    }

    fn chunk(&self, number: u32) -> u64 {
        u64::from(number) * self.chunk_bytes as u64
    }

    pub fn descriptor(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    pub const fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Receives up to `most` frames, appended to `burst`.
    pub fn receive(
        &mut self,
        pools: &mut Pools,
        burst: &mut Vec<Frame>,
        most: usize,
        counters: &mut PortCounters,
    ) {
        let mut taken = 0;
        while taken < most
            && let Some(packet) = self.rx.take()
        {
            taken += 1;
            counters.received(packet.len as usize);
            match pools.take_filled(self.packet(packet)) {
                Some(frame) => burst.push(frame),
                None => counters.receive_no_buffer += 1,
            }
            let chunk = packet.address - packet.address % self.chunk_bytes as u64;
            self.fill.put(chunk);
        }
        if taken > 0 {
            self.rx.release();
            self.fill.submit();
        }
        if self.fill.needs_wakeup() {
            self.kick_receive();
        }
    }

    fn packet(&self, packet: Descriptor) -> &[u8] {
        let len = (packet.len as usize).min(self.chunk_bytes);
        let place = self.memory.at(packet.address as usize, len);
        // SAFETY: inside the mapping, and ours until its chunk is in the fill ring again.
        unsafe { std::slice::from_raw_parts(place.as_ptr(), len) }
    }

    /// Queues a copy of a frame. False if there is no room.
    pub fn transmit(&mut self, bytes: &[u8]) -> bool {
        if self.free.is_empty() {
            self.flush();
        }
        if bytes.len() > self.chunk_bytes {
            return false;
        }
        let Some(address) = self.free.pop() else {
            return false;
        };
        let place = self.memory.at(address as usize, bytes.len());
        // SAFETY: the chunk is ours until it is in the ring, and long enough.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
        let entry = Descriptor {
            address,
            len: bytes.len() as u32,
            options: 0,
        };
        let has_room = self.tx.put(entry);
        if !has_room {
            self.free.push(address);
        }
        has_room
    }

    /// Has the kernel send what is queued, and takes back what was sent.
    pub fn flush(&mut self) {
        self.tx.submit();
        for _ in 0..KICKS {
            if self.tx.needs_wakeup() && !self.tx.is_drained() {
                self.kick_send();
            }
            self.take_back();
            if !self.tx.needs_wakeup() || self.tx.is_drained() {
                break;
            }
        }
    }

    fn take_back(&mut self) {
        while let Some(address) = self.completion.take() {
            self.free.push(address);
        }
        self.completion.release();
    }

    fn kick_send(&self) {
        // SAFETY: nothing is sent but what is in the ring. What the kernel cannot take now stays.
        unsafe {
            libc::sendto(
                self.descriptor(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            );
        }
    }

    fn kick_receive(&self) {
        // SAFETY: nothing is received but what comes to the ring.
        unsafe {
            libc::recvfrom(
                self.descriptor(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            );
        }
    }

    /// Frames that came while there was no room for them, since the start.
    pub fn missed(&self) -> u64 {
        let none = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        let counted = sys::option(&self.socket, libc::SOL_XDP, libc::XDP_STATISTICS, none);
        counted.map_or(0, |counted| counted.rx_dropped + counted.rx_ring_full)
    }
}

/// Memory for a packet: a power of two, in which the kernel keeps a few hundred bytes for itself.
fn chunk_bytes(mtu: usize) -> io::Result<usize> {
    match mtu {
        0..=1600 => Ok(2048),
        1601..=3600 => Ok(4096),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("an MTU of {mtu}: AF_XDP takes packets of up to 3600 bytes"),
        )),
    }
}

fn register(socket: &OwnedFd, memory: &Mapping, chunk_bytes: usize) -> io::Result<()> {
    let umem = libc::xdp_umem_reg {
        addr: memory.at(0, memory.len()).as_ptr() as u64,
        len: memory.len() as u64,
        chunk_size: chunk_bytes as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    sys::set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, umem)
}

fn make_rings(socket: &OwnedFd) -> io::Result<()> {
    for ring in [
        libc::XDP_UMEM_FILL_RING,
        libc::XDP_UMEM_COMPLETION_RING,
        libc::XDP_RX_RING,
        libc::XDP_TX_RING,
    ] {
        sys::set_option(socket, libc::SOL_XDP, ring, ENTRIES)?;
    }
    Ok(())
}

/// Where in the rings things are.
fn ring_offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: plain data, of which all zeros are a value.
    let none: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    sys::option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, none)
}

/// Whether the card writes to our memory, of a socket that is bound.
fn is_zero_copy(socket: &OwnedFd) -> bool {
    let options: io::Result<u32> = sys::option(socket, libc::SOL_XDP, libc::XDP_OPTIONS, 0);
    options.is_ok_and(|options| options & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// Binds the socket to a queue. Returns whether the card writes to our memory.
fn bind(socket: &OwnedFd, interface: u32, queue: u32) -> io::Result<bool> {
    let bind = |mode: u16| {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP | mode,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        sys::bind(socket, address)
    };
    match bind(libc::XDP_ZEROCOPY) {
        Ok(()) => Ok(true),
        Err(_) => bind(libc::XDP_COPY).map(|()| false),
    }
}
