//! The stages straight over the objects, one after the other, as the specification has them: nothing
//! is compiled, nothing is remembered, and every list is read from its beginning.
//!
//! What the outbound packet becomes is told field by field as the documents tell it: `overlay` is the
//! machine's packet, `underlay` the headers put around it.

use twinpath_core::wire::tunnel::Encapsulation;
use twinpath_core::wire::unicast::check_host;
use twinpath_core::wire::{Address, Endpoint, MacAddress, protocol};
use twinpath_dash::headers::Direction;
use twinpath_dash::headers::Headers;
use twinpath_dash::objects::{self, *};
use twinpath_dash::pipeline::Layer;
use twinpath_dash::{Reason, Settings};

use twinpath_dash::samples::Objects;

use super::redirects::{self, RedirectInfo};

/// A packet that has come to an ENI.
#[derive(Clone, Debug)]
pub struct Packet {
    pub direction: Direction,
    pub eni: EniId,
    pub encapsulation: Encapsulation,
    pub vni: u32,
    pub outer_source: Address,
    /// The MAC address of the other end, by direction the destination or the source.
    pub source_mac: MacAddress,
    pub overlay: Headers,
}

/// What leaves, and what of it the specification does not fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub overlay: Headers,
    pub source_mac: Option<MacAddress>,
    pub destination_mac: Option<MacAddress>,
    /// From the inside out. Of a tunnel with several endpoints each may be chosen: its destination is
    /// not in here.
    pub underlay: Vec<Layer>,
    /// Endpoints that the last layer may go to.
    pub endpoints: Vec<Address>,
    /// VNIs that answers may come with, beside that of the ENI's network and those that are trusted.
    pub answered_with: Vec<u32>,
    pub meter_class: u32,
}

/// The stages of one packet.
pub struct Interpreter<'a> {
    pub objects: &'a Objects,
    pub settings: &'a Settings,
    pub packet: &'a Packet,
    /// Which way the machine saw it when it opened a connection, if it did: that stays, wherever the machine
    /// is now.
    pub opened: Option<Direction>,
}

#[derive(Default)]
struct Metadata {
    or: Vec<u32>,
    and: Vec<u32>,
}

