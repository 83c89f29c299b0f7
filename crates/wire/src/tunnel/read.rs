use std::ops::Range;

use thiserror::Error;

use super::{
    Encapsulation, HAS_KEY, HAS_VNI, MIN_INNER_BYTES, NVGRE_HEADER_BYTES, TRANSPARENT_ETHERNET,
    VXLAN_HEADER_BYTES,
};
use crate::bytes::{u8_at, u16_at, u32_at};
use crate::fields::{self, transport_end};
use crate::layout::{Fragment, Layout, Transport};
use crate::protocol;

/// Why no inner frame was found.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum TunnelMalformed {
    /// Neither UDP to VXLAN's port nor GRE with Ethernet frames.
    #[error("neither VXLAN nor NVGRE")]
    NotTunnel,
    /// A fragment: what is inside is not all there.
    #[error("fragment of an encapsulated frame")]
    Fragment,
    /// The packet ends before the inner frame's own header does.
    #[error("ends before the inner Ethernet header does")]
    Truncated,
    /// VXLAN without a VNI, GRE without a key or with more than one, or another version of it.
    #[error("VXLAN without a VNI, or GRE with other than a key")]
    Flags,
}

/// One layer of encapsulation around an Ethernet frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its kind.
    pub encapsulation: Encapsulation,
    /// VNI or virtual subnet.
    pub key: u32,
    /// NVGRE's flow number; 0 for VXLAN.
    pub flow: u8,
    /// Where in the outer frame the inner one begins.
    pub inner_at: u16,
    /// Where it ends.
    pub inner_end: u32,
}

impl Tunnel {
    /// Reads the layer that a dissected frame is. Reserved bits of VXLAN do not matter (RFC 7348 §5);
    /// of GRE's flags none but the key's may be set (RFC 7637 §3.2).
    ///
    /// # Errors
    /// It is none, or nothing that can be taken off.
    #[inline]
    pub fn read(frame: &[u8], layout: &Layout, vxlan_port: u16) -> Result<Self, TunnelMalformed> {
        let may_be = matches!(layout.protocol, protocol::UDP | protocol::GRE);
        match (layout.fragment, layout.transport) {
            (Fragment::Whole, Transport::Udp)
                if fields::destination_port(frame, layout) == vxlan_port =>
            {
                vxlan(frame, layout)
            }
            (Fragment::Whole, Transport::Other) if layout.protocol == protocol::GRE => {
                nvgre(frame, layout)
            }
            (Fragment::First | Fragment::Later, _) if may_be => Err(TunnelMalformed::Fragment),
            _ => Err(TunnelMalformed::NotTunnel),
        }
    }

    /// Where the inner frame lies in the outer one.
    #[must_use]
    #[inline]
    pub const fn inner(&self) -> Range<usize> {
        self.inner_at as usize..self.inner_end as usize
    }
}

fn vxlan(frame: &[u8], layout: &Layout) -> Result<Tunnel, TunnelMalformed> {
    let at = usize::from(layout.payload);
    let (inner_at, inner_end) =
        inner(at + VXLAN_HEADER_BYTES, transport_end(frame, layout), frame)?;
    if u8_at(frame, at) & HAS_VNI == 0 {
        return Err(TunnelMalformed::Flags);
    }
    Ok(Tunnel {
        encapsulation: Encapsulation::Vxlan,
        key: u32_at(frame, at + 4) >> 8,
        flow: 0,
        inner_at,
        inner_end,
    })
}

fn nvgre(frame: &[u8], layout: &Layout) -> Result<Tunnel, TunnelMalformed> {
    let (at, end) = (usize::from(layout.l4), layout.end as usize);
    if end < at + 4 {
        return Err(TunnelMalformed::Truncated);
    }
    if u16_at(frame, at + 2) != TRANSPARENT_ETHERNET {
        return Err(TunnelMalformed::NotTunnel);
    }
    if u16_at(frame, at) != HAS_KEY {
        return Err(TunnelMalformed::Flags);
    }
    let (inner_at, inner_end) = inner(at + NVGRE_HEADER_BYTES, end, frame)?;
    let key = u32_at(frame, at + 4);
    Ok(Tunnel {
        encapsulation: Encapsulation::Nvgre,
        key: key >> 8,
        flow: key as u8,
        inner_at,
        inner_end,
    })
}

/// Both ends of the inner frame, if its header is there.
fn inner(at: usize, end: usize, frame: &[u8]) -> Result<(u16, u32), TunnelMalformed> {
    let is_there = at + MIN_INNER_BYTES <= end && end <= frame.len();
    match (u16::try_from(at), u32::try_from(end)) {
        (Ok(at), Ok(end)) if is_there => Ok((at, end)),
        _ => Err(TunnelMalformed::Truncated),
    }
}
