//! The generator: decides whose packet comes next, and when.

use twinpath_wire::kv::KvOp;

use crate::agenda::Agenda;
use crate::arrivals::ArrivalClock;
use crate::churn::Churn;
use crate::config::TrafficConfig;
use crate::error::TrafficError;
use crate::flow::{Datagram, Flow, FlowPlan, Step};
use crate::frames::FrameWriter;
use crate::kv::KvSource;
use crate::limits::Limits;
use crate::oddities::{Lateness, Oddity, Packet, SecondFragment};
use crate::packet::{Direction, Generated, PacketKind};
use crate::popularity::Chooser;
use crate::random::{Random, streams};

/// Makes one packet after the other, the same ones for the same configuration
/// and seed. Memory grows with the flows that live at the same time, not with
/// the length of the run; after [`Generator::new`] nothing is allocated.
#[derive(Debug, Clone)]
pub struct Generator {
    plan: FlowPlan,
    frames: FrameWriter,
    clock: ArrivalClock,
    limits: Limits,
    flows: Vec<Flow>,
    chooser: Chooser,
    selection: Random,
    agenda: Agenda,
    churn: Option<Churn>,
    lateness: Option<Lateness>,
    fragments: Oddity,
    errors: Oddity,
    second_fragment: SecondFragment,
    kv: Option<KvSource>,
    stats: GeneratorCounters,
}

/// What a generator has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GeneratorCounters {
    /// Packets made.
    pub packets: u64,
    /// Their bytes, without the checksums (FCS).
    pub bytes: u64,
    /// Flows made, those of the start included, whether they have sent
    /// anything yet or not. The next flow has this number.
    pub flows: u64,
    /// Flows that ended, by their size or because a new one was due.
    pub flows_ended: u64,
    /// TCP segments that came late, overtaken by others.
    pub late_segments: u64,
    /// Times that a new flow was due but had to wait for another packet,
    /// because the oldest flow was ending already or too many were.
    pub churn_deferred: u64,
    /// Calls refused because the caller's buffer was too short.
    pub refused_buffers: u64,
}

impl Generator {
    /// A generator at the start of its run.
    ///
    /// # Errors
    /// What [`TrafficConfig::validate`] finds, and distribution files that
    /// cannot be read or understood.
    pub fn new(config: &TrafficConfig, seed: u64) -> Result<Self, TrafficError> {
        config.validate()?;
        let plan = FlowPlan::new(config, seed)?;
        let frames = FrameWriter::new(config, &plan, seed);
        let kv_only = config.kv.as_ref().is_some_and(|kv| kv.share >= 1.0);
        let count = if kv_only { 0 } else { config.flows };
        let flows: Vec<Flow> = (0..count)
            .map(|n| Flow::new(n, &plan, &frames.hosts))
            .collect();
        let clock_random = Random::stream(seed, streams::ARRIVALS);
        let churns = count > 0 && config.churn_per_minute > 0.0;
        Ok(Self {
            clock: ArrivalClock::new(&config.arrivals, config.start_ns, clock_random),
            limits: Limits::new(config),
            stats: GeneratorCounters {
                flows: count,
                ..GeneratorCounters::default()
            },
            chooser: Chooser::new(&config.popularity, config.flows),
            selection: Random::stream(seed, streams::SELECTION),
            agenda: Agenda::new(config.tcp.out_of_order_delay_packets as usize),
            churn: churns.then(|| Churn::new(config, seed)),
            lateness: Lateness::new(config, seed),
            fragments: Oddity::new(config.fragment_share, seed, streams::FRAGMENTS),
            errors: Oddity::new(error_share(config), seed, streams::ERRORS),
            second_fragment: SecondFragment::new(plan.frame_bytes_max()),
            kv: config
                .kv
                .as_ref()
                .map(|kv| KvSource::new(kv, &config.hosts, seed)),
            plan,
            frames,
            flows,
        })
    }

    /// The shortest buffer that [`Generator::next_into`] accepts: the length of
    /// the longest frame in bytes.
    pub fn frame_bytes_max(&self) -> usize {
        self.plan.frame_bytes_max()
    }

    /// What has been done so far.
    pub fn counters(&self) -> GeneratorCounters {
        self.stats
    }

