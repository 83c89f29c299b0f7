//! Functions run over packets one by one, and behind every rule that a packet makes: what tests
//! of the rule functions' contract compare. The cache is ideal (no delay, no loss, no selection),
//! so that whatever differs is a function's fault.

use std::any::Any;
use std::time::Duration;
use twinpath_classify::Prefix;
use twinpath_core::key::Role;
use twinpath_core::wire::layout::Transport;
use twinpath_core::wire::{
    Layout, dissect, fields, rewrite, verify_ipv4_checksum, verify_transport_checksum,
};
use twinpath_core::{Direction, DropReason, Identifications, Instant, Packet, Pools, Share};
use twinpath_rulecache::recording::EntryId;
use twinpath_rulecache::{
    Answers, Awaits, Dependents, Follower, Hits, MatchKey, Obstacle, Reconfigure, Recorded,
    Recording, Rule, RuleChain, RuleFunction, TcpProgress, Verdict, Waited, synthesise,
};

/// What became of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The packet as it left, and the port if a function chose one; or why it did not leave.
    pub packet: Result<(Vec<u8>, Option<u16>), DropReason>,
    /// Packets that functions made.
    pub replies: Vec<Vec<u8>>,
    /// Packets that functions had kept, as they left behind this one.
    pub followers: Vec<Vec<u8>>,
}

impl Outcome {
    /// The bytes of the packet that left, whose checksums hold.
    pub fn departed(&self) -> (Vec<u8>, Layout) {
        let (bytes, _) = self.packet.clone().expect("a packet that leaves");
        let layout = dissect(&bytes).expect("well formed");
        assert!(verify_ipv4_checksum(&bytes, &layout), "IP checksum");
        assert!(
            verify_transport_checksum(&bytes, &layout),
            "transport checksum"
        );
        (bytes, layout)
    }

    /// The same without identifications that may have been drawn: they are others on either path.
    pub fn unnumbered(mut self) -> Self {
        let packet = self.packet.iter_mut().map(|(bytes, _)| bytes);
        let all = packet.chain(&mut self.replies).chain(&mut self.followers);
        for bytes in all {
            let layout = dissect(bytes).expect("well formed");
            if !fields::is_atomic(bytes, &layout) {
                let done = rewrite::set_identification(bytes, &layout, 0);
                done.expect("IPv4");
            }
        }
        self
    }
}

/// A cached rule with what its functions have not been told yet.
struct Live {
    rule: Rule,
    last: Instant,
    untold: Hits,
}

impl Live {
    fn is_for(&self, key: &MatchKey, frame: &[u8], layout: &Layout, now: Instant) -> bool {
        let idle = self.rule.action.idle.unwrap_or(Duration::MAX);
        self.rule.matches(key)
            && now.since(self.last) <= idle
            && self.rule.action.rewrites.allows(frame, layout)
    }

    fn apply(&self, frame: &[u8], layout: &Layout) -> Outcome {
        let rewrites = &self.rule.action.rewrites;
        let mut bytes = frame.to_vec();
        let packet = match self.rule.action.drop {
            Some(reason) => Err(reason),
            None => {
                rewrites.apply(&mut bytes, layout);
                Ok((bytes, rewrites.egress()))
            }
        };
        Outcome {
            packet,
            replies: Vec::new(),
            followers: Vec::new(),
        }
    }
}

/// The cached rules, and what the packet that is on its way has waited for.
#[derive(Default)]
struct Cache(Vec<Live>, Waited);

impl Dependents for Cache {
    fn is_free(&self, entry: EntryId) -> bool {
        !self.0.iter().any(|live| live.rule.dependencies.has(entry))
    }

    fn waited(&self) -> Waited {
        self.1
    }
}

impl Cache {
    fn tell(&mut self, chain: &mut RuleChain, entry: EntryId) {
        for live in &mut self.0 {
            if live.rule.dependencies.has(entry) {
                tell(live, chain);
            }
        }
    }

    fn take_out(&mut self, chain: &mut RuleChain, entry: EntryId) {
        self.tell(chain, entry);
        self.0.retain(|live| !live.rule.dependencies.has(entry));
    }
}

fn tell(live: &mut Live, chain: &mut RuleChain) {
    let hits = std::mem::take(&mut live.untold);
    if hits.packets == 0 {
        return;
    }
    for dependency in live.rule.dependencies.as_slice() {
        let EntryId { function, entry } = dependency.entry;
        let function = chain.function(function).expect("a function of the chain");
        let progress = hits.progress.filter(|_| dependency.hears_progress);
        function.credit(entry, &Hits { progress, ..hits });
    }
}

/// What a rule tells of a TCP segment.
fn progress_of(frame: &[u8], layout: &Layout) -> Option<TcpProgress> {
    let is_tcp = layout.transport == Transport::Tcp;
    is_tcp.then(|| TcpProgress {
        sequence: fields::tcp_seq(frame, layout),
        acknowledgement: fields::tcp_ack(frame, layout),
    })
}

