//! A TCP connection as its two ends act it out: who sends what next.
//!
//! Both ends are in here, so nothing is ever lost between them and every number
//! is right: data stays within the announced window, every acknowledgement
//! covers what has arrived in order, and each connection opens and closes as
//! a strict stateful firewall wants to see it.

use twinpath_wire::tcp::flags;

use crate::packet::{Direction, PacketKind};
use crate::payload::SignatureNumber;
use crate::random::RandomSource;

/// What all connections of a run have in common.
#[derive(Debug, Clone)]
pub(crate) struct TcpRules {
    pub(crate) handshake: bool,
    /// Whether the server's packets are written. If not, they are taken as sent.
    pub(crate) server_packets: bool,
    pub(crate) ack_every: u16,
    pub(crate) out_of_order_distance: u16,
}

/// A connection between two segments.
#[derive(Debug, Clone)]
pub(crate) struct TcpFlow {
    phase: Phase,
    /// Whether the client ends the connection with a reset.
    resets: bool,
    /// Indexed by the direction in which each end sends.
    ends: [End; 2],
    late: Option<Late>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Closed,
    SynSent,
    SynReceived,
    Established,
    /// The client has sent its FIN.
    ClientDone,
    /// Both have, and only the last acknowledgement is missing.
    BothDone,
    Ended,
}

/// The sending side of one end.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Sequence number of the first byte of data.
    first: u32,
    /// Sequence number of the next byte.
    next: u32,
    /// Data segments since the other end's last packet.
    unanswered: u16,
}

/// A segment that is being overtaken.
#[derive(Debug, Clone, Copy)]
struct Late {
    segment: TcpSegment,
    overtaken: u16,
}

/// One segment, but for its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TcpSegment {
    pub(crate) direction: Direction,
    pub(crate) kind: PacketKind,
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    /// Where its data begins in the stream of its direction.
    pub(crate) stream_offset: u32,
    pub(crate) payload_bytes: u16,
    pub(crate) signature: SignatureNumber,
}

/// Data that an end wants to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Data {
    pub(crate) direction: Direction,
    pub(crate) payload_bytes: u16,
    pub(crate) signature: SignatureNumber,
}

impl TcpFlow {
    /// A connection that begins with a handshake, or is already established.
    pub(crate) fn new(rules: &TcpRules, resets: bool, random: &mut impl RandomSource) -> Self {
        let numbers = random.bits();
        Self {
            phase: if rules.handshake {
                Phase::Closed
            } else {
                Phase::Established
            },
            resets,
            ends: [End::new(numbers as u32), End::new((numbers >> 32) as u32)],
            late: None,
        }
    }

    /// The segment that must come before any further data: of the handshake, a
    /// late segment whose time has come, an acknowledgement, or, if the
    /// connection is to end (`closing`), of its end.
    pub(crate) fn control(&mut self, rules: &TcpRules, closing: bool) -> Option<TcpSegment> {
        match self.phase {
            Phase::Closed => Some(self.open(rules)),
            Phase::SynSent => Some(self.accept()),
            Phase::SynReceived => Some(self.establish()),
            Phase::Established => self.settle(rules, closing),
            Phase::ClientDone => Some(self.finish_server()),
            Phase::BothDone => Some(self.finish()),
            Phase::Ended => None,
        }
    }

    /// The segment that carries `data`, which must go the way of a late segment
    /// if there is one, which it then overtakes.
    pub(crate) fn send(&mut self, data: Data) -> TcpSegment {
        let segment = self.data_segment(data);
        if let Some(late) = &mut self.late {
            late.overtaken += 1;
        }
        let end = &mut self.ends[data.direction as usize];
        end.unanswered = end.unanswered.saturating_add(1);
        self.answered(data.direction);
        segment
    }

    /// Keeps the segment that carries `data` back, to be late.
    pub(crate) fn hold(&mut self, data: Data) {
        let segment = self.data_segment(data);
        self.late = Some(Late {
            segment,
            overtaken: 0,
        });
    }

