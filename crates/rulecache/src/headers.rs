//! The headers of what nearly every packet is, TCP or UDP over IPv4, to be rewritten.

use twinpath_core::wire::ipv4;
use twinpath_core::wire::layout::Layout;

/// The headers of a packet.
pub(crate) struct Headers<'a> {
    /// The destination's and the source's.
    pub macs: &'a mut [u8; 12],
    /// IPv4's, without options.
    pub ip: &'a mut [u8; ipv4::HEADER_BYTES],
    /// Up to its checksum.
    pub transport: &'a mut [u8],
}

impl<'a> Headers<'a> {
    /// `None` if they are not all there.
    #[inline(always)]
    pub fn of<const CHECKSUM_AT: usize>(frame: &'a mut [u8], layout: &Layout) -> Option<Self> {
        let (ethernet, packet) = frame.split_at_mut_checked(usize::from(layout.l3))?;
        let (ip, behind) = packet.split_first_chunk_mut::<{ ipv4::HEADER_BYTES }>()?;
        let options = layout
            .l4
            .wrapping_sub(layout.l3)
            .checked_sub(ipv4::HEADER_BYTES as u16)?;
        let transport = behind.split_at_mut_checked(options.into())?.1;
        Some(Self {
            macs: ethernet.first_chunk_mut::<12>()?,
            ip,
            transport: transport.get_mut(..CHECKSUM_AT + 2)?,
        })
    }

    /// Time to live.
    #[inline(always)]
    pub fn ttl(&self) -> u8 {
        self.ip[ipv4::TTL_AT]
    }
}
