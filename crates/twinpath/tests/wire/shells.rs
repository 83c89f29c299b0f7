//! Shells over ssh, and what is copied through them.

use super::programs::{Server, succeed, succeeds_soon};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use twinpath_netns::{Network, has_program};

/// How much is copied, in bytes.
const CONTENT: u32 = 16 << 20;

/// sshd with a key for whoever has this, at a port.
pub struct ShellServer {
    _server: Server,
    folder: TempDir,
    port: String,
}

/// Whether there are the programs that this takes, or they can be installed.
pub fn has_shells() -> bool {
    has_program("sshd", "openssh-server") && has_program("ssh", "openssh-client")
}

impl ShellServer {
    /// Starts it on a host.
    pub fn start(network: &Network, host: &str, port: u16) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        make_key(&path("host"));
        make_key(&path("client"));
        fs::copy(path("client.pub"), path("authorized")).expect("a copy");
        let settings = format!(
            "Port {port}\nHostKey {0}/host\nAuthorizedKeysFile {0}/authorized\nPidFile none\nStrictModes no\n\
             UsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n",
            folder.path().display()
        );
        fs::write(path("sshd"), settings).expect("a file");
        // Where sshd keeps what it has no rights for.
        fs::create_dir_all("/run/sshd").expect("root may make it");
        let content: Vec<u8> = (0..CONTENT)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        fs::write(path("content"), content).expect("a file");
        let settings = path("sshd");
        let arguments = ["-D", "-e", "-f", &settings.to_string_lossy()];
        Self {
            _server: Server::start(network, host, &which("sshd"), &arguments),
            folder,
            port: port.to_string(),
        }
    }

    /// A host opens a shell at an address, and copies a file there and back, which must come as it is.
    pub fn is_used(&self, network: &Network, host: &str, address: &str) {
        let path = |name: &str| self.folder.path().join(name);
        let key = path("client");
        let to = format!("root@{address}");
        let first = [
            "-F",
            "none",
            "-i",
            &key.to_string_lossy(),
            "-p",
            &self.port,
            "-oBatchMode=yes",
            "-oStrictHostKeyChecking=no",
            "-oUserKnownHostsFile=/dev/null",
            "-oLogLevel=ERROR",
            &to,
        ];
        let hello = [&first[..], &["echo", "hello"]].concat();
        assert!(succeeds_soon(network, host, "ssh", &hello), "{address}");
        assert_eq!(succeed(network, host, "ssh", &hello), "hello\n");
        let mut copy = network.command(host, "ssh");
        copy.args(first).arg("cat").stderr(Stdio::null());
        copy.stdin(File::open(path("content")).expect("a file"));
        copy.stdout(File::create(path("copy")).expect("a file"));
        let status = copy.status();
        assert!(status.is_ok_and(|status| status.success()), "{address}");
        let [content, copy] =
            ["content", "copy"].map(|name| fs::read(path(name)).expect("it is there"));
        assert!(content == copy, "{address}: it came otherwise");
    }
}

/// A key pair without a password.
fn make_key(path: &Path) {
    let mut keygen = Command::new("ssh-keygen");
    keygen
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path);
    assert!(
        keygen.status().is_ok_and(|status| status.success()),
        "a key is made"
    );
}

/// A program's whole path, as sshd wants to be called.
fn which(program: &str) -> String {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    let found = found.expect("a shell is there").stdout;
    String::from_utf8_lossy(&found).trim().to_owned()
}
