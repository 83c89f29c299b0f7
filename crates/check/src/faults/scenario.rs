//! What a run is like: traffic, settings, and which faults there are.
//!
//! A scenario is drawn from a seed as in swarm testing: every kind of fault, every scarcity and
//! every kind of packet is switched on or off by itself, so that most runs lack most of them.
//! What one fault would hide from another then shows in some other run.

use super::configuration::BINDING_IDLE;
use super::draw::{self, Draw};
use super::elements::{Element, Elements};
use super::ledger::MOST_HELD;
use super::parking::ParkingSettings;
use super::rule_settings::RuleSettings;
use super::traffic::Kind;
use std::time::Duration;
use twinpath_coherence::Config;
use twinpath_coherence::fsm::Backoff;

/// More frames than are ever under way.
pub(super) const PLENTY: usize = 4096;

/// A change of the chain is given up after this long.
const MOST_CHANGE_NS: u64 = 5_000_000_000;

/// Which network functions run.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Functions {
    /// The [ledger](super::ledger): the only one of which the simulation knows every value.
    Ledger,
    /// The firewall, alone.
    Firewall,
    /// The reassembler, alone: it holds segments and lets them out in another order.
    Reassembler,
    /// The load balancer, alone: it rewrites both directions.
    LoadBalancer,
    /// First the reassembler, then the firewall.
    ReassemblerAndFirewall,
    /// First the firewall, then the load balancer.
    FirewallAndLoadBalancer,
    /// The inspector, behind the reassembler that it needs.
    ReassemblerAndInspector,
    /// The key-value store, alone: it answers on both paths.
    KvStore,
    /// None: all functions make rules.
    None,
}

impl Functions {
    /// The functions that users run, alone and in chains.
    pub const REAL: [Self; 7] = [
        Self::Firewall,
        Self::Reassembler,
        Self::LoadBalancer,
        Self::ReassemblerAndFirewall,
        Self::FirewallAndLoadBalancer,
        Self::ReassemblerAndInspector,
        Self::KvStore,
    ];

    /// Whether the packets of a flow leave in the order in which they came.
    pub(super) const fn keeps_order(self) -> bool {
        !matches!(
            self,
            Self::Reassembler | Self::ReassemblerAndFirewall | Self::ReassemblerAndInspector
        )
    }

    pub(super) const fn is_balanced(self) -> bool {
        matches!(self, Self::LoadBalancer | Self::FirewallAndLoadBalancer)
    }

    /// Whether it is known which packets they keep for a while.
    pub(super) const fn tell_what_they_hold(self) -> bool {
        matches!(self, Self::Ledger | Self::None)
    }

    pub(super) const fn is_ledger(self) -> bool {
        matches!(self, Self::Ledger)
    }
}

/// One run: what comes, what there is of everything, and what goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The elements of the chain.
    pub elements: Elements,
    /// The network functions that share flow state.
    pub functions: Functions,
    /// What arrives.
    pub traffic: Traffic,
    /// The settings of the protocol.
    pub protocol: Config,
    /// The settings of rules.
    pub rules: RuleSettings,
    /// What there is of everything.
    pub resources: Resources,
    /// The queue in which payloads wait, if there is one.
    pub parking: Option<ParkingSettings>,
    /// The link to the slow path, the same for every worker.
    pub to_worker: LineFaults,
    /// The link back.
    pub from_worker: LineFaults,
    /// What goes wrong with the slow path.
    pub workers: WorkerFaults,
}

/// What arrives, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Packets in all.
    pub packets: u32,
    /// Flows that they belong to.
    pub flows: u32,
    /// Whether half of the packets belong to the first flow.
    pub has_favourite: bool,
    /// Most time between two arrivals, by the link's clock.
    pub gap_ns: u64,
    /// Most packets that arrive together.
    pub burst: u32,
    /// Arrivals in a thousand that a silence comes before.
    pub silence_permille: u64,
    /// How long a silence is.
    pub silence_ns: u64,
    /// How much faster the packet clock goes than that of the link, as when a capture is replayed.
    pub clock_rate: u64,
    /// Kinds of packets, with weights.
    pub mix: Vec<(Kind, u32)>,
    /// How long the ledger holds a packet at most, by the packet clock.
    pub hold_ns: u64,
    /// After how many ticks of silence the ledger forgets a flow.
    pub expiry_ticks: u32,
}

