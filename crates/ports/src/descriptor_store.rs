//! Sockets that outlive a process, and memory: the service manager keeps them for the next one.
//!
//! A manager that has a store of descriptors (`FDSTORE` of sd_notify(3), systemd's
//! `FileDescriptorStoreMax`) holds a copy of each socket of a port. When the process ends, however it
//! ends, the socket stays as it is, and what arrives meanwhile waits in it. The next process is handed
//! the copies when it starts, and goes on where the former one has left off: there is no moment in
//! which nobody listens. What nobody takes, for the service is another now, is given up.
//!
//! A name says what a socket is good for. One that does not fit is not taken.

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sd_notify::NotifyState;

/// Names of other descriptors that a manager hands in do not begin like this.
const PREFIX: &str = "twinpath-";

/// Who keeps sockets beyond the process.
#[derive(Debug, Default)]
pub struct DescriptorStore {
    /// Whether somebody is there.
    is_there: bool,
    /// What was kept by a former process, under which name.
    kept: Mutex<Vec<(String, OwnedFd)>>,
}

impl DescriptorStore {
    /// Nobody.
    pub fn nobody() -> Self {
        Self::default()
    }

    /// The manager that has started this process, with what it has kept; nobody if it was not started
    /// by one. What was kept is handed in once in the life of a process.
    ///
    /// # Errors
    /// What it says of descriptors is not understood.
    pub fn manager() -> io::Result<Self> {
        static IS_TAKEN: AtomicBool = AtomicBool::new(false);
        let mut kept = Vec::new();
        if !IS_TAKEN.swap(true, Ordering::Relaxed) {
            for (number, name) in sd_notify::listen_fds_with_names()? {
                if name.starts_with(PREFIX) {
                    // SAFETY: the manager has opened it for this process, and says so by its number;
                    // nobody else takes those with our names, and we do so once.
                    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
                    kept.push((name, descriptor));
                }
            }
        }
        Ok(Self {
            is_there: std::env::var_os("NOTIFY_SOCKET").is_some(),
            kept: Mutex::new(kept),
        })
    }

    /// Whether somebody keeps sockets beyond this process.
    pub const fn is_there(&self) -> bool {
        self.is_there
    }

    /// Takes what a former process has left under a name.
    pub fn take(&self, name: &str) -> Option<OwnedFd> {
        let name = full(name);
        let mut kept = self.kept();
        let place = kept.iter().position(|(other, _)| *other == name)?;
        Some(kept.swap_remove(place).1)
    }

    /// Has a descriptor kept. One that cannot be is as if nobody were there.
    pub fn keep(&self, name: &str, descriptor: &OwnedFd) {
        if !self.is_there {
            return;
        }
        let name = full(name);
        // An interface that goes down is no reason to let go of its socket.
        let states = [
            NotifyState::FdStore,
            NotifyState::FdName(&name),
            NotifyState::Custom("FDPOLL=0"),
        ];
        let _ = sd_notify::notify_with_fds(&states, &[descriptor.as_fd()]);
    }

    /// Nobody wants what is kept under a name.
    pub fn forget(&self, name: &str) {
        let name = full(name);
        self.kept().retain(|(other, _)| *other != name);
        self.give_up(&name);
    }

    /// Nobody wants what no port has taken. Returns how many descriptors that are.
    pub fn forget_rest(&self) -> usize {
        let rest = std::mem::take(&mut *self.kept());
        for (name, _) in &rest {
            self.give_up(name);
        }
        rest.len()
    }

    fn give_up(&self, name: &str) {
        if self.is_there {
            let states = [NotifyState::FdStoreRemove, NotifyState::FdName(name)];
            let _ = sd_notify::notify(&states);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(String, OwnedFd)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn full(name: &str) -> String {
    format!("{PREFIX}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn what_was_kept_is_taken_once_and_the_rest_is_given_up() {
        let file = || OwnedFd::from(File::open("/dev/null").expect("it is there"));
        let descriptor_store = DescriptorStore {
            is_there: false,
            kept: Mutex::new(
                ["one", "two", "three"]
                    .map(|name| (full(name), file()))
                    .into(),
            ),
        };
        assert!(descriptor_store.take("one").is_some() && descriptor_store.take("one").is_none());
        descriptor_store.forget("two");
        assert!(descriptor_store.take("two").is_none());
        assert_eq!(
            (
                descriptor_store.forget_rest(),
                descriptor_store.forget_rest()
            ),
            (1, 0)
        );
    }
}
