//! Servers whose cores see every header: links, the bus behind the card, cores, and what they run.

use super::parameters::Setting;
use crate::model::ParameterError;
use std::collections::HashMap;
use std::time::Duration;
use twinpath_core::key::Role;
use twinpath_core::wire::dissect;
use twinpath_core::{Direction, DropCounters, FlowKey, Frame, Instant, Packet, Pools, Side};
use twinpath_engine::devices::{Port, QueueFull, Server, Through};
use twinpath_engine::{Rate, Time};
use twinpath_nf::reframer::{self, Reframer};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox};
use twinpath_traffic::random::{Random, RandomSource};

/// The shortest frame on a wire, without its checksum.
const SHORTEST: u32 = 60;

/// Which server and core.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Whose {
    pub(super) server: usize,
    pub(super) core: usize,
}

struct Core {
    server: Server,
    reframing: Option<Reframing>,
    /// When the last packet was back at the switch: no other overtakes it.
    last_back: Time,
}

struct NfServer {
    there: Port,
    back: Port,
    bus: Server,
    cores: Vec<Core>,
}

/// All of them.
pub(super) struct Functions {
    servers: Vec<NfServer>,
    one_way: Time,
    on_bus: Time,
    packet: Time,
    ring: f64,
    spread_ps: f64,
    random: Random,
}

impl Functions {
    pub(super) fn new(setting: &Setting) -> Result<Self, ParameterError> {
        let (preset, switch) = (&setting.cores, &setting.testbed.switch);
        let parameters = &setting.parameters;
        let is_reframer = parameters.function.starts_with(reframer::NAME);
        let port = || {
            let limit = (switch.port_queue_kb.value() * 1e3) as u64;
            Port::new(Rate::from_gbps(preset.port_gbps.value()), limit)
                .with_wire_bytes(switch.wire_bytes.count() as u32)
        };
        let reframing = || match is_reframer {
            true => Reframing::new(parameters.window_us).map(Some),
            false => Ok(None),
        };
        let core = |_| -> Result<Core, ParameterError> {
            Ok(Core {
                server: Server::default(),
                reframing: reframing()?,
                last_back: Time::ZERO,
            })
        };
        let server = |_| -> Result<NfServer, ParameterError> {
            let cores: Result<_, _> = (0..setting.cores_each()).map(core).collect();
            Ok(NfServer {
                there: port(),
                back: port(),
                bus: Server::default(),
                cores: cores?,
            })
        };
        let servers: Result<_, _> = (0..setting.nf_servers()).map(server).collect();
        Ok(Self {
            servers: servers?,
            one_way: Time::from_us_f64(preset.round_trip_us.value() / 2.0),
            on_bus: Time::from_ns_f64(1e3 / setting.bus.capacity_mpps.value()),
            packet: Time::from_ns_f64(preset.packet_ns.value()),
            ring: preset.ring_packets.value(),
            spread_ps: setting.bus.spread_us.value() * 1e6,
            random: Random::stream(parameters.traffic.seed, 7),
        })
    }

    /// Whose a flow is.
    pub(super) fn whose(&self, hash: u64) -> Whose {
        let server = (((hash >> 32) * self.servers.len() as u64) >> 32) as usize;
        let cores = self.servers[server].cores.len() as u64;
        let core = (((hash & 0xffff_ffff) * cores) >> 32) as usize;
        Whose { server, core }
    }

    /// When a frame that the switch sends now is in front of the server's bus.
    pub(super) fn cross(&mut self, now: Time, whose: Whose, bytes: u32) -> Through {
        let there = &mut self.servers[whose.server].there;
        Ok(there.send(now, bytes.max(SHORTEST))? + self.one_way)
    }