/// How much there is of what can run out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Workers, each with its own pair of queues.
    pub workers: usize,
    /// Flows that each worker may know.
    pub flows: usize,
    /// Packet buffers of the fast path.
    pub buffers: usize,
    /// Packet buffers of each worker.
    pub worker_buffers: usize,
    /// Frames that may be under way to each worker.
    pub ring_frames: usize,
    /// Whether what has no room there waits instead of being dropped.
    pub is_lossless: bool,
}

/// What one direction of the link does to frames.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LineFaults {
    /// Least delay.
    pub delay_ns: u64,
    /// Most that is added to it.
    pub jitter_ns: u64,
    /// Frames in a thousand that are much delayed, with all behind them.
    pub spike_permille: u64,
    /// By how much at most.
    pub spike_ns: u64,
    /// Frames in a thousand that are lost.
    pub loss_permille: u64,
    /// Frames in a thousand with which a loss of many begins.
    pub outage_permille: u64,
    /// How many at most.
    pub outage_frames: u64,
    /// Frames in a thousand that are delivered twice.
    pub duplicate_permille: u64,
    /// Frames in a thousand that others overtake.
    pub overtaken_permille: u64,
}

/// What goes wrong with the slow path.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerFaults {
    /// Arrivals in a thousand after which a worker crashes and starts again.
    pub crash_permille: u64,
    /// Arrivals in a thousand after which a worker pauses.
    pub pause_permille: u64,
    /// For how long at most.
    pub pause_ns: u64,
    /// Arrivals in a thousand after which the fast path begins to give everything back, for a
    /// change of the chain.
    pub change_permille: u64,
}

impl Scenario {
    /// The scenario of a seed. One in four has functions that users run, one in four has elements
    /// with rules; in some of these and of the others payloads are parked.
    pub fn drawn(seed: u64) -> Self {
        match seed % 4 {
            _ if seed % 8 == 5 => Self::with_ledger(seed).with_parking(seed),
            2 if seed % 32 == 2 => Self::with_rules(seed).with_parking(seed),
            2 => Self::with_rules(seed),
            3 => Self::with_real(seed),
            _ => Self::with_ledger(seed),
        }
    }

    fn with_ledger(seed: u64) -> Self {
        let mut draw = Draw::new(seed, super::draw::SCENARIO);
        let delay_ns = 500 << draw.below(6);
        let traffic = traffic(&mut draw, delay_ns);
        let resources = resources(&mut draw, traffic.flows);
        Self {
            elements: Elements::State,
            functions: Functions::Ledger,
            rules: RuleSettings::default(),
            parking: None,
            protocol: protocol(&mut draw, delay_ns, traffic.clock_rate),
            resources,
            to_worker: line(&mut draw, delay_ns),
            from_worker: line(&mut draw, delay_ns),
            workers: worker_faults(&mut draw, delay_ns),
            traffic,
        }
    }

    /// There are more packets: connections have to be opened before they can be served.
    fn with_real(seed: u64) -> Self {
        let mut scenario = Self::with_ledger(seed);
        scenario.functions = Functions::REAL[(seed / 4) as usize % Functions::REAL.len()];
        scenario.traffic.packets *= 2;
        if scenario.functions == Functions::KvStore {
            // Entries never end by themselves, so a full store would stay full.
            scenario.resources.flows = 256;
        }
        scenario
    }

