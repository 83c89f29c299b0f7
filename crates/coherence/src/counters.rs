//! What the protocol did.

/// Counters of the fast path's side.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CoherenceCounters {
    /// Pulls sent, re-arms included.
    pub pulls: u64,
    /// Pulls whose state was installed.
    pub installs: u64,
    /// Pulls that the workers declined.
    pub declines: u64,
    /// Pulls overtaken by a packet of their flow.
    pub cancellations: u64,
    /// Cancelled pulls that were repeated at once.
    pub rearms: u64,
    /// Pulls without an answer in time.
    pub incomplete_timeouts: u64,
    /// Pulls that the link had no room for.
    pub refused_pulls: u64,
    /// Packets that waited for the state of their flow.
    pub waited: u64,
    /// Of them, those for which it did not come.
    pub waited_then_punted: u64,
    /// Slots frozen by a complex packet.
    pub write_backs: u64,
    /// Slots frozen because their flow was idle, or at the end of a run.
    pub idle_write_backs: u64,
    /// Write-backs sent again.
    pub write_back_retries: u64,
    /// Acknowledgements that freed a slot.
    pub acknowledgements: u64,
    /// Messages of another generation, or of a flow that had left its slot.
    pub stale_messages: u64,
    /// Packets of hot flows that found their bucket full.
    pub collisions: u64,
    /// Slots by state: initial, incomplete, active, frozen.
    pub population: [u64; 4],
}

impl CoherenceCounters {
    /// Adds what a stage counted that is gone; it has no slots any more.
    pub fn absorb(&mut self, gone: &Self) {
        let Self {
            pulls,
            installs,
            declines,
            cancellations,
            rearms,
            incomplete_timeouts,
            refused_pulls,
            waited,
            waited_then_punted,
            write_backs,
            idle_write_backs,
            write_back_retries,
            acknowledgements,
            stale_messages,
            collisions,
            population: _,
        } = *gone;
        self.pulls += pulls;
        self.installs += installs;
        self.declines += declines;
        self.cancellations += cancellations;
        self.rearms += rearms;
        self.incomplete_timeouts += incomplete_timeouts;
        self.refused_pulls += refused_pulls;
        self.waited += waited;
        self.waited_then_punted += waited_then_punted;
        self.write_backs += write_backs;
        self.idle_write_backs += idle_write_backs;
        self.write_back_retries += write_back_retries;
        self.acknowledgements += acknowledgements;
        self.stale_messages += stale_messages;
        self.collisions += collisions;
    }
}
