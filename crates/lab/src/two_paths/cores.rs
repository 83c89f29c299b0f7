//! The devices behind the switch: ports, links, rings and cores.

use super::parameters::Setting;
use twinpath_engine::devices::{Port, QueueFull, Server, Through};
use twinpath_engine::{Rate, Time};

/// The shortest frame on a wire, without its checksum.
const SHORTEST: u32 = 60;

/// One card or server: the way there and the way back.
struct Line {
    there: Port,
    back: Port,
}

/// Cores that packets are spread over.
struct Group {
    cores: Vec<Core>,
    /// Their speeds together.
    speed: f64,
}

/// What one group of cores does to a packet.
#[derive(Clone, Copy)]
struct Work {
    group: usize,
    packet: Time,
    byte_ps: f64,
}

struct Core {
    server: Server,
    /// Of one: less if it does other things besides.
    speed: f64,
}

/// All devices behind the switch.
pub(super) struct Bank {
    lines: Vec<Line>,
    groups: Vec<Group>,
    /// What is done to packets of each element of the chain, one after the other.
    ways: Vec<Vec<Work>>,
    one_way: Time,
    link_bytes: u32,
    ring_packets: f64,
    cores_per_line: usize,
    /// Whether each worker is a core of its own.
    is_by_worker: bool,
}

/// Where a packet is behind the switch.
#[derive(Copy, Clone, Debug)]
pub(super) struct At {
    pub(super) element: u8,
    pub(super) stage: usize,
}

/// Which core it is that a packet's flow has.
#[derive(Copy, Clone, Debug)]
pub(super) struct Whose {
    pub(super) worker: usize,
    pub(super) hash: u64,
}

impl Bank {
    pub(super) fn new(setting: &Setting, workers: usize, elements: &[Vec<String>]) -> Self {
        let preset = setting.preset();
        let switch = &setting.testbed.switch;
        let port = || {
            let limit = (switch.port_queue_kb.value() * 1e3) as u64;
            Port::new(Rate::from_gbps(preset.port_gbps.value()), limit)
                .with_wire_bytes(switch.wire_bytes.count() as u32)
        };
        let line = |_| Line {
            there: port(),
            back: port(),
        };
        let (groups, ways) = groups(setting, elements);
        Self {
            lines: (0..setting.devices).map(line).collect(),
            groups,
            ways,
            one_way: Time::from_us_f64(setting.one_way_us()),
            link_bytes: preset.link_bytes.count() as u32,
            ring_packets: preset.ring_packets.value(),
            cores_per_line: setting.cores,
            is_by_worker: workers > 1 || setting.devices * setting.cores == 1,
        }
    }

    /// When a frame that the switch sends now is in front of its core.
    pub(super) fn cross(&mut self, now: Time, worker: usize, bytes: u32) -> Through {
        let bytes = bytes.max(SHORTEST) + self.link_bytes;
        let line = self.line(worker);
        Ok(line.there.send(now, bytes)? + self.one_way)
    }

    /// When a frame that a core sends now is at the switch.
    pub(super) fn come_back(&mut self, now: Time, worker: usize, bytes: u32) -> Through {
        let bytes = bytes.max(SHORTEST) + self.link_bytes;
        let line = self.line(worker);
        Ok(line.back.send(now, bytes)? + self.one_way)
    }

    fn line(&mut self, worker: usize) -> &mut Line {
        let line = match self.is_by_worker {
            true => worker / self.cores_per_line,
            false => 0,
        };
        let last = self.lines.len() - 1;
        &mut self.lines[line.min(last)]
    }

    /// Another chain's packets come from now on.
    pub(super) fn serve(&mut self, setting: &Setting, elements: &[Vec<String>]) {
        self.ways = groups(setting, elements).1;
    }

    /// How many stages packets of this element pass.
    pub(super) fn stages(&self, element: u8) -> usize {
        self.ways.get(usize::from(element)).map_or(0, Vec::len)
    }

