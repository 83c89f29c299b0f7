//! What came: outer headers, the tunnel, and the packet inside.

mod plain;
mod tags;

use twinpath_core::wire::layout::{Fragment, Layout, Network, Transport};
use twinpath_core::wire::tunnel::{Encapsulation, Tunnel, TunnelMalformed, ecn};
use twinpath_core::wire::{
    Address, Endpoint, MacAddress, dissect, ethernet, fields, verify_ipv4_checksum, vlan,
};

pub use plain::PlainPacket;
pub use tags::OuterTags;

use crate::headers::{Direction, Headers};
use crate::reason::Reason;
use crate::settings::Settings;
use crate::tables::Tables;

/// All that policies look at of a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Which way it goes, as its VNI tells.
    pub direction: Direction,
    /// Which way it goes as the ENI's machine sees it. Of what opened a flow this stays, wherever the machine
    /// is later.
    pub way: Direction,
    /// Whose it is.
    pub eni: u16,
    /// The tunnel it came by.
    pub encapsulation: Encapsulation,
    /// VNI or virtual subnet.
    pub key: u32,
    /// Outer source.
    pub outer_source: Address,
    /// Inner source MAC address.
    pub source_mac: MacAddress,
    /// The inner packet's headers.
    pub headers: Headers,
    /// By which flows are spread over endpoints; 0 until the flow's ports are known.
    pub entropy: u32,
    /// Which backend of a load balancer its flow has got, if it has.
    pub backend: Option<Endpoint>,
}

/// Whose a packet is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Which way it goes, as its VNI tells.
    pub direction: Direction,
    /// Which way it goes as the ENI's machine sees it: what a floating NIC's machine sends comes as what is
    /// sent to it does.
    pub way: Direction,
    /// The number of the ENI.
    pub eni: u16,
}

/// A packet that was taken apart, as far as that needs no ENI's policy.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// What policies look at.
    pub arrival: Arrival,
    /// The layer that is taken off.
    pub tunnel: Tunnel,
    /// Where the headers are in the inner frame.
    pub inner: Layout,
    /// DSCP and ECN of the outer header.
    pub outer_class: u8,
    /// The stations of the underlay: whom the frame was sent to, and by whom.
    pub stations: [MacAddress; 2],
    /// VLAN tags in front of the outer IP header.
    pub outer_tags: OuterTags,
}

/// Why a packet is dropped before any policy of an ENI, and whose it is if that is known: which way it
/// goes as its machine sees it, the number of the ENI, and the bytes of its inner frame.
pub type Unreceived = (Reason, Option<(Direction, u16, usize)>);

impl Received {
    /// Takes a frame apart and finds its ENI.
    ///
    /// # Errors
    /// It is none for this DPU, or broken.
    #[inline]
    pub fn read(frame: &[u8], tables: &Tables, settings: &Settings) -> Result<Self, Unreceived> {
        match PlainPacket::of(frame, tables.switch().port) {
            Some(plain) => Ok(Self::of_plain(frame, &plain, plain.whose(frame, tables)?)),
            None => Self::read_any(frame, tables, settings),
        }
    }

    /// A plain packet of this owner's.
    #[inline]
    #[must_use]
    pub fn of_plain(frame: &[u8], plain: &PlainPacket, owner: Owner) -> Self {
        let [outer_source, _] = plain.outer();
        let tunnel = plain.tunnel();
        let inside = frame.get(tunnel.inner()).unwrap_or(&[]);
        Self {
            arrival: Arrival {
                direction: owner.direction,
                way: owner.way,
                eni: owner.eni,
                encapsulation: tunnel.encapsulation,
                key: tunnel.key,
                outer_source,
                source_mac: fields::source_mac(inside),
                headers: plain.headers(),
                entropy: 0,
                backend: None,
            },
            tunnel,
            inner: plain.inside.layout(),
            outer_class: plain.outer_class,
            stations: stations(frame),
            outer_tags: OuterTags::default(),
        }
    }

