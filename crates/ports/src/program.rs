//! The program that hands packets to the sockets, as instructions of the kernel's machine; and one like it
//! for sockets that get [copies](ingress).
//!
//! Where this host shares the interface ([`HostPrefix`]), packets for its own addresses, for groups and
//! for all, and what is no IP packet go to its network stack; so do questions about neighbours, but
//! for those about addresses that the node answers for.
//!
//! Where the kernel and the driver let it, the program puts back [VLAN tags](tags) that are beside a
//! frame. It then is one of this interface's driver alone.

pub(crate) mod assembler;
mod ingress;
mod tags;
mod types;

use crate::all_stations::AllStations;
use crate::descriptor_store::DescriptorStore;
use crate::interface::Interface;
use crate::stripping::Stripping;
use crate::sys;
use assembler::{Assembler, When, Width};
pub use ingress::Ingress;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use twinpath_core::wire::Address;

const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const PROGRAM_LOAD: i32 = 5;
const LINK_INFO: i32 = 15;
const LINK_CREATE: i32 = 28;
const LINK_UPDATE: i32 = 29;

const MAP_OF_SOCKETS: u32 = 17;
const MAP_OF_PREFIXES: u32 = 11;
const NO_PREALLOCATION: u32 = 1;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const PASS: i32 = 2;
const MAP_LOOKUP: i32 = 1;
const REDIRECT_MAP: i32 = 51;
const MODE_DRIVER: u32 = 1 << 2;
const MODE_GENERIC: u32 = 1 << 1;
/// The program is for one interface's driver, and may ask it about frames.
const BOUND_TO_DEVICE: u32 = 1 << 6;

/// Under what the instructions that are made here may be used, as the kernel has to be told: it lets only
/// programs under GPL-2.0 call its functions. They may be used under GPL-2.0 as well as under this
/// project's licence.
const LICENSE: &CStr = c"GPL";

/// Offset in the program's context.
const RX_QUEUE_INDEX: i16 = 16;

/// Room for the verifier's words.
const LOG_BYTES: usize = 64 << 10;

/// Most prefixes that can be told apart.
const MOST_PREFIXES: u32 = 4096;

/// Whose packets to a prefix are.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPrefix {
    /// The prefix's first address.
    pub network: Address,
    /// How many leading bits count, of 128 for both IP versions.
    pub bits: u8,
    /// Whether they are this host's; else they are the node's, whatever a shorter prefix says.
    pub is_hosts: bool,
}

/// A program and the map of its sockets; while it is there, it is on the interface.
pub struct Program {
    sockets: OwnedFd,
    /// Whose packets are whose, if this host shares the interface.
    prefixes: Option<Prefixes>,
    program: OwnedFd,
    link: Option<OwnedFd>,
    way: Attachment,
    /// How many queues the interface had when the program was put there.
    queues: u32,
    stripping: Option<Stripping>,
    all_stations: Option<AllStations>,
}

/// A map of prefixes, which a program looks into.
struct Prefixes {
    map: OwnedFd,
    known: BTreeSet<HostPrefix>,
}

/// How the program is on its interface.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Attachment {
    /// In front of the network stack; or nobody knows, for a former process has put it there.
    #[default]
    Generic,
    /// In the driver.
    Driver,
    /// In the driver, and it puts tags back.
    DriverWithTags,
}

/// What becomes of packets that are the node's, and of others. The context is in register 6.
#[derive(Copy, Clone)]
enum Way {
    /// The socket of the queue has them, of all that are in this map.
    ToSocket {
        sockets: i32,
        /// The function that tells tags that are beside a frame.
        tag_reader: Option<i32>,
    },
    /// A socket has a copy.
    Copied,
}

impl Way {
    /// What is done first with any packet.
    fn begun(self) -> Assembler {
        let mut code = Assembler::default();
        code.copy(6, 1);
        match self {
            Self::ToSocket {
                sockets,
                tag_reader: Some(reader),
            } => tags::put_back(&mut code, sockets, reader),
            Self::ToSocket { .. } => {}
            Self::Copied => ingress::pass_tags(&mut code),
        }
        code
    }

    /// Where the context has the frame's beginning and its end.
    const fn frame_at(self) -> [i16; 2] {
        match self {
            Self::ToSocket { .. } => [0, 4],
            Self::Copied => ingress::FRAME_AT,
        }
    }

    /// A packet is the node's.
    fn take(self, code: &mut Assembler) {
        match self {
            Self::ToSocket { sockets, .. } => to_socket(code, sockets),
            Self::Copied => ingress::drop_copy(code),
        }
    }

