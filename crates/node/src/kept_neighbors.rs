//! Neighbours that outlive the process, as sockets do: who has asked for them itself writes them to memory that
//! the service manager [keeps](DescriptorStore), and the next process begins with them. So no packet that waited in
//! a socket meanwhile has to wait for an answer.
//!
//! Each shard has a file of its own, and reads those of all. Whatever is in a file is confirmed when it is used, so
//! that one which is half written when its process dies does no harm.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use twinpath_control::service::Service;
use twinpath_core::memory_file::MemoryFile;
use twinpath_core::wire::{Address, MacAddress};
use twinpath_ports::DescriptorStore;

/// Neighbours of a file; as many are known at most.
const MOST: usize = 16_384;

/// A neighbour in a file: the interface, its address and MAC address, and that there is one.
const RECORD_BYTES: usize = 32;

const FILE_BYTES: usize = MOST * RECORD_BYTES;

/// A neighbour at an interface.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct KeptNeighbor {
    /// The number of the interface.
    pub interface: u32,
    /// Its address.
    pub address: Address,
    /// Its MAC address.
    pub mac: MacAddress,
}

/// Where one shard's are kept.
pub struct KeptNeighbors {
    file: File,
    /// What is in it.
    version: u64,
}

impl KeptNeighbors {
    /// Those of all shards of a service, and all that is known as its run begins: what former processes have
    /// left, and what the kernel knows. None where the node asks for neighbours at no port itself.
    pub fn of_service(
        service: &Service,
        store: &DescriptorStore,
    ) -> (Vec<Self>, Vec<KeptNeighbor>) {
        if !asks_itself(service) {
            return Default::default();
        }
        let (kept, mut known) = Self::all(service.run.shards.0, store);
        known.extend(known_to_kernel());
        (kept, known)
    }

    /// Those of all shards, with what former processes have left in them; none if nobody keeps anything.
    fn all(shards: u16, store: &DescriptorStore) -> (Vec<Self>, Vec<KeptNeighbor>) {
        let (mut files, mut known) = (Vec::new(), Vec::new());
        for shard in 0..if store.is_there() { shards } else { 0 } {
            // Without one all are asked for.
            let Ok(file) = open(&format!("neighbors-{shard}"), store) else {
                continue;
            };
            known.extend(read(&file));
            files.push(Self { file, version: 0 });
        }
        (files, known)
    }

    /// Keeps these from now on, if they are others than it has: `version` tells.
    pub fn keep(&mut self, version: u64, neighbors: impl Iterator<Item = KeptNeighbor>) {
        if version == self.version {
            return;
        }
        let mut bytes: Vec<u8> = neighbors.take(MOST).flat_map(|one| one.record()).collect();
        // Behind the last there is none.
        bytes.resize((bytes.len() + RECORD_BYTES).min(FILE_BYTES), 0);
        if self.file.write_all_at(&bytes, 0).is_ok() {
            self.version = version;
        }
    }
}

impl KeptNeighbor {
    fn record(self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        record[..4].copy_from_slice(&self.interface.to_le_bytes());
        record[4..20].copy_from_slice(&self.address.0.to_be_bytes());
        record[20..26].copy_from_slice(&self.mac.0);
        record[26] = 1;
        record
    }

    fn of(record: &[u8]) -> Option<Self> {
        Some(Self {
            interface: u32::from_le_bytes(*record.first_chunk()?),
            address: Address(u128::from_be_bytes(record.get(4..20)?.try_into().ok()?)),
            mac: MacAddress(record.get(20..26)?.try_into().ok()?),
        })
        .filter(|_| record.get(26) == Some(&1))
    }
}

/// Whether the node asks for neighbours at any port itself.
fn asks_itself(service: &Service) -> bool {
    let devices = [service.devices.clone(), service.memory_links()].concat();
    devices.iter().any(|device| !device.addresses.is_empty())
}

/// The neighbours whose MAC addresses the kernel knows now. What it does not tell is asked for.
fn known_to_kernel() -> impl Iterator<Item = KeptNeighbor> {
    let known = twinpath_kernel::neighbors_now().unwrap_or_default();
    known.into_iter().filter_map(|one| {
        Some(KeptNeighbor {
            interface: one.interface,
            address: one.address,
            mac: one.mac?,
        })
    })
}

/// The file of this name that was kept, or a new one, which is.
fn open(name: &str, store: &DescriptorStore) -> io::Result<File> {
    if let Some(kept) = store.take(name) {
        let kept = File::from(kept);
        if kept.metadata()?.len() == FILE_BYTES as u64 {
            return Ok(kept);
        }
        store.forget(name);
    }
    let new = MemoryFile::new(FILE_BYTES)?;
    store.keep(name, new.descriptor());
    Ok(File::from(new.descriptor().try_clone()?))
}

fn read(file: &File) -> Vec<KeptNeighbor> {
    let mut bytes = vec![0; FILE_BYTES];
    if file.read_exact_at(&mut bytes, 0).is_err() {
        return Vec::new();
    }
    let records = bytes.chunks_exact(RECORD_BYTES);
    records.map_while(KeptNeighbor::of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbor(last: u8) -> KeptNeighbor {
        KeptNeighbor {
            interface: 7,
            address: Address::from_v4([10, 0, 0, last]),
            mac: MacAddress([2, 0, 0, 0, 0, last]),
        }
    }

    #[test]
    fn a_file_has_the_last_that_were_kept() {
        let store = DescriptorStore::nobody();
        assert!(
            KeptNeighbors::all(2, &store).0.is_empty(),
            "nobody keeps it"
        );
        let file = open("neighbors-0", &store).expect("a file");
        let mut kept = KeptNeighbors { file, version: 0 };
        assert_eq!(read(&kept.file), []);
        for (version, lasts, expected) in [
            (1, [1, 2, 3].as_slice(), [1, 2, 3].as_slice()),
            (2, &[4], &[4]),
            // It has these already, as it is told.
            (2, &[5, 6], &[4]),
            (3, &[], &[]),
        ] {
            kept.keep(version, lasts.iter().copied().map(neighbor));
            let expected: Vec<_> = expected.iter().copied().map(neighbor).collect();
            assert_eq!(read(&kept.file), expected);
        }
        kept.keep(4, (0..MOST + 9).map(|number| neighbor(number as u8)));
        assert_eq!(read(&kept.file).len(), MOST);
    }
}
