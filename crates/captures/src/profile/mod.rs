//! What is in a capture, as far as services are derived from it.

mod conversation;
mod counts;
mod heat;
pub mod networks;
mod order;
mod payloads;
mod signatures;
#[cfg(test)]
mod tests;

pub use conversation::Conversation;
pub use counts::Counts;
pub use heat::Settleable;
pub use networks::Fresh;
pub use signatures::{Deep, Signatures, Spanning};

use heat::{Heat, Kind};
use order::{Order, SegmentOrder};
use payloads::Payloads;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;
use twinpath_classify::Prefix;
use twinpath_core::key::{Keyed, Role};
use twinpath_core::{FlowKey, Steering};
use twinpath_io::{CaptureError, Trace, TraceFrame};
use twinpath_wire::{Address, Layout, Transport, dissect, fields};

/// A capture has so many windows of the rule cache, unless it is very long or very short.
const WINDOWS: u64 = 20;
const SHORTEST_WINDOW: Duration = Duration::from_micros(20);
const LONGEST_WINDOW: Duration = Duration::from_millis(100);

/// What is in a capture.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Packets by kind.
    pub counts: Counts,
    /// From the earliest packet to the latest.
    pub duration_ns: u64,
    /// Whole packets by who talks to whom, the busiest conversations first.
    pub conversations: Vec<Conversation>,
    /// Where whole packets go that a router may forward, with their number; the busiest first.
    pub destinations: Vec<(Address, u64)>,
    /// The networks of the busiest clients.
    pub inside: Vec<Prefix>,
    /// Networks that do not occur.
    pub fresh: Fresh,
    /// Bytes that occur.
    pub signatures: Signatures,
    /// Length of a window of the rule cache that suits the capture's.
    pub window: Duration,
    /// How much a fast path could do at best.
    pub settleable: Settleable,
}

impl Profile {
    /// What is in this capture.
    pub fn of(trace: &Trace) -> Self {
        let times = || trace.iter().map(|frame| frame.timestamp_ns);
        let duration_ns = times().max().unwrap_or(0) - times().min().unwrap_or(0);
        let window = Duration::from_nanos(duration_ns / WINDOWS);
        let mut scan = Scan::new(window.clamp(SHORTEST_WINDOW, LONGEST_WINDOW));
        trace.iter().for_each(|frame| scan.frame(frame));
        scan.finish(duration_ns)
    }

    /// The same of a file.
    ///
    /// # Errors
    /// As for [`Trace::load`].
    pub fn of_file(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        Trace::load(path).map(|trace| Self::of(&trace))
    }
}

struct Scan<'a> {
    window: Duration,
    heat: Heat,
    counts: Counts,
    conversations: HashMap<FlowKey, Conversation>,
    addresses: HashSet<Address>,
    destinations: HashMap<Address, u64>,
    order: Order,
    payloads: Payloads<'a>,
}

impl<'a> Scan<'a> {
    fn new(window: Duration) -> Self {
        Self {
            window,
            heat: Heat::new(window),
            counts: Counts::default(),
            conversations: HashMap::new(),
            addresses: HashSet::new(),
            destinations: HashMap::new(),
            order: Order::default(),
            payloads: Payloads::default(),
        }
    }

    fn frame(
        &mut self,
        TraceFrame {
            timestamp_ns,
            frame,
            ..
        }: TraceFrame<'a>,
    ) {
        self.counts.packets += 1;
        let layout = dissect(frame).ok();
        let keyed = layout.and_then(|layout| Some((layout, Steering::new(0).key(frame, &layout)?)));
        let Some((layout, keyed)) = keyed else {
            self.counts.not_ip += 1;
            return;
        };
        self.counts.add(frame, &layout, &keyed);
        let (source, destination) = (
            fields::source_address(frame, &layout),
            fields::destination_address(frame, &layout),
        );
        self.addresses.extend([source, destination]);
        if keyed.role == Role::Member {
            let is_to_group = fields::destination_mac(frame).0[0] & 1 != 0;
            let is_forwarded = fields::ttl(frame, &layout) > 1 && !is_to_group;
            *self.destinations.entry(destination).or_default() += u64::from(is_forwarded);
            self.member(frame, &layout, &keyed, timestamp_ns);
        }
    }

    fn member(&mut self, frame: &'a [u8], layout: &Layout, keyed: &Keyed, at_ns: u64) {
        let new = || Conversation::new(frame, layout, keyed);
        let conversation = self.conversations.entry(keyed.key).or_insert_with(new);
        conversation.packets += 1;
        let kind = match layout.transport {
            Transport::Tcp if counts::is_marked(frame, layout) => Kind::Marked,
            Transport::Tcp | Transport::Udp => Kind::Plain,
            _ => Kind::WithoutRules,
        };
        self.heat.packet(keyed, at_ns, kind);
        self.payloads.add(frame, layout, keyed);
        if layout.transport == Transport::Tcp {
            match self.order.segment(frame, layout, keyed, at_ns) {
                SegmentOrder::Ahead => self.counts.ahead += 1,
                SegmentOrder::Repeated => self.counts.repeated += 1,
                SegmentOrder::Elsewhere => {}
            }
        }
    }

    fn finish(self, duration_ns: u64) -> Profile {
        let mut conversations: Vec<_> = self.conversations.into_values().collect();
        conversations.sort_by_key(|conversation| (Reverse(conversation.packets), conversation.key));
        let mut destinations: Vec<_> = self.destinations.into_iter().collect();
        destinations.retain(|(_, packets)| *packets > 0);
        destinations.sort_by_key(|(address, packets)| (Reverse(*packets), *address));
        Profile {
            counts: self.counts,
            duration_ns,
            window: self.window,
            settleable: self.heat.settleable(),
            inside: networks::inside(&conversations),
            fresh: Fresh::among(&self.addresses),
            signatures: Signatures::of(self.payloads.all()),
            conversations,
            destinations,
        }
    }
}