    /// The late segment, if there is one, now.
    pub(crate) fn release(&mut self) -> Option<TcpSegment> {
        let segment = self.late.take()?.segment;
        let end = &mut self.ends[segment.direction as usize];
        end.unanswered = end.unanswered.saturating_add(1);
        Some(segment)
    }

    /// The direction of the late segment, if there is one.
    pub(crate) fn late_direction(&self) -> Option<Direction> {
        self.late.map(|late| late.segment.direction)
    }

    /// Whether data can flow.
    pub(crate) fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// Whether a connection that is to end has nothing more to say.
    pub(crate) fn is_over(&self, rules: &TcpRules) -> bool {
        let silent_end = !rules.handshake && self.late.is_none();
        silent_end || matches!(self.phase, Phase::Closed | Phase::Ended)
    }

    /// A client's bare acknowledgement as it would be now, for errors to quote.
    pub(crate) fn probe(&self) -> TcpSegment {
        self.segment(PacketKind::TcpAck, flags::ACK, Direction::ToServer)
    }

    fn open(&mut self, rules: &TcpRules) -> TcpSegment {
        self.phase = if rules.server_packets {
            Phase::SynSent
        } else {
            Phase::SynReceived
        };
        let syn = self.segment(PacketKind::TcpSyn, flags::SYN, Direction::ToServer);
        TcpSegment {
            sequence: syn.sequence.wrapping_sub(1),
            acknowledgement: 0,
            ..syn
        }
    }

    fn accept(&mut self) -> TcpSegment {
        self.phase = Phase::SynReceived;
        let both = flags::SYN | flags::ACK;
        let syn_ack = self.segment(PacketKind::TcpSynAck, both, Direction::ToClient);
        TcpSegment {
            sequence: syn_ack.sequence.wrapping_sub(1),
            ..syn_ack
        }
    }

    fn establish(&mut self) -> TcpSegment {
        self.phase = Phase::Established;
        self.segment(PacketKind::TcpAck, flags::ACK, Direction::ToServer)
    }

    fn settle(&mut self, rules: &TcpRules, closing: bool) -> Option<TcpSegment> {
        let overtaken = |late: Late| late.overtaken >= rules.out_of_order_distance;
        if self.late.is_some_and(|late| closing || overtaken(late)) {
            return self.release();
        }
        if let Some(direction) = self.due_acknowledgement(rules) {
            self.answered(direction);
            return Some(self.segment(PacketKind::TcpAck, flags::ACK, direction));
        }
        (closing && rules.handshake).then(|| self.finish_client(rules))
    }

    /// The direction in which an acknowledgement without data is due.
    fn due_acknowledgement(&self, rules: &TcpRules) -> Option<Direction> {
        let due = |data: Direction| {
            rules.ack_every > 0 && self.ends[data as usize].unanswered >= rules.ack_every
        };
        if due(Direction::ToServer) && rules.server_packets {
            Some(Direction::ToClient)
        } else {
            due(Direction::ToClient).then_some(Direction::ToServer)
        }
    }

    fn finish_client(&mut self, rules: &TcpRules) -> TcpSegment {
        if self.resets {
            self.phase = Phase::Ended;
            let both = flags::RST | flags::ACK;
            return self.segment(PacketKind::TcpReset, both, Direction::ToServer);
        }
        let fin = self.fin(Direction::ToServer);
        self.phase = Phase::ClientDone;
        if !rules.server_packets {
            self.finish_server();
        }
        fin
    }

    fn finish_server(&mut self) -> TcpSegment {
        self.phase = Phase::BothDone;
        self.fin(Direction::ToClient)
    }

    fn finish(&mut self) -> TcpSegment {
        self.phase = Phase::Ended;
        self.segment(PacketKind::TcpAck, flags::ACK, Direction::ToServer)
    }

    fn fin(&mut self, direction: Direction) -> TcpSegment {
        let fin = self.segment(PacketKind::TcpFin, flags::FIN | flags::ACK, direction);
        let end = &mut self.ends[direction as usize];
        end.next = end.next.wrapping_add(1);
        fin
    }

