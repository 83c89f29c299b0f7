//! Redirects of load balancers, as DASH's document on the fast path has them.

use twinpath_core::wire::layout::Layout;
use twinpath_core::wire::{Address, MacAddress, PacketBuilder, checksum, fields, icmp, protocol};

/// Kinds of tunnels by the numbers that redirects have for them.
pub const NVGRE: u16 = 1;
pub const VXLAN: u16 = 2;
pub const IP_IN_IP: u16 = 3;

/// What a redirect tells beside the packet that it is about.
#[derive(Copy, Clone, Debug)]
pub struct RedirectInfo {
    pub encap_type: u16,
    pub encap_id: u32,
    pub dip_pa: Address,
    pub vm_mac: MacAddress,
}

impl RedirectInfo {
    pub fn bytes(&self) -> Vec<u8> {
        let family: u16 = if self.dip_pa.is_v4() { 2 } else { 10 };
        let mut bytes = vec![0, 0, 0, 1];
        bytes.extend(family.to_be_bytes());
        bytes.extend(self.encap_type.to_be_bytes());
        bytes.extend(self.encap_id.to_be_bytes());
        match self.dip_pa.is_v4() {
            true => bytes.extend(self.dip_pa.octets4()),
            false => bytes.extend(self.dip_pa.octets16()),
        }
        bytes.extend(self.vm_mac.0);
        bytes
    }
}

/// The inner frame of a redirect about an inner frame that left, between MAC addresses.
pub fn redirect(about: &[u8], layout: &Layout, info: &[u8], macs: [MacAddress; 2]) -> Vec<u8> {
    let (l3, l4) = (usize::from(layout.l3), usize::from(layout.l4));
    let source = fields::source_address(about, layout);
    let destination = fields::destination_address(about, layout);
    let mut message = match source.is_v4() {
        true => {
            let mut message = vec![icmp::v4::REDIRECT, 1, 0, 0];
            message.extend(destination.octets4());
            message
        }
        false => {
            let mut message = vec![icmp::v6::REDIRECT, 0, 0, 0, 0, 0, 0, 0];
            message.extend(destination.octets16());
            message.extend(destination.octets16());
            message.extend([4, 7, 0, 0, 0, 0, 0, 0]);
            message
        }
    };
    message.extend(&about[l3..l4 + 8]);
    message.extend(info);
    let (number, start) = match source.is_v4() {
        true => (protocol::ICMP, 0),
        false => {
            let length = message.len() as u32;
            let pseudo = checksum::pseudo_header(source, destination, protocol::ICMP6, length);
            (protocol::ICMP6, pseudo)
        }
    };
    let sum = checksum::finish(start + checksum::sum(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    PacketBuilder::raw(number, source, destination)
        .payload(&message)
        .macs(macs[0], macs[1])
        .to_vec()
        .expect("a packet")
}
