//! What becomes of packets of connections, as the specification has it: a connection is what its first
//! packet was, and each packet of it meets what policies say about that first one *now*.

use std::collections::HashMap;

use twinpath_core::wire::{protocol, tcp::flags};
use twinpath_dash::headers::{Direction, Headers};
use twinpath_dash::objects::*;
use twinpath_dash::samples::Objects;
use twinpath_dash::{Reason, Settings};

use super::interpreter::{Interpreter, Packet, Sent};

type Key = (EniId, Direction, Headers);

#[derive(Clone, Debug)]
struct Connection {
    opening: Packet,
    keys: [Key; 2],
    /// Who has sent a last segment.
    closed: [bool; 2],
    is_reset: bool,
    /// What became of its last packet, by direction.
    last: [Option<Sent>; 2],
}

/// All connections.
#[derive(Default)]
pub struct Connections {
    by_number: HashMap<usize, Connection>,
    numbers: HashMap<Key, (usize, bool)>,
    next: usize,
    /// Packets of known connections that met something else than the one before.
    pub changed: usize,
    /// Connections that policies ended.
    pub ended: usize,
}

impl Connections {
    /// What is to become of a packet, which is no fragment but the first and no error; of ICMP an echo, and
    /// perhaps a reply.
    pub fn packet(
        &mut self,
        objects: &Objects,
        settings: &Settings,
        packet: &Packet,
        (tcp_flags, is_reply): (u8, bool),
    ) -> Result<Sent, Reason> {
        let judge = Judge { objects, settings };
        judge.admit(packet)?;
        let key = self.key_of(judge, packet);
        let is_tcp = packet.overlay.protocol == protocol::TCP;
        let opens = is_tcp && tcp_flags & 0x17 == flags::SYN;
        let known = self.numbers.get(&key).copied();
        let is_echo = matches!(packet.overlay.protocol, protocol::ICMP | protocol::ICMP6);
        if is_echo && known.map_or(is_reply, |(_, is_answer)| is_answer != is_reply) {
            return judge.alone(packet);
        }
        if let Some((number, is_answer)) = known {
            if !(opens && self.by_number[&number].is_over()) {
                return self.known(judge, packet, tcp_flags, (number, is_answer));
            }
            self.end(number);
        }
        if is_tcp && !opens {
            return Err(Reason::NoFlow);
        }
        let sent = judge.run(packet)?;
        let keys = [key.clone(), answer_key(&key, &sent)];
        if keys[0] == keys[1] || self.numbers.contains_key(&keys[1]) {
            return Err(Reason::FlowClash);
        }
        self.insert(Connection {
            opening: packet.clone(),
            keys,
            closed: [false; 2],
            is_reset: false,
            last: [Some(sent.clone()), None],
        });
        Ok(sent)
    }

    /// What is to become of an ICMP error about a packet of the direction against this one's; of an
    /// error about a packet that was changed this says too little.
    pub fn error(
        &mut self,
        objects: &Objects,
        settings: &Settings,
        packet: &Packet,
    ) -> Result<(), Reason> {
        let judge = Judge { objects, settings };
        judge.admit(packet)?;
        let known = self.numbers.get(&self.key_of(judge, packet)).copied();
        let known = known.ok_or(Reason::IcmpError)?;
        self.judged(judge, packet, known).map(|_| ())
    }

    /// Of which way a packet is as its machine sees it. Whoever is on the host of a floating NIC's machine may
    /// have sent what is an answer to the machine, and of no connection as the machine's own.
    fn key_of(&self, judge: Judge<'_>, packet: &Packet) -> Key {
        let key = (packet.eni.clone(), judge.of(packet).way(), packet.overlay);
        let answer = (key.0.clone(), Direction::Inbound, key.2);
        let may_be_others =
            packet.direction == Direction::Inbound && !self.numbers.contains_key(&key);
        let is_answer = matches!(self.numbers.get(&answer), Some((_, true)));
        match may_be_others && is_answer {
            true => answer,
            false => key,
        }
    }

    /// An ENI is another one now.
    pub fn forget(&mut self, eni: &EniId) {
        let of_eni = |connection: &Connection| connection.opening.eni == *eni;
        let gone: Vec<_> = self
            .by_number
            .iter()
            .filter(|(_, it)| of_eni(it))
            .map(|(number, _)| *number)
            .collect();
        gone.into_iter().for_each(|number| _ = self.end(number));
    }

    fn insert(&mut self, connection: Connection) {
        for (key, is_answer) in connection.keys.iter().zip([false, true]) {
            self.numbers.insert(key.clone(), (self.next, is_answer));
        }
        self.by_number.insert(self.next, connection);
        self.next += 1;
    }