    /// Writes the next packet to the start of `buffer`. `None` at the end of
    /// the run; also, counted and without any effect on what comes, if the
    /// buffer is shorter than [`Generator::frame_bytes_max`].
    pub fn next_into(&mut self, buffer: &mut [u8]) -> Option<Generated> {
        if buffer.len() < self.frame_bytes_max() {
            self.stats.refused_buffers += 1;
            return None;
        }
        if self.limits.packets_left == 0 {
            return None;
        }
        self.limits.advance(self.clock.tick(), self.owed());
        let Packet {
            len,
            flow,
            kind,
            direction,
        } = self.next_packet(buffer)?;
        self.limits.packets_left -= 1;
        self.stats.packets += 1;
        self.stats.bytes += len as u64;
        Some(Generated {
            timestamp_ns: self.limits.now_ns,
            len,
            flow,
            kind,
            direction,
        })
    }

    /// Packets that must still come, for nothing to be incomplete.
    fn owed(&self) -> u64 {
        let held = self.lateness.as_ref().map_or(0, |late| late.held);
        held + u64::from(self.second_fragment.packet.is_some())
    }

    /// Whether this packet may oblige us to send another one later.
    fn may_owe(&self) -> bool {
        self.limits.packets_left >= self.owed() + 2
    }

    /// In order of urgency: the second half of a datagram; at the end of the
    /// run what is owed; keys to be stored first; flows that cannot wait; and
    /// then requests and flows as their shares and popularity have it.
    fn next_packet(&mut self, buffer: &mut [u8]) -> Option<Packet> {
        if let Some(packet) = self.second_fragment.take(buffer) {
            return Some(packet);
        }
        if self.limits.over {
            return self.late_packet(buffer);
        }
        self.begin_due_flows();
        self.urge_due_segments();
        if self.kv.as_ref().is_some_and(KvSource::is_preloading) {
            return self.request(buffer);
        }
        if let Some(slot) = self.agenda.next_urgent() {
            return self.urgent_packet(slot as usize, buffer);
        }
        if self.kv.as_mut().is_some_and(KvSource::is_next) {
            return self.request(buffer);
        }
        let slot = self.chooser.choose(&mut self.selection) as usize;
        if self.errors.happens() && self.flows.get(slot)?.quotable().is_some() {
            return self.error_packet(slot, buffer);
        }
        self.flow_packet(slot, buffer)
    }

    fn request(&mut self, buffer: &mut [u8]) -> Option<Packet> {
        let request = self.kv.as_mut()?.next();
        let len = self.frames.request(&request, buffer);
        let kind = if request.op == KvOp::Get {
            PacketKind::KvGet
        } else {
            PacketKind::KvPut
        };
        Some(Packet {
            len,
            flow: request.key,
            kind,
            direction: Direction::ToServer,
        })
    }

    fn error_packet(&mut self, slot: usize, buffer: &mut [u8]) -> Option<Packet> {
        let flow = self.flows.get(slot)?;
        let len = self
            .frames
            .icmp_error(&self.plan, flow, &flow.quotable()?, buffer);
        let (kind, direction) = (PacketKind::IcmpError, Direction::ToClient);
        Some(Packet {
            len,
            flow: flow.number,
            kind,
            direction,
        })
    }

    fn urgent_packet(&mut self, slot: usize, buffer: &mut [u8]) -> Option<Packet> {
        self.flows.get_mut(slot)?.urgent = false;
        let packet = self.flow_packet(slot, buffer);
        if self.flows.get(slot)?.is_holding() {
            self.urge(slot);
        }
        packet
    }

    fn flow_packet(&mut self, slot: usize, buffer: &mut [u8]) -> Option<Packet> {
        let may_be_late = self.may_owe() && self.agenda.can_hold();
        let flow = self.flows.get_mut(slot)?;
        let was_holding = flow.is_holding();
        let lateness = self.lateness.as_mut().filter(|_| may_be_late);
        let step = flow.next(&self.plan, lateness.map(|late| &mut late.random));
        let is_holding = flow.is_holding();
        self.account_lateness(slot, was_holding, is_holding);
        let packet = self.write(slot, &step, buffer);
        self.settle(slot);
        packet
    }

    fn account_lateness(&mut self, slot: usize, was_holding: bool, is_holding: bool) {
        let Some(lateness) = &mut self.lateness else {
            return;
        };
        if is_holding && !was_holding {
            lateness.held += 1;
            self.agenda
                .hold(slot as u32, self.stats.packets + lateness.delay_packets);
        } else if was_holding && !is_holding {
            lateness.held -= 1;
            self.stats.late_segments += 1;
        }
    }

