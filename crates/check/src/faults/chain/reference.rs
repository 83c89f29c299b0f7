//! What functions with rules alone make of a packet, on a server.

use super::prefixes::Prefixes;
use crate::faults::scenario::{Element, Elements};
use std::sync::Arc;
use twinpath_control::service::{Instance, Service};
use twinpath_core::key::Role;
use twinpath_core::pool::HEADROOM;
use twinpath_core::wire::dissect;
use twinpath_core::{Direction, Instant, Named, Packet, Pools};
use twinpath_dash::pipeline::Arrival;
use twinpath_dash::{Dpu, Verdict};
use twinpath_nf::{dash, napt, nat64, nptv6, router};
use twinpath_node::wiring::{self, BuildError};
use twinpath_rulecache::{
    Answers, NoRules, Recording, RuleChain, RuleFunction, Verdict as RuleVerdict,
};

/// One function.
enum Alone {
    /// One that decides by its configuration.
    Function(RuleChain),
    /// One that decides by its bindings, which only the function under test has.
    Translation,
    /// One that translates prefixes.
    Prefixes(Prefixes),
    /// One that chooses a server by flow state.
    Balancer,
    /// A DPU that judges every packet anew.
    Dpu(Box<Dpu>),
}

impl Alone {
    /// A function with rules, as an instance configures it.
    fn of(named: Named<dyn RuleFunction>, instance: &Instance) -> Self {
        let config = instance.config.of::<nptv6::Config>();
        match (named.function.name(), config.and_then(Prefixes::of)) {
            (napt::NAME | nat64::NAME, _) => Self::Translation,
            (_, Some(prefixes)) => Self::Prefixes(prefixes),
            _ => Self::Function(RuleChain::named(vec![named])),
        }
    }
}

/// The functions of a chain, by element; those that share flow state change no packet here.
pub struct Reference {
    order: Elements,
    elements: Vec<Vec<Alone>>,
    pools: Pools,
}

/// A part of a packet's way.
#[derive(Copy, Clone, Debug)]
pub struct Leg {
    pub direction: Direction,
    /// How many elements it had passed before.
    pub from: usize,
    /// How many it has passed now.
    pub passed: usize,
    /// When it arrived.
    pub at: Instant,
}

impl Reference {
    /// The functions of a service that has these elements.
    ///
    /// # Errors
    /// They cannot be built.
    pub fn new(elements: Elements, service: &Service) -> Result<Self, BuildError> {
        let mut left = service.chain.as_slice();
        let mut functions = Vec::new();
        for element in elements.list() {
            if *element == Element::Dpu {
                functions.push(dpus(service));
                continue;
            }
            let count = match element {
                Element::Rules(names) => names.len(),
                _ => left.iter().take_while(|one| !one.makes_rules()).count(),
            };
            let (own, behind) = left.split_at(count);
            left = behind;
            let made = wiring::rule_functions(service, own)?.into_iter();
            let own = made.zip(own);
            let own = own.map(|(named, instance)| Alone::of(named, instance));
            let balancer = element.has("load_balancer").then_some(Alone::Balancer);
            functions.push(own.chain(balancer).collect());
        }
        Ok(Self {
            order: elements,
            elements: functions,
            pools: Pools::new(1, 0),
        })
    }

    /// The functions of another service take the place of these: a DPU goes on with other tables.
    ///
    /// # Errors
    /// They cannot be built.
    pub fn change(&mut self, service: &Service) -> Result<(), BuildError> {
        let former = std::mem::replace(self, Self::new(self.order, service)?);
        let pairs = self.elements.iter_mut().flatten();
        for (new, old) in pairs.zip(former.elements.into_iter().flatten()) {
            if let (Alone::Dpu(new), Alone::Dpu(mut old)) = (new, old) {
                old.set_tables(Arc::new(new.tables().clone()));
                *new = old;
            }
        }
        Ok(())
    }