/// Functions with or without a cache in front.
pub(crate) struct Bench {
    chain: RuleChain,
    cache: Cache,
    /// Most cached rules; 0 for none.
    limit: usize,
    inside: Vec<Prefix>,
    pools: Pools,
    /// Those that rules have drawn.
    identifications: Identifications,
    /// Packets that a rule answered.
    pub hits: u64,
    /// Packets that had to wait for an entry.
    pub waits: u64,
    /// Why the last packet made no rule.
    pub obstacle: Option<Obstacle>,
}

impl Bench {
    /// Functions that see every packet.
    pub fn plain(functions: Vec<Box<dyn RuleFunction>>) -> Self {
        Self::cached(functions, 0)
    }

    /// Functions behind a cache of at most so many rules.
    pub fn cached(functions: Vec<Box<dyn RuleFunction>>, limit: usize) -> Self {
        Self {
            chain: RuleChain::new(functions),
            cache: Cache::default(),
            limit,
            inside: Vec::new(),
            pools: Pools::new(8, 1),
            identifications: Identifications::new(Share::FAST_PATH, 7),
            hits: 0,
            waits: 0,
            obstacle: None,
        }
    }

    /// Packets that do not come from these networks go through the chain in reverse.
    pub fn inside(mut self, inside: &[Prefix]) -> Self {
        self.inside = inside.to_vec();
        self
    }

    /// A function of the chain.
    pub fn function<F: RuleFunction>(&mut self, place: u8) -> &mut F {
        let function: &mut dyn Any = self.chain.function(place).expect("that many functions");
        function.downcast_mut().expect("of that kind")
    }

    /// A counter of a function.
    pub fn counter(&mut self, place: u8, wanted: &str) -> u64 {
        let mut found = None;
        let function = self.chain.function(place).expect("that many functions");
        function.counters(&mut |name, value| {
            if name == wanted {
                found = Some(value);
            }
        });
        found.expect("a counter of that name")
    }

    /// Gives a function another configuration, after what it affects was taken out.
    pub fn reconfigure<F: Reconfigure>(&mut self, place: u8, mut new: F::New) {
        let affected = self.function::<F>(place).affected_by(&new);
        self.tell_all();
        let rules = &mut self.cache.0;
        rules.retain(|live| !affected.concerns(place, &live.rule));
        self.function::<F>(place).apply(&mut new);
    }

    /// How many rules are cached.
    pub fn rules(&self) -> usize {
        self.cache.0.len()
    }

    /// Takes out the rules that came from entries, so that these may change.
    pub fn free(&mut self, place: u8, entries: impl IntoIterator<Item = u32>) {
        for entry in entries {
            let function = place;
            self.cache
                .take_out(&mut self.chain, EntryId { function, entry });
        }
    }

    /// Tells functions of all hits so far.
    pub fn tell_all(&mut self) {
        for live in &mut self.cache.0 {
            tell(live, &mut self.chain);
        }
    }

    /// Lets functions forget what has expired and is free.
    pub fn tick(&mut self, now: Instant) {
        let mut expired = Vec::new();
        for (place, function) in self.chain.functions_mut() {
            function.each_expired(now, &mut |entry| expired.push(entry));
            for entry in expired.drain(..) {
                let id = EntryId {
                    function: place,
                    entry,
                };
                if self.cache.is_free(id) {
                    function.forget(entry, now);
                }
            }
        }
    }

    /// Takes one packet, arrived at `now` on port `port`.
    pub fn process(&mut self, frame: &[u8], port: u16, now: Instant) -> Outcome {
        let layout = dissect(frame).expect("well formed");
        let key = MatchKey::of(frame, &layout, port, Direction::Original);
        if let Some(key) = key
            && let Some(outcome) = self.hit(&key, frame, &layout, now)
        {
            return outcome;
        }
        self.punt(frame, port, now, key)
    }

    fn hit(
        &mut self,
        key: &MatchKey,
        frame: &[u8],
        layout: &Layout,
        now: Instant,
    ) -> Option<Outcome> {
        let mut rules = self
            .cache
            .0
            .iter_mut()
            .filter(|live| live.is_for(key, frame, layout, now));
        let first = rules.next()?;
        let mut outcome = first.apply(frame, layout);
        let numbers = first.rule.action.rewrites.numbers();
        first.last = now;
        first.untold.packets += 1;
        first.untold.bytes += frame.len() as u64;
        first.untold.last = now;
        first.untold.progress = progress_of(frame, layout);
        self.hits += 1;
        for other in rules {
            assert_eq!(other.apply(frame, layout), outcome, "rules that conflict");
        }
        if let (true, Ok((bytes, _))) = (numbers, &mut outcome.packet) {
            self.identifications.number(bytes, layout);
        }
        Some(outcome)
    }