impl Interpreter<'_> {
    fn eni(&self) -> &Eni {
        &self.objects.enis[&self.packet.eni]
    }

    fn appliance(&self) -> &Appliance {
        self.objects.appliance.as_ref().expect("a packet has come")
    }

    /// All stages.
    pub fn run(&self) -> Result<Sent, Reason> {
        self.machines_host()?;
        self.trusted_vni()?;
        match (self.packet.direction, self.eni().mode) {
            (Direction::Outbound, _) => {
                self.acl(Direction::Outbound)?;
                self.outbound(Metadata::default())
            }
            // A machine's own interface gets nothing of its machine's.
            (Direction::Inbound, EniMode::Vm) if self.way() == Direction::Outbound => {
                Err(Reason::NoFlow)
            }
            (Direction::Inbound, EniMode::Vm) => {
                self.acl(Direction::Inbound)?;
                let meters = self.inbound_routing()?;
                self.inbound(meters)
            }
            (Direction::Inbound, EniMode::FloatingNic) => {
                let meters = self.inbound_routing()?;
                self.acl(self.way())?;
                match self.way() {
                    Direction::Outbound => self.outbound(meters),
                    Direction::Inbound => self.to_floating_nic(meters),
                }
            }
        }
    }

    /// Which way a packet goes as the machine sees it. Packets of both ways come to a floating NIC as
    /// inbound ones; its machine's come from its host, or with a VNI that was added to the ENI for
    /// those that bring them, and that is nobody else's.
    pub fn way(&self) -> Direction {
        self.opened.unwrap_or_else(|| self.way_now())
    }

    fn way_now(&self) -> Direction {
        let (packet, eni) = (self.packet, self.eni());
        if packet.direction == Direction::Outbound || eni.mode == EniMode::Vm {
            return packet.direction;
        }
        let contains =
            |range: &VniRange| (range.first().get()..=range.last().get()).contains(&packet.vni);
        let is_anybodys =
            self.appliance().trusted_vnis.iter().any(contains) || self.is_network(packet.vni);
        let is_its_own = eni.trusted_vnis.iter().any(contains) && !is_anybodys;
        // Its neighbours on the host may be in other networks.
        let own = self.objects.vnets.get(&eni.vnet).map(|vnet| vnet.vni.get());
        let may_be_its = own == Some(packet.vni) || !self.is_network(packet.vni);
        let is_from_host = eni.underlay_ip == Some(packet.outer_source) && may_be_its;
        match is_from_host || is_its_own {
            true => Direction::Outbound,
            false => Direction::Inbound,
        }
    }

    fn is_network(&self, vni: u32) -> bool {
        let mut vnets = self.objects.vnets.values();
        vnets.any(|vnet| vnet.vni.get() == vni)
    }

    /// What a machine sends comes from its host; where that was when it opened a connection is all one.
    fn machines_host(&self) -> Result<(), Reason> {
        let is_ours = self.packet.direction == Direction::Outbound && self.opened.is_none();
        match self.eni().underlay_ip {
            Some(host)
                if self.settings.check_outbound_source
                    && is_ours
                    && host != self.packet.outer_source =>
            {
                Err(Reason::SpoofedSource)
            }
            _ => Ok(()),
        }
    }

    fn trusted_vni(&self) -> Result<(), Reason> {
        let is_unlisted =
            self.appliance().trusted_vnis.is_empty() && self.eni().trusted_vnis.is_empty();
        let is_ours = self.packet.direction == Direction::Outbound;
        match is_unlisted || is_ours || self.is_listed(self.packet.vni) {
            true => Ok(()),
            false => Err(Reason::UntrustedVni),
        }
    }

    fn is_listed(&self, vni: u32) -> bool {
        let mut listed = self.appliance().trusted_vnis.iter();
        let contains = |range: &VniRange| (range.first().get()..=range.last().get()).contains(&vni);
        listed.any(contains) || self.eni().trusted_vnis.iter().any(contains)
    }

    /// Whether a packet of a flow that is known may come with a VNI. The packet of this interpreter is
    /// the one that opened the flow, `sent` what became of it.
    pub fn accepts(&self, is_answer: bool, vni: u32, sent: &Sent) -> bool {
        let own = self.objects.vnets.get(&self.eni().vnet);
        let of_flow = match is_answer {
            true => sent.answered_with.contains(&vni),
            false => self.packet.vni == vni,
        };
        let is_own = own.is_some_and(|own| own.vni.get() == vni);
        of_flow || is_own || self.is_listed(vni) && !self.is_network(vni)
    }

    /// What is done to answers of a packet that was sent.
    pub fn back(&self) -> Result<Sent, Reason> {
        let packet = self.packet;
        let sent = |underlay: Vec<Layer>| Sent {
            overlay: packet.overlay.turned(),
            source_mac: None,
            destination_mac: None,
            underlay,
            endpoints: Vec::new(),
            answered_with: Vec::new(),
            meter_class: 0,
        };
        match (packet.direction, self.eni().mode) {
            (Direction::Outbound, EniMode::Vm) => Ok(sent(vec![self.to_vm()?])),
            (Direction::Inbound, EniMode::Vm) => Ok(Sent {
                destination_mac: Some(packet.source_mac),
                ..sent(vec![self.to_sender()?])
            }),
            (_, EniMode::FloatingNic) => {
                let (underlay, endpoints) = match self.way() {
                    Direction::Outbound => self.back_by_route()?,
                    Direction::Inbound => (vec![self.to_sender()?], Vec::new()),
                };
                Ok(Sent {
                    source_mac: Some(self.eni().mac_address),
                    destination_mac: Some(match packet.direction {
                        Direction::Outbound => self.eni().mac_address,
                        Direction::Inbound => packet.source_mac,
                    }),
                    endpoints,
                    ..sent(underlay)
                })
            }
        }
    }

    /// What a machine's packets become once a redirect has come about them: the document on the fast path. The
    /// packet of this interpreter opened the flow, `sent` is what a packet of the machine's became before, `came` how
    /// the redirect comes.
    pub fn redirected(
        &self,
        sent: &Sent,
        came: &Packet,
        info: &RedirectInfo,
    ) -> Result<Sent, Reason> {
        let arriving = Interpreter {
            packet: came,
            opened: None,
            ..*self
        };
        // Machines are no load balancers.
        if arriving.way() == Direction::Outbound {
            return Err(Reason::ForgedRedirect);
        }
        let is_public = sent.underlay.is_empty();
        let fastpath_key = if is_public { 0xfd } else { 0xfe };
        if came.encapsulation != Encapsulation::Nvgre || came.vni != fastpath_key {
            return Err(Reason::FlowVni);
        }
        arriving.trusted_vni()?;
        self.is_balancer(sent, came)
            .then_some(())
            .map_or_else(|| arriving.inbound_routing().map(|_| ()), Ok)?;
        let mut after = sent.clone();
        match after.underlay.first_mut() {
            Some(maintained) => maintained.destination = info.dip_pa,
            None => after.underlay.push(Layer {
                encapsulation: match info.encap_type {
                    redirects::NVGRE => Encapsulation::Nvgre,
                    redirects::VXLAN => Encapsulation::Vxlan,
                    _ => return Err(Reason::Unsupported),
                },
                key: info.encap_id,
                source: sent.overlay.source,
                destination: info.dip_pa,
            }),
        }
        if after.underlay.len() == 1 {
            after.endpoints.clear();
        }
        after.destination_mac = Some(info.vm_mac);
        let layer = after.underlay[0];
        let is_own = [layer.source, self.appliance().sip].contains(&info.dip_pa);
        let is_group = info.vm_mac.0[0] & 1 == 1 || info.dip_pa.octets4()[0] >= 224;
        if is_own || is_group {
            return Err(Reason::ForgedRedirect);
        }
        same_version(layer)?;
        let is_unlisted =
            self.appliance().trusted_vnis.is_empty() && self.eni().trusted_vnis.is_empty();
        let may_be_told = is_unlisted || self.is_listed(layer.key);
        if is_public && (!may_be_told || self.is_network(layer.key)) {
            return Err(Reason::UntrustedVni);
        }
        Ok(after)
    }

    /// Whether a redirect needs no inbound rule: it comes from where packets were sent, or with a key of which it is
    /// listed, and not said otherwise, that balancers alone have it.
    fn is_balancer(&self, sent: &Sent, came: &Packet) -> bool {
        let was_sent_to = match sent.underlay.first() {
            Some(layer) => layer.destination,
            None => sent.overlay.destination,
        };
        let mut rules = self.objects.route_rules.iter();
        let has_rules = rules.any(|(key, _)| key.eni == came.eni && key.vni.get() == came.vni);
        let is_listed = self.is_listed(came.vni) && !self.is_network(came.vni);
        came.outer_source == was_sent_to || is_listed && !has_rules
    }

    /// The tunnel that a packet from outside came by, the other way round.
    fn to_sender(&self) -> Result<Layer, Reason> {
        same_version(Layer {
            encapsulation: self.packet.encapsulation,
            key: self.packet.vni,
            source: self.appliance().sip,
            destination: self.packet.outer_source,
        })
    }

    fn acl(&self, direction: Direction) -> Result<(), Reason> {
        let denied = match direction {
            Direction::Outbound => Reason::AclOutbound,
            Direction::Inbound => Reason::AclInbound,
        };
        let mut permitted = true;
        for stage in 1..=5 {
            let key = (
                self.packet.eni.clone(),
                direction,
                AclStage::new(stage).expect("1 to 5"),
            );
            let Some(binding) = self.objects.bindings.get(&key) else {
                continue;
            };
            let group = match self.packet.overlay.source.is_v4() {
                true => &binding.v4,
                false => &binding.v6,
            };
            let Some(group) = group else {
                continue;
            };
            if self.is_passed_over(group) {
                continue;
            }
            let Some(rule) = self.acl_rule(group) else {
                return Err(denied);
            };
            permitted = rule.action == AclAction::Permit;
            if rule.terminating {
                break;
            }
        }
        if permitted { Ok(()) } else { Err(denied) }
    }

    /// Whether a group without rules is as good as none.
    fn is_passed_over(&self, group: &AclGroupId) -> bool {
        let group = self.objects.acl_groups.get(group);
        let is_empty = group.is_none_or(|(_, rules)| rules.is_empty());
        is_empty && !self.settings.empty_acl_denies
    }

    /// The rule with the lowest priority number that matches.
    fn acl_rule(&self, group: &AclGroupId) -> Option<&AclRule> {
        let (group, rules) = self.objects.acl_groups.get(group)?;
        if (group.ip_version == IpVersion::V4) != self.packet.overlay.source.is_v4() {
            return None;
        }
        let mut best: Option<&AclRule> = None;
        for rule in rules.values() {
            let is_better = best.is_none_or(|best| rule.priority < best.priority);
            if is_better && self.acl_rule_matches(rule) {
                best = Some(rule);
            }
        }
        best
    }

    fn acl_rule_matches(&self, rule: &AclRule) -> bool {
        let overlay = &self.packet.overlay;
        let mut sources: Vec<_> = rule.src_addr.iter().collect();
        let mut destinations: Vec<_> = rule.dst_addr.iter().collect();
        for (tags, prefixes) in [
            (&rule.src_tag, &mut sources),
            (&rule.dst_tag, &mut destinations),
        ] {
            for tag in tags {
                // A rule waits for its tags, all of it: it is not in force without one.
                let tag = self.objects.tags.get(tag).expect("a tag that is there");
                prefixes.extend(tag.prefixes.iter());
            }
        }
        let any_source = rule.src_addr.is_empty() && rule.src_tag.is_empty();
        let any_destination = rule.dst_addr.is_empty() && rule.dst_tag.is_empty();
        let in_ports = |ranges: &[PortRange], port: Option<u16>| {
            let contains = |port| {
                ranges
                    .iter()
                    .any(|range| range.first() <= port && port <= range.last())
            };
            ranges.is_empty() || port.is_some_and(contains)
        };
        (any_source || sources.iter().any(|prefix| prefix.includes(overlay.source)))
            && (any_destination
                || destinations
                    .iter()
                    .any(|prefix| prefix.includes(overlay.destination)))
            && in_ports(&rule.src_port, overlay.ports.map(|ports| ports[0]))
            && in_ports(&rule.dst_port, overlay.ports.map(|ports| ports[1]))
            && (rule.protocols.is_empty() || rule.protocols.contains(&overlay.protocol))
    }

    fn inbound_routing(&self) -> Result<Metadata, Reason> {
        let packet = self.packet;
        let mut matching: Vec<_> = self
            .objects
            .route_rules
            .iter()
            .filter(|(key, rule)| {
                key.eni == packet.eni
                    && key.vni.get() == packet.vni
                    && key.source.includes(packet.outer_source)
                    && (rule.protocol.unwrap_or(0) == 0
                        || rule.protocol == Some(packet.overlay.protocol))
            })
            .collect();
        matching.sort_by_key(|(key, rule)| {
            (
                rule.priority,
                u8::MAX - key.source.length(),
                rule.protocol.unwrap_or(0) == 0,
            )
        });
        let (_, rule) = matching.first().ok_or(Reason::InboundRouteMiss)?;
        if rule.action == InboundAction::Drop {
            return Err(Reason::InboundRouteDrop);
        }
        if rule.pa_validation.unwrap_or(rule.vnet.is_some()) {
            let vnet = rule.vnet.as_ref().unwrap_or(&self.eni().vnet);
            self.pa_validation(vnet)?;
        }
        Ok(Metadata {
            or: vec![rule.metering.or],
            and: vec![rule.metering.and],
        })
    }

    fn pa_validation(&self, vnet: &VnetName) -> Result<(), Reason> {
        let source = self.packet.outer_source;
        let mapped = self
            .objects
            .mappings
            .iter()
            .any(|((name, _), mapping)| name == vnet && mapping.underlay_ip == source);
        let listed = Vni::new(self.packet.vni)
            .and_then(|vni| self.objects.pa_validation.get(&vni))
            .is_some_and(|listed| listed.prefixes.includes(source));
        match mapped || listed {
            true => Ok(()),
            false => Err(Reason::PaValidation),
        }
    }

    /// Nobody outside opens a connection to an external endpoint.
    fn solicited(&self) -> Result<(), Reason> {
        let destination = self.packet.overlay.destination;
        match self.external() {
            Some((own, _)) if own == destination => Err(Reason::NatUnsolicited),
            _ => Ok(()),
        }
    }

    /// What comes from outside goes to the machine by the routes that answers to it take. Services are
    /// for the machine alone: nobody else gets through its interface to whom they lead.
    fn to_floating_nic(&self, mut meters: Metadata) -> Result<Sent, Reason> {
        self.solicited()?;
        let sent = self.route(&mut meters, true)?;
        if sent.overlay != self.packet.overlay {
            return Err(Reason::Unsupported);
        }
        self.back()?;
        Ok(Sent {
            source_mac: Some(self.eni().mac_address),
            meter_class: self.metering(&meters, self.packet.overlay.source),
            ..sent
        })
    }

    fn inbound(&self, meters: Metadata) -> Result<Sent, Reason> {
        self.solicited()?;
        let underlay = vec![self.to_vm()?];
        self.back()?;
        Ok(Sent {
            overlay: self.packet.overlay,
            source_mac: None,
            destination_mac: None,
            underlay,
            endpoints: Vec::new(),
            answered_with: Vec::new(),
            meter_class: self.metering(&meters, self.packet.overlay.source),
        })
    }

    fn to_vm(&self) -> Result<Layer, Reason> {
        let key = self.appliance().vm_vni.ok_or(Reason::Unsupported)?.get();
        let destination = self.eni().underlay_ip.ok_or(Reason::Unsupported)?;
        same_version(Layer {
            encapsulation: Encapsulation::Vxlan,
            key,
            source: self.appliance().sip,
            destination,
        })
    }

    fn metering(&self, meters: &Metadata, far_end: Address) -> u32 {
        let or = meters.or.iter().fold(0, |all, bits| all | bits);
        let and = meters.and.iter().fold(u32::MAX, |all, bits| all & bits);
        if or & and != 0 {
            return or & and;
        }
        let policy = match far_end.is_v4() {
            true => &self.eni().v4_meter_policy,
            false => &self.eni().v6_meter_policy,
        };
        let Some((policy, rules)) = policy
            .as_ref()
            .and_then(|name| self.objects.meter_policies.get(name))
        else {
            return 0;
        };
        if (policy.ip_version == IpVersion::V4) != far_end.is_v4() {
            return 0;
        }
        let covering = rules
            .iter()
            .filter(|(_, rule)| rule.prefix.includes(far_end));
        let first = covering
            .min_by_key(|(number, rule)| (rule.priority, u8::MAX - rule.prefix.length(), **number));
        first.map_or(0, |(_, rule)| rule.metering_class)
    }

    fn outbound(&self, mut meters: Metadata) -> Result<Sent, Reason> {
        let mut sent = self.route(&mut meters, false)?;
        sent.meter_class = self.metering(&meters, self.packet.overlay.destination);
        if self.eni().mode == EniMode::FloatingNic {
            sent.source_mac = Some(self.eni().mac_address);
        }
        // What answers come back by must exist, or the connection would be of one direction.
        self.back()?;
        Ok(sent)
    }

    /// A floating NIC's answers follow its routes; where none leads back they go as a machine's do.
    fn back_by_route(&self) -> Result<(Vec<Layer>, Vec<Address>), Reason> {
        let turned = Packet {
            overlay: self.packet.overlay.turned(),
            ..self.packet.clone()
        };
        let back = Interpreter {
            packet: &turned,
            ..*self
        };
        match back.route(&mut Metadata::default(), true) {
            Ok(sent) if sent.overlay == turned.overlay => Ok((sent.underlay, sent.endpoints)),
            _ => Ok((vec![self.to_vm()?], Vec::new())),
        }
    }

    fn route(&self, meters: &mut Metadata, is_back: bool) -> Result<Sent, Reason> {
        let overlay = self.packet.overlay;
        let group = self.objects.eni_routes.get(&self.packet.eni);
        let routes = group
            .and_then(|group| self.objects.route_groups.get(group))
            .ok_or(Reason::RouteGroupMiss)?;
        let covering = routes
            .iter()
            .filter(|(prefix, _)| prefix.includes(overlay.destination));
        let (_, route) = covering
            .max_by_key(|(prefix, _)| prefix.length())
            .ok_or(Reason::RouteMiss)?;
        meters.or.push(route.metering.or);
        meters.and.push(route.metering.and);
        let mut sent = Sent {
            overlay,
            source_mac: None,
            destination_mac: None,
            underlay: Vec::new(),
            endpoints: Vec::new(),
            answered_with: Vec::new(),
            meter_class: 0,
        };
        let mut tunnel = route.tunnel.clone();
        match &route.action {
            RouteAction::Drop => return Err(Reason::RouteDrop),
            RouteAction::Direct => {
                if !is_back {
                    self.nat_gateway(&mut sent)?;
                }
                if tunnel.is_none() {
                    self.check_chosen(&[sent.overlay.source, sent.overlay.destination])?;
                }
            }
            RouteAction::Vnet(vnet)
            | RouteAction::VnetDirect {
                vnet,
                overlay_ip: None,
            } => {
                let backend = self.backend(vnet).filter(|_| !is_back);
                let looked_up = backend.map_or(overlay.destination, |backend| backend.address);
                tunnel = self
                    .map(route, vnet, looked_up, meters, &mut sent)?
                    .or(tunnel);
                if let Some(backend) = backend {
                    if sent.overlay != overlay {
                        return Err(Reason::Unsupported);
                    }
                    sent.overlay.destination = backend.address;
                    sent.overlay.ports = overlay.ports.map(|[from, _]| [from, backend.port]);
                }
            }
            RouteAction::VnetDirect {
                vnet,
                overlay_ip: Some(looked_up),
            } => {
                tunnel = self
                    .map(route, vnet, *looked_up, meters, &mut sent)?
                    .or(tunnel);
            }
            RouteAction::ServiceTunnel(addresses) => self.service_tunnel(addresses, &mut sent)?,
        }
        sent.answered_with
            .extend(sent.underlay.first().map(|layer| layer.key));
        if let Some(name) = tunnel {
            let tunnel = self.objects.tunnels.get(&name).ok_or(Reason::Unresolved)?;
            meters.or.push(tunnel.metering_class_or);
            if sent.underlay.len() == 2 {
                return Err(Reason::Unsupported);
            }
            sent.endpoints = tunnel.endpoints.to_vec();
            if route.action.vnet().is_none() {
                sent.answered_with.push(tunnel.vni.get());
            }
            sent.underlay.push(Layer {
                encapsulation: kind(tunnel.encapsulation),
                key: tunnel.vni.get(),
                source: self.appliance().sip,
                destination: Address::UNSPECIFIED_V6,
            });
        }
        Ok(sent)
    }

    /// Who of those behind an address gets the packet. In tests with this interpreter there is one.
    fn backend(&self, vnet: &VnetName) -> Option<Endpoint> {
        let overlay = &self.packet.overlay;
        let [_, port] = overlay.ports?;
        let mut balancers = self.objects.load_balancers.iter();
        let (_, balancer) = balancers.find(|(key, _)| {
            key.vnet == *vnet
                && key.vip == overlay.destination
                && key.protocol.number() == overlay.protocol
                && key.port == port
        })?;
        assert_eq!(balancer.backends.len(), 1);
        Some(balancer.backends[0])
    }

    /// The ENI's external address and ports. In tests with this interpreter it has one port.
    pub fn external(&self) -> Option<(Address, PortRange)> {
        let nat = self.objects.eni_nats.get(&self.packet.eni)?;
        self.objects.nat_pools.get(&nat.pool)?.block(nat.block)
    }

    fn nat_gateway(&self, sent: &mut Sent) -> Result<(), Reason> {
        let is_v4 = sent.overlay.source.is_v4();
        let Some((address, ports)) = self.external().filter(|(own, _)| own.is_v4() == is_v4) else {
            return Ok(());
        };
        assert_eq!(ports.first(), ports.last());
        match &mut sent.overlay.ports {
            Some([port, _]) => *port = ports.first(),
            // An echo's identifier is changed, which is not told here.
            None if matches!(sent.overlay.protocol, protocol::ICMP | protocol::ICMP6) => {}
            None => return Err(Reason::NatProtocol),
        }
        sent.overlay.source = address;
        Ok(())
    }

    fn map(
        &self,
        route: &Route,
        vnet: &VnetName,
        looked_up: Address,
        meters: &mut Metadata,
        sent: &mut Sent,
    ) -> Result<Option<TunnelName>, Reason> {
        let mapping = self
            .objects
            .mappings
            .get(&(vnet.clone(), looked_up))
            .ok_or(Reason::MappingMiss)?;
        let actions = self.actions(mapping.routing_type)?;
        meters.or.push(mapping.metering_class_or);
        sent.destination_mac = mapping.mac_address;
        let vni_of = |name: &VnetName| {
            let vnet = self.objects.vnets.get(name).ok_or(Reason::Unresolved)?;
            Ok::<_, Reason>(vnet.vni.get())
        };
        let far = vni_of(vnet)?;
        let own = vni_of(&self.eni().vnet)?;
        sent.answered_with.push(far);
        let vni = if mapping.use_dst_vni { far } else { own };
        let mut underlay_sip = self.appliance().sip;
        let mut underlay_dip = mapping.underlay_ip;
        if let Some(private_link) = &mapping.private_link {
            underlay_sip = route
                .underlay_sip
                .or(self.eni().pl_underlay_sip)
                .unwrap_or(underlay_sip);
            self.private_link(mapping, private_link, &mut underlay_dip, sent)?;
        }
        self.static_encap(actions, vni, underlay_sip, underlay_dip, sent)?;
        Ok(mapping.tunnel.clone())
    }

    fn actions(&self, kind: RoutingType) -> Result<&RoutingActions, Reason> {
        let actions = self
            .objects
            .routing_types
            .get(&kind)
            .ok_or(Reason::Unresolved)?;
        let count = |wanted: ActionType| {
            let of_kind = actions.items.iter().filter(|item| item.action == wanted);
            of_kind.count()
        };
        if count(ActionType::Drop) > 0 {
            return Err(Reason::RouteDrop);
        }
        if count(ActionType::Appliance) > 0 || count(ActionType::StaticEncap) > 2 {
            return Err(Reason::Unsupported);
        }
        Ok(actions)
    }

    fn static_encap(
        &self,
        actions: &RoutingActions,
        vni: u32,
        source: Address,
        destination: Address,
        sent: &mut Sent,
    ) -> Result<(), Reason> {
        for item in &actions.items {
            if item.action == ActionType::StaticEncap {
                sent.underlay.push(same_version(Layer {
                    encapsulation: kind(
                        item.encapsulation.unwrap_or(objects::Encapsulation::Vxlan),
                    ),
                    key: item.vni.map_or(vni, Vni::get),
                    source,
                    destination,
                })?);
            }
        }
        if sent.underlay.is_empty() {
            sent.underlay.push(same_version(Layer {
                encapsulation: Encapsulation::Vxlan,
                key: vni,
                source,
                destination,
            })?);
        }
        Ok(())
    }

    fn private_link(
        &self,
        mapping: &VnetMapping,
        private_link: &PrivateLink,
        underlay_dip: &mut Address,
        sent: &mut Sent,
    ) -> Result<(), Reason> {
        let (sip, dip) = self.ipv4_overlay()?;
        let (overlay_sip, overlay_dip) = (private_link.overlay_sip, private_link.overlay_dip);
        let encoding = self.eni().pl_sip_encoding.unwrap_or(MaskedBits::NONE);
        let new_sip = (((sip & !overlay_sip.mask()) | overlay_sip.value()) & !encoding.mask())
            | encoding.value();
        let mut new_dip = (dip & !overlay_dip.mask()) | overlay_dip.value();
        if let Some(name) = &mapping.port_map {
            let map = self
                .objects
                .port_maps
                .get(name)
                .ok_or(Reason::PortMapMiss)?;
            let port = sent.overlay.ports.map(|ports| ports[1]);
            let range = map
                .iter()
                .find(|(ports, _)| port.is_some_and(|port| ports.contains(port)));
            match range {
                Some((
                    ports,
                    PortMapRange::PrivateLinkService {
                        backend_ip,
                        backend_port_base,
                    },
                )) => {
                    *underlay_dip = *backend_ip;
                    new_dip = (new_dip >> 32 << 32) | (backend_ip.0 & 0xffff_ffff);
                    if let Some([_, port]) = &mut sent.overlay.ports {
                        *port = backend_port_base + (*port - ports.first());
                    }
                }
                Some((_, PortMapRange::SkipMapping)) => {}
                None if self.settings.port_map_must_match => return Err(Reason::PortRangeMiss),
                None => {}
            }
        }
        four_to_six(new_sip, new_dip, sent)
    }

    /// Nobody speaks to the DPU itself but the network's hosts, nobody but itself as the DPU, and nobody to or from
    /// what no host has.
    fn check_chosen(&self, chosen: &[Address]) -> Result<(), Reason> {
        for address in chosen {
            if *address == self.appliance().sip {
                return Err(Reason::OwnAddress);
            }
        }
        for address in chosen {
            check_host(*address).map_err(|_| Reason::Martian)?;
        }
        Ok(())
    }

    fn service_tunnel(&self, addresses: &ServiceTunnel, sent: &mut Sent) -> Result<(), Reason> {
        let (sip, dip) = self.ipv4_overlay()?;
        let (overlay_sip, overlay_dip) = (addresses.overlay_sip, addresses.overlay_dip);
        let new_sip = (sip & !overlay_sip.mask()) | overlay_sip.value();
        let new_dip = (dip & !overlay_dip.mask()) | overlay_dip.value();
        four_to_six(new_sip, new_dip, sent)?;
        let none = RoutingActions { items: [].into() };
        let actions = match self
            .objects
            .routing_types
            .contains_key(&RoutingType::ServiceTunnel)
        {
            true => self.actions(RoutingType::ServiceTunnel)?,
            false => &none,
        };
        if addresses.underlay_dip.is_none() {
            self.check_chosen(&[self.packet.overlay.destination])?;
        }
        let vnet = self
            .objects
            .vnets
            .get(&self.eni().vnet)
            .ok_or(Reason::Unresolved)?;
        let source = addresses.underlay_sip.unwrap_or(self.appliance().sip);
        let destination = addresses
            .underlay_dip
            .unwrap_or(self.packet.overlay.destination);
        self.static_encap(actions, vnet.vni.get(), source, destination, sent)
    }

    fn ipv4_overlay(&self) -> Result<(u128, u128), Reason> {
        let overlay = &self.packet.overlay;
        match overlay.source.is_v4() {
            true => Ok((
                overlay.source.0 & 0xffff_ffff,
                overlay.destination.0 & 0xffff_ffff,
            )),
            false => Err(Reason::Unsupported),
        }
    }
}

fn four_to_six(sip: u128, dip: u128, sent: &mut Sent) -> Result<(), Reason> {
    let is_mapped = |address: u128| address >> 32 == 0xffff;
    if is_mapped(sip) || is_mapped(dip) {
        return Err(Reason::Unsupported);
    }
    sent.overlay.source = Address(sip);
    sent.overlay.destination = Address(dip);
    if sent.overlay.protocol == protocol::ICMP {
        sent.overlay.protocol = protocol::ICMP6;
    }
    Ok(())
}

const fn kind(of: objects::Encapsulation) -> Encapsulation {
    match of {
        objects::Encapsulation::Vxlan => Encapsulation::Vxlan,
        objects::Encapsulation::Nvgre => Encapsulation::Nvgre,
    }
}

fn same_version(layer: Layer) -> Result<Layer, Reason> {
    match layer.source.is_v4() == layer.destination.is_v4() {
        true => Ok(layer),
        false => Err(Reason::Unsupported),
    }
}
