//! Generated packets for a DPU: connections of its ENIs' machines, in tunnels.
//!
//! Each flow of the generator becomes one between an ENI's machine and an address that the ENI's routes
//! and mappings lead to, of the flow's IP version. Three of four are opened by the machine, the others
//! from outside. What goes out comes from the machine's host with the VNI of machines; what comes in,
//! from the host behind the mapping, with its network's VNI.

use super::{Feed, FeedItem};
use crate::wiring::seed_of;
use twinpath_control::service::Service;
use twinpath_core::wire::layout::{Layout, Network};
use twinpath_core::wire::tunnel::{Encapsulation, Outer, Varying, entropy_of};
use twinpath_core::wire::{Address, Endpoint, MacAddress, dissect, ethernet, fields, rewrite};
use twinpath_dash::config::{Configuration, EniTable};
use twinpath_dash::objects::{AdminState, EniMode, VnetMapping};
use twinpath_dash::tables::SwitchEntry;
use twinpath_io::CaptureError;
use twinpath_nf::dash::Config;
use twinpath_traffic::{Direction, Generated, Generator};

/// Most addresses that an ENI's machine talks to.
const MOST_PEERS: usize = 1024;

/// Stations of the underlay: the switch in front of the DPU, and the DPU.
const STATIONS: [MacAddress; 2] = [
    MacAddress([2, 0, 0, 0, 0, 0x0a]),
    MacAddress([2, 0, 0, 0, 0, 0x0b]),
];

/// An ENI's machine, and whom it talks to.
struct Machine {
    mac: MacAddress,
    host: Address,
    own: Address,
    /// The network of peers that are told by none of their own.
    vni: u32,
    peers: Vec<Peer>,
}

/// Somebody whom a machine talks to.
#[derive(Copy, Clone)]
struct Peer {
    address: Address,
    host: Address,
    mac: MacAddress,
    vni: u32,
}

/// Puts generated packets into tunnels.
pub struct Tunnels {
    /// By IP version of what is inside, IPv4 first.
    machines: [Vec<Machine>; 2],
    sip: Address,
    vm_vni: u32,
    switch: SwitchEntry,
    seed: u64,
}

/// Packets in tunnels.
pub(super) struct TunnelFeed {
    generator: Generator,
    tunnels: Tunnels,
    inner: Vec<u8>,
}

impl TunnelFeed {
    /// A generator's packets in these tunnels.
    pub fn new(generator: Generator, tunnels: Tunnels) -> Self {
        Self {
            inner: vec![0; generator.frame_bytes_max()],
            generator,
            tunnels,
        }
    }
}

impl Tunnels {
    /// Most bytes that a tunnel puts in front of a packet.
    pub const MOST_BYTES: usize = 70;

    /// Those of a service that is a DPU, if its configuration has ENIs whose machines can talk to
    /// somebody.
    pub fn of(service: &Service) -> Option<Self> {
        let mut instances = service.chain.iter();
        let (instance, config) =
            instances.find_map(|instance| Some((instance, instance.config.of::<Config>()?)))?;
        Self::new(config, seed_of(service, instance))
    }

    fn new(config: &Config, seed: u64) -> Option<Self> {
        let snapshot = config.store().snapshot();
        let tables = config.tables(seed);
        let machines = [true, false].map(|is_v4| machines(&snapshot.configuration, is_v4));
        let appliance = tables.appliance();
        let is_of_use = machines.iter().any(|some| !some.is_empty());
        Some(Self {
            machines,
            sip: appliance.sip.filter(|_| is_of_use)?,
            vm_vni: appliance.vm_vni?,
            switch: tables.switch(),
            seed,
        })
    }

