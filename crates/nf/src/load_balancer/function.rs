//! What the balancer does on the slow path.

use super::NAME;
use super::backends::{Backends, ServiceIndex};
use super::config::{Config, ReturnPath};
use super::connection::{Answer, Connection, Kind, Sign, Timeouts};
use super::icmp_errors::{translate_for_backend, translate_for_client};
use super::migration::Migration;
use super::program::{COMPLEX_FLAGS, program};
use crate::checksums::VerifyChecksums;
use crate::hosts::{HostLimit, Hosts};
use crate::icmp_errors::{self, Refusals};
use std::any::Any;
use std::mem::swap;
use twinpath_core::key::Role;
use twinpath_core::program::FastProgram;
use twinpath_core::steering::Alias;
use twinpath_core::{Direction, DropReason, Instant, Packet};
use twinpath_slowpath::{Common, Eviction, Flow, NetworkFunction, Outbox};
use twinpath_wire::tcp::flags;
use twinpath_wire::{Fragment, MacAddress};

/// The load balancer's part on the slow path.
pub struct LoadBalancer {
    program: FastProgram,
    timeouts: Timeouts,
    pick_up: bool,
    checksums: VerifyChecksums,
    backends: Backends,
    host_limit: Option<HostLimit>,
    hosts: Hosts,
    /// From the configuration before.
    migration: Migration,
    counters: Counters,
    refusals: Refusals,
}

#[derive(Default)]
struct Counters {
    new_connections: u64,
    picked_up: u64,
    reassigned: u64,
    without_backend: u64,
    not_picked_up: u64,
    over_host_limit: u64,
    errors_translated: u64,
    unexpected_replies: u64,
    bad_checksums: u64,
}

impl LoadBalancer {
    /// A balancer; fills its lookup tables, under `seed` if the configuration has none.
    pub fn new(config: &Config, seed: u64) -> Self {
        Self {
            program: program(config),
            timeouts: Timeouts::new(config),
            pick_up: config.pick_up,
            checksums: config.verify_checksums,
            backends: Backends::new(config, config.seed.unwrap_or(seed)),
            host_limit: config.host_limit,
            hosts: Hosts::default(),
            migration: Migration::default(),
            counters: Counters::default(),
            refusals: Refusals::default(),
        }
    }

    /// A packet of a flow of which nothing is known.
    fn handle_first(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        let protocol = packet.layout.protocol;
        let from_service = packet.alias_row != 0
            || self
                .backends
                .service_at(packet.source(), protocol)
                .is_some();
        match self.backends.service_at(packet.destination(), protocol) {
            Some(service) => self.open(service, packet, flow, out),
            None if from_service => self.pass_early_reply(packet, out),
            None => self.pass(packet, Connection::new(Kind::Passing, 0), flow, out),
        }
    }

    fn open(
        &mut self,
        service: ServiceIndex,
        packet: Packet,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        if self.is_broken(&packet) {
            return self.drop_broken(packet, out);
        }
        let mid_stream = packet.is_tcp() && !is_opening(packet.tcp_flags());
        if mid_stream && !self.pick_up {
            self.counters.not_picked_up += 1;
            return out.drop(packet, DropReason::InvalidState);
        }
        let Some(row) = self.backends.choose(service, flow.key, flow.now) else {
            return self.drop_without_backend(packet, out);
        };
        if let Err(reason) = self.count_of_host(&packet, flow) {
            return out.drop(packet, reason);
        }
        self.counters.picked_up += u64::from(mid_stream);
        self.count_connection(row);
        let flipped = packet.direction == Direction::Reply;
        let connection = Connection {
            flipped,
            ..Connection::new(self.backends.kind(service), row)
        };
        self.send_first(packet, connection, flow, out);
    }

    /// The first packet of a connection.
    fn send_first(
        &mut self,
        packet: Packet,
        mut connection: Connection,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        connection.note_client(sign(&packet));
        connection.unanswered = true;
        self.send_to_backend(packet, connection, flow, out);
    }

    /// Counts a flow's connection for the client, unless it has as many as it may.
    fn count_of_host(&mut self, packet: &Packet, flow: &mut Flow<'_>) -> Result<(), DropReason> {
        self.hosts.close(std::mem::take(flow.handle));
        let Some(limit) = &self.host_limit else {
            return Ok(());
        };
        let handle = self.hosts.open(packet.source().address, limit);
        self.counters.over_host_limit += u64::from(handle.is_none());
        *flow.handle = handle.ok_or(DropReason::HostLimit)?;
        Ok(())
    }

    fn count_connection(&mut self, row: u16) {
        self.counters.new_connections += 1;
        self.backends.count_connection(row);
    }

    /// Whether the packet's checksum is wrong, where checksums are verified.
    fn is_broken(&self, packet: &Packet) -> bool {
        self.checksums.of_state() && !packet.checksums_hold()
    }

