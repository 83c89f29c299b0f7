//! A service that runs on a host of its own, with a cable to each neighbour.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use twinpath_control::report::{Report, json};
use twinpath_netns::Network;

/// How long anything may take at most.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Hosts `client` and `server` in one network, which is cut by the host `middle`: its ports are
/// `inside`, towards the client, and `outside`.
pub fn cut_network() -> Network {
    let mut network = Network::new();
    for (host, port, last) in [("client", "inside", 1), ("server", "outside", 2)] {
        network.cable(&format!("middle {port}"), &format!("{host} eth0"));
        network.address(host, "eth0", &format!("10.9.0.{last}/24"));
        network.address(host, "eth0", &format!("fd09::{last}/64"));
    }
    network
}

/// A service on the host `middle`.
pub struct Middle {
    process: Child,
    folder: TempDir,
}

impl Middle {
    /// Starts it; its ports are open when this returns.
    pub fn start(network: &Network, service: &str) -> Self {
        Self::start_with(network, service, &[])
    }

    /// The same, with more arguments.
    pub fn start_with(network: &Network, service: &str, more: &[&str]) -> Self {
        Self::start_telling(network, service, more, Stdio::piped())
    }

    /// The same, with files beside the service file.
    pub fn start_beside(network: &Network, service: &str, files: &[(&str, &str)]) -> Self {
        let folder = folder(service);
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("a file");
        }
        Self::start_in(network, folder, &[], Stdio::piped())
    }

    /// The same, with standard error elsewhere.
    pub fn start_telling(network: &Network, service: &str, more: &[&str], to: Stdio) -> Self {
        Self::start_in(network, folder(service), more, to)
    }

    /// Kills it as the kernel would, without a word to it, and starts it again where it was.
    pub fn killed_and_started(mut self, network: &Network) -> Self {
        self.process.kill().expect("its own child");
        self.process.wait().expect("its own child");
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().expect("a folder"));
        Self::start_in(network, folder, &[], Stdio::piped())
    }

    /// The same, started by words that come before the program and whoever sets its environment.
    pub fn start_by(
        network: &Network,
        service: &str,
        launcher: &[String],
        environment: &[(&str, String)],
    ) -> Self {
        let program = env!("CARGO_BIN_EXE_twinpath").to_owned();
        let words = [launcher, &[program]].concat();
        let mut command = network.command("middle", &words[0]);
        command.args(&words[1..]);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        Self::start_command(command, folder(service), &[], Stdio::piped())
    }

    fn start_in(network: &Network, folder: TempDir, more: &[&str], to: Stdio) -> Self {
        let command = network.command("middle", env!("CARGO_BIN_EXE_twinpath"));
        Self::start_command(command, folder, more, to)
    }

    fn start_command(mut command: Command, folder: TempDir, more: &[&str], to: Stdio) -> Self {
        command.args(["run", "service.toml"]);
        if !more.contains(&"--log-format") {
            command.args(["--quiet", "--report", "report"]);
        }
        command.args(["--control", "socket"]).args(more);
        command.current_dir(&folder);
        command.stdout(Stdio::piped()).stderr(to);
        let process = command.spawn().expect("it starts");
        let mut middle = Self { process, folder };
        let mut is_over = false;
        let is_ready = wait_for(|| {
            is_over = middle.process.try_wait().is_ok_and(|end| end.is_some());
            is_over || middle.asked(&["rules"]).is_some()
        });
        assert!(
            is_ready && !is_over,
            "it does not start: {:?}",
            middle.end()
        );
        middle
    }

    /// What a command says that asks the service at its control socket; `None` if it has no answer.
    pub fn asked(&self, words: &[&str]) -> Option<String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_twinpath"));
        command
            .args(words)
            .arg("--control")
            .arg(self.path("socket"));
        let output = command.output().expect("it can be run");
        // Having nothing to show is an answer.
        let has_answered = matches!(output.status.code(), Some(0 | 1));
        has_answered.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Bytes of memory that it has at the moment.
    pub fn resident_bytes(&self) -> u64 {
        resident_bytes(self.process.id())
    }

    /// The names of its threads.
    pub fn thread_names(&self) -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.process.id()));
        let threads = threads.expect("it runs").flatten();
        let names = threads.filter_map(|one| fs::read_to_string(one.path().join("comm")).ok());
        names.map(|name| name.trim_end().to_owned()).collect()
    }

    /// Sends it a signal, by its name.
    pub fn signal(&self, name: &str) {
        let number = self.process.id().to_string();
        let sent = Command::new("kill").args([name, &number]).output();
        sent.expect("kill is there");
    }

    /// Kills it as the kernel would.
    pub fn kill(mut self) {
        self.process.kill().expect("its own child");
        self.process.wait().expect("its own child");
    }

    /// Waits for its end by itself, for which it has a time.
    pub fn ends_by_itself(&mut self) -> bool {
        wait_for(|| self.process.try_wait().is_ok_and(|end| end.is_some()))
    }

    /// A file beside the service file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Stops it as an operator would, and reads its report.
    pub fn stop(mut self) -> Report {
        let said = self.end();
        assert!(said.status.success(), "{said:?}");
        self.report()
    }

    /// Waits for its end, which it was asked for already, and reads its report.
    pub fn ended(mut self) -> Report {
        assert!(self.ends_by_itself());
        self.report()
    }

    /// Stops it, and tells what it said.
    pub fn stopped(mut self) -> Output {
        self.end()
    }

    fn report(&self) -> Report {
        let text = fs::read_to_string(self.path("report/report.json")).expect("a report");
        json::from_text(&text).expect("a report")
    }

    fn end(&mut self) -> Output {
        self.signal("-INT");
        let has_ended = wait_for(|| self.process.try_wait().is_ok_and(|end| end.is_some()));
        if !has_ended {
            self.process.kill().expect("its own child");
        }
        let status = self.process.wait().expect("its own child");
        let read = |from: Option<&mut dyn std::io::Read>| {
            let mut bytes = Vec::new();
            from.map(|from| from.read_to_end(&mut bytes));
            bytes
        };
        Output {
            status,
            stdout: read(self.process.stdout.as_mut().map(|out| out as _)),
            stderr: read(self.process.stderr.as_mut().map(|out| out as _)),
        }
    }
}

impl Drop for Middle {
    fn drop(&mut self) {
        // After a test has failed; else it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A folder with a service file.
fn folder(service: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("service.toml"), service).expect("a file");
    folder
}

/// Bytes of memory that a process has at the moment.
pub fn resident_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.expect("it runs") << 10
}

/// Waits until something is so, and tells whether it came to be.
pub fn wait_for(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + LONGEST_WAIT;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
