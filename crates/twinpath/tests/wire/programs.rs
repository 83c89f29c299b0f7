//! Programs that hosts run.

use super::middle::wait_for;
use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use tempfile::TempDir;
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

/// How much a web server serves, in bytes.
const CONTENT: u32 = 64 << 20;

/// nginx with one file.
pub struct WebServer {
    _server: Server,
    folder: TempDir,
}

impl WebServer {
    /// Starts it on a host; it listens when this returns.
    pub fn start(network: &Network, host: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display();
        let text = format!(
            "daemon off; user root; pid {path}/pid; error_log {path}/errors; events {{}}\n\
             http {{ access_log off; client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;\n\
             fastcgi_temp_path {path}/fastcgi; uwsgi_temp_path {path}/uwsgi; scgi_temp_path {path}/scgi;\n\
             server {{ listen 80; listen [::]:80; root {path}; }} }}\n"
        );
        fs::write(folder.path().join("nginx.conf"), text).expect("a file");
        let content: Vec<u8> = (0..CONTENT)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        fs::write(folder.path().join("file"), content).expect("a file");
        let configuration = folder.path().join("nginx.conf");
        let arguments = ["-c", &configuration.to_string_lossy()];
        let server = Server::start(network, host, "nginx", &arguments);
        let is_there = succeeds_soon(
            network,
            host,
            "curl",
            &["-sS", "-o", "/dev/null", "http://localhost/file"],
        );
        let errors = || fs::read_to_string(folder.path().join("errors"));
        assert!(is_there, "nginx does not listen: {:?}", errors());
        Self {
            _server: server,
            folder,
        }
    }

    /// Where its files are.
    fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A host fetches its file from an address, which must come as it is.
    pub fn is_fetched(&self, network: &Network, host: &str, address: &str) {
        let got = self.folder().join("got");
        let (path, url) = (got.to_string_lossy(), format!("http://{address}/file"));
        let arguments = ["-sS", "--max-time", "30", "-o", &path, &url];
        succeed(network, host, "curl", &arguments);
        let got = fs::read(&got).expect("it was fetched");
        assert!(got == self.content(), "{url} came otherwise");
    }

    /// What it serves as `/file`.
    fn content(&self) -> Vec<u8> {
        fs::read(self.folder().join("file")).expect("its own file")
    }
}
