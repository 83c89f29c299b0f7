//! Drives production's machine: carries what comes out of it over lines that lose frames, and tells
//! it how far its workers are. The sequence that changes a chain is the machine's own.

use super::chain::reference::Reference;
use super::chain::service;
use super::chain::variant::Variant;
use super::record::happened::Happened;
use super::record::step::Cause;
use super::rule::Rule;
use super::sabotage::Sabotage;
use super::simulation::{NextChain, Simulation};
use super::world::agenda::Next;
use super::world::line_id::LineId;
use twinpath_coherence::StateStage;
use twinpath_coherence::fsm::{Fsm, Slot};
use twinpath_core::FlowKey;
use twinpath_node::machine::{Answer, Order, Outcome, Progress};

/// How far a worker was when it had put out so many frames, and what it answered then.
pub(super) struct Told {
    /// The number of the last frame that it had given back.
    returned: u32,
    progress: Progress,
    answer: Option<Answer>,
}

impl Simulation {
    /// What came out of the machine, but for departures and frames, which the caller follows.
    pub(super) fn put_out(&mut self) {
        for (worker, order) in std::mem::take(&mut self.out.orders) {
            self.orders[worker].push_back(order);
            let at = self.now + self.scenario.to_worker.delay_ns;
            let at = at.max(self.paused_until[worker]);
            self.agenda.add(at, Next::Order { worker });
        }
        for outcome in std::mem::take(&mut self.out.outcomes) {
            self.came_of_it(outcome);
        }
    }

    /// A worker does what it was told.
    pub(super) fn order(&mut self, worker: usize) {
        let Some(order) = self.orders[worker].pop_front() else {
            return;
        };
        let replaces = matches!(order, Order::Replace { .. });
        self.begin(match replaces {
            true => Cause::Changed,
            false => Cause::Woken { worker },
        });
        if replaces {
            self.are_all_home();
        }
        self.note(Happened::Told { worker });
        let (before, drops) = (self.before(worker), self.workers[worker].drops());
        let pools = &mut self.worker_pools[worker];
        let answer = self.workers[worker].execute(order, pools, &mut self.returns);
        if replaces && self.workers[worker].drops() != drops {
            let what = format!("worker {worker} forgets {drops:?}");
            self.step.fault(Rule::Migration, what);
        }
        self.after(worker, &before, None);
        self.check();
        self.note_progress(worker, Some(answer));
    }

    /// Notes how far a worker is: as far as its line goes, for what is lost on it never comes.
    pub(super) fn note_progress(&mut self, worker: usize, answer: Option<Answer>) {
        let mut progress = self.workers[worker].progress();
        progress.finished = self.lines[worker][0].settled();
        if self.sabotage() == Some(Sabotage::HastyProgress) {
            progress.finished = self.lines[worker][0].last_sent();
        }
        let returned = self.lines[worker][1].last_sent();
        let last = self.told[worker].back();
        let last = last.map_or(self.said[worker], |told| (told.returned, told.progress));
        if last != (returned, progress) || answer.is_some() {
            self.told[worker].push_back(Told {
                returned,
                progress,
                answer,
            });
        }
    }

    /// The machine hears how far workers are, when all that they gave back by then has been handed
    /// in or is lost.
    pub(super) fn tell_progress(&mut self) {
        for worker in 0..self.workers.len() {
            // What comes of it may be lost at once.
            loop {
                self.note_progress(worker, None);
                let settled = self.lines[worker][1].settled();
                let told = &mut self.told[worker];
                let is_due = told.front().is_some_and(|told| told.returned <= settled);
                if !is_due {
                    break;
                }
                let Some(told) = told.pop_front() else {
                    break;
                };
                self.said[worker] = (told.returned, told.progress);
                self.tell(worker, told);
            }
        }
        if self.has_waiting_packets && self.machine.room() > 0 {
            self.has_waiting_packets = false;
            self.next_arrival = self.now;
            self.agenda.add(self.now, Next::Arrival);
        }
    }

    fn tell(&mut self, worker: usize, told: Told) {
        let before = (self.machine.watermark(), self.machine.oldest());
        let (clock, out) = (self.clock(), &mut self.out);
        self.machine.progress(worker, told.progress, out);
        if self.out.frames.is_empty() && told.answer.is_none() {
            return self.check_watermark(before);
        }
        self.begin(Cause::Tick);
        self.note_walkers();
        if let Some(answer) = told.answer {
            self.machine.answered(worker, answer, clock, &mut self.out);
        }
        self.follow_out();
        self.check();
        self.check_watermark(before);
    }

    /// Now and then another chain is wanted.
    pub(super) fn change_or_not(&mut self) {
        let begins = self.changes.permille(self.scenario.workers.change_permille);
        if !begins || self.next.is_some() || self.is_calm {
            return;
        }
        let variant = Variant::drawn(&mut self.changes);
        if let Err(what) = self.ask_for(variant) {
            self.step.fault(Rule::Migration, what);
        }
    }

