//! DASH on one core: packets of known connections, VXLAN in and out, and new connections through
//! access lists, routes and mappings; beside what the machine allows.
//!
//! `cargo bench -p twinpath-benches --bench dash [hits|opens|update|node]`; with `costs` it measures what the
//! lab's plans of DPUs take as times, and writes `plans/measured/dash-costs.csv`, with `scale` a DPU of
//! the size that DASH asks for, which takes 20 GB and minutes. A hit is a whole packet: outer headers off,
//! the flow found, MAC addresses rewritten, counted, outer headers with checksums on. The limit is a
//! loop that reads two cache lines at random from as much memory as the flows take. Every figure is
//! the median over parts of 512 packets.

mod node;
mod packets;
mod scale;
mod text;

use std::hint::black_box;
use std::time::Instant;

use packets::{PART, Traffic, scattered};

use twinpath_benches::measured::Measured;
use twinpath_benches::table::{ns_each, row};
use twinpath_core::memory::{CacheLine, ZeroedArray};
use twinpath_core::wire::Address;
use twinpath_core::wire::tcp::flags;
use twinpath_dash::objects::{
    AclGroupId, AclRuleKey, Key, RouteGroupId, RouteKey, SwitchKey, VnetMappingKey,
};
use twinpath_dash::samples::{Large, Objects, large};
use twinpath_dash::{Cost, Dpu, Settings};

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let parts: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |part: &str| {
        let mut named = parts
            .iter()
            .filter(|text| !text.starts_with('-'))
            .peekable();
        named.peek().is_none() || named.any(|text| text == part)
    };
    if parts.iter().any(|part| part == "costs") {
        costs();
        return;
    }
    if parts.iter().any(|part| part == "scale") {
        scale::measure(&scale::HERO, scale::CONNECTIONS);
        return;
    }
    if is_test {
        scale::measure(&scale::SMALL, 600);
    }
    if wanted("hits") {
        let counts: &[usize] = if is_test {
            &[600]
        } else {
            &[1_000, 1_000_000, 8_000_000]
        };
        for &count in counts {
            hits(count);
        }
    }
    if wanted("opens") {
        let (rules, routes, count) = if is_test {
            (50, 100, 600)
        } else {
            (1_000, 100_000, 1_000_000)
        };
        for prefixes in [1, 100] {
            opens(rules, prefixes, routes, count);
        }
    }
    if wanted("node") {
        let (sizes, count) = match is_test {
            true => (sizes(5, 50, 1, 100), 600),
            false => (sizes(5, 1_000, 1, 100_000), 1_000_000),
        };
        node::measure(&sizes, traffic(&sizes), count);
    }
    if wanted("update") {
        match is_test {
            true => updates(100, 600),
            false => updates(100_000, 1_000_000),
        }
    }
}

fn sizes(acl_stages: u8, acl_rules: u32, acl_prefixes: u32, routes: u32) -> Large {
    Large {
        enis: 2,
        acl_stages,
        acl_rules,
        acl_prefixes,
        routes,
        mappings: 50_000.min(routes * 32),
    }
}

fn traffic(sizes: &Large) -> Traffic {
    Traffic {
        enis: sizes.enis,
        peers: sizes.mappings,
    }
}

fn dpu(objects: &Objects, flows: usize) -> Dpu {
    let settings = Settings {
        flows: flows + flows / 2,
        ..Settings::default()
    };
    let mut dpu = Dpu::new(settings, 1);
    dpu.update(objects, &keys(objects));
    dpu.touch();
    dpu
}

fn keys(objects: &Objects) -> Vec<Key> {
    let mut keys = objects.keys();
    keys.push(Key::Switch(SwitchKey));
    keys
}

