//! A DPU of the size that DASH asks for (paper, Table 5, and upstream's largest test): its configuration read
//! as SONiC writes it, put in force and compiled, and as many connections as it is to know.

use std::time::{Duration, Instant};

use twinpath_benches::table::row;
use twinpath_core::wire::tcp::flags;
use twinpath_dash::config::{Configuration, Store};
use twinpath_dash::samples::Large;
use twinpath_dash::{Cost, Dpu, Files, Settings};

use crate::packets::{Traffic, scattered};
use crate::text;

/// What DASH asks of a DPU of 200 Gb/s: each ENI has routes and mappings of its own, and five access lists in
/// each direction, which are those of all.
pub const HERO: Large = Large {
    enis: 32,
    acl_stages: 5,
    acl_rules: 1_000,
    acl_prefixes: 100,
    routes: 100_000,
    mappings: 250_000,
};

/// Connections of it.
pub const CONNECTIONS: usize = 32_000_000;

/// One that only shows that this runs.
pub const SMALL: Large = Large {
    enis: 2,
    acl_stages: 2,
    acl_rules: 5,
    acl_prefixes: 3,
    routes: 20,
    mappings: 50,
};

/// Connections that are opened while as many as there may be are known.
const OPENED: usize = 200_000;

/// Loads it and opens the connections.
pub fn measure(sizes: &Large, connections: usize) {
    let (store, text_bytes, reading) = load(sizes);
    let configuration = store.snapshot().configuration.clone();
    let settings = Settings {
        flows: connections + OPENED.min(connections / 2),
        ..Settings::default()
    };
    let mut dpu = Dpu::new(settings, 1);
    let started = Instant::now();
    let all = configuration.changed_since(&Configuration::default());
    dpu.update(&configuration, &all);
    let compiling = started.elapsed();
    drop(all);
    println!(
        "a DPU of {} ENIs with {} routes and {} mappings each, {} access lists of {} rules with {} prefixes",
        sizes.enis,
        sizes.routes,
        sizes.mappings,
        2 * sizes.acl_stages,
        sizes.acl_rules,
        sizes.acl_prefixes
    );
    println!(
        "    {} of JSON read and put in force in {reading:.1?}, compiled in {compiling:.1?}",
        gigabytes(text_bytes)
    );
    tell_memory(&configuration, &dpu);
    drop((store, configuration));
    dpu.touch();
    let traffic = Traffic {
        enis: sizes.enis,
        peers: sizes.mappings,
    };
    let opened = OPENED.min(connections / 2);
    let first = traffic.each(&mut dpu, 0..opened, flags::SYN);
    row("scale: new connection, the first ones", first, None);
    traffic.each(&mut dpu, opened..connections, flags::SYN);
    let order = scattered(connections).take(1_000_000);
    let hit = traffic.each(&mut dpu, order, flags::ACK);
    row(&format!("scale: hit, {connections} flows"), hit, None);
    let last = traffic.each(&mut dpu, connections..connections + opened, flags::SYN);
    let what = format!("scale: new connection, {connections} flows");
    row(&what, last, None);
    assert_eq!(dpu.flow_count(), connections + opened);
    println!(
        "    flows {}, {} bytes each with room for the most of them",
        gigabytes(dpu.flow_memory_bytes()),
        dpu.flow_memory_bytes() / dpu.flow_count()
    );
}

/// Reads the configuration, one ENI after the other: bytes of text, and how long it took to read it.
fn load(sizes: &Large) -> (Store, usize, Duration) {
    let (mut store, mut bytes, mut time) = (Store::default(), 0, Duration::ZERO);
    let parts = std::iter::once(text::shared(sizes));
    for text in parts.chain((0..sizes.enis).map(|number| text::eni(sizes, number))) {
        let started = Instant::now();
        let mut files = Files::default();
        files.add_text("part.json".into(), text.as_bytes());
        assert_eq!(files.problems, []);
        store.apply(files.changes);
        time += started.elapsed();
        bytes += text.len();
    }
    assert_eq!(store.unsettled(), [0, 0]);
    (store, bytes, time)
}

/// What each takes as it is configured, and for packets.
fn tell_memory(configuration: &Configuration, dpu: &Dpu) {
    let (configured, met) = (configuration.costs(), dpu.tables().memory_use());
    println!(
        "    configured {}, for packets {}",
        gigabytes(configured.bytes()),
        gigabytes(met.bytes())
    );
    let each = |cost: Cost| cost.bytes_each().unwrap_or_default();
    for (what, configured, met) in [
        ("routes", configured.routes, met.routes),
        ("mappings", configured.mappings, met.mappings),
        ("rules", configured.acl_rules, met.acl_rules),
    ] {
        println!(
            "    {} {what}: {:.1} bytes each configured, {:.1} for packets",
            configured.number,
            each(configured),
            each(met)
        );
    }
}

fn gigabytes(bytes: usize) -> String {
    format!("{:.2} GB", bytes as f64 / 1e9)
}
