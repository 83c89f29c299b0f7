//! AF_PACKET: works on every interface, and beside everything else that uses it.
//!
//! Bursts are received straight into buffers of the pool and sent straight from them, each with the
//! kernel's word on [offloads](crate::offload) in front. A frame that is longer than an ordinary
//! buffer goes on in memory beside it, and is put together in a long buffer; while most frames are so
//! long, they are received into [long buffers](receive_buffers::ReceiveBuffers). The kernel keeps a copy
//! of what arrives for itself, and answers or forwards what it can, unless a [program](Ingress) ends what
//! is the node's.

mod fan_out;
mod receive_buffers;

use crate::all_stations;
use crate::counters::PortCounters;
use crate::descriptor_store::DescriptorStore;
use crate::filter::let_nothing_in;
use crate::interface::Interface;
use crate::messages::{BURST, Messages, Received};
use crate::offload::{Oversized, Segments, VNET_BYTES, VnetHeader, check_length, put_tag};
use crate::part::Part;
use crate::program::{HostPrefix, Ingress};
use crate::stripping::Stripping;
use crate::sys;
use receive_buffers::ReceiveBuffers;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use twinpath_core::pool::{LARGE_PACKET_BYTES, SMALL_PACKET_BYTES};
use twinpath_core::{Frame, Pools};

/// What the kernel may keep for us, and take from us, in bytes.
const SOCKET_BYTES: libc::c_int = 32 << 20;

/// What a message says of its frame, and where a long frame goes on.
struct Ancillary {
    header: [u8; VNET_BYTES],
    rest: [u8; LARGE_PACKET_BYTES],
}

/// A socket on an interface.
pub struct PacketPort {
    socket: OwnedFd,
    mtu: usize,
    messages: Messages,
    ancillary: Vec<Box<Ancillary>>,
    empty: ReceiveBuffers,
    /// What waits to be sent.
    leaving: Vec<Frame>,
    /// Frames that the kernel has put into the socket, as far as it was asked, and those that were read.
    queued: u64,
    read: u64,
    /// Keeps the kernel from what is the node's; of several parts the first has it for all.
    ingress: Option<Ingress>,
    /// Why there is none, where one is wanted.
    lacks_ingress: Option<String>,
}

/// What the kernel does with what arrives, beside the node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// It gets a copy of everything.
    SeesAll,
    /// Only what is this host's.
    SeesItsOwn,
    /// Nothing but frames with VLAN tags.
    SeesNothing,
}

impl PacketPort {
    /// Opens a socket that sees every frame which arrives at an interface, also those for other
    /// stations; of several parts, each sees some. The kernel sees all where it cannot be kept from it.
    ///
    /// # Errors
    /// It is not permitted (CAP_NET_RAW), or the interface is gone.
    pub fn open(interface: &Interface, part: &Part, kernel: Kernel) -> io::Result<Self> {
        let name = name(interface, part);
        let kept = part.descriptor_store().take(&name);
        let socket = match kept.filter(|socket| fits(socket, interface, part)) {
            Some(socket) => socket,
            None => {
                // A socket that does not fit would get packets that nobody reads.
                part.descriptor_store().forget(&name);
                let socket = open_socket(interface, part)?;
                part.descriptor_store().keep(&name, &socket);
                socket
            }
        };
        let ancillary = || Ancillary {
            header: [0; VNET_BYTES],
            rest: [0; LARGE_PACKET_BYTES],
        };
        let mut port = Self {
            socket,
            mtu: interface.mtu,
            messages: Messages::default(),
            ancillary: (0..BURST).map(|_| Box::new(ancillary())).collect(),
            empty: ReceiveBuffers::default(),
            leaving: Vec::with_capacity(BURST),
            queued: 0,
            read: 0,
            ingress: None,
            lacks_ingress: None,
        };
        if part.number == 0 {
            Stripping::as_before(interface);
            port.keep_kernel_from(interface, kernel, part.descriptor_store());
        }
        Ok(port)
    }

    /// The kernel is to see no more of what arrives.
    fn keep_kernel_from(&mut self, interface: &Interface, kernel: Kernel, store: &DescriptorStore) {
        let is_shared = match kernel {
            Kernel::SeesAll => return,
            Kernel::SeesItsOwn => true,
            Kernel::SeesNothing => false,
        };
        match Ingress::attach(interface.index, is_shared, store) {
            Ok(ingress) => self.ingress = Some(ingress),
            Err(error) => self.lacks_ingress = Some(error.to_string()),
        }
    }