    fn data_segment(&mut self, data: Data) -> TcpSegment {
        let both = flags::PSH | flags::ACK;
        let segment = self.segment(PacketKind::TcpData, both, data.direction);
        let end = &mut self.ends[data.direction as usize];
        end.next = end.next.wrapping_add(data.payload_bytes.into());
        TcpSegment {
            payload_bytes: data.payload_bytes,
            signature: data.signature,
            ..segment
        }
    }

    fn segment(&self, kind: PacketKind, flags: u8, direction: Direction) -> TcpSegment {
        let end = self.ends[direction as usize];
        TcpSegment {
            direction,
            kind,
            flags,
            sequence: end.next,
            acknowledgement: self.arrived(direction.reversed()),
            stream_offset: end.next.wrapping_sub(end.first),
            payload_bytes: 0,
            signature: 0,
        }
    }

    /// Up to where the data that goes in this direction has arrived in order.
    fn arrived(&self, direction: Direction) -> u32 {
        let late = self.late.filter(|late| late.segment.direction == direction);
        late.map_or(self.ends[direction as usize].next, |late| {
            late.segment.sequence
        })
    }

    /// A packet in this direction acknowledges what came the other way.
    fn answered(&mut self, direction: Direction) {
        self.ends[direction.reversed() as usize].unanswered = 0;
    }
}

