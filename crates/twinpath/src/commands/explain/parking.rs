//! Payloads that wait on the fast path's side.

use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use twinpath_control::report::units;
use twinpath_control::service::{Mode, Overflow, Service};

/// Which payloads wait, and for how long they can.
#[derive(Serialize)]
pub struct ParkingFacts {
    mode: &'static str,
    keeps_order: bool,
    queue_bytes: u64,
    slots: usize,
    port_bps: u64,
    least_payload_bytes: u32,
    /// The latency of the slow path that the queue bridges whatever the load (TurboSwitch, Theorem 1).
    bridged_ns: u64,
    header_timeout_ns: u64,
    drops_overflow: bool,
}

impl ParkingFacts {
    /// The facts, if the service parks payloads.
    pub fn of(service: &Service) -> Option<Self> {
        let parking = service.parking.as_ref()?;
        let bits = 8.0 * parking.limit_bytes as f64;
        let once_round_ns = bits * 1e9 / parking.port_bps as f64;
        Some(Self {
            mode: match parking.mode {
                Mode::Recirculate => "recirculate",
                Mode::RecirculateOrdered => "recirculate_ordered",
                Mode::Multicast => "multicast",
            },
            keeps_order: parking.mode != Mode::Recirculate,
            queue_bytes: parking.limit_bytes as u64,
            slots: parking.slots,
            port_bps: parking.port_bps,
            least_payload_bytes: parking.least_payload_bytes,
            bridged_ns: match parking.mode {
                Mode::Multicast => once_round_ns as u64,
                Mode::Recirculate | Mode::RecirculateOrdered => (once_round_ns / 2.0) as u64,
            },
            header_timeout_ns: parking.header_timeout.duration().as_nanos() as u64,
            drops_overflow: parking.overflow == Overflow::Drop,
        })
    }
}

impl Display for ParkingFacts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let order = match self.keeps_order {
            true => "flows keep their order",
            false => "packets of a flow may overtake each other",
        };
        let (queue, port) = (
            units::bytes(self.queue_bytes),
            units::bit_rate(self.port_bps as f64),
        );
        let (bridged, timeout) = (
            units::duration(self.bridged_ns),
            units::duration(self.header_timeout_ns),
        );
        let overflow = match self.drops_overflow {
            true => "is dropped",
            false => "crosses whole",
        };
        writeln!(
            f,
            "Only headers cross to the slow path ({}): {order}",
            self.mode
        )?;
        writeln!(
            f,
            "  payloads from {} bytes on wait in a queue of {queue} of a port of {port}, {} at most",
            self.least_payload_bytes,
            units::count(self.slots as u64)
        )?;
        writeln!(
            f,
            "  that bridges {bridged} at any load; a packet that finds no room {overflow}"
        )?;
        writeln!(
            f,
            "  a header that is not back after {timeout} costs its packet"
        )?;
        write!(
            f,
            "  whole cross: less payload, fragments, neither TCP nor UDP, a time to live that ends"
        )
    }
}
