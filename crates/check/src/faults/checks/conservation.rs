//! Every packet is somewhere, and every buffer.

use super::require::{Checked, require};
use crate::faults::functions::MOST_HELD;
use crate::faults::record::{PacketState, Record};
use crate::faults::world::World;

/// Every packet that arrived has left, was dropped and counted, was lost on the link or in a
/// crash, is under way, or is held by a function; a function never holds more than it says. In
/// the end none is under way or held, but for fragments of what is not complete, and every buffer
/// is back in its pool.
pub fn conserved(world: &World, record: &Record) -> Checked {
    let step = &record.step;
    let held = world.held() + world.held_fragments();
    let dropped = world.fast_drops();
    let disappeared = record.tally.dropped_fast as i64 + record.tally.inside_fast;
    let counted = dropped as i64 + held as i64;
    let is_known = world.scenario.keeps_payloads() || counted == disappeared;
    require(is_known, || {
        format!(
            "the fast path counts {dropped} drops and {held} held, {disappeared} packets disappeared there"
        )
    })?;
    for (worker, &inside) in record.tally.inside.iter().enumerate() {
        let is_possible = may_hold(world, record, worker, inside);
        require(is_possible && (!step.is_rest || inside == 0), || {
            format!("worker {worker} has let out or dropped all but {inside} packets that it got")
        })?;
    }
    if step.is_rest {
        at_rest(world, record)
    } else {
        Ok(())
    }
}

fn at_rest(world: &World, record: &Record) -> Checked {
    let scenario = &world.scenario;
    for (index, packet) in record.history.packets().iter().enumerate() {
        let is_final = match packet.state {
            PacketState::Left | PacketState::Dropped | PacketState::Lost => true,
            // Of other functions it is not known which packets they dropped, only how many.
            PacketState::AtWorker => {
                !scenario.functions.is_ledger() || scenario.keeps_packets_inside()
            }
            PacketState::FastPath => scenario.keeps_packets_inside(),
            PacketState::ToWorker | PacketState::Back => false,
        };
        require(is_final, || {
            format!("packet {} ends {:?}", index + 1, packet.state)
        })?;
    }
    // A fragment without the first one of its datagram is held until another fragment comes.
    let (missing, held) = (record.tally.buffers_missing, world.held_fragments());
    require(missing == held, || {
        format!("{missing} buffers have not come home, and {held} fragments are held")
    })
}

/// Whether a worker's functions may hold so many packets back. The ledger's are known.
fn may_hold(world: &World, record: &Record, worker: usize, frames: i64) -> bool {
    let rules = world.workers[worker].worker.rules();
    let waiting = rules.filter(|rules| rules.is_waiting()).count();
    let most_waiting = waiting as i64 * (world.scenario.rules.slow.waiting as i64 + 1);
    if world.scenario.functions.is_ledger() {
        let flows = record.history.flows.iter();
        let flows = flows.filter(|flow| flow.worker == worker);
        let held: usize = flows.map(|flow| flow.truth.held.len()).sum();
        let held_here = held as i64..=held as i64 + most_waiting;
        let ledgers = world.scenario.elements.with_state().count();
        return held <= ledgers * MOST_HELD && held_here.contains(&frames);
    }
    let flows = world.workers[worker].flows();
    let most: usize = flows.map(|flows| flows.chain().most_held_frames()).sum();
    (0..=most as i64 + most_waiting).contains(&frames)
}
