//! Sockets that share what arrives at an interface.
//!
//! The kernel asks a program of ours (classic BPF) which socket of the group has a packet: all between
//! two hosts have the same, in both directions, fragments as well, so whatever a flow is called its
//! packets stay in order. Tags have been stripped when it is asked; what is no IP packet is the first
//! socket's.

use crate::filter::{RETURN, let_nothing_in, program, step};
use crate::interface::Interface;
use crate::part::Part;
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// `PACKET_FANOUT_CBPF`; what the host itself sends does not come in, which each socket's own option says of it
/// alone (`PACKET_FANOUT_FLAG_IGNORE_OUTGOING`).
const BY_PROGRAM: u16 = 6 | 0x4000;
/// The flag that asks for a group's number that nobody has.
const NEW_GROUP: u16 = 0x2000;

const LOAD_WORD: u16 = 0x20;
const LOAD_NUMBER: u16 = 0x00;
const TO_X: u16 = 0x07;
const XOR_X: u16 = 0xac;
const MULTIPLY: u16 = 0x24;
const SHIFT_RIGHT: u16 = 0x74;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN_A: u16 = 0x16;

/// Where the kernel keeps a packet's protocol, and where its network header begins.
const PROTOCOL: u32 = (-0x1000_i32) as u32;
const NETWORK: u32 = (-0x10_0000_i32) as u32;

/// Makes a socket one of the group's; `bind` has it receive, and nothing that arrives before it is in
/// the group is received twice.
///
/// # Errors
/// What the system says.
pub fn join(
    socket: &OwnedFd,
    interface: &Interface,
    part: &Part,
    bind: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let_nothing_in(socket)?;
    bind()?;
    let mut is_in = false;
    let group = part.group(interface, || {
        enter(socket, 0, BY_PROGRAM | NEW_GROUP)?;
        is_in = true;
        let dividing = dividing();
        sys::set_option(
            socket,
            libc::SOL_PACKET,
            libc::PACKET_FANOUT_DATA,
            program(&dividing),
        )?;
        let number: libc::c_int = sys::option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, 0)?;
        Ok(number as u16)
    })?;
    if !is_in {
        enter(socket, group, BY_PROGRAM)?;
    }
    let none: libc::c_int = 0;
    sys::set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, none)
}

/// The group that a socket is in, if it is in one.
pub fn group_of(socket: &OwnedFd) -> Option<u16> {
    let fan_out = libc::PACKET_FANOUT;
    let number: io::Result<libc::c_int> = sys::option(socket, libc::SOL_PACKET, fan_out, 0);
    number
        .ok()
        .filter(|&value| value != 0)
        .map(|value| value as u16)
}

fn enter(socket: &OwnedFd, group: u16, kind: u16) -> io::Result<()> {
    let value = u32::from(group) | u32::from(kind) << 16;
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, value)
}

/// Mixes the addresses of both hosts, whichever is which.
fn dividing() -> Vec<libc::sock_filter> {
    let v4 = mix(&[12, 16]);
    let v6 = mix(&[8, 12, 16, 20, 24, 28, 32, 36]);
    let mut steps = vec![step(LOAD_WORD, PROTOCOL), step(JUMP_IF_EQUAL, 0x0800)];
    steps[1].jf = v4.len() as u8;
    steps.extend(v4);
    let mut is_v6 = step(JUMP_IF_EQUAL, 0x86dd);
    is_v6.jf = v6.len() as u8;
    steps.push(is_v6);
    steps.extend(v6);
    steps.push(step(RETURN, 0));
    steps
}

fn mix(offsets: &[u32]) -> Vec<libc::sock_filter> {
    let mut steps = vec![step(LOAD_NUMBER, 0)];
    for offset in offsets {
        steps.push(step(TO_X, 0));
        steps.push(step(LOAD_WORD, NETWORK.wrapping_add(*offset)));
        steps.push(step(XOR_X, 0));
    }
    steps.extend([
        step(MULTIPLY, 0x9e37_79b1),
        step(SHIFT_RIGHT, 16),
        step(RETURN_A, 0),
    ]);
    steps
}
