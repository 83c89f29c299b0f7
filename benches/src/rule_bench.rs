//! A chain whose decisions are cached, in one thread: the fast path's table and the workers side by
//! side, every message delivered at once.

use std::time::Duration;
use twinpath_core::wire::dissect;
use twinpath_core::wire::layout::{Layout, Plain, PlainEnds};
use twinpath_core::{Decision, Direction, DropReason, Frame, Instant, Packet, Pools};
use twinpath_rulecache::{
    CacheMessage, Effect, Found, Gone, Held, LineKey, ManagerConfig, MatchKey, Output,
    RuleFunction, RuleTable, SelectionConfig, Sides, SlowRules, SlowRulesConfig, TableConfig, Uses,
};

/// Packets that are looked up together.
pub const BATCH: usize = 32;

/// What is known of a packet before it meets the rules.
#[derive(Copy, Clone)]
struct Known {
    plain: Option<(Plain, PlainEnds)>,
    /// Where its rule is, probably.
    place: Option<Found>,
}

/// A chain with its cache.
pub struct RuleBench {
    /// The rules on the fast path.
    pub table: RuleTable,
    /// The chain on the slow path.
    pub slow: SlowRules,
    /// The time of all packets.
    pub now: Instant,
    ticked: Instant,
    /// Packets that left the chain, dropped ones not counted.
    pub departed: u64,
    /// Packets that the workers handled.
    pub punted: u64,
    /// Rules that the workers asked for.
    pub requests: u64,
    /// Whether rules are refused, so that they are asked for again and never met.
    pub refuses: bool,
    pools: Pools,
    done: Vec<Frame>,
    batch: Vec<Known>,
    outputs: Vec<Output>,
    effects: Vec<Effect>,
}

/// How much a bench caches.
#[derive(Copy, Clone, Debug)]
pub struct Caching {
    /// Whether the workers make rules.
    pub is_on: bool,
    /// Most rules of a flow, and most others.
    pub rules: [usize; 2],
    /// The selection.
    pub selection: SelectionConfig,
    /// Windows without hits after which a rule is taken out, and their length as for selection.
    pub idle_windows: u8,
}

impl Caching {
    /// Room for so many rules; one is hot from its second window on.
    pub fn of(rules: usize) -> Self {
        Self {
            is_on: true,
            rules: [rules, 8192],
            selection: SelectionConfig {
                threshold: 0,
                ..SelectionConfig::for_rules(rules)
            },
            idle_windows: u8::MAX,
        }
    }

    /// No rules.
    pub fn off() -> Self {
        Self {
            is_on: false,
            ..Self::of(1)
        }
    }
}

