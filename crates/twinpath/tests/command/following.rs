//! `twinpath drops`, `capture` and `top`, against a service that runs.

use crate::folder::{Said, signal, waits_for_signals};
use crate::operator::Running;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::io::{BufRead, BufReader};
use std::process::Command;
use twinpath_io::Trace;
use twinpath_netns::has_program;

/// Half of what comes is denied, by a list and by a firewall.
const SERVICE: &str = "[service]\nname = \"edge\"\nchain = [\"acl\", \"firewall\"]\n\
    inside = [\"10.0.0.0/8\"]\nports = [\"inside\", \"outside\"]\n\
    [acl]\ndefault = \"allow\"\nrules = [{ action = \"deny\", protocol = \"udp\" }]\n\
    [firewall]\ndefault = \"deny\"\nrules = [{ action = \"allow\", protocol = \"tcp\", to_port = \"443\" }]\n\
    [rule_cache]\nwindow = \"50ms\"\nthreshold = 0\n\
    [traffic]\nflows = 50\nchurn_per_minute = 5_000\narrivals = { process = \"poisson\", rate_pps = 4000.0 }\n\
    [traffic.hosts]\nservices = [\n\
    { address = \"192.0.2.10\", port = 443, protocol = \"tcp\" },\n\
    { address = \"192.0.2.10\", port = 80, protocol = \"tcp\" },\n\
    { address = \"192.0.2.53\", port = 53, protocol = \"udp\" },\n]\n";

fn started() -> Running {
    let running = Running::start_as(SERVICE);
    running.ask_until(&["drops"], |said| said.out.contains("denied"));
    running
}

/// When it was, to the millisecond, and why.
fn is_denied_at_a_time(line: &str) -> bool {
    let (time, words) = line
        .split_at_checked("00:00:00.000 ".len())
        .unwrap_or_default();
    let shape = time.replace(|digit: char| digit.is_ascii_digit(), "0");
    shape == "00:00:00.000 " && words.starts_with("denied by ")
}

