//! Where a node on threads gets packets from, and where they go.

use crate::arrivals::{Arrivals, Filled};
use crate::departure::Departure;
use crate::machine::Machine;
use crate::sink::Sink;
use std::time::Duration;
use twinpath_control::report::{KernelFigures, PortLosses, Report};
use twinpath_core::{DropReason, Frame, Instant, Pools};
use twinpath_io::CaptureError;
use twinpath_ports::State;

/// Both ends of a node, as its driver sees them.
pub trait PacketIo {
    /// When the run begins: with the first packet, or at once where packets have the time at which they
    /// come; `None` if that is not known yet.
    ///
    /// # Errors
    /// Packets cannot be read.
    fn first(&mut self) -> Result<Option<Instant>, CaptureError>;

    /// Whether no packet will ever come.
    fn is_over(&self) -> bool;

    /// Puts packets that enter now into a burst, not more than the machine has room for. `now` is
    /// what time it is on the packet clock, `received_ns` on that of the link.
    ///
    /// # Errors
    /// Packets cannot be read.
    fn fill(
        &mut self,
        machine: &mut Machine,
        now: Instant,
        received_ns: u64,
        burst: &mut Vec<Frame>,
    ) -> Result<Filled, CaptureError>;

    /// The run is to end: whether nothing more comes. If not, it is asked again behind the next
    /// [`fill`](Self::fill), which hands in what is on its way already.
    fn stops(&mut self) -> bool {
        true
    }

    /// A packet leaves. Its buffer goes back to `pools`, now or later.
    ///
    /// # Errors
    /// It cannot be written.
    fn leaves(&mut self, departure: Departure, pools: &mut Pools) -> Result<(), CaptureError>;

    /// Frames leave for memory servers at once, each by the port that leads to its own; they are
    /// drained.
    fn tell_servers(&mut self, frames: &mut Vec<(u16, Frame)>, pools: &mut Pools) {
        frames.drain(..).for_each(|(_, frame)| pools.give(frame));
    }

    /// Takes what has come by ports that lead to memory servers, each frame with its port.
    fn receive_from_servers(&mut self, _pools: &mut Pools, _frames: &mut Vec<Frame>) {}

    /// Takes packets that have left and that nobody takes at their link, each with its port.
    fn undelivered(&mut self, _frames: &mut Vec<Frame>) {}

    /// A packet leaves for another shard. Its buffer goes back to the machine's pools, now or later, and
    /// what that shard does not take is counted.
    fn goes_across(&mut self, _shard: u16, frame: Frame, machine: &mut Machine) {
        machine.pools().give(frame);
    }

    /// Takes packets that have come from other shards, no more than the machine has room for, each with
    /// its time.
    fn come_across(&mut self, _machine: &mut Machine, _frames: &mut Vec<Frame>) {}

    /// What has left until now goes out; no packet older than `watermark` will leave any more.
    ///
    /// # Errors
    /// It cannot be written.
    fn advance(&mut self, watermark: Instant, pools: &mut Pools) -> Result<(), CaptureError>;

    /// There is nothing to do: blocks for so long, or until packets come.
    fn rest(&mut self, longest: Duration);

    /// What was lost here so far: before it came in, or when it had left.
    fn losses(&self) -> PortLosses;

    /// Fills in what ports counted, if they are more than a source and a sink.
    fn figures(&self, _report: &mut Report) {}

    /// Calls `each` with every port's number and whether packets come and go there.
    fn each_port(&self, _each: &mut dyn FnMut(usize, State)) {}

    /// What is followed of the kernel's routes, if they are wanted.
    fn kernel_figures(&self) -> Option<KernelFigures> {
        None
    }
}

/// Packets of a source, and a sink for those that leave.
pub(super) struct Replay<'a, S> {
    pub arrivals: Arrivals<'a>,
    pub sink: &'a mut S,
}

/// Whether all packets that have entered a machine are through.
pub fn is_settled(machine: &Machine) -> bool {
    machine.watermark() >= machine.arrived()
}

/// A source cannot wake anybody: it is looked at again soon.
const REST: Duration = Duration::from_micros(20);

impl<S: Sink> PacketIo for Replay<'_, S> {
    fn first(&mut self) -> Result<Option<Instant>, CaptureError> {
        self.arrivals.settle(true);
        let first = self.arrivals.first()?;
        let first = first.or_else(|| self.arrivals.first_across());
        Ok(first.or_else(|| self.arrivals.now()))
    }

    fn is_over(&self) -> bool {
        self.arrivals.is_over()
    }

    fn fill(
        &mut self,
        machine: &mut Machine,
        now: Instant,
        received_ns: u64,
        burst: &mut Vec<Frame>,
    ) -> Result<Filled, CaptureError> {
        self.arrivals.settle(is_settled(machine));
        self.arrivals.fill(machine, now, received_ns, burst)
    }

    fn goes_across(&mut self, shard: u16, frame: Frame, machine: &mut Machine) {
        if !self.arrivals.send_across(shard, &frame) {
            machine.count_drop(DropReason::RunEnded);
        }
        machine.pools().give(frame);
    }

    fn come_across(&mut self, machine: &mut Machine, frames: &mut Vec<Frame>) {
        self.arrivals.take_across(machine, frames);
    }

    fn leaves(&mut self, departure: Departure, pools: &mut Pools) -> Result<(), CaptureError> {
        self.sink.packet(&departure)?;
        pools.give(departure.frame);
        Ok(())
    }

    fn advance(&mut self, watermark: Instant, _: &mut Pools) -> Result<(), CaptureError> {
        self.sink.advance(watermark)
    }

    fn rest(&mut self, longest: Duration) {
        std::thread::sleep(longest.min(REST));
    }

    fn losses(&self) -> PortLosses {
        self.sink.losses()
    }
}
