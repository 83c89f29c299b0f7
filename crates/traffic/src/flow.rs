//! A flow: what it is, and what its next packet is.

use crate::config::{Protocol, TrafficConfig};
use crate::error::TrafficError;
use crate::hosts::{Ends, HostTable};
use crate::packet::Direction;
use crate::payload::{SignatureNumber, Signatures};
use crate::random::{Chance, FlowRandom, Random};
use crate::sizes::{FlowSizes, FrameSizes};
use crate::tcp_flow::{Data, TcpFlow, TcpRules, TcpSegment};

const ETHERNET_BYTES: u16 = 14;
const VLAN_BYTES: u16 = 4;
const IPV4_BYTES: u16 = 20;
const IPV6_BYTES: u16 = 40;
const TCP_BYTES: u16 = 20;
const UDP_BYTES: u16 = 8;

/// What all flows of a run have in common.
#[derive(Debug, Clone)]
pub(crate) struct FlowPlan {
    seed: u64,
    link_bytes: u16,
    mtu_bytes: u16,
    frame_sizes: FrameSizes,
    flow_sizes: FlowSizes,
    reply: Chance,
    reset: Chance,
    late: Chance,
    pub(crate) tcp: TcpRules,
    pub(crate) signatures: Signatures,
}

impl FlowPlan {
    /// Reads the distribution files that the configuration names.
    pub(crate) fn new(config: &TrafficConfig, seed: u64) -> Result<Self, TrafficError> {
        Ok(Self {
            seed,
            link_bytes: ETHERNET_BYTES + config.hosts.vlan.map_or(0, |_| VLAN_BYTES),
            mtu_bytes: config.mtu_bytes,
            frame_sizes: FrameSizes::new(&config.packet_size)?,
            flow_sizes: FlowSizes::new(&config.flow_size)?,
            reply: Chance::new(if config.server_packets {
                config.reply_share
            } else {
                0.0
            }),
            reset: Chance::new(config.tcp.reset_share),
            late: lateness(config),
            tcp: TcpRules {
                handshake: config.tcp.handshake,
                server_packets: config.server_packets,
                ack_every: config.tcp.ack_every,
                out_of_order_distance: config.tcp.out_of_order_distance,
            },
            signatures: Signatures::new(&config.signatures),
        })
    }

    /// The longest frame in bytes.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        usize::from(self.link_bytes) + usize::from(self.mtu_bytes)
    }

    /// The longest TCP payload in bytes between these ends.
    pub(crate) fn segment_bytes_max(&self, ends: &Ends) -> u16 {
        self.mtu_bytes - ip_bytes(ends) - TCP_BYTES
    }

    fn payload_bytes(&self, ends: &Ends, random: &mut FlowRandom) -> u16 {
        let ip_bytes = if ends.is_v4 { IPV4_BYTES } else { IPV6_BYTES };
        let transport_bytes = match ends.protocol {
            Protocol::Tcp => TCP_BYTES,
            Protocol::Udp => UDP_BYTES,
        };
        let longest = self.mtu_bytes - ip_bytes - transport_bytes;
        let headers = self.link_bytes + ip_bytes + transport_bytes;
        self.frame_sizes
            .draw(random)
            .saturating_sub(headers)
            .clamp(1, longest)
    }
}

fn ip_bytes(ends: &Ends) -> u16 {
    if ends.is_v4 { IPV4_BYTES } else { IPV6_BYTES }
}

/// The chance for a segment that can be late. The segments that overtake a late
/// one cannot, so it is larger than the share of the late ones among all.
fn lateness(config: &TrafficConfig) -> Chance {
    let share = config.tcp.out_of_order_share;
    let overtaking = share * f64::from(config.tcp.out_of_order_distance);
    Chance::new(share / (1.0 - overtaking))
}