    fn read_any(frame: &[u8], tables: &Tables, settings: &Settings) -> Result<Self, Unreceived> {
        let outer = dissect(frame).map_err(|_| (Reason::OuterMalformed, None))?;
        if outer.network == Network::V4 && !verify_ipv4_checksum(frame, &outer) {
            return Err((Reason::OuterMalformed, None));
        }
        let tunnel = Tunnel::read(frame, &outer, tables.switch().port)
            .map_err(|malformed| (unreceived(malformed), None))?;
        let outer_tags = OuterTags::read(frame, &outer).ok_or((Reason::NotEncapsulated, None))?;
        let destination = fields::destination_address(frame, &outer);
        is_for_us(
            tables,
            &tunnel,
            destination,
            fields::source_port(frame, &outer),
        )?;
        let inside = frame.get(tunnel.inner()).unwrap_or(&[]);
        let outer_source = fields::source_address(frame, &outer);
        let Owner {
            direction,
            way,
            eni,
        } = whose(inside, &tunnel, outer_source, tables)?;
        let broken = (Reason::InnerMalformed, Some((way, eni, inside.len())));
        let inner = dissect(inside).map_err(|_| broken)?;
        if !is_allowed_inside(inside, &inner, settings) {
            return Err(broken);
        }
        let headers = Headers::of(inside, &inner).ok_or(broken)?;
        Ok(Self {
            arrival: Arrival {
                direction,
                way,
                eni,
                encapsulation: tunnel.encapsulation,
                key: tunnel.key,
                outer_source,
                source_mac: fields::source_mac(inside),
                headers,
                entropy: 0,
                backend: None,
            },
            tunnel,
            inner,
            outer_class: ecn::traffic_class(frame, &outer),
            stations: stations(frame),
            outer_tags,
        })
    }

    /// The ports of the flow's key: those of TCP and UDP, and an echo's identifier twice.
    #[must_use]
    #[inline]
    pub fn key_ports(&self, inside: &[u8]) -> [u16; 2] {
        match (self.arrival.headers.ports, self.inner.transport) {
            (Some(ports), _) => ports,
            (None, Transport::Icmp | Transport::Icmp6) => [
                fields::source_port(inside, &self.inner),
                fields::destination_port(inside, &self.inner),
            ],
            _ => [0; 2],
        }
    }

    /// Whether the packet is a fragment.
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.inner.fragment != Fragment::Whole
    }
}

impl PlainPacket {
    /// Whose it is.
    ///
    /// # Errors
    /// It is none for this DPU.
    #[inline(always)]
    pub fn whose(&self, frame: &[u8], tables: &Tables) -> Result<Owner, Unreceived> {
        let (tunnel, [source, destination]) = (self.tunnel(), self.outer());
        is_for_us(tables, &tunnel, destination, self.source_port)?;
        let inside = frame.get(tunnel.inner()).unwrap_or(&[]);
        whose(inside, &tunnel, source, tables)
    }
}

/// Whom a frame was sent to on the underlay, and by whom.
#[inline(always)]
#[must_use]
pub fn stations(frame: &[u8]) -> [MacAddress; 2] {
    [fields::destination_mac(frame), fields::source_mac(frame)]
}

/// Whether a packet is sent to the appliance, and from a port that it listens to.
#[inline(always)]
fn is_for_us(
    tables: &Tables,
    tunnel: &Tunnel,
    destination: Address,
    source_port: u16,
) -> Result<(), Unreceived> {
    if tables.appliance().sip != Some(destination) {
        return Err((Reason::VipMiss, None));
    }
    let switch = tables.switch();
    let is_checked = switch.checks_source_port && tunnel.encapsulation == Encapsulation::Vxlan;
    if is_checked && switch.source_ports.port(u32::from(source_port) << 16) != source_port {
        return Err((Reason::VxlanSourcePort, None));
    }
    Ok(())
}

