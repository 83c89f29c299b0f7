//! The firewall on the slow path.

use std::any::Any;
use std::mem::swap;
use twinpath_core::key::Role;
use twinpath_core::program::FastProgram;
use twinpath_core::wire::layout::{Fragment, Transport};
use twinpath_core::wire::{fields, icmp, protocol};
use twinpath_core::{DropReason, Instant, Packet};
use twinpath_slowpath::{Common, Eviction, Flow, NetworkFunction, Outbox};

use super::NAME;
use super::config::{Config, Timeouts, Verify};
use super::connection::{Connection, Phase};
use super::decided::Decided;
use super::rule::Action;
use super::rules::{FirstPacket, RuleSet};
use super::window::Windows;
use crate::hosts::{HostLimit, Hosts};
use crate::icmp_errors::Refusals;

/// A stateful firewall; see the [module](super).
#[derive(Debug)]
pub struct Firewall {
    pub(super) rules: RuleSet,
    decided: Decided,
    default: Action,
    pub(super) pick_up: bool,
    pub(super) liberal: bool,
    pub(super) redirects: bool,
    pub(super) checksums: Verify,
    pub(super) timeouts: Timeouts,
    host_limit: Option<HostLimit>,
    hosts: Hosts,
    pub(super) counters: Counters,
    pub(super) refusals: Refusals,
}

/// What happened on the slow path. The names are documented in the [module](super).
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    opened: u64,
    pub(super) picked_up: u64,
    over_host_limit: u64,
    denied: u64,
    invalid: u64,
    pub(super) out_of_window: u64,
    pub(super) challenged: u64,
    pub(super) bad_checksums: u64,
    pub(super) related_errors: u64,
    pub(super) unrelated_errors: u64,
}

/// Whether a packet goes on, or why it is dropped.
pub(super) type Checked = Result<(), DropReason>;

impl Firewall {
    /// A firewall that knows no connections yet.
    pub fn new(config: &Config) -> Self {
        Self {
            rules: RuleSet::new(config.rules(), &config.ports),
            decided: Decided::new(config.rules()),
            default: config.default,
            pick_up: config.pick_up,
            liberal: config.liberal,
            redirects: config.redirects,
            checksums: config.verify_checksums,
            timeouts: config.timeouts.clone(),
            host_limit: config.host_limit(),
            hosts: Hosts::default(),
            counters: Counters::default(),
            refusals: Refusals::default(),
        }
    }

    fn decide(&mut self, packet: &Packet, flow: &mut Flow<'_>) -> Checked {
        self.judge_error(packet)?;
        if self.checksums.of_all() && packet.role != Role::Error {
            self.verify(packet)?;
        }
        let is_later_part = packet.layout.fragment == Fragment::Later;
        match packet.role {
            Role::Error => self.error(packet, flow),
            // The first part decides about a connection that is unknown.
            Role::Fragment if is_later_part && Connection::load(flow.words).is_none() => {
                Err(self.deny())
            }
            _ if flow.key.protocol() == protocol::TCP => self.segment(packet, flow),
            _ => self.datagram(packet, flow),
        }
    }

    /// A new connection, if the rules allow it. One that they deny leaves the words as they are.
    pub(super) fn open(
        &mut self,
        packet: &Packet,
        phase: Phase,
        timeout: u32,
        windows: Windows,
        flow: &mut Flow<'_>,
    ) -> Checked {
        self.check_rules(packet)?;
        self.count_of_host(packet, flow)?;
        self.counters.opened += 1;
        Self::remember(packet, phase, timeout, windows, flow);
        Ok(())
    }

    /// Asks the rules about a connection's packet.
    pub(super) fn check_rules(&mut self, packet: &Packet) -> Checked {
        let action = self.ask_rules(packet).unwrap_or_else(|| {
            self.decided.by_default += 1;
            self.default
        });
        match action {
            Action::Deny => Err(self.deny()),
            Action::Allow => Ok(()),
        }
    }

    /// What the first rule says that matches a packet, which is counted.
    pub(super) fn ask_rules(&mut self, packet: &Packet) -> Option<Action> {
        let (place, action) = self.rules.deciding(&first_packet(packet))?;
        self.decided.count(place);
        Some(action)
    }

    /// How many packets a rule decided about, counted from 0; behind the last one the default.
    pub(super) const fn decided(&self) -> &Decided {
        &self.decided
    }

    /// The packet's end is taken for the opener.
    pub(super) fn remember(
        packet: &Packet,
        phase: Phase,
        timeout: u32,
        windows: Windows,
        flow: &mut Flow<'_>,
    ) {
        let connection = Connection {
            phase,
            opener: packet.direction,
            last_seen: flow.now.ticks(),
            timeout,
            windows,
        };
        connection.store(flow.words);
    }

    /// Counts a flow's connection for the host that opens it, unless it has as many as it may.
    fn count_of_host(&mut self, packet: &Packet, flow: &mut Flow<'_>) -> Checked {
        self.hosts.close(std::mem::take(flow.handle));
        let Some(limit) = &self.host_limit else {
            return Ok(());
        };
        match self.hosts.open(packet.source().address, limit) {
            Some(handle) => *flow.handle = handle,
            None => {
                self.counters.over_host_limit += 1;
                return Err(DropReason::HostLimit);
            }
        }
        Ok(())
    }

