//! Captures with what is derived from them: services, answers, and what must be seen of a run.

use super::across;
use super::world::{Mishaps, World};
use super::{Outcome, by_direction, captures, copy, load};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use twinpath_captures::{Evidence, Expectation, FunctionText, Profile, ServiceText};
use twinpath_captures::{key_value_requests, ticking};
use twinpath_control::report::Report;
use twinpath_control::service::{Paths, Service};
use twinpath_core::key::Role;
use twinpath_core::wire::kv::KvView;
use twinpath_core::wire::{Endpoint, dissect, fields, rewrite};
use twinpath_core::{FlowKey, Side};
use twinpath_io::Trace;

/// A capture and what is in it.
pub struct Capture {
    pub name: String,
    pub trace: Trace,
    pub profile: Profile,
}

/// The shared captures, read once.
pub fn profiled() -> &'static [Capture] {
    static CAPTURES: OnceLock<Vec<Capture>> = OnceLock::new();
    CAPTURES.get_or_init(|| {
        captures()
            .iter()
            .map(|path| Capture::of_file(path))
            .collect()
    })
}

impl Capture {
    /// Packets with their profile; in captures whose clock stands still time passes.
    pub fn of(name: &str, trace: &Trace) -> Self {
        let trace = ticking(trace);
        Self {
            name: name.to_owned(),
            profile: Profile::of(&trace),
            trace,
        }
    }

    fn of_file(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self::of(&name, &load(path))
    }

    /// The service, with the files that it names in a folder of its own.
    pub fn service(&self, what: &str, derived: &ServiceText) -> Service {
        let tests = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        // Tests that run at the same time have each their own.
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed).to_string();
        let folder = tests.join(env!("CARGO_CRATE_NAME")).join(number);
        derived.write_files(&folder).expect("a folder for tests");
        let parsed = Service::parse(&derived.text, &folder.join("derived.toml"));
        parsed.unwrap_or_else(|error| panic!("{} {what}: {error}\n{}", self.name, derived.text))
    }

    /// The functions of a chain, without those that have nothing to do here.
    pub fn functions_of(&self, chain: &[&str]) -> Vec<FunctionText> {
        let mut functions = Vec::new();
        for name in chain {
            match self.profile.function(name) {
                Ok(function) => functions.push(function),
                Err(lacking) => println!("{:<34} without {name}: {lacking}", self.name),
            }
        }
        functions
    }

    /// The packets that such a function is to meet: requests for a store, answers to what the
    /// function rewrites, and of a translation between IP versions questions over the other one, too.
    pub fn met_by(&self, function: &FunctionText) -> Trace {
        let alone = || {
            let alone = self.profile.service_of(vec![function.clone()]);
            self.service("answers", &alone)
        };
        match function.function {
            "kv_store" => key_value_requests(&self.trace),
            "napt" | "nptv6" | "load_balancer" => answered_through(&alone(), &self.trace),
            across::NAME => across::crossed(&alone(), &self.profile, &self.trace),
            _ => copy(&self.trace),
        }
    }

    /// What else must be seen of a function that meets these packets alone.
    pub fn expected_of(&self, function: &FunctionText, met: &Trace) -> Option<Expectation> {
        match function.function {
            across::NAME => across::answers(&self.profile, met),
            _ => None,
        }
    }

    /// Packets of a run that the fast path could settle: not those that the slow path alone can deal
    /// with, as they tell by what they counted.
    pub fn settleable(&self, function: &str, makes_rules: bool, slow: &Outcome) -> u64 {
        let settleable = self.profile.settleable;
        let count = |counters: &[&str]| counted(slow, function, counters);
        let (most, complex) = match function {
            // It answers these itself, packet by packet.
            "router" => (settleable.by_rules, count(&["no_route", "expired"])),
            // What it translates changes its IP version, which no rule can write.
            across::NAME => (across::settleable(&self.profile, &self.trace), 0),
            // In it all packets wait.
            "reframer" => (0, 0),
            _ if makes_rules => (settleable.by_rules, 0),
            // Its flows are keys, and most are asked for again and again.
            "kv_store" => (count(&["gets", "puts", "deletes"]) * 3 / 4, 0),
            "firewall" => {
                let refused = drops(slow, "denied") + drops(slow, "invalid_state");
                (settleable.of_both_ends, refused)
            }
            "reassembler" => {
                let complex = ["held", "released", "retransmissions", "trimmed"];
                (settleable.by_state, count(&complex))
            }
            "inspector" => {
                // A flow of which something is half seen stays with the workers, and so do packets
                // of it that carry nothing.
                let complex = ["deep_scans", "half_seen", "uninspected"];
                (settleable.by_state, count(&complex))
            }
            // The packet that begins a record, and the next, which asks for the flow's state again.
            "telemetry" => (settleable.by_state, 2 * count(&["records_started"])),
            "load_balancer" => {
                // The packets between a server's SYN and the first that shows that it was heard.
                let first = 2 * count(&["new_connections"]);
                let complex = first + count(&["unexpected_replies"]);
                (settleable.by_state, complex)
            }
            _ => (settleable.by_state, count(&["unexpected_replies"])),
        };
        most.saturating_sub(complex)
    }
}

