//! The eight invariants of the protocol, two of the data plane, one of its change, four of rules
//! one of parked payloads and one of departures, checked after every step.
//!
//! What the protocol believes is read from production (the slots, the workers' flows and grants);
//! what is true is the bystander's [history](super::history). Invariants 1 to 8 are those of the
//! protocol's design, in its numbering.

use super::books;
use super::functions::account::Account;
use super::record::flow::FlowHistory;
use super::record::packet::Place;
use super::record::step::{Cause, SlotChange, SlowChange, Step};
use super::rule::{Rule, Violation};
use super::simulation::Simulation;
use twinpath_coherence::Grant;
use twinpath_coherence::fsm::{Fsm, Slot};
use twinpath_link::Message;

type Checked = Result<(), String>;

fn check(rule: Rule, world: &Simulation, step: &Step) -> Checked {
    match rule {
        Rule::NothingBehind => nothing_behind(world),
        Rule::OneTruth => one_truth(world),
        Rule::OneImport => one_import(step),
        Rule::FreedAfterImport => freed_after_import(world, step),
        Rule::OnceInOrder => once_in_order(world, step),
        Rule::FrozenStays => frozen_stays(world, step),
        Rule::NoCrossTalk => no_cross_talk(world, step),
        Rule::Progress => progress(world, step),
        // These show while a step is made, and are reported from there.
        Rule::LinkChecked
        | Rule::Migration
        | Rule::AsAlone
        | Rule::InForce
        | Rule::AliveInUse
        | Rule::Whole
        | Rule::Watermark => Ok(()),
        Rule::BooksAgree => books_agree(world, step),
        Rule::Conserved => conserved(world, step),
    }
}

/// Every rule that a step broke.
pub(super) fn broken(world: &Simulation, step: &Step) -> Vec<Violation> {
    let mut broken = step.faults.clone();
    for rule in Rule::ALL {
        if let Err(what) = check(rule, world, step) {
            broken.push(Violation { rule, what });
        }
    }
    broken
}

