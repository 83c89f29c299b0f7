//! The chain becomes another one while everything goes wrong, step by step as the drivers of
//! production do it: the fast path gives everything back while packets flow, then packets wait in
//! front until nothing is under way, functions let go of what they keep if they must, and both
//! paths take the new chain. Now and then the change is given up on the way.

use super::agenda::Next;
use super::functions::{self, Variant};
use super::invariants::Rule;
use super::log::Happened;
use super::sabotage::Sabotage;
use super::simulation::{SetupError, Simulation};
use super::step::Cause;
use twinpath_coherence::StateStage;
use twinpath_coherence::fsm::{Fsm, Slot};
use twinpath_core::FlowKey;
use twinpath_fastpath::Interpreter;
use twinpath_node::FastElement;
use twinpath_node::replacement::{CorePlan, FastPlan, Leftovers};
use twinpath_rulecache::Sides;

/// How far a change has come.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is none.
    #[default]
    None,
    /// Packets flow, and flows come home.
    ComingHome,
    /// Packets wait in front of the fast path.
    Resting,
    /// They do, and functions have let go of what they kept.
    Released,
}

impl Simulation {
    /// Whether packets wait in front of the fast path.
    pub(super) fn is_resting(&self) -> bool {
        matches!(self.phase, Phase::Resting | Phase::Released)
    }

    /// Now and then the fast path gives everything back, a little with each arrival; some time
    /// after that it takes flows again, or the chain changes.
    pub(super) fn change_or_not(&mut self) {
        let begins = self.changes.permille(self.scenario.cores.change_permille);
        if begins && self.phase == Phase::None {
            self.phase = Phase::ComingHome;
        }
        if self.phase != Phase::ComingHome {
            return;
        }
        let are_home = self.bring_flows_home();
        if !(are_home || self.is_hasty()) || self.changes.flip() {
            return;
        }
        if self.changes.one_in(4) {
            return self.give_up();
        }
        self.note(Happened::Rests);
        self.phase = Phase::Resting;
    }

    fn bring_flows_home(&mut self) -> bool {
        self.begin(Cause::Retire);
        let (clock, most) = (self.clock(), self.changes.below(4) as usize);
        let are_home =
            self.fast_path
                .bring_flows_home(most, clock, &mut self.pools, &mut self.output);
        self.send_own();
        self.check();
        are_home
    }

    fn is_hasty(&self) -> bool {
        self.sabotage() == Some(Sabotage::HastyChange)
    }

    fn give_up(&mut self) {
        self.note(Happened::GivesUp);
        self.coverage.changes_given_up += 1;
        self.phase = Phase::None;
        self.fast_path.keep_flows();
    }

    /// Takes the next step of a change for which packets wait, if nothing is under way.
    pub(super) fn change_at_rest(&mut self) {
        if self.phase == Phase::Resting && self.is_at_rest() {
            self.phase = Phase::Released;
            let next = Variant::drawn(&mut self.changes);
            if functions::must_release(&self.scenario, self.variant, next) || self.changes.flip() {
                (0..self.workers.len()).for_each(|worker| self.release(worker));
            }
            self.next_variant = next;
        }
        if self.phase == Phase::Released && self.is_at_rest() {
            if let Err(error) = self.change() {
                self.step.fault(Rule::Succession, error.to_string());
            }
            self.check();
            self.go_on();
        }
    }

    fn is_at_rest(&self) -> bool {
        let is_quiet = self.lines.iter().flatten().all(|line| line.is_empty());
        is_quiet && self.paused_until.iter().all(|&until| self.now >= until)
    }

    fn release(&mut self, worker: usize) {
        self.begin(Cause::Woken { worker });
        self.note(Happened::Released { worker });
        let before = self.before(worker);
        let now = self.packet_now();
        self.workers[worker].release(now, &mut self.worker_pools[worker], &mut self.returns);
        self.after(worker, &before, None);
        self.check();
    }

    fn change(&mut self) -> Result<(), SetupError> {
        self.begin(Cause::Changed);
        self.note(Happened::Changed);
        self.coverage.changes += 1;
        self.are_all_home();
        let (former, next) = (self.variant, self.next_variant);
        let chain = functions::chain(&self.scenario, next, &self.notes)?;
        self.steering = chain.steering(self.seed)?;
        let interpreter = Interpreter::new(&chain.programs())?;
        let stage = StateStage::new(self.scenario.protocol.clone(), interpreter, self.seed);
        let mut left = Leftovers::default();
        for worker in 0..self.workers.len() {
            self.change_worker(worker, former, next, &mut left)?;
        }
        let plan = FastPlan::New(FastElement::State(Box::new(stage)));
        self.fast_path
            .replace(Sides::ONE_WAY, self.steering.clone(), vec![plan], &mut left);
        self.variant = next;
        self.history.orders_each_end = next.is_unusual();
        self.begin_mirror(chain.word_count());
        self.follow_expiry();
        Ok(())
    }

    /// The state of all flows is the cores', and no frame carries any.
    fn are_all_home(&mut self) {
        let taken = |slot: &&Slot| slot.fsm != Fsm::Initial;
        if let Some(slot) = self.slots.iter().find(taken) {
            let what = format!("the chain changes while a slot is {}", slot.fsm.name());
            self.step.fault(Rule::Succession, what);
        }
    }

    fn change_worker(
        &mut self,
        worker: usize,
        former: Variant,
        next: Variant,
        left: &mut Leftovers,
    ) -> Result<(), SetupError> {
        let successors = functions::successors(&self.scenario, former, next, &self.notes)?;
        let (plans, steering) = (vec![CorePlan::Flows(0, successors)], self.steering.clone());
        let (now, drops) = (self.packet_now(), self.workers[worker].drops());
        match self.workers[worker].replace(plans, steering, now) {
            Ok((_, remains)) => left.add(remains),
            Err(_) => {
                let what = format!("worker {worker} refuses another chain");
                self.step.fault(Rule::Succession, what);
            }
        }
        if self.workers[worker].drops() != drops {
            let what = format!("worker {worker} forgets {drops:?}");
            self.step.fault(Rule::Succession, what);
        }
        Ok(())
    }

    /// The new stage's slots are all free.
    pub(super) fn begin_mirror(&mut self, words: usize) {
        let slots = self.fast_path.stage().map_or(0, StateStage::slots);
        self.slots = vec![Slot::default(); slots];
        self.keys = vec![FlowKey::default(); slots];
        self.owners = vec![None; slots];
        self.pulled = vec![0; slots];
        self.words = vec![0; slots * words];
        let flows = self.history.flows.iter_mut();
        flows.for_each(|flow| flow.slot = None);
    }

    /// Accounts expire after another time from now on. What the cores have forgotten already
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

    /// Packets go on, those first that have waited.
    fn go_on(&mut self) {
        self.phase = Phase::None;
        if std::mem::take(&mut self.has_waiting_packets) {
            self.next_arrival = self.now;
            self.agenda.add(self.now, Next::Arrival);
        }
    }
}
