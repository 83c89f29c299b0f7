//! Looking into production after a step: which slots and flows are not as they were.

use super::functions::account::Account;
use super::functions::ledger::MOST_HELD;
use super::record::flow::FlowHistory;
use super::record::happened::Happened;
use super::record::step::{Cause, SlotChange, SlowChange};
use super::rule::Rule;
use super::simulation::Simulation;
use twinpath_coherence::fsm::{Fsm, Slot};
use twinpath_coherence::{Grant, SlowFlows};
use twinpath_core::{DropReason, FlowKey};
use twinpath_node::Worker;
use twinpath_slowpath::FlowId;

impl Simulation {
    /// Compares slots and flows with what they were, and brings the history up to date.
    pub(super) fn look(&mut self) {
        self.look_at_slots();
        for flow in 0..self.history.flows.len() {
            self.look_at_worker(flow);
        }
    }

    /// The same for slots alone.
    pub(super) fn look_at_slots(&mut self) {
        let newest = self.newest_generation;
        for slot in self.changed_slots() {
            self.follow_slot(slot);
            self.check_generation(slot, newest);
        }
    }

    fn changed_slots(&self) -> Vec<usize> {
        let Some(stage) = self.machine.path().stage() else {
            return Vec::new();
        };
        let count = self.words.len() / self.slots.len().max(1);
        let as_it_was = |place: usize, key: &FlowKey, slot: &Slot, words: &[u32]| {
            self.slots[place] == *slot
                && self.keys[place] == *key
                && self.words[place * count..(place + 1) * count] == *words
        };
        stage
            .each_slot()
            .enumerate()
            .filter(|(place, (key, slot, words))| !as_it_was(*place, key, slot, words))
            .map(|(place, _)| place)
            .collect()
    }

    fn follow_slot(&mut self, place: usize) {
        let stage = self.machine.path().stage();
        let Some((key, after, words)) = stage.and_then(|stage| stage.each_slot().nth(place)) else {
            return;
        };
        let count = words.len();
        let seen = &mut self.words[place * count..(place + 1) * count];
        let changes_words = *seen != *words;
        seen.copy_from_slice(words);
        let before = std::mem::replace(&mut self.slots[place], after);
        let flow_before = self.owners[place];
        let flow = self.history.flow_of(&key);
        self.keys[place] = key;
        self.owners[place] = flow;
        if let Some(flow) = flow_before.filter(|_| flow_before != flow) {
            self.history.flows[flow].slot = None;
        }
        self.step.slots.push(SlotChange {
            flow_before,
            flow,
            before,
            after,
            changes_words,
        });
        if let Some(flow) = flow {
            self.history.flows[flow].slot = Some(place);
            self.follow_state(place, flow, &before, &after);
        }
    }

    /// Pulls are numbered on, whichever stage sends them: all of a step after those before it.
    fn check_generation(&mut self, place: usize, newest: u32) {
        let Slot {
            fsm, generation, ..
        } = self.slots[place];
        if fsm == Fsm::Incomplete && generation != self.pulled[place] {
            if generation <= newest {
                let what = format!("a pull is numbered {generation}, {newest} was before");
                self.step.fault(Rule::Migration, what);
            }
            self.pulled[place] = generation;
            self.newest_generation = self.newest_generation.max(generation);
        }
    }

    fn follow_state(&mut self, place: usize, flow: usize, before: &Slot, after: &Slot) {
        if (before.fsm, before.generation) == (after.fsm, after.generation) {
            return;
        }
        self.note(Happened::Slot {
            slot: place,
            flow,
            from: before.fsm,
            to: after.fsm,
            generation: after.generation,
        });
        match after.fsm {
            Fsm::Active => self.history.flows[flow].install(after.generation),
            Fsm::Frozen => {
                let words = self.words_of(&self.history.flows[flow]).to_vec();
                self.history.flows[flow].frozen = words;
            }
            Fsm::Initial | Fsm::Incomplete => {}
        }
    }

    /// What the workers know of a flow.
    pub(super) fn at_worker(&self, flow: usize) -> Option<(Grant, &[u32])> {
        let FlowHistory { worker, .. } = &self.history.flows[flow];
        let store = flows_of(&self.workers[*worker])?.store();
        let (_, words, grant) = store.view(self.id_at_worker(flow)?);
        Some((*grant, words))
    }

    fn id_at_worker(&self, flow: usize) -> Option<FlowId> {
        let FlowHistory {
            key, hash, worker, ..
        } = &self.history.flows[flow];
        let store = flows_of(&self.workers[*worker])?.store();
        store.find(key, *hash)
    }

