//! Where packets come from.

mod interfaces;
mod part;
mod piped;
mod tunnels;

pub use part::{Clocks, Part};

use crate::ingress::Ingress;
use interfaces::Numbers;
use piped::Piped;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tunnels::TunnelFeed;
pub use tunnels::Tunnels;
use twinpath_control::service::Service;
use twinpath_core::{Frame, Instant, Pools, counted};
use twinpath_io::{CaptureError, CaptureReader, MergedReader, Next, PortPattern, Trace, is_piped};
use twinpath_traffic::{Generator, TrafficConfig, TrafficError};

/// What a source has next.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// A packet, now in [`Source::bytes`], with its time on the packet clock.
    Packet(Instant),
    /// A packet that is longer than any buffer.
    TooLong,
    /// None at this moment; a live port may have one later.
    Nothing,
    /// No more packets.
    End,
}

/// A port that packets come from.
pub trait Feed: Send {
    /// Copies the next packet to the front of `buffer`.
    ///
    /// # Errors
    /// The port cannot be read on.
    fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError>;

    /// How far the port is, from 0 to 1, if it knows.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// Whether packets did not say by which port of the node they came in, so that their sources told.
    fn has_guessed_ports(&self) -> bool {
        false
    }

    /// What is told of a capture's interfaces that are called like no port of the service, if packets
    /// were taken by their numbers.
    fn unknown_interfaces(&self) -> Option<Arc<str>> {
        None
    }

    /// Packets that were skipped because the capture says that they left.
    fn departures(&self) -> u64 {
        0
    }

    /// What time it is while no packet comes, if the port's packets have the time at which they come.
    fn now(&mut self) -> Option<Instant> {
        None
    }
}

/// What a [`Feed`] has next.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FeedItem {
    /// A packet.
    Packet {
        /// Its time.
        timestamp_ns: u64,
        /// Its length in bytes.
        len: usize,
        /// The number of the port that it came from.
        ingress: u16,
    },
    /// A packet that does not fit the buffer; it is skipped.
    TooLong,
    /// None at this moment.
    Nothing,
    /// No more packets.
    End,
}

/// A stream of packets in the order of a clock that never runs backwards: packets that a capture
/// has out of order are stamped with the latest time before them.
pub struct Source {
    feed: Box<dyn Feed>,
    buffer: Vec<u8>,
    len: usize,
    clock: Instant,
    truncated: Option<CaptureError>,
    ingress: u16,
    /// Any of these ends it.
    is_stopped: Vec<Arc<AtomicBool>>,
    at_first: Option<Box<dyn FnOnce() + Send>>,
    /// How far packets were behind their time when they were taken, at most.
    behind: Duration,
    /// Where others have the packets of other shards.
    part: Option<Part>,
}

/// Longer frames than this are skipped and counted.
pub const BUFFER_BYTES: usize = twinpath_core::pool::LARGE_PACKET_BYTES;

impl Source {
    /// Packets of any port.
    pub fn new(feed: impl Feed + 'static) -> Self {
        Self {
            feed: Box::new(feed),
            buffer: vec![0; BUFFER_BYTES],
            len: 0,
            clock: Instant::ZERO,
            truncated: None,
            behind: Duration::ZERO,
            ingress: 0,
            is_stopped: Vec::new(),
            at_first: None,
            part: None,
        }
    }

    /// Of the same packets those of one shard.
    pub fn of_shard(self, part: Part) -> Self {
        Self {
            part: Some(part),
            ..self
        }
    }

    /// The same packets; `begin` is called when the first is asked for, which is when a node is
    /// ready for it.
    pub fn beginning(self, begin: impl FnOnce() + Send + 'static) -> Self {
        let at_first: Box<dyn FnOnce() + Send> = Box::new(begin);
        Self {
            at_first: Some(at_first),
            ..self
        }
    }

    /// The same packets, but none any more once `is_stopped` is true.
    pub fn until(mut self, is_stopped: Arc<AtomicBool>) -> Self {
        self.is_stopped.push(is_stopped);
        self
    }

