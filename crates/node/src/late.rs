//! Packets of live traffic that wait for what caused them, while others enter.
//!
//! Those of a conversation wait in order, whichever end they are from: one that enters may be the
//! cause of the next.

use crate::causality::PacketSender;
use std::collections::{HashMap, VecDeque};

/// How many may wait.
const MOST_LATE: usize = 1 << 16;

/// A packet that waits.
pub struct LatePacket {
    /// Its conversation, and the end that it is from.
    pub sender: PacketSender,
    /// The port that it comes in by.
    pub ingress: u16,
    /// The packet.
    pub bytes: Vec<u8>,
}

/// All that wait.
#[derive(Default)]
pub struct LatePackets {
    /// By conversation; none is empty.
    queues: HashMap<usize, VecDeque<LatePacket>>,
    /// The conversations, the one whose turn it is first.
    turns: VecDeque<usize>,
    packets: usize,
}

impl LatePackets {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Conversations that have a packet here.
    pub fn places(&self) -> usize {
        self.turns.len()
    }

    /// Whether a packet has to wait behind another.
    pub fn concerns(&self, sender: PacketSender) -> bool {
        !self.is_empty() && self.queues.contains_key(&sender.place())
    }

    /// Whether no more should wait.
    pub const fn is_full(&self) -> bool {
        self.packets >= MOST_LATE
    }

    /// A packet waits.
    pub fn put(&mut self, packet: LatePacket) {
        let place = packet.sender.place();
        let queue = self.queues.entry(place).or_default();
        if queue.is_empty() {
            self.turns.push_back(place);
        }
        queue.push_back(packet);
        self.packets += 1;
    }

    /// Takes the first packet of the conversation whose turn it is, if it may go.
    pub fn take_if(&mut self, may_go: impl FnOnce(&LatePacket) -> bool) -> Option<LatePacket> {
        let queue = self.queues.get_mut(self.turns.front()?)?;
        queue.front().filter(|packet| may_go(packet))?;
        self.packets -= 1;
        queue.pop_front()
    }

    /// It is the next conversation's turn.
    pub fn rotate(&mut self) {
        let Some(place) = self.turns.pop_front() else {
            return;
        };
        match self.queues.get(&place).is_some_and(VecDeque::is_empty) {
            true => _ = self.queues.remove(&place),
            false => self.turns.push_back(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causality::{Causality, Scope};
    use twinpath_core::Steering;
    use twinpath_core::wire::PacketBuilder;

    fn packet(causality: &Causality, from: &str, to: &str) -> LatePacket {
        let end = |text: &str| text.parse().expect("an endpoint");
        let bytes = PacketBuilder::udp(end(from), end(to))
            .to_vec()
            .expect("short");
        let sender = causality.sender(&bytes).expect("IP");
        let ingress = 0;
        LatePacket {
            sender,
            ingress,
            bytes,
        }
    }

    /// A question that came behind an answer which still waits is caused by that answer: it must
    /// not enter before, although no packet of its own end waits.
    #[test]
    fn a_conversation_waits_in_order_whichever_end_speaks() {
        let causality = Causality::new(Scope::Hosts(Steering::new(1)));
        let (client, server) = ("10.0.0.1:5", "192.0.2.1:53");
        let (answer, question) = (
            packet(&causality, server, client),
            packet(&causality, client, server),
        );
        let other = packet(&causality, "10.0.0.2:5", server);
        let senders = [answer.sender, question.sender, other.sender];
        let mut late = LatePackets::default();
        assert!(!late.concerns(question.sender));
        late.put(answer);
        assert!(late.concerns(question.sender) && !late.concerns(other.sender));
        late.put(question);
        late.put(other);
        assert!(late.take_if(|_| false).is_none(), "its cause has not left");
        late.rotate();
        let taken: Vec<_> = (0..2)
            .flat_map(|_| {
                let taken: Vec<_> = std::iter::from_fn(|| late.take_if(|_| true)).collect();
                late.rotate();
                taken
            })
            .map(|late| late.sender)
            .collect();
        assert_eq!(taken, [senders[2], senders[0], senders[1]]);
        assert!(late.is_empty() && late.places() == 0);
    }
}