    fn punt(&mut self, frame: &[u8], port: u16, now: Instant, key: Option<MatchKey>) -> Outcome {
        let mut recording = Recording::new(key);
        let mut packet = self.packet(frame, port, now, &mut recording);
        let mut replies = Vec::new();
        let mut followers = Vec::new();
        let verdict = self.run(
            &mut packet,
            &mut recording,
            (0, &mut replies),
            &mut followers,
        );
        let followers = self.follow(&packet, followers);
        let drop = match verdict {
            Verdict::Drop(reason) => Some(reason),
            _ => None,
        };
        self.obstacle = recording.obstacle();
        if let Ok(rule) = synthesise(&recording, drop, now) {
            self.install(rule);
        }
        let packet = match drop {
            Some(reason) => Err(reason),
            None => Ok((packet.bytes().to_vec(), recording.rewrites().egress())),
        };
        let replies = replies.iter().map(|frame| frame.bytes().to_vec()).collect();
        Outcome {
            packet,
            replies,
            followers,
        }
    }

    fn packet(
        &mut self,
        frame: &[u8],
        port: u16,
        now: Instant,
        recording: &mut Recording,
    ) -> Packet {
        let mut buffer = self.pools.take_filled(frame).expect("a buffer");
        buffer.set_timestamp(now);
        buffer.set_port(port);
        let layout = dissect(frame).expect("well formed");
        let mut packet = Packet {
            frame: buffer,
            layout,
            direction: Direction::Original,
            role: Role::Member,
            alias_row: 0,
        };
        if !self.inside.is_empty() {
            let source = packet.source().address;
            if !self.inside.iter().any(|inside| inside.includes(source)) {
                packet.direction = Direction::Reply;
            }
            Recorded::new(&mut packet, recording, &Cache::default(), 0).examined_source(128);
        }
        packet
    }

    /// Runs a packet through the chain, and does what it waits for.
    fn run(
        &mut self,
        packet: &mut Packet,
        recording: &mut Recording,
        (mut from, replies): (usize, &mut Vec<twinpath_core::Frame>),
        followers: &mut Vec<Follower>,
    ) -> Verdict<Awaits> {
        let (mut asked, mut closed) = (None, None);
        self.cache.1 = Waited::default();
        loop {
            let before = packet.bytes().to_vec();
            let mut answers = Answers::new(replies, &mut self.pools);
            let verdict = self
                .chain
                .run(packet, recording, from, &self.cache, &mut answers);
            followers.append(&mut answers.take_followers());
            drop(answers);
            let Verdict::Wait(Awaits { step, entry }) = verdict else {
                return verdict;
            };
            if step == from {
                assert_eq!(packet.bytes(), before, "a waiting packet was changed");
            }
            self.waits += 1;
            self.cache.1 = Waited {
                entry: Some(entry),
                times: self.cache.1.times + 1,
            };
            recording_obstruct(packet, recording);
            assert_ne!(closed, Some(entry), "waits for what is free");
            assert!(!self.cache.is_free(entry), "waits for what is free");
            from = step;
            if asked == Some(entry) {
                self.cache.take_out(&mut self.chain, entry);
                (asked, closed) = (None, Some(entry));
            } else {
                self.cache.tell(&mut self.chain, entry);
                (asked, closed) = (Some(entry), None);
            }
        }
    }

    /// Takes what functions had kept through those behind.
    fn follow(&mut self, leader: &Packet, followers: Vec<Follower>) -> Vec<Vec<u8>> {
        let mut left = Vec::new();
        for follower in followers {
            let packet = follower.packet(leader, &mut self.pools);
            let (step, mut packet) = packet.expect("well formed");
            let (mut replies, mut more) = (Vec::new(), Vec::new());
            let mut recording = Recording::new(None);
            let start = (step, &mut replies);
            let verdict = self.run(&mut packet, &mut recording, start, &mut more);
            if verdict == Verdict::Forward {
                left.push(packet.bytes().to_vec());
            }
            self.pools.give(packet.frame);
        }
        left
    }

    fn install(&mut self, rule: Rule) {
        if self.limit == 0 {
            return;
        }
        let is_same = |live: &Live| live.rule.mask == rule.mask && live.rule.value == rule.value;
        let replaced = self.cache.0.iter().position(is_same);
        let is_full = self.cache.0.len() >= self.limit;
        if let Some(index) = replaced.or(is_full.then_some(0)) {
            tell(&mut self.cache.0.remove(index), &mut self.chain);
        }
        self.cache.0.push(Live {
            rule,
            last: rule.used,
            untold: Hits::default(),
        });
    }
}

/// What a packet that has waited met before may have changed by the time it goes on.
fn recording_obstruct(packet: &mut Packet, recording: &mut Recording) {
    Recorded::new(packet, recording, &Cache::default(), 0).uncacheable(Obstacle::StateChanged);
}