    /// Whatever is no TCP segment: two ends that talk to each other pass for a connection.
    fn datagram(&mut self, packet: &Packet, flow: &mut Flow<'_>) -> Checked {
        let Some(mut connection) = Connection::load(flow.words) else {
            return self.open_datagram(packet, flow);
        };
        connection.phase = match (connection.phase, packet.direction == connection.opener) {
            (Phase::Unreplied, false) => {
                self.verify(packet)?;
                Phase::Answered
            }
            (Phase::Answered, true) => {
                self.verify(packet)?;
                Phase::Replied
            }
            (phase, _) => phase,
        };
        connection.timeout = self.datagram_timeout(packet, connection.phase);
        connection.last_seen = flow.now.ticks();
        connection.store(flow.words);
        Ok(())
    }

    fn open_datagram(&mut self, packet: &Packet, flow: &mut Flow<'_>) -> Checked {
        match icmp_kind(packet) {
            Some(IcmpKind::Error) => return self.unrelated_error(packet),
            Some(IcmpKind::Answer) if !self.pick_up => return Err(self.invalid()),
            _ => {}
        }
        self.verify(packet)?;
        let timeout = self.datagram_timeout(packet, Phase::Unreplied);
        self.open(packet, Phase::Unreplied, timeout, Windows::default(), flow)
    }

    fn datagram_timeout(&self, packet: &Packet, phase: Phase) -> u32 {
        let timeouts = &self.timeouts;
        let timeout = match (packet.layout.protocol, phase) {
            (protocol::UDP, Phase::Unreplied) => timeouts.udp_unreplied,
            (protocol::UDP, _) => timeouts.udp_replied,
            (protocol::ICMP | protocol::ICMP6, _) => timeouts.icmp,
            _ => timeouts.other,
        };
        timeout.ticks()
    }

    pub(super) fn deny(&mut self) -> DropReason {
        self.counters.denied += 1;
        DropReason::Denied
    }

    pub(super) fn invalid(&mut self) -> DropReason {
        self.counters.invalid += 1;
        DropReason::InvalidState
    }
}

/// What the rules see of a packet.
pub(super) fn first_packet(packet: &Packet) -> FirstPacket {
    FirstPacket::of(packet.bytes(), &packet.layout, packet.frame.port())
}

enum IcmpKind {
    /// It reports an error, about a packet that cannot be read.
    Error,
    /// It answers an echo.
    Answer,
}

fn icmp_kind(packet: &Packet) -> Option<IcmpKind> {
    let (kind, _) = fields::icmp_kind(packet.bytes(), &packet.layout)?;
    match (packet.layout.transport, kind) {
        (Transport::Icmp, icmp::v4::ECHO_REPLY) | (Transport::Icmp6, icmp::v6::ECHO_REPLY) => {
            Some(IcmpKind::Answer)
        }
        _ => icmp::is_error(packet.layout.network, kind).then_some(IcmpKind::Error),
    }
}

impl NetworkFunction for Firewall {
    fn name(&self) -> &'static str {
        NAME
    }

    fn program(&self) -> FastProgram {
        super::program::program(self.checksums)
    }

    fn share(&mut self, name: &str, common: &Common) {
        self.hosts.share(name, common);
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        match self.decide(&packet, flow) {
            Ok(()) => out.forward(packet),
            Err(reason) => out.drop(packet, reason),
        }
    }

    fn is_expired(&self, words: &[u32], now: Instant) -> bool {
        Connection::load(words).is_some_and(|connection| connection.is_expired(now))
    }

    fn forget(&mut self, handle: u32) {
        self.hosts.close(handle);
    }

    fn eviction(&self, words: &[u32]) -> Option<Eviction> {
        Connection::load(words).map(|connection| connection.phase.eviction())
    }

    fn is_pending(&self, words: &[u32], _handle: u32) -> bool {
        Connection::load(words).is_some_and(|connection| !connection.phase.is_simple())
    }

    /// Connections go on as they are; the new time-outs hold from their next packet on, which is
    /// the workers'.
    fn reconfigure(&mut self, new: &mut dyn NetworkFunction) -> bool {
        let Some(new) = (new as &mut dyn Any).downcast_mut::<Self>() else {
            return false;
        };
        swap(self, new);
        self.decided.take_over(&new.decided);
        swap(&mut self.counters, &mut new.counters);
        swap(&mut self.hosts, &mut new.hosts);
        swap(&mut self.refusals, &mut new.refusals);
        true
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let counters = &self.counters;
        each("connections_opened", counters.opened);
        each("connections_picked_up", counters.picked_up);
        each("connections_over_host_limit", counters.over_host_limit);
        each("packets_denied", counters.denied);
        each("packets_invalid", counters.invalid);
        each("segments_out_of_window", counters.out_of_window);
        each("segments_challenged", counters.challenged);
        each("packets_with_bad_checksum", counters.bad_checksums);
        each("icmp_errors_related", counters.related_errors);
        each("icmp_errors_unrelated", counters.unrelated_errors);
        self.refusals.report(each);
    }
}
