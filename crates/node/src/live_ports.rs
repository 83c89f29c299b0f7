//! Network interfaces as a node's ports, for as long as the run lasts.
//!
//! Bursts go from sockets into buffers of the node's pool and from there to the chain without a copy
//! between. All packets of a burst arrive at the time when it was taken. What leaves goes out at the
//! end of each turn of the driver; a turn with nothing to do ends in a wait for any of the sockets.
//!
//! Between ports and chain stand the neighbours: frames about them are taken out of what comes, and
//! packets that leave for one get its MAC address. Where routes are the kernel's, frames for this host
//! itself are left to the kernel, which has them (AF_PACKET) or is handed them (AF_XDP), and neighbours
//! at ports without addresses of their own are the [kernel's](crate::kernel).

use crate::arrivals::Filled;
use crate::departure::Departure;
use crate::egress;
use crate::kernel::{HostAddresses, Mailbox, Told, forwarding_warnings};
use crate::machine::Machine;
use crate::threads::PacketIo;
use crate::wiring;
use std::sync::Arc;
use std::time::{Duration, Instant as WallClock, SystemTime, UNIX_EPOCH};
use twinpath_classify::Prefix;
use twinpath_control::report::{KernelFigures, NeighborFigures, PortFigures, PortLosses, Report};
use twinpath_control::service::{PortAddress, PortDevice, PortDriver, Service};
use twinpath_core::wire::fragment::pieces;
use twinpath_core::wire::layout::Network;
use twinpath_core::wire::{Address, MacAddress, dissect, fields};
use twinpath_core::{Adjacency, Frame, Instant, Pools};
use twinpath_io::CaptureError;
use twinpath_neighbors::{Leaving, Limits, Neighbors, OwnAddress, PortAddresses, Resolver};
use twinpath_nf::text::Text;
use twinpath_ports::offload;
use twinpath_ports::{Driver, OpenError, Port, PortConfig, State, wait};

/// How often interfaces are looked at: whether they are up, which MTU they have.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Longer than any IP packet that a frame holds.
const LONGEST: usize = 1 << 16;

/// Frames that one port may hand in before the others have their turn.
const BURST: usize = 64;

/// The ports.
pub struct LivePorts {
    ports: Vec<Port>,
    /// Whom packets leave for.
    adjacencies: egress::Neighbors,
    neighbors: Neighbors,
    /// Frames about neighbours that are to leave, and packets whose neighbours have answered.
    leaving: Leaving,
    /// The MAC addresses of the interfaces.
    stations: Vec<MacAddress>,
    /// How long packets may be on their links.
    links: Vec<usize>,
    /// Segments and fragments of a packet that leaves; empty between calls.
    parts: [Vec<Frame>; 2],
    /// The packet clock when packets came last.
    now: Instant,
    /// The port that is asked first, in turn.
    next: usize,
    next_look: WallClock,
    /// Packets that did not leave, or not all of whose fragments did: there were no buffers, or nobody
    /// knows for whom they are.
    unsent: u64,
    /// The names of the ports.
    names: Vec<String>,
    /// Whoever follows the kernel, if somebody does.
    kernel: Option<Mailbox>,
    /// What of the frames that arrive the kernel takes, if it takes some.
    host: Option<Arc<HostAddresses>>,
    /// Frames that were left to the kernel.
    host_packets: u64,
}

impl LivePorts {
    /// Opens all ports.
    ///
    /// # Errors
    /// An interface is not there, or it is not permitted.
    pub fn open(service: &Service) -> Result<Self, OpenError> {
        let devices = &service.devices;
        let is_kernels = wiring::follows_kernel(service);
        let open = |device| Port::open(config(device, is_kernels));
        let ports = devices.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let named = devices.iter().zip(&ports);
        let addresses = named.map(|(device, port)| addresses(device, port, is_kernels));
        Ok(Self {
            adjacencies: egress::Neighbors::new(service),
            neighbors: Neighbors::new(addresses.collect(), Limits::default()),
            leaving: Leaving::new(),
            stations: stations(&ports),
            links: links(&ports),
            parts: Default::default(),
            now: Instant::ZERO,
            ports,
            next: 0,
            next_look: WallClock::now(),
            unsent: 0,
            names: service.ports.clone(),
            kernel: None,
            host: None,
            host_packets: 0,
        })
    }

    /// What the kernel says is heard from here.
    pub fn hear(&mut self, kernel: Mailbox) {
        self.kernel = Some(kernel);
        self.host = Some(Arc::default());
    }