    /// Why the kernel sees what it is not to see.
    pub fn lacks_ingress(&self) -> Option<&str> {
        self.lacks_ingress.as_deref()
    }

    /// Whether the kernel does not see what is the node's.
    pub const fn is_alone(&self) -> bool {
        self.ingress.is_some()
    }

    /// Packets to these prefixes are this host's, or not, where it shares the interface.
    ///
    /// # Errors
    /// There are too many.
    pub fn set_host(&mut self, prefixes: &BTreeSet<HostPrefix>) -> io::Result<()> {
        match &mut self.ingress {
            Some(ingress) => ingress.set_prefixes(prefixes),
            None => Ok(()),
        }
    }

    /// Nobody keeps it any more: its interface is gone.
    pub fn forget(interface: &Interface, part: &Part) {
        part.descriptor_store().forget(&name(interface, part));
        Ingress::forget(interface.index, part.descriptor_store());
    }

    /// Whether it is on this interface still: the kernel takes it off one that leaves its network.
    pub fn is_bound(&self, interface: &Interface) -> bool {
        sys::is_bound_to(&self.socket, &address(interface))
    }

    /// What is waited for.
    pub fn descriptor(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// The interface has another MTU.
    pub fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    /// Receives up to `most` frames, appended to `burst`.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn receive(
        &mut self,
        pools: &mut Pools,
        burst: &mut Vec<Frame>,
        most: usize,
        counters: &mut PortCounters,
    ) -> io::Result<()> {
        self.prepare(pools, most.min(BURST));
        if self.messages.count() == 0 {
            return Ok(());
        }
        // SAFETY: the parts are those of buffers that we hold, and of `ancillary`, untouched since.
        let count = unsafe { self.messages.receive(&self.socket) }?;
        self.read += count as u64;
        let mut long = 0;
        let buffers = self.empty.filled(count);
        for (number, (frame, ancillary)) in buffers.zip(&self.ancillary).enumerate() {
            let received = self.messages.received(number);
            long += usize::from(received.len > VNET_BYTES + SMALL_PACKET_BYTES);
            if let Some((frame, segments)) = keep(received, frame, ancillary, pools, counters) {
                segments.hand_on(frame, pools, burst, counters);
            }
        }
        self.empty.note(count, long);
        Ok(())
    }

    /// A message for each of up to `most` buffers.
    fn prepare(&mut self, pools: &mut Pools, most: usize) {
        self.messages.clear();
        let buffers = self.empty.prepare(most, pools);
        for (frame, ancillary) in buffers.zip(&mut self.ancillary) {
            let room = frame.room();
            frame.set_len(room);
            let parts = [
                &mut ancillary.header[..],
                frame.bytes_mut(),
                &mut ancillary.rest,
            ];
            self.messages.receive_into(parts);
        }
    }

    /// Queues a frame that leaves; it is sent by [`Self::flush`].
    pub fn transmit(&mut self, frame: Frame, pools: &mut Pools, counters: &mut PortCounters) {
        if check_length(&frame, self.mtu) == Err(Oversized::Frame) {
            counters.transmit_too_long += 1;
            return pools.give(frame);
        }
        self.leaving.push(frame);
        if self.leaving.len() == BURST {
            self.flush(pools, counters);
        }
    }

    /// Sends what is queued.
    pub fn flush(&mut self, pools: &mut Pools, counters: &mut PortCounters) {
        if self.leaving.is_empty() {
            return;
        }
        self.messages.clear();
        for (frame, ancillary) in self.leaving.iter_mut().zip(&mut self.ancillary) {
            ancillary.header = VnetHeader::leave(frame).to_bytes();
            self.messages.send_from([&ancillary.header, frame.bytes()]);
        }
        self.send_all(counters);
        self.leaving.drain(..).for_each(|frame| pools.give(frame));
    }

    /// What the kernel does not take is dropped: one frame that it refuses does not keep the others.
    fn send_all(&mut self, counters: &mut PortCounters) {
        let mut sent = 0;
        while sent < self.leaving.len() {
            // SAFETY: the parts are those of buffers that we hold, and of `ancillary`, untouched since.
            let taken = unsafe { self.messages.send(&self.socket, sent) };
            let taken = taken.unwrap_or(0);
            for frame in &self.leaving[sent..sent + taken] {
                counters.transmitted(frame.len());
            }
            sent += taken;
            if taken == 0 {
                counters.transmit_refused += 1;
                sent += 1;
            }
        }
    }