    fn ask_for(&mut self, variant: Variant) -> Result<(), String> {
        let words = |error: &dyn std::error::Error| error.to_string();
        let service = service::service(&self.scenario, variant, (&self.notes, self.seed));
        let service = service.map_err(|error| words(&error))?;
        let made = service::replacement(&self.scenario, &self.service, &service);
        let mut replacement = made.map_err(|error| words(&error))?;
        let brings_flows_home = replacement.brings_flows_home;
        if self.sabotage() == Some(Sabotage::HastyChange) {
            replacement.brings_flows_home = false;
        }
        self.note(Happened::ChangeAsked);
        if self.machine.change(Box::new(replacement)).is_ok() {
            self.next = Some(NextChain {
                variant,
                service,
                brings_flows_home,
            });
        }
        Ok(())
    }

    fn came_of_it(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Changed(_) => self.changed(),
            Outcome::Refused(..) => {
                self.note(Happened::GivesUp);
                self.coverage.changes_given_up += 1;
                self.next = None;
            }
            Outcome::Stopped { is_drained } => {
                self.note(Happened::Stopped);
                self.has_stopped = true;
                if !is_drained {
                    let what = "the run ends while something is under way".into();
                    self.step.fault(Rule::Progress, what);
                }
            }
        }
    }

    /// Both paths have the other chain.
    fn changed(&mut self) {
        let Some(next) = self.next.take() else {
            return;
        };
        self.note(Happened::Changed);
        self.coverage.changes += 1;
        // No packet is under way: what is still inside was dropped by the old chain.
        self.justify_drops();
        self.inside.clear();
        // Tables that stay have rules of a former life until the fast path hears of the next.
        let keeps_rules = next.variant.keeps_rules_of(self.variant);
        if self.knows_epoch(0) || !keeps_rules {
            self.bindings.former_rules_are_gone(self.turn);
        }
        if !keeps_rules {
            self.bindings.uses_may_be_lost();
        }
        match Reference::new(self.scenario.elements, &next.service) {
            Ok(reference) => self.reference = reference,
            Err(error) => self.step.fault(Rule::Migration, error.to_string()),
        }
        (self.variant, self.service) = (next.variant, next.service);
        self.steering = self.machine.path().steering().clone();
        if next.brings_flows_home {
            self.history.orders_each_end = self.variant.is_unusual() || self.follows_walks();
            self.begin_mirror();
            self.follow_expiry();
        }
    }

    /// The state of all flows is the workers', and no frame carries any.
    fn are_all_home(&mut self) {
        let changes_state = self
            .next
            .as_ref()
            .is_some_and(|next| next.brings_flows_home);
        let taken = |slot: &&Slot| changes_state && slot.fsm != Fsm::Initial;
        if let Some(slot) = self.slots.iter().find(taken) {
            let what = format!("the chain changes while a slot is {}", slot.fsm.name());
            self.step.fault(Rule::Migration, what);
        }
    }

    /// The new stage's slots are all free.
    pub(super) fn begin_mirror(&mut self) {
        let stage = self.machine.path().stage();
        let slots = stage.map_or(0, StateStage::slots);
        let words = stage.and_then(|stage| stage.each_slot().next());
        let words = words.map_or(0, |(_, _, words)| words.len());
        self.slots = vec![Slot::default(); slots];
        self.keys = vec![FlowKey::default(); slots];
        self.owners = vec![None; slots];
        self.pulled = vec![0; slots];
        self.words = vec![0; slots * words];
        let flows = self.history.flows.iter_mut();
        flows.for_each(|flow| flow.slot = None);
    }

    /// Accounts expire after another time from now on. What the workers have forgotten already
    /// does not come back.
    fn follow_expiry(&mut self) {
        let (now, expiry_ticks) = (self.packet_now(), self.history.expiry_ticks);
        for flow in &mut self.history.flows {
            let is_forgotten = flow.known_words().iter().all(|&word| word == 0);
            if is_forgotten && flow.truth.account.is_expired(now, expiry_ticks) {
                flow.truth.account.close();
            }
        }
        self.history.expiry_ticks = self.variant.expiry_ticks(&self.scenario.traffic);
    }

    /// Follows what the machine puts out, of packets that it was not given in this step.
    pub(super) fn follow_out(&mut self) {
        // A chain changes while nothing else comes out.
        self.put_out();
        match self.follows_walks() {
            true => self.follow_walks(),
            false => {
                for departure in std::mem::take(&mut self.out.departures) {
                    self.leave(departure, super::record::packet::Place::Back);
                }
                for (worker, frame) in std::mem::take(&mut self.out.frames) {
                    self.send(LineId::to_worker(worker), frame);
                }
            }
        }
    }

    /// What has not come to its end is not behind the watermark, which never goes back.
    fn check_watermark(&mut self, before: (u64, twinpath_core::Instant)) {
        let (watermark, floor) = (self.machine.watermark(), self.machine.oldest());
        let under_way = self.history.oldest_on_the_link();
        if watermark < before.0
            || floor < before.1
            || under_way.is_some_and(|first| first < watermark)
        {
            let what = format!(
                "the watermark goes from {} to {watermark}, while the packet that arrived as {under_way:?} is under way",
                before.0
            );
            self.watermark_fault(what);
        }
    }
}
