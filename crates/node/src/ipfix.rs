//! Flows of monitors and bindings of translations, told to a collector by IPFIX over UDP.
//!
//! A thread of its own asks the worker for what has ended since it asked last, a part at a time, and
//! sends it. Flows that last are told again and again, each time what they sent since. What the
//! collector does not get it does not get: packets never wait for it.

mod message;

use message::{EndReason, FlowPart, Messages};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant as WallClock, SystemTime, UNIX_EPOCH};
use twinpath_control::report::ExportCounters;
use twinpath_control::service::Ipfix;
use twinpath_core::FlowKey;
use twinpath_nf::records::{BindingEvents, Count, FlowRecord};

/// Templates are sent again so often.
const TEMPLATE_INTERVAL: Duration = Duration::from_secs(30);

/// A flow of a function, by the function's place in the chain; one that begins anew is another.
type ExportedFlow = (usize, FlowKey, u64);

/// Sends what it is told of.
pub struct Exporter {
    socket: UdpSocket,
    messages: Messages,
    /// What was told of flows that go on.
    told: HashMap<ExportedFlow, [Count; 2]>,
    /// Of flows that went on when all were told before the last time, and not then: they have ended,
    /// and will be told of soon.
    before: HashMap<ExportedFlow, [Count; 2]>,
    next_templates: WallClock,
    counters: ExportCounters,
}

impl Exporter {
    /// Sends to a collector; `None` if the service names none.
    ///
    /// # Errors
    /// The system gives no socket for it.
    pub fn open(config: &Ipfix) -> io::Result<Option<Self>> {
        let Some(collector) = config.collector else {
            return Ok(None);
        };
        let any: IpAddr = match collector {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(collector)?;
        socket.set_nonblocking(true)?;
        Ok(Some(Self {
            socket,
            messages: Messages::new(config.observation_domain),
            told: HashMap::new(),
            before: HashMap::new(),
            next_templates: WallClock::now() + TEMPLATE_INTERVAL,
            counters: ExportCounters::default(),
        }))
    }

    /// What was sent so far.
    pub const fn counters(&self) -> ExportCounters {
        self.counters
    }

    /// A flow has ended.
    pub fn ended(&mut self, place: usize, record: FlowRecord, is_forced: bool) {
        let name = (place, record.key, record.first.0);
        let told = self.told.remove(&name);
        let told = told.or_else(|| self.before.remove(&name));
        let told = told.unwrap_or_default();
        let reason = match is_forced {
            true => EndReason::Forced,
            false => EndReason::Idle,
        };
        self.flow(FlowPart {
            record,
            told,
            reason,
        });
    }

    /// All flows that go on are about to be told. What is known of flows that had ended by the last
    /// time is let go.
    pub fn begin_active(&mut self) {
        self.before = std::mem::take(&mut self.told);
    }

    /// A flow goes on.
    pub fn active(&mut self, place: usize, record: FlowRecord) {
        let name = (place, record.key, record.first.0);
        let told = self.before.remove(&name).unwrap_or_default();
        self.told.insert(name, record.sent);
        self.flow(FlowPart {
            record,
            told,
            reason: EndReason::Active,
        });
    }

    /// Bindings have begun and ended.
    pub fn bindings(&mut self, events: &BindingEvents) {
        self.counters.bindings_lost = self.counters.bindings_lost.max(events.lost);
        for event in &events.events {
            self.counters.bindings += 1;
            let mut send = sender(&self.socket, &mut self.counters);
            self.messages.binding(event, now(), &mut send);
        }
    }

    /// What is there is sent, however little it is.
    pub fn flush(&mut self) {
        if WallClock::now() >= self.next_templates {
            self.next_templates = WallClock::now() + TEMPLATE_INTERVAL;
            self.messages.repeat_templates();
        }
        let mut send = sender(&self.socket, &mut self.counters);
        self.messages.finish(now(), &mut send);
    }

    fn flow(&mut self, part: FlowPart) {
        self.counters.flows += 1;
        let mut send = sender(&self.socket, &mut self.counters);
        self.messages.flow(&part, now(), &mut send);
    }
}

fn now() -> Duration {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.unwrap_or_default()
}

/// A collector that is not there, or slow, costs messages alone.
fn sender<'a>(
    socket: &'a UdpSocket,
    counters: &'a mut ExportCounters,
) -> impl FnMut(&[u8]) + use<'a> {
    |message| match socket.send(message) {
        Ok(_) => counters.messages += 1,
        Err(_) => counters.messages_lost += 1,
    }
}
