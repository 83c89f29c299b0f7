//! Programs of sockets (classic BPF), which say what of what arrives comes in, or to which socket of several.

use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// The program ends with this number: of a filter, how many bytes come in.
pub const RETURN: u16 = 0x06;

/// One step, without a jump.
pub const fn step(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

/// For the time of one call: the kernel copies it.
pub fn program(steps: &[libc::sock_filter]) -> libc::sock_fprog {
    libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_ptr().cast_mut(),
    }
}

/// Whatever arrives from now on passes the socket by.
///
/// # Errors
/// What the system says.
pub fn let_nothing_in(socket: &OwnedFd) -> io::Result<()> {
    let nothing = [step(RETURN, 0)];
    sys::set_option(
        socket,
        libc::SOL_SOCKET,
        libc::SO_ATTACH_FILTER,
        program(&nothing),
    )
}
