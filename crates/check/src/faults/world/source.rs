//! Packets that arrive.

use crate::faults::chain::embedded;
use crate::faults::draw::{self, Draw};
use crate::faults::functions::{
    BEHIND_V6, CLIENTS_V6, EXTERNAL, EXTERNAL_V6, FORBIDDEN, Functions, SERVER_V6,
};
use crate::faults::scenario::{Elements, Kind, Scenario};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use twinpath_control as control;
use twinpath_core::wire::layout::Transport;
use twinpath_core::wire::{Address, Endpoint, PacketBuilder, dissect, fields, rewrite};
use twinpath_node::source::{self as production, Read};
use twinpath_traffic::config::{
    FlowSize, Hosts, KeyValue, PacketSize, Service, Signature, SizeUnit, Tcp,
};
use twinpath_traffic::{TrafficConfig, TrafficError};

/// Where packets come from.
pub struct Source {
    draw: Draw,
    mix: Vec<(Kind, u32)>,
    flows: u64,
    has_favourite: bool,
    generator: Option<production::Source>,
    /// Whether servers answer what comes out.
    answers: bool,
    answer: Option<Vec<u8>>,
    /// Each flow has packets of one direction only.
    is_one_way: bool,
    elements: Elements,
    /// Functions of production stand beside a translation: servers send to who stands outside for
    /// the client.
    is_translated: bool,
    /// Where each packet so far came from, if that is inside.
    clients: Vec<Option<Endpoint>>,
    /// The external endpoints that stand for clients, as far as packets have shown them.
    external: HashMap<Endpoint, Endpoint>,
}

impl Source {
    /// The source of a scenario's packets.
    ///
    /// # Errors
    /// The generator does not like its configuration.
    pub fn new(
        seed: u64,
        scenario: &Scenario,
        service: &control::service::Service,
    ) -> Result<Self, TrafficError> {
        let traffic = &scenario.traffic;
        let generator = match scenario.functions {
            Functions::Ledger | Functions::None => None,
            _ => Some(production::Source::generator(
                &generated(scenario, seed),
                service,
            )?),
        };
        Ok(Self {
            draw: Draw::new(seed, draw::ARRIVALS),
            mix: traffic.mix.clone(),
            flows: u64::from(traffic.flows.max(1)),
            has_favourite: traffic.has_favourite,
            generator,
            answers: scenario.is_balanced(),
            answer: None,
            is_one_way: scenario.elements.have_rules() && scenario.elements.have_state(),
            elements: scenario.elements,
            is_translated: scenario.functions == Functions::Mixed && scenario.elements.translate(),
            clients: Vec::new(),
            external: HashMap::new(),
        })
    }

    /// Packet `number`; `None` if there are no more.
    pub fn next(&mut self, number: u32) -> Option<(Kind, Vec<u8>)> {
        let (kind, mut bytes) = self.made(number)?;
        if self.is_translated {
            self.send_outside(&mut bytes);
        }
        self.clients
            .push(source_of(&bytes).filter(|&end| is_inside(end)));
        Some((kind, bytes))
    }

    fn made(&mut self, number: u32) -> Option<(Kind, Vec<u8>)> {
        if let Some(answer) = self.answer.take() {
            return Some((Kind::Generated, answer));
        }
        let Some(generator) = &mut self.generator else {
            let kind = self.kind();
            return Some((kind, self.ledger_packet(kind, number)));
        };
        match generator.read() {
            Ok(Read::Packet(_)) => Some((Kind::Generated, generator.bytes().to_vec())),
            _ => None,
        }
    }

    /// A packet when all else is over.
    pub fn late(&mut self, number: u32) -> (Kind, Vec<u8>) {
        // Functions of production let those through that open a connection.
        let (kind, flags) = match self.generator.is_some() {
            true => (Kind::Generated, Kind::Complex),
            false => (Kind::Simple, Kind::Simple),
        };
        let bytes = self.ledger_packet(flags, number);
        self.clients
            .push(source_of(&bytes).filter(|&end| is_inside(end)));
        (kind, bytes)
    }

