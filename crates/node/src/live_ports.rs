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
//!
//! With several shards each has its part of every interface and a table of neighbours of its own; what
//! comes by another shard's queue is [handed over](Handoff), and so is what memory servers send: to
//! the shard whose queue pair it is for.

mod figures;
mod neighbors;
mod others;
mod privileges;

pub use figures::losses_in_words;
pub use privileges::Privilege;

use crate::arrivals::Filled;
use crate::departure::Departure;
use crate::egress;
use crate::kept_neighbors::KeptNeighbors;
use crate::kernel::{HostAddresses, Mailbox};
use crate::machine::Machine;
use crate::pinning;
use crate::port_warnings::{self, Opened};
use crate::shards::Handoff;
use crate::threads::PacketIo;
use crate::wiring;
use figures::mode;
use neighbors::addresses;
use others::LONGEST_END;
use std::sync::Arc;
use std::time::{Duration, Instant as WallClock, SystemTime, UNIX_EPOCH};
use twinpath_control::report::{KernelFigures, PortLosses, Report};
use twinpath_control::service::{PortDevice, PortDriver, Service};
use twinpath_core::wire::fragment::pieces;
use twinpath_core::wire::{MacAddress, dissect};
use twinpath_core::{Frame, Instant, Pools};
use twinpath_io::CaptureError;
use twinpath_neighbors::{Leaving, Limits, Neighbors};
use twinpath_ports::offload;
use twinpath_ports::{
    DescriptorStore, Driver, OpenError, Part, Port, PortConfig, State, kernel_addresses, wait,
};

/// How often interfaces are looked at: whether they are up, which MTU they have.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Longer than any IP packet that a frame holds.
const LONGEST: usize = 1 << 16;

/// Frames that one port may hand in before the others have their turn.
const BURST: usize = 64;

/// The ports.
pub struct LivePorts {
    /// Those of the service, and behind them those that lead to memory servers.
    ports: Vec<Port>,
    /// How many are the service's.
    own_ports: usize,
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
    /// Whether interfaces have been looked at.
    has_looked: bool,
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
    /// The other shards, if there are some.
    handoff: Option<Handoff>,
    /// Packets that go on here, having come from other shards.
    across: Vec<Frame>,
    /// What others have handed over goes in first, in turn with what ports have.
    others_first: bool,
    /// Since when nothing is taken from ports any more, for the run is to end.
    closed: Option<WallClock>,
    /// Where the next process finds the neighbours, if somebody keeps them.
    kept_neighbors: Option<KeptNeighbors>,
}

impl LivePorts {
    /// Opens all ports, a part of each for every shard, on the processor of that shard's fast path: the
    /// kernel takes the memory of frames nearest to it. Sockets that somebody has kept of a former
    /// process are gone on with; of those that no port takes nobody keeps any.
    ///
    /// # Errors
    /// An interface is not there, another process has it, or it is not permitted.
    pub fn open(
        service: &Service,
        descriptor_store: &Arc<DescriptorStore>,
    ) -> Result<Vec<Self>, OpenError> {
        let shards = service.run.shards.0;
        let devices = service.devices.len() + service.memory_links().len();
        let all = |_| Part::all_kept(shards, descriptor_store);
        let parts: Vec<_> = (0..devices).map(all).collect();
        let (kept, known) = KeptNeighbors::of_service(service, descriptor_store);
        let open = |shard: u16| {
            let parts = parts.iter().map(|parts| &parts[usize::from(shard)]);
            let cpus = pinning::of_shard(service.run.cpus, shard, service.slow_path.workers);
            let fast_path = cpus.first().copied();
            pinning::while_on(fast_path, || Self::open_parts(service, parts))
        };
        let opened: Result<Vec<_>, _> = (0..shards).map(open).collect();
        descriptor_store.forget_rest();
        let mut opened = opened?;
        opened.iter().take(1).for_each(Self::tell_opened);
        for (ports, kept) in opened.iter_mut().zip(kept) {
            ports.kept_neighbors = Some(kept);
        }
        for ports in &mut opened {
            known.iter().for_each(|one| ports.learn(one));
        }
        Ok(opened)
    }

    /// How packets are exchanged with each port, for the log.
    fn tell_opened(&self) {
        for (name, port) in self.names.iter().zip(&self.ports) {
            let (device, driver, mode) = (port.device(), port.driver().name(), mode(port));
            tracing::info!(port = name, device, driver, mode, "port {name} is open");
        }
    }

