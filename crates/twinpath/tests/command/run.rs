//! `twinpath run`

use crate::folder::{Folder, Said, interrupt, shared_capture};
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};
use twinpath_control::report::{Execution, Paths};

const SERVICE: &str = r#"
[service]
name = "small"
chain = ["firewall", "reassembler"]
seed = 3
[firewall]
default = "allow"
[traffic]
packets = 20_000
arrivals = { process = "constant", rate_pps = 200_000 }
flows = 200
churn_per_minute = 60_000
tcp = { out_of_order_share = 0.02 }
"#;

#[test]
fn generated_traffic_leaves_a_summary_and_a_report() {
    let folder = Folder::with("service.toml", SERVICE);
    let said = folder.succeed(&["run", "service.toml", "--pace", "lossless"]);
    assert!(
        said.out
            .starts_with("small: both paths, threads, 1 worker, seed 3\n"),
        "{said:?}"
    );
    assert!(
        said.out
            .contains("report: twinpath-report/report.html (and twinpath-report/report.json)\n"),
        "{said:?}"
    );
    assert!(
        said.err.contains("small: 100.0 % after"),
        "the progress is on standard error: {said:?}"
    );
    let report = folder.report("twinpath-report");
    assert_eq!(report.totals.packets_in, 20_000);
    assert_eq!(report.totals.packets_out + report.dropped(), 20_000);
    assert!(report.fast.packets > 0 && report.slow.packets > 0);
    assert!(
        folder
            .read("twinpath-report/report.html")
            .starts_with(b"<!DOCTYPE html>")
    );
}

/// Requests are counted whichever path answers them.
#[test]
fn requests_are_counted_on_both_paths() {
    let service = "[service]\nchain = [\"kv_store\"]\n[traffic]\npackets = 5000\n\
        arrivals = { process = \"constant\", rate_pps = 100_000 }\nkv = { keys = 20, get_share = 0.7 }\n";
    let folder = Folder::with("kv.toml", service);
    folder.succeed(&["run", "kv.toml", "--execution", "virtual", "--report", "r"]);
    let report = folder.report("r");
    assert!(report.fast.packets > 1000, "{:?}", report.fast);
    let counters = &report.functions[0].counters;
    let requests = counters["gets"] + counters["puts"] + counters["deletes"];
    assert_eq!(requests, 5000, "{counters:?}");
    assert!(
        counters["gets"] > 3000 && counters["hits"] > 1000,
        "{counters:?}"
    );
}

#[test]
fn flags_override_the_file() {
    let folder = Folder::with("service.toml", SERVICE);
    let flags = [
        "--paths",
        "slow",
        "--execution",
        "virtual",
        "--seed",
        "9",
        "--report",
        "here/and/there",
    ];
    let said = folder.succeed(&[&["run", "service.toml"][..], &flags].concat());
    assert!(
        said.out
            .starts_with("small: slow path only, virtual time, 1 worker, seed 9\n"),
        "{said:?}"
    );
    let report = folder.report("here/and/there");
    assert_eq!(
        (report.run.paths, report.run.execution, report.run.seed),
        (Paths::Slow, Execution::Virtual, 9)
    );
    assert_eq!(report.fast.packets, 0);
    assert!(!folder.path("twinpath-report").exists());
}

#[test]
fn quiet_is_quiet() {
    let folder = Folder::with("service.toml", SERVICE);
    let said = folder.succeed(&[
        "run",
        "service.toml",
        "--execution",
        "virtual",
        "--no-report",
        "--quiet",
    ]);
    assert_eq!((said.out.as_str(), said.err.as_str()), ("", ""));
    assert!(!folder.path("twinpath-report").exists());
    // A seed that is drawn is in the report, if somebody wants it.
    folder.write("service.toml", SERVICE.replace("seed = 3", "").as_bytes());
    let said = folder.succeed(&["run", "service.toml", "--report", "drawn", "-q"]);
    assert_eq!((said.out.as_str(), said.err.as_str()), ("", ""));
    assert!(folder.path("drawn").exists());
}

