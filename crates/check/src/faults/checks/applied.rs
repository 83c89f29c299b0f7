//! Which packets a fast path that keeps some has applied to flows, as the slots tell.

use super::exit::Exit;
use super::passage::justify_drop;
use super::slots::look_at_slots;
use crate::faults::functions::Account;
use crate::faults::record::{FlowHistory, Happened, PacketHistory, PacketState, Record};
use crate::faults::scenario::Elements;
use crate::faults::world::World;
use twinpath_core::Direction;

/// Packets that have passed the flow state on the fast path were applied there, in order. Some of
/// them have not come out: they are held at a later element, or were dropped. What the slots have
/// tells.
pub fn apply_crossed<'a>(
    world: &World,
    record: &mut Record,
    came_out: impl Iterator<Item = &'a Exit>,
) {
    if !world.scenario.functions.is_ledger() {
        return;
    }
    look_at_slots(world, record);
    let (elements, came_out): (Elements, Vec<&Exit>) =
        (world.scenario.elements, came_out.collect());
    for element in elements.with_state() {
        let crossed = crossed(record, (elements, element), &came_out);
        for flow in 0..record.history.flows.len() {
            if record.history.flows[flow].element == element {
                apply_to(world, record, flow, &crossed);
            }
        }
    }
}

/// Applies to a flow those of the packets that have passed its element that are its own.
fn apply_to(world: &World, record: &mut Record, flow: usize, crossed: &[u32]) {
    let is_its_own = |&number: &u32| {
        let packet = record.history.packet(number);
        packet.is_some_and(|packet| packet.flows.contains(&flow))
    };
    let seen: Vec<u32> = crossed.iter().copied().filter(is_its_own).collect();
    if !seen.is_empty() || has_more_than_is_known(record, flow) {
        explain(world, record, flow, &seen);
    }
}

/// Of packets that came out, those that have passed the flow state of an element meanwhile.
fn crossed(record: &Record, (elements, element): (Elements, u8), came_out: &[&Exit]) -> Vec<u32> {
    let has_crossed = |packet: &PacketHistory, passed| {
        let position = elements.position(element, packet.direction);
        let newly = packet.passed..passed;
        !packet.is_applied(element) && newly.contains(&position)
    };
    let is_known = |exit: &&Exit| {
        let packet = record.history.packet(exit.number);
        packet.is_some_and(|packet| has_crossed(packet, exit.passed))
    };
    let came_out = came_out.iter().copied();
    let crossed = came_out.filter(is_known).map(|exit| exit.number);
    let mut crossed: Vec<u32> = crossed.collect();
    crossed.sort_unstable();
    crossed
}

/// Whether a slot shows more than is known of its flow. Of one that the workers had when they crashed nothing
/// is known until its first frame decides.
fn has_more_than_is_known(record: &Record, flow: usize) -> bool {
    let known = &record.history.flows[flow];
    !known.truth.is_open
        && record.mirror.is_at_fast_path(known)
        && Account::among(record.mirror.words_of(known)) != Some(known.truth.account)
}

/// Applies to a flow what its slot shows to have been applied, `seen` at least.
fn explain(world: &World, record: &mut Record, flow: usize, seen: &[u32]) {
    let explained = applied_unseen(record, world.scenario.elements, flow, seen);
    let (dropped, applied) = explained.unwrap_or((Vec::new(), seen.to_vec()));
    for packet in dropped {
        // One that closes a closed account leaves no trace, and may still come out.
        if !closes(record, packet) {
            drop_inside(world, record, packet);
        }
    }
    for packet in applied {
        if passed_unseen(record, flow, packet) {
            note_passed(record, flow, packet);
            continue;
        }
        record.history.applies_fast(packet, flow, &mut record.step);
        let is_dropped = record.history.packet(packet);
        let is_dropped = is_dropped.is_some_and(|packet| packet.kind.is_dropped());
        if is_dropped && !seen.contains(&packet) {
            drop_inside(world, record, packet);
        }
    }
}

/// A packet inside turns out to have been dropped.
fn drop_inside(world: &World, record: &mut Record, number: u32) {
    record.inside.remove(&number);
    record.note(world.now, Happened::DroppedFast { packet: number });
    justify_drop(world, record, number);
    record.moves(number, &[PacketState::FastPath], PacketState::Dropped);
}

fn closes(record: &Record, number: u32) -> bool {
    let packet = record.history.packet(number);
    packet.is_some_and(|packet| packet.kind.closes())
}

