//! Cause before effect, for packets whose senders do not wait.
//!
//! On a wire an answer cannot arrive before its question has left. In a capture it can: it has the
//! answers at the time at which the captured hosts gave them, and a device that adds latency may
//! still have the question. So who replays a capture, or generates both ends of a conversation,
//! hands in a packet only when those of the other direction that came before have left or were
//! dropped. Nothing in the data plane waits.

use std::collections::HashSet;
use std::sync::Arc;
use twinpath_core::wire::layout::{Layout, Network};
use twinpath_core::wire::{Address, dissect, fields};
use twinpath_core::{FlowKey, Side, Steering};
use twinpath_dash::headers::Direction;
use twinpath_dash::objects::EniMode;
use twinpath_dash::pipeline::Received;
use twinpath_dash::settings::Settings;
use twinpath_dash::tables::Tables;
use twinpath_rulecache::Sides;

/// Conversations that are told apart; those that share a place wait for each other, which costs a
/// replay a moment and changes nothing.
const PLACES: usize = 1 << 16;

/// The last packets of each conversation.
pub struct Causality {
    scope: Scope,
    /// Services' addresses and their servers': who talks to one may hear from another.
    services: HashSet<Address>,
    /// By place and end: one more than the number of the last packet, in the order of arrival.
    last: Vec<[u64; 2]>,
}

/// What belongs to one conversation.
pub enum Scope {
    /// The packets between two hosts.
    Hosts(Steering),
    /// Addresses are translated, so that an answer does not tell whom it is for: all packets that
    /// may be translated are one conversation. One end are hosts inside, the other those outside; what
    /// a host inside sends to an external address comes from both, as it asks another or answers it, and so
    /// does what comes from an external address, as of a host inside.
    Translated {
        /// How packets are assigned to flows.
        steering: Steering,
        /// Hosts inside.
        inside: Sides,
        /// External addresses.
        external: Sides,
    },
    /// The packets of an ENI are one conversation, whatever their addresses: one end is its machine.
    Enis(Arc<Tables>),
    /// Those between an ENI's machine and another address are one: answers come from where questions went.
    EniPeers(Arc<Tables>),
    /// None: packets enter as they come, as on a wire that nobody waits at.
    Nothing,
}

/// A packet's conversation, and the end that it came from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PacketSender {
    place: usize,
    end: End,
}

/// Who sent a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum End {
    One,
    Other,
    /// Somebody who stands at both ends.
    Both,
}

impl Causality {
    /// Nothing has arrived.
    pub fn new(scope: Scope) -> Self {
        let steering = match &scope {
            Scope::Hosts(steering) | Scope::Translated { steering, .. } => Some(steering),
            Scope::Enis(_) | Scope::EniPeers(_) | Scope::Nothing => None,
        };
        let aliases = steering.into_iter().flat_map(Steering::aliases);
        let services = aliases
            .flat_map(|alias| [alias.from.address, alias.stands_for.address])
            .collect();
        Self {
            scope,
            services,
            last: vec![[0; 2]; 1 + PLACES],
        }
    }

    /// The conversation of a packet; none if it has no address.
    pub fn sender(&self, bytes: &[u8]) -> Option<PacketSender> {
        let layout = dissect(bytes).ok()?;
        if layout.network == Network::None {
            return None;
        }
        match &self.scope {
            Scope::Nothing => None,
            Scope::Enis(tables) => of_eni(bytes, tables, |_| 0),
            Scope::EniPeers(tables) => of_eni(bytes, tables, |peer| mix(peer) as usize),
            Scope::Hosts(steering) => self.between_hosts(steering, bytes, &layout),
            Scope::Translated {
                steering,
                inside,
                external,
            } => {
                let is_of = |sides: &Sides, address| {
                    sides.direction(address, 0) == twinpath_core::Direction::Original
                };
                let is_inside = |address| is_of(inside, address);
                let (from, to) = (
                    fields::source(bytes, &layout).address,
                    fields::destination(bytes, &layout).address,
                );
                let [is_from_external, is_external] = [from, to].map(|end| is_of(external, end));
                // Nobody translates what stays inside, or passes by.
                if is_inside(from) == is_inside(to) && !is_external && !is_from_external {
                    return self.between_hosts(steering, bytes, &layout);
                }
                let end = match (is_from_external, is_inside(from), is_external) {
                    (true, ..) | (_, true, true) => End::Both,
                    (_, true, false) => End::One,
                    (_, false, _) => End::Other,
                };
                Some(PacketSender { place: 0, end })
            }
        }
    }