/// The capture as it would be behind a function that rewrites ends: what answers a packet that the
/// slow path alone rewrote comes from where they sent it, to whom they sent it for.
pub fn answered_through(service: &Service, trace: &Trace) -> Trace {
    let mut world = World::new(service, Paths::Slow, Mishaps::default());
    world.run(trace);
    let mut rewritten = HashMap::new();
    let mut answered = Trace::new();
    for (ordinal, frame) in (0..).zip(trace.iter()) {
        let mut packet = frame.frame.to_vec();
        if let Some((source, destination, protocol)) = ends(&packet) {
            let left = world.left.get(&ordinal).and_then(|packet| ends(packet));
            let left = left.map(|(source, destination, _)| (source, destination));
            match (rewritten.get(&(destination, source, protocol)), left) {
                (Some(&(asked_from, asked)), _) => set_ends(&mut packet, asked, asked_from),
                (None, Some(left)) if left != (source, destination) => {
                    rewritten.insert((source, destination, protocol), left);
                }
                _ => {}
            }
        }
        answered.push(frame.timestamp_ns, &packet);
    }
    answered
}

fn ends(packet: &[u8]) -> Option<(Endpoint, Endpoint, u8)> {
    let layout = dissect(packet).ok().filter(|layout| layout.is_ip())?;
    let source = fields::source(packet, &layout);
    let destination = fields::destination(packet, &layout);
    Some((source, destination, layout.protocol))
}

fn set_ends(packet: &mut [u8], source: Endpoint, destination: Endpoint) {
    let layout = dissect(packet).expect("it has ends");
    let set = rewrite::set_source(packet, &layout, source);
    let set = set.and_then(|()| rewrite::set_destination(packet, &layout, destination));
    set.expect("ends of one IP version");
}

/// How often something was seen of a function: on the slow path alone, or on both paths.
pub fn seen(expected: &Expectation, slow: &Outcome, both: &Outcome) -> u64 {
    match &expected.seen {
        Evidence::Counted(counters) => counted(slow, expected.function, counters),
        Evidence::Dropped(reason) => drops(both, reason),
        Evidence::Addressed(prefix) => {
            let is_addressed = |packet: &&Vec<u8>| {
                ends(packet).is_some_and(|(source, destination, _)| {
                    prefix.includes(source.address) || prefix.includes(destination.address)
                })
            };
            let packets = both.flows.values().flatten();
            packets.filter(is_addressed).count() as u64
        }
        Evidence::Ports => both.ports.keys().flatten().count() as u64,
    }
}

/// Counters of a function of the chain, together.
pub fn counted(outcome: &Outcome, function: &str, counters: &[&str]) -> u64 {
    let functions = outcome.report.functions.iter();
    let own = functions.filter(|own| own.name == function);
    let counts = own.flat_map(|function| &function.counters);
    let wanted = counts.filter(|(name, _)| counters.contains(&name.as_str()));
    wanted.map(|(_, count)| count).sum()
}

fn drops(outcome: &Outcome, reason: &str) -> u64 {
    let count = outcome.report.drops.get(reason);
    count.copied().unwrap_or_default()
}

/// What the functions counted in a run, but for counts of each backend.
pub fn doings(report: &Report) -> String {
    let mut doings = Vec::new();
    for function in &report.functions {
        let counted = function.counters.iter().filter(|(name, count)| {
            **count > 0 && !name.contains("bytes") && !name.contains(|c: char| c.is_ascii_digit())
        });
        let counted: Vec<String> = counted
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        doings.push(format!("{}: {}", function.name, counted.join(", ")));
    }
    doings.join("; ")
}

/// Packets of a flow and direction, those of the store's protocol by entry.
pub type EntryAnswers = BTreeMap<Option<(FlowKey, Side, Role, Option<[u8; 16]>)>, Vec<Vec<u8>>>;

/// What left a key-value store, by flow, direction and entry: the store's flows are its entries.
pub fn by_entry(outcome: &Outcome) -> EntryAnswers {
    let mut answers = EntryAnswers::new();
    for (flow, packets) in by_direction(&outcome.flows) {
        for packet in packets {
            let name = flow.map(|(key, side, role)| (key, side, role, entry_of(&packet)));
            answers.entry(name).or_default().push(packet);
        }
    }
    answers
}

fn entry_of(packet: &[u8]) -> Option<[u8; 16]> {
    let layout = dissect(packet).ok()?;
    let view = KvView::new(fields::payload(packet, &layout)).ok()?;
    Some(view.key())
}
