//! The test vectors of `vectors/dash`: SONiC's JSON and captures, made by an independent implementation.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use twinpath_core::Instant;
use twinpath_core::wire::tunnel::{Tunnel, VXLAN_PORT};
use twinpath_core::wire::{dissect, fields};
use twinpath_dash::config::Store;
use twinpath_dash::samples::vectors::{Compare, capture, folder, json, names, steps};
use twinpath_dash::{Dpu, DpuStep, Files, Reason, Settings, Verdict, messages};

/// Room in front of frames.
const HEADROOM: usize = 160;

struct Device {
    store: Store,
    dpu: Dpu,
    /// Where policies judge, if not at once.
    elsewhere: Option<Dpu>,
}

impl Device {
    fn new(is_apart: bool) -> Self {
        let settings = Settings {
            flows: 1024,
            ..Settings::default()
        };
        let whole = Dpu::new(settings.clone(), 1);
        let tables = Arc::new(whole.tables().clone());
        let (dpu, elsewhere) = match is_apart {
            true => {
                let fast = Dpu::with_policies_elsewhere(settings, tables, 1);
                (fast, Some(whole))
            }
            false => (whole, None),
        };
        Self {
            store: Store::default(),
            dpu,
            elsewhere,
        }
    }

    fn configure(&mut self, path: &Path) {
        let files = Files::read(&[path.to_path_buf()]).expect("a file");
        assert!(files.problems.is_empty(), "{:?}", files.problems);
        let applied = self.store.apply(files.changes);
        let waiting: Vec<_> = self.store.waiting().map(|(key, _)| key).collect();
        assert!(waiting.is_empty(), "{}: {waiting:?}", path.display());
        let snapshot = self.store.snapshot();
        let all = self.elsewhere.as_mut().unwrap_or(&mut self.dpu);
        all.update(&snapshot.configuration, &applied.changed);
        if let Some(policies) = &self.elsewhere {
            self.dpu.set_tables(Arc::new(policies.tables().clone()));
        }
    }

    fn send(&mut self, time_ns: u64, packet: &[u8]) -> Result<Vec<u8>, Reason> {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(packet);
        match self.process(&mut buffer, Instant(time_ns)) {
            Verdict::Forward(frame) => Ok(buffer[frame].to_vec()),
            Verdict::Drop(reason) => Err(reason),
            Verdict::TooLong(_) => Err(Reason::TooLong),
        }
    }

    /// What becomes of a packet. What policies are asked crosses as bytes, as between two paths.
    fn process(&mut self, buffer: &mut [u8], now: Instant) -> Verdict {
        let Some(policies) = &self.elsewhere else {
            return self.dpu.process(buffer, HEADROOM, now);
        };
        let mut step = self.dpu.begin(buffer, HEADROOM, now);
        loop {
            match step {
                DpuStep::Done(verdict) => return verdict,
                DpuStep::Wait(key) => panic!("{key:?} was answered"),
                DpuStep::Ask(question) => {
                    let words = messages::arrival_words(&question.arrival);
                    let arrival = messages::read_arrival(&words).expect("an arrival");
                    let said = messages::answer_bytes(&policies.answer(&arrival));
                    let said = messages::read_answer(&said).expect("an answer");
                    self.dpu.no_longer_asked(&question.key);
                    let answer = Some((question, said));
                    step = self.dpu.resume(buffer, HEADROOM, now, answer);
                }
            }
        }
    }

    fn step(&mut self, folder: &Path, compare: &Compare) {
        self.configure(&folder.join("config.json"));
        let mut expected = capture(&folder.join("expected.pcap")).into_iter();
        let mut dropped = Vec::new();
        for (number, (time_ns, packet)) in capture(&folder.join("in.pcap")).iter().enumerate() {
            match self.send(*time_ns, packet) {
                Ok(sent) => {
                    let (_, wanted) = expected.next().unwrap_or_else(|| {
                        panic!("{}: packet {number} should be dropped", folder.display())
                    });
                    let (sent, wanted) = (compare.counting(&sent), compare.counting(&wanted));
                    assert_eq!(
                        hex(&sent),
                        hex(&wanted),
                        "{}: packet {number}, after {dropped:?} were dropped",
                        folder.display()
                    );
                }
                Err(reason) => dropped.push((number, reason)),
            }
        }
        let left = expected.count();
        assert_eq!(
            left,
            0,
            "{}: more than wanted were dropped: {dropped:?}",
            folder.display()
        );
    }