    /// There are more packets, further apart: rules have to be made before they can be used. What
    /// makes them has one worker.
    fn with_rules(seed: u64) -> Self {
        let mut scenario = Self::with_ledger(seed);
        let mut draw = Draw::new(seed, draw::RULES);
        let which = seed / 4 % Elements::WITH_RULES.len() as u64;
        scenario.elements = Elements::WITH_RULES[which as usize];
        if !scenario.elements.have_state() {
            scenario.functions = Functions::None;
        }
        scenario.resources.workers = 1;
        scenario.resources.is_lossless = false;
        if scenario.elements.have_state() {
            scenario.resources.ring_frames = PLENTY;
        }
        let (traffic, delay_ns) = (&mut scenario.traffic, scenario.to_worker.delay_ns);
        traffic.packets *= 2;
        traffic.gap_ns = (8 * delay_ns) >> draw.below(7);
        traffic.clock_rate = match scenario.elements.translate() {
            true => rate_of_translation(&mut draw, traffic.gap_ns),
            false => draw.pick(&[1, 100, 1000]),
        };
        traffic.mix.retain(|&(kind, _)| kind != Kind::Reply);
        scenario.rules = RuleSettings::drawn(&mut draw, traffic, delay_ns);
        scenario.resources.buffers += scenario.most_kept_for_rules();
        scenario
    }

    /// Payloads wait while their headers are on the slow path.
    fn with_parking(mut self, seed: u64) -> Self {
        let mut draw = Draw::new(seed, draw::PARKING);
        self.workers.change_permille = 0;
        (self.resources.is_lossless, self.resources.ring_frames) = (false, PLENTY);
        // What a function keeps it has to have whole.
        let is_kept = |kind| matches!(kind, Kind::Reply | Kind::Hold);
        self.traffic.mix.retain(|&(kind, _)| !is_kept(kind));
        let delay_ns = self.to_worker.delay_ns;
        self.parking = Some(ParkingSettings::drawn(&mut draw, &self.traffic, delay_ns));
        self
    }

    /// Buffers of packets that elements with rules may keep on both paths: as in production there
    /// are more, or those that wait would keep the messages that they wait for from being sent.
    fn most_kept_for_rules(&self) -> usize {
        let is_rules = |element: &&Element| matches!(element, Element::Rules(_));
        let elements = self.elements.list().iter().filter(is_rules).count();
        let kept = self.rules.table.held + self.rules.slow.waiting + 2;
        elements * kept + MOST_HELD
    }

    /// The same, but the link never tells by its numbers that frames overtook each other, and many
    /// do. Doubles are another matter: without numbers nothing tells them from new frames.
    pub(super) fn for_hidden_order(mut self) -> Self {
        for line in [&mut self.to_worker, &mut self.from_worker] {
            (line.overtaken_permille, line.duplicate_permille) = (100, 0);
        }
        self
    }

    /// Whether the packets of a flow leave in the order in which they came. Where payloads pass a
    /// queue once, a whole packet of their flow comes behind some that it should not.
    pub(super) fn keeps_order(&self) -> bool {
        let passes_once = self
            .parking
            .as_ref()
            .is_some_and(ParkingSettings::passes_once);
        self.functions.keeps_order() && !passes_once
    }

    /// Where the simulation begins to look for overdue timers: a whole round of the table.
    pub(super) fn sweeps_per_round(&self, slots: usize) -> usize {
        slots.div_ceil(self.protocol.sweep_slots.max(1))
    }
}

/// How much faster the packet clock has to go for bindings to end now and then, or any rate.
fn rate_of_translation(draw: &mut Draw, gap_ns: u64) -> u64 {
    const MOST: u64 = 1_000_000;
    let gaps = draw.pick(&[2, 4, 8, 32]) * (gap_ns / 2).max(1);
    let fast = (BINDING_IDLE.as_nanos() as u64 / gaps).clamp(1, MOST);
    draw.pick(&[1, fast, fast, fast])
}

