//! A whole node in one thread under virtual time: the same fast path and workers, a link of
//! constant delay, and a run that is the same every time.

mod change;
mod traced;

use crate::fast_path::{FastOutput, Via};
use crate::observe::{Observer, dropped_by};
use crate::sink::Sink;
use crate::source::{Read, Source};
use crate::threads::Commands;
use crate::wiring::Node;
use std::collections::VecDeque;
use std::time::{Duration, Instant as WallClock};
use twinpath_coherence::Clock;
use twinpath_core::{DropReason, Frame, Instant};
use twinpath_io::CaptureError;
use twinpath_link::{Sender, number};

/// A frame on its way, due at its time.
struct InFlight {
    due: Instant,
    worker: usize,
    frame: Frame,
}

/// One run under virtual time.
pub struct VirtualRun<'a, S: Sink> {
    node: &'a mut Node,
    sink: &'a mut S,
    observer: &'a mut Observer,
    one_way: Duration,
    to_cores: VecDeque<InFlight>,
    from_cores: VecDeque<InFlight>,
    senders: Vec<Sender>,
    returners: Vec<Sender>,
    output: FastOutput,
    batch: Vec<Frame>,
    returns: Vec<Frame>,
    now: Instant,
    started: Option<Instant>,
    /// When the last packet arrived.
    packet_clock: Instant,
    commands: Option<&'a Commands>,
}

impl<'a, S: Sink> VirtualRun<'a, S> {
    /// A run over a link with this round trip.
    pub fn new(
        node: &'a mut Node,
        sink: &'a mut S,
        observer: &'a mut Observer,
        round_trip: Duration,
    ) -> Self {
        let workers = node.workers.len();
        Self {
            node,
            sink,
            observer,
            one_way: round_trip / 2,
            to_cores: VecDeque::new(),
            from_cores: VecDeque::new(),
            senders: vec![Sender::default(); workers],
            returners: vec![Sender::default(); workers],
            output: FastOutput::default(),
            batch: Vec::with_capacity(1),
            returns: Vec::new(),
            now: Instant::ZERO,
            started: None,
            packet_clock: Instant::ZERO,
            commands: None,
        }
    }

    /// The same, with somebody who may want something of it.
    pub fn obeying(self, commands: &'a Commands) -> Self {
        let commands = Some(commands);
        Self { commands, ..self }
    }

    /// Runs until the source ends and nothing is under way any more. Returns how much packet time
    /// passed.
    ///
    /// # Errors
    /// Packets cannot be read or written.
    pub fn run(&mut self, source: &mut Source) -> Result<Duration, CaptureError> {
        let began = WallClock::now();
        loop {
            self.obey()?;
            match source.read()? {
                Read::Packet(at) => self.arrive(at, source.bytes())?,
                Read::TooLong => self.node.fast_path.count_drop(DropReason::FrameTooLong),
                Read::Nothing => std::thread::yield_now(),
                Read::End => break,
            }
            let elapsed = self.now.since(self.started.unwrap_or(self.now)).as_nanos() as u64;
            self.observer.tick(
                elapsed,
                began.elapsed().as_nanos() as u64,
                &self.node.fast_path,
                || dropped_by(&self.node.workers),
            );
        }
        let end = self.now;
        self.finish()?;
        Ok(end.since(self.started.unwrap_or(end)))
    }

    pub(crate) fn arrive(&mut self, at: Instant, bytes: &[u8]) -> Result<(), CaptureError> {
        if self.started.is_none() {
            self.start(at);
        }
        self.let_happen_until(at)?;
        (self.now, self.packet_clock) = (self.now.max(at), at);
        let Some(mut frame) = self.take_frame(bytes)? else {
            self.node.fast_path.count_drop(DropReason::NoBuffer);
            return Ok(());
        };
        frame.set_timestamp(at);
        frame.set_received_ns(at.0);
        self.batch.push(frame);
        let clock = self.clock();
        self.node.fast_path.process(
            &mut self.batch,
            clock,
            &mut self.node.pools,
            &mut self.output,
        );
        self.sweep()?;
        self.sink.advance(self.watermark())
    }

    fn sweep(&mut self) -> Result<(), CaptureError> {
        let clock = self.clock();
        self.node
            .fast_path
            .sweep(clock, &mut self.node.pools, &mut self.output);
        self.put_out()
    }

    /// A buffer with the packet. If all are under way, or too many packets wait for their turn,
    /// time goes on until that is over: a replay loses nothing, even one of a capture without
    /// timestamps.
    fn take_frame(&mut self, bytes: &[u8]) -> Result<Option<Frame>, CaptureError> {
        loop {
            if let Some(frame) = self.node.pools.take_filled(bytes) {
                return Ok(Some(frame));
            }
            match self.next_happening() {
                Some((at, _)) => self.let_happen_until(at)?,
                None if self.node.fast_path.oldest_parked().is_some() => {
                    self.pass_parking(Instant::NEVER)?;
                }
                None => return Ok(None),
            }
        }
    }

    fn start(&mut self, at: Instant) {
        self.started = Some(at);
        (self.now, self.packet_clock) = (at, at);
        self.node.fast_path.start(at);
        self.node
            .workers
            .iter_mut()
            .for_each(|worker| worker.start(at));
    }

