//! The balancer as a function whose decisions are cached as rules.

mod change;
mod connections;
mod course;
mod prepared;
mod servers;
#[cfg(test)]
mod tests;

pub use prepared::Prepared;

use super::NAME;
use super::backends::ServiceIndex;
use super::config::ReturnPath;
use super::connection::{Connection, Kind};
use super::errors::{translate_for_backend, translate_for_client};
use super::function::is_opening;
use connections::{Connections, Known, Name};
use course::Course;
use servers::Servers;
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};
use twinpath_core::wire::{Endpoint, Fragment, Network, Transport, fields, protocol};
use twinpath_core::{DropReason, FlowKey, Instant, Packet};
use twinpath_rulecache::{Answers, Hits, Obstacle, Recorded, RuleFunction, Verdict};

/// Entries of connections have this bit.
const CONNECTION: u32 = 1 << 31;
/// Entries of backends have this one.
const BACKEND: u32 = 1 << 30;
/// That a packet is of no service and no backend.
const PASSING: u32 = 0;

/// Connections that one search for expired ones looks at.
const SWEEP: u32 = 32;

/// A load balancer that keeps its connections itself; see the [module](super).
pub struct RuleBalancer {
    prepared: Prepared,
    servers: Servers,
    connections: Connections,
    started: Instant,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    new_connections: u64,
    picked_up: u64,
    reassigned: u64,
    without_backend: u64,
    not_picked_up: u64,
    exhausted: u64,
    errors_translated: u64,
    unexpected_replies: u64,
}

/// What of a packet tells its service.
enum Nature {
    /// Ports, or nothing that a service could have.
    Ends,
    Fragment,
    /// The packet that an ICMP error quotes.
    Error,
    NotIp,
}

impl RuleBalancer {
    /// A balancer without connections; the seed keeps outsiders from choosing ones that are slow
    /// to find.
    pub fn new(prepared: Prepared, seed: u64) -> Self {
        let mut servers = Servers::default();
        servers.plan(&prepared.backends);
        Self {
            prepared,
            servers,
            connections: Connections::new(seed),
            started: Instant::ZERO,
            counters: Counters::default(),
        }
    }

    fn serve_client(
        &mut self,
        packet: &mut Recorded<'_>,
        service: ServiceIndex,
        now: Instant,
    ) -> Result<(), Verdict> {
        let name = self.name(packet.source(), service);
        let flags = flags_of(packet, name.protocol);
        let number = match self.live(packet, &name, now)? {
            Some(number) => self.keep_or_reassign(packet, number, service, flags, now)?,
            None => self.open(packet, name, service, flags, now)?,
        };
        self.use_connection(packet, number, flags, now, Connection::note_client);
        let Some(server) = self.server_of(number) else {
            return Ok(());
        };
        // The rewrite cannot fail: backend, service and packet are of one IP version.
        match self.prepared.backends.kind(service) {
            Kind::Service(_, ReturnPath::Direct) => packet.set_destination_mac(server.mac),
            _ => _ = packet.set_destination(server.endpoint),
        }
        Ok(())
    }

    fn name(&self, client: Endpoint, service: ServiceIndex) -> Name {
        let backends = &self.prepared.backends;
        let protocol = match backends.kind(service) {
            Kind::Service(protocol, _) => protocol.number(),
            Kind::Passing => 0,
        };
        let vip = backends.vip(service);
        Name {
            client,
            vip,
            protocol,
        }
    }

    /// The number of a connection that is alive.
    fn live(
        &mut self,
        packet: &Recorded<'_>,
        name: &Name,
        now: Instant,
    ) -> Result<Option<u32>, Verdict> {
        let Some(number) = self.connections.find(name) else {
            return Ok(None);
        };
        if !self.is_expired(number, now) {
            return Ok(Some(number));
        }
        must_be_free(packet, CONNECTION | number)?;
        self.remove(number);
        Ok(None)
    }

    fn is_expired(&self, number: u32, now: Instant) -> bool {
        let known = self.connections.at(number);
        known.is_none_or(|known| now.since(known.last) > self.prepared.timeouts.of(&known.state))
    }

    fn remove(&mut self, number: u32) {
        if let Some(known) = self.connections.remove(number) {
            self.servers.release(known.server);
        }
    }

