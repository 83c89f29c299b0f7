//! What an operator wants of a run under virtual time: as on threads, between two packets.

use super::VirtualRun;
use crate::replacement::{Leftovers, Replacement};
use crate::sink::Sink;
use crate::threads::{Command, Done, NotNow, Replaced};
use std::time::{Duration, Instant as WallClock};
use twinpath_core::Instant;
use twinpath_io::CaptureError;

/// How often flows may be asked home: each time the link may carry as much as there are buffers.
const MOST_ROUNDS: usize = 100_000;

impl<S: Sink> VirtualRun<'_, S> {
    /// Does what the operator wants.
    pub(super) fn obey(&mut self) -> Result<(), CaptureError> {
        let Some(command) = self.commands.and_then(|commands| commands.try_recv().ok()) else {
            return Ok(());
        };
        match command {
            Command::AskWorker(task) => {
                let (worker, pools) = (&mut self.node.workers[0], &mut self.node.worker_pools[0]);
                task(worker, pools, &mut self.returns);
                self.send_back(0);
                Ok(())
            }
            Command::Replace(replacement, answer) => {
                let replaced = self.replace(replacement)?;
                self.node.fast_path.keep_flows();
                // Whoever has gone away hears nothing.
                let _ = answer.send(replaced);
                Ok(())
            }
        }
    }

    /// Takes another chain while nothing is under way. Timers whose time has not come wait.
    fn replace(&mut self, mut replacement: Box<Replacement>) -> Result<Replaced, CaptureError> {
        let began = WallClock::now();
        if !self.come_to_rest(replacement.brings_flows_home)? {
            return Ok(Err((replacement, NotNow::Flows)));
        }
        if replacement.releases_packets {
            self.release()?;
        }
        let mut refused = Vec::new();
        let mut left = Leftovers::default();
        for (worker, plans) in self.node.workers.iter_mut().zip(&mut replacement.cores) {
            let taken = std::mem::take(plans);
            let steering = replacement.steering.clone();
            match worker.replace(taken, steering, self.packet_clock) {
                Ok((why, remains)) => {
                    refused.extend(why);
                    left.add(remains);
                }
                Err(returned) => {
                    *plans = returned;
                    return Ok(Err((replacement, NotNow::Rules)));
                }
            }
        }
        let Replacement {
            sides,
            steering,
            fast,
            pools,
            ..
        } = *replacement;
        let path = &mut self.node.fast_path;
        path.replace(sides, steering, fast, &mut left);
        if let Some(pools) = pools {
            left.add(self.node.pools.grow_to(pools));
        }
        Ok(Ok(Done {
            pause: began.elapsed(),
            refused,
            left,
        }))
    }

    /// Lets everything that is under way arrive, and the state of flows come home if it has to.
    /// Returns whether that came to an end.
    fn come_to_rest(&mut self, brings_flows_home: bool) -> Result<bool, CaptureError> {
        for _ in 0..MOST_ROUNDS {
            let clock = self.clock();
            let (path, pools) = (&mut self.node.fast_path, &mut self.node.pools);
            let are_home = !brings_flows_home
                || path.bring_flows_home(usize::MAX, clock, pools, &mut self.output);
            let is_settled = path.settle_rules(clock, pools, &mut self.output);
            self.put_out()?;
            if !self.land()? {
                if are_home && is_settled {
                    // All headers that will come are back: their payloads follow.
                    self.pass_parking(Instant::NEVER)?;
                    return Ok(true);
                }
                // What was lost for want of a buffer is sent again in time.
                self.now = self.now + Duration::from_millis(1);
            }
        }
        Ok(false)
    }

    /// Everything that is under way arrives. Returns whether anything was.
    fn land(&mut self) -> Result<bool, CaptureError> {
        let mut landed = false;
        while let Some((at, what)) = self.next_landing() {
            self.let_happen(at, what)?;
            landed = true;
        }
        Ok(landed)
    }

    /// What functions keep leaves through the chain as it is.
    fn release(&mut self) -> Result<(), CaptureError> {
        for worker in 0..self.node.workers.len() {
            self.node.workers[worker].release(
                self.packet_clock,
                &mut self.node.worker_pools[worker],
                &mut self.returns,
            );
            self.send_back(worker);
        }
        self.come_to_rest(false).map(drop)
    }
}