impl RuleBench {
    /// A chain of these functions.
    pub fn new(functions: Vec<Box<dyn RuleFunction>>, caching: Caching) -> Self {
        let ([exact, masked], masks) = (caching.rules, 256);
        let manager = ManagerConfig {
            exact,
            masked,
            masks,
            window: caching.selection.window,
            idle_windows: caching.idle_windows,
            ..ManagerConfig::default()
        };
        let config = SlowRulesConfig {
            caching: caching.is_on,
            selection: caching.selection,
            manager,
            ..SlowRulesConfig::default()
        };
        let table = TableConfig {
            exact,
            masked,
            masks,
            promoted_together: 4096,
            report_interval: caching.selection.window / 2,
            seed: 7,
            ..TableConfig::default()
        };
        Self {
            table: RuleTable::new(table),
            slow: SlowRules::new(config, Sides::ONE_WAY, functions),
            now: Instant(1_000_000_000),
            ticked: Instant::ZERO,
            departed: 0,
            punted: 0,
            requests: 0,
            refuses: false,
            pools: Pools::new(1024, 16),
            done: Vec::new(),
            batch: Vec::with_capacity(BATCH),
            outputs: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// Sends all frames, which come back into `frames`, in order of departure.
    pub fn send(&mut self, frames: &mut Vec<Frame>) {
        self.done.reserve(frames.len());
        let mut waiting = frames.drain(..);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            batch.extend(waiting.by_ref().take(BATCH));
            // As a driver does: fetch what comes next while this batch is worked on.
            let next = &waiting.as_slice()[..waiting.len().min(BATCH)];
            next.iter().for_each(Frame::prefetch);
            if batch.is_empty() {
                break;
            }
            self.meet_rules(&mut batch);
        }
        drop(waiting);
        *frames = std::mem::take(&mut self.done);
    }

    /// Sends one frame; whatever leaves the chain is given back to the bench's buffers.
    pub fn send_one(&mut self, frame: Frame) {
        self.meet_rules(&mut vec![frame]);
        while let Some(frame) = self.done.pop() {
            self.pools.give(frame);
        }
    }

    fn meet_rules(&mut self, frames: &mut Vec<Frame>) {
        let mut batch = std::mem::take(&mut self.batch);
        batch.clear();
        batch.extend(frames.iter().map(|frame| self.look_ahead(frame)));
        let mut has_slow = false;
        for (mut frame, known) in frames.drain(..).zip(&batch) {
            match self.meet(&mut frame, *known) {
                Decision::Forward { .. } => {
                    self.departed += 1;
                    self.done.push(frame);
                }
                other => {
                    has_slow = true;
                    self.go_slow(frame, other);
                }
            }
        }
        self.batch = batch;
        if has_slow || !self.effects.is_empty() {
            self.tick();
        }
    }

    /// What is read of a flow's rule is on its way while others of the batch are looked at.
    fn look_ahead(&self, frame: &Frame) -> Known {
        let plain = Plain::with_ends(frame.bytes());
        let fetch = |(plain, ends): (Plain, PlainEnds)| {
            let flow = LineKey::of_ends(ends, plain.protocol(), Direction::Original);
            self.table.fetch(flow)
        };
        let place = plain.map(fetch);
        Known { plain, place }
    }

    fn meet(&mut self, frame: &mut Frame, known: Known) -> Decision {
        let shown = (frame.port(), Direction::Original);
        let met = known.plain.and_then(|plain| {
            let bytes = frame.bytes_mut();
            self.table
                .plain_packet(known.place, bytes, plain, shown, self.now)
        });
        met.unwrap_or_else(|| {
            let (layout, key) = match known.plain {
                Some((plain, _)) => {
                    let key =
                        MatchKey::of_plain(frame.bytes(), plain, frame.port(), Direction::Original);
                    (plain.layout(), key)
                }
                None => layout_and_key(frame),
            };
            let found = self.table.find_again(known.place, &key);
            let bytes = frame.bytes_mut();
            self.table.packet(&key, found, bytes, &layout, self.now)
        })
    }

    #[cold]
    fn go_slow(&mut self, frame: Frame, decision: Decision) {
        let (layout, key) = layout_and_key(&frame);
        match decision {
            Decision::Punt => self.punt(frame, layout),
            Decision::Hold => {
                let held = Held { frame, layout, key };
                self.table.hold(held, &mut self.effects);
                self.settle();
            }
            // As a dropped packet's buffer is used again.
            Decision::Drop(_) => self.done.push(frame),
            Decision::Forward { .. } | Decision::Reply => {}
        }
    }

    /// Sends all frames to the slow path, as if there were no fast path.
    pub fn send_to_worker(&mut self, frames: &mut Vec<Frame>) {
        let mut waiting = std::mem::take(frames).into_iter();
        self.done.reserve(waiting.len());
        while let Some(frame) = waiting.next() {
            if let Some(next) = waiting.as_slice().get(BATCH) {
                next.prefetch();
            }
            if let Ok(layout) = dissect(frame.bytes()) {
                self.punt(frame, layout);
            }
        }
        *frames = std::mem::take(&mut self.done);
    }

    /// Sends one frame to the slow path.
    pub fn punt(&mut self, mut frame: Frame, layout: Layout) {
        self.punted += 1;
        frame.set_timestamp(self.now);
        let packet = Packet {
            frame,
            layout,
            direction: Direction::Original,
            role: Default::default(),
            alias_row: 0,
        };
        self.slow.packet(packet, &mut self.pools, &mut self.outputs);
        self.put_out();
    }

    fn put_out(&mut self) {
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Depart(packet, _) => {
                    self.departed += 1;
                    self.done.push(packet.frame);
                }
                Output::Drop(packet, _) => self.done.push(packet.frame),
                Output::Reply(frame) => self.pools.give(frame),
                Output::Send(message) => self.take(&message),
            }
        }
        self.outputs = outputs;
    }

    /// The fast path gets a message.
    fn take(&mut self, message: &CacheMessage) {
        let added = match message {
            CacheMessage::Add(name, _) => Some(*name),
            _ => None,
        };
        self.requests += u64::from(added.is_some());
        match added.filter(|_| self.refuses) {
            Some(name) => {
                self.tell_worker(&CacheMessage::Gone(name, Uses::default(), Gone::NoRoom));
            }
            None => {
                self.table.message(message, &mut self.effects);
                self.settle();
            }
        }
    }

    fn settle(&mut self) {
        while !self.effects.is_empty() {
            for effect in std::mem::take(&mut self.effects) {
                match effect {
                    Effect::Send(message) => self.tell_worker(&message),
                    Effect::Release(held, Decision::Punt) => self.punt(held.frame, held.layout),
                    Effect::Release(held, _) => {
                        self.departed += 1;
                        self.done.push(held.frame);
                    }
                }
            }
        }
    }

    fn tell_worker(&mut self, message: &CacheMessage) {
        let mut outputs = Vec::new();
        self.slow
            .message(message, self.now, &mut self.pools, &mut outputs);
        self.outputs.append(&mut outputs);
        self.put_out();
    }

    /// Does what the workers want done.
    pub fn deliver(&mut self, mut outputs: Vec<Output>) {
        self.outputs.append(&mut outputs);
        self.put_out();
    }

    /// Lets time pass on both sides; on the slow path at most once in a millisecond, as in a node.
    pub fn tick(&mut self) {
        self.table.tick(self.now, self.now, &mut self.effects);
        self.settle();
        if self.now.since(self.ticked) >= Duration::from_millis(1) {
            self.ticked = self.now;
            self.slow.tick(self.now, &mut self.pools, &mut self.outputs);
            self.put_out();
        }
    }

    /// A frame for [`Self::send_one`].
    ///
    /// # Errors
    /// No buffer is left.
    pub fn frame(&mut self, bytes: &[u8]) -> Result<Frame, DropReason> {
        self.pools.take_filled(bytes).ok_or(DropReason::NoBuffer)
    }
}

fn layout_and_key(frame: &Frame) -> (Layout, MatchKey) {
    let layout = dissect(frame.bytes()).expect("packets are well formed");
    let key = MatchKey::of(frame.bytes(), &layout, frame.port(), Direction::Original);
    (layout, key.expect("rules match such packets"))
}