    /// The packets of a capture file. They come in by the port that is called like their interface,
    /// or else by that with its number, if no other interface is called like that one. A path with `{port}` in it stands for a file for each port, and
    /// `-` for standard input; of that, and of what else is a [pipe](is_piped), packets are taken as they
    /// come. Where a capture has one interface, which is not called like a port, [sources](Ingress) tell.
    /// Packets that a pcapng marks as outbound left, and are [skipped](Self::departures).
    ///
    /// # Errors
    /// A file cannot be opened or is no capture; for a pipe that is told when it is read.
    pub fn capture(path: &Path, service: &Service) -> Result<Self, CaptureError> {
        let ports = &service.ports;
        if let Some(pattern) = PortPattern::of(path) {
            return Self::of_ports(pattern, ports);
        }
        if is_piped(path) {
            let (path, ports, ingress) = (path.to_owned(), ports.clone(), Ingress::of(service));
            let open = move || Ok(CaptureFeed::new(CaptureReader::open(path)?, ports, ingress));
            return Ok(Self::new(Piped::new(open)));
        }
        let reader = CaptureReader::open(path)?;
        let feed = CaptureFeed::new(reader, ports.clone(), Ingress::of(service));
        Ok(Self::new(feed))
    }

    /// The packets of a capture for each port.
    fn of_ports(pattern: PortPattern, ports: &[String]) -> Result<Self, CaptureError> {
        let (pipes, files): (Vec<_>, Vec<_>) = pattern
            .paths(ports)?
            .into_iter()
            .partition(|path| is_piped(path));
        if !pipes.is_empty() {
            // A pipe may wait for ever: what is wrong with a file is told before.
            for file in files {
                CaptureReader::open(file)?;
            }
            let ports = ports.to_vec();
            let open = move || Ok(MergedReader::open(&pattern, &ports)?.arrivals());
            return Ok(Self::new(Piped::new(open)));
        }
        let merged = MergedReader::open(&pattern, ports)?;
        Ok(Self::new(merged.arrivals()))
    }

    /// Generated packets; for a DPU they are [in tunnels](Tunnels), of the connections of its ENIs. Of all
    /// others each comes by the port that its [source](Ingress) is at; where that is not known,
    /// requests by the first of several ports, answers by the second.
    ///
    /// # Errors
    /// The traffic's configuration is wrong.
    pub fn generator(config: &TrafficConfig, service: &Service) -> Result<Self, TrafficError> {
        if let Some(tunnels) = Tunnels::of(service) {
            let generator = Generator::new(&tunnels.fit(config), service.seed)?;
            return Ok(Self::new(TunnelFeed::new(generator, tunnels)));
        }
        let generator = Generator::new(config, service.seed)?;
        Ok(Self::new(GeneratorFeed {
            generator,
            ingress: Ingress::of(service),
        }))
    }

    /// Packets in memory, which come in by the first port.
    pub fn trace(trace: Trace) -> Self {
        Self::trace_at(trace, 0)
    }

    /// The same by the port with this number.
    pub fn trace_at(trace: Trace, port: u16) -> Self {
        Self::new(TraceFeed {
            trace,
            next: 0,
            ingress: None,
            port,
        })
    }

    /// Packets in memory, which come in where their [sources](Ingress) are.
    pub fn trace_by_sources(trace: Trace, service: &Service) -> Self {
        Self::new(TraceFeed {
            trace,
            next: 0,
            ingress: Some(Ingress::of(service)),
            port: 0,
        })
    }

    /// Says whether all is through that has entered the shard whose packets these are.
    pub(crate) fn settle(&mut self, is_settled: bool) {
        if let Some(part) = &mut self.part {
            part.settle(is_settled);
        }
    }

    /// A packet goes on in another shard. Returns whether that still takes some.
    pub(crate) fn send_across(&self, shard: u16, frame: &Frame) -> bool {
        let part = self.part.as_ref();
        part.is_some_and(|part| part.send_across(shard, frame))
    }

    /// When the first of the packets came that have crossed to the shard and may enter.
    pub(crate) fn first_across(&self) -> Option<Instant> {
        self.part.as_ref()?.first_across()
    }