    fn drop_broken(&mut self, packet: Packet, out: &mut Outbox<'_>) {
        self.counters.bad_checksums += 1;
        out.drop(packet, DropReason::BadChecksum);
    }

    /// The client has not sent anything yet: leaves it to the client to open the flow.
    fn pass_early_reply(&mut self, packet: Packet, out: &mut Outbox<'_>) {
        self.counters.unexpected_replies += 1;
        out.forward(packet);
    }

    fn handle_from_client(
        &mut self,
        packet: Packet,
        mut connection: Connection,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let Some(service) = self.service_of(&connection, &packet) else {
            return self.drop_without_backend(packet, out);
        };
        let reopened =
            is_opening(packet.tcp_flags()) && (connection.is_ending() || connection.fin_of_client);
        if reopened || self.backends.present(connection.row, flow.now).is_none() {
            let Some(row) = self.backends.choose(service, flow.key, flow.now) else {
                return self.drop_without_backend(packet, out);
            };
            if reopened {
                if let Err(reason) = self.count_of_host(&packet, flow) {
                    return out.drop(packet, reason);
                }
                self.count_connection(row);
                let connection = Connection {
                    flipped: connection.flipped,
                    ..Connection::new(connection.kind, row)
                };
                return self.send_first(packet, connection, flow, out);
            }
            self.counters.reassigned += 1;
            connection.row = row;
        }
        connection.note_client(sign(&packet));
        connection.note_client_goes_on(packet.tcp_flags());
        self.send_to_backend(packet, connection, flow, out);
    }

    /// The service that a client's packet is for. It is known by the backend, unless that is no
    /// longer configured.
    fn service_of(&self, connection: &Connection, packet: &Packet) -> Option<ServiceIndex> {
        let (destination, protocol) = (packet.destination(), packet.layout.protocol);
        match self.backends.row(connection.row) {
            Some(backend) => Some(backend.service),
            None => self.backends.service_at(destination, protocol),
        }
    }

    fn drop_without_backend(&mut self, packet: Packet, out: &mut Outbox<'_>) {
        self.counters.without_backend += 1;
        out.drop(packet, DropReason::NoBackend);
    }

    fn send_to_backend(
        &mut self,
        mut packet: Packet,
        connection: Connection,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        // The rewrite cannot fail: backend, service and packet are of one IP version.
        if let Some(backend) = self.backends.row(connection.row) {
            match connection.kind {
                Kind::Service(_, ReturnPath::Direct) => {
                    set_destination_mac(&mut packet, backend.mac)
                }
                _ => _ = packet.set_destination(backend.endpoint),
            }
        }
        self.pass(packet, connection, flow, out);
    }

    fn handle_from_server(
        &mut self,
        mut packet: Packet,
        mut connection: Connection,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let through = matches!(connection.kind, Kind::Service(_, ReturnPath::Through));
        if through && packet.alias_row != u32::from(connection.row) + 1 {
            self.counters.unexpected_replies += 1;
            return out.forward(packet);
        }
        connection.note_server(sign(&packet));
        connection.note_answer(Answer {
            tcp_flags: packet.tcp_flags(),
            acknowledgement: packet.tcp_acknowledgement(),
            bytes: packet.layout.payload_bytes(),
        });
        if let Some(backend) = self.backends.row(connection.row).filter(|_| through) {
            packet.set_source(self.backends.vip(backend.service));
        }
        self.pass(packet, connection, flow, out);
    }

    /// Writes the connection down as seen now, and lets the packet go on.
    fn pass(
        &self,
        packet: Packet,
        connection: Connection,
        flow: &mut Flow<'_>,
        out: &mut Outbox<'_>,
    ) {
        let opens = flow.is_new() || packet.tcp_flags() & flags::SYN != 0;
        let last_seen = match opens {
            true => self.timeouts.last_seen_opening(&connection, flow.now),
            false => flow.now.ticks(),
        };
        Connection {
            last_seen,
            ..connection
        }
        .write(flow.words);
        out.forward(packet);
    }

    /// An ICMP error about a packet of the connection. It does not keep the connection alive.
    fn handle_error(&mut self, mut packet: Packet, flow: &Flow<'_>, out: &mut Outbox<'_>) {
        let connection =
            Connection::read(flow.words).filter(|connection| connection.kind != Kind::Passing);
        let Some(connection) = connection else {
            return out.forward(packet);
        };
        if let Err(refusal) = icmp_errors::judge(packet.bytes(), &packet.layout, false) {
            let reason = self.refusals.count(refusal);
            return out.drop(packet, reason);
        }
        let to_server = is_from_client(&packet, &connection);
        let Some(backend) = self.backends.row(connection.row) else {
            return match to_server {
                true => self.drop_without_backend(packet, out),
                false => out.forward(packet),
            };
        };
        let vip = self.backends.vip(backend.service);
        if to_server && self.backends.present(connection.row, flow.now).is_none() {
            return self.drop_without_backend(packet, out);
        }
        let translated = match (connection.kind, to_server) {
            (Kind::Service(_, ReturnPath::Through), true) => {
                translate_for_backend(&mut packet, vip, backend.endpoint)
            }
            (Kind::Service(_, ReturnPath::Through), false) => {
                translate_for_client(&mut packet, vip, backend.endpoint)
            }
            (_, true) => {
                set_destination_mac(&mut packet, backend.mac);
                true
            }
            (_, false) => false,
        };
        self.counters.errors_translated += u64::from(translated);
        out.forward(packet);
    }

