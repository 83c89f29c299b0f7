//! Random packets that belong together: first ones, more of the same, answers, errors about what was
//! sent, fragments in any order.

use twinpath_core::wire::icmp::{IcmpError, v4, v6};
use twinpath_core::wire::layout::Transport;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::tunnel::{Tunnel, VXLAN_PORT};
use twinpath_core::wire::{
    MacAddress, PacketBuilder, dissect, fields, fragment, protocol, rewrite,
};
use twinpath_dash::headers::{Direction, Headers};
use twinpath_dash::samples::Objects;

use super::interpreter::Packet;
use super::leaving::inner_of;
use super::packets::{self, Dice};

/// A packet that comes.
#[derive(Clone, Debug)]
pub struct Coming {
    /// Its bytes, behind room for more headers.
    pub bytes: Vec<u8>,
    /// How it came and of which flow it is.
    pub packet: Packet,
    /// What it is.
    pub kind: Kind,
}

/// What comes of a flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole packet, with its TCP flags.
    Whole(u8),
    /// The first fragment of one.
    First,
    /// Another one.
    Later,
    /// An ICMP error about a packet of the other direction.
    Error,
}

/// What has been sent so far.
#[derive(Default)]
pub struct Traffic {
    /// Packets that may come again.
    known: Vec<Packet>,
    /// What may come in answer to what left.
    answers: Vec<Coming>,
    /// Fragments under way.
    pieces: Vec<Coming>,
}

/// Most that is remembered of each.
const MOST: usize = 40;

impl Traffic {
    /// The next packet.
    pub fn next(&mut self, dice: &mut Dice, objects: &Objects, enis: u8) -> Coming {
        let again = dice.below(8);
        if again < 2 && !self.answers.is_empty() {
            let at = dice.below(self.answers.len() as u64) as usize;
            return self.answers[at].clone();
        }
        if again == 2 && !self.pieces.is_empty() {
            let at = dice.below(self.pieces.len() as u64) as usize;
            return self.pieces.swap_remove(at);
        }
        let (packet, tcp_flags) = match (3..7).contains(&again) && !self.known.is_empty() {
            true => {
                let mut packet = self.known[dice.below(self.known.len() as u64) as usize].clone();
                if packet.direction == Direction::Inbound && dice.one_in(8) {
                    // By another tunnel, from another host.
                    let other = packets::packet(dice, objects, enis);
                    if other.direction == Direction::Inbound {
                        (packet.vni, packet.outer_source) = (other.vni, other.outer_source);
                    }
                }
                let ends = dice.pick(&[0, 0, 0, 0, flags::FIN, flags::RST]);
                (
                    packet,
                    dice.pick(&[flags::ACK, flags::ACK, flags::SYN]) | ends,
                )
            }
            false => {
                let packet = packets::packet(dice, objects, enis);
                remember(&mut self.known, packet.clone(), dice);
                (
                    packet,
                    dice.pick(&[flags::SYN, flags::SYN, flags::SYN, flags::ACK]),
                )
            }
        };
        if dice.one_in(12) && self.cut(dice, &packet) {
            let at = dice.below(self.pieces.len() as u64) as usize;
            return self.pieces.swap_remove(at);
        }
        Coming {
            bytes: packets::bytes(&packet, tcp_flags),
            packet,
            kind: Kind::Whole(tcp_flags),
        }
    }

    /// A packet left: it may be answered, or somebody on its way may tell of an error.
    pub fn left(&mut self, dice: &mut Dice, frame: &[u8], packet: &Packet) {
        let Some((arrival, inner)) = by_the_same_tunnel(frame, packet) else {
            return;
        };
        let coming = match dice.one_in(6) {
            true => error(&arrival, &inner),
            false => answer(dice, &arrival, &inner),
        };
        if let Some(coming) = coming {
            remember(&mut self.answers, coming, dice);
        }
    }

    fn cut(&mut self, dice: &mut Dice, packet: &Packet) -> bool {
        if packet.overlay.protocol != protocol::UDP {
            return false;
        }
        let whole = packets::inner_bytes(packet, 0, &[7; 120]);
        let layout = dissect(&whole).expect("sound");
        let identification = dice.below(4) as u32 + 1;
        let Some(pieces) = fragment::cut(&whole, &layout, 64, identification) else {
            return false;
        };
        let kinds = std::iter::once(Kind::First).chain(std::iter::repeat(Kind::Later));
        self.pieces
            .extend(pieces.iter().zip(kinds).map(|(piece, kind)| Coming {
                bytes: packets::encapsulated(packet, piece),
                packet: packet.clone(),
                kind,
            }));
        true
    }
}

