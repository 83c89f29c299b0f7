//! Payloads that wait on the fast path's side while their headers are on the slow path.

use super::traffic::Traffic;
use crate::faults::draw::Draw;
use std::time::Duration;
use twinpath_parking::PortConfig;
use twinpath_parking::config::{
    Config, Correction, Late, Multicast, Order, Small, Target, Variant,
};

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

    /// Any queue.
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
                order: Order::AsReturned,
                small: Small::Bypass,
                least_payload_bytes: draw.pick(&[1, 10, 20]),
                limit_bytes: if draw.one_in(3) { 400 } else { 1 << 20 },
                slots,
                header_timeout: round_trip * draw.pick(&[1, 2, 8, 100])
                    + Duration::from_nanos(traffic.gap_ns),
            },
            port: PortConfig {
                rate_bps,
                reading_interval: round_trip,
                drops_overflow: draw.flip(),
            },
        }
    }
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
