//! What is kept of a capture: for each flow and direction, the digests of its packets in order.

use crate::digest::Digest;
use crate::flow::Flow;
use crate::names::{Name, Names};
use crate::normal::Normaliser;
use crate::options::Options;
use crate::packets::Packets;
use std::collections::HashMap;

/// A packet, as far as it is kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Of its bytes, with what may differ blanked.
    pub digest: Digest,
    /// Its place in the capture, counted from 1.
    pub number: u64,
    /// When it was captured.
    pub timestamp_ns: u64,
    /// The number of the port that it was captured at.
    pub port: u32,
}

/// What of packets counts beside their bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counting {
    pub timestamps: bool,
    pub ports: bool,
}

impl Counting {
    /// Timestamps if they are asked for, and ports if both captures have the same several ones, by name.
    pub fn of(a: &Index, b: &Index, timestamps: bool) -> Self {
        let are_named = a.ports.iter().all(|name| !name.is_empty());
        Self {
            timestamps,
            ports: a.ports.len() > 1 && are_named && a.ports == b.ports,
        }
    }

    /// What counts of a packet.
    pub fn counted(self, packet: &Packet) -> (Digest, u64, u32) {
        let timestamp_ns = if self.timestamps {
            packet.timestamp_ns
        } else {
            0
        };
        let port = if self.ports { packet.port } else { 0 };
        (packet.digest, timestamp_ns, port)
    }
}

/// The packets of one flow in one direction, in order.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub flow: Flow,
    /// The binding's life that they are part of, if a name stood in them.
    pub life: Option<usize>,
    pub packets: Vec<Packet>,
}

/// What a name said from one long silence to the next.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub name: Name,
    last_ns: u64,
    /// The numbers of its streams, in order of their first packets.
    pub streams: Vec<usize>,
}

/// Where a packet is kept: the number of a stream, and the place in it.
pub(crate) type Position = (usize, usize);

/// A capture, as far as it is kept.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// How many packets there are.
    pub packets: u64,
    /// The names of ports, by number.
    pub ports: Vec<String>,
    /// In order of their first packets.
    pub streams: Vec<Stream>,
    /// In order of their first packets.
    pub lives: Vec<Life>,
    /// Packets that are part of several lives: all places of each.
    pub several: Vec<Vec<Position>>,
    numbers: HashMap<(Option<usize>, Flow), usize>,
    /// The latest life of each name.
    latest: HashMap<Name, usize>,
}

impl Index {
    /// Reads a capture; asks whether the silence of a name in front of the packet of a number counts as none.
    pub fn of<P: Packets>(
        packets: &P,
        options: &Options,
        is_none: impl Fn(Name, u64) -> bool,
    ) -> Result<Self, P::Error> {
        let mut index = Self::default();
        let mut normaliser = Normaliser::new(options);
        let idle_ns = options
            .renaming
            .as_ref()
            .map_or(0, |of| of.binding_idle_ns());
        let ports = packets.walk(&mut |seen| {
            index.packets += 1;
            let normal = normaliser.normal(seen.frame);
            let packet = Packet {
                digest: match normal.outer {
                    [] => Digest::of(normal.bytes),
                    outer => Digest::of(&[outer, normal.bytes].concat()),
                },
                number: index.packets,
                timestamp_ns: seen.timestamp_ns,
                port: seen.port,
            };
            index.add(normal.flow, &normal.names, packet, |name, silence_ns| {
                silence_ns > idle_ns && !is_none(name, packet.number)
            });
            true
        })?;
        index.ports = ports;
        Ok(index)
    }

    /// How many streams have several packets.
    pub fn long_streams(&self) -> u64 {
        let streams = self.streams.iter();
        streams.filter(|stream| stream.packets.len() > 1).count() as u64
    }

    /// The stream of a flow within a life.
    pub fn stream(&self, life: Option<usize>, flow: Flow) -> Option<&Stream> {
        let number = self.numbers.get(&(life, flow))?;
        self.streams.get(*number)
    }

    /// The streams of a life; those in which no name stood for `None`.
    pub fn streams_of(&self, life: Option<usize>) -> Box<dyn Iterator<Item = &Stream> + '_> {
        match life {
            Some(life) => {
                let numbers = self.lives.get(life).map_or(&[][..], |life| &life.streams);
                Box::new(
                    numbers
                        .iter()
                        .filter_map(|&number| self.streams.get(number)),
                )
            }
            None => Box::new(self.streams.iter().filter(|stream| stream.life.is_none())),
        }
    }

    /// The packets of a life, one stream after the other.
    pub fn packets_of(&self, life: usize) -> impl Iterator<Item = (Flow, Packet)> + '_ {
        self.streams_of(Some(life))
            .flat_map(|stream| stream.packets.iter().map(|packet| (stream.flow, *packet)))
    }

    /// The number of the first packet of a life.
    pub fn first_of(&self, life: usize) -> u64 {
        let mut streams = self.streams_of(Some(life));
        let first = streams.next().and_then(|stream| stream.packets.first());
        first.map_or(0, |packet| packet.number)
    }

    /// The name of several lives, if it has no others between them.
    pub fn name_of_neighbours(&self, lives: &[usize]) -> Option<Name> {
        let (&first, &last) = (lives.first()?, lives.last()?);
        let name = self.lives.get(first)?.name;
        let between = self.lives.get(first..=last)?.iter();
        let of_name = between.filter(|life| life.name == name).count();
        let are_all = lives.iter().all(|&life| self.lives[life].name == name);
        (are_all && of_name == lives.len()).then_some(name)
    }

    /// Adds a packet; `parts` says whether a silence of a name, in nanoseconds, ends its life.
    fn add(
        &mut self,
        flow: Flow,
        names: &Names,
        packet: Packet,
        parts: impl Fn(Name, u64) -> bool,
    ) {
        let mut places = Vec::new();
        for (name, blanks) in names.each() {
            let life = self.life(name, packet.timestamp_ns, &parts);
            places.push(self.push(Some(life), flow.seen_with(blanks), packet));
        }
        match places.len() {
            0 => drop(self.push(None, flow, packet)),
            1 => {}
            _ => self.several.push(places),
        }
    }

    /// The life that a name has at a time.
    fn life(&mut self, name: Name, now_ns: u64, parts: impl Fn(Name, u64) -> bool) -> usize {
        let latest = self.latest.get(&name).copied();
        if let Some((number, life)) = latest.and_then(|of| Some((of, self.lives.get_mut(of)?)))
            && !parts(name, now_ns.saturating_sub(life.last_ns))
        {
            life.last_ns = life.last_ns.max(now_ns);
            return number;
        }
        let number = self.lives.len();
        self.latest.insert(name, number);
        self.lives.push(Life {
            name,
            last_ns: now_ns,
            streams: Vec::new(),
        });
        number
    }

    fn push(&mut self, life: Option<usize>, flow: Flow, packet: Packet) -> Position {
        let next = self.streams.len();
        let number = *self.numbers.entry((life, flow)).or_insert(next);
        if number == next {
            self.streams.push(Stream {
                flow,
                life,
                packets: Vec::new(),
            });
            if let Some(life) = life.and_then(|life| self.lives.get_mut(life)) {
                life.streams.push(number);
            }
        }
        let packets = &mut self.streams[number].packets;
        packets.push(packet);
        (number, packets.len() - 1)
    }
}
