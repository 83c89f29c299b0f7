//! What a cached packet costs on one core: flow, match, rewrite with checksums.
//!
//! `cargo run --release -p twinpath-rulecache --example hit_cost`

use std::time::{Duration, Instant as Clock};
use twinpath_core::wire::layout::{Plain, PlainEnds};
use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder, dissect};
use twinpath_core::{Decision, Direction, Frame, Instant, Pools};
use twinpath_rulecache::{
    Action, CacheMessage, Effect, Field, Fields, Found, LineKey, MatchKey, NewRule, Rewrites,
    RuleName, RuleTable, TableConfig,
};

const BATCH: usize = 32;
const PACKETS: usize = 2_000_000;
/// Packets between two looks at the result: the median over all parts is shown.
const PART: usize = 512;

fn main() {
    println!("rules      kind     ns/packet: look ahead, decide and rewrite; together");
    for rules in [1024, 32_768, 1 << 20] {
        for masked in [false, true] {
            measure(rules, masked);
        }
    }
}

fn measure(rules: usize, masked: bool) {
    let mut table = filled(rules, masked);
    let mut pools = Pools::new(BATCH, 1);
    let empty = std::iter::from_fn(|| pools.take(0));
    let mut frames: Vec<Frame> = empty.take(BATCH).collect();
    let packets: Vec<Vec<u8>> = shuffled((0..rules).map(packet).collect());
    let mut parts: [Vec<f64>; 2] = Default::default();
    for _ in 0..PACKETS.div_ceil(packets.len()) {
        for part in packets.chunks_exact(PART) {
            let mut spent = [Duration::ZERO; 2];
            for batch in part.chunks(BATCH) {
                // As a network card leaves them: in the cache.
                let filled = frames
                    .iter_mut()
                    .zip(batch)
                    .filter_map(|(frame, packet)| frame.fill(packet).then_some(()));
                assert_eq!(filled.count(), BATCH);
                assert_eq!(run(&mut table, &mut frames, &mut spent), BATCH);
            }
            for (part, time) in parts.iter_mut().zip(spent) {
                part.push(time.as_nanos() as f64 / PART as f64);
            }
        }
    }
    let [look, decide] = parts.map(median);
    let (kind, together) = (if masked { "masked" } else { "exact" }, look + decide);
    println!("{rules:<10} {kind:8} {look:6.1} {decide:6.1}; {together:6.1}");
}

fn median(mut parts: Vec<f64>) -> f64 {
    parts.sort_by(f64::total_cmp);
    parts[parts.len() / 2]
}

fn run(table: &mut RuleTable, batch: &mut [Frame], spent: &mut [Duration; 2]) -> usize {
    let start = Clock::now();
    let mut known = [((Plain::default(), PlainEnds::default()), None); BATCH];
    for (frame, (found, place)) in batch.iter().zip(&mut known) {
        let (plain, ends) = Plain::with_ends(frame.bytes()).expect("plain");
        *found = (plain, ends);
        *place = Some(table.fetch(LineKey::of_ends(
            ends,
            plain.protocol(),
            Direction::Original,
        )));
    }
    let looked = Clock::now();
    let hits = decide(table, batch, &known);
    let end = Clock::now();
    spent[0] += looked - start;
    spent[1] += end - looked;
    hits
}

#[inline(never)]
fn decide(
    table: &mut RuleTable,
    batch: &mut [Frame],
    known: &[((Plain, PlainEnds), Option<Found>); BATCH],
) -> usize {
    let mut hits = 0;
    for (frame, &((plain, ends), place)) in batch.iter_mut().zip(known) {
        let (now, bytes) = (Instant(1), frame.bytes_mut());
        let met = table.plain_packet(place, bytes, (plain, ends), (0, Direction::Original), now);
        let decision = met.unwrap_or_else(|| {
            let key = MatchKey::of_plain(bytes, plain, 0, Direction::Original);
            let found = table.find_again(place, &key);
            table.packet(&key, found, bytes, &plain.layout(), now)
        });
        hits += usize::from(matches!(decision, Decision::Forward { .. }));
    }
    hits
}

fn ends(number: usize) -> (Endpoint, Endpoint) {
    let [_, a, b, c] = (number as u32 / 16).to_be_bytes();
    let from = Endpoint::v4([10, a, b, c], 1024 + (number % 16) as u16);
    (from, Endpoint::v4([192, 0, 2, 1], 443))
}

fn packet(number: usize) -> Vec<u8> {
    let (from, to) = ends(number);
    let builder = PacketBuilder::tcp(from, to).payload_len(64);
    builder.to_vec().expect("fits")
}

/// What a firewall, an address translation and a router make: source, time to live, MACs, egress.
fn filled(rules: usize, masked: bool) -> RuleTable {
    let mut table = RuleTable::new(TableConfig {
        exact: if masked { 0 } else { rules },
        masked: if masked { rules } else { 0 },
        seed: 7,
        ..TableConfig::default()
    });
    let mut effects = Vec::new();
    for id in 0..rules {
        let bytes = packet(id);
        let layout = dissect(&bytes).expect("well formed");
        let key = MatchKey::of(&bytes, &layout, 0, Direction::Original).expect("plain");
        let mask = match masked {
            false => MatchKey::EXACT,
            // Four masks.
            true => MatchKey::EXACT.without(&Field::DestinationPort.place(1 << (id % 4))),
        };
        let name = RuleName {
            id: id as u32,
            generation: 1,
        };
        let rule = NewRule {
            mask,
            value: key.and(&mask),
            action: action(id),
            used: Instant(0),
        };
        table.message(&CacheMessage::Add(name, Box::new(rule)), &mut effects);
        confirm(&mut table, &mut effects);
    }
    assert_eq!(table.active(), rules);
    table
}

fn confirm(table: &mut RuleTable, effects: &mut Vec<Effect>) {
    table.tick(Instant(0), Instant(0), effects);
    let marks: Vec<u32> = effects
        .drain(..)
        .filter_map(|effect| match effect {
            Effect::Send(CacheMessage::Mark(mark, _)) => Some(mark),
            _ => None,
        })
        .collect();
    for mark in marks {
        table.message(&CacheMessage::Marked(mark), effects);
    }
}

fn action(id: usize) -> Action {
    Action {
        rewrites: Rewrites {
            written: Fields::of(&[
                Field::SourceAddress,
                Field::SourcePort,
                Field::SourceMac,
                Field::DestinationMac,
                Field::Egress,
            ]),
            source: Endpoint::v4([198, 51, 100, 1], id as u16),
            source_mac: MacAddress([2, 0, 0, 0, 0, 8]),
            destination_mac: MacAddress([2, 0, 0, 0, 0, 9]),
            egress: 1,
            decrements: 1,
            ..Rewrites::default()
        },
        drop: None,
        idle: Some(Duration::from_secs(300)),
        tells_progress: true,
    }
}

fn shuffled<T>(mut items: Vec<T>) -> Vec<T> {
    let mut state = 1u64;
    for last in (1..items.len()).rev() {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        items.swap(last, (state >> 33) as usize % (last + 1));
    }
    items
}
