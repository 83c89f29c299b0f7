//! What a run is like: traffic, settings, and which faults there are.
//!
//! A scenario is drawn from a seed as in swarm testing: every kind of fault, every scarcity and
//! every kind of packet is switched on or off by itself, so that most runs lack most of them.
//! What one fault would hide from another then shows in some other run.

mod elements;
mod kind;
mod line_faults;
mod parking;
mod resources;
mod rules;
mod split;
mod traffic;
mod worker_faults;

pub use elements::{Element, Elements};
pub use kind::Kind;
pub use line_faults::LineFaults;
pub use parking::ParkingSettings;
pub use resources::{PLENTY, Resources};
pub use rules::RuleSettings;
pub use split::SplitSettings;
pub use traffic::Traffic;
pub use worker_faults::WorkerFaults;

use crate::faults::draw::{self, Draw};
use crate::faults::functions::{BINDING_IDLE, Functions, MOST_HELD};
use std::time::Duration;
use twinpath_coherence::Config;

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
    /// The remote memory in which they wait, if there is some.
    pub split: Option<SplitSettings>,
    /// The link to the slow path, the same for every worker.
    pub to_worker: LineFaults,
    /// The link back.
    pub from_worker: LineFaults,
    /// What goes wrong with the slow path.
    pub workers: WorkerFaults,
}

impl Scenario {
    /// The scenario of a seed. One in four has functions that users run, of which some stand beside
    /// elements with rules, and some are a DPU; one in four has elements with rules beside the simulation's
    /// own function, some of them over IPv6.
    /// In some of these and of the others payloads are parked, or wait in remote memory.
    pub fn drawn(seed: u64) -> Self {
        match seed % 4 {
            _ if seed % 16 == 13 => Self::with_ledger(seed).with_split(seed),
            _ if seed % 8 == 5 => Self::with_ledger(seed).with_parking(seed),
            2 if seed % 64 == 34 => Self::with_rules(seed).with_split(seed),
            2 if seed % 32 == 2 => Self::with_rules(seed).with_parking(seed),
            2 if seed % 32 == 18 => Self::over_v6(seed),
            2 => Self::with_rules(seed),
            3 if seed % 64 == 59 => Self::with_dpu(seed),
            3 if seed % 8 == 3 => Self::with_mixed(seed),
            3 => Self::with_real(seed),
            _ => Self::with_ledger(seed),
        }
    }

    /// A few packets of one flow in a chain that changes and whose worker crashes, on a link without
    /// faults but those of its order.
    pub(super) fn small(seed: u64, elements: Elements, functions: Functions) -> Self {
        const DELAY_NS: u64 = 1000;
        let mut scenario = match elements.have_rules() {
            true => Self::with_elements(seed, elements, functions),
            false => Self::with_ledger(seed),
        };
        scenario.to_worker = LineFaults {
            delay_ns: DELAY_NS,
            ..LineFaults::default()
        };
        scenario.from_worker = scenario.to_worker;
        scenario.resources = Resources::PLENTY;
        // Rules take several packets, and are made as packets' time passes, by the millisecond.
        let (packets, clock_rate, faults) = match elements.have_rules() {
            true => (16, 1000, WorkerFaults::of_changes(100, 30)),
            false => (8, 1, WorkerFaults::of_changes(350, 100)),
        };
        scenario.workers = faults;
        scenario.traffic.shrink(packets, DELAY_NS, clock_rate);
        scenario.protocol = Config {
            slots: 2,
            ways: 1,
            hot_packets: 1,
            time_to_live: Duration::from_nanos(40 * DELAY_NS * clock_rate),
            incomplete_timeout: Duration::from_nanos(6 * DELAY_NS),
            write_back_timeout: Duration::from_nanos(6 * DELAY_NS),
            ..scenario.protocol
        };
        let round_trip = Duration::from_nanos(2 * DELAY_NS);
        scenario.rules = RuleSettings::prompt(&scenario.rules, round_trip, clock_rate as u32);
        scenario
    }

    fn with_ledger(seed: u64) -> Self {
        Self::with_state(seed).with_waiting()
    }

    fn with_state(seed: u64) -> Self {
        let mut draw = Draw::new(seed, draw::SCENARIO);
        let delay_ns = 500 << draw.below(6);
        let traffic = Traffic::drawn(&mut draw, delay_ns);
        let resources = Resources::drawn(&mut draw, traffic.flows);
        Self {
            elements: Elements::State,
            functions: Functions::Ledger,
            rules: RuleSettings::default(),
            parking: None,
            split: None,
            protocol: protocol(&mut draw, delay_ns, traffic.clock_rate),
            resources,
            to_worker: LineFaults::drawn(&mut draw, delay_ns),
            from_worker: LineFaults::drawn(&mut draw, delay_ns),
            workers: WorkerFaults::drawn(&mut draw, delay_ns),
            traffic,
        }
    }

