//! A fast path and workers side by side: every message arrives at once.

use super::observed::Outcome;
use std::time::Duration;
use twinpath_core::wire::{PacketBuilder, dissect};
use twinpath_core::{Decision, Direction, Instant, Packet, Pools};
use twinpath_rulecache::{
    CacheMessage, Effect, Held, ManagerConfig, MatchKey, Output, RuleFunction, RuleTable,
    SelectionConfig, Sides, SlowRules, SlowRulesConfig, TableConfig,
};

pub const WINDOW: Duration = Duration::from_millis(10);

pub struct Direct {
    pub table: RuleTable,
    pub slow: SlowRules,
    pub pools: Pools,
    pub now: Instant,
    pub replies: usize,
    /// What the workers decided, since this was last emptied.
    pub departed: Vec<Outcome>,
    /// Messages to the fast path are kept here instead of being delivered.
    pub delayed: Option<Vec<CacheMessage>>,
}

pub fn config() -> SlowRulesConfig {
    SlowRulesConfig {
        selection: SelectionConfig {
            window: WINDOW,
            threshold: 0,
            ..SelectionConfig::for_rules(1024)
        },
        manager: ManagerConfig {
            exact: 100,
            masked: 100,
            masks: 20,
            window: Duration::from_secs(100),
            ..ManagerConfig::default()
        },
        ..SlowRulesConfig::default()
    }
}

impl Direct {
    pub fn new(functions: Vec<Box<dyn RuleFunction>>) -> Self {
        Self::with_sides(super::functions::sides(), functions)
    }

    pub fn with_sides(sides: Sides, functions: Vec<Box<dyn RuleFunction>>) -> Self {
        Self {
            table: RuleTable::new(TableConfig {
                exact: 100,
                masked: 100,
                masks: 20,
                ..TableConfig::default()
            }),
            slow: SlowRules::new(config(), sides, functions),
            pools: Pools::new(64, 1),
            now: Instant(1_000_000_000),
            replies: 0,
            departed: Vec::new(),
            delayed: None,
        }
    }

    pub fn frame(&mut self, bytes: &[u8], port: u16) -> Packet {
        let mut frame = self.pools.take_filled(bytes).expect("a buffer");
        frame.set_timestamp(self.now);
        frame.set_port(port);
        Packet {
            layout: dissect(bytes).expect("well formed"),
            frame,
            direction: Default::default(),
            role: Default::default(),
            alias_row: 0,
        }
    }

    /// Sends a packet; returns whether it met a rule, and what became of it.
    pub fn send(&mut self, builder: &PacketBuilder<'_>) -> (bool, Outcome) {
        let bytes = builder.to_vec().expect("fits");
        self.send_bytes(&bytes, 1)
    }

    pub fn send_bytes(&mut self, bytes: &[u8], port: u16) -> (bool, Outcome) {
        let mut packet = self.frame(bytes, port);
        let layout = packet.layout;
        let key = MatchKey::of(packet.bytes(), &layout, port, Direction::Original);
        let found = key.as_ref().and_then(|key| self.table.find(key));
        let decision = key.map_or(Decision::Punt, |key| {
            let frame = packet.frame.bytes_mut();
            self.table.packet(&key, found, frame, &layout, self.now)
        });
        let outcome = match decision {
            Decision::Forward { egress } => Outcome::Left {
                bytes: packet.bytes().to_vec(),
                egress,
            },
            Decision::Drop(reason) => Outcome::Dropped(reason),
            Decision::Reply => unreachable!("rules do not answer"),
            Decision::Punt => return (false, self.punt(packet)),
            Decision::Hold => {
                let mut effects = Vec::new();
                let key = key.expect("it was held for its key");
                let (frame, layout) = (packet.frame, packet.layout);
                self.table.hold(Held { frame, layout, key }, &mut effects);
                self.effects(effects);
                return (false, Outcome::Dropped(twinpath_core::DropReason::NoBuffer));
            }
        };
        self.pools.give(packet.frame);
        (true, outcome)
    }

    pub fn punt(&mut self, packet: Packet) -> Outcome {
        let mut out = Vec::new();
        self.departed.clear();
        self.slow.packet(packet, &mut self.pools, &mut out);
        self.outputs(out);
        self.tick();
        self.departed.pop().expect("decided at once or soon")
    }

    pub fn outputs(&mut self, out: Vec<Output>) {
        for output in out {
            let outcome = match output {
                Output::Depart(packet, egress) => Outcome::Left {
                    bytes: packet.bytes().to_vec(),
                    egress,
                },
                Output::Drop(_, reason) => Outcome::Dropped(reason),
                Output::Reply(_) => {
                    self.replies += 1;
                    continue;
                }
                Output::Send(message) => {
                    self.tell_table(message);
                    continue;
                }
            };
            self.departed.push(outcome);
        }
    }

    fn tell_table(&mut self, message: CacheMessage) {
        if let Some(delayed) = &mut self.delayed {
            return delayed.push(message);
        }
        let mut effects = Vec::new();
        self.table.message(&message, &mut effects);
        self.effects(effects);
    }

    fn effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(message) => {
                    let mut out = Vec::new();
                    let (now, pools) = (self.now, &mut self.pools);
                    self.slow.message(&message, now, pools, &mut out);
                    self.outputs(out);
                }
                Effect::Release(held, decision) => self.departed.push(match decision {
                    Decision::Forward { egress } => Outcome::Left {
                        bytes: held.frame.bytes().to_vec(),
                        egress,
                    },
                    Decision::Drop(reason) => Outcome::Dropped(reason),
                    _ => continue,
                }),
            }
        }
    }

    pub fn tick(&mut self) {
        for _ in 0..3 {
            let (mut effects, mut out) = (Vec::new(), Vec::new());
            self.table.tick(self.now, self.now, &mut effects);
            self.effects(effects);
            self.slow.tick(self.now, &mut self.pools, &mut out);
            self.outputs(out);
        }
    }

    pub fn deliver_delayed(&mut self) {
        for message in self.delayed.take().unwrap_or_default() {
            self.tell_table(message);
        }
        self.tick();
    }

    pub fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// Sends a packet in two windows, so that its rule is cached; returns what became of it.
    pub fn cache(&mut self, builder: &PacketBuilder<'_>) -> Outcome {
        self.send(builder);
        self.wait(WINDOW);
        let (_, outcome) = self.send(builder);
        assert_eq!(self.table.active_rule(0).is_some(), self.table.active() > 0);
        outcome
    }
}