#[test]
fn both_paths_write_the_file_that_the_slow_path_alone_write() {
    let folder = Folder::with("service.toml", SERVICE);
    folder.succeed(&[
        "generate",
        "--service",
        "service.toml",
        "--out",
        "generated.pcap.gz",
    ]);
    let mut captures = vec!["generated.pcap.gz".to_owned()];
    captures.extend(shared_capture("pcpp_browse_136flows.pcap"));
    for capture in captures {
        folder.run_both_ways("service.toml", &capture);
        assert!(
            folder.read("both.pcap") == folder.read("slow.pcap"),
            "{capture}: the outputs differ"
        );
    }
}

/// Packets of different flows that have one timestamp may leave in either order.
#[test]
fn both_paths_write_the_packets_that_the_slow_path_alone_write() {
    let folder = Folder::with("service.toml", SERVICE);
    if let Some(capture) = shared_capture("zeek_echo_500conn.pcap.gz") {
        folder.run_both_ways("service.toml", &capture);
        assert!(
            folder.undrawn_flows("both.pcap") == folder.undrawn_flows("slow.pcap"),
            "{capture}: the outputs differ"
        );
    }
}

#[test]
fn a_capture_leaves_no_report_unless_asked() {
    let folder = Folder::with("service.toml", SERVICE);
    folder.succeed(&[
        "generate",
        "--service",
        "service.toml",
        "--packets",
        "500",
        "--out",
        "a.pcap",
    ]);
    let said = folder.succeed(&["run", "service.toml", "--in", "a.pcap"]);
    assert!(
        said.out.contains("\na.pcap: ") && !said.out.contains("report:"),
        "{said:?}"
    );
    assert!(!folder.path("twinpath-report").exists());
}

#[test]
fn a_capture_that_breaks_off_is_run_as_far_as_it_goes() {
    let folder = Folder::with("service.toml", SERVICE);
    folder.succeed(&[
        "generate",
        "--service",
        "service.toml",
        "--packets",
        "100",
        "--out",
        "whole.pcap",
    ]);
    let whole = folder.read("whole.pcap");
    folder.write("cut.pcap", &whole[..whole.len() - 5]);
    let said = folder.succeed(&["run", "service.toml", "--in", "cut.pcap", "--report", "r"]);
    let told = "cut.pcap is truncated: the file ends within record 100";
    assert!(said.err.contains(&format!("warning: {told}")), "{said:?}");
    let report = folder.report("r");
    assert_eq!(report.totals.packets_in, 99);
    assert!(report.warnings[0].starts_with(told), "{report:?}");
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_place() {
    let folder = Folder::with("bad.toml", "[service]\nchain = [\"firewall\", \"nat46\"]\n");
    folder.fail(
        &["run", "bad.toml"],
        "error: bad.toml:2:22: no function is called nat46: expected one of",
    );
    folder.fail(
        &["run", "none.toml"],
        "error: none.toml: No such file or directory",
    );
    folder.write(
        "rules.toml",
        b"[service]\nchain = [\"reassembler\", \"inspector\"]\n\n[inspector]\nrules = \"none.rules\"\n",
    );
    folder.succeed(&["generate", "--packets", "1", "--out", "one.pcap"]);
    folder.fail(
        &["run", "rules.toml", "--in", "one.pcap"],
        "error: rules.toml:5:1: none.rules: No such file or directory",
    );
    folder.write("idle.toml", b"[service]\nchain = [\"reassembler\"]\n");
    folder.fail(
        &["run", "idle.toml"],
        "nothing to run: give a capture with --in",
    );
    folder.fail(
        &["run", "idle.toml", "--in", "none.pcap"],
        "cannot open none.pcap",
    );
    folder.write("text.pcap", b"hello");
    folder.fail(
        &["run", "idle.toml", "--in", "text.pcap"],
        "text.pcap is not a capture: it begins with 68656c6c",
    );
    folder.write("wifi.pcap", &capture_header(105));
    folder.fail(&["run", "idle.toml", "--in", "wifi.pcap"], "link type 105");
    folder.write("empty.pcap", &capture_header(1));
    folder.fail(
        &[
            "run",
            "idle.toml",
            "--in",
            "empty.pcap",
            "--out",
            "no/such/folder.pcap",
        ],
        "cannot create no/such/folder.pcap",
    );
    folder.write("file", b"");
    folder.fail(
        &["run", "idle.toml", "--in", "empty.pcap", "--report", "file"],
        "file",
    );
    let said = folder.succeed(&["run", "idle.toml", "--in", "empty.pcap"]);
    assert!(said.out.contains("empty.pcap"), "{said:?}");
}

/// A pcap file without packets.
fn capture_header(link_type: u32) -> Vec<u8> {
    let words: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, link_type];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_chain_that_does_not_fit_is_refused() {
    let asic = SERVICE.replace("[traffic]", "[fast_path]\ndevice = \"asic\"\n[traffic]");
    let folder = Folder::with("service.toml", &asic);
    folder.fail(
        &["run", "service.toml"],
        "error: service.toml:8:2: the chain does not fit the fast path",
    );
    folder.succeed(&[
        "run",
        "service.toml",
        "--paths",
        "slow",
        "--execution",
        "virtual",
        "--no-report",
    ]);
}

/// Traffic without an end.
fn endless() -> Folder {
    Folder::with("endless.toml", &SERVICE.replace("packets = 20_000\n", ""))
}

fn interrupt_a_run(execution: &str) {
    let folder = endless();
    let mut child = folder.start(&[
        "run",
        "endless.toml",
        "--pace",
        "lossless",
        "--execution",
        execution,
    ]);
    // Where standard error is no terminal there is a line of progress every few seconds.
    let mut progress = String::new();
    BufReader::new(child.stderr.as_mut().expect("a pipe"))
        .read_line(&mut progress)
        .expect("a line");
    assert!(progress.starts_with("small: after "), "{progress}");
    interrupt(&child);
    let said: Said = child.wait_with_output().expect("it ends").into();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.out.contains("report: twinpath-report/report.html"),
        "{said:?}"
    );
    let report = folder.report("twinpath-report");
    assert!(report.totals.packets_in > 0, "{said:?}");
    assert_eq!(
        report.totals.packets_out + report.dropped(),
        report.totals.packets_in
    );
}

