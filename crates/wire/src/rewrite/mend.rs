use crate::bytes::{put, u16_at, u32_at, u128_at};
use crate::checksum::Delta;
use crate::layout::{Layout, Transport};
use crate::verify::checksum_at;

/// Mends the transport checksum, if there is one.
#[inline(always)]
pub(super) fn mend_transport(frame: &mut [u8], layout: &Layout, delta: Delta) {
    let Some(at) = checksum_at(layout) else {
        return;
    };
    match layout.transport {
        Transport::Udp => mend_udp(frame, at, delta),
        _ => mend(frame, at, delta),
    };
}

/// Mends the checksum at `at` and tells how its own bytes changed.
#[inline(always)]
pub(super) fn mend(frame: &mut [u8], at: usize, delta: Delta) -> Delta {
    replace16(frame, at, delta.apply(u16_at(frame, at)))
}

#[inline(always)]
pub(super) fn mend_udp(frame: &mut [u8], at: usize, delta: Delta) -> Delta {
    replace16(frame, at, delta.apply_udp(u16_at(frame, at)))
}

#[inline(always)]
pub(super) fn replace16(frame: &mut [u8], at: usize, new: u16) -> Delta {
    let delta = Delta::of16(u16_at(frame, at), new);
    put(frame, at, new.to_be_bytes());
    delta
}

#[inline(always)]
pub(super) fn replace32(frame: &mut [u8], at: usize, new: u32) -> Delta {
    let delta = Delta::of32(u32_at(frame, at), new);
    put(frame, at, new.to_be_bytes());
    delta
}

#[inline(always)]
pub(super) fn replace128(frame: &mut [u8], at: usize, new: u128) -> Delta {
    let delta = Delta::of128(u128_at(frame, at), new);
    put(frame, at, new.to_be_bytes());
    delta
}
