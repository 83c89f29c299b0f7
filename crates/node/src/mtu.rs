//! How long packets may be that leave by a port.

use twinpath_control::service::Service;
use twinpath_core::Frame;
use twinpath_core::wire::fragment::pieces;
use twinpath_core::wire::{Layout, dissect};
use twinpath_ports::offload::link_bytes;

/// Bytes of the shortest link header.
const ETHERNET_BYTES: usize = 14;

/// By port, the longest IP packet that leaves there; nothing if nobody in the chain tells senders of
/// longer ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mtus {
    by_port: Vec<u16>,
    /// The shortest of all.
    least: u16,
}

/// Whether a packet may leave by a port.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// As it is.
    Whole,
    /// In fragments whose IP packets are of at most `room` bytes.
    Cut {
        /// What there is room for.
        room: u16,
    },
    /// It may not, and whoever sent it may send IP packets of `room` bytes.
    TooLong {
        /// Its headers.
        layout: Layout,
        /// What there is room for.
        room: u16,
    },
}

impl Mtus {
    /// What the service says of its ports.
    pub fn of(service: &Service) -> Self {
        let mut chain = service.chain.iter();
        match chain.any(|instance| instance.config.undelivered(service.seed).is_some()) {
            true => {
                let said = service.devices.iter().map(|device| device.mtu);
                Self::new(said.map(|mtu| mtu.unwrap_or(u16::MAX)))
            }
            false => Self::default(),
        }
    }

    /// By port.
    fn new(by_port: impl Iterator<Item = u16>) -> Self {
        let by_port: Vec<u16> = by_port.collect();
        let least = by_port.iter().copied().min().unwrap_or(u16::MAX);
        Self { by_port, least }
    }

    /// The same where the links themselves carry so much.
    pub fn within(&self, links: &[usize]) -> Self {
        let shorter = |(mtu, link): (&u16, &usize)| u16::try_from(*link).unwrap_or(*mtu).min(*mtu);
        Self::new(self.by_port.iter().zip(links).map(shorter))
    }

    /// Whether a packet may leave by any port.
    #[inline(always)]
    pub fn let_pass(&self, frame: &Frame) -> bool {
        self.by_port.is_empty() || frame.len() <= usize::from(self.least) + ETHERNET_BYTES
    }

    /// Whether a packet may leave by a port.
    pub fn fit(&self, frame: &Frame, port: u16) -> Fit {
        let mtu = self.by_port.get(usize::from(port));
        match (mtu, dissect(frame.bytes())) {
            (Some(mtu), Ok(layout)) if layout.is_ip() => fit(frame, layout, *mtu),
            _ => Fit::Whole,
        }
    }
}

fn fit(frame: &Frame, layout: Layout, mtu: u16) -> Fit {
    let bytes = frame.bytes();
    // What stands between the link header and the packet, such as a label, takes its share.
    let beside = usize::from(layout.l3).saturating_sub(link_bytes(bytes));
    let room = usize::from(mtu).saturating_sub(beside) as u16;
    if longest_packet(frame, &layout) <= usize::from(room) {
        return Fit::Whole;
    }
    match pieces(bytes, &layout, room.into()) {
        Some(_) => Fit::Cut { room },
        None => Fit::TooLong { layout, room },
    }
}

/// The longest IP packet that a frame will be on its link, where it may be cut into segments.
fn longest_packet(frame: &Frame, layout: &Layout) -> usize {
    let (l3, end) = (usize::from(layout.l3), layout.end as usize);
    let end = match usize::from(frame.segment_bytes()) {
        0 => end,
        segment => end.min(usize::from(layout.payload) + segment),
    };
    end.saturating_sub(l3)
}
