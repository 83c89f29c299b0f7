//! How many packets of which kind a capture has.

use twinpath_core::key::{Keyed, Role};
use twinpath_wire::tcp::flags::{FIN, RST, SYN};
use twinpath_wire::{Layout, Network, Transport, fields, verify_transport_checksum};

/// Packets of a capture by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub packets: u64,
    /// Over IPv4.
    pub v4: u64,
    /// Over IPv6.
    pub v6: u64,
    /// Not IP, or too broken to tell.
    pub not_ip: u64,
    /// With one VLAN tag or more.
    pub tagged: u64,
    /// Fragments.
    pub fragments: u64,
    /// ICMP errors that quote a packet.
    pub icmp_errors: u64,
    /// Whole TCP segments.
    pub tcp: u64,
    /// Whole UDP datagrams.
    pub udp: u64,
    /// Whole ICMP messages of either version that are no errors.
    pub icmp: u64,
    /// Whole packets of any other protocol.
    pub other: u64,
    /// TCP segments with SYN, FIN or RST.
    pub marked: u64,
    /// TCP segments that came before bytes in front of them.
    pub ahead: u64,
    /// TCP segments all of whose bytes had come before.
    pub repeated: u64,
    /// Whole packets whose transport checksum is wrong: most of all those of a capturing host that
    /// leaves checksums to its network card.
    pub broken: u64,
}

impl Counts {
    pub(super) fn add(&mut self, frame: &[u8], layout: &Layout, keyed: &Keyed) {
        match layout.network {
            Network::V6 => self.v6 += 1,
            _ => self.v4 += 1,
        }
        self.tagged += u64::from(is_tagged(layout));
        self.broken += u64::from(!verify_transport_checksum(frame, layout));
        match keyed.role {
            Role::Fragment => self.fragments += 1,
            Role::Error => self.icmp_errors += 1,
            Role::Member => *self.of(layout.transport) += 1,
        }
        self.marked += u64::from(is_marked(frame, layout));
    }

    fn of(&mut self, transport: Transport) -> &mut u64 {
        match transport {
            Transport::Tcp => &mut self.tcp,
            Transport::Udp => &mut self.udp,
            Transport::Icmp | Transport::Icmp6 => &mut self.icmp,
            Transport::None | Transport::Other => &mut self.other,
        }
    }
}

/// Whether the IP header does not follow the Ethernet header at once.
fn is_tagged(layout: &Layout) -> bool {
    layout.l3 > 14
}

/// Whether this is a TCP segment that opens or ends something: never the fast path's.
pub(super) fn is_marked(frame: &[u8], layout: &Layout) -> bool {
    fields::tcp_flags(frame, layout) & (SYN | FIN | RST) != 0
}