/// Whether a frame is an echo reply.
pub fn is_reply(frame: &[u8]) -> bool {
    let kind = dissect(frame)
        .ok()
        .and_then(|layout| fields::icmp_kind(frame, &layout));
    kind.is_some_and(|(kind, _)| [v4::ECHO_REPLY, v6::ECHO_REPLY].contains(&kind))
}

fn remember<T>(known: &mut Vec<T>, new: T, dice: &mut Dice) {
    if known.len() >= MOST {
        known.swap_remove(dice.below(MOST as u64) as usize);
    }
    known.push(new);
}

/// What comes back to whom a packet came from, by the tunnel that it left by; nothing if there were
/// several tunnels or none.
fn by_the_same_tunnel(sent: &[u8], packet: &Packet) -> Option<(Packet, Vec<u8>)> {
    let layout = dissect(sent).ok()?;
    let tunnel = Tunnel::read(sent, &layout, VXLAN_PORT).ok()?;
    let inner = &sent[tunnel.inner()];
    let inside = dissect(inner).ok()?;
    if Tunnel::read(inner, &inside, VXLAN_PORT).is_ok() {
        return None;
    }
    let outer_source = fields::destination_address(sent, &layout);
    let is_to_machine = tunnel.key == packets::VM_VNI;
    let arrival = Packet {
        direction: match is_to_machine {
            true => Direction::Outbound,
            false => Direction::Inbound,
        },
        encapsulation: tunnel.encapsulation,
        vni: tunnel.key,
        outer_source,
        source_mac: MacAddress([2, 0, 0, 0, 9, 9]),
        ..packet.clone()
    };
    let is_of_underlay = outer_source.is_v4() == packet.outer_source.is_v4();
    is_of_underlay.then(|| (arrival, inner.to_vec()))
}

fn answer(dice: &mut Dice, arrival: &Packet, inner: &[u8]) -> Option<Coming> {
    let inside = dissect(inner).ok()?;
    let mut turned = inner.to_vec();
    rewrite::swap_endpoints(&mut turned, &inside).ok()?;
    let tcp_flags = dice.pick(&[flags::SYN | flags::ACK, flags::ACK, flags::FIN | flags::ACK]);
    if inside.protocol == protocol::TCP {
        rewrite::set_tcp_flags(&mut turned, &inside, tcp_flags).ok()?;
    }
    if matches!(inside.transport, Transport::Icmp | Transport::Icmp6) {
        // A request is answered by a reply, and somebody answers replies with requests.
        let kind = &mut turned[usize::from(inside.l4)];
        *kind = match *kind {
            v4::ECHO_REQUEST => v4::ECHO_REPLY,
            v4::ECHO_REPLY => v4::ECHO_REQUEST,
            v6::ECHO_REQUEST => v6::ECHO_REPLY,
            _ => v6::ECHO_REQUEST,
        };
        rewrite::refresh_checksums(&mut turned, &inside).ok()?;
    }
    packets::set_macs(&mut turned, arrival);
    let layout = dissect(&turned).ok()?;
    let packet = Packet {
        overlay: Headers::of(&turned, &layout)?,
        ..arrival.clone()
    };
    Some(Coming {
        bytes: packets::encapsulated(&packet, &turned),
        packet,
        kind: Kind::Whole(tcp_flags),
    })
}

fn error(arrival: &Packet, inner: &[u8]) -> Option<Coming> {
    let kind = IcmpError::PacketTooBig { mtu: 1400 };
    let mut error = PacketBuilder::icmp_error(kind, inner).to_vec().ok()?;
    packets::set_macs(&mut error, arrival);
    let sent = Headers::of(inner, &dissect(inner).ok()?)?;
    let packet = Packet {
        overlay: sent.turned(),
        ..arrival.clone()
    };
    sent.ports.is_some().then(|| Coming {
        bytes: packets::encapsulated(arrival, &error),
        packet,
        kind: Kind::Error,
    })
}

/// The inner frame of what comes, for comparisons.
pub fn inner(coming: &Coming) -> &[u8] {
    inner_of(&coming.bytes)
}
