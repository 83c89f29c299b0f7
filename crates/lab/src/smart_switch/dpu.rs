//! One DPU: the production pipeline, and how long it takes.

use super::configuration;
use super::frames::{Conversation, HEADROOM};
use super::parameters::{Pipeline, Setting};
use crate::model::ParameterError;
use std::sync::Arc;
use twinpath_core::Instant;
use twinpath_core::wire::tunnel::Tunnel;
use twinpath_core::wire::{MacAddress, dissect};
use twinpath_dash::tables::Tables;
use twinpath_dash::{Answer, Dpu, DpuStep, Question, Settings, Verdict};
use twinpath_engine::devices::{Port, QueueFull, Server, Through};
use twinpath_engine::{Rate, Time};

/// A DPU behind its port.
pub(super) struct Device {
    dpu: Dpu,
    to_it: Port,
    from_it: Port,
    /// One after the other through the pipeline, or on one of several cores.
    pipeline: Vec<Server>,
    cores: Vec<Server>,
    packet: Time,
    connection: Time,
    latency: Time,
    ring: u64,
    is_software: bool,
    pub(super) memory: Memory,
}

/// What a DPU's memory holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    /// Compiled tables, and what they were compiled from.
    pub(super) policy_bytes: f64,
    /// Both entries of a flow, with the room that a table needs.
    pub(super) flow_bytes: f64,
}

impl Memory {
    /// The most of each that two DPUs need: all DPUs of a box are alike.
    pub(super) fn or_more(self, other: Self) -> Self {
        Self {
            policy_bytes: self.policy_bytes.max(other.policy_bytes),
            flow_bytes: self.flow_bytes.max(other.flow_bytes),
        }
    }
}

/// What becomes of a packet at a DPU.
pub(super) enum Passed {
    /// It is through at this time, with so many bytes.
    Left(Time, u32),
    /// A core has what policies say about it at this time.
    Asks(Time, Box<Question>),
    /// It is lost, or dropped.
    Lost,
}

impl Device {
    /// The MAC address by which a frame's ENI is found: the VNI tells which of the inner ones.
    pub(super) fn eni_mac(&self, frame: &[u8]) -> Option<MacAddress> {
        let outer = dissect(frame).ok()?;
        let tunnel = Tunnel::read(frame, &outer, self.dpu.tables().switch().port).ok()?;
        let inside = frame.get(tunnel.inner())?;
        let (_, mac) = self.dpu.tables().appliance().names_eni(inside, tunnel.key);
        Some(mac)
    }

    /// A DPU with its configuration, and flows that it knows.
    pub(super) fn new(setting: &Setting, number: u16) -> Result<Self, ParameterError> {
        let preset = &setting.dpu;
        let settings = Settings {
            flows: known_flows(setting, number) + setting.room_for_connections(),
            mtu: 9200,
            ..Settings::default()
        };
        let room = settings.flows;
        let tables = Arc::new(Tables::new(setting.parameters.seed));
        let mut dpu = Dpu::with_policies_elsewhere(settings, tables, setting.parameters.seed);
        let (applied, snapshot) = configuration::read(&configuration::of_dpu(setting, number))?;
        dpu.update(&snapshot.configuration, &applied.changed);
        let used = dpu.tables().memory_use();
        let tables = used.bytes();
        let memory = Memory {
            policy_bytes: (tables + snapshot.configuration.costs().bytes()) as f64,
            flow_bytes: dpu.flow_memory_bytes() as f64 / room as f64,
        };
        let is_software = setting.parameters.pipeline == Pipeline::Software;
        let cores = vec![Server::default(); preset.cores.count()];
        let port = || {
            let limit = (preset.port_queue_kb.value() * 1e3) as u64;
            let wire_bytes = setting.switch.wire_bytes.count() as u32;
            Port::new(Rate::from_gbps(preset.port_gbps.value()), limit).with_wire_bytes(wire_bytes)
        };
        let mut device = Self {
            dpu,
            to_it: port(),
            from_it: port(),
            pipeline: if is_software {
                Vec::new()
            } else {
                vec![Server::default()]
            },
            cores,
            packet: Time::from_ns_f64(setting.packet_ns()),
            connection: Time::from_ns_f64(setting.connection_ns()),
            latency: Time::from_ns_f64(preset.latency_ns.value()),
            ring: preset.ring_packets.count() as u64,
            is_software,
            memory,
        };
        device.learn(setting, number)?;
        Ok(device)
    }