#[test]
fn ctrl_c_ends_a_run_on_threads_with_its_report() {
    interrupt_a_run("threads");
}

#[test]
fn ctrl_c_ends_a_run_in_virtual_time_with_its_report() {
    interrupt_a_run("virtual");
}

#[test]
fn a_run_ends_when_its_time_is_up() {
    let folder = endless();
    let began = Instant::now();
    folder.succeed(&["run", "endless.toml", "--for", "700ms", "--no-report"]);
    assert!(began.elapsed() >= Duration::from_millis(700));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = Folder::with("service.toml", SERVICE);
    let mut child = folder.start(&[
        "run",
        "service.toml",
        "--execution",
        "virtual",
        "--no-report",
    ]);
    drop(child.stdout.take());
    let said: Said = child.wait_with_output().expect("it ends").into();
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn listening_has_conditions() {
    let folder = Folder::with("service.toml", SERVICE);
    folder.fail(
        &["run", "service.toml", "--listen", "127.0.0.1:19286"],
        "the chain has no key-value store",
    );
    folder.fail(
        &[
            "run",
            "service.toml",
            "--listen",
            "127.0.0.1:19286",
            "--execution",
            "virtual",
        ],
        "--listen needs threads",
    );
    folder.fail(
        &["run", "service.toml", "--listen", "somewhere"],
        "invalid socket address",
    );
    folder.write("kv.toml", b"[service]\nchain = [\"kv_store\"]\n");
    folder.fail(
        &["run", "kv.toml", "--listen", "127.0.0.1:1234"],
        "the key-value store answers on port 19286",
    );
    folder.fail(
        &["run", "kv.toml", "--listen", "192.0.2.1:19286"],
        "cannot listen on 192.0.2.1:19286",
    );
}
