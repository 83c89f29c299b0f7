//! A service over many shards: how throughput grows with them.
//!
//! Each shard is a core. A packet comes by the queue of one shard, which finds out whose it is, as the
//! production [`Partition`](twinpath_node::shards::Partition) says of the packet's bytes, and either does the service's work or hands
//! it over to its owner. What these steps take was measured on the production code (`plans/measured/README.md`):
//! giving and taking get dearer with more shards, as a burst is dealt to more rings and a shard that takes
//! looks into more of them.
//!
//! | `queues` | a packet comes by the queue |
//! |---|---|
//! | `owner` | of its owner: the card's hash and the partition agree |
//! | `chance` | of any shard, always the same for a flow: the card hashes otherwise |
//!
//! What a core's time cannot show is told as an assumption: `transfer_ns`, for cache lines that go from one
//! core to another, since the bench takes both sides' steps on one.

use crate::measured_costs::MeasuredCosts;
use crate::model::{Column, Model, ParameterError};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Table;
use twinpath_control::service::Service;
use twinpath_core::wire::{Address, Endpoint, PacketBuilder};
use twinpath_engine::devices::{QueueFull, Server, Through};
use twinpath_engine::{Agenda, Time, World, run_until};
use twinpath_node::shards::CurrentPartition;
use twinpath_traffic::config::Popularity;
use twinpath_traffic::popularity::Chooser;
use twinpath_traffic::random::{Random, RandomSource};

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Shards;

/// Parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Seed of arrivals, hosts and queues.
    pub seed: u64,
    /// Shards; for each number that is run there must be a measured cost.
    pub shards: u16,
    /// Whose queue a packet comes by.
    pub queues: Queues,
    /// Pairs of hosts that exchange packets: what shards can divide.
    pub pairs: u32,
    /// Exponent of Zipf's law over pairs; 0 if all send alike.
    pub zipf: f64,
    /// What a service does with a packet on its shard, ns.
    pub work_ns: f64,
    /// What goes from core to core with a packet, ns. Our assumption.
    pub transfer_ns: f64,
    /// Bytes of a packet, for which handing over was measured.
    pub frame_bytes: u32,
    /// Packets that may wait for a shard.
    pub ring_packets: u64,
    /// Packets of each run; throughput is found by some ten runs. Many more than all shards' rings hold:
    /// else these hide that more comes than is carried.
    pub packets: u32,
    /// The table of measured times, as seen from the plan.
    pub costs: Option<PathBuf>,
}

/// `queues`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queues {
    /// Its owner's.
    Owner,
    /// Any shard's.
    Chance,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            seed: 1,
            shards: 1,
            queues: Queues::Chance,
            pairs: 100_000,
            zipf: 0.0,
            work_ns: 300.0,
            transfer_ns: 0.0,
            frame_bytes: 60,
            ring_packets: 4096,
            packets: 400_000,
            costs: None,
        }
    }
}

const fn column(name: &'static str, meaning: &'static str) -> Column {
    Column { name, meaning }
}

const COLUMNS: [Column; 7] = [
    column(
        "output_mpps",
        "the highest rate at which no more than a packet in a thousand is lost, millions a second",
    ),
    column(
        "bound_mpps",
        "arithmetic: the rate at which the busiest shard has no time left, millions a second",
    ),
    column("handed_share", "packets that were handed over"),
    column(
        "busiest_share",
        "packets that the shard with most owns, as a multiple of an even share",
    ),
    column("assign_ns", "what it takes to find a packet's shard"),
    column(
        "hand_over_ns",
        "what it takes both shards to hand one over, besides",
    ),
    column(
        "latency_p99_us",
        "99th percentile at nine tenths of that rate",
    ),
];

impl Model for Shards {
    fn name(&self) -> &'static str {
        "shards"
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn check(&self, parameters: &Table, folder: &Path) -> Result<(), ParameterError> {
        Setting::read(parameters, folder).map(drop)
    }

    fn run(&self, parameters: &Table, folder: &Path) -> Result<Vec<f64>, ParameterError> {
        let setting = Setting::read(parameters, folder)?;
        let packets = setting.packets()?;
        Ok(setting.row(&packets))
    }

    fn remarks(&self, parameters: &Table, folder: &Path) -> Vec<String> {
        let setting = Setting::read(parameters, folder);
        setting
            .map(|setting| setting.costs.told())
            .into_iter()
            .collect()
    }
}

/// Parameters with the measured times.
struct Setting {
    parameters: Parameters,
    costs: MeasuredCosts,
    assign_ns: f64,
    give_ns: f64,
    take_ns: f64,
}

/// A packet: by whose queue it comes, and whose it is.
#[derive(Clone, Copy, Debug)]
struct Packet {
    by: u16,
    of: u16,
}