    /// Each flow's first packet comes before anything counts.
    fn learn(&mut self, setting: &Setting, number: u16) -> Result<(), ParameterError> {
        let peers = setting.mappings_of_eni();
        for eni in setting.enis_of(number) {
            for flow in 0..setting.flows_of_eni() {
                let conversation = Conversation::new(eni, flow, peers);
                let mut buffer = conversation.datagram(setting.outer_bytes());
                let step = self.dpu.begin(&mut buffer, HEADROOM, Instant(0));
                let bytes = match step {
                    DpuStep::Ask(question) => self.answer(&mut buffer, &question, Instant(0)),
                    step => forwarded_bytes(&step),
                };
                if bytes.is_none() {
                    let message = format!("flow {flow} of ENI {eni} is not let through");
                    return Err(ParameterError::new("flows", message));
                }
            }
        }
        Ok(())
    }

    /// Policies answer a packet's question. Bytes of what leaves then.
    fn answer(&mut self, buffer: &mut [u8], question: &Question, now: Instant) -> Option<u32> {
        let (question, said) = (*question, self.dpu.answer(&question.arrival));
        self.dpu.no_longer_asked(&question.key);
        let answer = Answer { question, said };
        let step = self.dpu.resume(buffer, HEADROOM, now, Some(&answer));
        forwarded_bytes(&step)
    }

    /// When a packet is there that the switch sends now.
    pub(super) fn receive(&mut self, now: Time, bytes: u32) -> Through {
        self.to_it.send(now, bytes)
    }

    /// A packet is there.
    pub(super) fn take(&mut self, buffer: &mut [u8], now: Time) -> Passed {
        let step = self.dpu.begin(buffer, HEADROOM, Instant(now.ns()));
        match (forwarded_bytes(&step), step) {
            (Some(bytes), _) => self.leave(now, bytes, self.packet),
            (None, DpuStep::Ask(question)) => self.ask(now, question),
            _ => Passed::Lost,
        }
    }

    fn ask(&mut self, now: Time, question: Question) -> Passed {
        match serve(&mut self.cores, now, self.connection, self.ring) {
            Ok(done) => Passed::Asks(done, Box::new(question)),
            Err(QueueFull) => {
                self.dpu.no_longer_asked(&question.key);
                Passed::Lost
            }
        }
    }

    /// A core is done with what a packet has asked: it passes the pipeline once more. In software it has
    /// been where it was.
    pub(super) fn judged(&mut self, buffer: &mut [u8], question: &Question, now: Time) -> Passed {
        let bytes = self.answer(buffer, question, Instant(now.ns()));
        let duration = if self.is_software {
            Time::ZERO
        } else {
            self.packet
        };
        bytes.map_or(Passed::Lost, |bytes| self.leave(now, bytes, duration))
    }

    fn leave(&mut self, now: Time, bytes: u32, duration: Time) -> Passed {
        let through = match (self.is_software, duration) {
            (true, Time::ZERO) => Ok(now),
            (true, _) => serve(&mut self.cores, now, duration, self.ring),
            (false, _) => serve(&mut self.pipeline, now, duration, self.ring),
        };
        let left = through.and_then(|done| self.from_it.send(done + self.latency, bytes));
        left.map_or(Passed::Lost, |left| Passed::Left(left, bytes))
    }
}

/// Bytes of what leaves, if it does.
fn forwarded_bytes(step: &DpuStep) -> Option<u32> {
    match step {
        DpuStep::Done(Verdict::Forward(frame)) => Some(frame.len() as u32),
        _ => None,
    }
}

/// Flows that a DPU knows before anything counts.
fn known_flows(setting: &Setting, number: u16) -> usize {
    setting.enis_of(number).count() * setting.flows_of_eni() as usize
}

/// When the one of these that is free first has done something, before which no more than so many may
/// wait.
fn serve(servers: &mut [Server], now: Time, duration: Time, most: u64) -> Through {
    let first = servers.iter_mut().min_by_key(|server| server.wait(now));
    let first = first.ok_or(QueueFull)?;
    match first.wait(now).0 / duration.0.max(1) >= most {
        true => Err(QueueFull),
        false => Ok(first.serve(now, duration)),
    }
}
