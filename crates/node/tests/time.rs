//! What happens because of time happens at the same time on both paths: a gap is given up before
//! packets that come after its time-out and behind those that came before, wherever they are then;
//! flows are idle by the times of their own packets; a run ends when nothing is inside.
//!
//! Each has the smallest service and capture that were found to show that it was otherwise.

mod common;

use common::{assert_same_but_for_names, run};
use std::path::{Path, PathBuf};
use twinpath_control::service::{Execution, Paths, Service};
use twinpath_io::Trace;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/time")
        .join(name)
}

/// Both paths put out what the slow path alone does, in virtual time.
fn agrees(name: &str) {
    let folder = folder(name);
    let service = Service::load(&folder.join("service.toml")).expect("a good service");
    let captures = ["packets.pcap", "packets.pcapng"].map(|file| folder.join(file));
    let capture = captures
        .iter()
        .find(|path| path.exists())
        .expect("a capture");
    let trace = Trace::load(capture).expect("a sound capture");
    let run = |paths| {
        let mut outcome = run(&service, &trace, paths, Execution::Virtual);
        // As a capture has them.
        outcome.packets.sort_by_key(|(at, _)| *at);
        outcome
    };
    let (expected, found) = (run(Paths::Slow), run(Paths::Both));
    assert_same_but_for_names(&expected, &found, "198.51.100.0/24", name);
}

/// A worker waits for older packets that are on their way to it before a gap is given up.
#[test]
fn gap_timeout() {
    agrees("gap_timeout");
}

/// A run goes on while anything comes back, however long that takes.
#[test]
fn long_round_trip() {
    agrees("long_round_trip");
}

/// What a reassembler lets go of meets a ban that has ended meanwhile.
#[test]
fn short_ban() {
    agrees("short_ban");
}

/// What a reassembler lets go of meets flows that have been idle meanwhile.
#[test]
fn short_expiry() {
    agrees("short_expiry");
}

/// At the end of a run, too, what is let go meets flows as they are at its time.
#[test]
fn end_of_run() {
    agrees("end_of_run");
}

/// The same where two reassemblers let go one after the other.
#[test]
fn end_of_run_banned() {
    agrees("end_of_run_banned");
}

/// A round trip that is longer than time-outs lets nothing expire.
#[test]
fn latency() {
    agrees("latency");
}
