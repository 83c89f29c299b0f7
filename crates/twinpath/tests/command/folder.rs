//! A folder to run the command in.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use twinpath_compare::blank_drawn;
use twinpath_control::report::{Report, json};
use twinpath_core::wire::dissect;
use twinpath_core::{FlowKey, Steering};
use twinpath_io::Trace;

/// A folder that is gone after the test.
pub struct Folder(TempDir);

/// Packets with their times, by flow; what is no IP has none.
pub type Flows = BTreeMap<Option<FlowKey>, Vec<(u64, Vec<u8>)>>;

/// What a command said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// A folder with one file.
    pub fn with(name: &str, text: &str) -> Self {
        let folder = Self::new();
        folder.write(name, text.as_bytes());
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("a file can be written");
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// A capture's packets with their times, by flow.
    pub fn flows(&self, name: &str) -> Flows {
        self.flows_of(name, |_| {})
    }

    /// The same without identifications that a translation may have drawn: each path has others.
    pub fn undrawn_flows(&self, name: &str) -> Flows {
        self.flows_of(name, blank_drawn)
    }

    fn flows_of(&self, name: &str, change: impl Fn(&mut [u8])) -> Flows {
        let (steering, mut flows) = (Steering::new(0), Flows::new());
        for packet in Trace::load(self.path(name)).expect("a capture").iter() {
            let mut frame = packet.frame.to_vec();
            change(&mut frame);
            let layout = dissect(&frame).ok();
            let key = layout
                .and_then(|layout| steering.key(&frame, &layout))
                .map(|keyed| keyed.key);
            let flow = flows.entry(key).or_default();
            flow.push((packet.timestamp_ns, frame));
        }
        flows
    }

    /// The report in a folder.
    pub fn report(&self, folder: &str) -> Report {
        json::read(&self.path(folder).join("report.json")).expect("a report")
    }

    /// Runs a capture over both paths, to `both.pcap` and a report in `both`, and over the workers
    /// alone, to `slow.pcap` and `slow`. The fast path must have had something to do.
    pub fn run_both_ways(&self, service: &str, capture: &str) {
        for paths in ["both", "slow"] {
            let out = format!("{paths}.pcap");
            let ways = ["--execution", "virtual", "--paths", paths];
            let ports = ["--in", capture, "--out", &out, "--report", paths];
            self.succeed(&[&["run", service][..], &ways, &ports].concat());
        }
        assert!(
            self.report("both").fast.packets > 0,
            "{service}, {capture}: all on the slow path"
        );
    }

    /// Runs the command to its end.
    pub fn run(&self, arguments: &[&str]) -> Said {
        self.command(arguments)
            .output()
            .expect("the command can be run")
            .into()
    }

    /// Runs the command, which must end well.
    pub fn succeed(&self, arguments: &[&str]) -> Said {
        let said = self.run(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {said:?}");
        said
    }

    /// Runs the command, which must have no answer and say why.
    pub fn fail(&self, arguments: &[&str], why: &str) -> Said {
        let said = self.run(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(
            said.err.contains(why),
            "{arguments:?}: expected {why:?} in {said:?}"
        );
        assert!(!said.err.contains("panicked"), "{said:?}");
        said
    }

    /// Starts the command.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run")
    }

    /// The command, in this folder, without input.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_twinpath"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

/// Presses Ctrl-C.
pub fn interrupt(child: &Child) {
    signal(child, "INT");
}

/// Sends a signal, by its name.
pub fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    let status = Command::new("sh")
        .args(["-c", &kill])
        .status()
        .expect("a shell");
    assert!(status.success());
}

/// Waits until a process catches the request to terminate, and a little longer.
pub fn waits_for_signals(child: &Child) {
    /// Bits of signals are counted from 0.
    const TERMINATE: u64 = 1 << (15 - 1);
    let catches = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        caught.is_some_and(|bits| bits & TERMINATE != 0)
    };
    let begun = Instant::now();
    while !catches() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it catches signals"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(50));
}

/// A shared capture; `None` (with a notice) where it is absent.
pub fn shared_capture(name: &str) -> Option<String> {
    let path = twinpath_captures::shared_capture(name)?;
    Some(path.to_string_lossy().into_owned())
}
