//! A port, whatever its driver: bursts in, bursts out, and what became of the interface.

use crate::claim::{Claim, once_it_is_free};
use crate::counters::PortCounters;
use crate::interface::{Interface, interface_names};
use crate::packet::{Kernel, PacketPort};
use crate::part::Part;
use crate::program::HostPrefix;
use crate::sys;
use crate::tap::TapPort;
use crate::umem::{Queue, SharedUmem, Umem, lock};
use crate::xdp::{Copying, XdpPort};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use twinpath_core::pool::LARGE_PACKET_BYTES;
use twinpath_core::{Frame, Pools};

/// What lies beneath a port.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// AF_XDP where the interface is a card's, AF_PACKET on virtual ones: what is faster for
    /// programs that send long frames. AF_PACKET as well where AF_XDP is not to be had. With either what
    /// arrives is the node's alone, but for what is this host's where that shares the interface; AF_PACKET
    /// needs Linux 6.6 for that, and frames with VLAN tags go to the kernel, too.
    #[default]
    Auto,
    /// AF_XDP.
    AfXdp,
    /// AF_PACKET, beside all else that uses the interface: the kernel gets a copy of everything.
    AfPacket,
    /// A new interface for programs of this host.
    Tap,
}

impl Driver {
    /// As service files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::AfXdp => "af_xdp",
            Self::AfPacket => "af_packet",
            Self::Tap => "tap",
        }
    }
}

/// Which interface a port is, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The interface's name.
    pub device: String,
    /// What lies beneath.
    pub driver: Driver,
    /// Whether this host shares the interface: its own packets then go to it ([`Port::set_host`]), with
    /// whatever driver.
    pub is_shared: bool,
}

/// Whether packets come and go.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// They do.
    Up,
    /// The interface is down, or there is none of this name.
    Down,
    /// The interface has come back as another, and another process has that one: nothing comes and goes here
    /// until that process lets go of it.
    Taken,
    /// They do, but a bridge or the like has been given the interface, and takes what arrives past the node.
    Mastered,
}

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("interface {device}: cannot open it by {driver}: {source}{hint}")]
pub struct OpenError {
    device: String,
    driver: &'static str,
    source: io::Error,
    hint: String,
}

impl OpenError {
    fn new(config: &PortConfig, driver: Driver, source: io::Error) -> Self {
        Self {
            device: config.device.clone(),
            driver: driver.name(),
            hint: match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    " (expected root, or CAP_NET_RAW and CAP_NET_ADMIN)".into()
                }
                Some(libc::ENOBUFS) if driver == Driver::AfXdp => " (buffers shared with the kernel are locked \
                     memory: expected a limit above theirs, as LimitMEMLOCK=infinity, or CAP_IPC_LOCK)"
                    .into(),
                Some(libc::ENODEV) => format!(" (this host has {})", interface_names().join(", ")),
                _ => String::new(),
            },
            source,
        }
    }

    /// The interface.
    pub fn device(&self) -> &str {
        &self.device
    }
}

impl PortConfig {
    /// The port's interface is this process's, once another has let go of it that is about to end. Nothing
    /// for one that is not there, or that the port makes.
    fn claim(&self, part: &Part) -> Result<Option<Arc<Claim>>, OpenError> {
        match Interface::of(&self.device) {
            Ok(interface) if self.driver != Driver::Tap => {
                if let Some(master) = &interface.master {
                    let why = io::Error::other(master.refusal(&interface.name));
                    return Err(OpenError::new(self, self.driver, why));
                }
                let claim = once_it_is_free(|| part.claim(&interface));
                claim.map_err(|source| OpenError::new(self, self.driver, source))
            }
            _ => Ok(None),
        }
    }

    /// What the kernel is to see with AF_PACKET.
    fn kernel(&self) -> Kernel {
        match (self.driver, self.is_shared) {
            (Driver::AfPacket, _) => Kernel::SeesAll,
            (_, true) => Kernel::SeesItsOwn,
            (_, false) => Kernel::SeesNothing,
        }
    }
}

enum Opened {
    Packet(Box<PacketPort>),
    Xdp(Box<XdpPort>),
    Tap(Box<TapPort>),
}

