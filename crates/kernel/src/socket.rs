//! The socket to the kernel.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with,
    sockopt,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// What the kernel may keep for us in bytes, so that a burst of routes is not lost.
const SOCKET_BYTES: usize = 32 << 20;

/// Longer than the kernel's datagrams.
const DATAGRAM_BYTES: usize = 64 << 10;

/// Groups of messages (`RTMGRP_*`): links, neighbours, addresses and routes of both versions, next
/// hops.
const GROUPS: u32 = 0x1 | 0x4 | 0x10 | 0x40 | 0x100 | 0x400 | 1 << 31;

/// A socket, which may hear of every change.
pub struct Socket {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// What has come.
#[derive(Debug)]
pub enum Received<'a> {
    /// Messages.
    Datagram(&'a [u8]),
    /// Nothing (more).
    Nothing,
    /// The kernel had no room for what there was to tell.
    Overrun,
}

impl Socket {
    /// Opens it.
    ///
    /// # Errors
    /// What the system says.
    pub fn open() -> io::Result<Self> {
        let socket = Self::with_groups(GROUPS)?;
        sockopt::set_socket_recv_buffer_size_force(&socket.socket, SOCKET_BYTES)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket.socket, SOCKET_BYTES))?;
        Ok(socket)
    }

    /// Opens one that hears of no change: only answers come.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_for_answers() -> io::Result<Self> {
        Self::with_groups(0)
    }

    fn with_groups(groups: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Without a protocol it is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self {
            socket,
            buffer: vec![0; DATAGRAM_BYTES],
        })
    }

    /// Asks the kernel something.
    ///
    /// # Errors
    /// What the system says.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, message, SendFlags::DONTWAIT, &kernel)?;
        Ok(())
    }

    /// Takes one datagram; it does not wait.
    ///
    /// # Errors
    /// What the system says.
    pub fn receive(&mut self) -> io::Result<Received<'_>> {
        match recv(&self.socket, &mut *self.buffer, RecvFlags::TRUNC) {
            Ok((_, len)) if len > self.buffer.len() => Ok(Received::Overrun),
            Ok((_, len)) => Ok(Received::Datagram(&self.buffer[..len])),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Nothing),
            Err(Errno::NOBUFS) => Ok(Received::Overrun),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until something has come, or somebody wakes us, or for so long.
    pub fn wait(&self, waker: BorrowedFd<'_>, longest: Duration) {
        let time = Timespec {
            tv_sec: longest.as_secs() as i64,
            tv_nsec: i64::from(longest.subsec_nanos()),
        };
        let mut both = [
            PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(waker, PollFlags::IN),
        ];
        // Whatever comes of it, both are looked at next.
        let _ = poll(&mut both, Some(&time));
    }
}