    /// When a stage's core is done with a packet that comes now.
    ///
    /// # Errors
    /// Its ring is full.
    pub(super) fn work(&mut self, now: Time, at: At, whose: Whose, bytes: u32) -> Through {
        let work = self.ways[usize::from(at.element)][at.stage];
        let by_worker = self.is_by_worker.then_some(whose.worker);
        let group = &mut self.groups[work.group];
        let index = by_worker.unwrap_or_else(|| group.core_of(whose.hash));
        let last = group.cores.len() - 1;
        let core = &mut group.cores[index.min(last)];
        let time = work.packet.0 as f64 + work.byte_ps * f64::from(bytes);
        let time = Time((time / core.speed) as u64);
        if core.server.wait(now).0 as f64 > self.ring_packets * time.0 as f64 {
            return Err(QueueFull);
        }
        Ok(core.server.serve(now, time))
    }

    /// Time that all cores have worked.
    pub(super) fn busy(&self) -> Time {
        let cores = self.groups.iter().flat_map(|group| &group.cores);
        cores.fold(Time::ZERO, |sum, core| sum + core.server.busy())
    }

    /// How many cores there are.
    pub(super) fn cores(&self) -> usize {
        self.lines.len() * self.cores_per_line
    }
}

impl Group {
    fn new(speeds: impl IntoIterator<Item = f64>) -> Self {
        let core = |speed| Core {
            server: Server::default(),
            speed,
        };
        let cores: Vec<Core> = speeds.into_iter().map(core).collect();
        Self {
            speed: cores.iter().map(|core| core.speed).sum(),
            cores,
        }
    }

    /// Flows are spread over cores as these are fast.
    fn core_of(&self, hash: u64) -> usize {
        let mut point = hash as f64 / u64::MAX as f64 * self.speed;
        for (index, core) in self.cores.iter().enumerate() {
            if point < core.speed {
                return index;
            }
            point -= core.speed;
        }
        self.cores.len() - 1
    }
}

/// What these functions take a core together.
fn work(setting: &Setting, functions: &[String], group: usize) -> Work {
    let preset = setting.preset();
    let searches = functions.iter().filter(|name| *name == "inspector").count() as f64;
    let packet_ns = preset.packet_ns.value() * functions.len() as f64;
    Work {
        group,
        packet: Time::from_ns_f64(packet_ns),
        byte_ps: preset.byte_ns.value() * 1e3 * searches,
    }
}

type Ways = Vec<Vec<Work>>;

/// The groups of cores, and what packets of each element meet.
fn groups(setting: &Setting, elements: &[Vec<String>]) -> (Vec<Group>, Ways) {
    let all: Vec<String> = elements.iter().flatten().cloned().collect();
    let is_all_slow = setting.is_all_slow();
    if setting.stages.len() < 2 {
        let group = Group::new(vec![1.0; setting.devices * setting.cores]);
        let way = |element: &Vec<String>| match is_all_slow {
            true => vec![work(setting, &all, 0)],
            false => vec![work(setting, element, 0)],
        };
        return (vec![group], elements.iter().map(way).collect());
    }
    let groups = (0..all.len())
        .map(|stage| stage_group(setting, stage))
        .collect();
    let each =
        |(stage, function): (usize, &String)| work(setting, std::slice::from_ref(function), stage);
    let mut works = all.iter().enumerate().map(each);
    if is_all_slow {
        return (groups, vec![works.collect(); elements.len()]);
    }
    let ways = elements
        .iter()
        .map(|element| works.by_ref().take(element.len()).collect());
    let ways = ways.collect();
    (groups, ways)
}

/// A function's own cores and, if they are shared, those of the function before it.
fn stage_group(setting: &Setting, stage: usize) -> Group {
    let own = vec![1.0; setting.stages[stage]];
    let sharing = setting.testbed.sharing.as_ref();
    let shares = setting.parameters.share_cores && !setting.is_all_slow();
    let share = sharing.filter(|_| shares);
    let shared = match (share, stage.checked_sub(1)) {
        (Some(sharing), Some(before)) => vec![sharing.core_share.value(); setting.stages[before]],
        _ => Vec::new(),
    };
    Group::new(own.into_iter().chain(shared))
}
