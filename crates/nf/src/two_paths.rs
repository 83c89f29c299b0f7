//! A function run over packets on the slow path alone, or with its fast program in front: what tests
//! of the rule "simple means equal" compare.

use std::collections::{BTreeMap, HashMap};
use twinpath_core::FragmentPlace;
use twinpath_core::HashKey;
use twinpath_core::fragments::{FragmentOutcome, Fragments, MAX_HELD};
use twinpath_core::key::Role;
use twinpath_core::program::Exit;
use twinpath_core::steering::opener;
use twinpath_core::wire::dissect;
use twinpath_core::{
    Direction, DropCounters, DropReason, FlowKey, Frame, Instant, Keyed, Packet, Pools, Side,
    Steering,
};
use twinpath_fastpath::{Interpreter, PacketView};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox};
use twinpath_wire::{Endpoint, Fragment, Layout};

/// What became of one packet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// Packets that went on.
    pub onward: Vec<Vec<u8>>,
    /// Packets that went back.
    pub replies: Vec<Vec<u8>>,
    /// Why packets were dropped.
    pub drops: Vec<(DropReason, u64)>,
    /// The flow's words afterwards.
    pub words: Vec<u32>,
}

/// One function with the flows that it knows.
pub(crate) struct Path<F> {
    /// The function, for its counters.
    pub function: F,
    /// Packets that the fast program handled.
    pub simple: u64,
    interpreter: Option<Interpreter>,
    steering: Steering,
    started: Instant,
    pools: Pools,
    flows: HashMap<FlowKey, Known>,
    /// In front of functions that need ports.
    fragments: Option<Fragments>,
}

#[derive(Default)]
struct Known {
    words: Vec<u32>,
    handle: u32,
    initiator: Side,
    /// Another function has settled who the initiator is.
    settled: bool,
    /// The configuration has changed since its last packet, so the next one is for the slow path.
    is_home: bool,
}

fn steering(function: &impl NetworkFunction) -> Steering {
    let steering = Steering::new(1)
        .with_aliases(&function.aliases())
        .expect("unambiguous");
    match function.kv_port() {
        Some(port) => steering.with_kv_port(port),
        None => steering,
    }
}

impl<F: NetworkFunction> Path<F> {
    /// Everything on the slow path; the run starts at `now`.
    pub fn slow(function: F, now: Instant) -> Self {
        Self::new(function, None, now)
    }

    /// The fast program first, for every packet that it may handle.
    pub fn both(function: F, now: Instant) -> Self {
        let mut interpreter = Interpreter::new(&[function.program()]).expect("a valid program");
        interpreter.start(now);
        Self::new(function, Some(interpreter), now)
    }

    fn new(mut function: F, interpreter: Option<Interpreter>, now: Instant) -> Self {
        function.start(now);
        Self {
            simple: 0,
            interpreter,
            steering: steering(&function),
            started: now,
            function,
            pools: Pools::new(4 + MAX_HELD, 1),
            flows: HashMap::new(),
            fragments: None,
        }
    }

    /// The same with virtual reassembly in front.
    pub fn gathering(self) -> Self {
        Self {
            fragments: Some(Fragments::new(HashKey::new(1))),
            ..self
        }
    }

    /// The function takes the configuration of another, as in a chain that is replaced.
    pub fn reconfigure(&mut self, mut new: F) {
        assert!(self.function.reconfigure(&mut new), "of one kind");
        for known in self.flows.values_mut() {
            known.is_home = true;
            if known.handle != 0 || known.words.iter().any(|&word| word != 0) {
                self.function.adapt(&mut known.words, &mut known.handle);
            }
        }
        self.steering = steering(&self.function);
        if let Some(interpreter) = &mut self.interpreter {
            *interpreter = Interpreter::new(&[self.function.program()]).expect("a valid program");
            interpreter.start(self.started);
        }
    }

    /// What is known of a flow.
    pub fn words(&self, key: &FlowKey) -> &[u32] {
        self.flows.get(key).map_or(&[], |known| &known.words)
    }

    /// As if another function of the chain had seen `initiator` send the first packet of a flow.
    pub fn settle_initiator(&mut self, key: FlowKey, initiator: Endpoint) {
        let initiator = if key.end(Side::Low) == initiator {
            Side::Low
        } else {
            Side::High
        };
        self.flows.insert(
            key,
            Known {
                initiator,
                settled: true,
                ..Known::default()
            },
        );
    }

    /// Handles one packet, which must be valid IP. If fragments have waited for it they share its
    /// fate.
    pub fn process(&mut self, bytes: &[u8], now: Instant) -> Fate {
        let layout = dissect(bytes).expect("a valid packet");
        if layout.fragment != Fragment::Whole && self.fragments.is_some() {
            return self.process_fragment(bytes, &layout, now);
        }
        let keyed = self.steering.key(bytes, &layout).expect("an IP packet");
        self.process_keyed((bytes, FragmentPlace::default()), layout, keyed, now)
    }

