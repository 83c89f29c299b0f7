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

use crate::arrivals::Filled;
use crate::departure::Departure;
use crate::egress;
use crate::kept_neighbors::{KeptNeighbor, KeptNeighbors};
use crate::kernel::{HostAddresses, KernelNews, Mailbox};
use crate::machine::Machine;
use crate::pinning;
use crate::port_warnings::{self, Opened};
use crate::shards::Handoff;
use crate::threads::PacketIo;
use crate::wiring;
use std::sync::Arc;
use std::time::{Duration, Instant as WallClock, SystemTime, UNIX_EPOCH};
use twinpath_classify::Prefix;
use twinpath_control::report::{
    KernelFigures, NeighborFigures, PortFigures, PortLosses, Report, ShardFigures,
};
use twinpath_control::service::{PortAddress, PortDevice, PortDriver, Service};
use twinpath_core::adjacency::shard_of;
use twinpath_core::wire::fragment::pieces;
use twinpath_core::wire::layout::Network;
use twinpath_core::wire::{Address, MacAddress, dissect, fields, vlan};
use twinpath_core::{Adjacency, Frame, Instant, Pools, counted};
use twinpath_io::CaptureError;
use twinpath_neighbors::{Leaving, Limits, Neighbors, OwnAddress, PortAddresses, Resolver};
use twinpath_nf::text::Text;
use twinpath_ports::offload;
use twinpath_ports::{
    Copying, DescriptorStore, Driver, OpenError, Part, Port, PortConfig, State, kernel_addresses,
    wait,
};

