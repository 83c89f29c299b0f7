//! Packet after packet at line rate.

use super::Parameters;
use twinpath_core::FlowKey;
use twinpath_core::hash::hash_lanes;
use twinpath_fastpath::state_table::{Control, SlotId, StateTable};
use twinpath_traffic::config::Popularity;
use twinpath_traffic::popularity::Chooser;
use twinpath_traffic::random::{Chance, Random};

/// What was counted in the second half.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub(super) fast: u64,
    pub(super) pulls: u64,
    pub(super) cancelled: u64,
    pub(super) resident: u64,
}

/// What a slot's lanes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Free,
    /// The state is here at this time.
    Incomplete(u64),
    /// Seen last at this time.
    Active(u64),
    /// Free at this time.
    Frozen(u64),
}

impl Status {
    fn of(control: &Control) -> Self {
        match control[0] {
            1 => Self::Incomplete(control[1]),
            2 => Self::Active(control[1]),
            3 => Self::Frozen(control[1]),
            _ => Self::Free,
        }
    }

    fn control(self) -> Control {
        match self {
            Self::Free => [0, 0, 0],
            Self::Incomplete(at) => [1, at, 0],
            Self::Active(at) => [2, at, 0],
            Self::Frozen(at) => [3, at, 0],
        }
    }

    /// What time alone has made of it.
    fn now(self, now: u64, time_to_live: u64) -> Self {
        match self {
            Self::Incomplete(at) if at <= now => Self::Active(at).now(now, time_to_live),
            Self::Active(at) if at + time_to_live <= now => Self::Free,
            Self::Frozen(at) if at <= now => Self::Free,
            same => same,
        }
    }
}

struct World {
    table: StateTable,
    seen: Vec<u32>,
    hot_packets: u32,
    round_trip_ns: u64,
    time_to_live_ns: u64,
    seed: u64,
    outcome: Outcome,
}

pub(super) fn run(parameters: &Parameters) -> Outcome {
    let mut world = World {
        table: StateTable::new(parameters.slots, parameters.ways, 1),
        seen: vec![0; parameters.flows as usize],
        hot_packets: parameters.hot_packets,
        round_trip_ns: (parameters.round_trip_us * 1e3) as u64,
        time_to_live_ns: (parameters.time_to_live_us * 1e3) as u64,
        seed: parameters.seed,
        outcome: Outcome::default(),
    };
    let chooser = Chooser::new(&popularity(parameters), parameters.flows);
    let complex = Chance::new(parameters.complex_share);
    let mut random = Random::stream(parameters.seed, 0);
    let mut now = 0;
    for number in 0..parameters.packets {
        if number == parameters.packets / 2 {
            world.outcome = Outcome::default();
        }
        now = (number as f64 * parameters.packet_ns()) as u64;
        let flow = chooser.choose(&mut random);
        let is_fast = world.packet(flow, complex.draw(&mut random), now);
        world.outcome.fast += u64::from(is_fast);
    }
    world.outcome.resident = world.resident(now);
    world.outcome
}

fn popularity(parameters: &Parameters) -> Popularity {
    match parameters.zipf > 0.0 {
        false => Popularity::Uniform {},
        true => Popularity::Zipf {
            exponent: parameters.zipf,
        },
    }
}

impl World {
    /// Whether the switch settles it alone.
    fn packet(&mut self, flow: u64, is_complex: bool, now: u64) -> bool {
        let key = FlowKey::entry(u128::from(flow).to_be_bytes());
        let hash = hash_lanes(key.0, self.seed);
        let count = &mut self.seen[flow as usize];
        *count = count.saturating_add(1);
        let is_hot = *count >= self.hot_packets;
        let held = self.table.find(&key, hash);
        match held.map(|slot| (slot, self.status(slot, now))) {
            Some((slot, Status::Active(_))) => self.active(slot, is_complex, now),
            Some((slot, Status::Incomplete(_))) => {
                self.outcome.cancelled += 1;
                self.set(slot, Status::Free);
                false
            }
            Some((_, Status::Frozen(_))) => false,
            Some((_, Status::Free)) | None => {
                if is_hot {
                    self.pull(&key, hash, now);
                }
                false
            }
        }
    }

    fn active(&mut self, slot: SlotId, is_complex: bool, now: u64) -> bool {
        self.set(
            slot,
            match is_complex {
                false => Status::Active(now),
                true => Status::Frozen(now + self.round_trip_ns),
            },
        );
        !is_complex
    }

    fn pull(&mut self, key: &FlowKey, hash: u64, now: u64) {
        let time_to_live = self.time_to_live_ns;
        let is_free = |lanes: &Control| Status::of(lanes).now(now, time_to_live) == Status::Free;
        if let Some(slot) = self.table.vacant(hash, is_free) {
            self.outcome.pulls += 1;
            self.table.assign(slot, key, hash);
            self.set(slot, Status::Incomplete(now + self.round_trip_ns));
        }
    }

    fn status(&self, slot: SlotId, now: u64) -> Status {
        Status::of(&self.table.control(slot)).now(now, self.time_to_live_ns)
    }

    fn set(&mut self, slot: SlotId, status: Status) {
        self.table.set_control(slot, status.control());
    }

    fn resident(&self, now: u64) -> u64 {
        let slots = 0..self.table.slots() as SlotId;
        let active = slots.filter(|slot| matches!(self.status(*slot, now), Status::Active(_)));
        active.count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(change: impl FnOnce(&mut Parameters)) -> Parameters {
        let mut parameters = Parameters {
            packets: 400_000,
            flows: 1000,
            slots: 1000,
            zipf: 0.0,
            hot_packets: 1,
            ..Parameters::default()
        };
        change(&mut parameters);
        parameters
    }

    fn fast_share(change: impl FnOnce(&mut Parameters)) -> f64 {
        run(&parameters(change)).fast as f64 / 200_000.0
    }

    /// Balls into bins: of as many flows as slots, 1 - 1/e find one.
    #[test]
    fn one_way_holds_what_collisions_leave() {
        let share = fast_share(|_| ());
        assert!((share - 0.632).abs() < 0.03, "{share}");
        assert!(fast_share(|p| p.ways = 8) > 0.85);
    }

    #[test]
    fn complex_packets_and_distance_cost_residence() {
        let near = fast_share(|p| p.complex_share = 0.1);
        let far = fast_share(|p| (p.complex_share, p.round_trip_us) = (0.1, 50.0));
        assert!(
            near < fast_share(|_| ()) && far < near - 0.05,
            "{near} {far}"
        );
    }

    #[test]
    fn the_silent_make_room() {
        let stay = run(&parameters(|p| p.flows = 100_000));
        let go = run(&parameters(|p| {
            (p.flows, p.time_to_live_us) = (100_000, 50.0)
        }));
        assert_eq!((stay.resident, stay.pulls), (1000, 0));
        assert!(go.resident < 800 && go.pulls > 50_000, "{go:?}");
    }

    #[test]
    fn a_second_packet_cancels_a_request() {
        let alone = run(&parameters(|p| (p.flows, p.round_trip_us) = (1, 4.0)));
        assert_eq!((alone.fast, alone.pulls > 90_000), (0, true));
        assert_eq!(alone.pulls.abs_diff(alone.cancelled), 0);
    }
}