    /// Whether the workers have of a flow what the present chain has of it, or nothing.
    fn has_followed(&self, flow: usize) -> bool {
        let flows = flows_of(&self.workers[self.history.flows[flow].worker]);
        let id = self.id_at_worker(flow);
        flows
            .zip(id)
            .is_none_or(|(flows, id)| flows.store().has_moved(id))
    }

    fn look_at_worker(&mut self, flow: usize) {
        let has_followed = self.has_followed(flow);
        let history = &mut self.history.flows[flow];
        let had_followed = std::mem::replace(&mut history.has_followed, has_followed);
        let is_moved = has_followed && !had_followed;
        let now = self.at_worker(flow);
        let then = self.history.flows[flow].at_worker.as_ref();
        let then = then.map(|(grant, words)| (*grant, words.as_slice()));
        if now == then {
            return;
        }
        // With the next change flows follow the last one that had no occasion before.
        let may_follow = is_moved || self.step.cause == Cause::Changed;
        let only_follows = may_follow && self.is_the_same(then, now);
        let change = SlowChange {
            flow,
            before: then.map(|(grant, _)| grant),
            after: now.map(|(grant, _)| grant),
        };
        let now = now.map(|(grant, words)| (grant, words.to_vec()));
        self.history.flows[flow].at_worker = now;
        match only_follows {
            true => self.coverage.flows_followed += 1,
            false => self.step.slow.push(change),
        }
    }

    /// Whether what two chains have of a flow is the same but for the places of its words.
    fn is_the_same(&self, then: Option<(Grant, &[u32])>, now: Option<(Grant, &[u32])>) -> bool {
        let (Some(then), Some(now)) = (then, now) else {
            return false;
        };
        let is_ledger = self.scenario.functions.is_ledger();
        then.0 == now.0 && (!is_ledger || Account::among(then.1) == Account::among(now.1))
    }

    /// Whether a worker's functions may hold so many packets back. The ledger's are known.
    pub(super) fn may_hold(&self, worker: usize, frames: i64) -> bool {
        if self.scenario.functions.is_ledger() {
            let flows = self.history.flows.iter();
            let held = flows
                .filter(|flow| flow.worker == worker)
                .map(|flow| flow.truth.held.len())
                .sum::<usize>();
            let waiting = self.most_waiting(worker);
            let held_here = held as i64..=held as i64 + waiting;
            return held <= MOST_HELD && held_here.contains(&frames);
        }
        let flows = flows_of(&self.workers[worker]);
        let most = flows.map_or(0, |flows| flows.chain().most_held_frames());
        let most = most as i64 + self.most_waiting(worker);
        (0..=most).contains(&frames)
    }

    /// Adds up what production counted.
    pub(super) fn count_all(&mut self) {
        for worker in 0..self.workers.len() {
            self.count_worker(worker);
        }
        self.count_rules();
        self.count_parking();
        let stats = self.machine.path().coherence();
        let coverage = &mut self.coverage;
        coverage.pulls += stats.pulls;
        coverage.rearms += stats.rearms;
        coverage.cancellations += stats.cancellations;
        coverage.installs += stats.installs;
        coverage.declines += stats.declines;
        coverage.incomplete_timeouts += stats.incomplete_timeouts;
        coverage.write_backs += stats.write_backs;
        coverage.idle_write_backs += stats.idle_write_backs;
        coverage.write_back_retries += stats.write_back_retries;
        coverage.acknowledgements += stats.acknowledgements;
        coverage.stale_messages += stats.stale_messages;
        coverage.collisions += stats.collisions;
        coverage.no_buffer += self.machine.path().counts().no_own_buffer;
    }

    /// Adds up what a worker's elements counted, before they crash or at the end.
    pub(super) fn count_worker(&mut self, worker: usize) {
        let worker = &self.workers[worker];
        let coverage = &mut self.coverage;
        let Some(flows) = flows_of(worker) else {
            return;
        };
        let stats = flows.stats();
        coverage.imports += stats.imports;
        coverage.rescued += stats.rescued;
        coverage.duplicate_write_backs += stats.duplicate_write_backs;
        coverage.recalls += stats.recalls;
        coverage.flows_aged += stats.flows_aged;
        if !self.scenario.functions.is_ledger() {
            coverage.flow_table_full += flows.drops().of(DropReason::FlowTableFull);
        }
    }
}

/// The flows of a worker, if the chain has any.
pub(super) fn flows_of(worker: &Worker) -> Option<&SlowFlows> {
    worker.flows().next()
}
