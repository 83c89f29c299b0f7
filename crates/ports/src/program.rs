//! The program that hands packets to the sockets, as instructions of the kernel's machine.
//!
//! Where this host shares the interface ([`HostPrefix`]), packets for its own addresses, for groups and
//! for all, and what is no IP packet go to its network stack; so do questions about neighbours, but
//! for those about addresses that the node answers for.

pub(crate) mod assembler;

use crate::kept::Keeper;
use crate::sys;
use assembler::{Assembler, When, Width};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use twinpath_core::wire::Address;

const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const PROGRAM_LOAD: i32 = 5;
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
    prefixes: Option<OwnedFd>,
    known: BTreeSet<HostPrefix>,
    program: OwnedFd,
    link: Option<OwnedFd>,
}

/// `return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS)`: what comes by a queue without
/// a socket goes to the kernel. The context is in register 6.
fn to_socket(code: &mut Assembler, sockets: i32) {
    const RX_QUEUE_INDEX: i16 = 16;
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
fn sharing(sockets: i32, prefixes: i32) -> (Vec<u8>, u32) {
    let mut code = Assembler::default();
    let kind = |bytes: [u8; 2]| i32::from(u16::from_ne_bytes(bytes));
    code.copy(6, 1);
    code.load(Width::Word, FRAME, 1, 0);
    code.load(Width::Word, END, 1, 4);
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
    code.jump_if(2, When::AtLeast, 224, "kernel");
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
    to_socket(&mut code, sockets);
    code.label("kernel");
    code.set(0, PASS);
    code.exit();
    code.finish()
}

/// The program for an interface that is the node's alone.
fn taking_all(sockets: i32) -> (Vec<u8>, u32) {
    let mut code = Assembler::default();
    code.copy(6, 1);
    to_socket(&mut code, sockets);
    code.finish()
}

impl Program {
    /// Loads the program; where this host shares the interface, its packets go to it.
    ///
    /// # Errors
    /// It is not permitted; what the verifier says is in the message.
    pub fn load(queues: u32, is_shared: bool) -> io::Result<Self> {
        let map = [MAP_OF_SOCKETS, 4, 4, queues.max(1), 0];
        let sockets = sys::bpf_descriptor(MAP_CREATE, &words(&map))?;
        let prefixes = is_shared.then(|| {
            let map = [MAP_OF_PREFIXES, 20, 4, MOST_PREFIXES, NO_PREALLOCATION];
            sys::bpf_descriptor(MAP_CREATE, &words(&map))
        });
        let prefixes = prefixes.transpose()?;
        let (code, count) = match &prefixes {
            Some(prefixes) => sharing(sockets.as_raw_fd(), prefixes.as_raw_fd()),
            None => taking_all(sockets.as_raw_fd()),
        };
        Ok(Self {
            program: load(&code, count)?,
            sockets,
            prefixes,
            known: BTreeSet::new(),
            link: None,
        })
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
        let Some(map) = &self.prefixes else {
            return Ok(());
        };
        for prefix in self.known.difference(wanted) {
            update(map, MAP_DELETE, &key(prefix), &[0; 4])?;
        }
        for prefix in wanted.difference(&self.known) {
            let value = u32::from(prefix.is_hosts).to_ne_bytes();
            update(map, MAP_UPDATE, &key(prefix), &value)?;
        }
        self.known.clone_from(wanted);
        Ok(())
    }

    /// Puts the program on an interface, if it is not there yet: into its driver, or in front of the
    /// network stack where the driver has no place for it. Where a former process has left one it takes
    /// its place, and no packet passes between.
    ///
    /// # Errors
    /// There is a program already, or it is not permitted.
    pub fn attach(&mut self, interface: u32, keeper: &Keeper) -> io::Result<()> {
        if self.link.is_some() {
            return Ok(());
        }
        let name = link_name(interface);
        if let Some(link) = keeper.take(&name)
            && self.take_over(&link).is_ok()
        {
            self.link = Some(link);
            return Ok(());
        }
        keeper.forget(&name);
        let attach = |mode| {
            let program = self.program.as_raw_fd() as u32;
            let attributes = words(&[program, interface, ATTACH_XDP, mode]);
            sys::bpf_descriptor(LINK_CREATE, &attributes)
        };
        let link = attach(MODE_DRIVER).or_else(|_| attach(MODE_GENERIC))?;
        keeper.keep(&name, &link);
        self.link = Some(link);
        Ok(())
    }

    fn take_over(&self, link: &OwnedFd) -> io::Result<()> {
        let (link, program) = (link.as_raw_fd() as u32, self.program.as_raw_fd() as u32);
        sys::bpf(LINK_UPDATE, &words(&[link, program, 0, 0])).map(|_| ())
    }

    /// Nobody keeps what is on an interface any more.
    pub fn forget(interface: u32, keeper: &Keeper) {
        keeper.forget(&link_name(interface));
    }
}

fn link_name(interface: u32) -> String {
    format!("xdp-{interface}-link")
}

/// Loads a program of so many instructions.
pub fn load(code: &[u8], count: u32) -> io::Result<OwnedFd> {
    let mut log = vec![0u8; LOG_BYTES];
    let license = c"Apache-2.0";
    let mut attributes = words(&[PROGRAM_XDP, count]);
    attributes.extend((code.as_ptr() as u64).to_ne_bytes());
    attributes.extend((license.as_ptr() as u64).to_ne_bytes());
    attributes.extend(words(&[1, LOG_BYTES as u32]));
    attributes.extend((log.as_mut_ptr() as u64).to_ne_bytes());
    attributes.resize(72, 0);
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