/// One flow of those that live. Flows are visited in random order, so each has
/// a pair of cache lines of its own, which most processors fetch together.
#[derive(Debug, Clone)]
#[repr(align(128))]
pub(crate) struct Flow {
    pub(crate) number: u64,
    script: Script,
    supply: Supply,
    /// Has sent data, or is a connection that was established.
    started: bool,
    /// Ends because a new flow is due.
    pub(crate) churned: bool,
    /// Has replaced a flow that ended because a new one was due.
    pub(crate) prompt: bool,
    /// Stands in the queue of those who cannot wait to be chosen.
    pub(crate) urgent: bool,
}

#[derive(Debug, Clone)]
enum Script {
    Tcp(TcpFlow),
    /// Bytes sent in each direction.
    Udp([u32; 2]),
}

/// What the ends of a flow still have to say to each other.
#[derive(Debug, Clone)]
struct Supply {
    ends: Ends,
    random: FlowRandom,
    remaining: u64,
    /// That was all: the flow is to end.
    ended: bool,
}

/// A packet of a flow, but for its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Tcp(TcpSegment),
    Udp(Datagram),
}

/// One UDP datagram, but for its payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram {
    pub(crate) direction: Direction,
    pub(crate) stream_offset: u32,
    pub(crate) payload_bytes: u16,
    pub(crate) signature: SignatureNumber,
}

impl Flow {
    /// The flow with this number, before its first packet.
    pub(crate) fn new(number: u64, plan: &FlowPlan, hosts: &HostTable) -> Self {
        let mut random = FlowRandom::new(plan.seed, number);
        let ends = hosts.ends(number, &mut random);
        let remaining = plan.flow_sizes.draw(&mut random);
        let script = match ends.protocol {
            Protocol::Tcp => {
                let resets = plan.reset.draw(&mut random);
                Script::Tcp(TcpFlow::new(&plan.tcp, resets, &mut random))
            }
            Protocol::Udp => Script::Udp([0; 2]),
        };
        let supply = Supply {
            ends,
            random,
            remaining,
            ended: false,
        };
        Self {
            number,
            script,
            supply,
            started: false,
            churned: false,
            prompt: false,
            urgent: false,
        }
    }

    /// Puts the flow with this number in the place of one that is over.
    pub(crate) fn succeed(&mut self, number: u64, plan: &FlowPlan, hosts: &HostTable) {
        let (prompt, urgent) = (self.churned, self.urgent);
        *self = Self {
            prompt,
            urgent,
            ..Self::new(number, plan, hosts)
        };
    }

    /// Its two ends.
    pub(crate) fn ends(&self) -> &Ends {
        &self.supply.ends
    }

    /// The next packet of a flow that is not over. With `lateness` given, the
    /// data that would be next may be kept back, and what follows it come first.
    pub(crate) fn next(&mut self, plan: &FlowPlan, lateness: Option<&mut Random>) -> Step {
        let step = match &mut self.script {
            Script::Tcp(tcp) => Step::Tcp(next_segment(tcp, &mut self.supply, plan, lateness)),
            Script::Udp(sent) => Step::Udp(next_datagram(sent, &mut self.supply, plan)),
        };
        self.started |= match &self.script {
            Script::Tcp(tcp) => tcp.is_established(),
            Script::Udp(_) => true,
        };
        self.prompt &= !self.started;
        step
    }

    /// Lets the flow end, as soon as it has said goodbye.
    pub(crate) fn churn(&mut self) {
        self.supply.ended = true;
        self.churned = true;
    }

    /// Whether the flow is to end or has ended.
    pub(crate) fn is_closing(&self) -> bool {
        self.supply.ended
    }

    /// Whether the flow has ended.
    pub(crate) fn is_over(&self, plan: &FlowPlan) -> bool {
        self.supply.ended
            && match &self.script {
                Script::Tcp(tcp) => tcp.is_over(&plan.tcp),
                Script::Udp(_) => true,
            }
    }

    /// Whether a segment is being overtaken.
    pub(crate) fn is_holding(&self) -> bool {
        matches!(&self.script, Script::Tcp(tcp) if tcp.late_direction().is_some())
    }