    /// Takes packets that have crossed to the shard and may enter, at most `most`.
    pub(crate) fn take_across(&mut self, most: usize, pools: &mut Pools, frames: &mut Vec<Frame>) {
        if let Some(part) = &mut self.part {
            part.take_across(most, pools, frames);
        }
    }

    /// The shard reads no more; whoever waits for it goes on.
    pub(crate) fn leave_shard(&mut self) {
        self.part = None;
    }

    /// Reads the next packet.
    ///
    /// # Errors
    /// The port cannot be read on. A capture that merely ends in the middle of a packet is no
    /// error: see [`Self::truncated`].
    pub fn read(&mut self) -> Result<Read, CaptureError> {
        if let Some(begin) = self.at_first.take() {
            begin();
        }
        let is_stopped = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        if self.is_stopped.iter().any(is_stopped) {
            return Ok(Read::End);
        }
        let Some(mut part) = self.part.take() else {
            return self.read_feed();
        };
        let read = part.read(self);
        self.part = Some(part);
        read
    }

    pub(crate) fn read_feed(&mut self) -> Result<Read, CaptureError> {
        match self.feed.next_into(&mut self.buffer) {
            Ok(FeedItem::Packet {
                timestamp_ns,
                len,
                ingress,
            }) => {
                (self.len, self.ingress) = (len, ingress);
                self.clock = self.clock.max(Instant(timestamp_ns));
                Ok(Read::Packet(self.clock))
            }
            Ok(FeedItem::TooLong) => Ok(Read::TooLong),
            Ok(FeedItem::Nothing) => Ok(Read::Nothing),
            Ok(FeedItem::End) => Ok(Read::End),
            Err(error @ CaptureError::Truncated { .. }) => {
                self.truncated = Some(error);
                Ok(Read::End)
            }
            Err(error) => Err(error),
        }
    }

    /// What time it is while no packet comes, if packets have the time at which they come.
    pub(crate) fn now(&mut self) -> Option<Instant> {
        self.clock = self.clock.max(self.feed.now()?);
        Some(self.clock)
    }

    /// The packet that was read last.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The number of the port that it came from.
    pub fn ingress(&self) -> u16 {
        self.ingress
    }

    /// That the capture ended in the middle of a packet, if it did: all before it was read.
    pub fn truncated(&self) -> Option<&CaptureError> {
        self.truncated.as_ref()
    }

    /// How far live traffic was behind its time, at most.
    pub fn behind(&self) -> Duration {
        self.behind
    }

    /// A packet is taken so long after its time.
    pub(crate) fn taken_behind(&mut self, time: Duration) {
        self.behind = self.behind.max(time);
    }

    /// Whether packets did not say by which port of the node they came in, so that their sources told.
    pub fn has_guessed_ports(&self) -> bool {
        self.feed.has_guessed_ports()
    }

    /// What is told of a capture's interfaces that are called like no port of the service, if packets
    /// were taken by their numbers.
    pub fn unknown_interfaces(&self) -> Option<Arc<str>> {
        self.feed.unknown_interfaces()
    }

    /// Packets that were skipped because the capture says that they left.
    pub fn departures(&self) -> u64 {
        self.feed.departures()
    }

    /// How far the source is, from 0 to 1, if it knows.
    pub fn progress(&self) -> Option<f64> {
        self.feed.progress()
    }
}

/// What is told of packets that were skipped because they left, if some were.
pub fn departures_in_words(count: u64) -> Option<String> {
    (count > 0).then(|| {
        let (packets, are) = (counted(count, "packet"), if count == 1 { "is" } else { "are" });
        format!(
            "{packets} {are} marked as outbound in the capture, and skipped: what is outbound has left"
        )
    })
}

/// A capture whose interfaces are ports.
struct CaptureFeed {
    reader: CaptureReader,
    ports: Vec<String>,
    numbers: Numbers,
    /// For packets of which the capture does not say where they came in.
    ingress: Ingress,
    has_guessed: bool,
    /// What is told of interfaces that are called like no port.
    unknown: Option<Arc<str>>,
}

