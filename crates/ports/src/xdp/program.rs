//! The program that hands packets to the sockets, as instructions of the kernel's machine.

use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROGRAM_LOAD: i32 = 5;
const LINK_CREATE: i32 = 28;

const MAP_OF_SOCKETS: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const PASS: i32 = 2;
const REDIRECT_MAP: i32 = 51;
const MODE_DRIVER: u32 = 1 << 2;
const MODE_GENERIC: u32 = 1 << 1;

/// Room for the verifier's words.
const LOG_BYTES: usize = 16 << 10;

/// A program and the map of its sockets; while it is there, it is on the interface.
pub struct Program {
    sockets: OwnedFd,
    program: OwnedFd,
    link: Option<OwnedFd>,
}

/// One instruction: what, registers (source above destination), offset, number.
const fn instruction(code: u8, registers: u8, offset: i16, number: i32) -> [u8; 8] {
    let (o, n) = (offset.to_ne_bytes(), number.to_ne_bytes());
    [code, registers, o[0], o[1], n[0], n[1], n[2], n[3]]
}

/// `return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS)`: what comes by a queue without
/// a socket goes to the kernel.
fn instructions(sockets: i32) -> [[u8; 8]; 6] {
    const LOAD_WORD: u8 = 0x61;
    const LOAD_MAP: u8 = 0x18;
    const MOVE_NUMBER: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const RX_QUEUE_INDEX: i16 = 16;
    [
        instruction(LOAD_WORD, 0x12, RX_QUEUE_INDEX, 0),
        instruction(LOAD_MAP, 0x11, 0, sockets),
        instruction(0, 0, 0, 0),
        instruction(MOVE_NUMBER, 0x03, 0, PASS),
        instruction(CALL, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0),
    ]
}

impl Program {
    /// Loads the program.
    ///
    /// # Errors
    /// It is not permitted; what the verifier says is in the message.
    pub fn load(queues: u32) -> io::Result<Self> {
        let map = [MAP_OF_SOCKETS, 4, 4, queues.max(1), 0];
        let sockets = sys::bpf_descriptor(MAP_CREATE, &words(&map))?;
        let code = instructions(sockets.as_raw_fd()).concat();
        let mut log = vec![0u8; LOG_BYTES];
        let license = c"Apache-2.0";
        let mut attributes = words(&[PROGRAM_XDP, 6]);
        attributes.extend((code.as_ptr() as u64).to_ne_bytes());
        attributes.extend((license.as_ptr() as u64).to_ne_bytes());
        attributes.extend(words(&[1, LOG_BYTES as u32]));
        attributes.extend((log.as_mut_ptr() as u64).to_ne_bytes());
        attributes.resize(72, 0);
        let program = sys::bpf_descriptor(PROGRAM_LOAD, &attributes)
            .map_err(|error| with_log(error, &log))?;
        Ok(Self {
            sockets,
            program,
            link: None,
        })
    }

    /// Hands packets of a queue to a socket.
    ///
    /// # Errors
    /// What the system says.
    pub fn steer(&self, queue: u32, socket: i32) -> io::Result<()> {
        let (key, value) = (queue.to_ne_bytes(), socket.to_ne_bytes());
        let mut attributes = words(&[self.sockets.as_raw_fd() as u32, 0]);
        attributes.extend((key.as_ptr() as u64).to_ne_bytes());
        attributes.extend((value.as_ptr() as u64).to_ne_bytes());
        attributes.extend(0u64.to_ne_bytes());
        sys::bpf(MAP_UPDATE, &attributes).map(|_| ())
    }

    /// Puts the program on an interface: into its driver, or in front of the network stack where
    /// the driver has no place for it.
    ///
    /// # Errors
    /// There is a program already, or it is not permitted.
    pub fn attach(&mut self, interface: u32) -> io::Result<()> {
        let attach = |mode| {
            let program = self.program.as_raw_fd() as u32;
            let attributes = words(&[program, interface, ATTACH_XDP, mode]);
            sys::bpf_descriptor(LINK_CREATE, &attributes)
        };
        self.link = Some(attach(MODE_DRIVER).or_else(|_| attach(MODE_GENERIC))?);
        Ok(())
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn with_log(error: io::Error, log: &[u8]) -> io::Error {
    let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    io::Error::new(error.kind(), format!("{error}: {}", text.trim()))
}