/// A port.
pub struct Port {
    config: PortConfig,
    part: Part,
    driver: Driver,
    /// None while the interface is gone, or if all its queues are others'.
    opened: Option<Opened>,
    /// That the interface is this process's alone, if it is to be.
    claim: Option<Arc<Claim>>,
    interface: Interface,
    state: State,
    /// The state that was told last.
    told: State,
    counters: PortCounters,
    /// Of sockets that are closed.
    missed_before: u64,
    /// When it was looked at last, the interface was another's.
    is_contested: bool,
    /// Whose packets are whose.
    host: BTreeSet<HostPrefix>,
    /// Why a card's port has no AF_XDP, where that was not said by whoever configured it.
    fallback: Option<String>,
    /// What became of it, in words that nobody has taken yet.
    notes: Vec<String>,
    /// It was told that frames come which are too long.
    has_told_too_long: bool,
}

impl Port {
    /// Opens a port.
    ///
    /// # Errors
    /// There is no such interface, or it is not permitted.
    pub fn open(config: PortConfig) -> Result<Self, OpenError> {
        Self::open_part(config, Part::default())
    }

    /// Opens one part of a port that several threads share. A part without a queue of its own
    /// neither receives nor sends: it knows what becomes of the interface, and [whose](Self::owner)
    /// queue its frames leave by.
    ///
    /// # Errors
    /// There is no such interface, or it is not permitted.
    pub fn open_part(config: PortConfig, part: Part) -> Result<Self, OpenError> {
        Self::open_together(vec![(config, part)]).map(|mut ports| ports.remove(0))
    }

    /// Opens parts of several ports for one thread: between those of AF_XDP frames go without a copy.
    ///
    /// # Errors
    /// As [`Self::open_part`].
    pub fn open_together(ports: Vec<(PortConfig, Part)>) -> Result<Vec<Self>, OpenError> {
        // Before anything is done to an interface that may be another process's.
        let claims = ports.iter().map(|(config, part)| config.claim(part));
        let _claims = claims.collect::<Result<Vec<_>, _>>()?;
        let umem = memory_of(&ports)?;
        let open = |(number, (config, part))| Self::open_in(config, part, umem.as_ref(), number);
        ports.into_iter().enumerate().map(open).collect()
    }

    fn open_in(
        config: PortConfig,
        part: Part,
        umem: Option<&SharedUmem>,
        number: usize,
    ) -> Result<Self, OpenError> {
        let part = match umem {
            Some(umem) => part.in_umem(umem, number),
            None => part,
        };
        Self::open_one(config, part)
    }

    fn open_one(config: PortConfig, part: Part) -> Result<Self, OpenError> {
        let failed = |driver, source| OpenError::new(&config, driver, source);
        if config.driver == Driver::Tap {
            let tap = open_tap(&config.device, &part);
            let opened = tap.map_err(|error| failed(Driver::Tap, error))?;
            let interface = Interface::of(&config.device);
            let interface = interface.map_err(|error| failed(Driver::Tap, error))?;
            return Ok(Self::over(config, part, Driver::Tap, opened, interface));
        }
        let interface = Interface::of(&config.device);
        let interface = interface.map_err(|error| failed(config.driver, error))?;
        Self::open_on(config, part, interface)
    }

    /// Opens a part on an interface that is there.
    pub(crate) fn open_on(
        config: PortConfig,
        part: Part,
        interface: Interface,
    ) -> Result<Self, OpenError> {
        let open = |driver| {
            let open = || open_by(driver, &interface, &config, &part);
            once_it_is_free(open).map_err(|error| OpenError::new(&config, driver, error))
        };
        let claim = part.claim(&interface);
        let claim = claim.map_err(|error| OpenError::new(&config, config.driver, error))?;
        let mut driver = chosen(config.driver, &interface, part.is_without_xdp(&interface));
        let mut fallback = None;
        let opened = match open(driver) {
            Err(error) if may_fall_back(&config, driver, &part) => {
                part.goes_without_xdp(&interface);
                (driver, fallback) = (Driver::AfPacket, Some(error.source.to_string()));
                open(driver)?
            }
            opened => opened?,
        };
        let mut port = Self::over(config, part, driver, opened, interface);
        (port.fallback, port.claim) = (fallback, claim);
        port.note_claim();
        Ok(port)
    }

