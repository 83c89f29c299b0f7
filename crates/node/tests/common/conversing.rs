//! Servers that answer what reaches them, to whatever address it bore. When they do is planned
//! beforehand, so that packets come in one order whatever the paths; an answer whose request is
//! still under way waits for it, and everybody behind it.

use super::{Leaving, Outcome, built, lossless, reported, undrawn_flows};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use twinpath_control::live::Live;
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_core::Instant;
use twinpath_io::{CaptureError, Trace};
use twinpath_node::command::no_commands;
use twinpath_node::observe::Observer;
use twinpath_node::run::drive;
use twinpath_node::sink::Sink;
use twinpath_node::source::{Feed, FeedItem, Source};
use twinpath_node::{Departure, Ports};

/// Where requests come from, and answers.
const CLIENTS: u16 = 0;
const SERVERS: u16 = 1;

/// What clients have sent and servers have seen.
type SharedArrivals = Arc<Mutex<Arrived>>;

#[derive(Default)]
struct Arrived {
    /// By the time at which it was sent.
    requests: BTreeMap<u64, Vec<u8>>,
    /// What was sent before arrives no more.
    watermark: Instant,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Request(usize),
    /// To the request of this time.
    Answer(u64),
}

struct Conversation {
    requests: Trace,
    /// What comes when, the last first.
    plan: Vec<(u64, Next)>,
    seen: SharedArrivals,
    /// How often a server was asked that has not seen its request.
    waits: u32,
}

/// After so many times a request counts as lost, if nothing that came later tells it before.
const MOST_WAITS: u32 = 4000;

impl Conversation {
    fn bytes(&mut self, next: Next) -> Option<Vec<u8>> {
        match next {
            Next::Request(number) => self.requests.at(number).map(|frame| frame.frame.to_vec()),
            Next::Answer(to) => {
                let seen = self.seen.lock().expect("nobody panics");
                let request = seen.requests.get(&to);
                request.and_then(|request| super::answer(request))
            }
        }
    }

    fn is_lost(&self, next: Next) -> bool {
        let Next::Answer(to) = next else {
            return false;
        };
        let seen = self.seen.lock().expect("nobody panics");
        self.waits >= MOST_WAITS || seen.watermark.0 > to
    }
}

impl Feed for Conversation {
    fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
        let Some(&(timestamp_ns, next)) = self.plan.last() else {
            return Ok(FeedItem::End);
        };
        let bytes = self.bytes(next);
        self.waits += 1;
        if bytes.is_none() && !self.is_lost(next) {
            return Ok(FeedItem::Nothing);
        }
        (self.waits, _) = (0, self.plan.pop());
        let Some(bytes) = bytes else {
            return Ok(FeedItem::Nothing);
        };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(FeedItem::Packet {
            timestamp_ns,
            len: bytes.len(),
            ingress: match next {
                Next::Request(_) => CLIENTS,
                Next::Answer(_) => SERVERS,
            },
        })
    }
}

struct Servers {
    left: Leaving,
    seen: SharedArrivals,
}

impl Sink for Servers {
    fn packet(&mut self, departure: &Departure) -> Result<(), CaptureError> {
        let frame = &departure.frame;
        if frame.port() == CLIENTS && !departure.is_reply {
            let mut seen = self.seen.lock().expect("nobody panics");
            let request = frame.bytes().to_vec();
            seen.requests.insert(frame.timestamp().0, request);
        }
        self.left.packet(departure)
    }

    fn advance(&mut self, watermark: Instant) -> Result<(), CaptureError> {
        self.seen.lock().expect("nobody panics").watermark = watermark;
        self.left.advance(watermark)
    }
}

/// When requests come, and answers to some of them.
pub struct Plan(Vec<(u64, Next)>);

impl Plan {
    /// All requests are answered so long after they were sent.
    fn of_all(requests: &Trace, after: Duration) -> Self {
        let after = after.as_nanos() as u64;
        let each = requests.iter().enumerate();
        let mut plan: Vec<_> = each
            .flat_map(|(number, frame)| {
                let at = frame.timestamp_ns;
                [(at, Next::Request(number)), (at + after, Next::Answer(at))]
            })
            .collect();
        plan.sort();
        plan.dedup();
        plan.reverse();
        Self(plan)
    }

    /// Only what servers have seen is answered.
    fn without_lost(mut self, seen: &SharedArrivals) -> Self {
        let seen = seen.lock().expect("nobody panics");
        self.0.retain(|(_, next)| match next {
            Next::Request(_) => true,
            Next::Answer(to) => seen.requests.contains_key(to),
        });
        self
    }
}

/// Runs requests through the slow path alone, and the answers to them that servers give so long
/// after. Returns what left, and when which packets came.
pub fn converse_alone(service: &Service, requests: &Trace, after: Duration) -> (Outcome, Plan) {
    let plan = || Plan::of_all(requests, after);
    let slow = (Paths::Slow, Execution::Virtual);
    let (outcome, seen) = run(service, requests, &plan(), slow);
    (outcome, plan().without_lost(&seen))
}

/// Runs the same on both paths.
pub fn converse(service: &Service, requests: &Trace, plan: &Plan, execution: Execution) -> Outcome {
    run(service, requests, plan, (Paths::Both, execution)).0
}

fn run(
    service: &Service,
    requests: &Trace,
    plan: &Plan,
    (paths, execution): (Paths, Execution),
) -> (Outcome, SharedArrivals) {
    let service = lossless(service, paths, execution);
    let seen = SharedArrivals::default();
    let mut source = Source::new(Conversation {
        plan: plan.0.clone(),
        requests: super::copy(requests),
        seen: Arc::clone(&seen),
        waits: 0,
    });
    let mut sink = Servers {
        left: Leaving::default(),
        seen: Arc::clone(&seen),
    };
    let (mut node, mut observer) = (built(&service), Observer::new(Live::hidden()));
    let ports = Ports {
        input: Some("memory".into()),
        ..Ports::default()
    };
    drive(
        &service,
        &ports,
        &mut node,
        &mut source,
        &mut sink,
        &mut observer,
        &no_commands(),
        &AtomicBool::new(false),
    )
    .expect("memory never fails");
    let Leaving { packets, ports, .. } = sink.left;
    let outcome = Outcome {
        flows: undrawn_flows(
            &service,
            packets.iter().map(|(_, packet)| packet.clone()).collect(),
        ),
        packets,
        ports,
        report: reported(observer, &node),
    };
    (outcome, seen)
}
