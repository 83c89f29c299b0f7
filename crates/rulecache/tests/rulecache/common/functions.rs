//! Small functions that between them examine, write and depend in every way there is.

use std::collections::HashMap;
use std::time::Duration;
use twinpath_classify::Prefix;
use twinpath_classify::acl::{Acl, Examined, PortRange, Rule};
use twinpath_classify::lpm::{RouteLimits, RouteTable};
use twinpath_core::wire::{Address, Endpoint, MacAddress};
use twinpath_core::{Direction, DropReason, Instant};
use twinpath_rulecache::{
    Affected, Answers, Field, Hits, Obstacle, Reconfigure, Recorded, RuleFunction, Sides, Verdict,
};

pub const INSIDE: &str = "10.0.0.0/8";
pub const INSIDE_V6: &str = "fd00::/16";
pub const PUBLIC: Address = Address::from_v4([198, 51, 100, 1]);
pub const IDLE: Duration = Duration::from_millis(40);
pub const TCP_SYN_FIN_RST: u8 = 0x07;

pub fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

/// Only matches: the first of some overlapping rules permits or denies.
pub struct Firewall {
    acl: Acl,
    denies: Vec<bool>,
}

impl Firewall {
    pub fn new(variant: u8) -> Self {
        let any = Rule::ANY;
        let mut rules = vec![
            // A near miss of most packets, ahead of the rule that they match.
            (
                Rule {
                    source: prefix("10.0.0.2/32"),
                    destination_ports: PortRange::new(443, 444),
                    ..any
                },
                true,
            ),
            (
                Rule {
                    destination: prefix("192.0.2.128/25"),
                    protocol: Some(17),
                    ..any
                },
                true,
            ),
            (
                Rule {
                    destination_ports: PortRange::new(0, 1023),
                    ..any
                },
                false,
            ),
            (
                Rule {
                    source: prefix(INSIDE),
                    ..any
                },
                false,
            ),
            (
                Rule {
                    source_ports: PortRange::new(40_000, 41_000),
                    ..any
                },
                variant & 1 == 0,
            ),
        ];
        rules.rotate_left(usize::from(variant) % 3);
        let (rules, denies): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
        Self {
            acl: Acl::new(&rules, 64).expect("few"),
            denies,
        }
    }

    pub fn none() -> Self {
        let acl = Acl::new(&[], 64).expect("few");
        Self {
            acl,
            denies: Vec::new(),
        }
    }

    pub fn insert_first(&mut self, rule: Rule, denies: bool) {
        self.acl.insert(0, rule).expect("room");
        self.denies.insert(0, denies);
    }
}

impl RuleFunction for Firewall {
    fn name(&self) -> &'static str {
        "firewall"
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, _: Instant, _: &mut Answers<'_>) -> Verdict {
        let mut examined = Examined::default();
        let rule = self.acl.lookup_examined(&packet.headers(), &mut examined);
        packet.examined(&examined);
        packet.depends_on(0, None);
        match rule.is_some_and(|rule| self.denies[rule]) {
            true => Verdict::Drop(DropReason::Denied),
            false => Verdict::Forward,
        }
    }
}

impl Reconfigure for Firewall {
    type New = Firewall;

    fn affected_by(&self, _: &Firewall) -> Affected {
        Affected::Everything
    }

    fn apply(&mut self, new: &mut Firewall) {
        std::mem::swap(self, new);
    }
}

/// Rewrites the source to a constant, without a look at it.
pub struct ConstantSource(pub Endpoint);

impl RuleFunction for ConstantSource {
    fn name(&self) -> &'static str {
        "constant_source"
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, _: Instant, _: &mut Answers<'_>) -> Verdict {
        packet.depends_on(0, None);
        // An IPv6 packet keeps its source.
        packet.set_source(self.0);
        Verdict::Forward
    }
}

/// Drops what comes from one address, by all its bits.
pub struct BlockSource(pub Address);

impl RuleFunction for BlockSource {
    fn name(&self) -> &'static str {
        "block_source"
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, _: Instant, _: &mut Answers<'_>) -> Verdict {
        packet.depends_on(0, None);
        match packet.bits(Field::SourceAddress, u128::MAX) == self.0.0 {
            true => Verdict::Drop(DropReason::Banned),
            false => Verdict::Forward,
        }
    }
}

#[derive(Copy, Clone)]
struct Binding {
    inside: (Endpoint, u8),
    last: Instant,
}