    fn over(
        config: PortConfig,
        part: Part,
        driver: Driver,
        opened: Option<Opened>,
        interface: Interface,
    ) -> Self {
        let state = match interface.is_running {
            true => State::Up,
            false => State::Down,
        };
        Self {
            config,
            part,
            driver,
            opened,
            claim: None,
            interface,
            state,
            told: state,
            counters: PortCounters::default(),
            missed_before: 0,
            is_contested: false,
            host: BTreeSet::new(),
            fallback: None,
            notes: Vec::new(),
            has_told_too_long: false,
        }
    }

    /// Packets to these prefixes are this host's, or the node's whatever a shorter one says. It
    /// matters where this host shares the interface.
    pub fn set_host(&mut self, prefixes: BTreeSet<HostPrefix>) {
        self.host = prefixes;
        self.tell_host();
    }

    fn tell_host(&mut self) {
        // What there is no room for comes to the node, which drops and counts it.
        let _ = match &mut self.opened {
            Some(Opened::Xdp(port)) => port.set_host(&self.host),
            Some(Opened::Packet(port)) => port.set_host(&self.host),
            Some(Opened::Tap(_)) | None => Ok(()),
        };
    }

    /// The part whose queue frames leave by: this one's own, if it has one.
    pub fn owner(&self) -> u16 {
        self.part.owner(self.queues())
    }

    fn has_queue(&self) -> bool {
        self.owner() == self.part.number
    }

    /// How many parts can have a queue.
    fn queues(&self) -> u32 {
        match self.driver {
            Driver::Tap => 1,
            Driver::AfXdp => self.interface.queues,
            Driver::AfPacket | Driver::Auto => self.part.of.into(),
        }
    }

    /// Its interface, as it was when last asked.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The interface's name.
    pub fn device(&self) -> &str {
        &self.config.device
    }

    /// What lies beneath: never [`Driver::Auto`].
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// Who copies between the driver and us, with AF_XDP; nothing for a part without a queue.
    pub fn copying(&self) -> Option<Copying> {
        match &self.opened {
            Some(Opened::Xdp(port)) => Some(port.copying()),
            _ => None,
        }
    }

    /// Whether the kernel gets a copy of what is the node's.
    pub fn is_seen_by_kernel(&self) -> bool {
        matches!(&self.opened, Some(Opened::Packet(port)) if !port.is_alone())
    }

    /// Why the kernel gets one, where that was not said by whoever configured the port.
    pub fn why_seen_by_kernel(&self) -> Option<&str> {
        match &self.opened {
            Some(Opened::Packet(port)) => port.lacks_ingress(),
            _ => None,
        }
    }

    /// Why a card's port has no AF_XDP, where [`Driver::Auto`] would have taken it.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Whether VLAN tags that the interface hands over beside a frame are lost.
    pub fn may_lose_tags(&self) -> bool {
        matches!(&self.opened, Some(Opened::Xdp(port)) if port.may_lose_tags())
    }