    /// What is probably not meant so, in words.
    pub fn warnings(&self) -> Vec<String> {
        let sees_all = |port: &&Port| port.driver() == Driver::AfPacket;
        let ports = self.ports.iter().filter(|_| self.kernel.is_some());
        forwarding_warnings(ports.filter(sees_all).map(Port::device))
    }

    /// What was followed of the kernel; `None` if nothing was.
    pub fn kernel_figures(&self) -> Option<KernelFigures> {
        let kernel = self.kernel.as_ref()?;
        Some(KernelFigures {
            host_packets: self.host_packets,
            ..kernel.figures()
        })
    }

    /// Hears what the kernel says, and asks it about neighbours.
    fn speak_with_kernel(&mut self, pools: &mut Pools) {
        let Some(kernel) = &self.kernel else {
            return;
        };
        while let Some(told) = kernel.hear() {
            match told {
                Told::Addresses(addresses) => {
                    for port in &mut self.ports {
                        port.set_host(addresses.prefixes());
                    }
                    self.host = Some(addresses);
                }
                Told::Neighbor(change) => {
                    let (port, address, mac) = (change.port, change.address, change.mac);
                    let (now, out) = (self.now, &mut self.leaving);
                    self.neighbors
                        .kernel_says(port, address, mac, now, pools, out);
                }
            }
        }
        kernel.ask(self.neighbors.take_questions());
    }

    /// What each port counted, under the service's names.
    pub fn figures_into(&self, report: &mut Report) {
        let ports = self.names.iter().zip(&self.ports);
        report.ports = ports.map(|(name, port)| figures(name, port)).collect();
        report.neighbors = self.neighbor_figures();
        report.kernel = self.kernel_figures();
    }

    /// What it takes to open them again.
    pub fn privileges(&self) -> Vec<Privilege> {
        let mut needed: Vec<_> = self.ports.iter().flat_map(privileges).copied().collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// What ports lost, in words.
    pub fn losses_in_words(&self) -> Vec<String> {
        let lost = |port: &Port| {
            let counters = port.counters();
            let (lost, device) = (counters.lost(), port.device());
            let what = format!("the port {device} lost {lost} packets: see `ports` in the report");
            (lost > 0).then_some(what)
        };
        self.ports.iter().filter_map(lost).collect()
    }

    /// What was asked and answered about neighbours; `None` if no port has an address.
    pub fn neighbor_figures(&self) -> Option<NeighborFigures> {
        let ports = self.neighbors.ports();
        let asks = |port: &PortAddresses| port.resolver == Resolver::Kernel || !port.own.is_empty();
        let has_addresses = ports.iter().any(asks);
        has_addresses.then(|| neighbor_figures(&self.neighbors))
    }

    /// Looks now and then what became of the interfaces. One that is up, or up again, tells its
    /// cable whom it answers for.
    fn look(&mut self, pools: &mut Pools) {
        let now = WallClock::now();
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_INTERVAL;
        for (number, port) in (0..).zip(&mut self.ports) {
            let is_up = port.look() == Some(State::Up);
            let mac = MacAddress(port.interface().mac);
            let has_changed = self.stations.get(usize::from(number)) != Some(&mac);
            if is_up || has_changed {
                self.neighbors.set_mac(number, mac);
                self.neighbors.announce(number, pools, &mut self.leaving);
            }
        }
        self.stations = stations(&self.ports);
        self.links = links(&self.ports);
    }

    /// Of the frames behind the first so many, those that are about neighbours are taken out, and
    /// those that are this host's own.
    fn take_neighbors(
        &mut self,
        number: u16,
        first: usize,
        burst: &mut Vec<Frame>,
        pools: &mut Pools,
    ) {
        let mut kept = first;
        for place in first..burst.len() {
            let (bytes, out) = (burst[place].bytes(), &mut self.leaving);
            if self.neighbors.arrived(number, bytes, self.now, pools, out) {
                continue;
            }
            if self.host.as_ref().is_some_and(|host| host.takes(bytes)) {
                self.host_packets += 1;
                continue;
            }
            burst.swap(kept, place);
            kept += 1;
        }
        burst.drain(kept..).for_each(|frame| pools.give(frame));
    }

    /// Questions and answers go out at once: perhaps nothing else leaves for long.
    fn speak_with_neighbors(&mut self, pools: &mut Pools) {
        self.neighbors.advance(self.now, pools, &mut self.leaving);
        self.speak_with_kernel(pools);
        if !self.leaving.is_empty() {
            self.transmit_leaving(pools);
            self.ports.iter_mut().for_each(|port| port.flush(pools));
        }
    }

    fn transmit_leaving(&mut self, pools: &mut Pools) {
        for (port, frame) in self.leaving.drain(..) {
            self.ports[usize::from(port)].transmit(frame, pools);
        }
    }

    fn leaves_whole(&mut self, departure: Departure, pools: &mut Pools) {
        match self.adjacencies.of_departure(&departure) {
            Some(adjacency) => self.leaves_for(adjacency, departure.frame, pools),
            None => self.ports[usize::from(departure.port)].transmit(departure.frame, pools),
        }
    }

    /// A packet, or the segments that it is to be cut into, leaves in fragments.
    fn leaves_in_parts(&mut self, departure: Departure, pools: &mut Pools) {
        let Departure {
            frame,
            via,
            is_reply,
            port,
            room,
        } = departure;
        let [mut segments, mut fragments] = std::mem::take(&mut self.parts);
        let metadata = frame.metadata();
        let mut is_whole = offload::segments(frame, LONGEST, pools, &mut segments).is_ok();
        for segment in segments.drain(..) {
            is_whole &= cut(&segment, room, pools, &mut fragments);
            pools.give(segment);
        }
        for mut frame in fragments.drain(..) {
            frame.set_metadata(metadata);
            let departure = Departure {
                frame,
                via,
                is_reply,
                port,
                room: 0,
            };
            self.leaves_whole(departure, pools);
        }
        self.unsent += u64::from(!is_whole);
        self.parts = [segments, fragments];
    }

    /// A packet leaves for a neighbour whose address may have to be asked for first.
    fn leaves_for(&mut self, adjacency: Adjacency, frame: Frame, pools: &mut Pools) {
        let Adjacency { port, gateway } = adjacency;
        let Some(next) = gateway.or_else(|| destination(&frame)) else {
            self.unsent += 1;
            return pools.give(frame);
        };
        let out = &mut self.leaving;
        self.neighbors
            .leaves(port, next, frame, self.now, pools, out);
        self.transmit_leaving(pools);
    }
}

/// Appends the fragments of a packet; returns whether there were buffers for all.
fn cut(packet: &Frame, room: u16, pools: &mut Pools, fragments: &mut Vec<Frame>) -> bool {
    let Ok(layout) = dissect(packet.bytes()) else {
        return false;
    };
    let Some(pieces) = pieces(packet.bytes(), &layout, room.into()) else {
        return false;
    };
    for piece in pieces {
        let Some(mut frame) = pools.take(piece.len()) else {
            return false;
        };
        frame.set_len(piece.len());
        piece.write(frame.bytes_mut());
        frame.set_port(packet.port());
        frame.set_timestamp(packet.timestamp());
        frame.set_received_ns(packet.received_ns());
        fragments.push(frame);
    }
    true
}

/// What the system lets somebody do.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privilege {
    /// Open sockets that see and send whole frames.
    RawSockets,
    /// Make interfaces, and attach programs to them.
    NetworkAdministration,
    /// Load such programs.
    Bpf,
}