    fn between_hosts(
        &self,
        steering: &Steering,
        bytes: &[u8],
        layout: &Layout,
    ) -> Option<PacketSender> {
        let keyed = steering.key(bytes, layout)?;
        let [from, to] = [keyed.side, keyed.side.other()].map(|side| self.host(&keyed.key, side));
        let mixed = mix(from.min(to)) ^ mix(from.max(to)).rotate_left(1);
        let is_other = from > to || from == to && keyed.side == Side::High;
        Some(PacketSender {
            place: 1 + mixed as usize % PLACES,
            end: if is_other { End::Other } else { End::One },
        })
    }

    /// The host at this end of a flow; all services and their servers are one.
    fn host(&self, key: &FlowKey, side: Side) -> u128 {
        let address = key.end(side).address;
        match self.services.contains(&address) {
            true => 0,
            false => address.0,
        }
    }

    /// The watermark at which all that came before from the other end has left, was dropped, or is
    /// kept by a function.
    pub fn cause(&self, sender: PacketSender) -> u64 {
        let [one, other] = self.last[sender.place];
        match sender.end {
            End::One => other,
            End::Other => one,
            End::Both => one.max(other),
        }
    }

    /// Whether that is reached.
    pub fn is_due(&self, sender: PacketSender, watermark: u64) -> bool {
        self.cause(sender) <= watermark
    }

    /// A packet enters as the one with this number.
    pub fn enters(&mut self, sender: PacketSender, ordinal: u64) {
        let [one, other] = &mut self.last[sender.place];
        if sender.end != End::Other {
            *one = ordinal + 1;
        }
        if sender.end != End::One {
            *other = ordinal + 1;
        }
    }
}

/// A floating NIC's packets come by the same way in either direction, and are one conversation.
fn of_eni(bytes: &[u8], tables: &Tables, peer: impl Fn(u128) -> usize) -> Option<PacketSender> {
    let arrival = Received::read(bytes, tables, &Settings::default())
        .ok()?
        .arrival;
    let is_floating = tables.eni(arrival.eni)?.mode == EniMode::FloatingNic;
    let (end, peer) = match (is_floating, arrival.direction) {
        (true, _) => (End::Both, 0),
        (false, Direction::Outbound) => (End::One, peer(arrival.headers.destination.0)),
        (false, Direction::Inbound) => (End::Other, peer(arrival.headers.source.0)),
    };
    Some(PacketSender {
        place: 1 + usize::from(arrival.eni).wrapping_add(peer) % PLACES,
        end,
    })
}

impl PacketSender {
    /// The conversation.
    pub const fn place(self) -> usize {
        self.place
    }
}

