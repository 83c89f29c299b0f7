//! Whole packets behind fragments of their flow.
//!
//! A fragment meets no rule: it goes to the slow path. Whole packets of its flow that come behind it and
//! have a rule are held until it has come back, for they must not overtake it. As for rules that become
//! active, a mark goes down the link behind the fragment, and its answer comes behind everything of the flow
//! that the workers have sent out by then. Each flow has a mark of its own and waits for its own fragments
//! alone; its rule stays active for all others that meet it.

use super::promotion::{FRAGMENT_MARKS, Mark};
use super::{Effect, Held};
use crate::key::MatchKey;
use crate::message::CacheMessage;
use std::collections::VecDeque;
use std::time::Duration;
use twinpath_core::{Decision, Instant};

/// Flows whose fragments are waited for, at most.
const MOST_FLOWS: usize = 256;

/// Most packets of a flow that are held.
const MOST_OF_FLOW: usize = 64;

/// A flow with fragments on the slow path.
struct Flow {
    key: MatchKey,
    /// The mark behind its last fragment.
    mark: Mark,
    held: VecDeque<Held>,
}

/// All such flows.
#[derive(Default)]
pub(super) struct Behind {
    /// In the order in which they began.
    flows: Vec<Flow>,
    /// Empty queues of flows that are gone, for those that come.
    spare: Vec<VecDeque<Held>>,
    /// Packets held.
    held: usize,
    /// The number of the last mark.
    mark: u32,
}

impl Behind {
    /// Whether no fragment is waited for.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Packets held.
    pub fn held(&self) -> usize {
        self.held
    }

    fn place(&self, key: &MatchKey) -> Option<usize> {
        let key = key.of_flow();
        self.flows.iter().position(|flow| flow.key == key)
    }

    /// How many packets of this one's flow wait for fragments; `None` if there are none to wait for.
    pub fn waiting(&self, key: &MatchKey) -> Option<usize> {
        let place = self.place(key)?;
        Some(self.flows[place].held.len())
    }

    /// A fragment goes to the slow path, after the last mark was sent. Returns whether there is room for
    /// its flow.
    pub fn await_return(&mut self, key: &MatchKey) -> bool {
        let (mark, place) = (self.new_mark(), self.place(key));
        match place {
            Some(place) => self.flows[place].mark = mark,
            None if self.flows.len() >= MOST_FLOWS => return false,
            None => self.flows.push(Flow {
                key: key.of_flow(),
                mark,
                held: self.spare.pop().unwrap_or_default(),
            }),
        }
        true
    }

    fn new_mark(&mut self) -> Mark {
        self.mark = self.mark.wrapping_add(1);
        Mark::new(self.mark | FRAGMENT_MARKS)
    }

    /// Keeps a packet of a flow whose fragments are waited for. If that are too many of the flow, or more
    /// than `most` of all, those of the flow go to the slow path, and what comes next waits for these.
    pub fn hold(&mut self, held: Held, most: usize, effects: &mut Vec<Effect>) {
        let Some(place) = self.place(&held.key) else {
            return effects.push(Effect::Release(held, Decision::Punt));
        };
        let flow = &mut self.flows[place];
        flow.held.push_back(held);
        self.held += 1;
        if flow.held.len() > MOST_OF_FLOW || self.held > most {
            self.held -= flow.held.len();
            let punted = flow.held.drain(..);
            effects.extend(punted.map(|held| Effect::Release(held, Decision::Punt)));
            self.flows[place].mark = self.new_mark();
        }
    }

    /// All go to the slow path, and no fragment is waited for.
    pub fn give_up(&mut self, effects: &mut Vec<Effect>) {
        self.held = 0;
        for mut flow in self.flows.drain(..) {
            let punted = flow.held.drain(..);
            effects.extend(punted.map(|held| Effect::Release(held, Decision::Punt)));
            self.spare.push(flow.held);
        }
    }

    /// The packets of a flow whose fragments have come back, as a mark's answer says that has come;
    /// `None` if there is no such flow.
    pub fn take_passed(&mut self, mark: u32) -> Option<VecDeque<Held>> {
        let has_passed = |flow: &Flow| flow.mark.is_answered_by(mark);
        let place = self.flows.iter().position(has_passed)?;
        let held = self.flows.remove(place).held;
        self.held -= held.len();
        Some(held)
    }

    /// A queue that [`Self::take_passed`] gave is empty, and serves another flow.
    pub fn give_back(&mut self, queue: VecDeque<Held>) {
        debug_assert!(queue.is_empty(), "its packets have gone on");
        self.spare.push(queue);
    }

