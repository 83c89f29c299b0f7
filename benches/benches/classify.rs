//! Nanoseconds per lookup of the three classifiers, the time to build them and the memory they
//! take, beside what the machine allows.
//!
//! `cargo bench -p twinpath-benches --bench classify`. Every figure is the median over
//! parts of 512 lookups of several passes. The limit is a loop that reads one cache line at random per lookup, from as much memory
//! as the classifier takes.

use std::hint::black_box;
use std::time::Instant;

use twinpath_benches::table::{ns_each, row};
use twinpath_classify::Prefix;
use twinpath_classify::acl::{Acl, Examined, Headers, Rule, linear};
use twinpath_classify::lpm::{RouteLimits, RouteTable};
use twinpath_classify::masked::{MaskedLimits, MaskedTable, MatchKey};
use twinpath_classify::samples::{self, Random, Style};
use twinpath_core::memory::{CacheLine, ZeroedArray};
use twinpath_core::wire::Address;

const ROUNDS: usize = 5;
/// Lookups between two looks at the clock.
const PART: usize = 512;
/// Copies of a rule set that together fit no cache.
const COPIES: usize = 32;

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let wanted = |part: &str| {
        let mut parts = std::env::args()
            .skip(1)
            .filter(|text| !text.starts_with('-'));
        let first = parts.next();
        first.is_none_or(|first| first == part || parts.any(|text| text == part))
    };
    if wanted("acl") {
        let (rules, packets) = if is_test {
            (300, 1_000)
        } else {
            (10_000, 200_000)
        };
        for v6_in_100 in [0, 100] {
            for style in Style::ALL {
                access_control(rules, packets, style, v6_in_100);
            }
        }
    }
    if wanted("lpm") {
        let (scale, packets) = if is_test {
            (1_000, 1_000)
        } else {
            (1, 2_000_000)
        };
        routes("IPv4", samples::routes_v4(1_000_000 / scale, 1), packets);
        routes("IPv6", samples::routes_v6(200_000 / scale, 1), packets);
    }
    if wanted("masked") {
        let packets = if is_test { 1_000 } else { 500_000 };
        for rules in [32_000, 1_000_000] {
            for masks in [1, 4, 16, 64, 256] {
                masked(if is_test { 1_000 } else { rules }, masks, packets);
            }
        }
    }
}

