//! Network interfaces as a node's ports, for as long as the run lasts.
//!
//! Bursts go from sockets into buffers of the node's pool and from there to the chain without a copy
//! between. All packets of a burst arrive at the time when it was taken. What leaves goes out at the
//! end of each turn of the driver; a turn with nothing to do ends in a wait for any of the sockets.

use crate::arrivals::Filled;
use crate::fast_path::Departure;
use crate::machine::Machine;
use crate::sink::Egress;
use crate::threads::PacketIo;
use std::time::{Duration, Instant as WallClock, SystemTime, UNIX_EPOCH};
use twinpath_control::report::{PortFigures, PortLosses};
use twinpath_control::service::{PortDevice, PortDriver};
use twinpath_core::{Frame, Instant, Pools};
use twinpath_io::CaptureError;
use twinpath_ports::{Driver, OpenError, Port, PortConfig, wait};

/// How often interfaces are looked at: whether they are up, which MTU they have.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Frames that one port may hand in before the others have their turn.
const BURST: usize = 64;

/// The ports.
pub struct LivePorts {
    ports: Vec<Port>,
    egress: Egress,
    /// The port that is asked first, in turn.
    next: usize,
    next_look: WallClock,
    without_port: u64,
}

impl LivePorts {
    /// Opens all ports.
    ///
    /// # Errors
    /// An interface is not there, or it is not permitted.
    pub fn open(devices: &[PortDevice]) -> Result<Self, OpenError> {
        let ports: Result<Vec<_>, _> = devices.iter().map(|one| Port::open(config(one))).collect();
        let ports = ports?;
        Ok(Self {
            egress: Egress::new(ports.len()),
            ports,
            next: 0,
            next_look: WallClock::now(),
            without_port: 0,
        })
    }

    /// What each port counted, under the service's names.
    pub fn figures(&self, names: &[String]) -> Vec<PortFigures> {
        let ports = names.iter().zip(&self.ports);
        ports.map(|(name, port)| figures(name, port)).collect()
    }

    /// What ports lost, in words.
    pub fn losses_in_words(&self) -> Vec<String> {
        let lost = |port: &Port| {
            let counters = port.counters();
            let (lost, device) = (counters.lost(), port.device());
            let what = format!("the port {device} lost {lost} packets: see `ports` in the report");
            (lost > 0).then_some(what)
        };
        self.ports.iter().filter_map(lost).collect()
    }

    /// Packets that had no port to leave by.
    pub fn without_port(&self) -> u64 {
        self.without_port
    }

    /// Looks now and then what became of the interfaces.
    fn look(&mut self) {
        let now = WallClock::now();
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_INTERVAL;
        for port in &mut self.ports {
            port.look();
        }
    }
}

impl PacketIo for LivePorts {
    fn first(&mut self) -> Result<Option<Instant>, CaptureError> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Some(Instant(
            since_1970.unwrap_or_default().as_nanos() as u64
        )))
    }

    fn is_over(&self) -> bool {
        false
    }

    fn fill(
        &mut self,
        machine: &mut Machine,
        now: Instant,
        received_ns: u64,
        burst: &mut Vec<Frame>,
    ) -> Result<Filled, CaptureError> {
        self.look();
        let (room, ports) = (machine.room(), self.ports.len());
        for turn in 0..ports {
            let number = (self.next + turn) % ports;
            let most = room.saturating_sub(burst.len()).min(BURST);
            let first = burst.len();
            self.ports[number].receive(machine.pools(), burst, most);
            for frame in &mut burst[first..] {
                frame.set_port(number as u16);
                frame.set_timestamp(now);
                frame.set_received_ns(received_ns);
            }
        }
        self.next = (self.next + 1) % ports.max(1);
        Ok(Filled::Some)
    }

    fn leaves(&mut self, departure: Departure, pools: &mut Pools) -> Result<(), CaptureError> {
        match self.egress.of(&departure) {
            Some(port) => self.ports[usize::from(port)].transmit(departure.frame, pools),
            None => {
                self.without_port += 1;
                pools.give(departure.frame);
            }
        }
        Ok(())
    }

    fn advance(&mut self, _watermark: Instant, pools: &mut Pools) -> Result<(), CaptureError> {
        self.ports.iter_mut().for_each(|port| port.flush(pools));
        Ok(())
    }

    fn rest(&mut self, time: Duration) {
        wait(&self.ports, time);
    }

    fn losses(&self) -> PortLosses {
        let mut losses = PortLosses {
            without_port: self.without_port,
            ..PortLosses::default()
        };
        for port in &self.ports {
            let counters = port.counters();
            losses.receive_missed += counters.receive_missed;
            losses.receive_no_buffer += counters.receive_no_buffer;
            losses.transmit_refused += counters.transmit_refused;
        }
        losses
    }
}

fn config(device: &PortDevice) -> PortConfig {
    PortConfig {
        device: device.device.clone(),
        driver: match device.driver {
            PortDriver::Auto => Driver::Auto,
            PortDriver::AfXdp => Driver::AfXdp,
            PortDriver::AfPacket => Driver::AfPacket,
            PortDriver::Tap => Driver::Tap,
        },
    }
}

fn figures(name: &str, port: &Port) -> PortFigures {
    let counters = port.counters();
    PortFigures {
        name: name.to_owned(),
        device: port.device().to_owned(),
        driver: port.driver().name().to_owned(),
        received_packets: counters.received_packets,
        received_bytes: counters.received_bytes,
        receive_missed: counters.receive_missed,
        receive_no_buffer: counters.receive_no_buffer,
        receive_too_long: counters.receive_too_long,
        receive_malformed: counters.receive_malformed,
        transmitted_packets: counters.transmitted_packets,
        transmitted_bytes: counters.transmitted_bytes,
        transmit_refused: counters.transmit_refused,
        transmit_too_long: counters.transmit_too_long,
        outages: counters.outages,
    }
}
