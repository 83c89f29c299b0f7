//! Memory with a descriptor: another process may go on with it, and the kernel may be told of it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// A file that lies in memory alone, all of which this process sees.
#[derive(Debug)]
pub struct MemoryFile {
    file: OwnedFd,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: memory that belongs to whoever has this value.
unsafe impl Send for MemoryFile {}
// SAFETY: nothing is read or written through a shared reference.
unsafe impl Sync for MemoryFile {}

impl MemoryFile {
    /// `len` bytes, all zero.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(len: usize) -> io::Result<Self> {
        // SAFETY: a string that ends with a zero.
        let fd = checked(unsafe { libc::memfd_create(c"twinpath".as_ptr(), libc::MFD_CLOEXEC) })?;
        // SAFETY: the descriptor was just made and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: no memory is handed in.
        checked(unsafe { libc::ftruncate(file.as_raw_fd(), len as libc::off_t) })?;
        Self::of(file, len)
    }

    /// What another process has made, if it has this length in bytes.
    ///
    /// # Errors
    /// It has another length, or what the system says.
    pub fn of(file: OwnedFd, len: usize) -> io::Result<Self> {
        if length(&file)? != len as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (place, fd) = (std::ptr::null_mut(), file.as_raw_fd());
        // SAFETY: the kernel chooses a place that nothing else has.
        let start = unsafe { libc::mmap(place, len, protection, libc::MAP_SHARED, fd, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Self { file, start, len })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// What another process is handed.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.file
    }

    /// Where it begins in this process: at a page.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Length in bytes.
    #[expect(
        clippy::len_without_is_empty,
        reason = "the system has no empty mapping"
    )]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length; whoever refers to it keeps this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

fn length(file: &OwnedFd) -> io::Result<u64> {
    // SAFETY: plain data, of which all zeros are a value.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `status` lives during the call.
    checked(unsafe { libc::fstat(file.as_raw_fd(), &raw mut status) })?;
    Ok(status.st_size.try_into().unwrap_or(0))
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_mapping_shows_the_same_and_a_wrong_length_is_refused() {
        let one = MemoryFile::new(8192).expect("memory");
        // SAFETY: inside, and nobody else refers to it.
        unsafe { one.start().add(5000).write(7) };
        let copy = || one.descriptor().try_clone().expect("a copy");
        let other = MemoryFile::of(copy(), 8192).expect("it is as long");
        // SAFETY: inside, and nobody writes.
        assert_eq!(unsafe { other.start().add(5000).read() }, 7);
        assert!(MemoryFile::of(copy(), 4096).is_err());
    }
}