    fn end(&mut self, number: usize) -> Option<Connection> {
        let gone = self.by_number.remove(&number)?;
        gone.keys
            .iter()
            .for_each(|key| _ = self.numbers.remove(key));
        Some(gone)
    }

    fn known(
        &mut self,
        judge: Judge<'_>,
        packet: &Packet,
        tcp_flags: u8,
        known: (usize, bool),
    ) -> Result<Sent, Reason> {
        let (number, sent) = self.judged(judge, packet, known)?;
        let is_answer = known.1;
        let connection = self.by_number.get_mut(&number).expect("there");
        let result = match is_answer {
            false => sent,
            true => judge
                .of_opening(&connection.opening, connection.keys[0].1)
                .back()?,
        };
        if packet.overlay.protocol == protocol::TCP {
            connection.closed[usize::from(is_answer)] |= tcp_flags & flags::FIN != 0;
            connection.is_reset |= tcp_flags & flags::RST != 0;
        }
        let last = connection.last[usize::from(is_answer)].replace(result.clone());
        self.changed += usize::from(last.is_some_and(|last| last != result));
        Ok(result)
    }

    /// Judges a connection as it was opened, and whether a packet of it may come as it does. Returns
    /// its number from now on, and what becomes of packets as the first one.
    fn judged(
        &mut self,
        judge: Judge<'_>,
        packet: &Packet,
        (number, is_answer): (usize, bool),
    ) -> Result<(usize, Sent), Reason> {
        let connection = &self.by_number[&number];
        let (opening, way) = (connection.opening.clone(), connection.keys[0].1);
        let sent = judge.of_opening(&opening, way).run().inspect_err(|_| {
            self.end(number);
            self.ended += 1;
        })?;
        let answers = answer_key(&self.by_number[&number].keys[0], &sent);
        let mut number = number;
        if answers != self.by_number[&number].keys[1] {
            let mut moved = self.end(number).expect("there");
            if answers == moved.keys[0] || self.numbers.contains_key(&answers) {
                return Err(Reason::FlowClash);
            }
            moved.keys[1] = answers;
            number = self.next;
            self.insert(moved);
            if is_answer {
                return Err(Reason::NoFlow);
            }
        }
        let is_accepted = packet.direction == Direction::Outbound
            || judge
                .of_opening(&opening, way)
                .accepts(is_answer, packet.vni, &sent);
        is_accepted.then_some((number, sent)).ok_or(Reason::FlowVni)
    }
}

impl Connection {
    fn is_over(&self) -> bool {
        self.is_reset || self.closed == [true; 2]
    }
}

#[derive(Copy, Clone)]
struct Judge<'a> {
    objects: &'a Objects,
    settings: &'a Settings,
}

impl<'a> Judge<'a> {
    fn of(self, packet: &'a Packet) -> Interpreter<'a> {
        Interpreter {
            objects: self.objects,
            settings: self.settings,
            packet,
            opened: None,
        }
    }

    /// Of the packet that opened a connection, which went this way as its machine saw it.
    fn of_opening(self, packet: &'a Packet, way: Direction) -> Interpreter<'a> {
        Interpreter {
            opened: Some(way),
            ..self.of(packet)
        }
    }

    /// What a packet meets before any flow.
    fn admit(self, packet: &Packet) -> Result<(), Reason> {
        let eni = self.objects.enis.get(&packet.eni).ok_or(Reason::EniMiss)?;
        if eni.admin_state == AdminState::Disabled {
            return Err(Reason::EniDisabled);
        }
        let is_elsewhere = eni
            .underlay_ip
            .is_some_and(|host| host != packet.outer_source);
        match packet.direction == Direction::Outbound && is_elsewhere {
            true => Err(Reason::SpoofedSource),
            false => Ok(()),
        }
    }

    fn run(self, packet: &Packet) -> Result<Sent, Reason> {
        self.of(packet).run()
    }

    /// What is to become of an echo that is none of a flow's: nothing is remembered of it, so that it
    /// hides behind no endpoint.
    fn alone(self, packet: &Packet) -> Result<Sent, Reason> {
        let sent = self.run(packet)?;
        let external = self.of(packet).external();
        match external.is_some_and(|(address, _)| address == sent.overlay.source) {
            true => Err(Reason::NatProtocol),
            false => Ok(sent),
        }
    }
}

/// That of answers to packets of a key.
fn answer_key((eni, way, _): &Key, sent: &Sent) -> Key {
    (eni.clone(), way.turned(), sent.overlay.turned())
}