    /// What became of it since this was asked last, in words for a log. One part tells for all.
    pub fn take_notes(&mut self) -> impl Iterator<Item = String> + use<'_> {
        self.notes.drain(..)
    }

    /// Whether packets come and go.
    pub fn state(&self) -> State {
        self.state
    }

    /// The same, and whether the packets are the node's alone: what is wrong with the port, if something is.
    pub fn condition(&self) -> State {
        match self.state {
            State::Up if self.interface.master.is_some() => State::Mastered,
            state => state,
        }
    }

    /// What was counted.
    pub fn counters(&self) -> PortCounters {
        let missed = match &self.opened {
            Some(Opened::Xdp(port)) => port.missed(),
            _ => 0,
        };
        PortCounters {
            receive_missed: self.counters.receive_missed + self.missed_before + missed,
            ..self.counters
        }
    }

    /// Receives up to `most` frames, appended to `burst`. They have neither time nor number yet.
    pub fn receive(&mut self, pools: &mut Pools, burst: &mut Vec<Frame>, most: usize) {
        let counters = &mut self.counters;
        let result = match &mut self.opened {
            None => return,
            Some(Opened::Packet(port)) => port.receive(pools, burst, most, counters),
            Some(Opened::Tap(port)) => port.receive(pools, burst, most, counters),
            Some(Opened::Xdp(port)) => {
                port.receive(pools, burst, most, counters);
                Ok(())
            }
        };
        if result.is_err() {
            self.went_down();
        }
    }

    /// The run is to end, and nothing is received any more: what comes from now on is nobody's, and what
    /// came and was not read is counted. Where somebody keeps the socket for another process, that one
    /// reads it instead.
    pub fn stop_receiving(&mut self) {
        if self.part.descriptor_store().is_there() {
            return;
        }
        if let Some(Opened::Packet(port)) = &self.opened {
            port.refuse_more();
        }
        self.count_unread();
    }

    /// What lies unread is lost. A tap interface does not tell how much that is.
    fn count_unread(&mut self) {
        let unread = match &mut self.opened {
            Some(Opened::Packet(port)) => {
                self.counters.receive_missed += port.missed();
                port.unread()
            }
            Some(Opened::Xdp(port)) => port.unread(),
            Some(Opened::Tap(_)) | None => 0,
        };
        self.counters.receive_unread += unread;
    }

    /// Queues a frame that leaves. It is sent by [`Self::flush`] at the latest.
    pub fn transmit(&mut self, frame: Frame, pools: &mut Pools) {
        let counters = &mut self.counters;
        match &mut self.opened {
            None => {
                counters.transmit_refused += 1;
                pools.give(frame);
            }
            Some(Opened::Packet(port)) => port.transmit(frame, pools, counters),
            Some(Opened::Tap(port)) => port.transmit(frame, pools, counters),
            Some(Opened::Xdp(port)) => port.transmit(frame, pools, counters),
        }
    }

    /// Sends what is queued.
    pub fn flush(&mut self, pools: &mut Pools) {
        match &mut self.opened {
            Some(Opened::Packet(port)) => port.flush(pools, &mut self.counters),
            Some(Opened::Xdp(port)) => port.flush(pools, &mut self.counters),
            Some(Opened::Tap(_)) | None => {}
        }
    }

    /// Looks what became of the interface: to be called now and then, such as every tenth of a
    /// second. Returns the new state if it has changed.
    pub fn poll_state(&mut self) -> Option<State> {
        if let Some(Opened::Packet(port)) = &mut self.opened {
            self.counters.receive_missed += port.missed();
        }
        self.note_too_long();
        match Interface::of(&self.config.device) {
            Err(_) => {
                self.close();
                self.went_down();
                self.part.umem().inspect(|umem| lock(umem).settle());
            }
            Ok(now) => self.is_there(now),
        }
        let has_changed = self.state != self.told;
        self.told = self.state;
        has_changed.then_some(self.state)
    }

    /// Told once: TCP goes on, by what its sender sends again in pieces, at a hundredth of its speed.
    fn note_too_long(&mut self) {
        if self.counters.receive_too_long == 0 || self.has_told_too_long {
            return;
        }
        self.has_told_too_long = true;
        let device = &self.config.device;
        self.notes.push(format!(
            "frames come by {device} that are longer than {LARGE_PACKET_BYTES} bytes, and are lost, so TCP is slow: a host at the other end of a virtual cable, or {device} itself, puts longer segments together (BIG TCP); expected gso_max_size 65536 and gso_ipv4_max_size 65536 at that host's interface, gro_max_size 65536 and gro_ipv4_max_size 65536 at {device} (ip link set)"
        ));
    }

    fn is_there(&mut self, now: Interface) {
        let is_other = now.index != self.interface.index || self.is_cut_off();
        if is_other {
            self.close();
        } else if self.driver == Driver::AfXdp && now.queues != self.interface.queues {
            self.close_queues(now.queues);
        }
        let claimed = self.claim_again(&now);
        if self.opened.is_none() && claimed.is_ok() {
            let opened = match self.driver {
                Driver::Tap => open_tap(&self.config.device, &self.part),
                driver => open_by(driver, &now, &self.config, &self.part),
            };
            self.opened = opened.ok().flatten();
            self.tell_host();
        }
        self.set_mtu(now.mtu);
        self.note_master(&now);
        let is_running = now.is_running;
        // Who receives may have found it down, and nobody was told.
        let was_away = is_other
            || now.carrier_losses != self.interface.carrier_losses
            || self.state == State::Down;
        self.interface = now;
        let was_contested = std::mem::replace(&mut self.is_contested, is_busy(&claimed));
        match is_running && (self.opened.is_some() || !self.has_queue()) {
            // Where names have changed hands another port of this process may have it, and has yet to look.
            _ if self.is_contested && !was_contested => self.went_down(),
            _ if self.is_contested => self.is_anothers(),
            true if was_away => self.came_back(),
            true => self.state = State::Up,
            false => self.went_down(),
        }
    }

    /// Whether the kernel has taken its sockets off the interface, which was elsewhere since then or is made
    /// anew, with the number that it had before.
    fn is_cut_off(&self) -> bool {
        match &self.opened {
            Some(Opened::Packet(port)) => !port.is_bound(&self.interface),
            Some(Opened::Xdp(port)) => !port.is_bound(),
            Some(Opened::Tap(_)) | None => false,
        }
    }

    /// It is up, and was not for a time since it was looked at last: whoever is told hears that it came up.
    fn came_back(&mut self) {
        self.went_down();
        (self.state, self.told) = (State::Up, State::Down);
    }

    /// The interface is to be this process's, which it was if it is the same as before.
    fn claim_again(&mut self, now: &Interface) -> io::Result<()> {
        if self.claim.is_none() && self.driver != Driver::Tap {
            self.claim = self.part.claim(now)?;
            self.note_claim();
        }
        Ok(())
    }

    /// Two processes on one interface would each give every packet once.
    fn is_anothers(&mut self) {
        self.went_down();
        self.state = State::Taken;
        if self.told != State::Taken && self.part.number == 0 {
            let device = &self.config.device;
            self.notes.push(format!(
                "{device} was made anew, and another twinpath has it: nothing comes and leaves there until that one ends, which is looked for ten times a second"
            ));
        }
    }

    /// An interface that is given to a bridge while a port has it: what the bridge takes is past the service, and
    /// nobody but whoever did that can tell which of the two is meant.
    fn note_master(&mut self, now: &Interface) {
        let told = now
            .master
            .as_ref()
            .filter(|_| now.master != self.interface.master && self.part.number == 0);
        if let Some(master) = told {
            self.notes.push(master.refusal(&now.name));
        }
    }

    fn note_claim(&mut self) {
        let is_open_to_others = |claim: &Arc<Claim>| !claim.keeps_others_out();
        if self.claim.as_ref().is_some_and(is_open_to_others) && self.part.number == 0 {
            let device = &self.config.device;
            self.notes.push(format!(
                "this kernel does not keep a second twinpath from {device}, which would have each packet leave twice: expected Linux 5.11"
            ));
        }
    }

    fn set_mtu(&mut self, mtu: usize) {
        match &mut self.opened {
            Some(Opened::Packet(port)) => port.set_mtu(mtu),
            Some(Opened::Xdp(port)) => port.set_mtu(mtu),
            Some(Opened::Tap(port)) => port.set_mtu(mtu),
            None => {}
        }
    }

    fn went_down(&mut self) {
        if self.state == State::Up {
            self.counters.outages += 1;
        }
        self.state = State::Down;
    }

    fn close(&mut self) {
        self.count_unread();
        self.claim = None;
        match self.opened.take() {
            Some(Opened::Xdp(port)) => {
                self.missed_before += port.missed();
                XdpPort::forget(&self.interface, &self.part);
            }
            Some(Opened::Packet(_)) => PacketPort::forget(&self.interface, &self.part),
            Some(Opened::Tap(_)) | None => {}
        }
    }

    /// The interface has other queues: sockets are opened on those. The program stays where it is.
    fn close_queues(&mut self, queues: u32) {
        if let Some(Opened::Xdp(port)) = self.opened.take() {
            self.missed_before += port.missed();
            XdpPort::forget_sockets(&self.interface, &self.part);
        }
        if self.part.number == 0 {
            let (device, before) = (&self.config.device, self.interface.queues);
            self.notes.push(format!(
                "{device} has {queues} receive queues instead of {before}: it is opened anew on all of them; what came by others meanwhile went to the kernel"
            ));
        }
    }

    #[cfg(test)]
    pub(crate) fn part(&self) -> &Part {
        &self.part
    }

    fn descriptors(&self, each: &mut dyn FnMut(i32)) {
        match &self.opened {
            Some(Opened::Packet(port)) => each(port.descriptor()),
            Some(Opened::Tap(port)) => each(port.descriptor()),
            Some(Opened::Xdp(port)) => port.descriptors().for_each(each),
            None => {}
        }
    }
}