    fn open(
        &mut self,
        packet: &mut Recorded<'_>,
        name: Name,
        service: ServiceIndex,
        flags: Option<u8>,
        now: Instant,
    ) -> Result<u32, Verdict> {
        let mid_stream = flags.is_some_and(|flags| !is_opening(flags));
        if mid_stream && !self.prepared.pick_up {
            self.counters.not_picked_up += 1;
            return Err(refuse(packet, DropReason::InvalidState));
        }
        let server = self.choose(packet, &name, service, now)?;
        self.make_room(packet, now)?;
        let state = Connection::new(self.prepared.backends.kind(service), 0);
        let known = Known {
            name,
            server,
            state,
            last: now,
        };
        let Some(number) = self.connections.add(known) else {
            return Err(self.refuse_full(packet));
        };
        self.servers.hold(server);
        self.counters.picked_up += u64::from(mid_stream);
        self.count_connection(server);
        Ok(number)
    }

    fn count_connection(&mut self, server: u32) {
        self.counters.new_connections += 1;
        if let Some(row) = self.servers.row(server) {
            self.prepared.backends.count_connection(row);
        }
    }

    fn choose(
        &mut self,
        packet: &mut Recorded<'_>,
        name: &Name,
        service: ServiceIndex,
        now: Instant,
    ) -> Result<u32, Verdict> {
        let (key, _) = FlowKey::connection(name.client, name.vip, name.protocol);
        let row = self.prepared.backends.choose(service, &key, now);
        let server = row.and_then(|row| self.servers.of_row(row));
        server.ok_or_else(|| {
            self.counters.without_backend += 1;
            refuse(packet, DropReason::NoBackend)
        })
    }

    fn make_room(&mut self, packet: &mut Recorded<'_>, now: Instant) -> Result<(), Verdict> {
        if self.connections.len() < self.prepared.most {
            return Ok(());
        }
        for number in self.connections.sweep(SWEEP) {
            if self.is_expired(number, now) && packet.is_free(CONNECTION | number) {
                self.remove(number);
            }
        }
        match self.connections.len() < self.prepared.most {
            true => Ok(()),
            false => Err(self.refuse_full(packet)),
        }
    }

    fn refuse_full(&mut self, packet: &mut Recorded<'_>) -> Verdict {
        self.counters.exhausted += 1;
        refuse(packet, DropReason::FlowTableFull)
    }

    /// A connection that is there goes to another backend if its own is gone, or if it is opened
    /// again.
    fn keep_or_reassign(
        &mut self,
        packet: &mut Recorded<'_>,
        number: u32,
        service: ServiceIndex,
        flags: Option<u8>,
        now: Instant,
    ) -> Result<u32, Verdict> {
        let Some(&Known {
            name,
            server,
            state,
            ..
        }) = self.connections.at(number)
        else {
            return Ok(number);
        };
        let is_reopened = flags.is_some_and(is_opening) && (state.closed || state.fin_of_client);
        if !is_reopened && self.is_present(server, now) {
            return Ok(number);
        }
        let chosen = self.choose(packet, &name, service, now)?;
        if chosen != server {
            must_be_free(packet, CONNECTION | number)?;
        }
        packet.uncacheable(Obstacle::StateChanged);
        self.servers.hold(chosen);
        self.servers.release(server);
        if is_reopened {
            self.count_connection(chosen);
        } else {
            self.counters.reassigned += 1;
        }
        if let Some(known) = self.connections.at_mut(number) {
            known.server = chosen;
            if is_reopened {
                known.state = Connection::new(state.kind, 0);
            }
        }
        Ok(number)
    }

    fn is_present(&self, server: u32, now: Instant) -> bool {
        let row = self.servers.row(server);
        row.is_some_and(|row| self.prepared.backends.present(row, now).is_some())
    }

    /// Notes a packet of a connection, and what its rule depends on.
    fn use_connection(
        &mut self,
        packet: &mut Recorded<'_>,
        number: u32,
        flags: Option<u8>,
        now: Instant,
        note: impl FnOnce(&mut Connection, u8),
    ) {
        let Some(known) = self.connections.at_mut(number) else {
            return packet.uncacheable(Obstacle::Undecided);
        };
        known.last = known.last.max(now);
        let flags = flags.unwrap_or(0);
        note(&mut known.state, flags);
        if flags & (SYN | FIN | RST) != 0 {
            packet.uncacheable(Obstacle::StateChanged);
        }
        let idle = self.prepared.timeouts.of_rules(known.state.kind);
        let server = known.server;
        packet.depends_on(CONNECTION | number, Some(idle));
        packet.depends_on(BACKEND | server, None);
        let row = self.servers.row(server);
        let backend = row.and_then(|row| self.prepared.backends.row(row));
        if backend.is_none_or(|backend| backend.is_temporary()) {
            packet.uncacheable(Obstacle::Undecided);
        }
    }

