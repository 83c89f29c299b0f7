//! The test vectors of `vectors/dash`: SONiC's JSON and captures, made by an independent implementation.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use twinpath_core::Instant;
use twinpath_core::wire::tunnel::{Encapsulation, Tunnel, VXLAN_PORT};
use twinpath_core::wire::{Address, dissect, fields};
use twinpath_dash::config::Store;
use twinpath_dash::{Dpu, Files, Reason, Settings, Verdict};

/// Room in front of frames.
const HEADROOM: usize = 160;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/dash")
}

/// Packets of a capture of microseconds in this machine's order, each with its time in nanoseconds.
fn capture(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let number = |at: usize| {
        let bytes = bytes[at..at + 4].try_into().expect("four bytes");
        u32::from_le_bytes(bytes) as usize
    };
    assert_eq!(number(0), 0xa1b2_c3d4, "{}", path.display());
    let (mut at, mut packets) = (24, Vec::new());
    while at < bytes.len() {
        let (seconds, micros, length) = (number(at), number(at + 4), number(at + 8));
        let time_ns = seconds as u64 * 1_000_000_000 + micros as u64 * 1000;
        packets.push((time_ns, bytes[at + 16..at + 16 + length].to_vec()));
        at += 16 + length;
    }
    packets
}

fn json(path: &Path) -> Option<Value> {
    let text = fs::read_to_string(path).ok()?;
    Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(String::from).collect()
}

/// What of frames counts.
struct Compare {
    ignore: Vec<String>,
    endpoints: Vec<Address>,
}

impl Compare {
    fn read(folder: &Path) -> Self {
        let compare = json(&folder.join("compare.json")).expect("compare.json");
        let endpoints = texts(&compare["endpoints"]);
        Self {
            ignore: texts(&compare["ignore"]),
            endpoints: endpoints
                .iter()
                .map(|text| text.parse().expect("an address"))
                .collect(),
        }
    }

    /// The frame without what does not count.
    fn counting(&self, frame: &[u8]) -> Vec<u8> {
        let mut counting = frame.to_vec();
        let mut at = 0;
        loop {
            let layer = &frame[at..];
            let layout = dissect(layer).expect("a sound frame");
            let Ok(tunnel) = Tunnel::read(layer, &layout, VXLAN_PORT) else {
                return counting;
            };
            let (l3, l4) = (at + usize::from(layout.l3), at + usize::from(layout.l4));
            let mut blank = |range: std::ops::Range<usize>| counting[range].fill(0);
            for field in &self.ignore {
                match (
                    field.as_str(),
                    fields::source_address(layer, &layout).is_v4(),
                ) {
                    ("outer.macs", _) => blank(at..at + 12),
                    ("outer.ttl", true) => blank(l3 + 8..l3 + 9),
                    ("outer.ttl", false) => blank(l3 + 7..l3 + 8),
                    ("outer.id", true) => blank(l3 + 4..l3 + 8),
                    ("outer.flow_label", false) => blank(l3 + 1..l3 + 4),
                    ("outer.source_port", _) if tunnel.encapsulation == Encapsulation::Vxlan => {
                        blank(l4..l4 + 2);
                        blank(l4 + 6..l4 + 8);
                    }
                    ("outer.id" | "outer.flow_label" | "outer.source_port", _) => {}
                    (other, _) => panic!("no field {other}"),
                }
            }
            if fields::source_address(layer, &layout).is_v4() {
                blank(l3 + 10..l3 + 12);
                if at == 0 && !self.endpoints.is_empty() {
                    let endpoint = fields::destination_address(layer, &layout);
                    assert!(self.endpoints.contains(&endpoint), "{endpoint}");
                    blank(l3 + 16..l3 + 20);
                }
            }
            at += tunnel.inner().start;
        }
    }
}

struct Device {
    store: Store,
    dpu: Dpu,
}

impl Device {
    fn new() -> Self {
        let settings = Settings {
            flows: 1024,
            ..Settings::default()
        };
        Self {
            store: Store::default(),
            dpu: Dpu::new(settings, 1),
        }
    }

    fn configure(&mut self, path: &Path) {
        let files = Files::read(&[path.to_path_buf()]).expect("a file");
        assert!(files.problems.is_empty(), "{:?}", files.problems);
        let applied = self.store.apply(files.changes);
        let waiting: Vec<_> = self.store.waiting().map(|(key, _)| key).collect();
        assert!(waiting.is_empty(), "{}: {waiting:?}", path.display());
        let snapshot = self.store.snapshot();
        self.dpu.update(&snapshot.configuration, &applied.changed);
    }

    fn send(&mut self, time_ns: u64, packet: &[u8]) -> Result<Vec<u8>, Reason> {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(packet);
        match self.dpu.process(&mut buffer, HEADROOM, Instant(time_ns)) {
            Verdict::Forward(frame) => Ok(buffer[frame].to_vec()),
            Verdict::Drop(reason) => Err(reason),
            Verdict::TooLong(_) => Err(Reason::TooLong),
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
    let folder = folder().join(name);
    let compare = Compare::read(&folder);
    let mut device = Device::new();
    device.step(&folder, &compare);
    for step in 2.. {
        let folder = folder.join(format!("step{step}"));
        if !folder.exists() {
            break;
        }
        device.step(&folder, &compare);
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
            let entries = fs::read_dir(folder()).expect("vectors");
            for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
                let name = entry.file_name().into_string().expect("a name");
                assert!(named.contains(&&*name), "{name} is not run");
            }
        }
    };
}

vectors! {
    acl
    floating_nic
    inbound
    metering
    mid_connection
    private_link
    private_link_nsg
    private_link_redirect
    routes
    service_tunnel
    trusted_vni
    vnet
}
