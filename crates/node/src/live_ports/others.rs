//! What ports have to do with other shards: those have their part of every interface, too.

use super::LivePorts;
use crate::threads::PacketIo;
use std::time::{Duration, Instant as WallClock};
use twinpath_core::adjacency::shard_of;
use twinpath_core::{Frame, Pools};

/// How long others are waited for when a shard's run is over, and how often they are looked at.
pub(super) const LONGEST_END: Duration = Duration::from_secs(2);
const LOOK_AT_OTHERS: Duration = Duration::from_micros(100);

impl LivePorts {
    /// What has come by queues of other shards, and what they want to leave by ours.
    pub(super) fn take_from_others(
        &mut self,
        room: usize,
        burst: &mut Vec<Frame>,
        pools: &mut Pools,
    ) {
        let Some(handoff) = &mut self.handoff else {
            return;
        };
        let first = burst.len();
        handoff.take_arrived(room.saturating_sub(first), pools, burst);
        let is_across = |frame: &mut Frame| shard_of(frame.metadata().egress).is_some();
        self.across.extend(burst.extract_if(first.., is_across));
        self.take_neighbors(first, burst, pools, |_, _, _| ());
        self.let_others_leave(pools);
    }

    fn let_others_leave(&mut self, pools: &mut Pools) {
        let Some(handoff) = &mut self.handoff else {
            return;
        };
        let [mut frames, rest] = std::mem::take(&mut self.parts);
        handoff.take_leaving(&mut frames);
        let has_some = !frames.is_empty();
        for frame in frames.drain(..) {
            match self.ports.get_mut(usize::from(frame.port())) {
                Some(port) => port.transmit(frame, pools),
                None => pools.give(frame),
            }
        }
        self.parts = [frames, rest];
        if has_some {
            self.ports.iter_mut().for_each(|port| port.flush(pools));
        }
    }

    pub(super) fn wake_others(&mut self) {
        if let Some(handoff) = &mut self.handoff {
            handoff.wake();
        }
    }

    /// The run is over; other shards may still have something to leave by our queues.
    pub(super) fn end_together(&mut self, pools: &mut Pools) {
        let until = WallClock::now() + LONGEST_END;
        if let Some(handoff) = &mut self.handoff {
            handoff.end();
        }
        while WallClock::now() < until
            && self
                .handoff
                .as_ref()
                .is_some_and(|handoff| !handoff.have_all_ended())
        {
            self.let_others_leave(pools);
            self.hear_for_others(pools);
            std::thread::sleep(LOOK_AT_OTHERS);
        }
        self.let_others_leave(pools);
        if let Some(handoff) = &mut self.handoff {
            handoff.leave_behind(&mut self.across, pools);
        }
    }

    /// What memory servers send to other shards may come by our queues.
    fn hear_for_others(&mut self, pools: &mut Pools) {
        let [mut frames, rest] = std::mem::take(&mut self.parts);
        self.receive_from_servers(pools, &mut frames);
        frames.drain(..).for_each(|frame| pools.give(frame));
        self.parts = [frames, rest];
    }

    pub(super) fn tell_all(&mut self, frame: &Frame, pools: &mut Pools) {
        if let Some(handoff) = &mut self.handoff {
            handoff.tell_all(frame, pools);
        }
    }
}