    /// A server sends to a client: to whom it knows.
    fn send_outside(&self, bytes: &mut [u8]) {
        let Ok(layout) = dissect(bytes) else {
            return;
        };
        let client = fields::destination(bytes, &layout);
        if let Some(&external) = self.external.get(&client) {
            let is_written = rewrite::set_destination(bytes, &layout, external);
            debug_assert!(is_written.is_ok(), "both are of one IP version");
        }
    }

    /// A packet has left. Behind a balancer servers answer some: that cannot be generated
    /// beforehand, since only now is it known which server it is. Behind a translation they know
    /// only now for whom it stands.
    pub fn hear(&mut self, number: u32, bytes: &[u8]) {
        let source = source_of(bytes).filter(|&source| is_external(source));
        let client = self.clients.get((number as usize).wrapping_sub(1));
        if let Some((client, source)) = client.copied().flatten().zip(source) {
            self.external.insert(client, source);
        }
        if self.answers && self.answer.is_none() && self.draw.flip() {
            self.answer = answer(bytes);
        }
    }

    fn kind(&mut self) -> Kind {
        let total = self.mix.iter().map(|&(_, weight)| u64::from(weight)).sum();
        let mut place = self.draw.below(total);
        let hit = self.mix.iter().find(|&&(_, weight)| {
            let hit = place < u64::from(weight);
            place = place.saturating_sub(u64::from(weight));
            hit
        });
        hit.map_or(Kind::Simple, |&(kind, _)| kind)
    }

    /// The ends of a packet to a client: from its server, to whom that knows. One of IPv4 knows no other
    /// address of a client over IPv6 than that of a translation.
    fn back(&self, client: Endpoint, server: Endpoint) -> (Endpoint, Endpoint) {
        let known = *self.external.get(&client).unwrap_or(&client);
        let from = match known.address.is_v4() {
            true => Endpoint::new(embedded(server.address), server.port),
            false => server,
        };
        (from, known)
    }

    fn ledger_packet(&mut self, kind: Kind, number: u32) -> Vec<u8> {
        let favoured = self.has_favourite && self.draw.flip();
        let flow = if favoured {
            0
        } else {
            self.draw.below(self.flows)
        };
        let (client, server) = ends(self.elements, flow);
        let is_back = match self.is_one_way {
            true => flow % 2 == 1,
            false => self.draw.one_in(3),
        };
        let (from, to) = if is_back {
            self.back(client, server)
        } else {
            (client, server)
        };
        let payload = self.draw.below(40) as usize;
        let packet = PacketBuilder::tcp(from, to)
            .seq(number)
            .flags(kind.flags())
            .payload_len(payload);
        let mut bytes = packet.to_vec().unwrap_or_default();
        match kind {
            // In the middle of the TCP header.
            Kind::Malformed => bytes.truncate(40),
            // ARP's ether type, then nonsense.
            Kind::NotIp => bytes[12..14].copy_from_slice(&[8, 6]),
            _ => {}
        }
        bytes
    }
}

/// The client and the server of a flow, as the client knows them.
fn ends(elements: Elements, flow: u64) -> (Endpoint, Endpoint) {
    // Some have the same port, which they cannot all have outside.
    let (port, server_port) = (1000 + flow as u16 % 5, 80);
    let server = Address::from_v4([192, 0, 2, 1]);
    if !elements.are_over_v6() {
        let client = Endpoint::v4([10, 0, 0, flow as u8], port);
        return (client, Endpoint::new(server, server_port));
    }
    // In one of a few subnets.
    let client = Address(CLIENTS_V6 | u128::from(flow % 4) << 64 | u128::from(flow + 1));
    let server = match elements.have("nat64") && flow % 3 != 2 {
        true => Address(BEHIND_V6 | u128::from(server.word(3))),
        false => Address(SERVER_V6),
    };
    let server = Endpoint::new(server, server_port);
    (Endpoint::new(client, port), server)
}