#[test]
fn drops_are_followed_with_reason_and_function() {
    let running = started();
    let by = |function: &str| {
        let seen = |said: &Said| {
            let mut lines = said.out.lines();
            lines.any(|line| {
                let drop: Value = serde_json::from_str(line).expect("JSON");
                assert!(
                    drop["headers"][1]
                        .as_str()
                        .is_some_and(|ip| ip.starts_with("IPv4 "))
                );
                drop["functions"] == serde_json::json!([function])
            })
        };
        running.ask_until(&["drops", "--follow", "--json", "--count", "200"], seen)
    };
    by("acl");
    let said = by("firewall");
    let paths: Vec<bool> = said
        .out
        .lines()
        .map(|line| line.contains("\"path\":\"fast\""))
        .collect();
    assert!(paths.contains(&true), "cached rules drop, too");
    let wrong = running.ask(&["drops", "--reason", "denyed"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    for expected in [
        "is called \"denyed\"; did you mean denied?",
        ", invalid_state, ",
    ] {
        assert!(wrong.err.contains(expected), "{expected:?} in {wrong:?}");
    }
    let words = running.ask(&["drops", "--follow", "--count", "3", "--reason", "denied"]);
    assert_eq!(words.out.lines().count(), 3, "{words:?}");
    assert!(words.out.lines().all(is_denied_at_a_time), "{words:?}");
    running.stop();
}

/// Packets are copied in front of a function wherever they meet it: those that the slow path has to itself go
/// from one to the next there.
#[test]
fn a_capture_in_front_of_a_function_knows_no_paths() {
    let slow = format!("{SERVICE}[run]\npaths = \"slow\"\n");
    let running = Running::start_as(&slow);
    running.ask_until(&["drops"], |said| said.out.contains("denied"));
    let [acl, firewall] = ["acl", "firewall"].map(|function| {
        let file = format!("{function}.pcapng");
        let words = [
            "capture",
            "--out",
            &file,
            "--for",
            "1s",
            "--function",
            function,
        ];
        let said = running.ask(&words);
        assert_eq!(said.code, Some(0), "{said:?}");
        let trace = Trace::load(running.folder.path(&file)).expect("a capture");
        trace.iter().count()
    });
    assert!(firewall > 100 && acl > 100, "{acl} {firewall}");
}

#[test]
fn captures_are_read_by_wiresharks_tools() {
    let running = started();
    let capture = |at: &[&str], file: &str| {
        let all = [&["capture", "--out", file, "--for", "1s"], at].concat();
        let said = running.ask(&all);
        assert_eq!(said.code, Some(0), "{said:?}");
        let trace = Trace::load(running.folder.path(file)).expect("a capture");
        trace.iter().count()
    };
    let all = capture(&[], "all.pcapng");
    let inside = capture(&["--port", "inside"], "inside.pcapng");
    let drops = capture(&["--drops"], "drops.pcapng");
    let firewall = capture(&["--function", "firewall"], "firewall.pcapng");
    assert!(
        all > 100 && inside > 100 && drops > 100 && firewall > 100,
        "{all} {inside} {drops} {firewall}"
    );
    let wrong = running.ask(&["capture", "--port", "nowhere", "--out", "x.pcapng"]);
    assert!(
        wrong
            .err
            .contains("expected a port of the service: inside, outside"),
        "{wrong:?}"
    );
    assert!(!running.folder.path("x.pcapng").exists());
    let again = running.ask(&["capture", "--out", "all.pcapng"]);
    assert_eq!(
        again.code,
        Some(2),
        "a file is never overwritten: {again:?}"
    );
    let told = "cannot write the captured packets to all.pcapng: it is there already";
    assert!(again.err.contains(told), "{again:?}");
    if has_program("tshark", "tshark") {
        let fields = [
            "-T",
            "fields",
            "-e",
            "frame.comment",
            "-e",
            "frame.interface_name",
        ];
        let mut tshark = Command::new("tshark");
        let tshark = tshark
            .arg("-r")
            .arg(running.folder.path("drops.pcapng"))
            .args(fields);
        let said = tshark.output().expect("it is there");
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(said.status.success(), "{said:?}");
        assert_eq!(text.lines().count(), drops);
        assert!(
            text.contains("dropped: denied by firewall\tinside"),
            "{text}"
        );
    }
    running.stop();
}

/// The same packets as lines of JSON: what became of each, where and by whom, its length and headers.
#[test]
fn a_capture_is_told_as_json() {
    let running = started();
    let capture = |at: &[&str]| -> Vec<Value> {
        let said = running.ask(&[&["capture", "--json", "--for", "1s"], at].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        let read = |line| serde_json::from_str(line).expect("JSON");
        let packets: Vec<Value> = said.out.lines().map(read).collect();
        assert!(packets.len() > 100, "{at:?}: {}", packets.len());
        for packet in &packets {
            assert!(packet["time_ns"].as_u64() > Some(0) && packet["shed"].is_u64());
            assert!(packet["bytes"].as_u64() >= Some(42), "{packet}");
            let header = packet["headers"][1].as_str();
            assert!(header.is_some_and(|ip| ip.starts_with("IPv4 ")), "{packet}");
        }
        packets
    };
    let nobody = serde_json::json!([]);
    for packet in capture(&["--port", "inside"]) {
        let what = (&packet["port"], &packet["functions"], &packet["reason"]);
        assert_eq!(what, (&"inside".into(), &nobody, &Value::Null));
        let event = packet["event"].as_str();
        assert!(
            matches!(event, Some("received" | "transmitted")),
            "{packet}"
        );
    }
    let ports = capture(&[]);
    for (event, port) in [("received", "inside"), ("transmitted", "outside")] {
        let is_one = |packet: &&Value| packet["event"] == event && packet["port"] == port;
        assert!(ports.iter().filter(is_one).count() > 10, "{event} {port}");
    }
    for packet in capture(&["--function", "firewall"]) {
        let what = (&packet["event"], &packet["functions"]);
        assert_eq!(what, (&"meets".into(), &serde_json::json!(["firewall"])));
    }
    let drops = capture(&["--drops"]);
    for function in ["acl", "firewall"] {
        let functions = serde_json::json!([function]);
        let is_its = |drop: &&Value| drop["functions"] == functions && drop["reason"] == "denied";
        assert!(drops.iter().filter(is_its).count() > 10, "{function}");
    }
    assert!(drops.iter().all(|drop| drop["event"] == "dropped"));
    // It goes to a file as well, and ends behind a whole line.
    let words = ["capture", "--json", "--for", "1s", "--out", "c.jsonl"];
    assert_eq!(running.ask(&words).code, Some(0));
    let told = running.folder.read("c.jsonl");
    assert!(told.ends_with(b"}\n"), "{}", String::from_utf8_lossy(&told));
    let wrong = running.ask(&["capture", "--json", "--snap", "64"]);
    assert!(wrong.err.contains("--snap"), "{wrong:?}");
    running.stop();
}

/// A disk that is full ends the capture, and says which.
#[test]
fn packets_that_cannot_be_written_end_a_capture_with_an_error() {
    let running = started();
    let full = running.ask(&["capture", "--out", "/dev/full", "--for", "20s"]);
    assert_eq!(full.code, Some(2), "{full:?}");
    let told = "error: cannot write the captured packets to /dev/full: No space left on device";
    assert!(full.err.contains(told), "{full:?}");
    let words = ["capture", "--control", "edge.sock", "--out", "-"];
    let device = File::options().write(true).open("/dev/full");
    let mut command = running.folder.command(&words);
    let output = command.stdout(device.expect("a device")).output();
    let said: Said = output.expect("it ends").into();
    assert_eq!(said.code, Some(2), "{said:?}");
    let told = "error: cannot write to standard output: No space left on device";
    assert!(said.err.contains(told), "{said:?}");
    running.stop();
}

/// A function's drops are followed alone, and a name that the chain does not have is told.
#[test]
fn drops_of_one_function_are_followed() {
    let running = started();
    for function in ["acl", "firewall"] {
        let words = [
            "drops",
            "--follow",
            "--count",
            "20",
            "--json",
            "--function",
            function,
        ];
        let said = running.ask(&words);
        assert_eq!((said.code, said.out.lines().count()), (Some(0), 20));
        for line in said.out.lines() {
            let drop: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(drop["functions"], serde_json::json!([function]));
        }
    }
    let wrong = running.ask(&["drops", "--follow", "--function", "firewal"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    let told = "the chain has no function called \"firewal\"; did you mean firewall?";
    assert!(wrong.err.contains(told), "{wrong:?}");
    let alone = running.ask(&["drops", "--function", "acl"]);
    assert!(alone.err.contains("--follow"), "{alone:?}");
    running.stop();
}

/// Whoever follows hears that the service has ended, and costs it nothing.
#[test]
fn the_service_ends_while_somebody_follows() {
    let running = started();
    let drops = ["drops", "--follow", "--control", "edge.sock"];
    let capture = ["capture", "--out", "c.pcapng", "--control", "edge.sock"];
    let top = ["top", "--every", "100ms", "--control", "edge.sock"];
    let all = [&drops[..], &drops, &capture, &top];
    let followers = all.map(|words| running.folder.start(words));
    running.ask(&["drops", "--follow", "--count", "1"]);
    written(&running, "c.pcapng");
    let folder = running.stop();
    for (follower, words) in followers.into_iter().zip(all) {
        let said: Said = follower.wait_with_output().expect("it ends").into();
        assert_eq!(said.code, Some(2), "{words:?}: {said:?}");
        assert!(said.err.starts_with("error: "), "{words:?}: {said:?}");
        if words != top {
            let told = "the service has ended, or has closed the connection";
            assert!(said.err.contains(told), "{words:?}: {said:?}");
        }
    }
    assert!(Trace::load(folder.path("c.pcapng")).is_ok());
    let report = folder.report("r");
    let dropped: u64 = report.drops.values().sum();
    assert_eq!(
        report.totals.packets_in,
        report.totals.packets_out + dropped
    );
}

/// Waits until something is in a file.
fn written(running: &Running, file: &str) {
    let path = running.folder.path(file);
    while std::fs::metadata(&path).map_or(0, |file| file.len()) < 1000 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Ctrl-C is how following ends, and no error.
#[test]
fn whoever_follows_ends_it_without_an_error() {
    let running = started();
    for words in [
        &["drops", "--follow"][..],
        &["capture", "--out", "c.pcapng"],
        &["top", "--every", "100ms"],
        &["top", "--every", "100ms", "--json"],
    ] {
        for name in ["INT", "TERM"] {
            let _ = std::fs::remove_file(running.folder.path("c.pcapng"));
            let words = [words, &["--control", "edge.sock"]].concat();
            let child = running.folder.start(&words);
            waits_for_signals(&child);
            signal(&child, name);
            let said: Said = child.wait_with_output().expect("it ends").into();
            assert_eq!(
                (said.code, &*said.err),
                (Some(0), ""),
                "{words:?}: {said:?}"
            );
            let capture = running.folder.path("c.pcapng");
            if std::fs::metadata(&capture).is_ok_and(|file| file.len() > 0) {
                let whole = Trace::load(&capture).err();
                assert!(whole.is_none(), "it ends behind a packet: {whole:?}");
            }
        }
    }
    running.stop();
}

/// A named pipe is there for whoever reads it, such as Wireshark; who waits for a reader can be stopped.
#[test]
fn a_capture_goes_to_a_named_pipe() {
    let running = started();
    let pipe = running.folder.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "a named pipe");
    let words = ["capture", "--out", "pipe", "--control", "edge.sock"];
    let waiting = running.folder.start(&words);
    waits_for_signals(&waiting);
    signal(&waiting, "INT");
    let said: Said = waiting.wait_with_output().expect("it ends").into();
    assert_eq!(said.code, Some(0), "{said:?}");
    let capturing = running.folder.start(&words);
    let mut reader = File::open(&pipe).expect("a pipe");
    let mut head = vec![0; 10_000];
    reader.read_exact(&mut head).expect("packets");
    drop(reader);
    let said: Said = capturing.wait_with_output().expect("it ends").into();
    assert_eq!(said.code, Some(0), "the reader has seen enough: {said:?}");
    running.folder.write("head.pcapng", &head);
    let mut packets = twinpath_io::CaptureReader::open(running.folder.path("head.pcapng"));
    assert!(
        packets
            .as_mut()
            .is_ok_and(|packets| packets.read_interfaces().is_ok())
    );
    running.stop();
}

/// What Wireshark does while a capture goes on: it reads standard input.
#[test]
fn a_capture_is_read_while_it_goes_on() {
    if !has_program("tshark", "tshark") {
        return;
    }
    let running = started();
    let line = "\"$0\" capture --out - --control edge.sock | tshark -n -i - -c 10 -T fields -e frame.protocols";
    let shell = Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_twinpath")])
        .current_dir(running.folder.path(""))
        .output();
    let said = shell.expect("a shell");
    let text = String::from_utf8_lossy(&said.stdout);
    assert_eq!(text.lines().count(), 10, "{said:?}");
    assert!(
        text.lines()
            .all(|line| line.starts_with("eth:ethertype:ip")),
        "{text}"
    );
    running.stop();
}

#[test]
fn top_shows_a_page() {
    let running = started();
    let said = running.ask(&["top", "--once", "--every", "200ms"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for part in [
        "edge  up ",
        "pps ",
        "  fast ",
        "  slots ",
        "  firewall ",
        "  denied",
    ] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    let json = running.ask(&["top", "--once", "--json"]);
    let report: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(report["schema"], "twinpath-report/1");
    assert!(report["totals"]["packets_in"].as_u64() > Some(0));
    running.stop();
}

/// A program reads reports line by line, each later than the one before, until the service ends.
#[test]
fn top_tells_programs_a_report_on_each_line() {
    let running = started();
    let words = [
        "top",
        "--json",
        "--every",
        "100ms",
        "--control",
        "edge.sock",
    ];
    let mut top = running.folder.start(&words);
    let lines = BufReader::new(top.stdout.take().expect("piped")).lines();
    let reports = lines.take(3).map(|line| {
        let report: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        report["run"]["duration_wall_ns"].as_u64()
    });
    let times: Vec<_> = reports.collect();
    assert!(
        times.len() == 3 && times[0].is_some() && times.is_sorted_by(|one, next| one < next),
        "{times:?}"
    );
    running.stop();
    let _ = top.wait();
}
