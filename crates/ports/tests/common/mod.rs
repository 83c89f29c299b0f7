//! Two hosts with a cable between them, cut in the middle by a pair of ports.
//!
//! ```text
//! host "left"  eth0 ═ port0 │ forwarder │ port1 ═ eth0  host "right"
//! ```
//! Hosts are network namespaces; `port0` and `port1` are in one of their own, too, in which the forwarder's
//! thread runs.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Namespaces and cables, gone when dropped.
pub struct Topology {
    prefix: String,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Whether namespaces can be made here; if not, it is told, and under CI it is an error.
pub fn can_make_namespaces() -> bool {
    // SAFETY: asks for a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let can = is_root && Command::new("ip").arg("-V").output().is_ok();
    if !can {
        assert!(
            std::env::var_os("CI").is_none(),
            "tests of ports need root and iproute2"
        );
        eprintln!("skipped: tests of ports need root and iproute2");
    }
    can
}

pub fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output();
    let output = output.expect("iproute2");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}");
}

impl Topology {
    /// Two hosts, 10.9.0.1 and 10.9.0.2, fd09::1 and fd09::2.
    pub fn new() -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("tp{}-{number}", std::process::id());
        let topology = Self { prefix };
        let (left, middle, right) = (
            topology.name("left"),
            topology.name("middle"),
            topology.name("right"),
        );
        for namespace in [&left, &middle, &right] {
            ip(&format!("netns add {namespace}"));
            ip(&format!("-n {namespace} link set lo up"));
        }
        for (host, end, last) in [(&left, "port0", 1), (&right, "port1", 2)] {
            ip(&format!(
                "-n {middle} link add {end} type veth peer name eth0 netns {host}"
            ));
            ip(&format!("-n {host} address add 10.9.0.{last}/24 dev eth0"));
            ip(&format!(
                "-n {host} address add fd09::{last}/64 dev eth0 nodad"
            ));
            ip(&format!("-n {host} link set eth0 up"));
            ip(&format!("-n {middle} link set {end} up"));
        }
        topology
    }

    pub fn name(&self, host: &str) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// Runs something in a namespace, on a thread of its own.
    pub fn on<T: Send + 'static>(
        &self,
        host: &str,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let path = format!("/var/run/netns/{}", self.name(host));
        std::thread::spawn(move || {
            let namespace = File::open(path).expect("made above");
            // SAFETY: moves this thread to the namespace of an open descriptor.
            let result = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(result, 0, "root may enter it");
            run()
        })
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        for host in ["left", "middle", "right"] {
            let name = self.name(host);
            let _ = Command::new("ip").args(["netns", "del", &name]).status();
        }
    }
}