    /// A later part of a datagram whose first one belongs to no known connection: it was dropped,
    /// or is no service's.
    fn handle_later_part(&mut self, packet: Packet, out: &mut Outbox<'_>) {
        match self
            .backends
            .is_service_address(packet.destination().address, packet.layout.protocol)
        {
            true => out.drop(packet, DropReason::Fragment),
            false => out.forward(packet),
        }
    }
}

impl NetworkFunction for LoadBalancer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn program(&self) -> FastProgram {
        self.program.clone()
    }

    fn start(&mut self, now: Instant) {
        self.backends.start(now);
    }

    fn share(&mut self, name: &str, common: &Common) {
        self.hosts.share(name, common);
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        match (packet.role, Connection::read(flow.words)) {
            (Role::Error, _) => self.handle_error(packet, flow, out),
            (_, None) if packet.layout.fragment == Fragment::Later => {
                self.handle_later_part(packet, out)
            }
            (_, None) => self.handle_first(packet, flow, out),
            (_, Some(connection)) if connection.kind == Kind::Passing => {
                self.pass(packet, connection, flow, out)
            }
            (_, Some(_)) if packet.tcp_flags() & COMPLEX_FLAGS != 0 && self.is_broken(&packet) => {
                self.drop_broken(packet, out)
            }
            (_, Some(connection)) if is_from_client(&packet, &connection) => {
                self.handle_from_client(packet, connection, flow, out)
            }
            (_, Some(connection)) => self.handle_from_server(packet, connection, flow, out),
        }
    }

    fn is_expired(&self, words: &[u32], now: Instant) -> bool {
        Connection::read(words).is_some_and(|connection| self.timeouts.are_over(&connection, now))
    }

    fn eviction(&self, words: &[u32]) -> Option<Eviction> {
        Connection::read(words).map(|connection| connection.eviction(self.pick_up))
    }

    fn is_pending(&self, words: &[u32], _handle: u32) -> bool {
        Connection::read(words).is_some_and(|connection| connection.is_complex())
    }

    fn forget(&mut self, handle: u32) {
        self.hosts.close(handle);
    }

    /// Backends that are no longer configured are removed: their connections go to others.
    fn reconfigure(&mut self, new: &mut dyn NetworkFunction) -> bool {
        let Some(new) = (new as &mut dyn Any).downcast_mut::<Self>() else {
            return false;
        };
        self.migration = Migration::between(&self.backends, &new.backends);
        new.backends.go_on_from(&self.backends);
        swap(&mut self.program, &mut new.program);
        swap(&mut self.timeouts, &mut new.timeouts);
        swap(&mut self.pick_up, &mut new.pick_up);
        swap(&mut self.checksums, &mut new.checksums);
        swap(&mut self.backends, &mut new.backends);
        swap(&mut self.host_limit, &mut new.host_limit);
        true
    }

    fn adapt(&mut self, words: &mut [u32], handle: &mut u32) {
        self.migration.adapt(words);
        if Connection::read(words).is_none() {
            self.hosts.close(std::mem::take(handle));
        }
    }

    fn aliases(&self) -> Vec<Alias> {
        self.backends.aliases()
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let Counters {
            new_connections,
            picked_up,
            reassigned,
            without_backend,
            not_picked_up,
            over_host_limit,
            errors_translated,
            unexpected_replies,
            bad_checksums,
        } = self.counters;
        each("new_connections", new_connections);
        each("picked_up", picked_up);
        each("reassigned", reassigned);
        each("without_backend", without_backend);
        each("not_picked_up", not_picked_up);
        each("connections_over_host_limit", over_host_limit);
        each("errors_translated", errors_translated);
        each("unexpected_replies", unexpected_replies);
        each("packets_with_bad_checksum", bad_checksums);
        self.refusals.report(each);
        self.backends.counters(each);
    }
}

/// Whether the packet opens a TCP connection.
pub(super) const fn is_opening(tcp_flags: u8) -> bool {
    tcp_flags & (flags::SYN | flags::ACK | flags::RST) == flags::SYN
}

fn sign(packet: &Packet) -> Sign {
    Sign::of(packet.tcp_flags(), packet.layout.payload_bytes())
}

fn is_from_client(packet: &Packet, connection: &Connection) -> bool {
    (packet.direction == Direction::Original) != connection.flipped
}

fn set_destination_mac(packet: &mut Packet, mac: MacAddress) {
    if let Some(place) = packet.frame.bytes_mut().first_chunk_mut() {
        *place = mac.0;
    }
}