impl Setting {
    fn read(table: &Table, folder: &Path) -> Result<Self, ParameterError> {
        let parameters: Parameters = table.clone().try_into()?;
        parameters.check()?;
        let file = parameters.costs.as_ref();
        let file =
            file.ok_or_else(|| ParameterError::new("costs", "missing: the table of times"))?;
        let costs = MeasuredCosts::read(&folder.join(file), "costs")?;
        let (shards, bytes) = (parameters.shards, parameters.frame_bytes);
        let of = |what: String| {
            costs
                .ns(&what)
                .map_err(|wrong| ParameterError::new("shards", wrong))
        };
        let [assign_ns, give_ns, take_ns] = match shards {
            1 => [0.0; 3],
            _ => [
                of(format!("assign-{shards}"))?,
                of(format!("give-{bytes}-{shards}"))?,
                of(format!("take-{bytes}-{shards}"))?,
            ],
        };
        Ok(Self {
            assign_ns,
            give_ns,
            // Whoever takes it waits for its memory.
            take_ns: take_ns + parameters.transfer_ns,
            costs,
            parameters,
        })
    }

    /// Packets of pairs of hosts, each with its shard by the production partition.
    fn packets(&self) -> Result<Vec<Packet>, ParameterError> {
        let Parameters {
            shards,
            pairs,
            packets,
            queues,
            seed,
            zipf,
            ..
        } = self.parameters;
        let mut owners = self.owners()?.into_iter();
        let mut random = Random::stream(seed, 0);
        let pairs: Vec<Packet> = (0..pairs)
            .map(|_| {
                let of = owners.next().unwrap_or_default();
                let by = match queues {
                    Queues::Owner => of,
                    Queues::Chance => random.below(shards.into()) as u16,
                };
                Packet { by, of }
            })
            .collect();
        let popularity = match zipf > 0.0 {
            true => Popularity::Zipf { exponent: zipf },
            false => Popularity::Uniform {},
        };
        let chooser = Chooser::new(&popularity, pairs.len() as u64);
        let mut random = Random::stream(seed, 1);
        Ok((0..packets)
            .map(|_| pairs[chooser.choose(&mut random) as usize])
            .collect())
    }

    /// The owner of each pair of hosts.
    fn owners(&self) -> Result<Vec<u16>, ParameterError> {
        let wrong = |message: String| ParameterError {
            field: None,
            message,
        };
        let service = Service::parse(SERVICE, Path::new("shards.toml"))
            .map_err(|error| wrong(error.to_string()))?;
        let mut partition = CurrentPartition::of(&service, self.parameters.shards)
            .map_err(|error| wrong(error.to_string()))?;
        let owner = |pair: u32| {
            let [a, b, c, d] = pair.to_be_bytes();
            let from = Endpoint::new(Address::from_v4([10 | a, b, c, d]), 1024);
            let to = Endpoint::new(Address::from_v4([20, 0, 0, 1]), 80);
            let frame = PacketBuilder::tcp(from, to).to_vec();
            frame.map_or(0, |frame| partition.get().shard(&frame))
        };
        Ok((0..self.parameters.pairs).map(owner).collect())
    }

    /// What a packet takes the shard by whose queue it comes, and its owner if it is another, ns.
    fn times_ns(&self, packet: Packet) -> (f64, f64) {
        let work = self.parameters.work_ns;
        match packet.by == packet.of {
            true => (self.assign_ns + work, 0.0),
            false => (self.assign_ns + self.give_ns, self.take_ns + work),
        }
    }

    fn row(&self, packets: &[Packet]) -> Vec<f64> {
        let shards = usize::from(self.parameters.shards);
        let (mut busy_ns, mut owned) = (vec![0.0; shards], vec![0u64; shards]);
        for packet in packets {
            let (by_ns, of_ns) = self.times_ns(*packet);
            busy_ns[usize::from(packet.by)] += by_ns;
            busy_ns[usize::from(packet.of)] += of_ns;
            owned[usize::from(packet.of)] += 1;
        }
        let count = packets.len() as f64;
        let busiest_ns = busy_ns.iter().copied().fold(0.0, f64::max);
        let bound_mpps = 1e3 * count / busiest_ns;
        let handed = packets
            .iter()
            .filter(|packet| packet.by != packet.of)
            .count();
        let most = owned.iter().max().copied().unwrap_or_default();
        let output_mpps = self.highest_mpps(packets, bound_mpps);
        let (_, latency_ns) = self.run(packets, 0.9 * output_mpps);
        vec![
            output_mpps,
            bound_mpps,
            handed as f64 / count,
            most as f64 / count * shards as f64,
            self.assign_ns,
            self.give_ns + self.take_ns,
            latency_ns / 1e3,
        ]
    }