    fn clock(&self) -> Clock {
        Clock {
            packet: self.now,
            link: self.now,
        }
    }

    /// The oldest packet that may still leave.
    fn watermark(&self) -> Instant {
        let oldest = |queue: &VecDeque<InFlight>| {
            queue
                .front()
                .map_or(self.now, |in_flight| in_flight.frame.timestamp())
        };
        let waiting = self.node.fast_path.oldest_parked();
        let on_link = oldest(&self.to_cores).min(oldest(&self.from_cores));
        on_link.min(waiting.unwrap_or(Instant::NEVER))
    }

    /// Departures go out, punts go on the link.
    fn put_out(&mut self) -> Result<(), CaptureError> {
        for departure in self.output.departures.drain(..) {
            let latency = match departure.via {
                Via::Fast => 0,
                Via::Slow => self.now.0.saturating_sub(departure.frame.received_ns()),
            };
            self.observer
                .departed(departure.via, departure.frame.len(), latency);
            self.sink.packet(&departure)?;
            self.node.pools.give(departure.frame);
        }
        for (worker, mut frame) in self.output.punts.drain(..) {
            number(&mut frame, self.senders[worker].number());
            self.to_cores.push_back(InFlight {
                due: self.now + self.one_way,
                worker,
                frame,
            });
        }
        Ok(())
    }

    /// Everything that is due before or at `until`, in order.
    fn let_happen_until(&mut self, until: Instant) -> Result<(), CaptureError> {
        while let Some((at, what)) = self.next_happening().filter(|&(at, _)| at <= until) {
            self.pass_parking(at)?;
            self.let_happen(at, what)?;
        }
        // At the end some headers may still have to be asked for.
        match until {
            Instant::NEVER => Ok(()),
            _ => self.pass_parking(until),
        }
    }

    /// Lets the queue in which payloads wait go on.
    fn pass_parking(&mut self, until: Instant) -> Result<(), CaptureError> {
        while let Some(at) =
            self.node
                .fast_path
                .pass_parking(until, &mut self.node.pools, &mut self.output)
        {
            self.now = self.now.max(at);
            self.put_out()?;
        }
        Ok(())
    }

    fn let_happen(&mut self, at: Instant, what: Happening) -> Result<(), CaptureError> {
        self.now = self.now.max(at);
        match what {
            Happening::Arrival => self.arrive_at_cores(),
            Happening::Return => self.return_from_cores()?,
            Happening::Deadline(worker) => self.wake(worker),
        }
        Ok(())
    }

    /// What is under way and arrives next.
    fn next_landing(&self) -> Option<(Instant, Happening)> {
        let arrival = self
            .to_cores
            .front()
            .map(|in_flight| (in_flight.due, Happening::Arrival));
        let back = self
            .from_cores
            .front()
            .map(|in_flight| (in_flight.due, Happening::Return));
        [back, arrival]
            .into_iter()
            .flatten()
            .min_by_key(|&(at, _)| at)
    }

    fn next_happening(&self) -> Option<(Instant, Happening)> {
        let deadlines = self.node.workers.iter().enumerate();
        // The cores' packet clock is what has reached them: one way behind.
        let deadlines = deadlines.filter_map(|(index, worker)| {
            Some((
                worker.next_deadline()? + self.one_way,
                Happening::Deadline(index),
            ))
        });
        self.next_landing()
            .into_iter()
            .chain(deadlines)
            .min_by_key(|&(at, _)| at)
    }

    fn arrive_at_cores(&mut self) {
        let Some(InFlight { worker, frame, .. }) = self.to_cores.pop_front() else {
            return;
        };
        self.node.workers[worker].receive(
            frame,
            &mut self.node.worker_pools[worker],
            &mut self.returns,
        );
        self.send_back(worker);
    }

    fn wake(&mut self, worker: usize) {
        let Some(deadline) = self.node.workers[worker].next_deadline() else {
            return;
        };
        self.node.workers[worker].advance(
            deadline,
            &mut self.node.worker_pools[worker],
            &mut self.returns,
        );
        self.send_back(worker);
    }

    fn send_back(&mut self, worker: usize) {
        for mut frame in self.returns.drain(..) {
            number(&mut frame, self.returners[worker].number());
            self.from_cores.push_back(InFlight {
                due: self.now + self.one_way,
                worker,
                frame,
            });
        }
    }

    fn return_from_cores(&mut self) -> Result<(), CaptureError> {
        let Some(InFlight { worker, frame, .. }) = self.from_cores.pop_front() else {
            return Ok(());
        };
        let clock = self.clock();
        self.node
            .fast_path
            .returned(worker, frame, clock, &mut self.node.pools, &mut self.output);
        self.put_out()
    }

    /// The last packets come back, all state goes home, and what the cores hold is released.
    fn finish(&mut self) -> Result<(), CaptureError> {
        loop {
            let clock = self.clock();
            let done =
                self.node
                    .fast_path
                    .give_all_back(clock, &mut self.node.pools, &mut self.output);
            self.put_out()?;
            self.let_happen_until(Instant::NEVER)?;
            if done {
                self.pass_parking(Instant::NEVER)?;
                return self.sink.advance(Instant::NEVER);
            }
        }
    }
}

#[derive(Copy, Clone)]
enum Happening {
    Arrival,
    Return,
    Deadline(usize),
}
