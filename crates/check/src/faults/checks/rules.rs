//! What both paths know of rules.

use super::require::{Checked, require};
use crate::faults::world::World;

/// The workers know every rule that packets meet, once the fast path has heard of their life. When
/// nothing will happen any more packets meet every rule that the workers know, and none is under
/// way; but what a worker asks for when the run ends is not repeated if it has found no buffer.
pub fn books_agree(world: &World, is_rest: bool) -> Checked {
    if !world.knows_epoch(0) {
        let has_rules = world.rules().any(|rules| rules.table.active() > 0);
        return require(!is_rest || !has_rules, || {
            "the fast path has rules of a worker that has crashed since".into()
        });
    }
    // The worker has its new elements already, and no packet is taken.
    if world.chain.next.is_some() && world.machine.room() == 0 {
        return Ok(());
    }
    let may_be_under_way = world.has_stopped && world.scenario.resources.has_few_worker_buffers();
    for rules in world.rules() {
        let number = rules.element;
        let unknown = rules.unknown();
        require(unknown.is_none(), || {
            format!("packets meet {unknown:?} at element {number}, and the workers do not know it")
        })?;
        let other = rules.difference();
        let other = other.filter(|_| is_rest && !may_be_under_way);
        require(other.is_none(), || {
            format!("at element {number} one side alone knows of {other:?}")
        })?;
    }
    Ok(())
}