    fn write(&mut self, slot: usize, step: &Step, buffer: &mut [u8]) -> Option<Packet> {
        let may_owe = self.may_owe();
        let flow = self.flows.get(slot)?;
        let (kind, direction) = match step {
            Step::Tcp(segment) => (segment.kind, segment.direction),
            Step::Udp(datagram) if may_owe && self.fragments.happens() => {
                return self.fragmented(slot, datagram, buffer);
            }
            Step::Udp(datagram) => (PacketKind::Udp, datagram.direction),
        };
        let len = self.frames.step(&self.plan, flow, step, buffer);
        Some(Packet {
            len,
            flow: flow.number,
            kind,
            direction,
        })
    }

    fn fragmented(
        &mut self,
        slot: usize,
        datagram: &Datagram,
        buffer: &mut [u8],
    ) -> Option<Packet> {
        let flow = self.flows.get(slot)?;
        let second = &mut self.second_fragment;
        let (kind, direction) = (PacketKind::UdpFragment, datagram.direction);
        let lengths = self
            .frames
            .fragments(&self.plan, flow, datagram, buffer, &mut second.bytes);
        let Some((len, second_len)) = lengths else {
            let len = self
                .frames
                .step(&self.plan, flow, &Step::Udp(*datagram), buffer);
            return Some(Packet {
                len,
                flow: flow.number,
                kind: PacketKind::Udp,
                direction,
            });
        };
        second.packet = Some(Packet {
            len: second_len,
            flow: flow.number,
            kind,
            direction,
        });
        Some(Packet {
            len,
            flow: flow.number,
            kind,
            direction,
        })
    }

    /// At the end of the run: a segment that is still being overtaken.
    fn late_packet(&mut self, buffer: &mut [u8]) -> Option<Packet> {
        while let Some(slot) = self
            .agenda
            .next_urgent()
            .or_else(|| self.agenda.next_held())
        {
            let slot = slot as usize;
            if let Some(segment) = self.flows.get_mut(slot).and_then(Flow::release) {
                self.account_lateness(slot, true, false);
                return self.write(slot, &Step::Tcp(segment), buffer);
            }
        }
        None
    }

    /// Replaces a flow that is over by a new one, and sees to it that flows
    /// that cannot wait get their turn.
    fn settle(&mut self, slot: usize) {
        let Some(flow) = self.flows.get_mut(slot) else {
            return;
        };
        if flow.is_over(&self.plan) {
            flow.succeed(self.stats.flows, &self.plan, &self.frames.hosts);
            self.stats.flows += 1;
            self.stats.flows_ended += 1;
        }
        if flow.churned || flow.prompt {
            self.urge(slot);
        }
    }

    fn urge(&mut self, slot: usize) {
        if let Some(flow) = self.flows.get_mut(slot) {
            flow.urgent = flow.urgent || self.agenda.urge(slot as u32);
        }
    }

    /// Lets the oldest flows end whose successors are due.
    fn begin_due_flows(&mut self) {
        let Some(mut churn) = self.churn.take() else {
            return;
        };
        // A victim that is ending already is no victim: the next one is tried, a few times.
        for _ in 0..Churn::TRIES {
            if !churn.is_due(self.limits.now_ns) {
                break;
            }
            let slot = churn.next_victim();
            let begins = self.agenda.has_room() && self.begin_flow(slot);
            churn.count += u64::from(begins);
            self.stats.churn_deferred += u64::from(!begins);
        }
        self.churn = Some(churn);
    }

    fn begin_flow(&mut self, slot: usize) -> bool {
        let victim = self
            .flows
            .get_mut(slot)
            .filter(|flow| !flow.is_closing() && !flow.prompt);
        let Some(victim) = victim else { return false };
        victim.churn();
        self.settle(slot);
        true
    }

    fn urge_due_segments(&mut self) {
        if self.lateness.is_none() {
            return;
        }
        // As many as can have become due since the last packet, and a few more to catch up.
        for _ in 0..4 {
            if !self.agenda.has_room() {
                return;
            }
            let Some(slot) = self.agenda.next_due(self.stats.packets) else {
                return;
            };
            if self.flows.get(slot as usize).is_some_and(Flow::is_holding) {
                self.urge(slot as usize);
            }
        }
    }
}

fn error_share(config: &TrafficConfig) -> f64 {
    if config.server_packets {
        config.icmp_error_share
    } else {
        0.0
    }
}
