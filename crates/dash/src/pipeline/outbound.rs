//! Packets from an ENI's machine to the network, and to a floating NIC from outside: route, backend of a load balancer, mapping, port map,
//! tunnel, NAT gateway.

use twinpath_core::wire::tunnel::Encapsulation;
use twinpath_core::wire::unicast::check_host;
use twinpath_core::wire::{Address, Endpoint, protocol};

use super::action::{Action, Layer, Origin, PolicyDecision, tunnel_names};
use super::arrival::Arrival;
use super::inbound;
use super::notes::Note;
use super::policy::{Policies, joined};
use crate::headers::{Direction, Headers};
use crate::objects::{
    EniMode, MeterBits, PortMapRange, PortRange, PrivateLink, RoutingType, ServiceTunnel,
};
use crate::reason::Reason;
use crate::tables::{FoundMapping, PortMapTable, RouteEntry, RouteKind, RoutingEntry, epochs};

/// Where a packet is sent, before answers are thought of.
struct Target {
    action: Action,
    metering: MeterBits,
    mapping_epoch: Option<u16>,
    /// The tunnel around it: the mapping's, or else the route's.
    tunnel: Option<u32>,
    /// VNIs that answers may come with.
    answered_with: [Option<u32>; 2],
    /// Ports of which it gets one.
    source_ports: Option<PortRange>,
}

pub(super) fn decide(
    policies: &Policies<'_>,
    arrival: &Arrival,
    (metering, admitted_by): (MeterBits, Option<u16>),
) -> Result<PolicyDecision, Reason> {
    let is_to_machine = arrival.way == Direction::Inbound;
    if is_to_machine {
        inbound::solicited(policies, arrival)?;
    }
    let planner = Planner {
        policies,
        arrival,
        is_to_machine,
    };
    let way = planner.way(arrival.headers.destination)?;
    if is_to_machine && way.action.addresses.is_some() {
        let why = || "from outside to where the machine alone may go".to_owned();
        return Err(policies.unsupported(why));
    }
    let (reverse, back_by) = undone(policies, arrival, &way)?;
    let epochs = [admitted_by, way.mapping_epoch, back_by];
    let answers = answers(&arrival.headers, &way.action);
    let forward = Action {
        source_mac: policies.source_mac(),
        accepts: [Some(arrival.key), None],
        ..way.action
    };
    let metering = joined(metering, way.metering);
    let far_end = match is_to_machine {
        true => arrival.headers.source,
        false => arrival.headers.destination,
    };
    Ok(PolicyDecision {
        forward,
        reverse,
        answers,
        meter_class: policies.meter_class(metering, far_end),
        mapping_epoch: epochs.into_iter().fold(None, epochs::joined),
        source_ports: way.source_ports,
    })
}

/// What headers an answer to a changed packet has.
fn answers(headers: &Headers, action: &Action) -> Headers {
    let [source, destination] = action
        .addresses
        .unwrap_or([headers.source, headers.destination]);
    let is_translated = source.is_v4() != headers.is_v4();
    let sent = Headers {
        source,
        destination,
        ports: headers.ports.map(|[from, to]| {
            [
                action.source_port.unwrap_or(from),
                action.destination_port.unwrap_or(to),
            ]
        }),
        protocol: match (is_translated, headers.protocol) {
            (true, protocol::ICMP) => protocol::ICMP6,
            (_, other) => other,
        },
    };
    sent.turned()
}

