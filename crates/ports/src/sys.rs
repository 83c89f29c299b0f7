//! Calls of the system, each wrapped so that what is handed in lives long enough.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

/// The number of a socket's network namespace, as an option of the socket.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// The result of a call that tells errors by -1.
pub fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// A socket that is not inherited and does not block.
pub fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is handed in.
    let fd = checked(unsafe { libc::socket(family, kind, protocol) })?;
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option to a value of any plain type.
pub fn set_option<T: Copy>(fd: &OwnedFd, level: i32, name: i32, value: T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` lives during the call, and its size is handed in.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) };
    checked(result).map(|_| ())
}

/// Reads a socket option. `T` must be plain data of which any bytes are a value.
pub fn option<T: Copy>(fd: &OwnedFd, level: i32, name: i32, mut value: T) -> io::Result<T> {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` and `size` live during the call; no more than `size` bytes are written.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut size,
        )
    };
    checked(result).map(|_| value)
}

/// Most groups that a process can be in.
const MOST_GROUPS: usize = 65_536;

/// The groups that the process at the other end of a Unix socket was in beside its first one, when it
/// connected.
///
/// # Errors
/// As the system tells.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut size = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: `groups` and `size` live during the call; no more than `size` bytes are written.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut size,
            )
        };
        let told = size as usize / size_of::<libc::gid_t>();
        match checked(result) {
            Ok(_) => {
                groups.truncate(told);
                return Ok(groups);
            }
            // It tells how many there are.
            Err(error)
                if error.raw_os_error() == Some(libc::ERANGE)
                    && (groups.len() + 1..=MOST_GROUPS).contains(&told) =>
            {
                groups.resize(told, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Binds a socket to an address of any family.
pub fn bind<A: Copy>(fd: &OwnedFd, address: A) -> io::Result<()> {
    let size = size_of::<A>() as libc::socklen_t;
    // SAFETY: `address` lives during the call, and its size is handed in.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) };
    checked(result).map(|_| ())
}

/// Whether a socket is bound to an address, byte for byte as far as that is told.
pub fn is_bound_to(fd: &OwnedFd, address: &libc::sockaddr_ll) -> bool {
    // SAFETY: plain data, of which all zeros are a value.
    let mut bound: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let place = (&raw mut bound).cast();
    // SAFETY: `bound` and `size` live during the call; no more than `size` bytes are written.
    let result = unsafe { libc::getsockname(fd.as_raw_fd(), place, &raw mut size) };
    let told = |address: &libc::sockaddr_ll| {
        let (family, protocol) = (address.sll_family, address.sll_protocol);
        (family, protocol, address.sll_ifindex)
    };
    result == 0 && told(&bound) == told(address)
}

/// Whether a socket is of the network namespace that this process is in. Where the kernel does not
/// tell it is taken to be.
pub fn is_of_this_network(fd: &OwnedFd) -> bool {
    network_of(fd) == network()
}

/// The number of the network namespace that this process is in, if the kernel tells it.
pub fn network() -> Option<u64> {
    let own = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).ok()?;
    network_of(&own)
}

fn network_of(fd: &OwnedFd) -> Option<u64> {
    option(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE, 0u64).ok()
}

/// Sends a message.
pub fn send(fd: RawFd, message: &[u8]) -> io::Result<()> {
    // SAFETY: the message lives during the call, and its length is handed in.
    let sent = unsafe { libc::send(fd, message.as_ptr().cast(), message.len(), 0) };
    match sent {
        ..0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Receives a message. Returns its length, of which what does not fit is lost.
pub fn receive(fd: RawFd, message: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer lives during the call, and its length is handed in.
    let len = unsafe { libc::recv(fd, message.as_mut_ptr().cast(), message.len(), 0) };
    usize::try_from(len).map_err(|_| io::Error::last_os_error())
}

/// An ioctl that reads and writes one value.
pub fn ioctl<T>(fd: RawFd, request: libc::c_ulong, value: &mut T) -> io::Result<()> {
    // SAFETY: the value lives during the call, and each request used here is about such a value.
    let result = unsafe { libc::ioctl(fd, request as _, std::ptr::from_mut(value)) };
    checked(result).map(|_| ())
}

/// An ioctl that takes a number.
pub fn ioctl_value(fd: RawFd, request: libc::c_ulong, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: no memory is handed in.
    checked(unsafe { libc::ioctl(fd, request as _, value) }).map(|_| ())
}

/// bpf(2) with attributes as the kernel lays them out. Returns what the call returns.
pub fn bpf(command: i32, attributes: &[u8]) -> io::Result<libc::c_int> {
    // SAFETY: the attributes live during the call; pointers in them are to memory that the caller
    // keeps until then.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_ptr(),
            attributes.len() as libc::c_uint,
        )
    };
    checked(result as libc::c_int)
}

/// As [`bpf`], for commands that make a descriptor.
pub fn bpf_descriptor(command: i32, attributes: &[u8]) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The number of an interface.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: a string that ends with a zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Hands each address of each interface to `each`; what it points to is there for the call alone.
pub fn interface_addresses(mut each: impl FnMut(&libc::ifaddrs)) -> io::Result<()> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the list's place lives during the call.
    checked(unsafe { libc::getifaddrs(&raw mut list) })?;
    let mut next = list;
    while !next.is_null() {
        // SAFETY: one of the list, which is freed behind the loop.
        let one = unsafe { &*next };
        each(one);
        next = one.ifa_next;
    }
    // SAFETY: the list is the system's, and nobody has it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(())
}

/// The name of an interface in the system's list.
pub fn name_of(one: &libc::ifaddrs) -> Option<String> {
    if one.ifa_name.is_null() {
        return None;
    }
    // SAFETY: a string that ends with a zero, and is there as long as the list is.
    let name = unsafe { CStr::from_ptr(one.ifa_name) };
    Some(name.to_string_lossy().into_owned())
}

/// The name of the interface of this number, if there is one.
pub fn interface_name(index: u32) -> Option<String> {
    let mut name = [0; libc::IFNAMSIZ];
    // SAFETY: the buffer is as long as a name may be.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    let name = CStr::from_bytes_until_nul(&name).ok();
    let name = name.filter(|_| !found.is_null());
    name.map(|name| name.to_string_lossy().into_owned())
}

/// Whether there is an interface of this number.
pub fn has_interface(index: u32) -> bool {
    interface_name(index).is_some()
}

/// Blocks until one of several descriptors can be read, or for so long.
pub fn poll(descriptors: &mut [libc::pollfd], timeout: std::time::Duration) -> io::Result<bool> {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    // SAFETY: slice and time live during the call.
    let result = unsafe {
        libc::ppoll(
            descriptors.as_mut_ptr(),
            descriptors.len() as libc::nfds_t,
            &raw const timeout,
            std::ptr::null(),
        )
    };
    match checked(result) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        result => result.map(|ready| ready > 0),
    }
}

/// Memory that the kernel shares with us, of a descriptor.
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: memory that belongs to whoever has this value.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a descriptor at an offset.
    pub fn of(fd: &OwnedFd, len: usize, offset: libc::off_t) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (flags, fd) = (libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd());
        // SAFETY: the kernel chooses a place that nothing else has.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, offset) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { start, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A pointer `offset` bytes behind the start.
    ///
    /// # Panics
    /// The `size` bytes from there are not all inside.
    pub fn at(&self, offset: usize, size: usize) -> NonNull<u8> {
        let end = offset.checked_add(size);
        assert!(end.is_some_and(|end| end <= self.len), "inside the mapping");
        // SAFETY: just checked.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nobody refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
