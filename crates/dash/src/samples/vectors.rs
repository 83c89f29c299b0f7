//! The test vectors of `vectors/dash`, for whoever runs them: SONiC's JSON and captures, made by an
//! independent implementation.

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use twinpath_core::wire::layout::Layout;
use twinpath_core::wire::tunnel::{Encapsulation, Tunnel, VXLAN_PORT};
use twinpath_core::wire::{Address, dissect, fields};

use crate::settings::{Dscp, Settings, Stray};

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

/// What the device is to be like, as fields of a service file's table `[dash]`.
#[must_use]
pub fn settings_written(name: &str) -> Map<String, Value> {
    let written = json(&folder().join(name).join("settings.json"));
    written.map_or_else(Map::new, |written| {
        written.as_object().expect("an object").clone()
    })
}

/// The same, beside others.
///
/// # Panics
/// It says something that this knows nothing of.
#[must_use]
pub fn settings(name: &str, others: Settings) -> Settings {
    let mut settings = others;
    let (mut dscp, mut pipe) = ("preserve".to_owned(), 0);
    for (key, value) in settings_written(name) {
        let number = || value.as_u64().expect("a number");
        let is = || value.as_bool().expect("true or false");
        let text = || value.as_str().expect("a text");
        match key.as_str() {
            "mtu" => settings.mtu = number() as usize,
            "ttl" => settings.ttl = number() as u8,
            "dscp" => text().clone_into(&mut dscp),
            "pipe_dscp" => pipe = number() as u8,
            "inner_vlan" => settings.inner_vlan = is(),
            "udp_checksum_v6" => settings.udp_checksum_v6 = is(),
            "empty_acl_denies" => settings.empty_acl_denies = is(),
            "port_map_must_match" => settings.port_map_must_match = is(),
            "check_outbound_source" => settings.check_outbound_source = is(),
            "burst" => settings.burst = time(text()),
            "tcp_idle" => settings.idle.tcp = time(text()),
            "tcp_transitory_idle" => settings.idle.tcp_transitory = time(text()),
            "udp_idle" => settings.idle.udp = time(text()),
            "other_idle" => settings.idle.other = time(text()),
            "stray_tcp" if text() == "judge" => settings.stray_tcp = Stray::Judge,
            "underlay_mac" => settings.underlay_mac = Some(text().parse().expect("a MAC address")),
            "next_hop_mac" => settings.next_hop_mac = Some(text().parse().expect("a MAC address")),
            other => panic!("{name}: no setting {other}"),
        }
    }
    settings.dscp = match dscp.as_str() {
        "uniform" => Dscp::Uniform,
        "pipe" => Dscp::Pipe(pipe),
        _ => Dscp::Preserve,
    };
    settings
}

fn time(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.find(char::is_alphabetic).expect("a unit"));
    let number = number.parse().expect("a number");
    match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        other => panic!("no unit {other}"),
    }
}

/// What ENIs must have counted, by name: what `counters.json` says of `eni1`, and of others under `enis`.
#[must_use]
pub fn wanted_counters(name: &str) -> Vec<(String, Value)> {
    let Some(wanted) = json(&folder().join(name).join("counters.json")) else {
        return Vec::new();
    };
    let mut all: Vec<_> = wanted["enis"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(eni, wanted)| (eni.clone(), wanted.clone()))
        .collect();
    let own = wanted.as_object().expect("an object").keys();
    if own.clone().any(|key| key != "enis" && key != "device") {
        all.push(("eni1".into(), wanted.clone()));
    }
    all
}

/// What must have been dropped of no ENI's packets, by reason, if `counters.json` says so under `device`.
#[must_use]
pub fn wanted_device_drops(name: &str) -> Option<Value> {
    let wanted = json(&folder().join(name).join("counters.json"))?;
    wanted.get("device")?.get("drops").cloned()
}

/// What of frames counts.
pub struct Compare {
    ignore: Vec<String>,
    endpoints: Vec<Address>,
    /// Whether packets must go to each of them.
    all_are_used: bool,
    source_ports: Option<RangeInclusive<u16>>,
    /// Where VXLAN goes, too.
    vxlan_port: Option<u16>,
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
            all_are_used: compare["endpoints_all_used"] == Value::Bool(true),
            source_ports: compare["source_ports"].as_array().map(|ends| {
                let [first, last] = [0, 1].map(|end: usize| ends[end].as_u64().expect("a port"));
                first as u16..=last as u16
            }),
            vxlan_port: compare["vxlan_port"].as_u64().map(|port| port as u16),
        }
    }

    fn tunnel(&self, frame: &[u8], layout: &Layout) -> Option<Tunnel> {
        let ports = [Some(VXLAN_PORT), self.vxlan_port];
        let mut read = ports.into_iter().flatten();
        read.find_map(|port| Tunnel::read(frame, layout, port).ok())
    }

    /// Checks what must be true of all frames that left together.
    ///
    /// # Panics
    /// No packet goes to one of the endpoints, and each must be used.
    pub fn check_all<'a>(&self, frames: impl IntoIterator<Item = &'a [u8]>) {
        let frames: Vec<&[u8]> = frames.into_iter().collect();
        for frame in &frames {
            let layout = dissect(frame).expect("a sound frame");
            let tunnel = self.tunnel(frame, &layout);
            if let Some(ports) = &self.source_ports
                && tunnel.is_some_and(|tunnel| tunnel.encapsulation == Encapsulation::Vxlan)
            {
                let port = fields::source_port(frame, &layout);
                assert!(ports.contains(&port), "from port {port}");
            }
        }
        if !self.all_are_used {
            return;
        }
        let of = |frame| dissect(frame).map(|layout| fields::destination_address(frame, &layout));
        let used: BTreeSet<_> = frames
            .into_iter()
            .filter_map(|frame| of(frame).ok())
            .collect();
        for endpoint in &self.endpoints {
            assert!(used.contains(endpoint), "no packet goes to {endpoint}");
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
            let Some(tunnel) = self.tunnel(layer, &layout) else {
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
            let is_v4 = fields::source_address(layer, &layout).is_v4();
            if is_v4 {
                blank(l3 + 10..l3 + 12);
            }
            if at == 0 && !self.endpoints.is_empty() {
                let endpoint = fields::destination_address(layer, &layout);
                assert!(self.endpoints.contains(&endpoint), "{endpoint}");
                match is_v4 {
                    true => blank(l3 + 16..l3 + 20),
                    false => blank(l3 + 24..l3 + 40),
                }
                if !is_v4 && tunnel.encapsulation == Encapsulation::Vxlan {
                    blank(l4 + 6..l4 + 8);
                }
            }
            at += tunnel.inner().start;
        }
    }
}