    fn server_of(&self, number: u32) -> Option<servers::Server> {
        let known = self.connections.at(number)?;
        self.servers.at(known.server).copied()
    }

    fn serve_backend(
        &mut self,
        packet: &mut Recorded<'_>,
        row: u16,
        now: Instant,
    ) -> Result<(), Verdict> {
        let Some(backend) = self.prepared.backends.row(row) else {
            return Ok(());
        };
        let service = backend.service;
        let name = self.name(packet.destination(), service);
        let flags = flags_of(packet, name.protocol);
        let server = self.servers.of_row(row);
        match self.live(packet, &name, now)? {
            Some(number) if self.connections.at(number).map(|known| known.server) == server => {
                self.use_connection(packet, number, flags, now, Connection::note_server);
                packet.set_source(name.vip);
            }
            _ => self.pass_unexpected(packet),
        }
        Ok(())
    }

    /// From a service's own endpoint: with direct return a backend's answer, which passes.
    fn pass_answer(
        &mut self,
        packet: &mut Recorded<'_>,
        service: ServiceIndex,
        now: Instant,
    ) -> Result<(), Verdict> {
        let name = self.name(packet.destination(), service);
        let flags = flags_of(packet, name.protocol);
        let kind = self.prepared.backends.kind(service);
        let is_direct = matches!(kind, Kind::Service(_, ReturnPath::Direct));
        let number = if is_direct {
            self.live(packet, &name, now)?
        } else {
            None
        };
        match number {
            Some(number) => {
                self.use_connection(packet, number, flags, now, Connection::note_server)
            }
            None => self.pass_unexpected(packet),
        }
        Ok(())
    }

    /// It belongs to no connection, until there is one.
    fn pass_unexpected(&mut self, packet: &mut Recorded<'_>) {
        self.counters.unexpected_replies += 1;
        packet.uncacheable(Obstacle::Undecided);
    }

    /// A fragment does not tell its service.
    fn fragment(&self, packet: &mut Recorded<'_>) -> Verdict {
        let (address, protocol) = (packet.destination().address, packet.protocol());
        match self.prepared.backends.is_service_address(address, protocol) {
            true => Verdict::Drop(DropReason::Fragment),
            false => Verdict::Forward,
        }
    }

    /// Of an ICMP error each end must see the addresses that it knows.
    fn error(&mut self, packet: &mut Recorded<'_>, now: Instant) -> Result<(), Verdict> {
        let Some((source, destination, protocol)) = quoted(packet.quote()) else {
            return Ok(());
        };
        if let Some(row) = self.prepared.row_at(destination, protocol) {
            self.error_for_client(packet, source, row, now)
        } else if let Some(service) = self.prepared.backends.service_at(source, protocol) {
            self.error_for_backend(packet, destination, service, now)
        } else {
            Ok(())
        }
    }

    /// About a packet that the balancer had sent on to a backend.
    fn error_for_client(
        &mut self,
        packet: &mut Recorded<'_>,
        client: Endpoint,
        row: u16,
        now: Instant,
    ) -> Result<(), Verdict> {
        let Some((backend, service)) = self.backend(row) else {
            return Ok(());
        };
        let name = self.name(client, service);
        let server = self.servers.of_row(row);
        if let Some(number) = self.live(packet, &name, now)?
            && self.connections.at(number).map(|known| known.server) == server
            && translate_for_client(packet.whole(), name.vip, backend)
        {
            self.counters.errors_translated += 1;
        }
        Ok(())
    }

    fn backend(&self, row: u16) -> Option<(Endpoint, ServiceIndex)> {
        let backend = self.prepared.backends.row(row)?;
        Some((backend.endpoint, backend.service))
    }

    /// About a packet of a backend, which had been given the service's address.
    fn error_for_backend(
        &mut self,
        packet: &mut Recorded<'_>,
        client: Endpoint,
        service: ServiceIndex,
        now: Instant,
    ) -> Result<(), Verdict> {
        let name = self.name(client, service);
        let Some(number) = self.live(packet, &name, now)? else {
            return Ok(());
        };
        let Some(server) = self.server_of(number) else {
            return Ok(());
        };
        let number = self.connections.at(number).map_or(0, |known| known.server);
        if !self.is_present(number, now) {
            self.counters.without_backend += 1;
            return Err(Verdict::Drop(DropReason::NoBackend));
        }
        let translated = match self.prepared.backends.kind(service) {
            Kind::Service(_, ReturnPath::Direct) => {
                packet.set_destination_mac(server.mac);
                true
            }
            _ => translate_for_backend(packet.whole(), name.vip, server.endpoint),
        };
        self.counters.errors_translated += u64::from(translated);
        Ok(())
    }
}