/// What it takes to open a port.
fn privileges(port: &Port) -> &'static [Privilege] {
    use Privilege::{Bpf, NetworkAdministration, RawSockets};
    match port.driver() {
        Driver::Tap => &[NetworkAdministration],
        Driver::AfXdp => &[RawSockets, NetworkAdministration, Bpf],
        Driver::AfPacket | Driver::Auto => &[RawSockets],
    }
}

/// How long packets may be on the links of ports.
fn links(ports: &[Port]) -> Vec<usize> {
    ports.iter().map(|port| port.interface().mtu).collect()
}

/// The MAC addresses of ports.
fn stations(ports: &[Port]) -> Vec<MacAddress> {
    let each = ports.iter().map(|port| MacAddress(port.interface().mac));
    each.collect()
}

impl PacketIo for LivePorts {
    fn first(&mut self) -> Result<Option<Instant>, CaptureError> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Some(Instant(
            since_1970.unwrap_or_default().as_nanos() as u64
        )))
    }

    fn is_over(&self) -> bool {
        false
    }

    fn fill(
        &mut self,
        machine: &mut Machine,
        now: Instant,
        received_ns: u64,
        burst: &mut Vec<Frame>,
    ) -> Result<Filled, CaptureError> {
        self.now = now;
        self.look(machine.pools());
        // Whatever the chain has become.
        machine.set_stations(&self.stations);
        machine.set_links(&self.links);
        let (room, ports) = (machine.room(), self.ports.len());
        for turn in 0..ports {
            let number = (self.next + turn) % ports;
            let most = room.saturating_sub(burst.len()).min(BURST);
            let first = burst.len();
            self.ports[number].receive(machine.pools(), burst, most);
            self.take_neighbors(number as u16, first, burst, machine.pools());
            for frame in &mut burst[first..] {
                frame.set_port(number as u16);
                frame.set_timestamp(now);
                frame.set_received_ns(received_ns);
            }
        }
        self.speak_with_neighbors(machine.pools());
        self.next = (self.next + 1) % ports.max(1);
        Ok(Filled::Some)
    }

    fn leaves(&mut self, departure: Departure, pools: &mut Pools) -> Result<(), CaptureError> {
        match departure.room {
            0 => self.leaves_whole(departure, pools),
            _ => self.leaves_in_parts(departure, pools),
        }
        Ok(())
    }

    fn advance(&mut self, _watermark: Instant, pools: &mut Pools) -> Result<(), CaptureError> {
        self.ports.iter_mut().for_each(|port| port.flush(pools));
        Ok(())
    }

    fn rest(&mut self, time: Duration) {
        wait(&self.ports, time);
    }

    fn figures(&self, report: &mut Report) {
        self.figures_into(report);
    }

    fn each_port(&self, each: &mut dyn FnMut(usize, bool)) {
        for (number, port) in self.ports.iter().enumerate() {
            each(number, port.state() == State::Up);
        }
    }

    fn losses(&self) -> PortLosses {
        let mut losses = PortLosses {
            transmit_refused: self.unsent,
            without_neighbor: self.neighbor_figures().map_or(0, |figures| figures.lost()),
            ..PortLosses::default()
        };
        for port in &self.ports {
            let counters = port.counters();
            losses.receive_missed += counters.receive_missed;
            losses.receive_no_buffer += counters.receive_no_buffer;
            losses.receive_too_long += counters.receive_too_long;
            losses.receive_malformed += counters.receive_malformed;
            losses.transmit_refused += counters.transmit_refused;
            losses.transmit_too_long += counters.transmit_too_long;
        }
        losses
    }

    fn kernel_figures(&self) -> Option<KernelFigures> {
        self.kernel_figures()
    }
}