    /// How packets of a DPU are told apart by flow and direction; `None` for what belongs to no ENI.
    pub fn arrival(&self, bytes: &[u8]) -> Option<Arrival> {
        self.elements.iter().flatten().find_map(|one| match one {
            Alone::Dpu(dpu) => dpu.arrival(bytes),
            _ => None,
        })
    }

    /// Takes a packet on its way; `translate` does what a translation does, `balance` what a balancer
    /// does. False if a function drops it.
    pub fn pass(
        &mut self,
        bytes: &mut Vec<u8>,
        way: Leg,
        (translate, balance): (impl Fn(&mut Vec<u8>), impl Fn(&mut Vec<u8>)),
    ) -> bool {
        let Self {
            order,
            elements,
            pools,
        } = self;
        let mut run = |one: &mut Alone| match one {
            Alone::Function(function) => run(function, bytes, way, pools),
            Alone::Translation => {
                translate(bytes);
                true
            }
            Alone::Prefixes(prefixes) => {
                prefixes.rewrite(bytes, way.direction);
                true
            }
            Alone::Balancer => {
                balance(bytes);
                true
            }
            Alone::Dpu(dpu) => process(dpu, bytes, way.at),
        };
        let mut walk = order.walk(way.direction).take(way.passed).skip(way.from);
        walk.all(|element| {
            let functions = &mut elements[element];
            let mut places = places(functions, way.direction);
            places.all(|place| run(&mut functions[place]))
        })
    }
}

/// Replies pass functions in reverse, but for a router, which decides last.
fn places(functions: &[Alone], direction: Direction) -> impl Iterator<Item = usize> + use<> {
    let is_router = |one: &Alone| match one {
        Alone::Function(function) => function.functions()[0].function.name() == router::NAME,
        Alone::Translation | Alone::Prefixes(_) | Alone::Balancer | Alone::Dpu(_) => false,
    };
    let (last, others): (Vec<usize>, Vec<usize>) =
        (0..functions.len()).partition(|&place| is_router(&functions[place]));
    let others: Vec<usize> = match direction {
        Direction::Original => others,
        Direction::Reply => others.into_iter().rev().collect(),
    };
    others.into_iter().chain(last)
}

/// The DPUs of a service.
fn dpus(service: &Service) -> Vec<Alone> {
    let configs = service.chain.iter();
    let configs = configs.filter_map(|one| one.config.of::<dash::Config>());
    let dpus = configs.map(|config| Alone::Dpu(Box::new(config.slow(service.seed))));
    dpus.collect()
}

/// What a DPU makes of a packet. False if it drops it.
fn process(dpu: &mut Dpu, bytes: &mut Vec<u8>, now: Instant) -> bool {
    let mut buffer = vec![0; HEADROOM];
    buffer.extend_from_slice(bytes);
    match dpu.process(&mut buffer, HEADROOM, now) {
        Verdict::Forward(frame) => {
            bytes.clear();
            bytes.extend_from_slice(buffer.get(frame).unwrap_or_default());
            true
        }
        Verdict::TooLong(_) | Verdict::Drop(_) => false,
    }
}

fn run(function: &mut RuleChain, bytes: &mut Vec<u8>, way: Leg, pools: &mut Pools) -> bool {
    let (Ok(layout), Some(mut frame)) = (dissect(bytes), pools.take_filled(bytes)) else {
        return true;
    };
    frame.set_timestamp(way.at);
    let mut packet = Packet {
        frame,
        layout,
        direction: way.direction,
        role: Role::Member,
        alias_row: 0,
    };
    let mut replies = Vec::new();
    let mut answers = Answers::new(&mut replies, pools);
    let mut recording = Recording::new(None);
    let verdict = function.run(&mut packet, &mut recording, 0, &NoRules, &mut answers);
    drop(answers);
    bytes.clear();
    bytes.extend_from_slice(packet.bytes());
    pools.give(packet.frame);
    verdict == RuleVerdict::Forward
}
