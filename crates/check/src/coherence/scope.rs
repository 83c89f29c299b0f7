//! How much of the protocol's behaviour is searched.

/// No bound on how often something happens in a run.
pub const UNLIMITED: u8 = u8::MAX;

/// How often each kind of event may happen in one run; [`UNLIMITED`] for as often as it likes.
///
/// Runs without bounds are still searched to the end: states that differ only in names (of
/// packets, generations, incarnations of the slow path) and in stretches of history that every copy
/// of the value shares are one state, so that the bound on frames in flight alone makes the
/// search finite.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Packets that arrive, of all flows together.
    pub packets: u8,
    /// Frames lost on the link, either way.
    pub losses: u8,
    /// Frames that overtake others on the link, either way.
    pub reorderings: u8,
    /// Deadlines of INCOMPLETE and FROZEN that pass.
    pub timeouts: u8,
    /// Times a flow is idle for its time to live.
    pub idles: u8,
    /// Recalls by the slow path of flows that have long been silent.
    pub recalls: u8,
    /// Crashes of the slow path.
    pub crashes: u8,
    /// Pulls declined although no packet is held.
    pub declines: u8,
    /// Frames of unknown flows that the workers refuse for want of room.
    pub refusals: u8,
    /// Packets that the network function holds back.
    pub holds: u8,
    /// Packets that the network function drops.
    pub drops: u8,
    /// Packets that end their flow: its value becomes zero.
    pub ends: u8,
    /// Changes that the workers make on their own account: timers and expiry.
    pub timers: u8,
}

impl Budget {
    /// Nothing happens.
    pub const NONE: Self = Self {
        packets: 0,
        losses: 0,
        reorderings: 0,
        timeouts: 0,
        idles: 0,
        recalls: 0,
        crashes: 0,
        declines: 0,
        refusals: 0,
        holds: 0,
        drops: 0,
        ends: 0,
        timers: 0,
    };

    /// Anything may happen, as often as it likes.
    pub const ALL: Self = Self {
        packets: UNLIMITED,
        losses: UNLIMITED,
        reorderings: UNLIMITED,
        timeouts: UNLIMITED,
        idles: UNLIMITED,
        recalls: UNLIMITED,
        crashes: UNLIMITED,
        declines: UNLIMITED,
        refusals: UNLIMITED,
        holds: UNLIMITED,
        drops: UNLIMITED,
        ends: UNLIMITED,
        timers: UNLIMITED,
    };

    /// Without crashes, recalls, and what the network function does of its own will: runs that
    /// need no more than packets, time and the link are the easiest to follow.
    pub(super) const fn calm(self) -> Self {
        Self {
            packets: self.packets,
            losses: self.losses,
            reorderings: self.reorderings,
            timeouts: self.timeouts,
            idles: self.idles,
            ..Self::NONE
        }
    }
}

/// Takes one from a budget.
pub(super) fn spend(left: &mut u8) {
    if *left != UNLIMITED {
        *left = left.saturating_sub(1);
    }
}

/// What is searched.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Flows that share the one slot: 1 or 2.
    pub flows: u8,
    /// Most frames on their way to the slow path: 1 to 4.
    pub to_worker: u8,
    /// Most frames on their way back, 1 to 4; one more where a packet that was held comes out too.
    pub to_fast: u8,
    /// Cancelled pulls repeated in a row (see [`Backoff`](twinpath_coherence::fsm::Backoff)).
    /// The pause afterwards is left out: the next hot packet may pull at once.
    pub rearms: u8,
    /// Most packets that wait for the answer to a pull: 0 to 2. With 0 none ever does, as on a switch.
    pub waiting: u8,
    /// How often what may happen.
    pub budget: Budget,
    /// Threads that search.
    pub threads: u8,
    /// The search gives up after about this many steps (several lead to each state).
    pub most_steps: usize,
}

impl Scope {
    /// Two flows, two frames to the slow path and one back, runs of any length: seconds.
    pub const fn small() -> Self {
        Self {
            flows: 2,
            to_worker: 2,
            to_fast: 1,
            rearms: 1,
            waiting: 1,
            budget: Budget::ALL,
            threads: 2,
            most_steps: 20_000_000,
        }
    }

    /// Two flows, three frames to the slow path and two back, runs of any length: 4.0 million states,
    /// 48 million steps, about half a minute on two cores.
    pub const fn standard() -> Self {
        Self {
            to_worker: 3,
            to_fast: 2,
            most_steps: 400_000_000,
            ..Self::small()
        }
    }

    /// One frame more on the way back: tens of millions of states and gigabytes of memory.
    pub const fn deep() -> Self {
        Self {
            to_fast: 3,
            most_steps: 4_000_000_000,
            ..Self::standard()
        }
    }

    /// The nearest scope that can be searched: more frames would need longer names than states
    /// have room for.
    pub(super) fn clamped(self) -> Self {
        Self {
            flows: self.flows.clamp(1, 2),
            to_worker: self.to_worker.clamp(1, 4),
            to_fast: self.to_fast.clamp(1, 4),
            waiting: self.waiting.min(2),
            threads: self.threads.max(1),
            ..self
        }
    }
}