/// Where a packet is for.
fn destination(frame: &Frame) -> Option<Address> {
    let layout = dissect(frame.bytes()).ok()?;
    (layout.network != Network::None).then(|| fields::destination_address(frame.bytes(), &layout))
}

fn addresses(device: &PortDevice, port: &Port, is_kernels: bool) -> PortAddresses {
    let own = |written: &Text<PortAddress>| OwnAddress {
        address: written.0.address,
        prefix_bits: written.0.prefix_bits,
    };
    let answered = |prefix: &Text<Prefix>| (prefix.0.network(), prefix.0.last());
    PortAddresses {
        mac: MacAddress(port.interface().mac),
        own: device.addresses.iter().map(own).collect(),
        answered: device.answers_for.iter().map(answered).collect(),
        resolver: match is_kernels && device.addresses.is_empty() {
            true => Resolver::Kernel,
            false => Resolver::Own,
        },
    }
}

fn neighbor_figures(neighbors: &Neighbors) -> NeighborFigures {
    let counters = neighbors.counters();
    NeighborFigures {
        known: neighbors.count() as u64,
        questions: counters.questions,
        answers: counters.answers,
        unanswered: counters.unanswered,
        unanswered_drops: counters.unanswered_drops,
        backlog_drops: counters.backlog_drops,
        unresolved_drops: counters.unresolved_drops,
        no_address_drops: counters.no_address_drops,
        conflicts: counters.conflicts,
        evictions: counters.evictions,
    }
}

fn config(device: &PortDevice, is_kernels: bool) -> PortConfig {
    PortConfig {
        is_shared: is_kernels && device.addresses.is_empty(),
        device: device.device.clone(),
        driver: match device.driver {
            PortDriver::Auto => Driver::Auto,
            PortDriver::AfXdp => Driver::AfXdp,
            PortDriver::AfPacket => Driver::AfPacket,
            PortDriver::Tap => Driver::Tap,
        },
    }
}

fn figures(name: &str, port: &Port) -> PortFigures {
    let counters = port.counters();
    PortFigures {
        name: name.to_owned(),
        device: port.device().to_owned(),
        driver: port.driver().name().to_owned(),
        is_up: port.state() == State::Up,
        received_packets: counters.received_packets,
        received_bytes: counters.received_bytes,
        receive_missed: counters.receive_missed,
        receive_no_buffer: counters.receive_no_buffer,
        receive_too_long: counters.receive_too_long,
        receive_malformed: counters.receive_malformed,
        transmitted_packets: counters.transmitted_packets,
        transmitted_bytes: counters.transmitted_bytes,
        transmit_refused: counters.transmit_refused,
        transmit_too_long: counters.transmit_too_long,
        outages: counters.outages,
    }
}