/// What is done to answers, so that who opened the flow gets them as if nothing had been changed; and the
/// epoch of the mapping that they follow.
fn undone(
    policies: &Policies<'_>,
    arrival: &Arrival,
    way: &Target,
) -> Result<(Action, Option<u16>), Reason> {
    let headers = &arrival.headers;
    let mut action = Action {
        addresses: way
            .action
            .addresses
            .map(|_| [headers.destination, headers.source]),
        source_port: way
            .action
            .destination_port
            .and_then(|_| headers.ports.map(|[_, destination]| destination)),
        destination_port: way
            .action
            .source_port
            .and_then(|_| headers.ports.map(|[source, _]| source)),
        accepts: way.answered_with,
        origin: Some(Origin::of(arrival)),
        ..Action::default()
    };
    if policies.eni.mode == EniMode::Vm {
        action.layers = [Some(policies.layer_to_machine()?), None];
        return Ok((action, None));
    }
    action.source_mac = Some(policies.eni.mac);
    action.destination_mac = Some(arrival.source_mac);
    if arrival.way == Direction::Inbound {
        action.layers = [Some(policies.layer_to_sender(arrival)?), None];
        return Ok((action, None));
    }
    // If answers find no way they go to the host: nothing of it is dropped.
    let untold = Policies {
        notes: None,
        ..*policies
    };
    let planner = Planner {
        policies: &untold,
        arrival,
        is_to_machine: true,
    };
    let back = planner.way(headers.source);
    let epoch = match &back {
        Ok(back) => back.mapping_epoch,
        // No mapping was looked at.
        Err(Reason::RouteGroupMiss | Reason::RouteMiss) => None,
        Err(_) => Some(epochs::ANY),
    };
    action.layers = match back {
        Ok(back) if back.action.addresses.is_none() => back.action.layers,
        _ => [Some(policies.layer_to_machine()?), None],
    };
    Ok((action, epoch))
}

struct Planner<'a> {
    policies: &'a Policies<'a>,
    arrival: &'a Arrival,
    /// Answers go this way, or what comes from outside: they are neither balanced nor hidden.
    is_to_machine: bool,
}

