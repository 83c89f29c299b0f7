//! The test vectors of `vectors/dash`, for whoever runs them: SONiC's JSON and captures, made by an
//! independent implementation.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use twinpath_core::wire::tunnel::{Encapsulation, Tunnel, VXLAN_PORT};
use twinpath_core::wire::{Address, dissect, fields};

/// Where they are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/dash")
}

/// Their names.
///
/// # Panics
/// They are not there.
#[must_use]
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("vectors");
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    let mut names: Vec<_> = folders
        .map(|entry| entry.file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    names
}

/// The folders of a vector's steps, its own first.
#[must_use]
pub fn steps(name: &str) -> Vec<PathBuf> {
    let first = folder().join(name);
    let later = (2..).map(|step| first.join(format!("step{step}")));
    let later = later.take_while(|folder| folder.exists());
    std::iter::once(first.clone()).chain(later).collect()
}

/// Packets of a capture of microseconds or nanoseconds in this machine's order, each with its time in
/// nanoseconds.
///
/// # Panics
/// It is not there, or no such capture.
#[must_use]
pub fn capture(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let number = |at: usize| {
        let bytes = bytes[at..at + 4].try_into().expect("four bytes");
        u32::from_le_bytes(bytes) as usize
    };
    let unit_ns = match number(0) {
        0xa1b2_c3d4 => 1000,
        0xa1b2_3c4d => 1,
        other => panic!("{}: magic {other:#x}", path.display()),
    };
    let (mut at, mut packets) = (24, Vec::new());
    while at < bytes.len() {
        let (seconds, rest, length) = (number(at), number(at + 4), number(at + 8));
        let time_ns = seconds as u64 * 1_000_000_000 + rest as u64 * unit_ns;
        packets.push((time_ns, bytes[at + 16..at + 16 + length].to_vec()));
        at += 16 + length;
    }
    packets
}

/// A file of JSON, if it is there.
///
/// # Panics
/// It is no JSON.
#[must_use]
pub fn json(path: &Path) -> Option<Value> {
    let text = fs::read_to_string(path).ok()?;
    Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(String::from).collect()
}

/// What of frames counts.
pub struct Compare {
    ignore: Vec<String>,
    endpoints: Vec<Address>,
}

impl Compare {
    /// What a vector's folder says.
    ///
    /// # Panics
    /// It says nothing.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
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
    ///
    /// # Panics
    /// It is broken, or its destination is none of the endpoints.
    #[must_use]
    pub fn counting(&self, frame: &[u8]) -> Vec<u8> {
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