    fn open_parts<'a>(
        service: &Service,
        parts: impl Iterator<Item = &'a Part>,
    ) -> Result<Self, OpenError> {
        let own_ports = service.devices.len();
        let devices = [service.devices.clone(), service.memory_links()].concat();
        let is_kernels = wiring::follows_kernel(service);
        let configs = devices.iter().map(|device| config(device, is_kernels));
        let parts: Vec<_> = configs.zip(parts.cloned()).collect();
        let is_first = parts.iter().all(|(_, part)| part.number == 0);
        let ports = Port::open_together(parts)?;
        let named = devices.iter().zip(&ports);
        let addresses = named.map(|(device, port)| addresses(device, port, is_kernels));
        let neighbors = Neighbors::new(addresses.collect(), Limits::default());
        Ok(Self {
            own_ports,
            adjacencies: egress::Neighbors::new(service),
            neighbors: match is_first {
                true => neighbors,
                // One speaks for all.
                false => neighbors.only_listening(),
            },
            leaving: Leaving::new(),
            stations: stations(&ports),
            links: links(&ports),
            parts: Default::default(),
            now: Instant::ZERO,
            ports,
            next: 0,
            next_look: WallClock::now(),
            has_looked: false,
            unsent: 0,
            names: names(service),
            kernel: None,
            host: None,
            host_packets: 0,
            handoff: None,
            across: Vec::new(),
            others_first: false,
            closed: None,
            kept_neighbors: None,
        })
    }

    /// What comes by queues of other shards comes from there.
    pub fn share(&mut self, handoff: Handoff) {
        self.handoff = Some(handoff);
    }

    /// What the kernel says is heard from here.
    pub fn hear(&mut self, kernel: Mailbox) {
        self.kernel = Some(kernel);
        self.host = Some(Arc::default());
    }

    /// What is probably not meant so of the interfaces of a service, in words.
    pub fn warnings(&self, service: &Service) -> Vec<String> {
        let written = service.devices.iter().map(Some);
        let written = written.chain(std::iter::repeat(None));
        let named = self.names.iter().zip(&self.ports).zip(written);
        let opened: Vec<_> = named
            .map(|((name, port), written)| Opened::of(name, port, written))
            .collect();
        // What the kernel does not tell is not warned of.
        let kernel = kernel_addresses().unwrap_or_default();
        port_warnings::warnings(&opened, &kernel)
    }

    /// Looks now and then what became of the interfaces. One that is up, for the first time or again,
    /// tells its cable whom it answers for; behind one that is up again may be other neighbours.
    fn look(&mut self) {
        let now = WallClock::now();
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_INTERVAL;
        for (number, port) in (0..).zip(&mut self.ports) {
            let is_up = port.poll_state() == Some(State::Up);
            for note in port.take_notes() {
                tracing::warn!(port = self.names.get(usize::from(number)), "{note}");
            }
            let mac = MacAddress(port.interface().mac);
            let has_changed = self.stations.get(usize::from(number)) != Some(&mac);
            let begins = !self.has_looked && port.state() == State::Up;
            if is_up || has_changed || begins {
                self.neighbors.set_mac(number, mac);
                self.neighbors.announce(number, self.now);
            }
            if is_up && self.has_looked {
                self.neighbors.doubt(number);
            }
        }
        self.has_looked = true;
        self.keep_neighbors();
        self.stations = stations(&self.ports);
        self.links = links(&self.ports);
    }

    /// A burst of each port, of which some may be other shards'.
    fn take_from_ports(&mut self, room: usize, burst: &mut Vec<Frame>, pools: &mut Pools) {
        if self.closed.is_some() {
            return;
        }
        let (first, ports) = (burst.len(), self.own_ports);
        for turn in 0..ports {
            let number = (self.next + turn) % ports;
            let (begin, most) = (burst.len(), room.saturating_sub(burst.len()).min(BURST));
            self.ports[number].receive(pools, burst, most);
            let new = burst[begin..].iter_mut();
            new.for_each(|frame| frame.set_port(number as u16));
        }
        self.next = (self.next + 1) % ports.max(1);
        self.take_neighbors(first, burst, pools, Self::tell_all);
        let host = self.host.clone();
        keep(first, burst, pools, |frame, _| {
            let is_hosts = host.as_ref().is_some_and(|host| host.takes(frame.bytes()));
            self.host_packets += u64::from(is_hosts);
            !is_hosts
        });
        if let Some(handoff) = &mut self.handoff {
            handoff.divide(first, burst, pools);
        }
    }

    /// A frame leaves by a queue of ours, or else of another shard.
    fn transmit(&mut self, port: u16, mut frame: Frame, pools: &mut Pools) {
        let to = &mut self.ports[usize::from(port)];
        match &mut self.handoff {
            Some(handoff) if handoff.own() != to.owner() => {
                frame.set_port(port);
                handoff.leaves_by(to.owner(), frame, pools);
            }
            _ => to.transmit(frame, pools),
        }
    }

    fn leaves_whole(&mut self, departure: Departure, pools: &mut Pools) {
        match self.adjacencies.of_departure(&departure) {
            Some(adjacency) => self.leaves_for(adjacency, departure.frame, pools),
            None => self.transmit(departure.port, departure.frame, pools),
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
}

/// Of the frames behind the first so many, those that `is_kept` says stay, in their order.
fn keep(
    first: usize,
    burst: &mut Vec<Frame>,
    pools: &mut Pools,
    mut is_kept: impl FnMut(&Frame, &mut Pools) -> bool,
) {
    let mut kept = first;
    for place in first..burst.len() {
        if is_kept(&burst[place], pools) {
            burst.swap(kept, place);
            kept += 1;
        }
    }
    burst.drain(kept..).for_each(|frame| pools.give(frame));
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
        self.look();
        // Whatever the chain has become.
        machine.set_stations(&self.stations[..self.own_ports]);
        machine.set_server_links(&self.stations, &self.links);
        machine.set_link_mtus(&self.links[..self.own_ports]);
        let room = machine.room();
        let pools = machine.pools();
        self.others_first = !self.others_first;
        match self.others_first {
            true => {
                self.take_from_others(room, burst, pools);
                self.take_from_ports(room, burst, pools);
            }
            false => {
                self.take_from_ports(room, burst, pools);
                self.take_from_others(room, burst, pools);
            }
        }
        for frame in burst.iter_mut() {
            frame.set_timestamp(now);
            frame.set_received_ns(received_ns);
        }
        self.speak_with_neighbors(pools);
        self.wake_others();
        Ok(Filled::Some)
    }

    /// What waits in the sockets is not touched any more: another process may go on there, or else it is
    /// counted as lost.
    fn stops(&mut self) -> bool {
        let own_ports = &mut self.ports[..self.own_ports];
        let closed = *self.closed.get_or_insert_with(|| {
            own_ports.iter_mut().for_each(Port::stop_receiving);
            WallClock::now()
        });
        let handoff = self.handoff.as_mut();
        handoff.is_none_or(Handoff::close) || closed.elapsed() > LONGEST_END
    }

    fn leaves(&mut self, departure: Departure, pools: &mut Pools) -> Result<(), CaptureError> {
        match departure.room {
            0 => self.leaves_whole(departure, pools),
            _ => self.leaves_in_parts(departure, pools),
        }
        Ok(())
    }

    fn goes_across(&mut self, shard: u16, frame: Frame, machine: &mut Machine) {
        match &mut self.handoff {
            Some(handoff) => handoff.goes_across(shard, frame, machine.pools()),
            None => machine.pools().give(frame),
        }
    }

    fn come_across(&mut self, machine: &mut Machine, frames: &mut Vec<Frame>) {
        if !self.across.is_empty() && machine.room() > 0 {
            let now = self.now;
            let across = self.across.iter_mut();
            across.for_each(|frame| frame.set_timestamp(now));
            frames.append(&mut self.across);
        }
    }

    fn advance(&mut self, watermark: Instant, pools: &mut Pools) -> Result<(), CaptureError> {
        self.ports.iter_mut().for_each(|port| port.flush(pools));
        self.wake_others();
        if watermark == Instant::NEVER {
            self.end_together(pools);
        }
        Ok(())
    }

    fn tell_servers(&mut self, frames: &mut Vec<(u16, Frame)>, pools: &mut Pools) {
        for (port, frame) in frames.drain(..) {
            match usize::from(port) < self.ports.len() {
                true => self.transmit(port, frame, pools),
                false => pools.give(frame),
            }
        }
        let links = self.ports[self.own_ports..].iter_mut();
        links.for_each(|port| port.flush(pools));
    }

    fn receive_from_servers(&mut self, pools: &mut Pools, frames: &mut Vec<Frame>) {
        if self.own_ports == self.ports.len() {
            return;
        }
        let first = frames.len();
        for number in self.own_ports..self.ports.len() {
            let begin = frames.len();
            self.ports[number].receive(pools, frames, BURST);
            let new = frames[begin..].iter_mut();
            new.for_each(|frame| frame.set_port(number as u16));
        }
        if frames.len() > first {
            self.take_neighbors(first, frames, pools, Self::tell_all);
            self.transmit_leaving(pools);
        }
        if let Some(handoff) = &mut self.handoff {
            handoff.divide_heard(first, frames, pools);
            handoff.take_heard(BURST, pools, frames);
        }
        self.wake_others();
    }

    fn undelivered(&mut self, frames: &mut Vec<Frame>) {
        frames.extend(self.neighbors.take_undelivered());
    }

    fn rest(&mut self, time: Duration) {
        let ports = &self.ports;
        match &mut self.handoff {
            Some(handoff) => handoff.rest(|waker| wait(ports, Some(waker), time)),
            None => wait(ports, None, time),
        }
    }

    fn figures(&self, report: &mut Report) {
        self.figures_into(report);
    }

    fn each_port(&self, each: &mut dyn FnMut(usize, State)) {
        for (number, port) in self.ports[..self.own_ports].iter().enumerate() {
            each(number, port.condition());
        }
    }

    fn losses(&self) -> PortLosses {
        self.port_losses()
    }

    fn kernel_figures(&self) -> Option<KernelFigures> {
        self.kernel_figures()
    }
}

/// The names of the service's ports, and of the interfaces that lead to memory servers.
fn names(service: &Service) -> Vec<String> {
    let links = service.memory_links().into_iter();
    let links = links.map(|link| format!("memory:{}", link.device));
    service.ports.iter().cloned().chain(links).collect()
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