/// The direction, which the VNI tells, and the ENI, which a MAC address does.
#[inline(always)]
fn whose(
    inside: &[u8],
    tunnel: &Tunnel,
    outer_source: Address,
    tables: &Tables,
) -> Result<Owner, Unreceived> {
    let (direction, mac) = tables.appliance().names_eni(inside, tunnel.key);
    let number = tables.eni_by_mac(mac).ok_or((Reason::EniMiss, None))?;
    let eni = tables.eni(number).ok_or((Reason::EniMiss, None))?;
    Ok(Owner {
        direction,
        way: tables.way(eni, direction, outer_source, tunnel.key),
        eni: number,
    })
}

/// Where tags may be, nothing but tags is in front of IP: a direct route takes them off.
fn is_allowed_inside(inside: &[u8], inner: &Layout, settings: &Settings) -> bool {
    let tags = vlan::tags_len(inside);
    let is_behind_tags = usize::from(inner.l3) == ethernet::HEADER_BYTES + tags;
    let may_have_tags = settings.inner_vlan || tags == 0;
    let is_sound = inner.network != Network::V4 || verify_ipv4_checksum(inside, inner);
    is_behind_tags && may_have_tags && is_sound
}

const fn unreceived(malformed: TunnelMalformed) -> Reason {
    match malformed {
        TunnelMalformed::NotTunnel | TunnelMalformed::Flags => Reason::NotEncapsulated,
        TunnelMalformed::Fragment => Reason::OuterFragment,
        TunnelMalformed::Truncated => Reason::OuterMalformed,
    }
}

#[cfg(all(test, feature = "samples"))]
mod tests {
    use proptest::prelude::*;
    use twinpath_core::wire::tunnel::{VXLAN_PORT, Varying};
    use twinpath_core::wire::{PacketBuilder, tcp};

    use super::*;
    use crate::samples::{Large, large};

    fn frame(is_udp: bool, payload: usize) -> Vec<u8> {
        let ends = [Large::machine(1), Large::mapped(1)].map(|address| Endpoint::new(address, 80));
        let inner = match is_udp {
            true => PacketBuilder::udp(ends[0], ends[1]),
            false => PacketBuilder::tcp(ends[0], ends[1]).flags(tcp::flags::SYN),
        };
        let inner = inner
            .payload_len(payload)
            .macs(Large::mac(0), MacAddress([2; 6]));
        let inner = inner.to_vec().expect("a packet");
        Large::outbound(0, &inner, &Varying::default())
    }

    fn tables() -> Tables {
        let objects = large(&Large {
            enis: 1,
            acl_stages: 0,
            acl_rules: 0,
            acl_prefixes: 0,
            routes: 1,
            mappings: 1,
        });
        let mut tables = Tables::new(1);
        tables.update(&objects, &objects.keys());
        tables
    }

    proptest! {
        /// Packets are the same whether they were looked at closely or not, damaged ones too.
        #[test]
        fn plain_packets_are_read_as_any(
            is_udp in any::<bool>(),
            payload in 0usize..40,
            damage in prop::collection::vec((0usize..120, any::<u8>()), 0..3),
            missing in prop::sample::select(vec![0usize, 0, 0, 1, 30]),
            behind in 0usize..3,
        ) {
            let (tables, settings) = (tables(), Settings::default());
            let mut frame = frame(is_udp, payload);
            for (at, byte) in damage {
                let at = at % frame.len();
                frame[at] = byte;
            }
            frame.truncate(frame.len() - missing);
            frame.extend(vec![0; behind]);
            let read = Received::read(&frame, &tables, &settings);
            prop_assert_eq!(read, Received::read_any(&frame, &tables, &settings));
        }
    }

    #[test]
    fn whole_packets_are_plain() {
        for is_udp in [false, true] {
            assert!(PlainPacket::of(&frame(is_udp, 9), VXLAN_PORT).is_some());
        }
    }
}