/// Nanoseconds to read two of so many bytes' cache lines at random.
fn limit(bytes: usize) -> f64 {
    let mut lines: ZeroedArray<CacheLine> = ZeroedArray::new(bytes.div_ceil(64).max(1));
    lines.iter_mut().for_each(|line| line.0[0] = 1);
    let count = lines.len() as u64;
    let mut times = Vec::new();
    let mut place = 1u64;
    for _ in 0..200 {
        let started = Instant::now();
        for _ in 0..PART {
            for _ in 0..2 {
                place = place.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) + 1;
                black_box(lines[(place % count) as usize].0[0]);
            }
        }
        times.push(ns_each(started.elapsed(), PART));
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn hits(count: usize) {
    let sizes = sizes(0, 0, 0, 1_000);
    let objects = large(&sizes);
    let mut dpu = dpu(&objects, count);
    traffic(&sizes).each(&mut dpu, 0..count, flags::SYN);
    assert_eq!(dpu.flow_count(), count);
    let packets = count.clamp(200_000, 1_000_000);
    let order = scattered(count).cycle().take(packets);
    let ns = traffic(&sizes).each(&mut dpu, order, flags::ACK);
    let bytes = dpu.flow_memory_bytes();
    row(&format!("hit, {count} flows"), ns, Some(limit(bytes)));
    println!("    {} bytes a flow", bytes / count);
}

fn opens(rules: u32, prefixes: u32, routes: u32, count: usize) {
    let sizes = sizes(5, rules, prefixes, routes);
    let objects = large(&sizes);
    let started = Instant::now();
    let mut dpu = dpu(&objects, count);
    let loading = started.elapsed();
    let ns = traffic(&sizes).each(&mut dpu, 0..count, flags::SYN);
    let what = format!("new connection, 5 lists of {rules} rules with {prefixes} prefixes");
    row(&what, ns, None);
    let memory = dpu.tables().memory_use();
    let per = |cost: Cost| cost.bytes_each().unwrap_or_default();
    println!(
        "    loaded in {loading:.2?}; {:.1} bytes a route, {:.1} a mapping, {:.1} a rule",
        per(memory.routes),
        per(memory.mappings),
        per(memory.acl_rules)
    );
}

/// Flows that are known, in a table with room for the most of them.
const KNOWN_FLOWS: [usize; 4] = [0, 1_000_000, 8_000_000, 24_000_000];
/// Connections that are opened in such a table.
const OPENED: usize = 200_000;

/// Rounds of which the median is kept, row by row: what else a machine does comes and goes.
const ROUNDS: usize = 3;

/// What packets of known flows and new connections take by how full the table is. Policies are as large as
/// the public paper's for an ENI: five lists of 1,000 rules in a row, 5,000 routes, 2,510 mappings.
fn costs() {
    let mut rounds: Vec<Vec<(String, f64)>> = (0..ROUNDS).map(|_| costs_once()).collect();
    let mut measured = Measured::default();
    let first = rounds.swap_remove(0);
    for (row, (what, ns)) in first.into_iter().enumerate() {
        let others = rounds.iter().map(|round| round[row].1);
        let mut times: Vec<f64> = others.chain([ns]).collect();
        times.sort_by(f64::total_cmp);
        measured.add(what, times[ROUNDS / 2]);
    }
    measured
        .write("dash-costs")
        .expect("the table can be written");
}

fn costs_once() -> Vec<(String, f64)> {
    let sizes = Large {
        mappings: 2_510,
        ..sizes(5, 1_000, 1, 5_000)
    };
    let objects = large(&sizes);
    let room = KNOWN_FLOWS[KNOWN_FLOWS.len() - 1] + (KNOWN_FLOWS.len() + 1) * OPENED;
    let settings = Settings {
        flows: room,
        ..Settings::default()
    };
    let mut dpu = Dpu::new(settings, 1);
    dpu.update(&objects, &keys(&objects));
    dpu.touch();
    let (traffic, mut measured) = (traffic(&sizes), Vec::new());
    // What comes first finds policies in no cache.
    traffic.each(&mut dpu, 0..OPENED, flags::SYN);
    let mut known = OPENED;
    for count in KNOWN_FLOWS {
        if count > 0 {
            traffic.each(&mut dpu, known..count, flags::SYN);
            known = count;
            let order = scattered(count).cycle().take(1_000_000);
            let ns = traffic.each(&mut dpu, order, flags::ACK);
            measured.push((format!("hit-{count}"), ns));
        }
        let ns = traffic.each(&mut dpu, known..known + OPENED, flags::SYN);
        known += OPENED;
        measured.push((format!("open-{count}"), ns));
        if count == 0 {
            let order = scattered(1_000).cycle().take(1_000_000);
            let ns = traffic.each(&mut dpu, order, flags::ACK);
            measured.push(("hit-1000".into(), ns));
        }
    }
    assert_eq!(dpu.flow_count(), known);
    measured
}

/// A change of something that the first flow was decided by, which differs with each number.
type Change = fn(&mut Objects, u32) -> Key;

fn move_peer(objects: &mut Objects, number: u32) -> Key {
    let address = Large::mapped(0);
    let mapping = objects.mappings.get_mut(&("vnet-0".into(), address));
    let host = Address::from_v4([223, 0, 0, number as u8]);
    mapping.expect("the first peer's").underlay_ip = host;
    Key::VnetMapping(VnetMappingKey {
        vnet: "vnet-0".into(),
        address,
    })
}

fn change_route(objects: &mut Objects, number: u32) -> Key {
    let group = RouteGroupId::from("group-0");
    let routes = objects.route_groups.get_mut(&group).expect("there");
    let (prefix, route) = &mut routes[5];
    route.metering.or = number;
    Key::Route(RouteKey {
        group,
        prefix: *prefix,
    })
}

fn change_rule(objects: &mut Objects, number: u32) -> Key {
    let group = AclGroupId::from("acl1");
    let (_, rules) = objects.acl_groups.get_mut(&group).expect("there");
    let (name, rule) = rules.iter_mut().nth(5).expect("one of many");
    let nobody = Address::from_v4([203, 0, 113, number as u8]);
    rule.src_addr = [nobody.into()].into_iter().collect();
    Key::AclRule(AclRuleKey {
        group,
        rule: name.clone(),
    })
}

/// How long it takes until packets meet a change: the change alone, and with the next packet of a
/// connection that is open, which is judged anew. There are so many connections.
fn updates(routes: u32, flows: usize) {
    let sizes = sizes(1, 1_000.min(routes), 1, routes);
    let mut objects = large(&sizes);
    let mut dpu = dpu(&objects, flows);
    traffic(&sizes).each(&mut dpu, 0..flows, flags::SYN);
    let changes: [(&str, Change); 3] = [
        ("a mapping changes", move_peer),
        ("one of many routes changes", change_route),
        ("one of many rules changes", change_rule),
    ];
    for (what, change) in changes {
        let (mut alone, mut followed) = (Vec::new(), Vec::new());
        for number in 1..=20 {
            let key = change(&mut objects, number);
            let packet = traffic(&sizes).segment(0, flags::ACK);
            let before = judged_anew(&dpu);
            // As in a service, where packets meet the old tables until the new ones are there.
            let _old = dpu.tables().clone();
            let started = Instant::now();
            dpu.update(&objects, [&key]);
            alone.push(ns_each(started.elapsed(), 1));
            let now = twinpath_core::Instant(1 << 30);
            traffic(&sizes).one(&mut dpu, packet, now);
            followed.push(ns_each(started.elapsed(), 1));
            assert_eq!(judged_anew(&dpu), before + 1, "it follows");
        }
        for times in [&mut alone, &mut followed] {
            times.sort_by(f64::total_cmp);
        }
        row(what, alone[10], None);
        row(&format!("{what}, and a packet follows"), followed[10], None);
    }
}

fn judged_anew(dpu: &Dpu) -> u64 {
    let counters = dpu.counters(&"eni-0".into());
    counters.expect("the first ENI").flows_resimulated
}