impl End {
    fn new(first: u32) -> Self {
        Self {
            first,
            next: first,
            unanswered: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use PacketKind::{TcpAck, TcpData, TcpFin, TcpReset, TcpSyn, TcpSynAck};

    const RULES: TcpRules = TcpRules {
        handshake: true,
        server_packets: true,
        ack_every: 2,
        out_of_order_distance: 2,
    };

    fn data(direction: Direction, payload_bytes: u16) -> Data {
        Data {
            direction,
            payload_bytes,
            signature: 0,
        }
    }

    fn new_flow(rules: &TcpRules) -> TcpFlow {
        TcpFlow::new(rules, false, &mut Random::stream(61, 0))
    }

    fn established() -> TcpFlow {
        let mut flow = new_flow(&RULES);
        assert_eq!(
            (0..3).filter_map(|_| flow.control(&RULES, false)).count(),
            3
        );
        assert!(flow.is_established());
        flow
    }

    fn kinds(flow: &mut TcpFlow, rules: &TcpRules) -> Vec<PacketKind> {
        std::iter::from_fn(|| flow.control(rules, true))
            .map(|s| s.kind)
            .take(9)
            .collect()
    }

    #[test]
    fn handshake_numbers_fit_together() {
        let mut flow = new_flow(&RULES);
        assert!(flow.is_over(&RULES));
        let mut step = || flow.control(&RULES, false).unwrap();
        let (syn, syn_ack, ack) = (step(), step(), step());
        assert_eq!(
            [syn.kind, syn_ack.kind, ack.kind],
            [TcpSyn, TcpSynAck, TcpAck]
        );
        assert_eq!(syn_ack.acknowledgement, syn.sequence.wrapping_add(1));
        assert_eq!(ack.acknowledgement, syn_ack.sequence.wrapping_add(1));
        assert_eq!(ack.sequence, syn_ack.acknowledgement);
        assert_eq!(flow.control(&RULES, false), None);
        assert_eq!(
            flow.send(data(Direction::ToServer, 10)).sequence,
            ack.sequence
        );
    }

    #[test]
    fn teardown_is_three_segments_or_a_reset() {
        let mut flow = established();
        assert!(!flow.is_over(&RULES));
        assert_eq!(kinds(&mut flow, &RULES), [TcpFin, TcpFin, TcpAck]);
        assert!(flow.is_over(&RULES));
        let mut flow = established();
        flow.resets = true;
        assert_eq!(kinds(&mut flow, &RULES), [TcpReset]);
        assert!(flow.is_over(&RULES));
    }

    #[test]
    fn fins_take_a_number_each() {
        let mut flow = established();
        let mut step = || flow.control(&RULES, true).unwrap();
        let (client, server, last) = (step(), step(), step());
        assert_eq!(server.acknowledgement, client.sequence.wrapping_add(1));
        assert_eq!(last.acknowledgement, server.sequence.wrapping_add(1));
        assert_eq!(last.sequence, server.acknowledgement);
    }

    #[test]
    fn silent_receivers_acknowledge_every_second_segment() {
        let mut flow = established();
        let first = flow.send(data(Direction::ToServer, 10));
        assert_eq!(flow.control(&RULES, false), None);
        flow.send(data(Direction::ToServer, 10));
        let ack = flow.control(&RULES, false).unwrap();
        assert_eq!((ack.kind, ack.direction), (TcpAck, Direction::ToClient));
        assert_eq!(ack.acknowledgement, first.sequence.wrapping_add(20));
        assert_eq!(flow.control(&RULES, false), None);
        flow.send(data(Direction::ToClient, 10));
        flow.send(data(Direction::ToServer, 10));
        flow.send(data(Direction::ToClient, 10));
        assert_eq!(flow.control(&RULES, false), None, "data acknowledges too");
    }

    #[test]
    fn a_late_segment_comes_after_its_distance_and_holds_acknowledgements() {
        let mut flow = established();
        flow.hold(data(Direction::ToServer, 7));
        let first = flow.send(data(Direction::ToServer, 5));
        assert_eq!(flow.control(&RULES, false), None);
        flow.send(data(Direction::ToServer, 5));
        let late = flow.control(&RULES, false).unwrap();
        assert_eq!(
            (late.kind, late.payload_bytes, late.stream_offset),
            (TcpData, 7, 0)
        );
        assert_eq!(late.sequence.wrapping_add(7), first.sequence);
        let ack = flow.control(&RULES, false).unwrap();
        assert_eq!(ack.acknowledgement, late.sequence.wrapping_add(17));
    }

    #[test]
    fn an_acknowledgement_stops_at_the_gap() {
        let rules = TcpRules {
            out_of_order_distance: 9,
            ..RULES
        };
        let mut flow = established();
        flow.hold(data(Direction::ToServer, 7));
        let first = flow.send(data(Direction::ToServer, 5));
        flow.send(data(Direction::ToServer, 5));
        let ack = flow.control(&rules, false).unwrap();
        assert_eq!(ack.acknowledgement.wrapping_add(7), first.sequence);
    }

    #[test]
    fn the_end_waits_for_the_late_segment() {
        let mut flow = established();
        flow.hold(data(Direction::ToClient, 7));
        flow.send(data(Direction::ToClient, 5));
        assert_eq!(
            kinds(&mut flow, &RULES),
            [TcpData, TcpAck, TcpFin, TcpFin, TcpAck]
        );
    }

    #[test]
    fn without_the_server_only_the_client_speaks() {
        let rules = TcpRules {
            server_packets: false,
            ..RULES
        };
        let mut flow = new_flow(&rules);
        let mut step = |closing| flow.control(&rules, closing).unwrap();
        assert_eq!([step(false).kind, step(false).kind], [TcpSyn, TcpAck]);
        assert_eq!([step(true).kind, step(true).kind], [TcpFin, TcpAck]);
        assert!(flow.is_over(&rules));
    }

    #[test]
    fn without_a_handshake_flows_begin_and_end_silently() {
        let rules = TcpRules {
            handshake: false,
            ..RULES
        };
        let mut flow = new_flow(&rules);
        assert!(flow.is_established() && flow.is_over(&rules));
        assert_eq!(flow.control(&rules, false), None);
        flow.hold(data(Direction::ToServer, 7));
        assert!(!flow.is_over(&rules), "the late segment is still to come");
    }

    #[test]
    fn numbers_wrap() {
        let mut flow = established();
        flow.ends[0] = End::new(u32::MAX - 4);
        let before = flow.send(data(Direction::ToServer, 10));
        let after = flow.send(data(Direction::ToServer, 10));
        assert_eq!((before.stream_offset, after.stream_offset), (0, 10));
        assert_eq!(after.sequence, 5);
    }
}