fn refuse(packet: &mut Recorded<'_>, reason: DropReason) -> Verdict {
    packet.uncacheable(Obstacle::Undecided);
    Verdict::Drop(reason)
}

fn must_be_free(packet: &Recorded<'_>, entry: u32) -> Result<(), Verdict> {
    match packet.is_free(entry) {
        true => Ok(()),
        false => Err(Verdict::Wait(entry)),
    }
}

/// The flags of a TCP segment that must not be missed; of one with SYN all that tell whether it
/// opens a connection.
fn flags_of(packet: &mut Recorded<'_>, protocol: u8) -> Option<u8> {
    if protocol != protocol::TCP {
        return None;
    }
    Some(match packet.tcp_flags(SYN | FIN | RST) {
        flags if flags & SYN == 0 => flags,
        _ => packet.tcp_flags(SYN | FIN | RST | ACK),
    })
}

/// Only of packets that no rule meets is more looked at than the ends.
fn nature(packet: &mut Recorded<'_>) -> Nature {
    if packet.is_plain() {
        return Nature::Ends;
    }
    let layout = &packet.quote().layout;
    match (layout.network, layout.fragment, layout.transport) {
        (Network::None, ..) => Nature::NotIp,
        (_, Fragment::First | Fragment::Later, _) => Nature::Fragment,
        (_, _, Transport::Icmp | Transport::Icmp6) if layout.inner.is_some() => Nature::Error,
        _ => Nature::Ends,
    }
}

fn quoted(packet: &Packet) -> Option<(Endpoint, Endpoint, u8)> {
    let (bytes, layout) = (packet.bytes(), &packet.layout);
    let source = fields::inner_source(bytes, layout)?;
    let destination = fields::inner_destination(bytes, layout)?;
    Some((source, destination, layout.inner?.protocol))
}

impl RuleFunction for RuleBalancer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn start(&mut self, now: Instant) {
        self.started = now;
        self.prepared.backends.start(now);
    }

    fn handle(&mut self, packet: &mut Recorded<'_>, now: Instant, _: &mut Answers<'_>) -> Verdict {
        let done = match nature(packet) {
            Nature::NotIp => Ok(()),
            Nature::Fragment => return self.fragment(packet),
            Nature::Error => self.error(packet, now),
            Nature::Ends => match self.prepared.course(packet) {
                Course::ToService(service) => self.serve_client(packet, service, now),
                Course::FromBackend(row) => self.serve_backend(packet, row, now),
                Course::FromService(service) => self.pass_answer(packet, service, now),
                Course::Past => {
                    packet.depends_on(PASSING, None);
                    Ok(())
                }
            },
        };
        match done {
            Ok(()) => Verdict::Forward,
            Err(verdict) => verdict,
        }
    }

    fn credit(&mut self, entry: u32, hits: &Hits) {
        if entry & CONNECTION != 0
            && let Some(known) = self.connections.at_mut(entry & !CONNECTION)
        {
            known.last = known.last.max(hits.last);
        }
    }

    fn each_expired(&mut self, now: Instant, each: &mut dyn FnMut(u32)) {
        for number in self.connections.sweep(SWEEP) {
            if self.is_expired(number, now) {
                each(CONNECTION | number);
            }
        }
    }

    fn forget(&mut self, entry: u32, now: Instant) {
        let number = entry & !CONNECTION;
        if entry & CONNECTION != 0 && self.is_expired(number, now) {
            self.remove(number);
        }
    }

    fn reads_payload(&self) -> bool {
        false
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("connections", self.connections.len() as u64);
        each("new_connections", self.counters.new_connections);
        each("picked_up", self.counters.picked_up);
        each("reassigned", self.counters.reassigned);
        each("without_backend", self.counters.without_backend);
        each("not_picked_up", self.counters.not_picked_up);
        each("connections_exhausted", self.counters.exhausted);
        each("errors_translated", self.counters.errors_translated);
        each("unexpected_replies", self.counters.unexpected_replies);
        self.prepared.backends.counters(each);
    }
}
