//! Payloads that wait on the fast path's side while their headers are on the slow path.

use super::draw::Draw;
use super::invariants::Rule;
use super::scenario::Traffic;
use super::simulation::Simulation;
use std::time::Duration;
use twinpath_core::DropReason;
use twinpath_parking::config::{
    Config, Correction, Late, Multicast, Order, Small, Target, Variant,
};
use twinpath_parking::{PortConfig, Stage};

/// The queue, and the port that drains it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParkingSettings {
    /// The queue.
    pub queue: Config,
    /// Its port.
    pub port: PortConfig,
}

impl ParkingSettings {
    /// Whether nothing that has left the queue passes it again.
    pub(super) fn passes_once(&self) -> bool {
        !has_loopback(&self.queue.variant)
    }

    pub(super) fn drawn(draw: &mut Draw, traffic: &Traffic, delay_ns: u64) -> Self {
        let round_trip = Duration::from_nanos(2 * delay_ns);
        let rate_bps = draw.pick(&[1_000_000_000, 10_000_000_000, 100_000_000_000]);
        let variant = variant(draw, rate_bps);
        let is_short = draw.one_in(3);
        let slots = match is_short {
            true => draw.between(1, 4) as u32,
            false => 256,
        };
        Self {
            queue: Config {
                slow_path_chooses_port: draw.flip() && has_loopback(&variant),
                variant,
                order: Order::AsReturned {
                    partitions: draw.pick(&[1, 4, 64]),
                },
                small: Small::Bypass,
                least_payload_bytes: draw.pick(&[1, 10, 20]),
                limit_bytes: if draw.one_in(3) { 400 } else { 1 << 20 },
                slots,
                header_timeout: round_trip * draw.pick(&[1, 2, 8, 100]) + gap(traffic),
            },
            port: PortConfig {
                rate_bps,
                reading_interval: round_trip,
                drops_overflow: draw.flip(),
            },
        }
    }
}

fn gap(traffic: &Traffic) -> Duration {
    Duration::from_nanos(traffic.gap_ns)
}

/// Whether what has left the queue can pass it again.
fn has_loopback(variant: &Variant) -> bool {
    match variant {
        Variant::Recirculation => true,
        Variant::Multicast(multicast) => multicast.late == Late::Again,
    }
}

fn variant(draw: &mut Draw, drain_bps: u64) -> Variant {
    if draw.flip() {
        return Variant::Recirculation;
    }
    Variant::Multicast(Multicast {
        target: Target::Fixed {
            bytes: draw.pick(&[100, 300]),
        },
        gain: 0.5,
        correction: Correction::Exact,
        drain_bps,
        most_copies: 16,
        late: draw.pick(&[Late::Discard, Late::Again]),
    })
}

impl Simulation {
    pub(super) fn has_parking(&self) -> bool {
        self.scenario.parking.is_some()
    }

    /// Packets dropped because payloads or packets had no room in the queue.
    pub(super) fn drops_for_parking(&self) -> u64 {
        self.machine.path().drops().of(DropReason::ParkingFull)
    }

    fn parking(&self) -> Option<&Stage> {
        self.machine.path().parking()
    }

    /// Whether payloads or packets wait in the queue.
    pub(super) fn parks_anything(&self) -> bool {
        self.parking().is_some_and(|stage| !stage.is_empty())
    }

    /// In the end nothing waits, and every payload has come to one end.
    pub(super) fn settle_parking(&mut self) {
        let Some(stats) = self.parking().map(|stage| *stage.stats()) else {
            return;
        };
        if self.parks_anything() || stats.parked != stats.ended() {
            let what = format!(
                "of {} payloads {} have come to an end",
                stats.parked,
                stats.ended()
            );
            self.step.fault(Rule::Whole, what);
        }
    }

    /// Adds up what production counted of payloads.
    pub(super) fn count_parking(&mut self) {
        let Some(stage) = self.machine.path().parking() else {
            return;
        };
        let (stats, counts) = (*stage.stats(), *stage.counts());
        let coverage = &mut self.coverage;
        coverage.payloads_parked += stats.parked;
        coverage.payloads_joined += stats.departed;
        coverage.payloads_declined += stats.declined;
        coverage.payloads_missing += stats.expired + stats.late;
        coverage.parking_followers += stats.followers;
        coverage.headers_stale += stats.headers_stale;
        coverage.parking_full += counts.no_room + counts.refused + counts.with_state;
    }
}