    /// A packet is the kernel's.
    fn leave(self, code: &mut Assembler) {
        code.label("kernel");
        let verdict = match self {
            Self::ToSocket { .. } => PASS,
            Self::Copied => ingress::NEXT,
        };
        code.set(0, verdict);
        code.exit();
    }
}

/// `return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS)`: what comes by a queue without
/// a socket goes to the kernel.
fn to_socket(code: &mut Assembler, sockets: i32) {
    code.load(Width::Word, 2, 6, RX_QUEUE_INDEX);
    code.load_map(1, sockets);
    code.set(3, PASS);
    code.call(REDIRECT_MAP);
    code.exit();
}

/// Offsets in a frame, and in the key of the map, which lies at the stack's end.
mod at {
    pub const ETHER_TYPE: i16 = 12;
    pub const V4_DESTINATION: i16 = 30;
    pub const ARP_TARGET: i16 = 38;
    pub const V6_PROTOCOL: i16 = 20;
    pub const V6_DESTINATION: i16 = 38;
    pub const ICMP6_TYPE: i16 = 54;
    pub const SOLICITED: i16 = 62;
    pub const KEY_BITS: i16 = -20;
    pub const KEY: i16 = -16;
}

const STACK: u8 = 10;
/// The register of the frame's beginning, of its end, and of what becomes of addresses of which
/// nothing is said: 0 for the kernel, 1 for the socket.
const FRAME: u8 = 7;
const END: u8 = 8;
const DEFAULT: u8 = 9;

/// Goes on where a frame has so many bytes.
fn needs(code: &mut Assembler, bytes: i32) {
    code.copy(2, FRAME);
    code.add(2, bytes);
    code.jump_if_greater(2, END, "kernel");
}

/// Puts an address of IPv4 at an offset into the key.
fn key_v4(code: &mut Assembler, offset: i16) {
    code.store_number(STACK, at::KEY, 0);
    code.store_number(STACK, at::KEY + 4, 0);
    code.store_number(STACK, at::KEY + 8, i32::from_ne_bytes([0, 0, 0xff, 0xff]));
    code.load(Width::Word, 2, FRAME, offset);
    code.store(STACK, at::KEY + 12, 2);
}

/// The same of IPv6.
fn key_v6(code: &mut Assembler, offset: i16) {
    for word in 0..4 {
        code.load(Width::Word, 2, FRAME, offset + 4 * word);
        code.store(STACK, at::KEY + 4 * word, 2);
    }
}

/// The program for an interface that this host shares.
fn sharing(way: Way, prefixes: i32) -> (Vec<u8>, u32) {
    let mut code = way.begun();
    let kind = |bytes: [u8; 2]| i32::from(u16::from_ne_bytes(bytes));
    let [first, end] = way.frame_at();
    code.load(Width::Word, FRAME, 6, first);
    code.load(Width::Word, END, 6, end);
    needs(&mut code, 34);
    code.set(DEFAULT, 1);
    code.load(Width::Half, 2, FRAME, at::ETHER_TYPE);
    code.jump_if(2, When::Equal, kind([0x08, 0x00]), "v4");
    code.jump_if(2, When::Equal, kind([0x86, 0xdd]), "v6");
    code.jump_if(2, When::Equal, kind([0x81, 0x00]), "socket");
    code.jump_if(2, When::Equal, kind([0x88, 0xa8]), "socket");
    code.jump_if(2, When::NotEqual, kind([0x08, 0x06]), "kernel");
    // ARP: whom a question is about.
    needs(&mut code, 42);
    code.set(DEFAULT, 0);
    key_v4(&mut code, at::ARP_TARGET);
    code.jump("look");

    code.label("v4");
    code.load(Width::Byte, 2, FRAME, 0);
    code.and(2, 1);
    code.jump_if(2, When::NotEqual, 0, "kernel");
    code.load(Width::Byte, 2, FRAME, at::V4_DESTINATION);
    code.jump_if(2, When::AtLeast, 240, "high v4");
    code.jump_if(2, When::AtLeast, 224, "kernel");
    code.jump("one's v4");
    // Of what is reserved one address is for all; routes may lead to the others.
    code.label("high v4");
    code.load(Width::Half, 2, FRAME, at::V4_DESTINATION);
    code.jump_if(2, When::NotEqual, kind([0xff; 2]), "one's v4");
    code.load(Width::Half, 2, FRAME, at::V4_DESTINATION + 2);
    code.jump_if(2, When::Equal, kind([0xff; 2]), "kernel");
    code.label("one's v4");
    key_v4(&mut code, at::V4_DESTINATION);
    code.jump("look");

    code.label("v6");
    needs(&mut code, 54);
    code.load(Width::Byte, 2, FRAME, at::V6_DESTINATION);
    code.jump_if(2, When::Equal, 0xff, "group");
    code.load(Width::Half, 2, FRAME, at::V6_DESTINATION);
    code.and(2, kind([0xff, 0xc0]));
    code.jump_if(2, When::Equal, kind([0xfe, 0x80]), "kernel");
    key_v6(&mut code, at::V6_DESTINATION);
    code.jump("look");

    code.label("group");
    needs(&mut code, 78);
    code.load(Width::Byte, 2, FRAME, at::V6_PROTOCOL);
    code.jump_if(2, When::NotEqual, 58, "kernel");
    code.load(Width::Byte, 2, FRAME, at::ICMP6_TYPE);
    code.jump_if(2, When::NotEqual, 135, "kernel");
    code.set(DEFAULT, 0);
    key_v6(&mut code, at::SOLICITED);

    code.label("look");
    code.store_number(STACK, at::KEY_BITS, 128);
    code.copy(2, STACK);
    code.add(2, i32::from(at::KEY_BITS));
    code.load_map(1, prefixes);
    code.call(MAP_LOOKUP);
    code.jump_if(0, When::Equal, 0, "unknown");
    code.load(Width::Word, 2, 0, 0);
    code.jump_if(2, When::NotEqual, 0, "kernel");
    code.jump("socket");
    code.label("unknown");
    code.jump_if(DEFAULT, When::Equal, 0, "kernel");
    code.label("socket");
    way.take(&mut code);
    way.leave(&mut code);
    code.finish()
}

