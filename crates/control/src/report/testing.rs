//! Reports to test with: one that looks like a real run, and any at all.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// A run of twelve seconds over five functions, with every kind of figure.
pub fn edge_report() -> Report {
    let mut report = Report {
        run: RunInfo {
            service: "edge".to_owned(),
            paths: Paths::Both,
            execution: Execution::Threads,
            seed: 7,
            input: "campus.pcap.gz".to_owned(),
            workers: 2,
            duration_capture_ns: 11_950_000_000,
            duration_wall_ns: 1_310_000_000,
            series_clock: Clock::Capture,
        },
        warnings: vec!["less came < more".to_owned()],
        totals: Totals {
            packets_in: 12_345_678,
            bytes_in: 9_876_543_210,
            packets_out: 12_300_021,
            bytes_out: 9_850_000_000,
        },
        drops: counters(&[
            ("firewall_denied", 31_204),
            ("checksum", 9_871),
            ("inspector_banned", 3_400),
            ("truncated", 1_100),
            ("punt_ring_full", 82),
        ]),
        coherence: coherence(),
        worker_restarts: vec![0, 2],
        slots: SlotCounters {
            capacity: 65_536,
            initial: 20_010,
            incomplete: 85,
            active: 45_001,
            frozen: 440,
        },
        rules: rules(),
        latency: Latency {
            fast: recorded(&[
                (34, 300),
                (41, 5_000),
                (47, 3_500),
                (63, 900),
                (120, 250),
                (900, 40),
                (4_100, 3),
            ]),
            slow: recorded(&[
                (790, 60),
                (1_250, 700),
                (1_900, 500),
                (3_100, 220),
                (9_000, 60),
                (61_000, 9),
                (410_000, 1),
            ]),
        },
        functions: functions(),
        rings: Rings {
            capacity_frames: 1_024,
        },
        pool: Pool {
            frames: 8_192,
            low_water_frames: 7_011,
            exhausted_events: 0,
        },
        series: series(),
        ..Report::default()
    };
    report.fast.packets = 10_382_716;
    report.fast.bytes = 8_300_000_000;
    report.slow.packets = 1_962_962;
    report.slow.bytes = 1_576_543_210;
    report.settle();
    report
}

/// Any report whatever: the shape of the example with every number and name
/// replaced. New fields are covered without a change here.
pub fn any_report() -> impl Strategy<Value = Report> {
    let numbers = prop::collection::vec(
        prop_oneof![Just(0), 0u64..5, 0u64..10_000_000_000, any::<u64>()],
        1..60,
    );
    let names = prop::collection::vec(
        prop_oneof![".{0,40}", "[<>&\"'/a]{1,12}", "\\PC{60,400}"],
        1..8,
    );
    let lengths = prop::collection::vec(0usize..12, 1..10);
    (numbers, names, lengths, any::<bool>()).prop_map(|(numbers, names, lengths, slow)| {
        let mut scramble = Scramble {
            numbers: Endless::of(numbers),
            names: Endless::of(names),
            lengths: Endless::of(lengths),
        };
        let example = Report {
            split: Some(split()),
            ..edge_report()
        };
        let mut value = serde_json::to_value(example).expect("the example serialises");
        scramble.apply(&mut value);
        value["schema"] = Value::from(SCHEMA);
        value["run"]["paths"] = Value::from(if slow { "slow" } else { "both" });
        value["run"]["execution"] = Value::from("virtual");
        value["run"]["series_clock"] = Value::from("wall");
        serde_json::from_value(value).expect("the shape is the example's")
    })
}

/// Two memory servers, of which one has a queue pair that is down.
pub fn split() -> SplitFigures {
    let pair = |number: u16, last_error: Option<&str>| QueuePairFigures {
        number,
        is_up: last_error.is_none(),
        writes: 1_200_000,
        reads: 1_100_000,
        payloads: 1_099_999,
        lives: 2,
        errors: 1,
        last_error: last_error.map(str::to_owned),
    };
    let server = |name: &str, last_error: Option<&str>| MemoryServerFigures {
        name: name.to_owned(),
        is_up: true,
        share_per_mille: 375,
        rate_bps: 40_000_000_000,
        last_error: last_error.map(str::to_owned),
        last_error_age_ms: last_error.map(|_| 1_500),
        counters: counters(&[("writes", 2_400_000), ("writes_lost", 7)]),
        queue_pairs: vec![pair(0, None), pair(1, last_error)],
    };
    SplitFigures {
        counts: SplitCounts {
            packets: 2_400_000,
            merged: 2_399_990,
            payload_lost: 7,
            ..SplitCounts::default()
        },
        servers: vec![
            server("memory-1", None),
            server("memory <2>", Some("queue pair 1: the key does not fit")),
        ],
    }
}

/// Puts drawn numbers, names and lengths into a JSON value.
struct Scramble {
    numbers: Endless<u64>,
    names: Endless<String>,
    lengths: Endless<usize>,
}

