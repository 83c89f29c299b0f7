//! Programs that hosts run.

use super::middle::wait_for;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use twinpath_netns::{Network, has_program, is_possible};

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

/// How much a web server serves as `/file`, and as `/long`, in bytes.
const CONTENT: u64 = 64 << 20;
const LONG_CONTENT: u64 = 1 << 30;

/// A part of what is served.
const CHUNK: usize = 1 << 20;

/// nginx with a file, another that is longer, its host's name as `/who`, the client's address as
/// `/from`, and room under `/sent` for what clients send.
pub struct WebServer {
    _server: Server,
    folder: TempDir,
}

/// A download that is under way.
pub struct Download {
    process: Child,
    path: PathBuf,
    url: String,
}

impl WebServer {
    /// Starts it on a host; it listens when this returns.
    pub fn start(network: &Network, host: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display();
        // One process, which is gone when it is killed.
        let text = format!(
            "daemon off; master_process off; user root; pid {path}/pid; error_log {path}/errors; events {{}}\n\
             http {{ access_log off; client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;\n\
             fastcgi_temp_path {path}/fastcgi; uwsgi_temp_path {path}/uwsgi; scgi_temp_path {path}/scgi;\n\
             server {{ listen 80; listen [::]:80; root {path};\n\
             location /sent/ {{ dav_methods PUT; create_full_put_path on; client_max_body_size 0; }}\n\
             location = /from {{ default_type text/plain; return 200 $remote_addr; }} }} }}\n"
        );
        fs::write(folder.path().join("nginx.conf"), text).expect("a file");
        fs::write(folder.path().join("who"), host).expect("a file");
        write_content(&folder.path().join("file"), CONTENT);
        let configuration = folder.path().join("nginx.conf");
        let arguments = ["-c", &configuration.to_string_lossy()];
        let server = Server::start(network, host, "nginx", &arguments);
        let is_there = succeeds_soon(
            network,
            host,
            "curl",
            &["-sS", "-o", "/dev/null", "http://localhost/who"],
        );
        let errors = || fs::read_to_string(folder.path().join("errors"));
        assert!(is_there, "nginx does not listen: {:?}", errors());
        Self {
            _server: server,
            folder,
        }
    }

    /// A host finds the server at an address, fetches its file and sends one.
    pub fn exchanges(&self, network: &Network, host: &str, address: &str) {
        let ping = ["-c1", "-W1", address.trim_matches(['[', ']'])];
        let answers = succeeds_soon(network, host, "ping", &ping);
        assert!(answers, "{address} does not answer");
        self.is_fetched(network, host, address);
        self.is_sent(network, host, address);
    }

    /// A host fetches its file from an address, which must come as it is.
    pub fn is_fetched(&self, network: &Network, host: &str, address: &str) {
        begin_fetch(network, host, address, "10G").comes_whole();
    }

    /// The same over two seconds and more.
    pub fn is_fetched_slowly(&self, network: &Network, host: &str, address: &str) {
        let rate = (CONTENT / 2).to_string();
        begin_fetch(network, host, address, &rate).comes_whole();
    }

    /// A host sends a file of a mebibyte to an address, which must be there as it was.
    pub fn is_sent(&self, network: &Network, host: &str, address: &str) {
        const LEN: u64 = 1 << 20;
        let to_send = self.folder.path().join("to-send");
        write_content(&to_send, LEN);
        let url = format!("http://{address}/sent/file");
        let file = to_send.to_string_lossy();
        let send = ["-sS", "--fail", "--max-time", "60", "-T", &file, &url];
        succeed(network, host, "curl", &send);
        let sent = self.folder.path().join("sent/file");
        let came = File::open(&sent).expect("it was sent");
        assert!(is_content(came, LEN), "{url} came otherwise");
        fs::remove_file(&sent).expect("it is there");
    }

    /// A host fetches a file of a gibibyte from an address, that many bytes of which nobody keeps.
    pub fn is_fetched_at_length(&self, network: &Network, host: &str, address: &str) {
        let long = self.folder.path().join("long");
        if !long.exists() {
            write_content(&long, LONG_CONTENT);
        }
        let mut command = network.command(host, "curl");
        command.args([
            "-sS",
            "--max-time",
            "120",
            &format!("http://{address}/long"),
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("it starts");
        let body = process.stdout.take().expect("it is piped");
        assert!(
            is_content(body, LONG_CONTENT),
            "{address}: it came otherwise"
        );
        assert!(
            process.wait().expect("its own child").success(),
            "{address}"
        );
    }
}

/// Whether hosts can ping, and fetch files from a web server.
pub fn can_transfer() -> bool {
    is_possible()
        && has_program("ping", "iputils-ping")
        && has_program("nginx", "nginx")
        && has_program("curl", "curl")
}

/// A host begins to fetch the file of whoever has an address, no faster than so much a second.
pub fn begin_fetch(network: &Network, host: &str, address: &str, rate: &str) -> Download {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("twinpath-got-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let url = format!("http://{address}/file");
    let mut command = network.command(host, "curl");
    command.args(["-sS", "--max-time", "60", "--limit-rate", rate, "-o"]);
    command.arg(&path).arg(&url);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let process = command.spawn().expect("it starts");
    Download { process, path, url }
}

impl Download {
    /// How much has come so far, in bytes.
    pub fn len(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Waits for its end, and tells whether all has come.
    pub fn came(mut self) -> bool {
        let is_over = self.process.wait().expect("its own child").success();
        let got = File::open(&self.path).expect("something was fetched");
        let is_whole = is_content(got, CONTENT);
        assert!(is_whole || !is_over, "{} came otherwise", self.url);
        is_over
    }

    /// Waits for its end: all must have come as it is.
    pub fn comes_whole(self) {
        let url = self.url.clone();
        assert!(self.came(), "{url} did not come");
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.path);
    }
}

/// Bytes of which no two places are alike for long.
fn chunk(number: u64, chunk: &mut [u8]) {
    let first = (number as u32).wrapping_mul(CHUNK as u32);
    for (at, byte) in (first..).zip(chunk) {
        *byte = (at.wrapping_mul(2_654_435_761) >> 13) as u8;
    }
}

fn write_content(path: &Path, len: u64) {
    let mut file = File::create(path).expect("a file");
    let mut bytes = vec![0; CHUNK];
    for number in 0..len / CHUNK as u64 {
        chunk(number, &mut bytes);
        file.write_all(&bytes).expect("there is room");
    }
}

/// Whether all bytes are those that are served, and there are as many.
fn is_content(mut from: impl Read, len: u64) -> bool {
    let (mut got, mut expected) = (vec![0; CHUNK], vec![0; CHUNK]);
    for number in 0..len / CHUNK as u64 {
        chunk(number, &mut expected);
        if from.read_exact(&mut got).is_err() || got != expected {
            return false;
        }
    }
    from.read(&mut got).is_ok_and(|more| more == 0)
}