/// The program for an interface that is the node's alone.
fn taking_all(way: Way) -> (Vec<u8>, u32) {
    let mut code = way.begun();
    way.take(&mut code);
    // The kernel refuses instructions that are never reached.
    if let Way::Copied = way {
        way.leave(&mut code);
    }
    code.finish()
}

impl Program {
    /// Loads the program for up to so many queues; where this host shares the interface, its packets go
    /// to it.
    ///
    /// # Errors
    /// It is not permitted; what the verifier says is in the message.
    pub fn load(queues: u32, is_shared: bool) -> io::Result<Self> {
        let map = [MAP_OF_SOCKETS, 4, 4, queues.max(1), 0];
        let sockets = sys::bpf_descriptor(MAP_CREATE, &words(&map))?;
        let prefixes = is_shared.then(Prefixes::new).transpose()?;
        let (code, count) = instructions(&sockets, prefixes.as_ref(), None);
        Ok(Self {
            program: load(&code, count)?,
            sockets,
            prefixes,
            link: None,
            way: Attachment::default(),
            queues: 0,
            stripping: None,
            all_stations: None,
        })
    }

    fn without_tags(&self) -> io::Result<OwnedFd> {
        let (code, count) = instructions(&self.sockets, self.prefixes.as_ref(), None);
        load(&code, count)
    }

    /// The same program for the driver of one interface, which puts tags back; nothing where the kernel
    /// or the driver does not tell them.
    fn with_tags(&self, interface: u32) -> Option<OwnedFd> {
        let reader = types::tag_reader()?;
        let (code, count) = instructions(&self.sockets, self.prefixes.as_ref(), Some(reader));
        load_for(&code, count, PROGRAM_XDP, Some(interface)).ok()
    }

    /// Whether it is in the interface's driver, as far as that is known.
    pub fn is_in_driver(&self) -> bool {
        self.way != Attachment::Generic
    }

    /// Whether it puts tags back that are beside frames.
    pub fn puts_tags_back(&self) -> bool {
        self.way == Attachment::DriverWithTags
    }

    /// Whether the interface takes tags off, for it cannot do otherwise.
    pub fn strips_tags(&self) -> bool {
        self.stripping.as_ref().is_some_and(Stripping::is_on)
    }

    /// Hands packets of a queue to a socket.
    ///
    /// # Errors
    /// What the system says.
    pub fn steer(&self, queue: u32, socket: i32) -> io::Result<()> {
        let (key, value) = (queue.to_ne_bytes(), socket.to_ne_bytes());
        update(&self.sockets, MAP_UPDATE, &key, &value)
    }