/// Fails with a message, made only then.
fn require(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

/// 1. While a slot is ACTIVE no PLAIN or PULL of its flow is under way to the slow path (one that can
///    only be dropped for having been overtaken does not count), and the workers hold no packet of
///    it back.
fn nothing_behind(world: &Simulation) -> Checked {
    for (number, flow) in world.history.flows.iter().enumerate() {
        let is_active = world
            .slot_of(flow)
            .is_some_and(|slot| slot.fsm == Fsm::Active);
        let held = flow.truth.held.len();
        require(!is_active || flow.behind + held == 0, || {
            let behind = flow.behind;
            format!(
                "flow {number} is ACTIVE with {behind} frames under way and {held} packets held"
            )
        })?;
    }
    Ok(())
}

/// 2. A flow's value is the fast path's while its slot is ACTIVE, or FROZEN and not imported by
///    these workers; otherwise it is the workers'. In the first case the workers must know that they may
///    not write. In either, the value is the account of all packets applied, in order: the
///    bystander's, kept from what went in and came out. (After a crash a flow that was the workers'
///    is open: its first frame decides whether it goes on from a frozen value or from nothing, and
///    from then on it is held to it. Workers that find a flow silent for longer than its time-out
///    may have closed its account already.)
fn one_truth(world: &Simulation) -> Checked {
    for (number, flow) in world.history.flows.iter().enumerate() {
        if world.is_at_fast_path(flow) {
            let writes = |(grant, _): &(Grant, Vec<u32>)| grant.is_ours();
            require(!flow.at_worker.as_ref().is_some_and(writes), || {
                format!("flow {number} is the fast path's, but the workers think that it is theirs")
            })?;
        }
        if world.scenario.functions.is_ledger() && !flow.truth.is_open {
            holds_the_truth(world, number, flow)?;
        }
    }
    Ok(())
}

fn holds_the_truth(world: &Simulation, number: usize, flow: &FlowHistory) -> Checked {
    let truth = flow.truth.account;
    if world.is_at_fast_path(flow) {
        let words = world.words_of(flow);
        return require(Account::among(words) == Some(truth), || {
            format!(
                "the slot of flow {number} holds {words:?}, the truth is {:?}",
                truth.0
            )
        });
    }
    let at_worker = match flow.known_words() {
        [] => Some(Account::default()),
        words => Account::among(words),
    };
    let is_over = world.is_stopping && !truth.is_nothing();
    let may_be_gone = is_over || truth.is_expired(world.packet_now(), world.history.expiry_ticks);
    let is_gone = may_be_gone && at_worker.is_some_and(Account::is_nothing);
    require(at_worker == Some(truth) || is_gone, || {
        let words = flow.known_words();
        format!(
            "the workers have {words:?} of flow {number}, the truth is {:?}",
            truth.0
        )
    })
}

/// 3. One life of the slow path imports the value of a generation at most once.
fn one_import(step: &Step) -> Checked {
    for import in &step.imports {
        require(!import.is_second, || {
            let (generation, flow) = (import.generation, import.flow);
            format!("generation {generation} of flow {flow} is imported a second time")
        })?;
    }
    Ok(())
}

/// 4. A FROZEN slot stays FROZEN in its generation until workers have imported the value; an ACTIVE
///    slot stays ACTIVE or becomes FROZEN, in its generation.
fn freed_after_import(world: &Simulation, step: &Step) -> Checked {
    for change in &step.slots {
        let (before, after) = (change.before, change.after);
        let is_kept = change.flow == change.flow_before && before.generation == after.generation;
        let Some(flow) = change.flow_before.map(|flow| &world.history.flows[flow]) else {
            continue;
        };
        let allowed = match before.fsm {
            Fsm::Active => is_kept && matches!(after.fsm, Fsm::Active | Fsm::Frozen),
            Fsm::Frozen => {
                (is_kept && after.fsm == Fsm::Frozen) || flow.was_ever_done(before.generation)
            }
            Fsm::Initial | Fsm::Incomplete => true,
        };
        require(allowed, || {
            let goes = describe(change);
            format!("{goes}, and its value was never imported")
        })?;
    }
    Ok(())
}

/// 5. Packets of a flow are applied at most once and in order of arrival, wherever that is; they
///    leave in order of arrival too, after they were applied, and as they came. Packets not
///    applied were lost or dropped on the way, which [`conserved`] sees to.
fn once_in_order(world: &Simulation, step: &Step) -> Checked {
    for applied in &step.applied {
        require(
            !applied.is_double && applied.packet > applied.previous,
            || {
                let (flow, packet, previous) = (applied.flow, applied.packet, applied.previous);
                format!("packet {packet} of flow {flow} is applied after packet {previous}")
            },
        )?;
    }
    for left in &step.left {
        let in_order = left.packet > left.previous || !world.scenario.keeps_order();
        let is_applied = left.is_applied || !world.scenario.functions.is_ledger();
        require(in_order && is_applied && left.as_it_came, || {
            let (flow, packet, previous) = (left.flow, left.packet, left.previous);
            let how = match (is_applied, left.as_it_came) {
                (false, _) => "without having been applied",
                (_, false) => "changed",
                _ => "out of order",
            };
            format!("packet {packet} of flow {flow} leaves after packet {previous}, {how}")
        })?;
    }
    Ok(())
}

/// 6. While a slot is FROZEN its words stay as they were, and every write-back that is received
///    brings exactly these.
fn frozen_stays(world: &Simulation, step: &Step) -> Checked {
    for (number, flow) in world.history.flows.iter().enumerate() {
        let is_frozen = world
            .slot_of(flow)
            .is_some_and(|slot| slot.fsm == Fsm::Frozen);
        require(!is_frozen || world.words_of(flow) == flow.frozen, || {
            let (now, then) = (world.words_of(flow), &flow.frozen);
            format!("flow {number} was frozen with {then:?} and now holds {now:?}")
        })?;
    }
    for written in &step.written_back {
        require(written.is_what_was_frozen, || {
            let (flow, generation) = (written.flow, written.generation);
            format!("WB({generation}) of flow {flow} does not bring what was frozen")
        })?;
    }
    Ok(())
}

/// 7. What a step may touch is given by its cause. A message changes only the slot of its flow,
///    and only if the generation is the slot's; packets change only slots of their flows, or take
///    a free one; timers change only what is due. At the slow path a frame changes only what is known
///    of its flow; time may change others, but never one that is granted.
fn no_cross_talk(world: &Simulation, step: &Step) -> Checked {
    for change in &step.slots {
        require(may_change_slot(world, step, change), || {
            format!("{} because of {:?}", describe(change), step.cause)
        })?;
    }
    for change in &step.slow {
        require(may_change_slow(world, step, change), || {
            let (flow, before, after) = (change.flow, change.before, change.after);
            format!(
                "the workers' flow {flow} goes from {before:?} to {after:?} ({:?}) because of {:?}",
                world.history.flows[flow].known_words(),
                step.cause
            )
        })?;
    }
    imports_are_of_what_was_granted(step)
}

fn imports_are_of_what_was_granted(step: &Step) -> Checked {
    for import in &step.imports {
        require(import.installed == import.generation, || {
            let (flow, generation, installed) = (import.flow, import.generation, import.installed);
            format!("generation {generation} of flow {flow} is imported, but it had {installed}")
        })?;
    }
    Ok(())
}

fn may_change_slot(world: &Simulation, step: &Step, change: &SlotChange) -> bool {
    may_change_because(&step.cause, world, step, change)
        || may_change_because(&Cause::Packets(step.walkers.clone()), world, step, change)
}

fn may_change_because(cause: &Cause, world: &Simulation, step: &Step, change: &SlotChange) -> bool {
    let stays = change.flow == change.flow_before && !change.changes_words;
    match cause {
        Cause::Packets(flows) => {
            let comes = |flow: Option<usize>| flow.is_some_and(|flow| flows.contains(&flow));
            let is_theirs = comes(change.flow);
            // A packet in front of it may have let go of the slot.
            let was_left = change.before.fsm == Fsm::Incomplete && comes(change.flow_before);
            let was_free = change.before.fsm == Fsm::Initial || was_left;
            is_theirs && (change.flow == change.flow_before || was_free)
        }
        Cause::Tick => {
            let gives_back = step.brings_flows_home && change.before.fsm == Fsm::Active;
            stays && (gives_back || is_due(world, step, &change.before))
        }
        Cause::Returned {
            flow,
            message,
            generation,
            is_overtaken,
        } => {
            let may_install = *message == Message::State || !change.changes_words;
            let is_its_own = change.flow == *flow && change.flow_before == *flow;
            let is_current = change.before.generation == *generation;
            is_its_own && is_current && may_install && !is_overtaken
        }
        _ => false,
    }
}

/// Whether a slot's time has come.
fn is_due(world: &Simulation, step: &Step, slot: &Slot) -> bool {
    let time_to_live = world.scenario.protocol.time_to_live.as_nanos() as u64;
    match slot.fsm {
        Fsm::Initial => false,
        Fsm::Incomplete | Fsm::Frozen => step.now >= slot.time_ns,
        Fsm::Active => step.packet_now.saturating_sub(slot.time_ns) > time_to_live,
    }
}

fn may_change_slow(world: &Simulation, step: &Step, change: &SlowChange) -> bool {
    let flow = &world.history.flows[change.flow];
    match step.cause {
        Cause::Received {
            flow: Some(flow), ..
        } if flow == change.flow => true,
        Cause::Received { worker, .. } | Cause::Woken { worker } => {
            worker == flow.worker && time_may_change(world, step, change)
        }
        Cause::Crashed { worker } => worker == flow.worker && change.after.is_none(),
        _ => false,
    }
}

fn time_may_change(world: &Simulation, step: &Step, change: &SlowChange) -> bool {
    let Some(before) = change.before else {
        return false;
    };
    let keeps_grant = change.after.is_none_or(|after| after == before);
    let entered = step
        .applied
        .iter()
        .any(|applied| applied.flow == change.flow);
    let flow = &world.history.flows[change.flow];
    let is_gone = flow.known_words().iter().all(|&word| word == 0);
    let is_ledger = world.scenario.functions.is_ledger();
    before.is_ours() && keeps_grant && (entered || is_gone || !is_ledger)
}

/// 8. After a sweep of the whole table no timer is overdue, unless no buffer was free to send
///    with. At the end of a run, when for long nothing has gone wrong any more, no slot waits for
///    the workers; and since the fast path gives back what is idle, none is taken.
fn progress(world: &Simulation, step: &Step) -> Checked {
    let sees_all = world.scenario.sweeps_per_round(world.slots.len()) == 1;
    if step.cause == Cause::Tick && step.is_sweep && sees_all && !step.lacks_buffer {
        let overdue = world.slots.iter().find(|slot| is_due(world, step, slot));
        if let Some(slot) = overdue {
            return Err(format!("a slot is {} and overdue", slot.fsm.name()));
        }
    }
    let taken = world.slots.iter().find(|slot| slot.fsm != Fsm::Initial);
    match taken {
        Some(slot) if step.is_rest => Err(format!("a slot is still {}", slot.fsm.name())),
        _ => Ok(()),
    }
}

/// Every packet that arrived has left, was dropped and counted, was lost on the link or in a
/// crash, is under way, or is held by a function; a function never holds more than it says. In
/// the end none is under way or held, and every buffer is back in its pool.
fn conserved(world: &Simulation, step: &Step) -> Checked {
    let (dropped, held) = (world.fast_drops(), world.held_for_rules());
    let disappeared = world.tally.dropped_fast as i64 + world.tally.inside_fast;
    let counted = dropped as i64 + held as i64;
    // While a change is made packets wait for room on the link, and if it is given up still do.
    let was_asked = world.next.is_some() || world.coverage.changes_given_up > 0;
    let may_wait = was_asked && counted < disappeared && !step.is_rest;
    let is_known = world.has_parking() || counted == disappeared || may_wait;
    require(is_known, || {
        format!(
            "the fast path counts {dropped} drops and {held} held, {disappeared} packets disappeared there"
        )
    })?;
    for (worker, &inside) in world.tally.inside.iter().enumerate() {
        let is_possible = world.may_hold(worker, inside);
        require(is_possible && (!step.is_rest || inside == 0), || {
            format!("worker {worker} has let out or dropped all but {inside} packets that it got")
        })?;
    }
    if step.is_rest { at_rest(world) } else { Ok(()) }
}

fn at_rest(world: &Simulation) -> Checked {
    for (index, packet) in world.history.packets().iter().enumerate() {
        let is_final = match packet.place {
            Place::Left | Place::Dropped | Place::Lost => true,
            // Of other functions it is not known which packets they dropped, only how many.
            Place::AtWorker => !world.scenario.functions.is_ledger() || world.follows_walks(),
            Place::FastPath => world.follows_walks(),
            Place::ToWorker | Place::Back => false,
        };
        require(is_final, || {
            format!("packet {} ends {:?}", index + 1, packet.place)
        })?;
    }
    require(world.tally.buffers_missing == 0, || {
        format!("{} buffers have not come home", world.tally.buffers_missing)
    })
}

/// The workers know every rule that packets meet, once the fast path has heard of their life. When nothing will happen any more packets meet
/// every rule that the workers know, and none is under way.
fn books_agree(world: &Simulation, step: &Step) -> Checked {
    if !world.knows_epoch(0) {
        let has_rules = world
            .tables_and_books()
            .any(|(_, table, _)| table.active() > 0);
        return require(!step.is_rest || !has_rules, || {
            "the fast path has rules of a worker that has crashed since".into()
        });
    }
    // The worker has its new elements already, and no packet is taken.
    if world.next.is_some() && world.machine.room() == 0 {
        return Ok(());
    }
    for (number, table, book) in world.tables_and_books() {
        let unknown = books::unknown(table, book);
        require(unknown.is_none(), || {
            format!("packets meet {unknown:?} at element {number}, and the workers do not know it")
        })?;
        let other = books::difference(table, book).filter(|_| step.is_rest);
        require(other.is_none(), || {
            format!("at element {number} one side alone knows of {other:?}")
        })?;
    }
    Ok(())
}

fn describe(change: &SlotChange) -> String {
    let side = |flow: Option<usize>, slot: &Slot| {
        let flow = flow.map_or("nobody".into(), |flow| format!("flow {flow}"));
        format!("{flow} {}({})", slot.fsm.name(), slot.generation)
    };
    let (before, after) = (
        side(change.flow_before, &change.before),
        side(change.flow, &change.after),
    );
    format!("a slot goes from {before} to {after}")
}
