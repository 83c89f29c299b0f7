//! The service files that a user starts from.

use crate::folder::Folder;
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
    assert!(paths.len() >= 7, "{paths:?}");
    paths
}

#[test]
fn every_example_is_explained_and_fits() {
    for path in examples() {
        let said = Folder::new().succeed(&["explain", &path.to_string_lossy()]);
        let is_told =
            said.out.contains("(this service's)  fits: ") || said.out.contains("A DPU of 6 ENIs");
        assert!(is_told, "{said:?}");
    }
}

/// Both paths do something in each, most packets come through, and the oracle agrees.
#[test]
fn every_example_runs() {
    for path in examples() {
        let (folder, service) = (Folder::new(), path.to_string_lossy());
        folder.succeed(&[
            "generate",
            "--service",
            &service,
            "--packets",
            "50000",
            "--out",
            "in.pcap",
        ]);
        folder.run_both_ways(&service, "in.pcap");
        let report = folder.report("both");
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
            folder.undrawn_flows("both.pcap") == folder.undrawn_flows("slow.pcap"),
            "{service}: the outputs differ"
        );
    }
}