    /// The segment that is being overtaken, now.
    pub(crate) fn release(&mut self) -> Option<TcpSegment> {
        match &mut self.script {
            Script::Tcp(tcp) => tcp.release(),
            Script::Udp(_) => None,
        }
    }

    /// A packet that the client may have sent last, for an error to quote;
    /// `None` before there was any, and when the flow ends.
    pub(crate) fn quotable(&self) -> Option<Step> {
        if !self.started || self.supply.ended {
            return None;
        }
        Some(match &self.script {
            Script::Tcp(tcp) => Step::Tcp(tcp.probe()),
            Script::Udp(_) => Step::Udp(Datagram {
                direction: Direction::ToServer,
                stream_offset: 0,
                payload_bytes: 0,
                signature: 0,
            }),
        })
    }
}

fn next_segment(
    tcp: &mut TcpFlow,
    supply: &mut Supply,
    plan: &FlowPlan,
    lateness: Option<&mut Random>,
) -> TcpSegment {
    if let Some(segment) = tcp.control(&plan.tcp, supply.ended) {
        return segment;
    }
    let overtaking = tcp.late_direction();
    let mut data = supply.draw(plan, overtaking);
    let can_be_late = overtaking.is_none() && !supply.ended;
    if can_be_late && lateness.is_some_and(|random| plan.late.draw(random)) {
        tcp.hold(data);
        data = supply.draw(plan, Some(data.direction));
    }
    tcp.send(data)
}

fn next_datagram(sent: &mut [u32; 2], supply: &mut Supply, plan: &FlowPlan) -> Datagram {
    let first = (*sent == [0; 2]).then_some(Direction::ToServer);
    let Data {
        direction,
        payload_bytes,
        signature,
    } = supply.draw(plan, first);
    let sent = &mut sent[direction as usize];
    let stream_offset = *sent;
    *sent = sent.wrapping_add(payload_bytes.into());
    Datagram {
        direction,
        stream_offset,
        payload_bytes,
        signature,
    }
}