    /// Puts a generated packet, which is changed, into its tunnel. Returns the length; `None` if no machine
    /// can send it.
    pub fn put(&self, generated: &Generated, inner: &mut [u8], buffer: &mut [u8]) -> Option<usize> {
        let inner = inner.get_mut(..generated.len)?;
        let layout = dissect(inner).ok()?;
        let version = match layout.network {
            Network::V4 => 0,
            Network::V6 => 1,
            Network::None => return None,
        };
        let machines = self.machines.get(version)?;
        let drawn = mix(self.seed ^ generated.flow.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let machine = machines.get(drawn as usize % machines.len().max(1))?;
        let peer = machine.peers[(drawn >> 20) as usize % machine.peers.len()];
        let is_opened_outside = drawn >> 60 & 3 == 0;
        let is_outbound = (generated.direction == Direction::ToServer) != is_opened_outside;
        address(inner, &layout, machine, &peer, is_outbound)?;
        let [source, destination] = fields_of(inner, &layout);
        let entropy = entropy_of(
            [source.address, destination.address],
            [source.port, destination.port],
            layout.protocol,
        );
        let [switch, dpu] = STATIONS;
        let outer = Outer {
            source_mac: switch,
            destination_mac: dpu,
            source: if is_outbound { machine.host } else { peer.host },
            destination: self.sip,
            encapsulation: Encapsulation::Vxlan,
            key: if is_outbound { self.vm_vni } else { peer.vni },
            vxlan_port: self.switch.port,
            ttl: 64,
        };
        let (start, end) = (outer.header_bytes(), outer.header_bytes() + inner.len());
        let frame = buffer.get_mut(..end)?;
        frame[start..].copy_from_slice(inner);
        let varying = Varying {
            source_port: self.switch.source_ports.port(entropy),
            flow_label: entropy & 0xf_ffff,
            udp_checksum: true,
            ..Varying::default()
        };
        outer.emit(&varying, frame).ok()?;
        Some(end)
    }
}

impl Feed for TunnelFeed {
    fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
        loop {
            let Some(generated) = self.generator.next_into(&mut self.inner) else {
                return Ok(FeedItem::End);
            };
            // What no machine can send is left out.
            if let Some(len) = self.tunnels.put(&generated, &mut self.inner, buffer) {
                return Ok(FeedItem::Packet {
                    timestamp_ns: generated.timestamp_ns,
                    len,
                    ingress: 0,
                });
            }
        }
    }
}

/// The inner packet is between a machine and its peer.
fn address(
    inner: &mut [u8],
    layout: &Layout,
    machine: &Machine,
    peer: &Peer,
    is_outbound: bool,
) -> Option<()> {
    let mut ends = [(machine.mac, machine.own), (peer.mac, peer.address)];
    if !is_outbound {
        ends.reverse();
    }
    let [(source_mac, source), (destination_mac, destination)] = ends;
    ethernet::set_destination(inner, destination_mac);
    ethernet::set_source(inner, source_mac);
    let [from, to] = fields_of(inner, layout).map(|end| end.port);
    let end = |address, port| Endpoint { address, port };
    rewrite::set_source(inner, layout, end(source, from)).ok()?;
    rewrite::set_destination(inner, layout, end(destination, to)).ok()
}

fn fields_of(inner: &[u8], layout: &Layout) -> [Endpoint; 2] {
    [
        fields::source(inner, layout),
        fields::destination(inner, layout),
    ]
}

/// The machines that can talk over an IP version.
fn machines(configuration: &Configuration, is_v4: bool) -> Vec<Machine> {
    let enis = configuration.enis.iter();
    let machines = enis.filter_map(|(_, table)| machine(configuration, table, is_v4));
    machines.collect()
}

fn machine(configuration: &Configuration, table: &EniTable, is_v4: bool) -> Option<Machine> {
    let eni = &table.eni;
    let is_plain = eni.admin_state == AdminState::Enabled && eni.mode == EniMode::Vm;
    let host = eni.underlay_ip.filter(|_| is_plain)?;
    let own_vnet = configuration.vnets.get(&eni.vnet)?;
    let is_own = |(address, mapping): &(Address, VnetMapping)| {
        address.is_v4() == is_v4 && mapping.mac_address == Some(eni.mac_address)
    };
    let (own, _) = own_vnet.mappings().take(MOST_PEERS).find(is_own)?;
    let group = configuration
        .route_groups
        .get(table.route_group.as_ref()?)?;
    let mut machine = Machine {
        mac: eni.mac_address,
        host,
        own,
        vni: own_vnet.vnet.vni.get(),
        peers: Vec::new(),
    };
    for (prefix, route) in group.routes().iter().take(MOST_PEERS) {
        let vnet = route
            .action
            .vnet()
            .and_then(|name| configuration.vnets.get(name));
        let Some(vnet) = vnet else { continue };
        for (address, mapping) in vnet.mappings().take(MOST_PEERS) {
            let is_peer = prefix.includes(address)
                && address.is_v4() == is_v4
                && address != own
                && mapping.private_link.is_none();
            if is_peer && machine.peers.len() < MOST_PEERS {
                machine
                    .peers
                    .push(peer(&machine, address, &mapping, vnet.vnet.vni.get()));
            }
        }
    }
    (!machine.peers.is_empty()).then_some(machine)
}

fn peer(machine: &Machine, address: Address, mapping: &VnetMapping, vni: u32) -> Peer {
    Peer {
        address,
        host: mapping.underlay_ip,
        mac: mapping.mac_address.unwrap_or(STATIONS[0]),
        vni: if mapping.use_dst_vni {
            vni
        } else {
            machine.vni
        },
    }
}

/// A number that differs in all its bits.
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