    /// Packets to these prefixes are this host's, or not.
    ///
    /// # Errors
    /// There are too many.
    pub fn set_prefixes(&mut self, wanted: &BTreeSet<HostPrefix>) -> io::Result<()> {
        match &mut self.prefixes {
            Some(prefixes) => prefixes.set(wanted),
            None => Ok(()),
        }
    }

    /// Puts the program on an interface, if it is not there yet: into its driver, or in front of the
    /// network stack where the driver has no place for it. Where a former process has left one it takes
    /// its place, and no packet passes between. For as long the interface leaves tags in frames, and hands
    /// over those for other stations, too.
    ///
    /// # Errors
    /// There is a program already, or it is not permitted.
    pub fn attach(
        &mut self,
        interface: &Interface,
        descriptor_store: &DescriptorStore,
    ) -> io::Result<()> {
        if self.link.as_ref().is_some_and(is_attached) {
            // The program stays on an interface that leaves this network and comes back, but nobody is
            // remembered who asked for all stations.
            AllStations::forget(interface.index, descriptor_store);
            self.all_stations = Some(AllStations::of(interface, descriptor_store)?);
            return self.reach(interface);
        }
        let stripping = Stripping::off(interface, descriptor_store.is_there());
        let with_tags = self.with_tags(interface.index);
        let name = link_name(interface.index);
        let taken = descriptor_store.take(&name);
        let taken = taken.and_then(|link| self.take_over(link, with_tags.as_ref()));
        let (link, way) = match taken {
            Some(taken) => taken,
            None => {
                descriptor_store.forget(&name);
                let (link, way) = self.put_on(interface.index, with_tags.as_ref())?;
                descriptor_store.keep(&name, &link);
                (link, way)
            }
        };
        self.all_stations = Some(AllStations::of(interface, descriptor_store)?);
        (self.link, self.way, self.stripping) = (Some(link), way, Some(stripping));
        self.queues = interface.queues;
        if let Some(program) = with_tags.filter(|_| way == Attachment::DriverWithTags) {
            self.program = program;
        }
        Ok(())
    }

    /// A driver may not run the program for queues that came later (Linux's virtual cable does not), but
    /// runs one that takes its place for all there are.
    fn reach(&mut self, interface: &Interface) -> io::Result<()> {
        let Some(link) = self
            .link
            .as_ref()
            .filter(|_| self.queues != interface.queues)
        else {
            return Ok(());
        };
        let again = match self.way {
            Attachment::DriverWithTags => self.with_tags(interface.index),
            Attachment::Driver | Attachment::Generic => None,
        };
        let again = match again {
            Some(program) => program,
            None => self.without_tags()?,
        };
        replace(link, &again)?;
        (self.program, self.queues) = (again, interface.queues);
        Ok(())
    }

    fn put_on(
        &self,
        interface: u32,
        with_tags: Option<&OwnedFd>,
    ) -> io::Result<(OwnedFd, Attachment)> {
        let put = |program: &OwnedFd, mode, way| {
            let program = program.as_raw_fd() as u32;
            let attributes = words(&[program, interface, ATTACH_XDP, mode]);
            sys::bpf_descriptor(LINK_CREATE, &attributes).map(|link| (link, way))
        };
        if let Some(program) = with_tags
            && let Ok(done) = put(program, MODE_DRIVER, Attachment::DriverWithTags)
        {
            return Ok(done);
        }
        put(&self.program, MODE_DRIVER, Attachment::Driver)
            .or_else(|_| put(&self.program, MODE_GENERIC, Attachment::Generic))
    }

    fn take_over(
        &self,
        link: OwnedFd,
        with_tags: Option<&OwnedFd>,
    ) -> Option<(OwnedFd, Attachment)> {
        let replace = |program: &OwnedFd| replace(&link, program).is_ok();
        let way = match with_tags.is_some_and(replace) {
            true => Attachment::DriverWithTags,
            false => replace(&self.program).then_some(Attachment::Generic)?,
        };
        Some((link, way))
    }

    /// Nobody keeps what is on an interface any more.
    pub fn forget(interface: u32, descriptor_store: &DescriptorStore) {
        descriptor_store.forget(&link_name(interface));
        AllStations::forget(interface, descriptor_store);
    }
}

impl Prefixes {
    fn new() -> io::Result<Self> {
        let map = [MAP_OF_PREFIXES, 20, 4, MOST_PREFIXES, NO_PREALLOCATION];
        Ok(Self {
            map: sys::bpf_descriptor(MAP_CREATE, &words(&map))?,
            known: BTreeSet::new(),
        })
    }