    /// Frames that came while there was no room for them, since this was last asked.
    pub fn missed(&mut self) -> u64 {
        let none = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let counted = sys::option(
            &self.socket,
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            none,
        );
        let Ok(counted) = counted else {
            return 0;
        };
        // The kernel's count of packets includes those for which there was no room.
        self.queued += u64::from(counted.tp_packets.wrapping_sub(counted.tp_drops));
        counted.tp_drops.into()
    }

    /// Nothing comes into the socket any more. What is in it can still be read.
    pub fn refuse_more(&self) {
        // A filter instead of another binding: a socket of a group cannot be bound again. Where even
        // that fails, frames that come later are counted as unread, too.
        let _ = let_nothing_in(&self.socket);
    }

    /// Frames that lie in the socket, as of when [`Self::missed`] was asked last. Of a socket that a former
    /// process had nobody knows.
    pub fn unread(&self) -> u64 {
        self.queued.saturating_sub(self.read)
    }
}

/// A socket that nobody had before.
fn open_socket(interface: &Interface, part: &Part) -> io::Result<OwnedFd> {
    // Without a protocol nothing arrives before all is set.
    let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    let one: libc::c_int = 1;
    for option in [
        libc::PACKET_VNET_HDR,
        libc::PACKET_AUXDATA,
        libc::PACKET_IGNORE_OUTGOING,
    ] {
        sys::set_option(&socket, libc::SOL_PACKET, option, one)?;
    }
    for (forced, plain) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        sys::set_option(&socket, libc::SOL_SOCKET, forced, SOCKET_BYTES)
            .or_else(|_| sys::set_option(&socket, libc::SOL_SOCKET, plain, SOCKET_BYTES))?;
    }
    all_stations::ask_for(&socket, interface)?;
    match part.of {
        0 | 1 => sys::bind(&socket, address(interface))?,
        _ => fan_out::join(&socket, interface, part, || {
            sys::bind(&socket, address(interface))
        })?,
    }
    Ok(socket)
}

/// What a socket of this interface is kept as: the number of an interface is never another's.
fn name(interface: &Interface, part: &Part) -> String {
    format!("packet-{}-{}-{}", interface.index, part.number, part.of)
}

/// Whether a socket that was kept is what [`open_socket`] would open. Parts share what arrives only
/// within one group.
fn fits(socket: &OwnedFd, interface: &Interface, part: &Part) -> bool {
    if !sys::is_bound_to(socket, &address(interface)) || !sys::is_of_this_network(socket) {
        return false;
    }
    let group = fan_out::group_of(socket);
    match (part.of, group) {
        (0 | 1, group) => group.is_none(),
        (_, None) => false,
        (_, Some(own)) => part
            .group(interface, || Ok(own))
            .is_ok_and(|group| group == own),
    }
}

/// A frame that came, in a buffer that it fits, with what is left to do done.
fn keep(
    received: Received,
    mut frame: Frame,
    ancillary: &Ancillary,
    pools: &mut Pools,
    counters: &mut PortCounters,
) -> Option<(Frame, Segments)> {
    let Some(len) = received.len.checked_sub(VNET_BYTES) else {
        pools.give(frame);
        return None;
    };
    if received.is_cut {
        counters.receive_too_long += 1;
        pools.give(frame);
        return None;
    }
    let first = frame.len();
    if first > SMALL_PACKET_BYTES && len <= SMALL_PACKET_BYTES {
        frame = receive_buffers::moved(frame, len, pools);
    }
    if len > first {
        let whole = join(&frame, &ancillary.rest[..len - first], pools);
        pools.give(frame);
        let Some(whole) = whole else {
            counters.receive_no_buffer += 1;
            return None;
        };
        frame = whole;
    } else {
        frame.set_len(len);
    }
    counters.received(len);
    let segments = VnetHeader::of(&ancillary.header).accept(&mut frame);
    let has_tag = received.tag.is_none_or(|tag| put_tag(&mut frame, tag));
    let Some(segments) = segments.filter(|_| has_tag) else {
        counters.receive_malformed += 1;
        pools.give(frame);
        return None;
    };
    Some((frame, segments))
}

/// A long frame in a long buffer.
fn join(first: &Frame, rest: &[u8], pools: &mut Pools) -> Option<Frame> {
    let len = first.len() + rest.len();
    let mut whole = pools.take(len)?;
    whole.set_len(len);
    let (front, back) = whole.bytes_mut().split_at_mut(first.len());
    front.copy_from_slice(first.bytes());
    back.copy_from_slice(rest);
    Some(whole)
}

fn address(interface: &Interface) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface.index as libc::c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}
