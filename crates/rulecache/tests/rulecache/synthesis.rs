//! Every rule is right for every packet that it matches, in whatever order they come: so no two
//! rules of one chain in one state conflict.

use crate::common::functions::sides;
use crate::common::functions::*;
use crate::common::traffic::{Spec, packet, specs};
use proptest::prelude::*;
use twinpath_classify::acl::Examined;
use twinpath_core::wire::{Address, Endpoint};
use twinpath_core::{Direction, DropReason, Frame, Instant, Packet, Pools};
use twinpath_rulecache::{
    Answers, Field, Fields, MatchKey, NoRules, Obstacle, Pattern, Recorded, Recording, Rule,
    RuleChain, RuleFunction, Sides, Verdict, synthesise,
};

fn functions(kinds: &[u8]) -> Vec<Box<dyn RuleFunction>> {
    let function = |kind: &u8| -> Box<dyn RuleFunction> {
        match kind % 8 {
            0 => Box::new(Firewall::new(kind / 8)),
            1 => Box::new(ConstantSource(Endpoint::v4([10, 0, 0, 1], 40_000))),
            2 => Box::new(BlockSource(Address::from_v4([10, 0, 0, 1]))),
            3 => Box::new(Translation::new(9)),
            4 => Box::new(Router::new()),
            5 => Box::new(FlagGate),
            6 => Box::new(ConstantSource(Endpoint::v4([10, 0, 0, 3], 40_000))),
            _ => Box::new(IngressFilter),
        }
    };
    kinds.iter().map(function).collect()
}

struct Bench {
    chain: RuleChain,
    sides: Sides,
    pools: Pools,
    replies: Vec<Frame>,
}

/// What the chain made of a packet.
struct Made {
    packet: Packet,
    drop: Option<Option<DropReason>>,
    egress: Option<u16>,
    rule: Result<Rule, Obstacle>,
}

impl Bench {
    fn packet(&mut self, spec: &Spec) -> Packet {
        packet(&mut self.pools, spec, 0, Instant(1))
    }

    fn run(&mut self, spec: &Spec) -> Made {
        let mut packet = self.packet(spec);
        let key = MatchKey::of(
            packet.bytes(),
            &packet.layout,
            spec.ingress,
            Direction::Original,
        );
        let mut recording = Recording::new(key);
        self.sides.tell(&mut packet, &mut recording);
        let mut answers = Answers::new(&mut self.replies, &mut self.pools);
        let verdict = self
            .chain
            .run(&mut packet, &mut recording, 0, &NoRules, &mut answers);
        drop(answers);
        let drop = match verdict {
            Verdict::Forward => Some(None),
            Verdict::Drop(reason) => Some(Some(reason)),
            _ => None,
        };
        let rule = drop.map_or(Err(Obstacle::Answered), |drop| {
            synthesise(&recording, drop, Instant(1))
        });
        let egress = recording.rewrites().egress();
        self.replies.clear();
        Made {
            packet,
            drop,
            egress,
            rule,
        }
    }
}

proptest! {
    #[test]
    fn every_rule_is_right_for_every_packet_that_it_matches(
        kinds in prop::collection::vec(0u8..24, 1..6),
        specs in specs(80),
    ) {
        let mut bench = Bench {
            chain: RuleChain::new(functions(&kinds)),
            sides: sides(),
            pools: Pools::new(8, 1),
            replies: Vec::new(),
        };
        // Bindings come into being; after that, nothing changes any more.
        specs.iter().for_each(|spec| _ = bench.run(spec));
        let rules: Vec<Rule> = specs.iter().filter_map(|spec| bench.run(spec).rule.ok()).collect();
        for spec in &specs {
            let made = bench.run(spec);
            let original = bench.packet(spec);
            let Some(key) = MatchKey::of(original.bytes(), &original.layout, spec.ingress, Direction::Original) else {
                prop_assert_eq!(made.rule, Err(Obstacle::NotPlain));
                continue;
            };
            if let Ok(rule) = made.rule {
                prop_assert!(rule.matches(&key), "a rule is for its own packet");
            }
            for rule in rules.iter().filter(|rule| rule.matches(&key)) {
                let mut packet = bench.packet(spec);
                let rewrites = &rule.action.rewrites;
                if !rewrites.allows(packet.bytes(), &packet.layout) {
                    prop_assert_ne!(made.drop, Some(None));
                    continue;
                }
                prop_assert_eq!(Some(rule.action.drop), made.drop);
                if rule.action.drop.is_none() {
                    rewrites.apply(packet.frame.bytes_mut(), &packet.layout);
                    prop_assert_eq!(packet.bytes(), made.packet.bytes());
                    prop_assert_eq!(rewrites.egress(), made.egress);
                }
            }
        }
    }
}

/// The same function with and without a pattern.
struct Balancer {
    pattern: Option<Pattern>,
    looks_further: bool,
}

impl RuleFunction for Balancer {
    fn name(&self) -> &'static str {
        "balancer"
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, _: Instant, _: &mut Answers<'_>) -> Verdict {
        if let Some(pattern) = &self.pattern {
            packet.declare(pattern);
        }
        packet.depends_on(0, None);
        if self.looks_further {
            packet.examined(&Examined {
                source_port: 1,
                ..Examined::default()
            });
        }
        if packet.destination().port == 443 && packet.protocol() == 6 {
            packet.set_destination(Endpoint::v4([10, 9, 9, 9], 8443));
            return Verdict::Forward;
        }
        Verdict::Drop(DropReason::NoBackend)
    }
}

fn pattern() -> Pattern {
    let fields = [Field::DestinationAddress, Field::DestinationPort];
    let examined = fields
        .iter()
        .fold(Field::Protocol.mask(), |bits, field| bits.or(&field.mask()));
    Pattern {
        examined,
        written: Fields::of(&fields),
    }
}

fn balance(pattern: Option<Pattern>, looks_further: bool) -> Rule {
    let balancer = Box::new(Balancer {
        pattern,
        looks_further,
    });
    let mut bench = Bench {
        // What is written before does not count, with a pattern neither.
        chain: RuleChain::new(vec![balancer, Box::new(FlagGate)]),
        sides: Sides::ONE_WAY,
        pools: Pools::new(8, 1),
        replies: Vec::new(),
    };
    let spec = Spec {
        gap_ns: 0,
        flow: 8,
        flags: 0x10,
        ttl: 64,
        oddity: 0,
        ingress: 1,
        payload: 0,
    };
    bench.run(&spec).rule.expect("cacheable")
}

#[test]
fn a_pattern_agrees_with_the_recording() {
    assert_eq!(balance(Some(pattern()), false), balance(None, false));
    let flags = Field::TcpFlags.place(TCP_SYN_FIN_RST.into());
    let mask = balance(Some(pattern()), false).mask;
    assert_eq!(
        mask.and(&Field::TcpFlags.mask()),
        flags,
        "the next function records again"
    );
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "beyond its pattern")]
fn a_pattern_that_does_not_agree_is_found_out() {
    balance(Some(pattern()), true);
}