fn is_busy(claimed: &io::Result<()>) -> bool {
    let error = claimed.as_ref().err();
    error.is_some_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
}

/// AF_XDP is the faster on a card. On a virtual cable it is not: what one call of the stack carries
/// as sixty-four kilobytes it carries as forty packets.
fn chosen(wanted: Driver, interface: &Interface, is_without_xdp: bool) -> Driver {
    match wanted {
        Driver::Auto if !interface.is_hardware || is_without_xdp => Driver::AfPacket,
        Driver::Auto => Driver::AfXdp,
        wanted => wanted,
    }
}

/// The first part tries; the others do as it does.
fn may_fall_back(config: &PortConfig, chosen: Driver, part: &Part) -> bool {
    config.driver == Driver::Auto && chosen == Driver::AfXdp && part.number == 0
}

/// The memory of all of these ports that are AF_XDP's, if some are; their numbers are their places here.
fn memory_of(ports: &[(PortConfig, Part)]) -> Result<Option<SharedUmem>, OpenError> {
    let mut queues: Vec<Queue> = Vec::new();
    for (number, (config, part)) in ports.iter().enumerate() {
        let interface = Interface::of(&config.device);
        let by_xdp =
            |one: &Interface| chosen(config.driver, one, part.is_without_xdp(one)) == Driver::AfXdp;
        if let Some(interface) = interface.ok().filter(by_xdp) {
            let places = part.places(&interface);
            queues.extend(places.map(|queue| Queue {
                port: number,
                ..queue
            }));
        }
    }
    let Some(first) = queues.first() else {
        return Ok(None);
    };
    let (config, part) = &ports[first.port];
    let mut numbers: Vec<_> = queues.iter().map(|queue| queue.port).collect();
    numbers.dedup();
    let umem = Umem::open(&queues, numbers.len(), part.number, part.descriptor_store());
    let umem = umem.map_err(|error| OpenError::new(config, Driver::AfXdp, error))?;
    Ok(Some(Arc::new(Mutex::new(umem))))
}