impl CaptureFeed {
    fn new(reader: CaptureReader, ports: Vec<String>, ingress: Ingress) -> Self {
        Self {
            reader: reader.arrivals(),
            ports,
            numbers: Numbers::default(),
            ingress,
            has_guessed: false,
            unknown: None,
        }
    }

    fn port_of(&mut self, interface: u32, bytes: &[u8]) -> u16 {
        let told = (!self.has_ports()).then(|| self.ingress.of_captured(bytes));
        self.has_guessed |= told.flatten().is_some();
        told.flatten()
            .unwrap_or_else(|| self.port_of_interface(interface as usize))
    }

    /// Whether the capture says by which ports packets came in.
    fn has_ports(&self) -> bool {
        match self.reader.interfaces() {
            [] => false,
            [one] => one
                .name
                .as_ref()
                .is_some_and(|name| self.ports.contains(name)),
            _ => true,
        }
    }

    fn port_of_interface(&mut self, interface: usize) -> u16 {
        if interface >= self.numbers.count() {
            self.unknown = self.numbers.learn(self.reader.interfaces(), &self.ports);
        }
        self.numbers.of(interface)
    }
}

impl Feed for CaptureFeed {
    fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
        let next = self.reader.next_into(buffer)?;
        Ok(feed_item(next, |interface, len| {
            self.port_of(interface, buffer.get(..len).unwrap_or_default())
        }))
    }

    fn has_guessed_ports(&self) -> bool {
        self.has_guessed
    }

    fn unknown_interfaces(&self) -> Option<Arc<str>> {
        self.unknown.clone()
    }

    fn departures(&self) -> u64 {
        self.reader.departures()
    }

    fn progress(&self) -> Option<f64> {
        share(self.reader.bytes_read(), self.reader.bytes_total())
    }
}

impl Feed for MergedReader {
    fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
        let next = Self::next_into(self, buffer)?;
        Ok(feed_item(next, |port, _| port as u16))
    }

    fn departures(&self) -> u64 {
        Self::departures(self)
    }

    fn progress(&self) -> Option<f64> {
        share(self.bytes_read(), self.bytes_total())
    }
}

fn feed_item(next: Next, port_of: impl FnOnce(u32, usize) -> u16) -> FeedItem {
    match next {
        Next::Frame(record) => FeedItem::Packet {
            timestamp_ns: record.timestamp_ns,
            len: record.captured_len,
            ingress: port_of(record.interface, record.captured_len),
        },
        Next::Oversized(_) => FeedItem::TooLong,
        Next::End => FeedItem::End,
    }
}

fn share(done: u64, total: u64) -> Option<f64> {
    (total > 0).then(|| done as f64 / total as f64)
}

struct GeneratorFeed {
    generator: Generator,
    ingress: Ingress,
}

impl Feed for GeneratorFeed {
    fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
        let generated = self.generator.next_into(buffer);
        Ok(generated.map_or(FeedItem::End, |packet| FeedItem::Packet {
            timestamp_ns: packet.timestamp_ns,
            len: packet.len,
            ingress: self.ingress.of_generated(
                buffer.get(..packet.len).unwrap_or_default(),
                packet.direction,
            ),
        }))
    }
}

struct TraceFeed {
    trace: Trace,
    next: usize,
    ingress: Option<Ingress>,
    /// Where packets come in of which that is not told.
    port: u16,
}

impl Feed for TraceFeed {
    fn next_into(&mut self, buffer: &mut [u8]) -> Result<FeedItem, CaptureError> {
        let Some(frame) = self.trace.at(self.next) else {
            return Ok(FeedItem::End);
        };
        self.next += 1;
        let Some(place) = buffer.get_mut(..frame.frame.len()) else {
            return Ok(FeedItem::TooLong);
        };
        place.copy_from_slice(frame.frame);
        Ok(FeedItem::Packet {
            timestamp_ns: frame.timestamp_ns,
            len: frame.frame.len(),
            ingress: self
                .ingress
                .as_ref()
                .and_then(|ingress| ingress.of_captured(frame.frame))
                .unwrap_or(self.port),
        })
    }

    fn progress(&self) -> Option<f64> {
        Some(self.next as f64 / self.trace.len().max(1) as f64)
    }
}
