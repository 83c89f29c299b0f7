//! A DPU of the size that DASH asks for (paper, Table 5, and upstream's largest test): its configuration read
//! as SONiC writes it, put in force and compiled, and as many connections as it is to know.

use std::fmt::Write;
use std::time::{Duration, Instant};

use twinpath_benches::table::row;
use twinpath_core::wire::Address;
use twinpath_core::wire::tcp::flags;
use twinpath_dash::config::{Configuration, Store};
use twinpath_dash::samples::{Large, VIP, VM_VNI};
use twinpath_dash::{Cost, Dpu, Files, Settings};

use crate::packets::{Traffic, scattered};

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
    let parts = std::iter::once(shared(sizes));
    for text in parts.chain((0..sizes.enis).map(|number| eni(sizes, number))) {
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

/// Objects in the order of their lines.
struct Lines(String);

impl Lines {
    fn new() -> Self {
        Self("[".into())
    }

    fn set(&mut self, key: &str, fields: &str) {
        let comma = if self.0.len() > 1 { "," } else { "" };
        write!(
            self.0,
            "{comma}\n{{\"DASH_{key}\": {{{fields}}}, \"OP\": \"SET\"}}"
        )
        .expect("a text");
    }

    fn finish(mut self) -> String {
        self.0 += "\n]\n";
        self.0
    }
}

/// What all ENIs share.
fn shared(sizes: &Large) -> String {
    let mut lines = Lines::new();
    lines.set(
        "APPLIANCE_TABLE:appliance",
        &format!(r#""sip": "{VIP}", "vm_vni": {VM_VNI}, "local_region_id": "100""#),
    );
    lines.set(
        "ROUTING_TYPE_TABLE:vnet_encap",
        r#""items": [{"action_name": "a", "action_type": "staticencap", "encap_type": "vxlan"}]"#,
    );
    for direction in ["in", "out"] {
        for stage in 1..=sizes.acl_stages {
            let group = format!("{direction}{stage}");
            lines.set(
                &format!("ACL_GROUP_TABLE:{group}"),
                r#""ip_version": "ipv4""#,
            );
            for number in 0..sizes.acl_rules {
                let key = format!("ACL_RULE_TABLE:{group}:{number}");
                lines.set(&key, &rule(sizes, number));
            }
        }
    }
    lines.finish()
}

/// All rules but the last deny something that is sent by nobody, so that all are looked at.
fn rule(sizes: &Large, number: u32) -> String {
    if number + 1 == sizes.acl_rules {
        return format!(r#""priority": {number}, "action": "allow", "terminating": "false""#);
    }
    let place = |at: u32| 0x3000_0000 + (number * sizes.acl_prefixes + at) * 512;
    let prefixes = (0..sizes.acl_prefixes).map(|at| format!("{}/24", v4(place(at))));
    let prefixes: Vec<_> = prefixes.collect();
    format!(
        r#""priority": {number}, "action": "deny", "terminating": "true", "protocol": "6,17", "src_addr": "{}""#,
        prefixes.join(",")
    )
}

/// An ENI with its network.
fn eni(sizes: &Large, number: u16) -> String {
    let mut lines = Lines::new();
    let vni = Large::vni(number);
    lines.set(
        &format!("VNET_TABLE:vnet-{number}"),
        &format!(r#""vni": {vni}"#),
    );
    let (mac, host) = (Large::mac(number), Large::host(number));
    lines.set(
        &format!("ENI_TABLE:eni-{number}"),
        &format!(
            r#""eni_id": "eni-{number}", "mac_address": "{mac}", "underlay_ip": "{host}", "admin_state": "enabled", "vnet": "vnet-{number}""#
        ),
    );
    lines.set(
        &format!("ROUTE_GROUP_TABLE:group-{number}"),
        r#""version": "1""#,
    );
    let group = format!(r#""group_id": "group-{number}""#);
    lines.set(&format!("ENI_ROUTE_TABLE:eni-{number}"), &group);
    for direction in ["in", "out"] {
        for stage in 1..=sizes.acl_stages {
            let key = format!(
                "ACL_{}_TABLE:eni-{number}:{stage}",
                direction.to_uppercase()
            );
            let bound = format!(r#""v4_acl_group_id": "{direction}{stage}""#);
            lines.set(&key, &bound);
        }
    }
    for at in 0..sizes.routes {
        let key = format!("ROUTE_TABLE:group-{number}:{}", route(at));
        let class = at % 16;
        let fields = format!(
            r#""action_type": "vnet", "vnet": "vnet-{number}", "metering_class_or": {class}"#
        );
        lines.set(&key, &fields);
    }
    for at in 0..sizes.mappings {
        let [_, b, c, d] = (at / 8).to_be_bytes();
        let key = format!("VNET_MAPPING_TABLE:vnet-{number}:{}", Large::mapped(at));
        let fields = format!(
            r#""routing_type": "vnet_encap", "underlay_ip": "222.{b}.{c}.{d}", "mac_address": "00:1b:6e:{b:02x}:{c:02x}:{d:02x}", "use_dst_vni": true"#
        );
        lines.set(&key, &fields);
    }
    lines.finish()
}

/// The first route covers all that has a mapping, half of the others lie among them.
fn route(number: u32) -> String {
    match number {
        0 => format!("{}/8", v4(0x0200_0000)),
        number => {
            let base = if number % 2 == 0 {
                0x0200_0000
            } else {
                0x5000_0000
            };
            format!("{}/27", v4(base + number / 2 * 64))
        }
    }
}

const fn v4(number: u32) -> Address {
    Address::from_v4(number.to_be_bytes())
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
