//! The thread that follows the kernel.

use super::KernelError;
use super::PAUSE_SHARE;
use super::change_log::Summary;
use super::figures::Shared;
use super::host::HostAddresses;
use super::mailbox::{FollowerEnd, KernelNews, Mailbox, ends};
use super::route_importer::{ImportedRoutes, RouteImporter};
use crate::health::Heartbeat;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as WallClock};
use twinpath_classify::Prefix;
use twinpath_control::operator::Applied;
use twinpath_control::service::{PortDriver, Service};
use twinpath_core::wire::Address;
use twinpath_kernel::socket::Received;
use twinpath_kernel::view::Interest;
use twinpath_kernel::{KernelMonitor, NeighborChange, Socket};
use twinpath_nf::router;
use twinpath_ports::interface::Interface;

/// How long the kernel may take to tell all that it knows.
pub const FIRST_TIME: Duration = Duration::from_secs(30);

/// How long changes are gathered before one is made.
const GATHERING: Duration = Duration::from_millis(10);

/// The least time between two changes.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);

/// How long the thread may wait for something to happen.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Datagrams that are taken before it is looked after all else.
const BURST: usize = 256;

/// More changes at once than a router makes one by one: it is better built anew with all.
const MOST_PREFIXES: usize = 900;

/// Places of a router's table that are kept for what is no route of the kernel's.
const OWN_ROUTES: usize = 1024;

/// Neighbours that were asked for, of which changes are told.
const MOST_ASKED: usize = 32_768;

/// Who makes changes of a running service.
pub(crate) trait ServiceEditor {
    /// Makes the service what `edit` makes of it.
    ///
    /// # Errors
    /// It cannot be made now.
    fn edit_service(&self, edit: &mut dyn FnMut(&Service) -> Service) -> Result<Applied, String>;
}

/// Follows the kernel.
pub(crate) struct KernelFollower {
    socket: Socket,
    monitor: KernelMonitor,
    importer: RouteImporter,
    end: FollowerEnd,
    figures: Shared,
    /// Who hears whether routes are missing.
    heartbeat: Arc<Heartbeat>,
    /// What the log has not been told.
    summary: Summary,
    /// What the chain answers for by itself.
    answered: Vec<Prefix>,
    /// Neighbours that the ports want to hear of.
    asked: HashSet<(u16, Address)>,
    /// Whether the ports have heard all that is to be told.
    is_told: bool,
    began: WallClock,
    /// When the next change may be made.
    next_change: Duration,
    /// When the first of what is to be changed was seen.
    gathering_since: Option<Duration>,
    /// Whether addresses are others than the router knows, or a change has not been made.
    is_behind: bool,
}