/// An address as a number that differs in all its bits.
fn mix(address: u128) -> u64 {
    let folded = (address >> 64) as u64 ^ (address as u64).rotate_left(29);
    let product = u128::from(folded) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::steering::Alias;
    use twinpath_core::wire::PacketBuilder;

    fn packet(from: &str, to: &str) -> Vec<u8> {
        let end = |text: &str| text.parse().expect("an endpoint");
        PacketBuilder::udp(end(from), end(to))
            .to_vec()
            .expect("short")
    }

    #[test]
    fn an_answer_waits_for_its_question_and_for_nothing_else() {
        let mut causality = Causality::new(Scope::Hosts(Steering::new(1)));
        let sender =
            |causality: &Causality, from, to| causality.sender(&packet(from, to)).expect("IP");
        let question = sender(&causality, "10.0.0.1:5", "192.0.2.1:53");
        causality.enters(question, 7);
        let answer = sender(&causality, "192.0.2.1:53", "10.0.0.1:5");
        assert!(!causality.is_due(answer, 7) && causality.is_due(answer, 8));
        let again = sender(&causality, "10.0.0.1:5", "192.0.2.1:53");
        assert!(
            causality.is_due(again, 0),
            "the same direction keeps its order anyway"
        );
        let other = sender(&causality, "192.0.2.1:53", "10.0.0.2:5");
        assert!(causality.is_due(other, 0));
    }

    #[test]
    fn a_client_of_a_service_is_caused_by_the_servers_too() {
        let end = |text: &str| text.parse().expect("an endpoint");
        let alias = |from, stands_for| Alias {
            from: end(from),
            protocol: 17,
            stands_for: end(stands_for),
            row: 0,
        };
        let steering = Steering::new(1).with_aliases(&[
            alias("192.0.2.1:8080", "203.0.113.1:80"),
            alias("192.0.2.2:8080", "203.0.113.1:80"),
        ]);
        let steering = steering.expect("one service");
        let mut causality = Causality::new(Scope::Hosts(steering));
        let sender =
            |causality: &Causality, from, to| causality.sender(&packet(from, to)).expect("IP");
        let from_server = sender(&causality, "192.0.2.2:8080", "10.0.0.1:5");
        causality.enters(from_server, 7);
        for (to, is_caused) in [
            ("203.0.113.1:80", true),
            ("192.0.2.2:8080", true),
            ("192.0.2.1:53", true),
            ("192.0.2.3:53", false),
        ] {
            let client = sender(&causality, "10.0.0.1:5", to);
            assert_eq!(causality.is_due(client, 7), !is_caused, "to {to}");
        }
    }

    #[test]
    fn behind_a_translation_all_answers_wait_for_all_questions() {
        let inside = "10.0.0.0/8".parse().expect("a prefix");
        let sides = Sides::new(&[inside]).expect("few");
        let external = "198.51.100.1".parse().expect("a prefix");
        let mut causality = Causality::new(Scope::Translated {
            steering: Steering::new(1),
            inside: sides,
            external: Sides::new(&[external]).expect("few"),
        });
        let question = causality
            .sender(&packet("10.0.0.1:5", "192.0.2.1:53"))
            .expect("IP");
        causality.enters(question, 3);
        let answer = causality
            .sender(&packet("192.0.2.9:53", "198.51.100.1:77"))
            .expect("IP");
        assert!(!causality.is_due(answer, 3) && causality.is_due(answer, 4));
        let back = causality
            .sender(&packet("10.0.0.9:53", "198.51.100.1:77"))
            .expect("IP");
        assert!(!causality.is_due(back, 3), "from a host inside to another");
        causality.enters(answer, 4);
        assert!(
            !causality.is_due(back, 4),
            "which may have asked by its address"
        );
        causality.enters(back, 5);
        assert!(!causality.is_due(answer, 5) && !causality.is_due(question, 5));
        let sender = |from, to| causality.sender(&packet(from, to)).expect("IP");
        // As an error about an answer, which somebody sends in the name of a host inside.
        let named = causality
            .sender(&packet("198.51.100.1:77", "192.0.2.9:53"))
            .expect("IP");
        assert_eq!((named.place, named.end), (0, End::Both));
        for (one, other) in [
            ("10.0.0.1:5", "10.0.0.2:53"),
            ("192.0.2.1:5", "192.0.2.2:53"),
            ("[2001:db8::1]:5", "[2001:db8::2]:53"),
        ] {
            let (there, back) = (sender(one, other), sender(other, one));
            assert_eq!(there.place, back.place, "nobody translates it");
            assert_ne!(there.place, 0, "{one} {other}");
            assert_ne!(there.end, back.end, "{one} {other}");
        }
    }
}