    /// Where packets may wait for the state of their flow it would not show which of them found no room
    /// on the link.
    fn with_waiting(mut self) -> Self {
        if self.protocol.waiting > 0 {
            self.resources.ring_frames = PLENTY;
            self.resources.buffers += self.protocol.waiting;
            // Answers have no order with what goes on.
            self.traffic.mix.retain(|&(kind, _)| kind != Kind::Reply);
        }
        self
    }

    /// There are more packets: connections have to be opened before they can be served.
    fn with_real(seed: u64) -> Self {
        let mut scenario = Self::with_state(seed);
        scenario.functions = Functions::REAL[(seed / 8) as usize % Functions::REAL.len()];
        scenario.traffic.packets *= 2;
        scenario.with_room_for_entries().with_waiting()
    }

    /// A store's entries never end by themselves, so a full one would stay full.
    fn with_room_for_entries(mut self) -> Self {
        if self.have("kv_store") {
            self.resources.flows = 256;
        }
        self
    }

    fn with_rules(seed: u64) -> Self {
        let which = seed / 4 % Elements::WITH_RULES.len() as u64;
        let elements = Elements::WITH_RULES[which as usize];
        let functions = match elements.have_state() {
            true => Functions::Ledger,
            false => Functions::None,
        };
        Self::with_elements(seed, elements, functions)
    }

    /// Chains with translations of IPv6, alone or behind flow state.
    fn over_v6(seed: u64) -> Self {
        let which = seed / 32 % Elements::OVER_V6.len() as u64;
        let elements = Elements::OVER_V6[which as usize];
        let functions = match elements.have_state() {
            true => Functions::Ledger,
            false => Functions::None,
        };
        Self::with_elements(seed, elements, functions)
    }

    fn with_mixed(seed: u64) -> Self {
        let which = seed / 8 % Elements::MIXED.len() as u64;
        Self::mixed_of(seed, Elements::MIXED[which as usize])
    }

    /// A chain of elements with rules beside functions that users run.
    pub(crate) fn mixed_of(seed: u64, elements: Elements) -> Self {
        Self::with_elements(seed, elements, Functions::Mixed).with_room_for_entries()
    }

    /// A DPU: policies, flows and limits are all its own, and it has one worker.
    fn with_dpu(seed: u64) -> Self {
        let mut scenario = Self::with_state(seed);
        (scenario.elements, scenario.functions) = (Elements::Dpu, Functions::Dpu);
        scenario.protocol.waiting = 0;
        scenario.resources.workers = 1;
        scenario.traffic.clock_rate = 1;
        scenario.traffic.packets *= 2;
        // Those that wait for answers leave room for others.
        scenario.resources.buffers += scenario.traffic.packets as usize;
        scenario
    }

    /// There are more packets, further apart: rules have to be made before they can be used. What
    /// makes them has one worker.
    pub(crate) fn with_elements(seed: u64, elements: Elements, functions: Functions) -> Self {
        let mut scenario = Self::with_state(seed);
        let mut draw = Draw::new(seed, draw::RULES);
        (scenario.elements, scenario.functions) = (elements, functions);
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
        scenario.resources.buffers += scenario.most_kept();
        scenario
    }

    /// What a function keeps it has to have whole.
    fn with_headers_only(&mut self) {
        (self.resources.is_lossless, self.resources.ring_frames) = (false, PLENTY);
        let is_kept = |kind| matches!(kind, Kind::Reply | Kind::Hold);
        self.traffic.mix.retain(|&(kind, _)| !is_kept(kind));
    }

    /// Payloads wait in remote memory while their headers are on the slow path.
    fn with_split(mut self, seed: u64) -> Self {
        let mut draw = Draw::new(seed, draw::SPLIT);
        self.with_headers_only();
        let delay_ns = self.to_worker.delay_ns;
        let split = SplitSettings::drawn(&mut draw, delay_ns);
        // Headers and payloads, here and on their way to servers.
        self.resources.buffers += 2 * split.stage.header_slots + split.store_payloads + 512;
        self.split = Some(split);
        self
    }

    /// Payloads wait while their headers are on the slow path.
    fn with_parking(mut self, seed: u64) -> Self {
        let mut draw = Draw::new(seed, draw::PARKING);
        self.with_headers_only();
        let delay_ns = self.to_worker.delay_ns;
        self.parking = Some(ParkingSettings::drawn(&mut draw, &self.traffic, delay_ns));
        self
    }

    /// Buffers of packets that elements may keep on both paths: as in production there are more, or
    /// those that wait would keep the messages that they wait for from being sent.
    fn most_kept(&self) -> usize {
        let with_state = self.elements.with_state().count();
        let others = self.elements.list().len() - with_state;
        let kept = self.rules.table.held + self.rules.slow.waiting + 2;
        others * kept + with_state * (MOST_HELD + self.protocol.waiting)
    }

