//! TAP: an interface of its own, whose other end are programs on this host.
//!
//! The interface exists as long as the port is open, unless it was there before. Each frame is one
//! read or write, with the kernel's word on [offloads](crate::offload) in front.

use crate::counters::PortCounters;
use crate::descriptor_store::DescriptorStore;
use crate::interface::MAX_NAME;
use crate::offload::{Oversized, VNET_BYTES, VnetHeader, check_length};
use crate::sys;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use twinpath_core::pool::LARGE_PACKET_BYTES;
use twinpath_core::{Frame, Pools};

/// Asks which interface a file is the end of: `_IOR('T', 210, unsigned int)`.
const TUNGETIFF: libc::c_ulong = 0x8004_54d2;

/// Our end of an interface.
pub struct TapPort {
    file: File,
    mtu: usize,
    buffer: Box<[u8; LARGE_PACKET_BYTES]>,
}

impl TapPort {
    /// Makes an interface, or takes an idle one that was made before.
    ///
    /// # Errors
    /// It is not permitted (CAP_NET_ADMIN), there is no TAP on this host, or somebody has the
    /// interface.
    pub fn open(name: &str, mtu: usize, descriptor_store: &DescriptorStore) -> io::Result<Self> {
        let kept_as = format!("tap-{name}");
        let kept = descriptor_store.take(&kept_as).map(File::from);
        let file = match kept.filter(|file| has_interface(file, name)) {
            Some(file) => file,
            None => {
                descriptor_store.forget(&kept_as);
                let file = OwnedFd::from(make(name)?);
                descriptor_store.keep(&kept_as, &file);
                file.into()
            }
        };
        Ok(Self {
            file,
            mtu,
            buffer: Box::new([0; _]),
        })
    }

    /// What is waited for.
    pub fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// The interface has another MTU.
    pub fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    /// Receives up to `most` frames, appended to `burst`.
    ///
    /// # Errors
    /// The interface is down or gone.
    pub fn receive(
        &mut self,
        pools: &mut Pools,
        burst: &mut Vec<Frame>,
        most: usize,
        counters: &mut PortCounters,
    ) -> io::Result<()> {
        for _ in 0..most {
            let mut header = [0; VNET_BYTES];
            let mut parts = [
                IoSliceMut::new(&mut header),
                IoSliceMut::new(&mut self.buffer[..]),
            ];
            let len = match self.file.read_vectored(&mut parts) {
                Ok(len) => len.saturating_sub(VNET_BYTES),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let Some(mut frame) = pools.take_filled(&self.buffer[..len]) else {
                counters.receive_no_buffer += 1;
                continue;
            };
            counters.received(len);
            match VnetHeader::of(&header).accept(&mut frame) {
                Some(segments) => segments.hand_on(frame, pools, burst, counters),
                None => {
                    counters.receive_malformed += 1;
                    pools.give(frame);
                }
            }
        }
        Ok(())
    }

    /// Sends a frame.
    pub fn transmit(&mut self, mut frame: Frame, pools: &mut Pools, counters: &mut PortCounters) {
        if check_length(&frame, self.mtu) == Err(Oversized::Frame) {
            counters.transmit_too_long += 1;
            return pools.give(frame);
        }
        let header = VnetHeader::leave(&mut frame).to_bytes();
        let parts = [IoSlice::new(&header), IoSlice::new(frame.bytes())];
        match self.file.write_vectored(&parts) {
            Ok(_) => counters.transmitted(frame.len()),
            Err(_) => counters.transmit_refused += 1,
        }
        pools.give(frame);
    }
}

/// Makes an interface, or takes an idle one.
fn make(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let mut request = no_interface();
    for (place, byte) in request.ifr_name.iter_mut().take(MAX_NAME).zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    sys::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request)?;
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    sys::ioctl_value(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads.into())?;
    Ok(file)
}

/// Whether a file is our end of an interface of this name.
fn has_interface(file: &File, name: &str) -> bool {
    let mut request = no_interface();
    let asked = sys::ioctl(file.as_raw_fd(), TUNGETIFF, &mut request);
    let told = request.ifr_name.iter().map(|&byte| byte as u8);
    asked.is_ok() && told.take_while(|&byte| byte != 0).eq(name.bytes())
}

fn no_interface() -> libc::ifreq {
    // SAFETY: plain data, of which all zeros are a value.
    unsafe { std::mem::zeroed() }
}
