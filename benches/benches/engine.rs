//! How fast virtual time is: events a second by the number that waits, and whole testbeds by the length
//! of their queue and the number of their flows.
//!
//! `cargo bench -p twinpath-benches --bench engine`. One core; time is what the thread spent on it, where
//! the system tells. `cargo run --release -p twinpath-engine --example events_per_second` has the agenda
//! beside a calendar queue.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;
use twinpath_engine::{Agenda, Time};
use twinpath_lab::model::Model;
use twinpath_lab::registry;
use twinpath_lab::run::run as run_plan;
use twinpath_lab::{Options, Plan, Scale};
use twinpath_traffic::random::{Random, RandomSource};

fn main() {
    // `cargo bench -- --test` only wants to know that it runs.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let scale = if is_test { 100 } else { 1 };
    agenda(3_000_000 / scale);
    queues(400_000 / scale);
    ordered_flows(200_000 / scale);
    two_paths(1_000_000 / scale);
    whole_figure(is_test);
}

/// The next event is taken, and one put on at a random time later.
fn agenda(events: u64) {
    println!("the agenda alone, by events that wait");
    for waiting in [10, 100, 1_000, 10_000, 100_000, 1_000_000] {
        let mut agenda = Agenda::default();
        let mut random = Random::stream(1, 0);
        let mut later = || Time(random.exponential(1e6) as u64);
        for event in 0..waiting {
            agenda.at(later(), event);
        }
        let seconds = timed(|| {
            for _ in 0..events {
                let event = agenda.pop().unwrap_or_default();
                agenda.after(later(), black_box(event));
            }
        });
        row(
            &format!("{waiting} waiting"),
            events as f64 / seconds,
            "events",
        );
    }
}

/// TurboSwitch's testbed: the higher the rate, the longer the queue.
fn queues(packets: u64) {
    println!("\nTurboSwitch without order, by the queue's length");
    for input_gbps in [10, 50, 90] {
        let text = format!("input_gbps = {input_gbps}\npackets = {packets}");
        let (found, seconds) = run("turboswitch", &text);
        let queue = found("queue_packets");
        let what = format!("{queue:.0} packets in the queue");
        row(&what, found("events") / seconds, "events");
    }
}

fn ordered_flows(packets: u64) {
    println!("\nTurboSwitch in the order of flows, by their number");
    for flows in [1, 10, 100, 1_000, 10_000] {
        let text = format!("input_gbps = 50\nordered = true\nflows = {flows}\npackets = {packets}");
        let (found, seconds) = run("turboswitch", &text);
        row(
            &format!("{flows} flows"),
            found("events") / seconds,
            "events",
        );
    }
}

/// The production node on SwitchNIC's testbed, making packets included.
fn two_paths(packets: u64) {
    println!("\nthe node on SwitchNIC's testbed, by flows (packets, each of one to five events)");
    for flows in [1_000, 10_000, 100_000, 1_000_000] {
        let text = format!(
            "testbed = 'testbeds/switchnic.toml'\nchain = 'reassembler'\ninput_gbps = 100\nflows = {flows}\npackets = {packets}"
        );
        let (found, seconds) = run("two_paths", &text);
        let what = format!("{flows} flows, {:.0} % fast", 100.0 * found("fast_share"));
        row(&what, packets as f64 / seconds, "packets");
    }
}

/// All points of a plan on all cores, with its tables and figures.
fn whole_figure(is_test: bool) {
    let plan = Plan::load(&plans().join("turboswitch-fig4.toml")).expect("a good plan");
    let options = Options {
        scale: if is_test { Scale::Quick } else { Scale::Full },
        ..Options::default()
    };
    let folder = std::env::temp_dir().join(format!("twinpath-engine-{}", std::process::id()));
    let began = Instant::now();
    run_plan(&plan, options, &folder, &mut |_, _| ()).expect("a run");
    let seconds = began.elapsed().as_secs_f64();
    println!("\nTurboSwitch Fig. 4 whole, on all cores: {seconds:.2} s");
    std::fs::remove_dir_all(&folder).expect("the folder that was written");
}

fn plans() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plans")
}

fn row(what: &str, per_s: f64, unit: &str) {
    println!("{what:<40} {:8.2} million {unit} a second", per_s / 1e6);
}

/// A model's columns by name, and how long it ran.
fn run(name: &str, text: &str) -> (impl Fn(&str) -> f64 + use<>, f64) {
    let model: &dyn Model = registry::find(name).expect("a model of this name");
    let parameters = toml::from_str(text).expect("a table");
    let plans = plans();
    let mut columns = Vec::new();
    let seconds = timed(|| {
        columns = model
            .run(&parameters, &plans)
            .expect("parameters that it can run with");
    });
    let column = move |name: &str| {
        let place = model
            .columns()
            .iter()
            .position(|column| column.name == name);
        columns[place.expect("a column of this name")]
    };
    (column, seconds)
}

fn timed(act: impl FnOnce()) -> f64 {
    let (begin, begin_ns) = (Instant::now(), on_core_ns());
    act();
    match (begin_ns, on_core_ns()) {
        (Some(begin_ns), Some(end_ns)) if end_ns > begin_ns => (end_ns - begin_ns) as f64 / 1e9,
        _ => begin.elapsed().as_secs_f64(),
    }
}

/// Time that this thread has spent on a core, from Linux.
fn on_core_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