/// The packet with its ends swapped; nothing if it is no answer that makes sense.
fn answer(bytes: &[u8]) -> Option<Vec<u8>> {
    let layout = dissect(bytes).ok()?;
    if !matches!(layout.transport, Transport::Tcp | Transport::Udp) {
        return None;
    }
    let (source, destination) = (
        fields::source(bytes, &layout),
        fields::destination(bytes, &layout),
    );
    let mut answer = bytes.to_vec();
    rewrite::set_source(&mut answer, &layout, destination).ok()?;
    rewrite::set_destination(&mut answer, &layout, source).ok()?;
    Some(answer)
}

/// Generated traffic for functions that users run; its own times are not used.
fn generated(scenario: &Scenario, seed: u64) -> TrafficConfig {
    let (functions, traffic) = (scenario.functions, &scenario.traffic);
    // What functions with rules make of fragments and ICMP errors, and of UDP and IPv6 in a
    // translation, is not known here.
    let is_mixed = functions == Functions::Mixed;
    let unless_mixed = |share: f64| if is_mixed { 0.0 } else { share };
    TrafficConfig {
        packets: Some(traffic.packets.into()),
        flows: traffic.flows.into(),
        flow_size: FlowSize::Fixed {
            size: 4 + seed % 60,
            unit: SizeUnit::Packets,
        },
        packet_size: PacketSize::Imix {},
        tcp_share: match is_mixed {
            true => 1.0,
            false => [0.5, 1.0, 0.9][seed as usize % 3],
        },
        tcp: Tcp {
            out_of_order_share: [0.0, 0.05, 0.2][seed as usize / 3 % 3],
            reset_share: 0.2,
            ..Tcp::default()
        },
        fragment_share: unless_mixed(0.05),
        icmp_error_share: match scenario.lets_errors_pass() {
            true => 0.0,
            false => unless_mixed(0.02),
        },
        server_packets: !scenario.is_balanced(),
        hosts: Hosts {
            // There are no balanced services over IPv6 here.
            ipv6_share: match scenario.is_balanced() {
                true => 0.0,
                false => unless_mixed([0.0, 0.3, 1.0][seed as usize / 9 % 3]),
            },
            // With few of them functions with rules know some, and decide about them for themselves.
            clients: if is_mixed {
                24
            } else {
                Hosts::default().clients
            },
            ..hosts()
        },
        // One that is forbidden, and two that together are.
        signatures: [(FORBIDDEN, 0), ("harmless", 0), ("tail", 3)]
            .map(|(text, offset)| Signature {
                text: text.to_owned(),
                offset,
                share: 0.05,
            })
            .to_vec(),
        kv: scenario.have("kv_store").then(|| KeyValue {
            // Beside a store with rules there are others to talk to.
            share: if is_mixed { 0.6 } else { 1.0 },
            get_share: 0.5,
            keys: traffic.flows.into(),
            clients: traffic.flows,
            ..KeyValue::default()
        }),
        ..TrafficConfig::default()
    }
}

fn hosts() -> Hosts {
    let service = |port| Service {
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        port,
        protocol: None,
    };
    Hosts {
        services: vec![service(80), service(80), service(80), service(81)],
        ..Hosts::default()
    }
}

/// Whether an endpoint is one of the clients.
pub fn is_inside(end: Endpoint) -> bool {
    end.address.0 >> 16 & 0xffff == 10 << 8 || is_of(CLIENTS_V6, end)
}

/// Whether an endpoint is of a translation.
pub fn is_external(end: Endpoint) -> bool {
    let mut addresses = EXTERNAL.iter();
    let is_v4 = addresses.any(|&address| end.address == Address::from_v4(address));
    is_v4 || EXTERNAL_V6.iter().any(|&network| is_of(network, end))
}

/// Whether an endpoint is of a network of IPv6, of 48 bits.
fn is_of(network: u128, end: Endpoint) -> bool {
    end.address.0 >> 80 == network >> 80
}

fn source_of(bytes: &[u8]) -> Option<Endpoint> {
    Some(fields::source(bytes, &dissect(bytes).ok()?))
}
