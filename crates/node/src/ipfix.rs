//! Flows of monitors and bindings of translations, told to a collector by IPFIX over UDP.
//!
//! A thread of its own asks the worker for what has ended since it asked last, a part at a time, and
//! sends it. Flows that last are told again and again, each time what they sent since. What the
//! collector does not get it does not get: packets never wait for it.

mod losses;
mod message;

use losses::Losses;
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
    collector: Collector,
    messages: Messages,
    /// What was told of flows that go on.
    told: HashMap<ExportedFlow, [Count; 2]>,
    /// Of flows that went on when all were told before the last time, and not then: they have ended,
    /// and will be told of soon.
    before: HashMap<ExportedFlow, [Count; 2]>,
    next_templates: WallClock,
    counters: ExportCounters,
    losses: Losses,
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
        Ok(Some(Self {
            collector: Collector::open(collector)?,
            messages: Messages::new(config.observation_domain),
            told: HashMap::new(),
            before: HashMap::new(),
            next_templates: WallClock::now() + TEMPLATE_INTERVAL,
            counters: ExportCounters::default(),
            losses: Losses::default(),
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
            let mut send = self.collector.sender(&mut self.counters);
            self.messages.binding(event, now(), &mut send);
        }
    }

    /// What is there is sent, however little it is.
    pub fn flush(&mut self) {
        if WallClock::now() >= self.next_templates {
            self.next_templates = WallClock::now() + TEMPLATE_INTERVAL;
            self.messages.repeat_templates();
        }
        let mut send = self.collector.sender(&mut self.counters);
        self.messages.finish(now(), &mut send);
        drop(send);
        self.tell_losses();
    }

    fn tell_losses(&mut self) {
        let why = self.collector.refused.as_deref();
        let lost = self.losses.due(&self.counters, why, WallClock::now());
        if let Some(lost) = lost {
            tracing::warn!(collector = %self.collector.address, "{lost}");
        }
    }

    fn flow(&mut self, part: FlowPart) {
        self.counters.flows += 1;
        let mut send = self.collector.sender(&mut self.counters);
        self.messages.flow(&part, now(), &mut send);
    }
}

fn now() -> Duration {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.unwrap_or_default()
}

/// Who is told. One that is not there, to which there is no route yet, or that is slow costs messages alone.
struct Collector {
    socket: UdpSocket,
    address: SocketAddr,
    /// Whether there has been a route to it: then the system tells where nobody listens, too.
    is_connected: bool,
    /// What the system said when it took no message, the last time.
    refused: Option<String>,
}

impl Collector {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            address,
            is_connected: false,
            refused: None,
        })
    }

    /// Sends messages, and counts them.
    fn sender<'a>(&'a mut self, counters: &'a mut ExportCounters) -> impl FnMut(&[u8]) + use<'a> {
        |message| match self.send(message) {
            Ok(_) => counters.messages += 1,
            Err(error) => {
                counters.messages_lost += 1;
                self.refused = Some(error.to_string());
            }
        }
    }

    fn send(&mut self, message: &[u8]) -> io::Result<usize> {
        if !self.is_connected {
            self.socket.connect(self.address)?;
            self.is_connected = true;
        }
        match self.socket.send(message) {
            // A former message found nobody, and this one has not been sent.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.socket.send(message)
            }
            sent => sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::Instant;
    use twinpath_core::wire::Endpoint;

    /// Found by a newcomer: the service did not start where the route to the collector was not there yet.
    #[test]
    fn a_collector_without_a_route_costs_messages_alone() {
        let config = Ipfix {
            // No host has it: the system refuses at once.
            collector: Some("255.255.255.255:4739".parse().expect("an address")),
            ..Ipfix::default()
        };
        let mut exporter = opened(&config);
        exporter.ended(0, record(), false);
        exporter.flush();
        let counters = exporter.counters();
        assert_eq!((counters.flows, counters.messages), (1, 0));
        assert!(counters.messages_lost > 0);
    }

    fn opened(config: &Ipfix) -> Exporter {
        let exporter = Exporter::open(config).expect("it opens");
        exporter.expect("it is named")
    }

    fn record() -> FlowRecord {
        let ends = [1, 2].map(|host| Endpoint::v4([10, 0, 0, host], 80));
        FlowRecord {
            key: FlowKey::connection(ends[0], ends[1], 6).0,
            first: Instant(1),
            last: Instant(2),
            sent: [Count {
                packets: 1,
                bytes: 60,
            }; 2],
            tcp_flags: [0; 2],
        }
    }

    /// The system tells of a message that found nobody when the next is sent: that one is not lost, too.
    #[test]
    fn a_collector_that_is_back_gets_the_next_message() {
        let place = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let address = place.local_addr().expect("it is bound");
        let config = Ipfix {
            collector: Some(address),
            ..Ipfix::default()
        };
        let mut exporter = opened(&config);
        drop(place);
        exporter.ended(0, record(), false);
        exporter.flush();
        let back = UdpSocket::bind(address).expect("nobody has it");
        let long = Some(Duration::from_secs(20));
        back.set_read_timeout(long).expect("possible");
        exporter.ended(0, record(), false);
        exporter.flush();
        let counters = exporter.counters();
        assert_eq!((counters.messages, counters.messages_lost), (2, 0));
        assert!(back.recv(&mut [0; 2048]).is_ok());
    }
}
