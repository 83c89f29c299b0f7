//! Frames for measurements, made in the kernel: more than any socket can send.
//!
//! The kernel runs a program of its machine on frames of its own memory, and hands them to the
//! interface as a driver's, without a buffer of the network stack for each
//! (`BPF_F_TEST_XDP_LIVE_FRAMES`). The far end of a virtual cable takes them if it polls, as it does
//! with an XDP program, or with generic receive offload on.

use crate::program::assembler::{Assembler, Width};
use crate::program::{load, words};
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const TEST_RUN: i32 = 10;
const LIVE_FRAMES: u32 = 1 << 1;

/// Functions of the kernel's.
const RANDOM: i32 = 7;
const REDIRECT: i32 = 23;

/// Where ports begin in a frame of UDP over IPv4 without tags and options, and where its headers end.
const PORTS: i16 = 34;
const HEADERS: usize = 42;

/// The destination port of all flows.
const FLOOD_PORT: u16 = 9;

/// A source of frames by one interface.
pub struct Flood {
    program: OwnedFd,
    frame: Vec<u8>,
    batch: u32,
}

impl Flood {
    /// Makes a source of copies of a frame, which is UDP over IPv4, without options, and without a
    /// checksum of UDP. Each copy is of a flow that is drawn at random.
    ///
    /// # Errors
    /// It is not permitted, the kernel is older than 5.18, or the frame is too short.
    pub fn new(interface: u32, frame: &[u8]) -> io::Result<Self> {
        let headers = frame.first_chunk().ok_or(io::ErrorKind::InvalidInput)?;
        let (code, count) = program(interface, headers);
        Ok(Self {
            program: load(&code, count)?,
            frame: frame.to_vec(),
            batch: 64,
        })
    }

    /// Sends so many frames; those that the far end has no room for are lost. The calling thread must
    /// be on the interface's host.
    ///
    /// # Errors
    /// What the system says.
    pub fn send(&mut self, frames: u32) -> io::Result<()> {
        let mut attributes = words(&[
            self.program.as_raw_fd() as u32,
            0,
            self.frame.len() as u32,
            0,
        ]);
        attributes.extend((self.frame.as_ptr() as u64).to_ne_bytes());
        attributes.extend(0u64.to_ne_bytes());
        attributes.extend(words(&[frames, 0, 0, 0]));
        attributes.extend([0; 16]);
        attributes.extend(words(&[LIVE_FRAMES, 0, self.batch.min(frames), 0]));
        sys::bpf(TEST_RUN, &attributes).map(|_| ())
    }
}

/// Draws a source port, writes the headers, and sends the frame by an interface. The frame's memory
/// has been used before: whoever forwarded it has written another address there.
fn program(interface: u32, headers: &[u8; HEADERS]) -> (Vec<u8>, u32) {
    // Source port from 0x1000 on, of which 12 bits are drawn, then the destination port.
    let [high, low] = FLOOD_PORT.to_be_bytes();
    let ports = i32::from_ne_bytes([0x10, 0, high, low]);
    let drawn = i32::from_ne_bytes([0x0f, 0xff, 0, 0]);
    let mut code = Assembler::default();
    code.copy(6, 1);
    code.call(RANDOM);
    code.and(0, drawn);
    code.add(0, ports);
    code.load(Width::Word, 2, 6, 0);
    code.load(Width::Word, 3, 6, 4);
    code.copy(4, 2);
    code.add(4, HEADERS as i32);
    code.jump_if_greater(4, 3, "short");
    for place in (0..PORTS).step_by(4).chain([PORTS + 4]) {
        let at = place as usize;
        let bytes = std::array::from_fn(|byte| headers[at + byte]);
        code.store_number(2, place, i32::from_ne_bytes(bytes));
    }
    code.store(2, PORTS, 0);
    code.label("short");
    code.set(1, interface as i32);
    code.set(2, 0);
    code.call(REDIRECT);
    code.exit();
    code.finish()
}