impl Supply {
    /// The next data, in this direction or in a random one. The last data of
    /// the flow lets it end.
    fn draw(&mut self, plan: &FlowPlan, direction: Option<Direction>) -> Data {
        let reply = plan.reply.draw(&mut self.random);
        let random = if reply {
            Direction::ToClient
        } else {
            Direction::ToServer
        };
        let longest = plan.payload_bytes(&self.ends, &mut self.random);
        let payload_bytes = plan.flow_sizes.take(&mut self.remaining, longest);
        let signature = plan.signatures.draw(&mut self.random, payload_bytes.into());
        self.ended |= self.remaining == 0;
        Data {
            direction: direction.unwrap_or(random),
            payload_bytes,
            signature,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FlowSize, PacketSize, SizeUnit, Tcp};
    use crate::packet::PacketKind;

    fn flow(config: &TrafficConfig) -> (Flow, FlowPlan) {
        config.validate().unwrap();
        let plan = FlowPlan::new(config, 3).unwrap();
        (Flow::new(0, &plan, &HostTable::new(config, 3)), plan)
    }

    fn segments(config: &TrafficConfig, lateness: Option<u64>) -> Vec<TcpSegment> {
        let (mut flow, plan) = flow(config);
        let mut random = lateness.map(|seed| Random::stream(seed, 0));
        let mut segments = Vec::new();
        while segments.len() < 100_000 && (segments.is_empty() || !flow.is_over(&plan)) {
            match flow.next(&plan, random.as_mut()) {
                Step::Tcp(segment) => segments.push(segment),
                Step::Udp(_) => panic!("a datagram in a TCP flow"),
            }
        }
        segments
    }

    fn sized(size: u64, unit: SizeUnit) -> TrafficConfig {
        TrafficConfig {
            flow_size: FlowSize::Fixed { size, unit },
            packet_size: PacketSize::Imix {},
            ..TrafficConfig::default()
        }
    }

    fn data(segments: &[TcpSegment]) -> Vec<&TcpSegment> {
        segments
            .iter()
            .filter(|s| s.kind == PacketKind::TcpData)
            .collect()
    }

    #[test]
    fn a_flow_carries_its_size() {
        let segments = segments(&sized(12_345, SizeUnit::Bytes), None);
        let bytes: u64 = segments.iter().map(|s| u64::from(s.payload_bytes)).sum();
        assert_eq!(bytes, 12_345);
        assert_eq!(segments.first().unwrap().kind, PacketKind::TcpSyn);
        assert_eq!(segments[segments.len() - 3].kind, PacketKind::TcpFin);
        assert_eq!(
            data(&self::segments(&sized(77, SizeUnit::Packets), None)).len(),
            77
        );
    }

    #[test]
    fn every_late_share_is_met_at_every_distance() {
        for (share, distance) in [(0.01, 1), (0.1, 1), (0.5, 1), (0.1, 3), (0.05, 8)] {
            let mut config = sized(60_000, SizeUnit::Packets);
            config.tcp = Tcp {
                out_of_order_share: share,
                out_of_order_distance: distance,
                ..Tcp::default()
            };
            let segments = segments(&config, Some(5));
            let data = data(&segments);
            let mut highest = [None; 2];
            let late = data.iter().filter(|s| {
                let highest = &mut highest[s.direction as usize];
                let late = highest.is_some_and(|offset| s.stream_offset < offset);
                *highest = (*highest).max(Some(s.stream_offset));
                late
            });
            let (late, expected) = (late.count() as f64, share * data.len() as f64);
            assert!(
                (late - expected).abs() < 5.0 * expected.sqrt(),
                "{share}: {late}/{expected}"
            );
        }
    }

    #[test]
    fn a_connection_with_late_segments_is_the_same_in_another_order() {
        let mut config = sized(500, SizeUnit::Packets);
        config.reply_share = 0.0;
        let in_order = segments(&config, None);
        config.tcp.out_of_order_share = 0.3;
        let mut shuffled = segments(&config, Some(9));
        let key = |s: &TcpSegment| (s.stream_offset, s.payload_bytes);
        assert_ne!(
            data(&in_order).into_iter().map(key).collect::<Vec<_>>(),
            data(&shuffled).into_iter().map(key).collect::<Vec<_>>(),
        );
        shuffled.sort_by_key(|s| s.stream_offset);
        assert_eq!(
            data(&in_order).into_iter().map(key).collect::<Vec<_>>(),
            data(&shuffled).into_iter().map(key).collect::<Vec<_>>(),
        );
    }

    #[test]
    fn replies_have_their_share() {
        let mut config = sized(50_000, SizeUnit::Packets);
        config.reply_share = 0.2;
        let segments = segments(&config, None);
        let replies = data(&segments)
            .iter()
            .filter(|s| s.direction == Direction::ToClient)
            .count();
        assert!((9_600..10_400).contains(&replies), "{replies}");
    }

    #[test]
    fn datagrams_begin_with_the_client() {
        let mut config = sized(10, SizeUnit::Packets);
        (config.tcp_share, config.reply_share) = (0.0, 1.0);
        let (mut flow, plan) = flow(&config);
        assert!(flow.quotable().is_none());
        let Step::Udp(first) = flow.next(&plan, None) else {
            panic!("not UDP")
        };
        let Step::Udp(second) = flow.next(&plan, None) else {
            panic!("not UDP")
        };
        assert_eq!(first.direction, Direction::ToServer);
        assert_eq!(second.direction, Direction::ToClient);
        assert!(flow.quotable().is_some() && !flow.is_over(&plan));
        flow.churn();
        assert!(flow.is_over(&plan));
    }

    #[test]
    fn a_flow_that_never_began_ends_at_once() {
        let (mut flow, plan) = flow(&TrafficConfig::default());
        flow.churn();
        assert!(flow.is_over(&plan));
    }

    #[test]
    fn a_flow_fits_two_cache_lines() {
        assert_eq!(size_of::<Flow>(), 128);
    }
}
