//! One process at a time has an interface: two on the same would each give every packet once.
//!
//! Its sign is a name that the kernel gives out once: an abstract Unix socket (unix(7)), called like the
//! interface's number. Such names are of one network namespace, as interfaces are, and are free when
//! their process has ended, however it ends.

use crate::interface::Interface;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// That an interface is this process's, for as long as this is kept.
#[derive(Debug)]
pub struct Claim {
    index: u32,
    _socket: UnixDatagram,
}

impl Claim {
    /// Of a name that another process has for so long that it is not about to end. Nothing for an
    /// interface that is not there.
    ///
    /// # Errors
    /// Another process has it.
    pub fn of(device: &str) -> io::Result<Option<Self>> {
        let Ok(interface) = Interface::of(device) else {
            return Ok(None);
        };
        once_it_is_free(|| Self::of_index(interface.index)).map(Some)
    }

    /// The interface has come back as another: that one is this process's, if it is nobody's.
    pub fn move_to(&mut self, index: u32) {
        if index == self.index {
            return;
        }
        if let Ok(claim) = Self::of_index(index) {
            *self = claim;
        }
    }

    fn of_index(index: u32) -> io::Result<Self> {
        let name = format!("twinpath-interface-{index}");
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?);
        let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        match socket {
            Ok(socket) => Ok(Self {
                index,
                _socket: socket,
            }),
            Err(error) if is_taken(&error) => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another twinpath has it, and each packet would leave twice: expected an interface of its own, or that the other ends first",
            )),
            Err(error) => Err(error),
        }
    }
}

/// How long an interface is waited for that somebody else still has, and how often it is tried.
const LEAVING: Duration = Duration::from_secs(2);
const TRY_INTERVAL: Duration = Duration::from_millis(20);

/// Of a process that was killed the kernel takes programs and sockets off the interface a moment after
/// its end: whoever starts in its place waits for that.
pub(crate) fn once_it_is_free<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let end = Instant::now() + LEAVING;
    loop {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < end => {
                std::thread::sleep(TRY_INTERVAL);
            }
            opened => return opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that no interface has.
    const INDEX: u32 = u32::MAX;

    #[test]
    fn one_has_it_at_a_time() {
        let mut first = Claim::of_index(INDEX).expect("it is nobody's");
        let error = Claim::of_index(INDEX).expect_err("it is the first one's");
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(error.to_string().starts_with("another twinpath has it"));
        first.move_to(INDEX - 1);
        let second = Claim::of_index(INDEX).expect("the first one has gone on");
        assert!(Claim::of_index(INDEX - 1).is_err());
        drop((first, second));
        assert!(Claim::of_index(INDEX).is_ok());
        assert!(Claim::of_index(INDEX - 1).is_ok());
    }

    #[test]
    fn what_is_not_there_is_nobodys() {
        assert!(matches!(Claim::of("none-of-this-name"), Ok(None)));
    }
}
