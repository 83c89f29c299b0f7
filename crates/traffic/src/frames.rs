//! Turns what a flow says into the bytes of a frame.

use twinpath_wire::icmp::IcmpError;
use twinpath_wire::kv::{KvRepr, MAX_MESSAGE_BYTES};
use twinpath_wire::tcp::{TcpOption, flags};
use twinpath_wire::{Endpoint, MacAddress, PacketBuilder, dissect, protocol};

use crate::config::TrafficConfig;
use crate::flow::{Datagram, Flow, FlowPlan, Step};
use crate::hosts::HostTable;
use crate::kv::{KvRequest, key_bytes};
use crate::packet::Direction;
use crate::payload::{Payload, SignatureNumber};
use crate::tcp_flow::TcpSegment;

/// ICMP's code for a host that cannot be reached.
const HOST_UNREACHABLE: u8 = 1;
/// ICMPv6's code for an address that cannot be reached.
const ADDRESS_UNREACHABLE: u8 = 3;
/// Fragments begin at multiples of this.
const FRAGMENT_UNIT: usize = 8;
/// Why writing a frame cannot fail: validated configurations name no values
/// that a header has no room for, and the buffers have room for the longest frame.
const FITS: &str = "a validated configuration and a buffer for the longest frame";

/// Writes frames. All buffers are allocated once.
#[derive(Debug, Clone)]
pub(crate) struct FrameWriter {
    pub(crate) hosts: HostTable,
    link: Link,
    payload: Payload,
    window: u16,
    identification: u32,
    /// A payload that is not a slice of the common one.
    scratch: Vec<u8>,
    /// A frame that is to be cut, or quoted.
    whole: Vec<u8>,
}

/// What all frames have around their IP packets.
#[derive(Debug, Clone)]
struct Link {
    client: MacAddress,
    server: MacAddress,
    vlan: Option<u16>,
    padded: bool,
}

/// Whose data a payload is, and where it begins.
struct Stream {
    flow: u64,
    direction: Direction,
    offset: u32,
    bytes: usize,
    signature: SignatureNumber,
}

impl FrameWriter {
    pub(crate) fn new(config: &TrafficConfig, plan: &FlowPlan, seed: u64) -> Self {
        let longest = plan.frame_bytes_max();
        Self {
            hosts: HostTable::new(config, seed),
            link: Link {
                client: config.hosts.client_mac,
                server: config.hosts.server_mac,
                vlan: config.hosts.vlan,
                padded: config.padded,
            },
            payload: Payload::new(seed),
            window: config.tcp.window_bytes,
            identification: 0,
            scratch: vec![0; longest],
            whole: vec![0; longest],
        }
    }

    /// Writes a flow's packet to `out` and returns its length.
    pub(crate) fn step(
        &mut self,
        plan: &FlowPlan,
        flow: &Flow,
        step: &Step,
        out: &mut [u8],
    ) -> usize {
        self.identification = self.identification.wrapping_add(1);
        match step {
            Step::Tcp(segment) => self.segment(plan, flow, segment, out),
            Step::Udp(datagram) => self.datagram(plan, flow, datagram, out),
        }
    }

    /// Writes a datagram as two fragments, to `out` and `second`, and returns
    /// their lengths; `None`, and nothing of use in either, if it is too short.
    pub(crate) fn fragments(
        &mut self,
        plan: &FlowPlan,
        flow: &Flow,
        datagram: &Datagram,
        out: &mut [u8],
        second: &mut [u8],
    ) -> Option<(usize, usize)> {
        let cut = (usize::from(datagram.payload_bytes) + 8) / 2 / FRAGMENT_UNIT * FRAGMENT_UNIT;
        if cut == 0 {
            return None;
        }
        let mut whole = std::mem::take(&mut self.whole);
        self.step(plan, flow, &Step::Udp(*datagram), &mut whole);
        let layout = dissect(&whole).expect(FITS);
        let (head, tail) = whole[usize::from(layout.l4)..layout.end as usize].split_at(cut);
        let ends = self.hosts.endpoints(flow.ends(), datagram.direction);
        let first_bytes = self.fragment(datagram.direction, ends, 0, head, out);
        // The header's length and checksum are those of the whole datagram.
        let l4 = usize::from(dissect(&out[..first_bytes]).expect(FITS).l4);
        out[l4..l4 + cut].copy_from_slice(head);
        let second_bytes = self.fragment(datagram.direction, ends, cut, tail, second);
        self.whole = whole;
        Some((first_bytes, second_bytes))
    }