/// Whether a packet that is known of only now may have been applied in front of what was applied
/// last. One that closes a closed account changes nothing, nor does what is entered in front of one
/// that closes in the same step: when they passed is only known if they come out at once.
fn passed_unseen(record: &Record, flow: usize, number: u32) -> bool {
    let FlowHistory {
        element,
        last_applied,
        ..
    } = record.history.flows[flow];
    let Some(packet) = record.history.packet(number) else {
        return false;
    };
    let closes_behind = |&other: &u32| {
        let other = record.history.packet(other);
        other.is_some_and(|other| {
            other.kind.closes()
                && other.direction == packet.direction
                && other.flows.contains(&flow)
                && !other.is_applied(element)
        })
    };
    let mut behind = record
        .inside
        .range(number + 1..last_applied.max(number + 1));
    number < last_applied && (packet.kind.closes() || behind.any(closes_behind))
}

/// It was applied, and nothing is known of it but that.
fn note_passed(record: &mut Record, flow: usize, number: u32) {
    let element = record.history.flows[flow].element;
    if let Some(packet) = record.history.packet_mut(number) {
        packet.apply(element);
    }
}

/// Which packets inside explain what the slot has: those dropped in front of it, and those applied.
/// All of `seen` were.
fn applied_unseen(
    record: &Record,
    elements: Elements,
    flow: usize,
    seen: &[u32],
) -> Option<(Vec<u32>, Vec<u32>)> {
    let may_be_applied = |&number: &u32| !passed_unseen(record, flow, number);
    let candidates = unapplied(record, elements, flow);
    let candidates: Vec<u32> = candidates.filter(may_be_applied).collect();
    let of = |direction| {
        let is_its = |number: &&u32| {
            let packet = record.history.packet(**number);
            packet.is_some_and(|packet| packet.direction == direction)
        };
        let packets: Vec<u32> = candidates.iter().filter(is_its).copied().collect();
        packets
    };
    let (there, back) = (of(Direction::Original), of(Direction::Reply));
    let behind = fronts(&there, &back).map(|dropped| {
        let is_left = |number: &&u32| !dropped.contains(number);
        let left: Vec<u32> = candidates.iter().filter(is_left).copied().collect();
        (dropped, left)
    });
    let mut ways = behind.chain(few_unseen(&candidates, seen));
    ways.find_map(|(dropped, left)| {
        let applied = explaining(record, flow, &left, seen)?;
        Some((dropped, left[..applied].to_vec()))
    })
}

/// As few of each direction as can be, from the first on: those that the functions in front drop.
fn fronts<'a>(there: &'a [u32], back: &'a [u32]) -> impl Iterator<Item = Vec<u32>> + use<'a> {
    let of_there = 0..=there.len();
    of_there.flat_map(move |count| {
        let dropped_there = &there[..count];
        (0..=back.len()).map(move |count| [dropped_there, &back[..count]].concat())
    })
}

/// Those that were seen, with one or two that were not, and what was dropped between them: where
/// payloads find no room packets are dropped that came between others which wait in front of the state,
/// and one whose payload is given up meanwhile is dropped behind it.
fn few_unseen<'a>(
    candidates: &'a [u32],
    seen: &'a [u32],
) -> impl Iterator<Item = (Vec<u32>, Vec<u32>)> + use<'a> {
    let ones = candidates.iter().map(|&one| [one, one]);
    let pairs = (1..candidates.len()).flat_map(|place| {
        let (others, second) = (&candidates[..place], candidates[place]);
        others.iter().map(move |&first| [first, second])
    });
    ones.chain(pairs).map(|unseen| {
        let is_applied = |number: &u32| seen.contains(number) || unseen.contains(number);
        let (applied, others): (Vec<u32>, Vec<u32>) =
            candidates.iter().partition(|one| is_applied(one));
        let last = applied.last().copied().unwrap_or(0);
        let dropped = others.into_iter().filter(|&number| number < last);
        (dropped.collect(), applied)
    })
}

/// Packets inside that may still be applied to a flow: what the ledger drops at one element does not
/// come to the next.
fn unapplied(record: &Record, elements: Elements, flow: usize) -> impl Iterator<Item = u32> {
    let packets = record.inside.iter().copied();
    let element = record.history.flows[flow].element;
    let may_come = move |packet: &PacketHistory| {
        let is_first = elements.is_first_state(element, packet.direction);
        packet.flows.contains(&flow)
            && !packet.is_applied(element)
            && (is_first || !packet.kind.is_dropped())
    };
    packets.filter(move |&number| record.history.packet(number).is_some_and(may_come))
}

/// How many packets explain what the slot has, if they were applied one after the other.
fn explaining(record: &Record, flow: usize, packets: &[u32], seen: &[u32]) -> Option<usize> {
    let known = &record.history.flows[flow];
    let has = Account::among(record.mirror.words_of(known))?;
    let mut truth = known.truth.clone();
    for (place, &number) in packets.iter().enumerate() {
        let packet = record.history.packet(number)?;
        if packet.kind.is_complex() || number < known.last_applied {
            return None;
        }
        truth.take(number, packet, record.history.expiry_ticks);
        let applied = &packets[..=place];
        let has_seen = seen.iter().all(|packet| applied.contains(packet));
        if has_seen && truth.account == has {
            return Some(place + 1);
        }
    }
    None
}
