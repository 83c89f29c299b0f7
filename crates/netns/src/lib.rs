//! Hosts and cables for tests, on any Linux where we are root: a host is a network namespace, a cable
//! a pair of virtual interfaces with one end in each of two hosts. All are gone when the [`Network`]
//! is dropped.
//!
//! ```no_run
//! let mut network = twinpath_netns::Network::new();
//! network.cable("client eth0", "server eth0");
//! network.address("client", "eth0", "10.9.0.1/24");
//! network.address("server", "eth0", "10.9.0.2/24");
//! let ping = network.run("client", "ping", &["-c1", "10.9.0.2"]);
//! assert!(ping.status.success());
//! ```
#![forbid(unsafe_code)]

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

/// Hosts and the cables between them.
pub struct Network {
    prefix: String,
    hosts: Vec<String>,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

/// One package is installed at a time: another one would find its lists and its database locked.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Whether hosts can be made here. If not, that is told, and with `CI` in the environment it is an
/// error.
#[must_use]
pub fn is_possible() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let is_possible = is_root && Command::new("ip").arg("-V").output().is_ok();
    if !is_possible {
        let message = "tests in network namespaces need root and iproute2";
        assert!(std::env::var_os("CI").is_none(), "{message}");
        eprintln!("skipped: {message}");
    }
    is_possible
}

/// Whether a program is there; as root it is installed from a Debian package if it is not. If it
/// cannot be had, that is told, and with `CI` in the environment it is an error.
#[must_use]
pub fn has_program(program: &str, package: &str) -> bool {
    let is_there = || {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output();
        found.is_ok_and(|output| output.status.success())
    };
    let install = || {
        let apt = |arguments: &[&str]| Command::new("apt-get").args(arguments).output().is_ok();
        let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        rustix::process::geteuid().is_root()
            && apt(&["update", "-qq"])
            && apt(&["install", "-y", "-qq", "--no-install-recommends", package])
            && is_there()
    };
    let has = is_there() || install();
    if !has {
        let message = format!("{program} is not there: install {package}");
        assert!(std::env::var_os("CI").is_none(), "{message}");
        eprintln!("skipped: {message}");
    }
    has
}

/// Runs `ip` with words.
///
/// # Panics
/// It fails.
pub fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    let output = output.expect("iproute2 is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words}: {said}");
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

impl Network {
    /// No hosts yet.
    #[must_use]
    pub fn new() -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("tp{}-{number}", std::process::id());
        let hosts = Vec::new();
        Self { prefix, hosts }
    }

    /// The name of a host's namespace, as `ip netns` has it.
    #[must_use]
    pub fn namespace(&self, host: &str) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// Makes a host, unless there is one of this name.
    pub fn host(&mut self, host: &str) {
        if self.hosts.iter().any(|known| known == host) {
            return;
        }
        self.hosts.push(host.to_owned());
        ip(&format!("netns add {}", self.namespace(host)));
        self.ip(host, "link set lo up");
    }

    /// Connects two interfaces, each written as host and name. Both are up.
    ///
    /// # Panics
    /// They are not written so.
    pub fn cable(&mut self, one: &str, other: &str) {
        self.cable_with(one, other, "");
    }

    /// The same, with so many queues in each direction at both ends.
    ///
    /// # Panics
    /// They are not written so.
    pub fn cable_of_queues(&mut self, one: &str, other: &str, queues: u32) {
        let words = format!("numrxqueues {queues} numtxqueues {queues}");
        self.cable_with(one, other, &words);
    }

    fn cable_with(&mut self, one: &str, other: &str, words: &str) {
        let (host, name) = one.split_once(' ').expect("host and interface");
        let (other_host, other_name) = other.split_once(' ').expect("host and interface");
        self.host(host);
        self.host(other_host);
        let to = self.namespace(other_host);
        self.ip(
            host,
            &format!("link add {name} {words} type veth peer name {other_name} netns {to} {words}"),
        );
        self.ip(host, &format!("link set {name} up"));
        self.ip(other_host, &format!("link set {other_name} up"));
    }

    /// How many queues are in use in each direction, of interfaces that are written as host and name;
    /// one after the other. With `ethtool`, which must be there.
    ///
    /// # Panics
    /// An interface has no such number of queues.
    pub fn use_queues(&self, interfaces: &[&str], queues: u32) {
        for one in interfaces {
            let (host, name) = one.split_once(' ').expect("host and interface");
            let queues = queues.to_string();
            let done = self.run(host, "ethtool", &["-L", name, "rx", &queues, "tx", &queues]);
            assert!(done.status.success(), "{one} {queues}: {done:?}");
        }
    }

    /// Gives an interface an address, which is used at once.
    pub fn address(&self, host: &str, interface: &str, address: &str) {
        let at_once = if address.contains(':') { "nodad" } else { "" };
        self.ip(
            host,
            &format!("address add {address} dev {interface} {at_once}"),
        );
    }

    /// Runs `ip` on a host.
    pub fn ip(&self, host: &str, words: &str) {
        ip(&format!("-n {} {words}", self.namespace(host)));
    }

    /// A program that will run on a host.
    #[must_use]
    pub fn command(&self, host: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(host), program]);
        command
    }

    /// Runs a program on a host.
    ///
    /// # Panics
    /// There is no such program.
    pub fn run(&self, host: &str, program: &str, arguments: &[&str]) -> Output {
        let output = self.command(host, program).args(arguments).output();
        output.expect("the program is there")
    }

    /// Runs something on a host, on a thread of its own.
    ///
    /// # Panics
    /// There is no such host.
    pub fn on<T: Send + 'static>(
        &self,
        host: &str,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let path = format!("/var/run/netns/{}", self.namespace(host));
        let namespace = File::open(path).expect("a host that was made");
        std::thread::spawn(move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).expect("root may enter it");
            run()
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in &self.hosts {
            let name = self.namespace(host);
            // A thread that is still inside keeps it alive, and it goes with that.
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}