    fn check_counters(&self, wanted: &Value) {
        let counters = self.dpu.counters(&"eni1".into()).expect("an ENI");
        let drops: serde_json::Map<_, _> = counters
            .drops
            .nonzero()
            .map(|(reason, count)| (reason.name().to_owned(), count.into()))
            .collect();
        if let Some(wanted) = wanted["drops"].as_object() {
            assert_eq!(&drops, wanted);
        }
        for (class, bytes) in wanted["meters"].as_object().into_iter().flatten() {
            let class: u32 = class.parse().expect("a class");
            let counted = counters.meters.of(class);
            assert_eq!(Value::from(counted.to_vec()), *bytes, "class {class}");
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let words = bytes.chunks(2);
    let words: Vec<_> = words
        .map(|word| {
            word.iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        })
        .collect();
    words.join(" ")
}

fn run(name: &str) {
    run_as(name, false);
    run_as(name, true);
}

fn run_as(name: &str, is_apart: bool) {
    let folder = folder().join(name);
    let compare = Compare::read(&folder);
    let mut device = Device::new(is_apart);
    for step in steps(name) {
        device.step(&step, &compare);
    }
    if let Some(wanted) = json(&folder.join("counters.json")) {
        device.check_counters(&wanted);
    }
}

macro_rules! vectors {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        #[test]
        fn every_vector_is_run() {
            let named = [$(stringify!($name)),*];
            for name in names() {
                assert!(named.contains(&&*name), "{name} is not run");
            }
        }
    };
}

vectors! {
    acl
    admission
    floating_nic
    inbound
    load_balancer
    metering
    mid_connection
    nat_gateway
    nat_gateway_v6
    over_v6
    private_link
    private_link_nsg
    private_link_redirect
    routes
    service_tunnel
    trusted_vni
    vnet
}

/// The IP versions that packets have outside and inside, in a step's capture.
fn versions(step: &Path, name: &str) -> BTreeSet<[bool; 2]> {
    let packets = capture(&step.join(name)).into_iter();
    let of = |(_, packet): (u64, Vec<u8>)| {
        let is_v4 = |frame: &[u8]| {
            let layout = dissect(frame).expect("sound");
            fields::source_address(frame, &layout).is_v4()
        };
        let mut inner = &packet[..];
        while let Ok(layout) = dissect(inner)
            && let Ok(tunnel) = Tunnel::read(inner, &layout, VXLAN_PORT)
        {
            inner = &inner[tunnel.inner()];
        }
        [is_v4(&packet), is_v4(inner)]
    };
    packets.map(of).collect()
}

/// Vectors of what takes IPv4 to IPv6: nothing else is asked of it.
const TO_V6: [&str; 4] = [
    "private_link",
    "private_link_nsg",
    "private_link_redirect",
    "service_tunnel",
];

/// Each vector has packets that come and packets that leave, of both IP versions inside; where there are
/// counters, something counts; and each change in between has packets after it.
#[test]
fn no_vector_is_void() {
    let mut outside = BTreeSet::new();
    for name in names() {
        let [mut came, mut left] = [BTreeSet::new(), BTreeSet::new()];
        for step in steps(&name) {
            let now = versions(&step, "in.pcap");
            assert!(!now.is_empty(), "{}: nothing comes", step.display());
            came.extend(now);
            left.extend(versions(&step, "expected.pcap"));
        }
        let is_to_v6 = TO_V6.contains(&&*name);
        for (packets, needed) in [(&came, true), (&left, false)] {
            let is_there = |is_v4| packets.iter().any(|[_, inside]| *inside == is_v4);
            let is_enough = is_there(needed) && (is_to_v6 || is_there(!needed));
            assert!(is_enough, "{name}: {packets:?}");
        }
        outside.extend(came.iter().chain(&left).copied());
        if let Some(counters) = json(&folder().join(&name).join("counters.json")) {
            let counted = ["drops", "meters"]
                .map(|kind| counters[kind].as_object().map_or(0, |all| all.len()));
            assert!(
                counted.iter().sum::<usize>() > 0,
                "{name}: nothing is counted"
            );
        }
    }
    assert_eq!(outside.len(), 4, "IPv4 and IPv6 in both");
}

/// Packets of a flow wait for what is asked about its first one, and leave in order behind it.
#[test]
fn packets_of_a_flow_wait_for_its_first() {
    let folder = folder().join("vnet");
    let mut device = Device::new(true);
    device.configure(&folder.join("config.json"));
    let (time_ns, packet) = capture(&folder.join("in.pcap")).swap_remove(0);
    let buffer = || {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&packet);
        buffer
    };
    let (mut first, mut second, now) = (buffer(), buffer(), Instant(time_ns));
    let DpuStep::Ask(question) = device.dpu.begin(&mut first, HEADROOM, now) else {
        panic!("policies judge the first packet of a flow");
    };
    let step = device.dpu.begin(&mut second, HEADROOM, now);
    assert_eq!(step, DpuStep::Wait(question.key));
    let counted = device.dpu.counters(&"eni1".into()).expect("an ENI").clone();
    assert_eq!(counted.received[0].packets, 2, "both have come");
    assert_eq!((counted.flow_misses, counted.flows_created), (0, 0));
    let policies = device.elsewhere.as_ref().expect("apart");
    let said = policies.answer(&question.arrival);
    device.dpu.no_longer_asked(&question.key);
    let answer = Some((question, said));
    let step = device.dpu.resume(&mut first, HEADROOM, now, answer);
    assert!(
        matches!(step, DpuStep::Done(Verdict::Forward(_))),
        "{step:?}"
    );
    let step = device.dpu.resume(&mut second, HEADROOM, now, None);
    assert!(
        matches!(step, DpuStep::Done(Verdict::Forward(_))),
        "{step:?}"
    );
    let counted = device.dpu.counters(&"eni1".into()).expect("an ENI");
    assert_eq!((counted.flow_misses, counted.flow_hits), (1, 1));
    assert_eq!(counted.received[0].packets, 2, "none has come twice");
}
