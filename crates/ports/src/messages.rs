//! Many messages in one call of the system: recvmmsg(2) and sendmmsg(2).

use crate::sys::checked;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Messages that one call exchanges.
pub const BURST: usize = 64;

/// Parts of a message: what the kernel says of it, the frame, and where a long frame goes on.
const PARTS: usize = 3;

/// Bytes of control messages behind a frame.
const CONTROL_BYTES: usize = 64;

#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Messages of a call. Pointers in it are set before each call, to memory that lives during it.
pub struct Messages {
    headers: Vec<libc::mmsghdr>,
    parts: Vec<[libc::iovec; PARTS]>,
    controls: Vec<Control>,
    count: usize,
}

// SAFETY: pointers inside are of use to a call that is under way only, and a call borrows all.
unsafe impl Send for Messages {}

/// What came of a message.
#[derive(Copy, Clone, Debug)]
pub struct Received {
    /// Its length in bytes.
    pub len: usize,
    /// Whether it was longer than its parts.
    pub is_cut: bool,
    /// A VLAN tag that the kernel has taken off.
    pub tag: Option<[u8; 4]>,
}

impl Default for Messages {
    fn default() -> Self {
        let no_part = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        // SAFETY: plain data, of which all zeros are a value.
        let headers = (0..BURST).map(|_| unsafe { std::mem::zeroed() }).collect();
        Self {
            headers,
            parts: vec![[no_part; PARTS]; BURST],
            controls: (0..BURST).map(|_| Control([0; CONTROL_BYTES])).collect(),
            count: 0,
        }
    }
}

impl Messages {
    /// Messages that are ready for a call.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// No message any more.
    pub const fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds a message to be received. The parts must stay where they are until the call.
    pub fn receive_into(&mut self, parts: [&mut [u8]; PARTS]) {
        let number = self.count;
        for (place, part) in self.parts[number].iter_mut().zip(parts) {
            (place.iov_base, place.iov_len) = (part.as_mut_ptr().cast(), part.len());
        }
        let header = &mut self.headers[number].msg_hdr;
        (header.msg_iov, header.msg_iovlen) = (self.parts[number].as_mut_ptr(), PARTS as _);
        header.msg_control = self.controls[number].0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
        self.count += 1;
    }

    /// Adds a message to be sent. The parts must stay where they are until the call.
    pub fn send_from(&mut self, parts: [&[u8]; 2]) {
        let number = self.count;
        for (place, part) in self.parts[number].iter_mut().zip(parts) {
            (place.iov_base, place.iov_len) = (part.as_ptr().cast_mut().cast(), part.len());
        }
        let header = &mut self.headers[number].msg_hdr;
        (header.msg_iov, header.msg_iovlen) = (self.parts[number].as_mut_ptr(), 2);
        (header.msg_control, header.msg_controllen) = (std::ptr::null_mut(), 0);
        self.count += 1;
    }

    /// Receives. Returns how many messages there were; 0 if none waits.
    ///
    /// # Safety
    /// What was handed to [`Self::receive_into`] since [`Self::clear`] is still there, and nobody
    /// else looks at it.
    ///
    /// # Errors
    /// What the system says.
    pub unsafe fn receive(&mut self, socket: &OwnedFd) -> io::Result<usize> {
        // SAFETY: as many headers as are counted, whose parts the caller answers for; nothing is
        // written but parts and control messages, all with their lengths.
        let result = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.count as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        some_or_none(result)
    }

    /// Sends from the message `first` on. Returns how many were taken.
    ///
    /// # Safety
    /// What was handed to [`Self::send_from`] since [`Self::clear`] is still there.
    ///
    /// # Errors
    /// What the system says of the first message.
    pub unsafe fn send(&mut self, socket: &OwnedFd, first: usize) -> io::Result<usize> {
        let rest = &mut self.headers[first..self.count];
        // SAFETY: as many headers as there are, whose parts the caller answers for.
        let result = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                rest.as_mut_ptr(),
                rest.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        checked(result).map(|count| count as usize)
    }

    /// What came of a message.
    pub fn received(&self, number: usize) -> Received {
        let message = &self.headers[number];
        Received {
            len: message.msg_len as usize,
            is_cut: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            tag: self.tag(number),
        }
    }

    /// The tag in a message's `struct tpacket_auxdata`.
    fn tag(&self, number: usize) -> Option<[u8; 4]> {
        const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
        const AUXILIARY_BYTES: usize = size_of::<libc::tpacket_auxdata>();
        let control = &self.controls[number].0;
        let header = &self.headers[number].msg_hdr;
        if header.msg_controllen < HEADER_BYTES + AUXILIARY_BYTES {
            return None;
        }
        let int = |at: usize| {
            control[at..]
                .first_chunk()
                .map_or(0, |bytes| i32::from_ne_bytes(*bytes))
        };
        let (level, kind) = (int(HEADER_BYTES - 8), int(HEADER_BYTES - 4));
        if (level, kind) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
            return None;
        }
        let word = |at: usize| {
            let place = control[HEADER_BYTES + at..].first_chunk();
            place.map_or(0, |bytes| u16::from_ne_bytes(*bytes))
        };
        let status = int(HEADER_BYTES) as u32;
        let (tag, protocol) = (word(16), word(18));
        if status & libc::TP_STATUS_VLAN_VALID == 0 {
            return None;
        }
        let protocol = match status & libc::TP_STATUS_VLAN_TPID_VALID {
            0 => libc::ETH_P_8021Q as u16,
            _ => protocol,
        };
        let ([a, b], [c, d]) = (protocol.to_be_bytes(), tag.to_be_bytes());
        Some([a, b, c, d])
    }
}

fn some_or_none(result: libc::c_int) -> io::Result<usize> {
    match checked(result) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(0)
        }
        result => result.map(|count| count as usize),
    }
}
