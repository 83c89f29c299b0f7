//! Parts of a port that several threads share.
//!
//! Each has sockets of its own, and what comes is divided between them without a lock: by AF_PACKET
//! in a fan-out group, all packets between two hosts to one part, in both directions; by AF_XDP queue
//! by queue, as the card divides. What all parts of an AF_XDP port have in common is its program.

use crate::claim::Claim;
use crate::descriptor_store::DescriptorStore;
use crate::interface::Interface;
use crate::program::Program;
use crate::umem::{Queue, SharedUmem};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// One part of a port.
#[derive(Clone)]
pub struct Part {
    /// Which one, from 0.
    pub number: u16,
    /// How many there are; at least 1.
    pub of: u16,
    common: Arc<Mutex<Common>>,
    descriptor_store: Arc<DescriptorStore>,
    /// Whether the interface is to be this process's alone.
    is_alone: bool,
    /// The memory of all AF_XDP ports of its thread, and which of them this is.
    umem: Option<(SharedUmem, usize)>,
}

/// What parts have in common.
#[derive(Default)]
struct Common {
    /// The interface's number that this is about: it has another when it comes back.
    interface: u32,
    /// The group of AF_PACKET sockets.
    group: Option<u16>,
    /// That it is this process's, for as long as a part is open.
    claim: Weak<Claim>,
    /// The program on the interface.
    program: Option<Arc<Mutex<Program>>>,
    /// AF_XDP could not be had when it was tried.
    is_without_xdp: bool,
}

impl Default for Part {
    /// The only one.
    fn default() -> Self {
        Self {
            number: 0,
            of: 1,
            common: Arc::default(),
            descriptor_store: Arc::default(),
            is_alone: false,
            umem: None,
        }
    }
}

impl Part {
    /// All parts of one port, beside whoever else has its interface.
    pub fn all(of: u16) -> Vec<Self> {
        Self::all_of(of, &Arc::default(), false)
    }

    /// All parts of a port whose interface is this process's alone, with sockets that somebody keeps beyond
    /// the process.
    pub fn all_kept(of: u16, descriptor_store: &Arc<DescriptorStore>) -> Vec<Self> {
        Self::all_of(of, descriptor_store, true)
    }

    fn all_of(of: u16, descriptor_store: &Arc<DescriptorStore>, is_alone: bool) -> Vec<Self> {
        let common = Arc::default();
        let part = |number| Self {
            number,
            of,
            common: Arc::clone(&common),
            descriptor_store: Arc::clone(descriptor_store),
            is_alone,
            umem: None,
        };
        (0..of).map(part).collect()
    }

    /// Who keeps its sockets.
    pub(crate) fn descriptor_store(&self) -> &DescriptorStore {
        &self.descriptor_store
    }

    /// The same part, of which the frames lie in this memory, as those of a port with this number.
    pub(crate) fn in_umem(mut self, umem: &SharedUmem, port: usize) -> Self {
        self.umem = Some((Arc::clone(umem), port));
        self
    }

    /// The memory that it shares, if it does.
    pub(crate) fn umem(&self) -> Option<&SharedUmem> {
        self.umem.as_ref().map(|(umem, _)| umem)
    }

    /// Its queues as that memory knows them.
    pub(crate) fn places(&self, interface: &Interface) -> impl Iterator<Item = Queue> + use<> {
        let port = self.umem.as_ref().map_or(0, |(_, port)| *port);
        let interface_number = interface.index;
        self.queues(interface.queues).map(move |number| Queue {
            port,
            interface: interface_number,
            number,
        })
    }

    /// The queues of so many that are this part's.
    pub(crate) fn queues(&self, queues: u32) -> impl Iterator<Item = u32> + use<> {
        (self.number.into()..queues).step_by(usize::from(self.of).max(1))
    }

    /// The part whose queue frames leave by, of a port with so many queues.
    pub(crate) fn owner(&self, queues: u32) -> u16 {
        let parts = queues.clamp(1, self.of.into());
        (u32::from(self.number) % parts) as u16
    }

    /// That this interface is this process's alone, if it is to be: all parts have it together.
    ///
    /// # Errors
    /// As [`Claim::of`].
    pub(crate) fn claim(&self, interface: &Interface) -> io::Result<Option<Arc<Claim>>> {
        if !self.is_alone {
            return Ok(None);
        }
        let mut common = self.common(interface);
        if let Some(claim) = common.claim.upgrade() {
            return Ok(Some(claim));
        }
        let claim = Arc::new(Claim::of(interface)?);
        common.claim = Arc::downgrade(&claim);
        Ok(Some(claim))
    }

    /// The group of this interface's sockets; `make` makes one if there is none yet.
    pub(crate) fn group(
        &self,
        interface: &Interface,
        make: impl FnOnce() -> io::Result<u16>,
    ) -> io::Result<u16> {
        let mut common = self.common(interface);
        if let Some(group) = common.group {
            return Ok(group);
        }
        let group = make()?;
        common.group = Some(group);
        Ok(group)
    }

    /// The program of this interface; `make` makes one if there is none yet.
    pub(crate) fn program(
        &self,
        interface: &Interface,
        make: impl FnOnce() -> io::Result<Program>,
    ) -> io::Result<Arc<Mutex<Program>>> {
        let mut common = self.common(interface);
        if let Some(program) = &common.program {
            return Ok(Arc::clone(program));
        }
        let program = Arc::new(Mutex::new(make()?));
        common.program = Some(Arc::clone(&program));
        Ok(program)
    }

    /// Whether another part has found that AF_XDP is not to be had.
    pub(crate) fn is_without_xdp(&self, interface: &Interface) -> bool {
        self.common(interface).is_without_xdp
    }

    /// AF_XDP is not to be had: no part takes it.
    pub(crate) fn goes_without_xdp(&self, interface: &Interface) {
        self.common(interface).is_without_xdp = true;
    }

    /// Nothing is known of an interface that has come back as another.
    fn common(&self, interface: &Interface) -> MutexGuard<'_, Common> {
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        if common.interface != interface.index {
            *common = Common {
                interface: interface.index,
                ..Common::default()
            };
        }
        common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_is_one_parts_and_every_part_has_an_owner() {
        for (queues, of) in [(1, 1), (1, 4), (3, 4), (4, 4), (8, 3), (64, 64)] {
            let parts = Part::all(of);
            let mut all: Vec<u32> = parts.iter().flat_map(|part| part.queues(queues)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..queues).collect::<Vec<_>>(), "{queues} {of}");
            for part in &parts {
                let owner = &parts[usize::from(part.owner(queues))];
                assert!(owner.queues(queues).count() > 0);
                let has_own = part.queues(queues).count() > 0;
                assert_eq!(has_own, owner.number == part.number);
            }
        }
    }
}
