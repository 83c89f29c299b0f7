//! Memory that may be written and read from afar.

use thiserror::Error;
use twinpath_core::memory::ZeroedArray;
use twinpath_core::wire::roce::Reth;

/// The most regions of a responder.
pub const MAX_REGIONS: usize = 64;

/// What may be done with a region.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading alone.
    Read,
    /// Writing alone.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    const fn allows(self, wanted: Self) -> bool {
        matches!(
            (self, wanted),
            (Self::ReadWrite, _) | (Self::Read, Self::Read) | (Self::Write, Self::Write)
        )
    }
}

/// Memory with an address and a key.
pub struct Region {
    address: u64,
    rkey: u32,
    access: Access,
    memory: ZeroedArray<u8>,
}

/// Why memory cannot be registered.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum RegionError {
    /// It would end behind the last address.
    #[error("memory that ends behind the last address")]
    Address,
    /// Another region has this key.
    #[error("another region has this key")]
    Key,
    /// There are as many as there may be.
    #[error("more than {MAX_REGIONS} regions")]
    TooMany,
}

impl Region {
    /// `bytes` zeros, which are at `address` for who has the key.
    #[must_use]
    pub fn new(address: u64, bytes: usize, rkey: u32, access: Access) -> Self {
        Self {
            address,
            rkey,
            access,
            memory: ZeroedArray::new(bytes),
        }
    }

    /// Where in the memory a request is, if it is inside.
    fn range(&self, reth: &Reth) -> Option<std::ops::Range<usize>> {
        let from = reth.address.checked_sub(self.address)?;
        let to = from.checked_add(reth.bytes.into())?;
        (to <= self.memory.len() as u64).then_some(from as usize..to as usize)
    }
}

/// All memory of a responder.
#[derive(Default)]
pub struct Regions(Vec<Region>);

impl Regions {
    pub fn register(&mut self, region: Region) -> Result<(), RegionError> {
        let bytes = region.memory.len() as u64;
        if region.address.checked_add(bytes).is_none() {
            return Err(RegionError::Address);
        }
        if self.0.iter().any(|known| known.rkey == region.rkey) {
            return Err(RegionError::Key);
        }
        if self.0.len() == MAX_REGIONS {
            return Err(RegionError::TooMany);
        }
        self.0.push(region);
        Ok(())
    }

    pub fn withdraw(&mut self, rkey: u32) -> bool {
        let before = self.0.len();
        self.0.retain(|known| known.rkey != rkey);
        self.0.len() < before
    }

    /// Whether somebody with this key may do so there. Nothing at all may be done by anybody.
    pub fn allow(&self, reth: &Reth, wanted: Access) -> bool {
        reth.bytes == 0
            || self.0.iter().any(|region| {
                region.rkey == reth.rkey
                    && region.access.allows(wanted)
                    && region.range(reth).is_some()
            })
    }

    /// The bytes, if they are there.
    pub fn bytes(&self, reth: &Reth) -> Option<&[u8]> {
        if reth.bytes == 0 {
            return Some(&[]);
        }
        let region = self.0.iter().find(|region| region.rkey == reth.rkey)?;
        region.memory.get(region.range(reth)?)
    }

    /// The same, to change.
    pub fn bytes_mut(&mut self, reth: &Reth) -> Option<&mut [u8]> {
        if reth.bytes == 0 {
            return Some(&mut []);
        }
        let region = self.0.iter_mut().find(|region| region.rkey == reth.rkey)?;
        let range = region.range(reth)?;
        region.memory.get_mut(range)
    }
}
