//! The service files that a user starts from.

use crate::place::Place;
use std::fs;
use std::path::PathBuf;

fn examples() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let entries = fs::read_dir(folder).expect("the examples");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    });
    paths.sort();
    assert!(paths.len() >= 6, "{paths:?}");
    paths
}

#[test]
fn every_example_is_explained_and_fits() {
    for path in examples() {
        let said = Place::new().succeed(&["explain", &path.to_string_lossy()]);
        assert!(said.out.contains("(this service's)  fits: "), "{said:?}");
    }
}

/// Both paths do something in each, nothing is lost, and the oracle agrees.
#[test]
fn every_example_runs() {
    for path in examples() {
        let (place, service) = (Place::new(), path.to_string_lossy());
        place.succeed(&[
            "generate",
            "--service",
            &service,
            "--packets",
            "50000",
            "--out",
            "in.pcap",
        ]);
        for paths in ["both", "slow"] {
            let out = format!("{paths}.pcap");
            let flags = [
                "--in",
                "in.pcap",
                "--out",
                &out,
                "--paths",
                paths,
                "--execution",
                "virtual",
                "--report",
                paths,
            ];
            place.succeed(&[&["run", &service][..], &flags].concat());
        }
        let report = twinpath_control::report::json::read(&place.path("both/report.json"))
            .expect("a report");
        assert!(
            report.fast.share > 0.02 && report.slow.packets > 0,
            "{service}: {:?}",
            report.fast
        );
        assert!(
            report.totals.packets_out > 20_000,
            "{service}: {:?} {:?}",
            report.totals,
            report.drops
        );
        assert!(
            place.read("both.pcap") == place.read("slow.pcap"),
            "{service}: the outputs differ"
        );
    }
}