    fn set(&mut self, wanted: &BTreeSet<HostPrefix>) -> io::Result<()> {
        for prefix in self.known.difference(wanted) {
            update(&self.map, MAP_DELETE, &key(prefix), &[0; 4])?;
        }
        for prefix in wanted.difference(&self.known) {
            let value = u32::from(prefix.is_hosts).to_ne_bytes();
            update(&self.map, MAP_UPDATE, &key(prefix), &value)?;
        }
        self.known.clone_from(wanted);
        Ok(())
    }
}

/// The program takes the place of the one that is on an interface.
fn replace(link: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    let (link, program) = (link.as_raw_fd() as u32, program.as_raw_fd() as u32);
    sys::bpf(LINK_UPDATE, &words(&[link, program, 0, 0])).map(|_| ())
}

/// Whether a link's interface is there still. One that is made anew has no program, with whichever number.
fn is_attached(link: &OwnedFd) -> bool {
    // `struct bpf_link_info`: its type, its number, the program's, a gap, and the interface's.
    let mut info = [0u32; 5];
    let place = (&raw mut info).addr() as u64;
    let (link, bytes) = (link.as_raw_fd() as u32, size_of_val(&info) as u32);
    let attributes = words(&[link, bytes, place as u32, (place >> 32) as u32]);
    // Where the kernel does not tell, it is taken to be there.
    sys::bpf(LINK_INFO, &attributes).is_err() || info[4] != 0
}

fn link_name(interface: u32) -> String {
    format!("xdp-{interface}-link")
}

/// The program over these maps.
fn instructions(
    sockets: &OwnedFd,
    prefixes: Option<&Prefixes>,
    tag_reader: Option<i32>,
) -> (Vec<u8>, u32) {
    let way = Way::ToSocket {
        sockets: sockets.as_raw_fd(),
        tag_reader,
    };
    program(way, prefixes)
}

/// The program that looks into this map, if there is one.
fn program(way: Way, prefixes: Option<&Prefixes>) -> (Vec<u8>, u32) {
    match prefixes {
        Some(prefixes) => sharing(way, prefixes.map.as_raw_fd()),
        None => taking_all(way),
    }
}

/// Loads a program of so many instructions, for any interface.
pub fn load(code: &[u8], count: u32) -> io::Result<OwnedFd> {
    load_for(code, count, PROGRAM_XDP, None)
}

/// Loads a program of a kind, for the driver of one interface if that is told.
pub(crate) fn load_for(
    code: &[u8],
    count: u32,
    kind: u32,
    interface: Option<u32>,
) -> io::Result<OwnedFd> {
    let mut log = vec![0u8; LOG_BYTES];
    let mut attributes = words(&[kind, count]);
    attributes.extend((code.as_ptr() as u64).to_ne_bytes());
    attributes.extend((LICENSE.as_ptr() as u64).to_ne_bytes());
    attributes.extend(words(&[1, LOG_BYTES as u32]));
    attributes.extend((log.as_mut_ptr() as u64).to_ne_bytes());
    let flags = interface.map_or(0, |_| BOUND_TO_DEVICE);
    attributes.extend(words(&[0, flags]));
    // It has no name.
    attributes.extend([0; 16]);
    attributes.extend(words(&[interface.unwrap_or(0), 0]));
    sys::bpf_descriptor(PROGRAM_LOAD, &attributes).map_err(|error| with_log(error, &log))
}

/// `struct bpf_lpm_trie_key`.
fn key(prefix: &HostPrefix) -> [u8; 20] {
    let mut key = [0; 20];
    key[..4].copy_from_slice(&u32::from(prefix.bits.min(128)).to_ne_bytes());
    key[4..].copy_from_slice(&prefix.network.octets16());
    key
}

/// Changes an entry of a map.
fn update(map: &OwnedFd, command: i32, key: &[u8], value: &[u8; 4]) -> io::Result<()> {
    let mut attributes = words(&[map.as_raw_fd() as u32, 0]);
    attributes.extend((key.as_ptr() as u64).to_ne_bytes());
    attributes.extend((value.as_ptr() as u64).to_ne_bytes());
    attributes.extend(0u64.to_ne_bytes());
    sys::bpf(command, &attributes).map(|_| ())
}

/// Numbers as the kernel reads them.
pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn with_log(error: io::Error, log: &[u8]) -> io::Error {
    let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    io::Error::new(error.kind(), format!("{error}: {}", text.trim()))
}