    /// Sends the marks of flows of which fragments have gone to the slow path since the last one, or for whose
    /// answer they wait too long.
    pub fn tell_marks(&mut self, now: Instant, timeout: Duration, effects: &mut Vec<Effect>) {
        for flow in &mut self.flows {
            if flow.mark.is_due(now, timeout) {
                flow.mark.send(now);
                let message = CacheMessage::FlowMark(flow.mark.number, flow.key);
                effects.push(Effect::Send(message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_core::wire::Endpoint;
    use twinpath_core::wire::{PacketBuilder, dissect};
    use twinpath_core::{Direction, Pools};

    const LATE: Duration = Duration::from_millis(10);

    fn key(port: u16) -> MatchKey {
        let (frame, layout) = packet(port);
        MatchKey::of(&frame, &layout, 1, Direction::Original).expect("a whole packet")
    }

    fn packet(port: u16) -> (Vec<u8>, twinpath_core::wire::layout::Layout) {
        let from = Endpoint::v4([10, 0, 0, 1], port);
        let to = Endpoint::v4([192, 0, 2, 1], 53);
        let frame = PacketBuilder::udp(from, to).to_vec().expect("short");
        let layout = dissect(&frame).expect("a packet");
        (frame, layout)
    }

    fn held(pools: &mut Pools, port: u16) -> Held {
        let (frame, layout) = packet(port);
        let frame = pools.take_filled(&frame).expect("a buffer");
        let key = key(port);
        Held { frame, layout, key }
    }

    fn sent(effects: &mut Vec<Effect>) -> Vec<u32> {
        let sent = effects.drain(..).filter_map(|effect| match effect {
            Effect::Send(CacheMessage::FlowMark(mark, _)) => Some(mark),
            _ => None,
        });
        sent.collect()
    }

    /// Who waits goes on with the answer to a mark that was sent behind the last fragment, and others
    /// wait on.
    #[test]
    fn each_flow_waits_for_its_own_fragments() {
        let (mut behind, mut effects, mut pools) =
            (Behind::default(), Vec::new(), Pools::new(8, 0));
        let clock = |ms: u64| Instant(1_000_000_000 + ms * 1_000_000);
        assert!(behind.await_return(&key(1)));
        behind.tell_marks(clock(0), LATE, &mut effects);
        let first = sent(&mut effects);
        assert_eq!(first.len(), 1);
        assert!(behind.await_return(&key(2)));
        for port in [1, 2, 2] {
            let held = held(&mut pools, port);
            behind.hold(held, 64, &mut effects);
        }
        assert_eq!((behind.held(), behind.waiting(&key(3))), (3, None));
        assert_eq!(behind.take_passed(first[0]).map(|held| held.len()), Some(1));
        assert!(
            behind.take_passed(first[0]).is_none(),
            "it has not come back"
        );
        behind.tell_marks(clock(1), LATE, &mut effects);
        let second = sent(&mut effects);
        behind.tell_marks(clock(2), LATE, &mut effects);
        assert!(sent(&mut effects).is_empty(), "it is under way");
        behind.tell_marks(clock(20), LATE, &mut effects);
        assert_eq!(sent(&mut effects).len(), 1, "it may be lost");
        assert_eq!(
            behind.take_passed(second[0]).map(|held| held.len()),
            Some(2)
        );
        assert!(behind.is_empty() && behind.held() == 0);
    }

    /// More than may be held go to the slow path in order, and those behind them wait for these.
    #[test]
    fn what_waits_is_bounded() {
        let (mut behind, mut effects) = (Behind::default(), Vec::new());
        let mut pools = Pools::new(2 * MOST_OF_FLOW, 0);
        assert!(behind.await_return(&key(1)));
        behind.tell_marks(Instant(1), LATE, &mut effects);
        let before = sent(&mut effects);
        for _ in 0..=MOST_OF_FLOW {
            let held = held(&mut pools, 1);
            behind.hold(held, 4096, &mut effects);
        }
        let punted = effects.drain(..);
        let is_punted = |effect: &Effect| matches!(effect, Effect::Release(_, Decision::Punt));
        assert_eq!(punted.filter(is_punted).count(), MOST_OF_FLOW + 1);
        assert_eq!(behind.waiting(&key(1)), Some(0));
        assert!(behind.take_passed(before[0]).is_none(), "they are away");
        for port in 2..=MOST_FLOWS as u16 {
            assert!(behind.await_return(&key(port)));
        }
        assert!(!behind.await_return(&key(9999)), "there is no room");
        behind.give_up(&mut effects);
        assert!(behind.is_empty() && effects.is_empty());
    }
}
