//! A service that runs on a host of its own, with a cable to each neighbour.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use twinpath_control::report::{Report, json};
use twinpath_netns::Network;

/// How long anything may take at most.
pub const PATIENCE: Duration = Duration::from_secs(60);

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
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("service.toml"), service).expect("a file");
        let mut command = network.command("middle", env!("CARGO_BIN_EXE_twinpath"));
        command.args(["run", "service.toml", "--report", "report", "--quiet"]);
        command.args(["--control", "socket"]).args(more);
        command.current_dir(&folder);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("it starts");
        let socket = folder.path().join("socket");
        let is_ready =
            wait_for(|| socket.exists() || process.try_wait().is_ok_and(|end| end.is_some()));
        let mut middle = Self { process, folder };
        let has_ended = middle.process.try_wait().expect("its own child").is_some();
        assert!(
            is_ready && !has_ended,
            "it does not start: {:?}",
            middle.end()
        );
        middle
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
        let text = fs::read_to_string(self.path("report/report.json")).expect("a report");
        json::from_text(&text).expect("a report")
    }

    fn end(&mut self) -> Output {
        let number = self.process.id().to_string();
        let killed = std::process::Command::new("kill")
            .args(["-INT", &number])
            .status();
        killed.expect("kill is there");
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

/// Waits until something is so, and tells whether it came to be.
pub fn wait_for(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