    /// Writes an error of the server's about a packet of the client's.
    pub(crate) fn icmp_error(
        &mut self,
        plan: &FlowPlan,
        flow: &Flow,
        quoted: &Step,
        out: &mut [u8],
    ) -> usize {
        let mut whole = std::mem::take(&mut self.whole);
        let quoted_bytes = self.step(plan, flow, quoted, &mut whole);
        let code = if flow.ends().is_v4 {
            HOST_UNREACHABLE
        } else {
            ADDRESS_UNREACHABLE
        };
        let kind = IcmpError::Unreachable { code };
        let builder = PacketBuilder::icmp_error(kind, &whole[..quoted_bytes]);
        let builder = builder.identification(self.identification);
        let written = self
            .link
            .wrap(builder, Direction::ToClient)
            .write(out)
            .expect(FITS);
        self.whole = whole;
        written
    }

    /// Writes a request of the key-value protocol.
    pub(crate) fn request(&mut self, request: &KvRequest, out: &mut [u8]) -> usize {
        self.identification = self.identification.wrapping_add(1);
        let bytes = usize::from(request.value_bytes);
        let value = self
            .payload
            .bytes(request.key, Direction::ToServer, request.sequence, bytes);
        let message = KvRepr::request(request.op, request.sequence, key_bytes(request.key), value);
        let mut payload = [0; MAX_MESSAGE_BYTES];
        let written = message.emit(&mut payload).expect(FITS);
        let builder = PacketBuilder::udp(request.client, request.server)
            .identification(self.identification)
            .payload(&payload[..written]);
        self.link
            .wrap(builder, Direction::ToServer)
            .write(out)
            .expect(FITS)
    }

    fn segment(
        &mut self,
        plan: &FlowPlan,
        flow: &Flow,
        segment: &TcpSegment,
        out: &mut [u8],
    ) -> usize {
        let (source, destination) = self.hosts.endpoints(flow.ends(), segment.direction);
        let stream = Stream {
            flow: flow.number,
            direction: segment.direction,
            offset: segment.stream_offset,
            bytes: segment.payload_bytes.into(),
            signature: segment.signature,
        };
        let mut builder = PacketBuilder::tcp(source, destination)
            .identification(self.identification)
            .seq(segment.sequence)
            .ack(segment.acknowledgement)
            .flags(segment.flags)
            .window(self.window)
            .payload(stream.fill(&self.payload, plan, &mut self.scratch));
        if segment.flags & flags::SYN != 0 {
            let largest = TcpOption::MaximumSegmentSize(plan.segment_bytes_max(flow.ends()));
            builder = builder.tcp_options(&[largest]);
        }
        self.link
            .wrap(builder, segment.direction)
            .write(out)
            .expect(FITS)
    }

    fn datagram(
        &mut self,
        plan: &FlowPlan,
        flow: &Flow,
        datagram: &Datagram,
        out: &mut [u8],
    ) -> usize {
        let (source, destination) = self.hosts.endpoints(flow.ends(), datagram.direction);
        let stream = Stream {
            flow: flow.number,
            direction: datagram.direction,
            offset: datagram.stream_offset,
            bytes: datagram.payload_bytes.into(),
            signature: datagram.signature,
        };
        let builder = PacketBuilder::udp(source, destination)
            .identification(self.identification)
            .payload(stream.fill(&self.payload, plan, &mut self.scratch));
        self.link
            .wrap(builder, datagram.direction)
            .write(out)
            .expect(FITS)
    }

    fn fragment(
        &self,
        direction: Direction,
        (source, destination): (Endpoint, Endpoint),
        offset: usize,
        bytes: &[u8],
        out: &mut [u8],
    ) -> usize {
        let builder = PacketBuilder::raw(protocol::UDP, source.address, destination.address)
            .identification(self.identification)
            .fragment(offset as u32, offset == 0)
            .payload(bytes);
        self.link.wrap(builder, direction).write(out).expect(FITS)
    }
}

impl Stream {
    /// The payload, with its signature if it has one; then it is in `scratch`.
    fn fill<'a>(&self, payload: &'a Payload, plan: &FlowPlan, scratch: &'a mut [u8]) -> &'a [u8] {
        let bytes = payload.bytes(self.flow, self.direction, self.offset, self.bytes);
        match scratch.get_mut(..bytes.len()) {
            Some(copy) if self.signature > 0 => {
                copy.copy_from_slice(bytes);
                plan.signatures.plant(self.signature, copy);
                copy
            }
            _ => bytes,
        }
    }
}

impl Link {
    /// Puts the link layer around a packet that goes in this direction.
    fn wrap<'a>(&self, builder: PacketBuilder<'a>, direction: Direction) -> PacketBuilder<'a> {
        let (source, destination) = match direction {
            Direction::ToServer => (self.client, self.server),
            Direction::ToClient => (self.server, self.client),
        };
        let builder = builder.macs(source, destination);
        let builder = if let Some(id) = self.vlan {
            builder.vlan(id)
        } else {
            builder
        };
        if self.padded {
            builder.padded()
        } else {
            builder
        }
    }
}