/// Address translation with a handful of ports, which are entries with idle time-outs. Packets to
/// a port without binding are dropped, and that, too, depends on the port.
pub struct Translation {
    bindings: Vec<Option<Binding>>,
    by_inside: HashMap<(Endpoint, u8), u32>,
}

const FIRST_PORT: u16 = 50_000;

impl Translation {
    pub fn new(ports: usize) -> Self {
        Self {
            bindings: vec![None; ports],
            by_inside: HashMap::new(),
        }
    }

    fn has_expired(&self, slot: u32, now: Instant) -> bool {
        self.bindings[slot as usize].is_some_and(|binding| now.since(binding.last) > IDLE)
    }

    fn unbind(&mut self, slot: u32) {
        if let Some(binding) = self.bindings[slot as usize].take() {
            self.by_inside.remove(&binding.inside);
        }
    }

    /// The first port in order that is unused; whoever must end or begin waits until it is free.
    fn bind(
        &mut self,
        packet: &mut Recorded<'_>,
        inside: (Endpoint, u8),
        now: Instant,
    ) -> Result<u32, Verdict> {
        for slot in 0..self.bindings.len() as u32 {
            let is_bound = self.bindings[slot as usize].is_some();
            if is_bound && !self.has_expired(slot, now) {
                continue;
            }
            if !packet.is_free(slot) {
                return Err(Verdict::Wait(slot));
            }
            self.unbind(slot);
            self.bindings[slot as usize] = Some(Binding { inside, last: now });
            self.by_inside.insert(inside, slot);
            return Ok(slot);
        }
        packet.uncacheable(Obstacle::Undecided);
        Err(Verdict::Drop(DropReason::FlowTableFull))
    }

    fn outbound(&mut self, packet: &mut Recorded<'_>, now: Instant) -> Verdict {
        let inside = (packet.source(), packet.protocol());
        if !inside.0.address.is_v4() {
            return Verdict::Forward;
        }
        let known = self.by_inside.get(&inside).copied();
        let slot = match known {
            Some(slot) if !self.has_expired(slot, now) => slot,
            Some(slot) if !packet.is_free(slot) => return Verdict::Wait(slot),
            known => match self.bind(packet, inside, now) {
                Ok(slot) => {
                    // Only now: a packet that waits has changed nothing.
                    if let Some(old) = known.filter(|&old| old != slot) {
                        self.bindings[old as usize] = None;
                    }
                    slot
                }
                Err(verdict) => return verdict,
            },
        };
        self.refresh(slot, now);
        packet.depends_on(slot, Some(IDLE));
        packet.set_source(Endpoint::new(PUBLIC, FIRST_PORT + slot as u16));
        Verdict::Forward
    }

    fn inbound(&mut self, packet: &mut Recorded<'_>, now: Instant) -> Verdict {
        let (to, protocol) = (packet.destination(), packet.protocol());
        let slot = u32::from(to.port.wrapping_sub(FIRST_PORT));
        if to.address != PUBLIC || slot as usize >= self.bindings.len() {
            return Verdict::Forward;
        }
        if self.has_expired(slot, now) {
            if !packet.is_free(slot) {
                return Verdict::Wait(slot);
            }
            self.unbind(slot);
        }
        let binding = self.bindings[slot as usize];
        match binding.filter(|binding| binding.inside.1 == protocol) {
            Some(binding) => {
                self.refresh(slot, now);
                packet.depends_on(slot, Some(IDLE));
                packet.set_destination(binding.inside.0);
                Verdict::Forward
            }
            None => {
                // While another protocol holds the port, that may end by itself.
                packet.depends_on(slot, binding.map(|_| Duration::from_nanos(1)));
                Verdict::Drop(DropReason::Denied)
            }
        }
    }

    fn refresh(&mut self, slot: u32, now: Instant) {
        if let Some(binding) = &mut self.bindings[slot as usize] {
            binding.last = binding.last.max(now);
        }
    }
}

impl RuleFunction for Translation {
    fn name(&self) -> &'static str {
        "translation"
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, now: Instant, _: &mut Answers<'_>) -> Verdict {
        match packet.direction() {
            Direction::Original => self.outbound(packet, now),
            Direction::Reply => self.inbound(packet, now),
        }
    }

    fn credit(&mut self, slot: u32, hits: &Hits) {
        self.refresh(slot, hits.last);
    }

    fn each_expired(&mut self, now: Instant, each: &mut dyn FnMut(u32)) {
        let slots = 0..self.bindings.len() as u32;
        slots
            .filter(|&slot| self.has_expired(slot, now))
            .for_each(each);
    }

    fn forget(&mut self, slot: u32, _: Instant) {
        self.unbind(slot);
    }
}