fn traffic(draw: &mut Draw, delay_ns: u64) -> Traffic {
    let silence_ns = draw.pick(&[20 * delay_ns, 1_000_000, 300_000_000, 61_000_000_000]);
    Traffic {
        packets: draw.between(60, 300) as u32,
        flows: draw.pick(&[1, 2, 3, 5, 8, 16, 24]),
        has_favourite: draw.flip(),
        gap_ns: (16 * delay_ns) >> draw.below(8),
        burst: draw.pick(&[1, 1, 2, 8]),
        silence_permille: draw.sometimes(3, &[5, 20, 60]),
        silence_ns,
        clock_rate: draw.pick(&[1, 1, 1, 1000]),
        mix: mix(draw),
        hold_ns: delay_ns << draw.below(5),
        expiry_ticks: draw.between(3, 8) as u32,
    }
}

fn mix(draw: &mut Draw) -> Vec<(Kind, u32)> {
    let mut mix = vec![(Kind::Simple, 100)];
    for kind in Kind::LEDGER {
        if kind != Kind::Simple && draw.flip() {
            mix.push((kind, draw.pick(&[1, 5, 20])));
        }
    }
    mix
}

fn protocol(draw: &mut Draw, delay_ns: u64, clock_rate: u64) -> Config {
    let mut after = |clock_rate| {
        let factor = draw.pick(&[1, 3, 6, 10, 20, 100]);
        Duration::from_nanos(delay_ns * factor * clock_rate / 2)
    };
    let (incomplete_timeout, write_back_timeout) = (after(1), after(1));
    let time_to_live = after(clock_rate) * draw.pick(&[4, 40]) as u32;
    Config {
        slots: draw.pick(&[1, 2, 8, 16, 64, 64]),
        ways: draw.pick(&[1, 1, 2, 4, 8]),
        hot_packets: draw.pick(&[1, 1, 2, 3]),
        sketch_window: Duration::from_nanos(delay_ns * draw.pick(&[1, 100, 10_000])),
        sketch_width: draw.pick(&[16, 64]),
        time_to_live,
        incomplete_timeout,
        write_back_timeout,
        backoff: Backoff {
            rearms: draw.pick(&[0, 1, 2, 4]),
        },
        sweep_slots: draw.pick(&[1, 4, 64, 64]),
    }
}

fn resources(draw: &mut Draw, flows: u32) -> Resources {
    let flows = u64::from(flows);
    let few_flows = draw.between(1, flows) as usize;
    let flows = if draw.one_in(6) { few_flows } else { 256 };
    let ring_frames = scarce(draw, 4, 10, PLENTY);
    Resources {
        workers: draw.between(1, 3) as usize,
        flows,
        buffers: scarce(draw, 2, 16, 512),
        worker_buffers: scarce(draw, 1, 4, 64),
        ring_frames,
        is_lossless: draw.one_in(4),
    }
}

fn scarce(draw: &mut Draw, least: u64, most: u64, plenty: usize) -> usize {
    let few = draw.between(least, most) as usize;
    if draw.one_in(6) { few } else { plenty }
}

fn line(draw: &mut Draw, delay_ns: u64) -> LineFaults {
    LineFaults {
        delay_ns,
        jitter_ns: draw.sometimes(2, &[delay_ns / 4, delay_ns, 4 * delay_ns]),
        spike_permille: draw.sometimes(3, &[2, 10, 40]),
        spike_ns: delay_ns * draw.between(2, 60),
        loss_permille: draw.sometimes(2, &[2, 20, 100, 300]),
        outage_permille: draw.sometimes(4, &[2, 10]),
        outage_frames: draw.between(2, 40),
        duplicate_permille: draw.sometimes(4, &[5, 50, 200]),
        overtaken_permille: draw.sometimes(4, &[5, 50, 200]),
    }
}

fn worker_faults(draw: &mut Draw, delay_ns: u64) -> WorkerFaults {
    WorkerFaults {
        crash_permille: draw.sometimes(2, &[3, 10, 40]),
        pause_permille: draw.sometimes(3, &[3, 10, 40]),
        pause_ns: match draw.one_in(8) {
            true => 2 * MOST_CHANGE_NS,
            false => delay_ns * draw.between(2, 80),
        },
        change_permille: draw.sometimes(3, &[5, 20, 60]),
    }
}
