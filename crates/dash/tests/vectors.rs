//! The test vectors of `vectors/dash`: SONiC's JSON and captures, made by an independent implementation.

use std::path::Path;

use serde_json::Value;
use twinpath_core::Instant;
use twinpath_dash::config::Store;
use twinpath_dash::samples::vectors::{Compare, capture, folder, json, names, steps};
use twinpath_dash::{Dpu, Files, Reason, Settings, Verdict};

/// Room in front of frames.
const HEADROOM: usize = 160;

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
