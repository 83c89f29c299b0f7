//! Programs that hosts run.

use super::middle::wait_for;
use std::process::{Child, Output, Stdio};
use twinpath_netns::Network;

/// A program that serves until this is dropped.
pub struct Server(Child);

impl Server {
    /// Starts it on a host.
    pub fn start(network: &Network, host: &str, program: &str, arguments: &[&str]) -> Self {
        let mut command = network.command(host, program);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("it starts"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a program said that should have succeeded.
pub fn succeed(network: &Network, host: &str, program: &str, arguments: &[&str]) -> String {
    let output = network.run(host, program, arguments);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a program succeeds in the end.
pub fn succeeds_soon(network: &Network, host: &str, program: &str, arguments: &[&str]) -> bool {
    let is_well = |output: Output| output.status.success();
    wait_for(|| is_well(network.run(host, program, arguments)))
}