/// The time for one of many inputs: the median over small parts of several passes, in which what
/// else the machine does hardly shows.
fn each<T>(inputs: &[T], mut body: impl FnMut(&T)) -> f64 {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        for part in inputs.chunks_exact(PART.min(inputs.len())) {
            let started = Instant::now();
            part.iter().for_each(&mut body);
            times.push(ns_each(started.elapsed(), part.len()));
        }
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Nanoseconds to read one of so many bytes' cache lines at random.
fn limit(bytes: usize, lookups: usize) -> f64 {
    let mut lines: ZeroedArray<CacheLine> = ZeroedArray::new(bytes.div_ceil(64).max(1));
    lines.iter_mut().for_each(|line| line.0[0] = 1);
    let mut random = Random::new(1);
    let places: Vec<u32> = (0..lookups)
        .map(|_| random.below(lines.len() as u64) as u32)
        .collect();
    each(&places, |&place| _ = black_box(lines[place as usize].0[0]))
}

fn access_control(count: usize, packets: usize, style: Style, v6_in_100: u64) {
    let rules = samples::rules(count, style, v6_in_100, 1);
    let headers = samples::headers(&rules, packets, 2);
    let started = Instant::now();
    let acl = Acl::new(&rules, 2 * count).expect("fits");
    let build = started.elapsed();
    let version = if v6_in_100 == 0 { "IPv4" } else { "IPv6" };
    println!(
        "{style:?}, {count} {version} rules: built in {:.1} ms, {} bytes per rule",
        build.as_secs_f64() * 1e3,
        acl.memory_bytes() / count
    );
    let bound = limit(acl.memory_bytes(), packets);
    let ns = each(&headers, |one| _ = black_box(acl.lookup(one)));
    row("  lookup, rules in the cache", ns, Some(bound));
    cold(&acl, &headers);
    examined(&acl, &headers);
    let some = &headers[..headers.len().min(1_000)];
    let ns = each(some, |one| _ = black_box(linear::first_match(&rules, one)));
    row("  linear reference", ns, None);
    changes(acl, &rules);
}

/// Each lookup in another copy of the rules, so that they come from memory.
fn cold(acl: &Acl, headers: &[Headers]) {
    let copies = vec![acl.clone(); COPIES];
    let bound = limit(COPIES * acl.memory_bytes(), headers.len());
    let mut turn = 0;
    let ns = each(headers, |one| {
        turn = (turn + 1) % COPIES;
        black_box(copies[turn].lookup(one));
    });
    row("  lookup, rules in memory", ns, Some(bound));
}

fn examined(acl: &Acl, headers: &[Headers]) {
    let ns = each(headers, |one| {
        let mut examined = Examined::default();
        black_box(acl.lookup_examined(one, &mut examined));
        black_box(examined);
    });
    row("  lookup with examined bits", ns, None);
    let all: Vec<Examined> = headers
        .iter()
        .map(|one| {
            let mut examined = Examined::default();
            acl.lookup_examined(one, &mut examined);
            examined
        })
        .collect();
    let mean = |bits: fn(&Examined) -> u32| {
        let sum: u64 = all.iter().map(|examined| u64::from(bits(examined))).sum();
        sum as f64 / all.len() as f64
    };
    println!(
        "    bits examined on average: source {:.1}, destination {:.1} (of 128), ports {:.1} and {:.1}",
        mean(|examined| examined.source.leading_ones()),
        mean(|examined| examined.destination.leading_ones()),
        mean(|examined| examined.source_port.leading_ones()),
        mean(|examined| examined.destination_port.leading_ones()),
    );
    let masks = |address_step, port_step| {
        let rounded = all.iter().map(|one| one.rounded(address_step, port_step));
        rounded.collect::<std::collections::HashSet<_>>().len()
    };
    println!(
        "    distinct masks: {}, rounded to 4 bits {}, to 8 bits {}, to 16 bits {}",
        masks(1, 1),
        masks(4, 4),
        masks(8, 8),
        masks(16, 16)
    );
}

/// Removes a rule and inserts another, many times, at random places.
fn changes(mut acl: Acl, rules: &[Rule]) {
    let mut random = Random::new(3);
    let mut times: Vec<f64> = (0..rules.len().min(2_000))
        .map(|_| {
            let index = random.below(acl.len() as u64) as usize;
            let rule = rules[random.below(rules.len() as u64) as usize];
            let started = Instant::now();
            acl.remove(index);
            let _ = acl.insert(index, rule);
            started.elapsed().as_secs_f64() * 1e6 / 2.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "    a change takes {:.1} us (median), {:.0} us (longest of {})\n",
        times[times.len() / 2],
        times[times.len() - 1],
        times.len()
    );
}

fn routes(version: &str, routes: Vec<(Prefix, u32)>, packets: usize) {
    let addresses = samples::addresses(&routes, packets, 2);
    let started = Instant::now();
    let mut table = RouteTable::new(RouteLimits {
        v4: routes.len(),
        v6: routes.len(),
    });
    for &(prefix, next_hop) in &routes {
        table.insert(prefix, next_hop).expect("fits");
    }
    let build = started.elapsed();
    println!(
        "{} {version} routes: built in {:.0} ms, {} bytes per route",
        routes.len(),
        build.as_secs_f64() * 1e3,
        table.memory_bytes() / routes.len()
    );
    let bound = limit(table.memory_bytes(), packets);
    let ns = each(&addresses, |&one| _ = black_box(table.lookup(one)));
    row("  lookup", ns, Some(bound));
    waiting(&table, &addresses);
    let ns = each(&addresses, |&one| _ = black_box(table.lookup_examined(one)));
    row("  lookup with examined bits", ns, None);
    let bits = |one: &Address| u64::from(table.lookup_examined(*one).examined_bits);
    let bits: u64 = addresses.iter().map(bits).sum();
    println!(
        "    bits examined on average: {:.1}",
        bits as f64 / packets as f64
    );
    let changed: Vec<_> = routes.iter().step_by(3).copied().collect();
    let ns = each(&changed, |&(prefix, next_hop)| {
        table.remove(prefix);
        let _ = table.insert(prefix, next_hop);
    });
    println!("    a change takes {:.0} ns\n", ns / 2.0);
}

/// Each lookup waits for the one before.
fn waiting(table: &RouteTable, addresses: &[Address]) {
    let mut before = 0;
    let ns = each(addresses, |&one| {
        let next_hop = table.lookup(Address(one.0 ^ u128::from(before)));
        before = next_hop.map_or(0, |hop| hop & 1);
    });
    row("  lookup that waits for the one before", ns, None);
}

/// A key as the rule cache lays it out: addresses, ports and protocol, and a word of others.
type Key = MatchKey<6>;

fn masked(rules: usize, masks: usize, packets: usize) {
    let mut random = Random::new(1);
    let masks: Vec<Key> = (0..masks as u64).map(prefix_mask).collect();
    let mut table = MaskedTable::<6>::new(
        MaskedLimits {
            rules,
            masks: masks.len(),
        },
        7,
    );
    let mut keys: Vec<Key> = Vec::with_capacity(rules);
    let started = Instant::now();
    for id in 0..rules {
        let key = std::array::from_fn(|word| if word < 5 { random.bits() } else { 0 });
        let _ = table.insert(&masks[id % masks.len()], &key, id as u32);
        keys.push(key);
    }
    let build = started.elapsed();
    println!(
        "{rules} masked rules, {} masks: {:.0} ns per insertion, {} bytes per rule",
        masks.len(),
        build.as_secs_f64() * 1e9 / rules as f64,
        table.memory_bytes() / rules
    );
    let bound = limit(table.memory_bytes(), packets);
    let packets = (packets * 8 / (masks.len() + 8)).max(1_000);
    let uniform: Vec<Key> = (0..packets)
        .map(|_| keys[random.below(rules as u64) as usize])
        .collect();
    let ns = each(&uniform, |key| _ = black_box(table.lookup(key)));
    row("  hits, all masks alike", ns, Some(bound));
    // Mask m is hit half as often as the one before.
    let skewed: Vec<Key> = (0..packets)
        .map(|_| {
            let mask = (random.bits().trailing_zeros() as usize).min(masks.len() - 1);
            let rule = random.below((rules / masks.len()) as u64) as usize;
            keys[rule * masks.len() + masks.len() - 1 - mask]
        })
        .collect();
    skewed.iter().for_each(|key| _ = table.lookup(key));
    let ns = each(&skewed, |key| _ = black_box(table.lookup(key)));
    row("  hits, half of them in one mask", ns, Some(bound));
    let misses: Vec<Key> = (0..packets)
        .map(|_| std::array::from_fn(|_| random.bits()))
        .collect();
    let ns = each(&misses, |key| _ = black_box(table.lookup(key)));
    row("  misses", ns, Some(bound));
}

/// Masks of leading bits, each with another pair of prefix lengths.
fn prefix_mask(number: u64) -> Key {
    let leading = |bits: u64| u64::MAX << (64 - bits);
    [
        leading(64),
        leading(48 + number % 16),
        leading(64),
        leading(48 + number / 16),
        u64::MAX,
        0,
    ]
}