/// How often interfaces are looked at: whether they are up, which MTU they have.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long others are waited for when a shard's run is over, and how often they are looked at.
const LONGEST_END: Duration = Duration::from_secs(2);
const LOOK_AT_OTHERS: Duration = Duration::from_micros(100);

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
        let (kept, mut known) = match asks_itself(service) {
            true => KeptNeighbors::all(shards, descriptor_store),
            false => Default::default(),
        };
        if asks_itself(service) {
            known.extend(known_to_kernel());
        }
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

    /// What a former process knew of a neighbour, or the kernel, is a first answer where the node asks for
    /// neighbours itself.
    fn learn(&mut self, known: &KeptNeighbor) {
        let is_there = |port: &Port| port.interface().index == known.interface;
        if let Some(port) = self.ports.iter().position(is_there)
            && self.neighbors.ports()[port].resolver == Resolver::Own
        {
            self.neighbors.learn(port as u16, known.address, known.mac);
        }
    }

    /// The next process is to know the neighbours that this one has asked for.
    fn keep_neighbors(&mut self) {
        let (ports, neighbors) = (&self.ports, &self.neighbors);
        if let Some(kept) = &mut self.kept_neighbors {
            let known = neighbors.list().filter_map(|one| {
                Some(KeptNeighbor {
                    interface: ports[usize::from(one.port)].interface().index,
                    address: one.address,
                    mac: one.mac?,
                })
            });
            kept.keep(neighbors.version(), known);
        }
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
                KernelNews::Addresses(addresses) => {
                    for port in &mut self.ports {
                        port.set_host(addresses.prefixes());
                    }
                    self.host = Some(addresses);
                }
                KernelNews::Neighbors(known) => {
                    for one in &*known {
                        if let Some(mac) = one.mac {
                            self.neighbors.learn(one.port, one.address, mac);
                        }
                    }
                }
                KernelNews::Neighbor(change) => {
                    let (port, address, mac) = (change.port, change.address, change.mac);
                    let (now, out) = (self.now, &mut self.leaving);
                    self.neighbors
                        .kernel_says(port, address, mac, now, pools, out);
                }
            }
        }
        kernel.ask(self.neighbors.take_questions());
    }

    /// Adds what each port counted, under the service's names.
    pub fn figures_into(&self, report: &mut Report) {
        let ports = self.names.iter().zip(&self.ports);
        let own = Report {
            ports: ports.map(|(name, port)| figures(name, port)).collect(),
            neighbors: self.neighbor_figures(),
            kernel: self.kernel_figures(),
            shards: self.shard_figures().into_iter().collect(),
            ..Report::default()
        };
        report.add_ports(&own);
    }

    fn shard_figures(&self) -> Option<ShardFigures> {
        self.handoff.as_ref().map(Handoff::figures)
    }

    /// What it takes to open them again.
    pub fn privileges(&self) -> Vec<Privilege> {
        let mut needed: Vec<_> = self.ports.iter().flat_map(privileges).copied().collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// What was asked and answered about neighbours; `None` if no port has an address.
    pub fn neighbor_figures(&self) -> Option<NeighborFigures> {
        let ports = self.neighbors.ports();
        let asks = |port: &PortAddresses| port.resolver == Resolver::Kernel || !port.own.is_empty();
        let has_addresses = ports.iter().any(asks);
        has_addresses.then(|| neighbor_figures(&self.neighbors))
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

    /// What has come by queues of other shards, and what they want to leave by ours.
    fn take_from_others(&mut self, room: usize, burst: &mut Vec<Frame>, pools: &mut Pools) {
        let Some(handoff) = &mut self.handoff else {
            return;
        };
        let first = burst.len();
        handoff.take_arrived(room.saturating_sub(first), pools, burst);
        let is_across = |frame: &mut Frame| shard_of(frame.metadata().egress).is_some();
        self.across.extend(burst.extract_if(first.., is_across));
        self.take_neighbors(first, burst, pools, |_, _, _| ());
        self.let_others_leave(pools);
    }

    fn let_others_leave(&mut self, pools: &mut Pools) {
        let Some(handoff) = &mut self.handoff else {
            return;
        };
        let [mut frames, rest] = std::mem::take(&mut self.parts);
        handoff.take_leaving(&mut frames);
        let has_some = !frames.is_empty();
        for frame in frames.drain(..) {
            match self.ports.get_mut(usize::from(frame.port())) {
                Some(port) => port.transmit(frame, pools),
                None => pools.give(frame),
            }
        }
        self.parts = [frames, rest];
        if has_some {
            self.ports.iter_mut().for_each(|port| port.flush(pools));
        }
    }

    fn wake_others(&mut self) {
        if let Some(handoff) = &mut self.handoff {
            handoff.wake();
        }
    }

    /// The run is over; other shards may still have something to leave by our queues.
    fn end_together(&mut self, pools: &mut Pools) {
        let until = WallClock::now() + LONGEST_END;
        if let Some(handoff) = &mut self.handoff {
            handoff.end();
        }
        while WallClock::now() < until
            && self
                .handoff
                .as_ref()
                .is_some_and(|handoff| !handoff.have_all_ended())
        {
            self.let_others_leave(pools);
            self.hear_for_others(pools);
            std::thread::sleep(LOOK_AT_OTHERS);
        }
        self.let_others_leave(pools);
        if let Some(handoff) = &mut self.handoff {
            handoff.leave_behind(&mut self.across, pools);
        }
    }

    /// What memory servers send to other shards may come by our queues.
    fn hear_for_others(&mut self, pools: &mut Pools) {
        let [mut frames, rest] = std::mem::take(&mut self.parts);
        self.receive_from_servers(pools, &mut frames);
        frames.drain(..).for_each(|frame| pools.give(frame));
        self.parts = [frames, rest];
    }

    fn tell_all(&mut self, frame: &Frame, pools: &mut Pools) {
        if let Some(handoff) = &mut self.handoff {
            handoff.tell_all(frame, pools);
        }
    }

    /// Of the frames behind the first so many, those that are about neighbours are taken out; `seen`
    /// is told of each.
    fn take_neighbors(
        &mut self,
        first: usize,
        burst: &mut Vec<Frame>,
        pools: &mut Pools,
        seen: impl Fn(&mut Self, &Frame, &mut Pools),
    ) {
        keep(first, burst, pools, |frame, pools| {
            let (port, now, out) = (frame.port(), self.now, &mut self.leaving);
            let is_about = self.neighbors.arrived(port, frame.bytes(), now, pools, out);
            if is_about {
                seen(self, frame, pools);
            }
            !is_about
        });
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
        let mut leaving = std::mem::take(&mut self.leaving);
        for (port, frame) in leaving.drain(..) {
            self.transmit(port, frame, pools);
        }
        self.leaving = leaving;
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

    /// A packet leaves for a neighbour whose address may have to be asked for first. Its VLAN tags were the
    /// other cable's: here it would be in a VLAN that nobody has let it into.
    fn leaves_for(&mut self, adjacency: Adjacency, mut frame: Frame, pools: &mut Pools) {
        let Adjacency { port, gateway } = adjacency;
        let Some(next) = gateway.or_else(|| destination(&frame)) else {
            self.unsent += 1;
            return pools.give(frame);
        };
        // Both MAC addresses are written when the neighbour's is known.
        frame.pull_front(vlan::tags_len(frame.bytes()));
        let out = &mut self.leaving;
        self.neighbors
            .leaves(port, next, frame, self.now, pools, out);
        self.transmit_leaving(pools);
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

/// What ports lost, in words.
pub fn losses_in_words(report: &Report) -> Vec<String> {
    let lost = |port: &PortFigures| {
        let device = &port.device;
        let lost = counted(port.lost(), "packet");
        let what = format!("the port {device} lost {lost}: see `ports` in the report");
        (port.lost() > 0).then_some(what)
    };
    let mut words: Vec<_> = report.ports.iter().filter_map(lost).collect();
    let lost: u64 = report.shards.iter().map(ShardFigures::lost).sum();
    if lost > 0 {
        let lost = counted(lost, "packet");
        words.push(format!(
            "lost between shards: {lost}, see `shards` in the report"
        ));
    }
    words
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
        Driver::AfPacket if port.is_seen_by_kernel() => &[RawSockets],
        // A program is on the interface.
        Driver::AfXdp | Driver::AfPacket | Driver::Auto => {
            &[RawSockets, NetworkAdministration, Bpf]
        }
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
        let mut losses = PortLosses {
            transmit_refused: self.unsent,
            without_neighbor: self.neighbor_figures().map_or(0, |figures| figures.lost()),
            between_shards: self.shard_figures().map_or(0, |figures| figures.lost()),
            ..PortLosses::default()
        };
        for port in &self.ports {
            let counters = port.counters();
            losses.receive_missed += counters.receive_missed;
            losses.receive_unread += counters.receive_unread;
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

/// The names of the service's ports, and of the interfaces that lead to memory servers.
fn names(service: &Service) -> Vec<String> {
    let links = service.memory_links().into_iter();
    let links = links.map(|link| format!("memory:{}", link.device));
    service.ports.iter().cloned().chain(links).collect()
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

/// Whether the node asks for neighbours at any port itself.
fn asks_itself(service: &Service) -> bool {
    let devices = [service.devices.clone(), service.memory_links()].concat();
    devices.iter().any(|device| !device.addresses.is_empty())
}

/// The neighbours whose MAC addresses the kernel knows now. What it does not tell is asked for.
fn known_to_kernel() -> impl Iterator<Item = KeptNeighbor> {
    let known = twinpath_kernel::neighbors_now().unwrap_or_default();
    known.into_iter().filter_map(|one| {
        Some(KeptNeighbor {
            interface: one.interface,
            address: one.address,
            mac: one.mac?,
        })
    })
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
        waited: counters.waited,
        announcements: counters.announcements,
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

/// Who copies between the driver and us, in a report's word; empty where nobody knows.
fn mode(port: &Port) -> &'static str {
    port.copying().map_or("", Copying::name)
}

fn figures(name: &str, port: &Port) -> PortFigures {
    let counters = port.counters();
    PortFigures {
        name: name.to_owned(),
        device: port.device().to_owned(),
        driver: port.driver().name().to_owned(),
        mode: mode(port).to_owned(),
        is_up: port.state() == State::Up,
        received_packets: counters.received_packets,
        received_bytes: counters.received_bytes,
        receive_missed: counters.receive_missed,
        receive_unread: counters.receive_unread,
        receive_no_buffer: counters.receive_no_buffer,
        receive_too_long: counters.receive_too_long,
        receive_malformed: counters.receive_malformed,
        transmitted_packets: counters.transmitted_packets,
        transmitted_bytes: counters.transmitted_bytes,
        transmit_refused: counters.transmit_refused,
        transmit_too_long: counters.transmit_too_long,
        copied_received: counters.receive_copied,
        copied_transmitted: counters.transmit_copied,
        outages: counters.outages,
    }
}
