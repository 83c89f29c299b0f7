//! Generated packets for a DPU: connections of its ENIs' machines, in tunnels.
//!
//! Each flow of the generator becomes one between an ENI's machine and an address that the ENI's routes
//! and mappings lead to, of the flow's IP version. Where no machine talks over one of the versions, the
//! generator is asked for flows of the [other one](Tunnels::fit) alone. Three of four are opened by the
//! machine, the others from outside. What goes out comes from the machine's host with the VNI of machines;
//! what comes in, from the host behind the mapping, with its network's VNI.

mod lack;

use super::{Feed, FeedItem};
use crate::wiring::seed_of;
use lack::{Lack, NoMachine};
use std::net::IpAddr;
use twinpath_control::service::Service;
use twinpath_core::wire::layout::{Layout, Network};
use twinpath_core::wire::tunnel::{Encapsulation, Outer, Varying, entropy_of};
use twinpath_core::wire::{Address, Endpoint, MacAddress, dissect, ethernet, fields, rewrite};
use twinpath_dash::config::{Configuration, EniTable};
use twinpath_dash::objects::{AdminState, EniMode, VnetMapping};
use twinpath_dash::tables::SwitchEntry;
use twinpath_io::CaptureError;
use twinpath_nf::dash::Config;
use twinpath_traffic::{Direction, Generated, Generator, TrafficConfig};

/// Most addresses that an ENI's machine talks to.
const MOST_PEERS: usize = 1024;

/// Stations of the underlay: the switch in front of the DPU, and the DPU.
const STATIONS: [MacAddress; 2] = [
    MacAddress([2, 0, 0, 0, 0, 0x0a]),
    MacAddress([2, 0, 0, 0, 0, 0x0b]),
];

/// A version of IP.
#[derive(Copy, Clone)]
enum IpVersion {
    V4,
    V6,
}

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
        Self::of_dpu(service)?.ok()
    }

    /// What is told of a DPU whose ENIs cannot send the service's generated packets as they are described,
    /// or not at all: those are in no tunnels then, and are dropped.
    pub fn warning(service: &Service) -> Option<String> {
        let traffic = service.traffic.as_ref()?;
        match Self::of_dpu(service)? {
            Ok(tunnels) => tunnels.misfit(traffic),
            Err(lack) => Some(format!(
                "no ENI can send generated packets, so that they come in no tunnel and are dropped: {lack}"
            )),
        }
    }

    fn of_dpu(service: &Service) -> Option<Result<Self, Lack>> {
        let mut instances = service.chain.iter();
        let (instance, config) =
            instances.find_map(|instance| Some((instance, instance.config.of::<Config>()?)))?;
        Some(Self::new(config, seed_of(service, instance)))
    }

    fn new(config: &Config, seed: u64) -> Result<Self, Lack> {
        let snapshot = config.store().snapshot();
        let configuration = &snapshot.configuration;
        let tables = config.tables(seed);
        let appliance = tables.appliance();
        let sip = appliance.sip.ok_or(Lack::Sip)?;
        let vm_vni = appliance.vm_vni.ok_or(Lack::VmVni)?;
        let machines = [true, false].map(|is_v4| machines(configuration, sip, is_v4));
        if machines.iter().all(Vec::is_empty) {
            return Err(Lack::of_enis(configuration, |table, is_v4| {
                machine(configuration, table, sip, is_v4).err()
            }));
        }
        Ok(Self {
            machines,
            sip,
            vm_vni,
            switch: tables.switch(),
            seed,
        })
    }

    /// The IP version that machines do not talk over, if they talk over one only.
    fn missing_version(&self) -> Option<IpVersion> {
        let [v4, v6] = &self.machines;
        match (v4.is_empty(), v6.is_empty()) {
            (true, _) => Some(IpVersion::V4),
            (_, true) => Some(IpVersion::V6),
            _ => None,
        }
    }

    /// The traffic with flows of the IP versions alone that machines talk over. Addresses do not matter:
    /// they become those of machines and their peers.
    #[must_use]
    pub fn fit(&self, traffic: &TrafficConfig) -> TrafficConfig {
        let mut traffic = traffic.clone();
        let Some(missing) = self.missing_version() else {
            return traffic;
        };
        let hosts = &mut traffic.hosts;
        let (share, server): (f64, IpAddr) = match missing {
            IpVersion::V6 => (0.0, hosts.first_server_v4.into()),
            IpVersion::V4 => (1.0, hosts.first_server_v6.into()),
        };
        hosts.ipv6_share = share;
        let services = hosts.services.iter_mut().map(|one| &mut one.address);
        let stores = traffic.kv.iter_mut().map(|kv| &mut kv.server_address);
        for address in services.chain(stores) {
            if address.is_ipv4() != server.is_ipv4() {
                *address = server;
            }
        }
        traffic
    }

    /// What is told where flows are of another IP version than the traffic says.
    fn misfit(&self, traffic: &TrafficConfig) -> Option<String> {
        if self.fit(traffic) == *traffic {
            return None;
        }
        let (missing, other) = match self.missing_version()? {
            IpVersion::V4 => ("IPv4", "IPv6"),
            IpVersion::V6 => ("IPv6", "IPv4"),
        };
        Some(format!(
            "no ENI can send over {missing}: all generated flows are of {other}"
        ))
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
            // Flows are of versions that machines talk over.
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
fn machines(configuration: &Configuration, sip: Address, is_v4: bool) -> Vec<Machine> {
    let enis = configuration.enis.iter();
    let machines = enis.filter_map(|(_, table)| machine(configuration, table, sip, is_v4).ok());
    machines.collect()
}

/// An ENI's machine, if it can talk to somebody by way of a DPU with this address.
fn machine(
    configuration: &Configuration,
    table: &EniTable,
    sip: Address,
    is_v4: bool,
) -> Result<Machine, NoMachine> {
    let eni = &table.eni;
    let is_plain = eni.admin_state == AdminState::Enabled && eni.mode == EniMode::Vm;
    if !is_plain {
        return Err(NoMachine::NotPlain);
    }
    let is_reached = |host: &Address| host.is_v4() == sip.is_v4();
    let host = eni.underlay_ip.filter(is_reached);
    let host = host.ok_or(NoMachine::Host)?;
    let own_vnet = configuration.vnets.get(&eni.vnet);
    let own_vnet = own_vnet.ok_or(NoMachine::OwnMapping)?;
    let is_own = |(address, mapping): &(Address, VnetMapping)| {
        address.is_v4() == is_v4 && mapping.mac_address == Some(eni.mac_address)
    };
    let own = own_vnet.mappings().take(MOST_PEERS).find(is_own);
    let (own, _) = own.ok_or(NoMachine::OwnMapping)?;
    let group = table.route_group.as_ref();
    let group = group.and_then(|group| configuration.route_groups.get(group));
    let group = group.ok_or(NoMachine::RouteGroup)?;
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
                && is_reached(&mapping.underlay_ip)
                && mapping.private_link.is_none();
            if is_peer && machine.peers.len() < MOST_PEERS {
                machine
                    .peers
                    .push(peer(&machine, address, &mapping, vnet.vnet.vni.get()));
            }
        }
    }
    match machine.peers.is_empty() {
        true => Err(NoMachine::Peers),
        false => Ok(machine),
    }
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