    /// The same, but the link never tells by its numbers that frames overtook each other, and many
    /// do. Doubles are another matter: without numbers nothing tells them from new frames.
    pub(crate) fn for_hidden_order(mut self) -> Self {
        for line in [&mut self.to_worker, &mut self.from_worker] {
            (line.overtaken_permille, line.duplicate_permille) = (100, 0);
        }
        self
    }

    /// Whether payloads wait somewhere.
    pub(crate) fn keeps_payloads(&self) -> bool {
        self.parking.is_some() || self.split.is_some()
    }

    /// How many memory servers there are.
    pub(crate) fn servers(&self) -> u16 {
        self.split.as_ref().map_or(0, |split| split.servers)
    }

    /// Whether packets may stay inside the fast path.
    pub(crate) fn keeps_packets_inside(&self) -> bool {
        let packets_wait = self.protocol.waiting > 0 && self.elements.have_state();
        let has_dpu = self.elements == Elements::Dpu;
        self.elements.have_rules() || packets_wait || self.keeps_payloads() || has_dpu
    }

    /// Whether it is known what packets look like behind each element: of functions that users run in
    /// chains that were made for that.
    pub(crate) fn knows_bytes(&self) -> bool {
        !Functions::REAL.contains(&self.functions) && !self.have("kv_store")
    }

    /// Whether it is known which packets are dropped on the fast path.
    pub(crate) const fn knows_drops(&self) -> bool {
        matches!(self.functions, Functions::Ledger | Functions::None)
    }

    /// Whether the packets of a flow leave in the order in which they came. Where payloads pass a
    /// queue once, a whole packet of their flow comes behind some that it should not.
    pub(crate) fn keeps_order(&self) -> bool {
        let passes_once = self
            .parking
            .as_ref()
            .is_some_and(ParkingSettings::passes_once);
        // Entries of a store have an order, and packets in front of it another.
        let has_entries = self.elements.have("kv_store");
        !self.have("reassembler") && !passes_once && !has_entries
    }

    /// Whether the chain has this function of production.
    pub(crate) fn have(&self, function: &str) -> bool {
        self.functions.names().contains(&function) || self.elements.have(function)
    }

    /// Whether packets are rewritten in both directions by a function that shares flow state.
    pub(crate) fn is_balanced(&self) -> bool {
        self.have("load_balancer")
    }

    /// Whether fragments are gathered in front of the chain, and have the flow of their datagram.
    pub(crate) fn needs_ports(&self) -> bool {
        const ASK: [&str; 5] = [
            "firewall",
            "load_balancer",
            "rate_limiter",
            "reframer",
            "telemetry",
        ];
        ASK.iter().any(|function| self.have(function))
    }

    /// Whether only packets from one end leave in order: what waits is let go for each end alone.
    pub(crate) fn orders_each_end(&self) -> bool {
        self.keeps_packets_inside() || self.lets_errors_pass()
    }

    /// Whether ICMP errors pass what packets of the flow that they are about wait for.
    pub(crate) fn lets_errors_pass(&self) -> bool {
        self.have("rate_limiter") || self.have("reframer")
    }

    /// Whether it is known at arrival which flow a packet has at each element: nothing rewrites
    /// packets of functions whose state they meet.
    pub(crate) fn knows_flows(&self) -> bool {
        !matches!(self.functions, Functions::Mixed)
    }

    /// Long enough for whatever waits on the slow path to be asked for again, by the link's clock.
    pub(crate) fn time_between_late_packets(&self) -> u64 {
        const TICK_NS: u64 = 1_100_000;
        let rules = &self.rules;
        let window = rules.slow.manager.window.as_nanos() as u64 / 2;
        let by_packets = window.max(TICK_NS) / self.traffic.clock_rate;
        let by_link = rules.table.mark_timeout.as_nanos() as u64;
        by_packets.max(by_link) + 8 * self.to_worker.delay_ns
    }

    /// Where the simulation begins to look for overdue timers: a whole round of the table.
    pub(crate) fn sweeps_per_round(&self, slots: usize) -> usize {
        slots.div_ceil(self.protocol.sweep_slots.max(1))
    }
}

/// How much faster the packet clock has to go for bindings to end now and then, or any rate.
fn rate_of_translation(draw: &mut Draw, gap_ns: u64) -> u64 {
    // Faster, and a few silences in a row last longer than flows' ticks can tell: years.
    const MOST: u64 = 100_000;
    let gaps = draw.pick(&[2, 4, 8, 32]) * (gap_ns / 2).max(1);
    let fast = (BINDING_IDLE.as_nanos() as u64 / gaps).clamp(1, MOST);
    draw.pick(&[1, fast, fast, fast])
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
        rearms: draw.pick(&[0, 1, 2, 4]),
        sweep_slots: draw.pick(&[1, 4, 64, 64]),
        waiting: draw.pick(&[0, 0, 1, 8, 64]),
    }
}