    fn process_fragment(&mut self, bytes: &[u8], layout: &Layout, now: Instant) -> Fate {
        let fragments = self.fragments.as_mut().expect("asked for");
        let mut frame = self.pools.take_filled(bytes).expect("room");
        frame.set_timestamp(now);
        let met = fragments.meet(frame, layout);
        let mut given_up = BTreeMap::new();
        for (frame, why) in fragments.given_up() {
            self.pools.give(frame);
            given_up.entry(why.index()).or_insert((why, 0)).1 += 1;
        }
        let mut fate = match met {
            FragmentOutcome::Held => Fate::default(),
            FragmentOutcome::Refused(frame, reason) => {
                self.pools.give(frame);
                Fate {
                    drops: vec![(reason, 1)],
                    ..Fate::default()
                }
            }
            FragmentOutcome::Known(frame) => self.process_placed(frame, now),
        };
        fate.drops.extend(given_up.into_values());
        fate
    }

    /// A fragment whose flow is known, and those that have waited for it.
    fn process_placed(&mut self, first: Frame, now: Instant) -> Fate {
        let (mut next, mut all) = (Some(first), Fate::default());
        while let Some(frame) = next {
            let layout = dissect(frame.bytes()).expect("a valid packet");
            let fragments = self.fragments.as_mut().expect("asked for");
            let keyed = fragments.key(frame.bytes(), &layout, &self.steering);
            let (bytes, place) = (frame.bytes().to_vec(), frame.place());
            self.pools.give(frame);
            next = fragments.next_follower();
            let fate = self.process_keyed((&bytes, place), layout, keyed.expect("known"), now);
            all.onward.extend(fate.onward);
            all.replies.extend(fate.replies);
            all.drops.extend(fate.drops);
            all.words = fate.words;
        }
        all
    }

    fn process_keyed(
        &mut self,
        (bytes, place): (&[u8], FragmentPlace),
        layout: Layout,
        keyed: Keyed,
        now: Instant,
    ) -> Fate {
        let words = self.function.program().words.len();
        let known = self.flows.entry(keyed.key).or_default();
        known.words.resize(words, 0);
        if !known.settled && known.handle == 0 && known.words.iter().all(|&word| word == 0) {
            known.initiator = opener(bytes, &layout, &keyed);
        }
        let fate = self.try_fast_program(bytes, &layout, &keyed, now);
        self.simple += u64::from(fate.is_some());
        let mut fate = fate.unwrap_or_else(|| self.handle((bytes, place), layout, &keyed, now));
        fate.words = self.words(&keyed.key).to_vec();
        fate
    }

    fn direction(&self, keyed: &Keyed) -> Direction {
        let from_initiator = self.flows[&keyed.key].initiator == keyed.side;
        if from_initiator {
            Direction::Original
        } else {
            Direction::Reply
        }
    }

    fn try_fast_program(
        &mut self,
        bytes: &[u8],
        layout: &Layout,
        keyed: &Keyed,
        now: Instant,
    ) -> Option<Fate> {
        let direction = self.direction(keyed);
        let interpreter = self
            .interpreter
            .as_mut()
            .filter(|_| keyed.role == Role::Member)?;
        let known = self.flows.get_mut(&keyed.key)?;
        if std::mem::take(&mut known.is_home) {
            return None;
        }
        let exit = interpreter.run(
            &PacketView {
                bytes,
                layout,
                keyed,
                direction,
                now,
            },
            &known.words,
        );
        if exit == Exit::Escalate {
            return None;
        }
        known.words.copy_from_slice(interpreter.words());
        let mut frame = self.pools.take_filled(bytes).expect("room");
        let mut fate = Fate::default();
        match exit {
            Exit::Drop(reason) => fate.drops.push((reason, 1)),
            _ => assert!(
                interpreter.commit(&mut frame, layout),
                "every change can be made"
            ),
        }
        match exit {
            Exit::Continue => fate.onward.push(frame.bytes().to_vec()),
            Exit::Reply => fate.replies.push(frame.bytes().to_vec()),
            _ => {}
        }
        Some(fate)
    }

    fn handle(
        &mut self,
        (bytes, place): (&[u8], FragmentPlace),
        layout: Layout,
        keyed: &Keyed,
        now: Instant,
    ) -> Fate {
        let direction = self.direction(keyed);
        let known = self.flows.get_mut(&keyed.key).expect("made before");
        if self.function.is_expired(&known.words, now) {
            known.words.fill(0);
            self.function.forget(std::mem::take(&mut known.handle));
        }
        let mut frame = self.pools.take_filled(bytes).expect("room");
        frame.set_timestamp(now);
        frame.set_place(place);
        let packet = Packet {
            frame,
            layout,
            direction,
            role: keyed.role,
            alias_row: keyed.alias_row,
        };
        let (mut onward, mut replies, mut drops) =
            (Vec::new(), Vec::new(), DropCounters::default());
        let mut out = Outbox::new(&mut onward, &mut replies, &mut drops, &mut self.pools);
        let mut flow = Flow {
            key: &keyed.key,
            initiator: &mut known.initiator,
            words: &mut known.words,
            handle: &mut known.handle,
            now,
        };
        self.function.handle(packet, &mut flow, &mut out);
        let copies = |packets: Vec<Packet>| {
            packets
                .iter()
                .map(|packet| packet.bytes().to_vec())
                .collect()
        };
        Fate {
            onward: copies(onward),
            replies: copies(replies),
            drops: drops.nonzero().collect(),
            words: Vec::new(),
        }
    }

    /// A counter of the function.
    pub fn counter(&self, name: &str) -> u64 {
        let mut found = None;
        self.function.counters(&mut |each, value| {
            if each == name {
                found = Some(value);
            }
        });
        found.unwrap_or_else(|| panic!("no counter {name}"))
    }
}