impl Planner<'_> {
    /// The way to a destination.
    fn way(&self, destination: Address) -> Result<Target, Reason> {
        let routes = self.policies.eni.routes.as_ref();
        let routes = routes.ok_or(Reason::RouteGroupMiss)?;
        let route = routes.lookup(destination);
        self.policies.note(|| {
            let action = match route.map(|route| &route.action) {
                None => "no route: dropped".to_owned(),
                Some(RouteKind::Drop) => "drop".to_owned(),
                Some(RouteKind::Direct) => "direct".to_owned(),
                Some(RouteKind::Vnet { vnet, overlay_ip }) => {
                    let looked_up = overlay_ip.unwrap_or(destination);
                    let vnet = self.policies.tables.vnet_name(*vnet);
                    format!("to network {vnet}, mapping of {looked_up}")
                }
                Some(RouteKind::ServiceTunnel(_)) => "service tunnel".to_owned(),
            };
            let entry = self.policies.tables.route_in_words(routes, destination);
            Note::new("outbound routing", entry, action)
        });
        let route = route.ok_or(Reason::RouteMiss)?;
        let mut way = match route.action {
            RouteKind::Drop => return Err(Reason::RouteDrop),
            RouteKind::Direct => self.direct(route)?,
            RouteKind::Vnet {
                vnet,
                overlay_ip: Some(looked_up),
            } => self.by_mapping(route, vnet, looked_up)?,
            RouteKind::Vnet { vnet, .. } => match self.backend(vnet, destination) {
                Some(backend) => self.balanced(route, vnet, backend)?,
                None => self.by_mapping(route, vnet, destination)?,
            },
            RouteKind::ServiceTunnel(addresses) => self
                .service_tunnel(route, &addresses)
                .map_err(|reason| self.with_version(reason))?,
        };
        if let Some(number) = way.tunnel {
            self.add_tunnel(&mut way, number)?;
        }
        Ok(way)
    }

    /// To the underlay as it is, but for what tunnels and NAT gateways do.
    fn direct(&self, route: &RouteEntry) -> Result<Target, Reason> {
        let way = self.hidden(Target::new(route))?;
        if route.tunnel.is_none() {
            let headers = &self.arrival.headers;
            let unchanged = [headers.source, headers.destination];
            self.check_chosen(&way.action.addresses.unwrap_or(unchanged))?;
        }
        Ok(way)
    }

    /// Nobody speaks to the DPU itself by an underlay address of its own choice, nor to others in the DPU's name:
    /// headers inside would be taken for the underlay's, and its sender be whoever it says. Nor does anybody speak
    /// to groups of the underlay, as its routers do.
    fn check_chosen(&self, chosen: &[Address]) -> Result<(), Reason> {
        let own = self.policies.tables.appliance().sip;
        if own.is_some_and(|own| chosen.contains(&own)) {
            return Err(Reason::OwnAddress);
        }
        match chosen.iter().all(|address| check_host(*address).is_ok()) {
            true => Ok(()),
            false => Err(Reason::Martian),
        }
    }

    /// Who of those behind an address gets the packet: whoever has got its flow, if it is still one of
    /// them.
    fn backend(&self, vnet: u32, vip: Address) -> Option<Endpoint> {
        let (headers, tables) = (&self.arrival.headers, self.policies.tables);
        let [_, port] = headers.ports.filter(|_| !self.is_to_machine)?;
        let vip = Endpoint::new(vip, port);
        let backends = tables.backends(vnet, vip, headers.protocol)?;
        let kept = self.arrival.backend;
        let kept = kept.filter(|backend| backends.contains(backend));
        let spread = tables.spread_of(headers, self.arrival.entropy);
        let backend = kept.or_else(|| spread.choose(backends, |end| *end).copied())?;
        self.policies.note(|| {
            let entry = format!("{vip} in network {}", tables.vnet_name(vnet));
            let of = backends.len();
            Note::new("load balancer", entry, format!("to {backend}, one of {of}"))
        });
        Some(backend)
    }

    /// To a backend, as its mapping says.
    fn balanced(&self, route: &RouteEntry, vnet: u32, backend: Endpoint) -> Result<Target, Reason> {
        let mut way = self.by_mapping(route, vnet, backend.address)?;
        let source = self.arrival.headers.source;
        if way.action.addresses.is_some() || source.is_v4() != backend.address.is_v4() {
            let why = || {
                let what = "a private endpoint, or of another IP version than the packet";
                format!("backend {backend} is {what}")
            };
            return Err(self.policies.unsupported(why));
        }
        way.action.addresses = Some([source, backend.address]);
        way.action.destination_port = Some(backend.port);
        Ok(way)
    }

    /// Behind the endpoints of the ENI's NAT gateway, if it has some of the packet's IP version.
    fn hidden(&self, mut way: Target) -> Result<Target, Reason> {
        let headers = &self.arrival.headers;
        let nat = self
            .policies
            .eni
            .nat
            .filter(|nat| !self.is_to_machine && nat.address.is_v4() == headers.is_v4());
        let Some(nat) = nat else { return Ok(way) };
        self.policies.note(|| {
            let action = format!("{}, one of ports {}", nat.address, nat.ports);
            Note::new("NAT gateway", format!("source {}", headers.source), action)
        });
        // Which of ICMP are echoes is told by the flow's key.
        let is_icmp = matches!(headers.protocol, protocol::ICMP | protocol::ICMP6);
        if headers.ports.is_none() && !is_icmp {
            return Err(Reason::NatProtocol);
        }
        way.action.addresses = Some([nat.address, headers.destination]);
        way.action.source_port = Some(nat.ports.first());
        way.source_ports = Some(nat.ports);
        Ok(way)
    }

    fn by_mapping(
        &self,
        route: &RouteEntry,
        vnet: u32,
        looked_up: Address,
    ) -> Result<Target, Reason> {
        let tables = self.policies.tables;
        let mapping = tables.mappings().lookup(vnet, looked_up);
        self.policies.note(|| {
            let entry = format!("{looked_up} in network {}", tables.vnet_name(vnet));
            let action = mapping.map_or_else(
                || "no mapping: dropped".to_owned(),
                |found| format!("{} to {}", found.profile.routing_type, found.underlay),
            );
            Note::new("CA to PA mapping", entry, action)
        });
        let mapping = mapping.ok_or(Reason::MappingMiss)?;
        let entry = self.routing_type(mapping.profile.routing_type)?;
        self.note_routing_type(mapping.profile.routing_type, entry);
        let mut way = Target::new(route);
        way.mapping_epoch = Some(tables.epoch_of_mapping(vnet, looked_up));
        way.metering.or |= mapping.profile.metering_class_or;
        way.action.destination_mac = mapping.mac;
        let far = tables.vni(vnet).ok_or(Reason::Unresolved)?;
        let own = tables
            .vni(self.policies.eni.vnet)
            .ok_or(Reason::Unresolved)?;
        let key = if mapping.profile.use_dst_vni {
            far
        } else {
            own
        };
        let mut underlay = mapping.underlay;
        let source = match mapping.profile.private_link {
            Some(addresses) => {
                self.private_link(&mut way, &mapping, &addresses, &mut underlay)?;
                let listed = route.underlay_sip.or(self.policies.eni.pl_underlay_sip);
                listed.map_or_else(|| self.policies.own_address(), Ok)?
            }
            None => self.policies.own_address()?,
        };
        self.encapsulate(&mut way, entry, key, source, underlay)?;
        way.answered_with = [Some(far), way.action.layers[0].map(|layer| layer.key)];
        way.tunnel = mapping.profile.tunnel.or(route.tunnel);
        Ok(way)
    }

    fn note_routing_type(&self, kind: RoutingType, entry: &RoutingEntry) {
        self.policies
            .note(|| Note::new("routing type", kind.to_string(), in_words(kind, entry)));
    }

    fn routing_type(&self, kind: RoutingType) -> Result<&RoutingEntry, Reason> {
        let entry = self.policies.tables.routing_type(kind);
        let entry = entry.ok_or(Reason::Unresolved)?;
        match entry {
            RoutingEntry { drops: true, .. } => Err(Reason::RouteDrop),
            RoutingEntry {
                is_unsupported: true,
                ..
            } => Err(self.policies.unsupported(|| {
                format!("routing type {kind} has a routing appliance, or more than two tunnels")
            })),
            _ => Ok(entry),
        }
    }

    /// From IPv4 to the IPv6 addresses of a private endpoint, or of the backend that its port map has
    /// for the destination port.
    fn private_link(
        &self,
        way: &mut Target,
        mapping: &FoundMapping<'_>,
        addresses: &PrivateLink,
        underlay: &mut Address,
    ) -> Result<(), Reason> {
        let headers = &self.arrival.headers;
        let ends = ipv4_ends(headers).map_err(|reason| self.with_version(reason));
        let (source, destination) = ends?;
        let encoding = self.policies.eni.pl_sip_encoding;
        let source = encoding.over(addresses.overlay_sip.over(source));
        let mut destination = addresses.overlay_dip.over(destination);
        self.policies.note(|| {
            let entry = format!(
                "source {}, destination {}",
                addresses.overlay_sip, addresses.overlay_dip
            );
            let [from, to] = [source, destination].map(Address);
            Note::new("private link", entry, format!("from {from} to {to}"))
        });
        if let Some(number) = mapping.profile.port_map {
            let map = self.policies.tables.port_map(number);
            let map = map.ok_or(Reason::PortMapMiss)?;
            let port = headers.ports.map(|[_, destination]| destination);
            self.note_port_map(map, port);
            match port.and_then(|port| Some((port, map.lookup(port)?))) {
                Some((
                    port,
                    (
                        first,
                        PortMapRange::PrivateLinkService {
                            backend_ip,
                            backend_port_base,
                        },
                    ),
                )) => {
                    *underlay = backend_ip;
                    destination = destination & !0xffff_ffff | backend_ip.0 & 0xffff_ffff;
                    // None goes beyond the last port: such a range is impossible.
                    way.action.destination_port =
                        Some(backend_port_base.wrapping_add(port - first));
                }
                Some((_, (_, PortMapRange::SkipMapping))) => {}
                None if self.policies.settings.port_map_must_match => {
                    return Err(Reason::PortRangeMiss);
                }
                None => {}
            }
        }
        way.set_addresses(source, destination).map_err(|_| {
            let why = || "an inner address of IPv4 in an IPv6 header".to_owned();
            self.policies.unsupported(why)
        })
    }

    fn note_port_map(&self, map: &PortMapTable, port: Option<u16>) {
        self.policies.note(|| {
            let id = map.id();
            let entry = port.map_or_else(
                || format!("{id}: no destination port"),
                |port| format!("{id}: destination port {port}"),
            );
            let range = port.and_then(|port| map.lookup(port));
            let keeps = "the mapping's endpoint";
            let action = match range {
                None if self.policies.settings.port_map_must_match => "no range: dropped".into(),
                None => format!("no range: {keeps}"),
                Some((first, PortMapRange::SkipMapping)) => {
                    format!("range from {first}: {keeps}")
                }
                Some((
                    first,
                    PortMapRange::PrivateLinkService {
                        backend_ip,
                        backend_port_base,
                    },
                )) => {
                    format!("range from {first}: to {backend_ip}, ports from {backend_port_base}")
                }
            };
            Note::new("port map", entry, action)
        });
    }

    /// Says so if a packet of IPv6 came where IPv4 becomes IPv6, which is why nothing can be done.
    fn with_version(&self, reason: Reason) -> Reason {
        match reason == Reason::Unsupported && !self.arrival.headers.is_v4() {
            true => {
                let why = || "a packet of IPv6, where IPv4 becomes IPv6".to_owned();
                self.policies.unsupported(why)
            }
            false => reason,
        }
    }

    fn service_tunnel(
        &self,
        route: &RouteEntry,
        addresses: &ServiceTunnel,
    ) -> Result<Target, Reason> {
        let headers = &self.arrival.headers;
        let (source, destination) = ipv4_ends(headers)?;
        let mut way = Target::new(route);
        let source = addresses.overlay_sip.over(source);
        let destination = addresses.overlay_dip.over(destination);
        self.policies.note(|| {
            let entry = format!(
                "source {}, destination {}",
                addresses.overlay_sip, addresses.overlay_dip
            );
            let [from, to] = [source, destination].map(Address);
            Note::new("service tunnel", entry, format!("from {from} to {to}"))
        });
        way.set_addresses(source, destination)?;
        let entry = match self
            .policies
            .tables
            .routing_type(RoutingType::ServiceTunnel)
        {
            Some(_) => *self.routing_type(RoutingType::ServiceTunnel)?,
            None => RoutingEntry::default(),
        };
        self.note_routing_type(RoutingType::ServiceTunnel, &entry);
        let own = self.policies.own_address()?;
        if addresses.underlay_dip.is_none() {
            self.check_chosen(&[headers.destination])?;
        }
        let key = self.policies.tables.vni(self.policies.eni.vnet);
        self.encapsulate(
            &mut way,
            &entry,
            key.ok_or(Reason::Unresolved)?,
            addresses.underlay_sip.unwrap_or(own),
            addresses.underlay_dip.unwrap_or(headers.destination),
        )?;
        way.answered_with = [way.action.layers[0].map(|layer| layer.key), None];
        Ok(way)
    }

    /// The headers of a routing type, all to the same place; VXLAN if it says none.
    fn encapsulate(
        &self,
        way: &mut Target,
        entry: &RoutingEntry,
        key: u32,
        source: Address,
        destination: Address,
    ) -> Result<(), Reason> {
        let layer = |(encapsulation, own_key): (Encapsulation, Option<u32>)| {
            self.policies.checked(Layer {
                encapsulation,
                key: own_key.unwrap_or(key),
                source,
                destination,
            })
        };
        let first = entry.layers[0].unwrap_or((Encapsulation::Vxlan, None));
        way.action.layers[0] = Some(layer(first)?);
        way.action.layers[1] = entry.layers[1].map(layer).transpose()?;
        Ok(())
    }

    /// A tunnel around what is there, to the endpoint that the flow's hash says.
    fn add_tunnel(&self, way: &mut Target, number: u32) -> Result<(), Reason> {
        let tunnel = self.policies.tables.tunnel(number);
        let tunnel = tunnel.ok_or(Reason::Unresolved)?;
        let (tables, arrival) = (self.policies.tables, self.arrival);
        let endpoint = tunnel.endpoint(&tables.spread_of(&arrival.headers, arrival.entropy));
        self.policies.note(|| {
            let action = endpoint.map_or_else(
                || "no endpoint: dropped".to_owned(),
                |endpoint| {
                    let [name, number] = tunnel_names(tunnel.encapsulation);
                    format!("{name} to {endpoint}, {number} {}", tunnel.key)
                },
            );
            Note::new("tunnel", tables.tunnel_name(number), action)
        });
        let layer = self.policies.checked(Layer {
            encapsulation: tunnel.encapsulation,
            key: tunnel.key,
            source: self.policies.own_address()?,
            destination: endpoint.ok_or(Reason::Unresolved)?,
        })?;
        let free = way.action.layers.iter_mut().find(|place| place.is_none());
        let third = || "a third tunnel around the packet: two at most".to_owned();
        *free.ok_or_else(|| self.policies.unsupported(third))? = Some(layer);
        way.metering.or |= tunnel.metering_class_or;
        way.answered_with[1] = way.answered_with[1].or(Some(tunnel.key));
        Ok(())
    }
}

