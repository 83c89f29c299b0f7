//! A function whose state may be read on the fast path, but written on the cores alone.

use std::sync::Arc;
use twinpath_control::service::Instance;
use twinpath_core::program::{Action, Exit, FastProgram, Operand, Step};
use twinpath_core::steering::Alias;
use twinpath_core::{Instant, Packet};
use twinpath_nf::custom::custom;
use twinpath_nf::descriptor::{Form, Function};
use twinpath_slowpath::{Flow, NetworkFunction, Outbox};

/// Any function, with each step of its fast program that writes state left to the cores: what caches
/// do that are not written to by packets (NetCache; SwitchNIC §6.4.2).
struct ReadOnly(Box<dyn NetworkFunction>);

/// Makes a function that shares flow state such a one.
pub(super) fn make_read_only(instance: &mut Instance) {
    let whole = Arc::clone(&instance.config);
    if whole.makes_rules() {
        return;
    }
    instance.config = custom(Form::Flow, 0, move |folder, seed| {
        Ok(match whole.build(folder, seed)? {
            Function::Flow(function) => Function::flow(ReadOnly(function)),
            rules => rules,
        })
    });
}

/// The same step, if it writes nothing; else the packet and the state go to the cores.
fn reading(mut step: Step) -> Step {
    if step.then.iter().any(writes) {
        step.then.clear();
        step.exit = Exit::Escalate;
    }
    step
}

fn writes(action: &Action) -> bool {
    matches!(
        action,
        Action::StoreValue { .. }
            | Action::Compute {
                to: Operand::Word(_),
                ..
            }
    )
}

impl NetworkFunction for ReadOnly {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn program(&self) -> FastProgram {
        let mut program = self.0.program();
        program.steps = program.steps.into_iter().map(reading).collect();
        program
    }

    fn start(&mut self, now: Instant) {
        self.0.start(now);
    }

    fn handle(&mut self, packet: Packet, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        self.0.handle(packet, flow, out);
    }

    fn deadline(&self, handle: u32) -> Instant {
        self.0.deadline(handle)
    }

    fn wake(&mut self, flow: &mut Flow<'_>, out: &mut Outbox<'_>) {
        self.0.wake(flow, out);
    }

    fn is_pending(&self, words: &[u32], handle: u32) -> bool {
        self.0.is_pending(words, handle)
    }

    fn is_expired(&self, words: &[u32], now: Instant) -> bool {
        self.0.is_expired(words, now)
    }

    fn forget(&mut self, handle: u32) {
        self.0.forget(handle);
    }

    fn aliases(&self) -> Vec<Alias> {
        self.0.aliases()
    }

    fn kv_port(&self) -> Option<u16> {
        self.0.kv_port()
    }

    fn most_held_frames(&self) -> usize {
        self.0.most_held_frames()
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.0.counters(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinpath_nf::kv_store::KvStore;

    #[test]
    fn a_store_may_be_read_but_not_written() {
        let store = KvStore::new(&Default::default());
        let whole = store.program();
        let read_only = ReadOnly(Box::new(store)).program();
        for (before, after) in whole.steps.iter().zip(&read_only.steps) {
            let writes = ["put", "delete"].contains(&before.name);
            let expected = if writes { Exit::Escalate } else { before.exit };
            assert_eq!(
                (after.exit, after.then.is_empty()),
                (expected, writes),
                "{}",
                before.name
            );
        }
    }
}