/// Nothing where all queues are other parts'.
fn open_by(
    driver: Driver,
    interface: &Interface,
    config: &PortConfig,
    part: &Part,
) -> io::Result<Option<Opened>> {
    if driver != Driver::AfXdp {
        let port = PacketPort::open(interface, part, config.kernel())?;
        return Ok(Some(Opened::Packet(Box::new(port))));
    }
    let port = XdpPort::open(interface, config.is_shared, part)?;
    Ok(port.map(|port| Opened::Xdp(Box::new(port))))
}

fn open_tap(name: &str, part: &Part) -> io::Result<Option<Opened>> {
    const MTU: usize = 1500;
    if part.number != 0 {
        return Ok(None);
    }
    let tap = TapPort::open(name, MTU, part.descriptor_store());
    tap.map(|port| Some(Opened::Tap(Box::new(port))))
}

/// Most descriptors that are waited for; ports with more queues are looked at when time has passed.
const MOST_DESCRIPTORS: usize = 256;

/// Blocks until one of several ports has something, or whatever `other` is the descriptor of, or for
/// so long.
pub fn wait(ports: &[Port], other: Option<BorrowedFd<'_>>, timeout: Duration) {
    let mut descriptors = [libc::pollfd {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    }; MOST_DESCRIPTORS];
    let mut count = 0;
    let mut add = |fd: i32| {
        if let Some(place) = descriptors.get_mut(count) {
            place.fd = fd;
            count += 1;
        }
    };
    if let Some(other) = other {
        add(other.as_raw_fd());
    }
    ports.iter().for_each(|port| port.descriptors(&mut add));
    // Whatever comes of it, ports are looked at next.
    let _ = sys::poll(&mut descriptors[..count], timeout);
}