/// Routes by destination; counts the time to live down, and answers when it ends.
pub struct Router {
    routes: RouteTable,
    hops: Vec<(MacAddress, u16)>,
}

impl Router {
    pub fn new() -> Self {
        let mut routes = RouteTable::new(RouteLimits { v4: 16, v6: 16 });
        for (hop, network) in [
            "0.0.0.0/0",
            "192.0.2.0/24",
            "192.0.2.64/26",
            "10.0.0.0/8",
            "::/0",
            "2001:db8::/33",
        ]
        .iter()
        .enumerate()
        {
            routes.insert(prefix(network), hop as u32).expect("room");
        }
        let hop = |number: u8| (MacAddress([2, 0, 0, 0, 9, number]), number.into());
        Self {
            routes,
            hops: (0..6).map(hop).collect(),
        }
    }

    pub fn set_hop(&mut self, hop: u32, port: u16) {
        self.hops[hop as usize] = (MacAddress([2, 0, 0, 1, 9, port as u8]), port);
    }
}

impl RuleFunction for Router {
    fn name(&self) -> &'static str {
        "router"
    }

    fn handle(
        &mut self,
        packet: &mut Recorded<'_>,
        _: Instant,
        answers: &mut Answers<'_>,
    ) -> Verdict {
        let decision = self.routes.lookup_examined(packet.headers().destination);
        packet.examined_destination(decision.examined_bits);
        let Some(hop) = decision.next_hop else {
            packet.uncacheable(Obstacle::Undecided);
            return Verdict::Drop(DropReason::NoBackend);
        };
        packet.depends_on(hop, None);
        if !packet.decrement_ttl() {
            answers.reply(&packet.quote().bytes()[..34]);
            return Verdict::Drop(DropReason::InvalidState);
        }
        let (mac, port) = self.hops[hop as usize];
        packet.set_source_mac(MacAddress([2, 0, 0, 0, 8, 8]));
        packet.set_destination_mac(mac);
        packet.set_egress(port);
        Verdict::Forward
    }
}

/// Counts packets and bytes by class: the two lowest bits of the destination port.
#[derive(Default)]
pub struct Monitor {
    pub classes: [(u64, u64); 4],
}

impl RuleFunction for Monitor {
    fn name(&self) -> &'static str {
        "monitor"
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, _: Instant, _: &mut Answers<'_>) -> Verdict {
        let class = packet.bits(Field::DestinationPort, 3) as u32;
        packet.depends_on(class, None);
        let bytes = packet.frame_bytes() as u64;
        let hits = Hits {
            packets: 1,
            bytes,
            last: Instant::ZERO,
            progress: None,
        };
        self.credit(class, &hits);
        Verdict::Forward
    }

    fn credit(&mut self, class: u32, hits: &Hits) {
        let (packets, bytes) = &mut self.classes[class as usize];
        *packets += hits.packets;
        *bytes += hits.bytes;
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        for (class, name) in ["zero", "one", "two", "three"].into_iter().enumerate() {
            each(name, self.classes[class].0);
            each(name, self.classes[class].1);
        }
    }
}

/// Passes connections' data, and decides anew on packets that open or close one.
pub struct FlagGate;

impl RuleFunction for FlagGate {
    fn name(&self) -> &'static str {
        "flag_gate"
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, _: Instant, _: &mut Answers<'_>) -> Verdict {
        packet.depends_on(0, None);
        match packet.tcp_flags(TCP_SYN_FIN_RST) {
            0 => Verdict::Forward,
            0x07 => Verdict::Drop(DropReason::InvalidState),
            _ => {
                packet.uncacheable(Obstacle::Undecided);
                Verdict::Forward
            }
        }
    }
}

/// Treats packets by the port that they arrived on.
pub struct IngressFilter;

impl RuleFunction for IngressFilter {
    fn name(&self) -> &'static str {
        "ingress_filter"
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, _: Instant, _: &mut Answers<'_>) -> Verdict {
        packet.depends_on(0, None);
        match packet.ingress() {
            2 => Verdict::Drop(DropReason::Denied),
            port => {
                packet.set_egress(port + 100);
                Verdict::Forward
            }
        }
    }
}

/// The network inside.
pub fn sides() -> Sides {
    Sides::new(&[INSIDE, INSIDE_V6].map(prefix)).expect("few")
}