impl KernelFollower {
    /// Learns all that the kernel knows now, with a mailbox for the ports of each shard; nothing if the
    /// service wants none of it.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn open(service: &Service) -> Result<Option<(Self, Vec<Mailbox>)>, KernelError> {
        let (Some(importer), Some(interest)) = (RouteImporter::new(service), interest(service))
        else {
            return Ok(None);
        };
        let figures = Shared::default();
        let (mailboxes, end) = ends(&figures, service.run.shards.0)?;
        let answered = service
            .devices
            .iter()
            .flat_map(|device| &device.answers_for);
        let mut follower = Self {
            socket: Socket::open()?,
            monitor: KernelMonitor::new(interest),
            importer,
            end,
            figures,
            heartbeat: Arc::default(),
            summary: Summary::default(),
            answered: answered.map(|one| one.0).collect(),
            asked: HashSet::new(),
            is_told: true,
            began: WallClock::now(),
            next_change: Duration::ZERO,
            gathering_since: None,
            is_behind: false,
        };
        follower.learn_first()?;
        Ok(Some((follower, mailboxes)))
    }

    /// Whether all is well is shown here.
    pub fn show(&mut self, heartbeat: &Arc<Heartbeat>) {
        self.heartbeat = Arc::clone(heartbeat);
        self.count(0);
    }

    /// A service with all that is known; for the first time.
    pub fn service(&mut self, service: &Service) -> Service {
        let prefixes = self.monitor.view_mut().take_changed(usize::MAX);
        let imported = self.importer.import(service, self.monitor.view(), prefixes);
        self.monitor.view_mut().take_other_addresses();
        self.tell_known_neighbors();
        self.tell_addresses();
        self.count(0);
        imported.service
    }

    /// Ports hear of all neighbours that the kernel knows before their first packet, and of what becomes of
    /// them: packets wait for none of these.
    fn tell_known_neighbors(&mut self) {
        let known: Arc<[_]> = self.monitor.view().neighbors().take(MOST_ASKED).collect();
        // They are in the list.
        self.monitor.view_mut().take_neighbor_changes();
        self.asked
            .extend(known.iter().map(|one| (one.port, one.address)));
        self.end.tell(&KernelNews::Neighbors(known));
    }

    fn learn_first(&mut self) -> Result<(), KernelError> {
        while !self.monitor.is_complete() {
            if self.began.elapsed() > FIRST_TIME {
                return Err(KernelError::Silent);
            }
            self.exchange()?;
            self.socket.wait(self.end.waker(), LONGEST_WAIT);
        }
        Ok(())
    }

    /// Follows until the run is over.
    pub fn run(mut self, editor: &dyn ServiceEditor, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Acquire) {
            self.end.wake();
            if let Err(error) = self.exchange() {
                self.figures.change(|figures| figures.errors += 1);
                // A socket that fails may work again; all is asked for then.
                drop(error);
                std::thread::sleep(LONGEST_WAIT);
            }
            self.answer();
            self.tell();
            self.follow(editor);
            self.summary.tell(self.now());
            self.socket.wait(self.end.waker(), self.longest_wait());
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn longest_wait(&self) -> Duration {
        match self.is_told && self.gathering_since.is_none() {
            true => LONGEST_WAIT,
            false => Duration::from_millis(1),
        }
    }

    /// Asks what is to be asked, and hears what there is to hear.
    fn exchange(&mut self) -> io::Result<()> {
        let now = self.now();
        if let Some(question) = self.monitor.question(now) {
            self.socket.send(&question)?;
        }
        // What the ports have not heard waits, and so does what comes.
        for _ in 0..if self.is_told { BURST } else { 0 } {
            let question = match self.socket.receive()? {
                Received::Datagram(bytes) => self.monitor.take(bytes, now),
                Received::Nothing => break,
                Received::Overrun => {
                    self.monitor.overrun(now);
                    None
                }
            };
            if let Some(question) = question {
                self.socket.send(&question)?;
            }
        }
        Ok(())
    }

    /// The ports want to know of neighbours: they hear what is known, and the kernel looks after
    /// them.
    fn answer(&mut self) {
        while let Ok((port, address)) = self.end.questions.try_recv() {
            if self.asked.len() >= MOST_ASKED {
                // Whoever is still used is asked for again.
                self.asked.clear();
            }
            self.asked.insert((port, address));
            if let Some(mac) = self.monitor.view().neighbor(port, address) {
                let mac = Some(mac);
                let change = NeighborChange { port, address, mac };
                self.end.tell(&KernelNews::Neighbor(change));
            }
            if let Some(question) = self.monitor.neighbor_question(port, address) {
                // Nobody waits for it in vain: the ports ask again.
                let _ = self.socket.send(&question);
            }
        }
    }

    fn tell(&mut self) {
        for change in self.monitor.view_mut().take_neighbor_changes() {
            if self.asked.contains(&(change.port, change.address)) {
                self.end.tell(&KernelNews::Neighbor(change));
            }
        }
        self.is_told = self.end.deliver();
    }

    fn tell_addresses(&mut self) {
        let own = self.monitor.view().own_addresses();
        let addresses = HostAddresses::new(&own, self.answered.clone());
        self.end.tell(&KernelNews::Addresses(Arc::new(addresses)));
        self.tell();
    }

    /// What is other than the chain knows becomes a change of it.
    fn follow(&mut self, editor: &dyn ServiceEditor) {
        if self.monitor.view_mut().take_other_addresses() {
            self.tell_addresses();
            self.is_behind = true;
        }
        let waiting = self.monitor.view().changed_count();
        if waiting == 0 && !self.is_behind {
            self.count(0);
            return;
        }
        let now = self.now();
        // A burst is one change; a list that is under way is part of it.
        if now < self.next_change || self.monitor.is_asking() {
            return;
        }
        // The first of a burst waits for the others.
        let since = *self.gathering_since.get_or_insert(now);
        if now - since >= GATHERING {
            self.gathering_since = None;
            self.change(editor);
        }
    }

    fn change(&mut self, editor: &dyn ServiceEditor) {
        let began = self.now();
        let view = self.monitor.view_mut();
        let most = match view.changed_count() {
            count if count > MOST_PREFIXES => usize::MAX,
            count => count,
        };
        let prefixes = view.take_changed(most);
        let (importer, view) = (&mut self.importer, self.monitor.view());
        let (mut prefixes, mut changed) = (Some(prefixes), 0);
        let made = editor.edit_service(&mut |service| {
            let prefixes = prefixes.take().unwrap_or_default();
            let ImportedRoutes {
                service,
                changed: count,
            } = importer.import(service, view, prefixes);
            changed = count;
            service
        });
        // What could not even be looked at comes again; what was, is in the next state.
        self.monitor
            .view_mut()
            .put_back(prefixes.unwrap_or_default());
        self.is_behind = made.is_err();
        let (took, pause) = match &made {
            Ok(applied) => (self.now() - began, Duration::from_nanos(applied.pause_ns)),
            Err(_) => (self.now() - began, Duration::ZERO),
        };
        let interval = LEAST_INTERVAL.max(pause * PAUSE_SHARE).max(took);
        self.next_change = self.now() + interval;
        self.figures.change(|figures| match &made {
            Ok(applied) if applied.is_same => {}
            Ok(_) => {
                figures.changes += 1;
                figures.longest_pause_ns = figures.longest_pause_ns.max(pause.as_nanos() as u64);
                figures.last_change_ns = began.as_nanos() as u64;
            }
            Err(_) => figures.refused_changes += 1,
        });
        if made.as_ref().is_ok_and(|applied| !applied.is_same) {
            self.summary.add(changed as u64, pause);
        }
        self.count(changed as u64);
    }

    fn count(&self, changed: u64) {
        let view = self.monitor.view();
        let counters = self.monitor.counters();
        let [routes, next_hops, groups, elsewhere] = self.importer.counts();
        let without_room = self.importer.without_room();
        self.heartbeat.lacks_routes(view.ignored_routes() > 0);
        self.figures.change(|figures| {
            figures.routes = routes;
            figures.next_hops = next_hops;
            figures.groups = groups;
            figures.elsewhere = elsewhere;
            figures.neighbors = view.neighbor_count() as u64;
            figures.changed_routes += changed;
            figures.ignored_routes = view.ignored_routes() + without_room;
            figures.resyncs = counters.resyncs;
            figures.overruns = counters.overruns;
            figures.malformed = counters.malformed;
        });
    }
}

/// What the kernel calls an interface in its messages: it may have other names.
fn kernels_name(device: &str) -> String {
    Interface::of(device).map_or_else(|_| device.to_owned(), |interface| interface.name)
}

/// What is to be known for a service.
fn interest(service: &Service) -> Option<Interest> {
    let mut chain = service.chain.iter();
    let router = chain.find_map(|one| {
        let config = one.config.of::<router::Config>();
        config.filter(|config| config.kernel_table().is_some())
    })?;
    // What the kernel has at a tap is the other end's.
    let ports = service.devices.iter().map(|device| match device.driver {
        PortDriver::Tap => None,
        _ => Some(kernels_name(&device.device)),
    });
    let most = router.most_routes();
    Some(Interest {
        ports: ports.collect(),
        table: router.kernel_table()?,
        // The router's table has addresses and broadcasts beside.
        most_routes: most - OWN_ROUTES.min(most / 2),
    })
}