impl Target {
    const fn new(route: &RouteEntry) -> Self {
        Self {
            action: Action {
                addresses: None,
                source_port: None,
                destination_port: None,
                source_mac: None,
                destination_mac: None,
                layers: [None; 2],
                accepts: [None; 2],
                origin: None,
                detour: None,
            },
            metering: route.metering,
            mapping_epoch: None,
            tunnel: route.tunnel,
            answered_with: [None; 2],
            source_ports: None,
        }
    }

    fn set_addresses(&mut self, source: u128, destination: u128) -> Result<(), Reason> {
        let addresses = [source, destination].map(Address);
        // No packet has IPv4's addresses in an IPv6 header.
        if addresses.iter().any(|address| address.is_v4()) {
            return Err(Reason::Unsupported);
        }
        self.action.addresses = Some(addresses);
        Ok(())
    }
}

/// What a routing type's actions come to, in words.
fn in_words(kind: RoutingType, entry: &RoutingEntry) -> String {
    let mut parts = Vec::new();
    if entry.drops {
        parts.push("drop".to_owned());
    }
    // Whether the type says so or not.
    if matches!(kind, RoutingType::PrivateLink | RoutingType::ServiceTunnel) {
        parts.push("IPv4 to IPv6".to_owned());
    }
    for (kind, key) in entry.layers.into_iter().flatten() {
        let [name, number] = tunnel_names(kind);
        let key = key.map_or_else(String::new, |key| format!(" {number} {key}"));
        parts.push(format!("{name}{key}"));
    }
    match parts.is_empty() {
        true => "as mappings say".into(),
        false => parts.join(", "),
    }
}

/// Both ends of an IPv4 packet as the last 32 bits of IPv6 addresses.
fn ipv4_ends(headers: &Headers) -> Result<(u128, u128), Reason> {
    match headers.is_v4() {
        true => Ok((
            headers.source.0 & 0xffff_ffff,
            headers.destination.0 & 0xffff_ffff,
        )),
        false => Err(Reason::Unsupported),
    }
}