    /// The highest rate that is carried, to half a percent.
    fn highest_mpps(&self, packets: &[Packet], bound_mpps: f64) -> f64 {
        let (mut carried, mut lost) = (0.0, 1.5 * bound_mpps);
        while lost - carried > 0.005 * lost {
            let middle = (carried + lost) / 2.0;
            match self.run(packets, middle).0 <= MOST_LOST {
                true => carried = middle,
                false => lost = middle,
            }
        }
        carried
    }

    /// What is lost of packets at this rate, and the 99th percentile of the others' latency, ns.
    fn run(&self, packets: &[Packet], mpps: f64) -> (f64, f64) {
        let shards = usize::from(self.parameters.shards);
        let mut testbed = Testbed {
            setting: self,
            packets,
            next: 0,
            gap_ns: 1e3 / mpps,
            random: Random::stream(self.parameters.seed, 2),
            shards: vec![Server::default(); shards],
            lost: 0,
            latency_ns: twinpath_engine::stats::Samples::default(),
        };
        let mut agenda = Agenda::default();
        agenda.at(Time::ZERO, Event::Arrival);
        run_until(&mut testbed, &mut agenda, Time(u64::MAX));
        let lost = testbed.lost as f64 / packets.len() as f64;
        (lost, testbed.latency_ns.quantile(0.99) as f64)
    }
}

/// What may be lost at a rate that is carried.
const MOST_LOST: f64 = 1e-3;
/// What is owned by pairs of hosts.
const SERVICE: &str = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n";

impl Parameters {
    fn check(&self) -> Result<(), ParameterError> {
        let time = |ns: f64| (0.0..=1e6).contains(&ns);
        let checks = [
            ((1..=1024).contains(&self.shards), "shards", "1 to 1024"),
            (
                (1..=10_000_000).contains(&self.pairs),
                "pairs",
                "1 to ten million",
            ),
            ((0.0..=3.0).contains(&self.zipf), "zipf", "0 to 3"),
            (
                (1.0..=1e6).contains(&self.work_ns),
                "work_ns",
                "1 to a million",
            ),
            (time(self.transfer_ns), "transfer_ns", "0 to a million"),
            (
                (1..=1_000_000).contains(&self.ring_packets),
                "ring_packets",
                "1 to a million",
            ),
            (
                (1000..=20_000_000).contains(&self.packets),
                "packets",
                "1000 to 20 million",
            ),
        ];
        let wrong = checks.into_iter().find(|(holds, ..)| !holds);
        wrong.map_or(Ok(()), |(_, field, range)| {
            Err(ParameterError::new(field, format!("must be {range}")))
        })
    }
}

enum Event {
    /// The next packet comes.
    Arrival,
    /// A packet that came at this time is handed to its owner.
    HandedOver(Packet, Time),
}

struct Testbed<'a> {
    setting: &'a Setting,
    packets: &'a [Packet],
    next: usize,
    gap_ns: f64,
    random: Random,
    shards: Vec<Server>,
    lost: u64,
    latency_ns: twinpath_engine::stats::Samples,
}

impl Testbed<'_> {
    /// When a shard is done with something, unless as many packets wait as may.
    fn serve(&mut self, shard: u16, now: Time, ns: f64) -> Through {
        let shard = &mut self.shards[usize::from(shard)];
        let each_ns = self.setting.assign_ns + self.setting.parameters.work_ns;
        let waiting = shard.wait(now).ns() as f64 / each_ns;
        match waiting >= self.setting.parameters.ring_packets as f64 {
            true => Err(QueueFull),
            false => Ok(shard.serve(now, Time::from_ns_f64(ns))),
        }
    }

    fn arrive(&mut self, agenda: &mut Agenda<Event>) {
        let Some(packet) = self.packets.get(self.next).copied() else {
            return;
        };
        self.next += 1;
        let now = agenda.now();
        let (by_ns, _) = self.setting.times_ns(packet);
        match self.serve(packet.by, now, by_ns) {
            Err(QueueFull) => self.lost += 1,
            Ok(done) if packet.by == packet.of => self.latency_ns.record((done - now).ns()),
            Ok(done) => agenda.at(done, Event::HandedOver(packet, now)),
        }
        let gap = Time::from_ns_f64(self.random.exponential(self.gap_ns));
        agenda.at(now + gap, Event::Arrival);
    }

    fn handed_over(&mut self, packet: Packet, came: Time, now: Time) {
        let (_, of_ns) = self.setting.times_ns(packet);
        match self.serve(packet.of, now, of_ns) {
            Err(QueueFull) => self.lost += 1,
            Ok(done) => self.latency_ns.record((done - came).ns()),
        }
    }
}

impl World for Testbed<'_> {
    type Event = Event;

    fn happen(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        match event {
            Event::Arrival => self.arrive(agenda),
            Event::HandedOver(packet, came) => self.handed_over(packet, came, agenda.now()),
        }
    }
}
