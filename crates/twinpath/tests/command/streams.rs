//! Captures through pipes.

use crate::folder::{Folder, Said, signal, waits_for_signals};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use twinpath_io::Trace;
use twinpath_netns::has_program;

const PASSES: &str = "[service]\nname = \"passes\"\nchain = [\"reassembler\"]\n";
const DENIES: &str = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n\
    rules = [{ action = \"deny\", from_port = \"0-40000\" }]\n";

fn folder() -> Folder {
    let folder = Folder::with("passes.toml", PASSES);
    folder.write("denies.toml", DENIES.as_bytes());
    folder.succeed(&["generate", "--packets", "3000", "--out", "a.pcap"]);
    folder
}

fn started(command: &mut Command) -> Child {
    command.spawn().expect("it can be run")
}

fn packets(folder: &Folder, name: &str) -> Vec<(u64, Vec<u8>)> {
    let trace = Trace::load(folder.path(name)).expect("a capture");
    let packets = trace.iter();
    packets
        .map(|one| (one.timestamp_ns, one.frame.to_vec()))
        .collect()
}

/// What leaves by files leaves by pipes, in both formats and both ways of running.
#[test]
fn two_services_in_a_row_are_joined_by_a_pipe() {
    let folder = folder();
    folder.succeed(&["run", "passes.toml", "--in", "a.pcap", "--out", "b.pcap"]);
    folder.succeed(&[
        "run",
        "denies.toml",
        "--in",
        "b.pcap",
        "--out",
        "files.pcap",
    ]);
    let expected = packets(&folder, "files.pcap");
    assert!(!expected.is_empty() && expected.len() < 3000);
    for (out, execution) in [("-", "threads"), ("-.pcapng", "virtual")] {
        let how = ["--execution", execution];
        let mut first = folder.command(&["run", "passes.toml", "--in", "-", "--out", out]);
        let input = File::open(folder.path("a.pcap")).expect("a capture");
        first
            .args(how)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut first = started(&mut first);
        let mut second =
            folder.command(&["run", "denies.toml", "--in", "-", "--out", "piped.pcap"]);
        second.args(how).stdin(first.stdout.take().expect("a pipe"));
        let said: Said = second.output().expect("it can be run").into();
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.contains("\nstandard input: "), "{said:?}");
        let said: Said = first.wait_with_output().expect("it ends").into();
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(
            said.err.contains("passes: both paths"),
            "the summary is beside: {said:?}"
        );
        let piped = packets(&folder, "piped.pcap");
        assert!(piped == expected, "{} and {}", piped.len(), expected.len());
    }
}

/// Whoever is at the other end sees a packet when it has left, not when the pipe is full.
#[test]
fn a_packet_leaves_before_the_next_one_comes() {
    let folder = folder();
    let whole = folder.read("a.pcap");
    let mut command = folder.command(&["run", "passes.toml", "--in", "-", "--out", "-", "--quiet"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = started(&mut command);
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = child.stdout.take().expect("a pipe");
    let (file_header, mut rest) = whole.split_at(24);
    input.write_all(file_header).expect("it reads");
    for number in 0..20 {
        let len = u32::from_le_bytes(rest[8..12].try_into().expect("4 bytes")) as usize;
        let (record, others) = rest.split_at(16 + len);
        rest = others;
        input.write_all(record).expect("it reads");
        if number == 0 {
            output.read_exact(&mut [0; 24]).expect("a header");
        }
        let mut header = [0; 16];
        output.read_exact(&mut header).expect("the packet");
        let left = u32::from_le_bytes(header[8..12].try_into().expect("4 bytes"));
        output
            .read_exact(&mut vec![0; left as usize])
            .expect("the packet");
    }
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

/// What comes by a pipe may come from a wire, where somebody may have chosen it to collide: nobody
/// knows the seed. It is told where no packets are.
#[test]
fn the_seed_of_a_pipe_is_drawn_unless_it_is_said() {
    let folder = folder();
    folder.write(
        "seeded.toml",
        PASSES
            .replace("[service]\n", "[service]\nseed = 0\n")
            .as_bytes(),
    );
    let said = |service: &str, flags: &[&str]| -> Said {
        let out = ["run", service, "--in", "-", "--out", "-"];
        let mut command = folder.command(&[&out, flags].concat());
        let input = File::open(folder.path("a.pcap")).expect("a capture");
        let output = File::create(folder.path("out.pcap")).expect("a file");
        let said: Said = command
            .stdin(input)
            .stdout(output)
            .stderr(Stdio::piped())
            .output()
            .expect("it can be run")
            .into();
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(packets(&folder, "out.pcap").len(), 3000);
        said
    };
    let drawn = || {
        let said = said("passes.toml", &[]).err;
        let line = said.lines().find(|line| line.starts_with("seed "));
        line.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let (one, other) = (drawn(), drawn());
    assert!(one.contains(" was drawn: --seed "), "{one}");
    assert_ne!(one, other);
    for (service, flags) in [
        ("passes.toml", &["--seed", "7"][..]),
        ("seeded.toml", &[]),
        ("passes.toml", &["--execution", "virtual"]),
    ] {
        let said = said(service, flags);
        assert!(
            !said.err.contains("was drawn"),
            "{service} {flags:?}: {said:?}"
        );
    }
}

/// As `head` does.
#[test]
fn a_reader_that_has_seen_enough_ends_the_run() {
    let folder = Folder::with("endless.toml", &format!("{PASSES}[traffic]\n"));
    let run = [
        "run",
        "endless.toml",
        "--pace",
        "lossless",
        "--out",
        "-",
        "--no-report",
    ];
    let mut command = folder.command(&run);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = started(&mut command);
    let mut output = child.stdout.take().expect("a pipe");
    output.read_exact(&mut [0; 10_000]).expect("packets");
    drop(output);
    let said: Said = child.wait_with_output().expect("it ends").into();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("Broken pipe"), "{said:?}");
}

/// Neither does it matter whether somebody has opened the other end, nor whether more is to come.
#[test]
fn a_run_that_waits_at_a_named_pipe_ends_when_it_is_asked_to() {
    let folder = folder();
    let pipe = folder.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "a named pipe");
    let some = &folder.read("a.pcap")[..30_000];
    for (execution, is_written) in [
        ("threads", false),
        ("threads", true),
        ("virtual", false),
        ("virtual", true),
    ] {
        let how = ["--execution", execution, "--quiet"];
        let run = ["run", "passes.toml", "--in", "pipe", "--out", "out.pcap"];
        let child = folder.start(&[&run[..], &how].concat());
        waits_for_signals(&child);
        // A pipe that is opened both ways waits for nobody.
        let writer = is_written.then(|| {
            let end = File::options().read(true).write(true).open(&pipe);
            let mut end = end.expect("a pipe");
            end.write_all(some).expect("there is room");
            std::thread::sleep(Duration::from_millis(500));
            end
        });
        signal(&child, "TERM");
        let said: Said = child.wait_with_output().expect("it ends").into();
        assert_eq!(said.code, Some(0), "{execution} {is_written}: {said:?}");
        let packets = packets(&folder, "out.pcap").len();
        assert_eq!(packets > 0, is_written, "{execution}: {packets}");
        drop(writer);
    }
}

/// A service with two ports, and a named pipe for the first.
fn piped_folder() -> Folder {
    let text = "[service]\nchain = [\"firewall\"]\nports = [\"a\", \"b\"]\n[firewall]\ndefault = \"allow\"\n\
                [traffic]\npackets = 100\n";
    let folder = Folder::with("ports.toml", text);
    let made = Command::new("mkfifo").arg(folder.path("p-a.pcap")).status();
    assert!(made.is_ok_and(|status| status.success()), "a named pipe");
    folder
}

/// A pipe that nobody is at yet does not keep a mistake in the other files secret.
#[test]
fn a_file_that_is_not_there_is_told_although_a_pipe_waits() {
    let folder = piped_folder();
    let run = ["run", "ports.toml", "--in", "p-{port}.pcap", "--quiet"];
    folder.fail(&run, "p-b.pcap");
    folder.write("p-b.pcap", b"hello");
    folder.fail(&run, "p-b.pcap is not a capture");
    std::fs::create_dir(folder.path("a")).expect("a folder");
    let made = Command::new("mkfifo")
        .arg(folder.path("a/out.pcap"))
        .status();
    assert!(made.is_ok_and(|status| status.success()), "a named pipe");
    let run = [
        "run",
        "ports.toml",
        "--no-report",
        "--out",
        "{port}/out.pcap",
    ];
    folder.fail(&run, "b/out.pcap");
}

/// A run whose reader does not come ends when it is asked to, once, and leaves nothing behind.
#[test]
fn a_run_that_waits_for_a_reader_ends_when_it_is_asked_to() {
    let folder = piped_folder();
    let run = ["run", "ports.toml", "--no-report", "--out", "p-{port}.pcap"];
    let child = folder.start(&run);
    waits_for_signals(&child);
    signal(&child, "TERM");
    let said: Said = child.wait_with_output().expect("it ends").into();
    assert_eq!(said.code, Some(0), "{said:?}");
    let left = std::fs::read_dir(folder.path("."))
        .expect("a folder")
        .count();
    assert_eq!(left, 2, "the service file and the pipe");
    let child = folder.start(&run);
    let read = std::fs::read(folder.path("p-a.pcap")).expect("a pipe");
    let said: Said = child.wait_with_output().expect("it ends").into();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(read.len() > 24 && !folder.read("p-b.pcap").is_empty());
}

#[test]
fn what_is_no_capture_is_told_of_a_pipe_too() {
    let folder = folder();
    folder.fail(
        &["run", "passes.toml", "--in", "-"],
        "error: standard input is not a capture: it begins with nothing",
    );
}

/// What the field's own tools write and read.
#[test]
fn tcpdump_and_tshark_stand_at_the_ends() {
    let folder = folder();
    for (reader, arguments) in [
        ("tcpdump", &["-n", "-r", "-"][..]),
        ("tshark", &["-n", "-r", "-"]),
    ] {
        if !has_program(reader, reader) {
            continue;
        }
        let listing = File::create(folder.path("listing")).expect("a file");
        let mut command = Command::new(reader);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(listing);
        let child = command.stderr(Stdio::null()).spawn();
        let mut child = child.expect("it is there");
        let run = [
            "run",
            "passes.toml",
            "--in",
            "a.pcap",
            "--out",
            "-",
            "--quiet",
        ];
        let pipe = child.stdin.take().expect("a pipe");
        let status = folder.command(&run).stdout(pipe).status();
        assert!(status.expect("it can be run").success());
        assert!(child.wait().expect("it ends").success());
        let listing = String::from_utf8_lossy(&folder.read("listing")).into_owned();
        let lines = listing.lines().filter(|line| !line.is_empty()).count();
        assert!(lines >= 3000, "{reader}: {lines} lines");
    }
}
