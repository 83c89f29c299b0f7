//! How often what was to be tried happened.

use twinpath_coherence::SlowFlows;
use twinpath_core::DropReason;
use twinpath_node::FastPath;
use twinpath_parking::ParkingStage;
use twinpath_remote::SplitStage;
use twinpath_rulecache::{RuleTable, SlowRules};

macro_rules! coverage {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How often what was to be tried happened.
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        pub struct Coverage {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Coverage {
            /// Adds what another run tried.
            pub fn absorb(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Every figure, with its name.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

coverage! {
    /// Steps, each followed by a check of everything.
    steps,
    /// Packets that arrived.
    packets,
    /// Packets that left without the slow path.
    left_fast,
    /// Packets that left after the workers.
    left_slow,
    /// Pulls sent.
    pulls,
    /// Pulls repeated at once.
    rearms,
    /// Pulls overtaken by a packet.
    cancellations,
    /// States installed.
    installs,
    /// Of those, such as were installed while another element had state of the same flow.
    installs_beside,
    /// Pulls declined.
    declines,
    /// Pulls without an answer in time.
    incomplete_timeouts,
    /// Packets that waited for the state of their flow.
    waited,
    /// Of them, those for which it did not come.
    waited_then_punted,
    /// Slots frozen by a complex packet.
    write_backs,
    /// Slots frozen because their flow was idle.
    idle_write_backs,
    /// Write-backs sent again.
    write_back_retries,
    /// Acknowledgements that freed a slot.
    acknowledgements,
    /// Messages that came too late to matter.
    stale_messages,
    /// Hot flows that found no slot.
    collisions,
    /// Values imported.
    imports,
    /// Values imported that crashed workers had granted.
    rescued,
    /// Write-backs not imported because their value was known.
    duplicate_write_backs,
    /// Recalls of flows that have long been silent.
    recalls,
    /// Flows that were forgotten.
    flows_aged,
    /// Packets refused because the workers knew too many flows.
    flow_table_full,
    /// Frames lost on the link.
    frames_lost,
    /// Frames delivered twice.
    frames_doubled,
    /// Frames dropped because they were overtaken.
    frames_overtaken,
    /// Frames that found a ring full.
    ring_full,
    /// Packets or messages that found no buffer.
    no_buffer,
    /// Packets held by the slow path.
    held,
    /// Held packets that left because their time was up.
    woken,
    /// Crashes.
    crashes,
    /// Pauses of a worker.
    pauses,
    /// Changes of the chain.
    changes,
    /// Of those, such as were asked for while payloads were parked.
    changes_while_parked,
    /// Changes given up when the fast path had given everything back.
    changes_given_up,
    /// Flows that followed to another chain.
    flows_followed,
    /// Rules sent to the fast path.
    rules_added,
    /// Rules that became active.
    rules_activated,
    /// Packets that met a rule.
    rule_hits,
    /// Packets held until a rule was active.
    rule_holds,
    /// Of those, packets that went to the slow path after all.
    held_then_punted,
    /// Rules that had to wait for a packet of their flow to return.
    rules_demoted,
    /// Rules that the fast path took out because they were idle.
    rules_idle,
    /// Promotions given up because too many packets were held.
    holds_full,
    /// Marks sent again.
    marks_repeated,
    /// Packets that waited on the slow path for rules to go.
    waited_for_rules,
    /// Rules taken out because an entry was to change.
    rules_invalidated,
    /// Rules that gave way to hotter ones.
    rules_replaced,
    /// Rules taken out because nobody used them.
    rules_aged,
    /// Requests about rules sent again.
    rule_requests_repeated,
    /// Payloads that were parked.
    payloads_parked,
    /// Payloads that left with their headers.
    payloads_joined,
    /// Payloads given up because their packets were dropped.
    payloads_declined,
    /// Payloads given up because no header came back in time.
    payloads_missing,
    /// Whole packets that waited in the queue behind others.
    parking_followers,
    /// Headers that came back too late.
    headers_stale,
    /// Packets whose payload found no room.
    parking_full,
    /// Payloads that were written to remote memory.
    payloads_split,
    /// Payloads that came back from there to their headers.
    payloads_merged,
    /// Payloads there that nobody needed, because their packets were dropped.
    payloads_split_declined,
    /// Payloads there whose headers did not come back.
    payloads_split_missing,
    /// Payloads that did not come back from there.
    payloads_lost,
    /// Payloads that lost their place there before they were asked for.
    payloads_gone,
    /// Payloads for which there was no room there, or no server.
    payloads_unsplit,
    /// Whole packets that waited for others whose payloads were there.
    payloads_followers,
    /// Bindings of a translation that began or ended.
    bindings_changed,
}

/// Adds figures of the same names.
macro_rules! add {
    ($to:expr, $from:expr; $($name:ident),*) => {
        $($to.$name += $from.$name;)*
    };
}

impl Coverage {
    /// Adds what a worker's functions counted that share flow state, before they crash or at the
    /// end.
    pub(crate) fn count_flows(&mut self, flows: &SlowFlows, is_ledger: bool) {
        let stats = flows.counters();
        add!(self, stats;
            imports, rescued, duplicate_write_backs, recalls, flows_aged);
        if !is_ledger {
            self.flow_table_full += flows.drops().of(DropReason::FlowTableFull);
        }
    }

    /// Adds what the fast path counted.
    pub(crate) fn count_fast_path(&mut self, path: &FastPath) {
        let stats = path.coherence();
        add!(self, stats;
            pulls, rearms, cancellations, installs, declines, incomplete_timeouts, waited,
            waited_then_punted, write_backs,
            idle_write_backs, write_back_retries, acknowledgements, stale_messages, collisions);
        self.no_buffer += path.counters().no_own_buffer;
    }

    /// Adds what was counted of an element's rules.
    pub(crate) fn count_rules(&mut self, table: &RuleTable, book: &SlowRules) {
        let (table, manager) = (table.counters(), book.manager().counters());
        self.rules_added += manager.added;
        self.rules_activated += table.activated;
        self.rule_hits += table.hits;
        self.rule_holds += table.held;
        self.held_then_punted += table.held_then_punted;
        self.rules_demoted += table.demoted;
        self.rules_idle += table.idle;
        self.holds_full += table.hold_full;
        self.marks_repeated += table.marks_repeated;
        self.waited_for_rules += book.counters().waited;
        self.rules_invalidated += manager.invalidated;
        self.rules_replaced += manager.replaced;
        self.rules_aged += manager.aged;
        self.rule_requests_repeated += manager.repeated;
    }

    /// Adds what was counted of payloads in remote memory.
    pub(crate) fn count_split(&mut self, stage: &SplitStage) {
        let counters = stage.counters();
        self.payloads_split += counters.packets;
        self.payloads_merged += counters.merged;
        self.payloads_split_declined += counters.declined;
        self.payloads_split_missing += counters.missing;
        self.payloads_lost += counters.payload_lost;
        self.payloads_gone += counters.payload_gone;
        self.payloads_unsplit += counters.whole() - counters.whole_small - counters.whole_unsuited;
        self.payloads_followers += counters.followers;
        self.headers_stale += counters.headers_stale;
    }

    /// Adds what was counted of payloads.
    pub(crate) fn count_parking(&mut self, stage: &ParkingStage) {
        let (stats, counts) = (stage.buffer().counters(), stage.counters());
        self.payloads_parked += stats.parked;
        self.payloads_joined += stats.departed;
        self.payloads_declined += stats.declined;
        self.payloads_missing += stats.expired + stats.late;
        self.parking_followers += stats.followers;
        self.headers_stale += stats.headers_stale;
        self.parking_full += counts.no_room + counts.refused + counts.with_state;
    }
}