impl Scramble {
    fn apply(&mut self, value: &mut Value) {
        match value {
            Value::Number(number) if number.is_f64() => {
                *value = Value::from(self.numbers.draw() as f64 / 1e6)
            }
            Value::Number(_) => *value = Value::from(self.numbers.draw()),
            Value::String(_) => *value = Value::from(self.names.draw()),
            Value::Array(elements) => {
                elements.truncate(self.lengths.draw());
                elements.iter_mut().for_each(|element| self.apply(element));
            }
            Value::Object(members) => self.apply_members(members),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn apply_members(&mut self, members: &mut serde_json::Map<String, Value>) {
        members.values_mut().for_each(|member| self.apply(member));
        // Queue pairs are fewer.
        if let Some(number) = members.get_mut("number") {
            *number = Value::from(self.numbers.draw() as u16);
        }
        // Maps by free name (drops, counters) get one more name of any kind.
        let free_names = ["checksum", "new_flows", "not_plain"];
        if free_names.iter().any(|name| members.contains_key(*name)) {
            members.insert(self.names.draw(), Value::from(self.numbers.draw()));
        }
    }
}

/// Draws from a list without end.
struct Endless<T> {
    values: Vec<T>,
    next: usize,
}

impl<T: Clone> Endless<T> {
    fn of(values: Vec<T>) -> Self {
        Self { values, next: 0 }
    }

    fn draw(&mut self) -> T {
        self.next += 1;
        self.values[self.next % self.values.len()].clone()
    }
}

pub fn counters(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs
        .iter()
        .map(|&(name, count)| (name.to_owned(), count))
        .collect()
}

fn coherence() -> Coherence {
    Coherence {
        pulls: 61_200,
        pulls_granted: 57_800,
        pulls_declined: 2_050,
        cancellations: 1_260,
        rearms: 310,
        incomplete_timeouts: 5,
        refused_pulls: 12,
        waited: 85,
        waited_then_punted: 3,
        write_backs: 12_300,
        write_back_retries: 4,
        ttl_write_backs: 9_900,
        acknowledgements: 11_860,
        stale_messages_ignored: 1_265,
        collisions: 701,
        reordered_frames: 0,
        lost_frames: 0,
    }
}

/// Two elements with cached rules.
pub fn rules() -> Rules {
    let mut rules = Rules::default();
    rules.push(RuleElement {
        functions: vec!["acl".to_owned(), "napt".to_owned()],
        counts: rule_counts(1),
    });
    rules.push(RuleElement {
        functions: vec!["router".to_owned()],
        counts: rule_counts(3),
    });
    rules
}

fn rule_counts(scale: u64) -> RuleCounters {
    RuleCounters {
        table: RuleTableCounters {
            capacity: 40_960,
            active: 3_100 * scale,
            hits: 2_400_000 * scale,
            misses: 101_000 * scale,
            guarded: 12,
            held: 4_090 * scale,
            held_then_punted: 31,
            activated: 5_200 * scale,
            demoted: 8,
            idle: 40 * scale,
            hold_full: 0,
            no_room: 0,
            marks_repeated: 2,
            fragments_alone: 0,
        },
        slow_path: SlowRuleCounters {
            packets: 101_012 * scale,
            waited: 17,
            overflowed: 0,
            stuck: 0,
        },
        obstacles: counters(&[("not_plain", 812 * scale), ("state_changed", 9_300)]),
        selection: RuleSelectionCounters {
            cacheable: 90_900 * scale,
            selected: 5_230 * scale,
        },
        manager: RuleManagerCounters {
            added: 5_210 * scale,
            replaced: 5,
            aged: 1_960 * scale,
            invalidated: 99 * scale,
            gone: 41 * scale,
            repeated: 3,
        },
    }
}

fn functions() -> Vec<FunctionCounters> {
    let function = |name: &str, pairs: &[(&str, u64)]| FunctionCounters {
        name: name.to_owned(),
        counters: counters(pairs),
    };
    vec![
        function(
            "firewall",
            &[
                ("new_flows", 61_040),
                ("accepted", 12_301_000),
                ("denied", 31_204),
                ("icmp_related", 212),
            ],
        ),
        function(
            "reassembler",
            &[
                ("in_order", 11_000_000),
                ("buffered", 90_120),
                ("released", 90_100),
                ("overlaps", 41),
            ],
        ),
        function(
            "inspector",
            &[
                ("clean", 12_200_000),
                ("partial_matches", 8_112),
                ("banned", 3_400),
            ],
        ),
        function(
            "load_balancer",
            &[("new_flows", 31_000), ("rewritten", 8_100_000)],
        ),
    ]
}

fn recorded(pairs: &[(u64, u64)]) -> Percentiles {
    let mut recorder = LatencyRecorder::new();
    for &(center_ns, packets) in pairs {
        for spread in 0..16 {
            let latency_ns = center_ns * (85 + 3 * spread) / 100;
            recorder.record_n(latency_ns, packets * (8 - spread.abs_diff(7)));
        }
    }
    recorder.percentiles()
}

/// A warm-up, a steady part, and a burst of complex packets at two thirds.
fn series() -> Vec<Sample> {
    let mut sample = Sample::default();
    let mut samples = vec![sample];
    for step in 1..=400u64 {
        let wobble = (step * 7919) % 97;
        let complex = if (260..290).contains(&step) {
            40
        } else {
            6 + wobble / 20
        };
        let slow_percent = (100 / step).max(complex).min(100);
        let packets = 29_000 + wobble * 40;
        sample.time_ns = step * 29_875_000;
        sample.packets_in += packets;
        sample.packets_slow += packets * slow_percent / 100;
        sample.packets_fast += packets - packets * slow_percent / 100;
        let fast = packets - packets * slow_percent / 100;
        sample.packets_out_fast += fast.saturating_sub(packets / 270);
        sample.packets_out_slow += packets * slow_percent / 100;
        sample.drops += packets / 270;
        sample.slots_active = 45_000 * step / (step + 30) - complex * 120;
        sample.slots_incomplete = 60 + complex * 40 + wobble;
        sample.slots_frozen = 100 + complex * 90;
        sample.rules_active = 12_400 * step / (step + 12);
        samples.push(sample);
    }
    samples
}