    /// When the core is done with a packet that has come.
    ///
    /// # Errors
    /// Its ring is full.
    pub(super) fn work(&mut self, now: Time, whose: Whose) -> Through {
        let server = &mut self.servers[whose.server];
        let core = &mut server.cores[whose.core];
        let is_full =
            |server: &Server, each: Time| server.wait(now).0 as f64 > self.ring * each.0 as f64;
        if is_full(&server.bus, self.on_bus) || is_full(&core.server, self.packet) {
            return Err(QueueFull);
        }
        let through = server.bus.serve(now, self.on_bus);
        Ok(core.server.serve(through, self.packet))
    }

    /// When a frame that a core sends now is back at the switch.
    pub(super) fn come_back(&mut self, now: Time, whose: Whose, bytes: u32) -> Through {
        let server = &mut self.servers[whose.server];
        let at = server.back.send(now, bytes.max(SHORTEST))? + self.one_way;
        let late = match self.spread_ps > 0.0 {
            true => Time(self.random.exponential(self.spread_ps) as u64),
            false => Time::ZERO,
        };
        let core = &mut server.cores[whose.core];
        core.last_back = core.last_back.max(at + late);
        Ok(core.last_back)
    }

    /// What a core runs, if it holds packets back.
    pub(super) fn reframing(&mut self, whose: Whose) -> Option<&mut Reframing> {
        let core = &mut self.servers[whose.server].cores[whose.core];
        core.reframing.as_mut()
    }
}

/// Production's reframer, and what a worker keeps of its flows.
pub(super) struct Reframing {
    function: Reframer,
    flows: HashMap<u64, (u32, u32)>,
}

impl Reframing {
    fn new(window_us: f64) -> Result<Self, ParameterError> {
        let window = Duration::from_nanos((window_us * 1e3) as u64);
        let text = format!("window = \"{}ns\"", window.as_nanos());
        let config: reframer::Config = toml::from_str(&text)
            .map_err(|error| ParameterError::new("window_us", error.message()))?;
        Ok(Self {
            function: Reframer::new(&config),
            flows: HashMap::new(),
        })
    }

    /// A packet of a flow; answers with when somebody is to look at the flow again.
    pub(super) fn handle(
        &mut self,
        flow: u64,
        frame: Frame,
        now: Instant,
        pools: &mut Pools,
        out: &mut Vec<Frame>,
    ) -> Option<Instant> {
        let Ok(layout) = dissect(frame.bytes()) else {
            out.push(frame);
            return None;
        };
        let packet = Packet {
            frame,
            layout,
            direction: Direction::Original,
            role: Role::Member,
            alias_row: 0,
        };
        self.act(flow, now, pools, out, |function, flow, outbox| {
            function.handle(packet, flow, outbox);
        })
    }

    /// A deadline has come.
    pub(super) fn wake(
        &mut self,
        flow: u64,
        now: Instant,
        pools: &mut Pools,
        out: &mut Vec<Frame>,
    ) {
        if self.flows.contains_key(&flow) {
            self.act(flow, now, pools, out, Reframer::wake);
        }
    }

    fn act(
        &mut self,
        flow: u64,
        now: Instant,
        pools: &mut Pools,
        out: &mut Vec<Frame>,
        act: impl FnOnce(&mut Reframer, &mut Flow<'_>, &mut Outbox<'_>),
    ) -> Option<Instant> {
        let (mut onward, mut replies) = (Vec::new(), Vec::new());
        let mut drops = DropCounters::default();
        let (word, handle) = self.flows.entry(flow).or_default();
        let had_one = *handle != 0;
        act(
            &mut self.function,
            &mut Flow {
                key: &FlowKey::default(),
                initiator: &mut Side::Low,
                words: std::slice::from_mut(word),
                handle,
                now,
            },
            &mut Outbox::new(&mut onward, &mut replies, &mut drops, pools),
        );
        let deadline = self.function.deadline(*handle);
        let has_one = *handle != 0;
        if !has_one {
            self.flows.remove(&flow);
        }
        out.extend(onward.into_iter().map(|packet| packet.frame));
        (has_one && !had_one).then_some(deadline)
    }
}
