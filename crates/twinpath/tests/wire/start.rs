//! A service with large tables starts and serves, and how long that takes: `cargo xtask record start` keeps it.

use super::middle::Middle;
use super::programs::succeeds_soon;
use super::routed;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;
use twinpath_netns::{has_program, is_possible};

/// The folder to which the page is written, if somebody wants it.
const OUT: &str = "TWINPATH_MEASURED_OUT";

/// How often it is started, if somebody wants other than once.
const STARTS: &str = "TWINPATH_STARTS";

/// Entries of a table.
const SLOTS: u64 = 1 << 20;

/// A firewall and a translation, each with a million flows' tables on both paths, between two ports.
#[test]
fn with_tables_for_a_million_flows() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    let network = routed::network();
    let service = routed::service("af_packet") + &format!("\n[fast_path]\nslots = {SLOTS}\n");
    let starts = std::env::var(STARTS).ok();
    let starts = starts.and_then(|starts| starts.parse().ok()).unwrap_or(1);
    let mut starts: Vec<(f64, u64)> = (0..starts)
        .map(|_| {
            let began = Instant::now();
            let middle = Middle::start(&network, &service);
            let took = began.elapsed().as_secs_f64();
            let resident = middle.resident_bytes() >> 20;
            let ping = ["-c1", "-W1", "198.51.100.1"];
            assert!(succeeds_soon(&network, "client", "ping", &ping));
            let report = middle.stop();
            assert!(report.slots.capacity >= SLOTS, "{:?}", report.slots);
            (took, resident)
        })
        .collect();
    starts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let page = page(&starts);
    println!("{page}");
    if let Some(folder) = std::env::var_os(OUT).map(PathBuf::from) {
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("start.md"), page).expect("it can be written");
    }
}

fn page(starts: &[(f64, u64)]) -> String {
    let mut text = format!(
        "A firewall, a translation and a router over two ports, with tables for a million flows in each and on \
         both paths: from the process's start until its control socket answers, in {} starts.\n\n| | \
         |\n|---|---|\n",
        starts.len()
    );
    let (least, most) = (starts.first(), starts.last());
    let middle = starts.get(starts.len() / 2);
    for (name, start) in [("least", least), ("median", middle), ("most", most)] {
        let (seconds, _) = start.copied().unwrap_or_default();
        let _ = writeln!(text, "| {name} | {seconds:.2} s |");
    }
    let resident = middle.map_or(0, |&(_, resident)| resident);
    let _ = writeln!(text, "| resident then | {resident} MB |");
    text
}
