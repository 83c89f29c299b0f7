//! A service with large tables starts and serves, and how long that takes: `cargo xtask record start` keeps it.

use super::middle::{LONGEST_WAIT, Middle};
use super::programs::succeeds_soon;
use super::routed;
use std::fmt::Write;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;
use tempfile::TempDir;
use twinpath_netns::{has_program, is_possible};

/// The folder to which the page is written, if somebody wants it.
const OUT: &str = "TWINPATH_MEASURED_OUT";

/// How often it is started, if somebody wants other than once.
const STARTS: &str = "TWINPATH_STARTS";

/// Entries of a table.
const SLOTS: u64 = 1 << 20;

/// A firewall and a translation, each with a million flows' tables on both paths, between two ports.
#[test]
fn with_tables_for_a_million_flows() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    let network = routed::network();
    let service = routed::service("af_packet") + &format!("\n[fast_path]\nslots = {SLOTS}\n");
    let starts = std::env::var(STARTS).ok();
    let starts = starts.and_then(|starts| starts.parse().ok()).unwrap_or(1);
    let mut starts: Vec<(f64, u64)> = (0..starts)
        .map(|_| {
            let manager = Manager::start();
            let began = Instant::now();
            let middle = Middle::start_by(&network, &service, &[], &manager.environment());
            let resident = middle.resident_bytes() >> 20;
            let ping = ["-c1", "-W1", "198.51.100.1"];
            assert!(succeeds_soon(&network, "client", "ping", &ping));
            // Whoever stops it before it has told that it is ready is told of its end alone.
            let ready = manager.wait_until_ready();
            let report = middle.stop();
            assert!(report.slots.capacity >= SLOTS, "{:?}", report.slots);
            assert_eq!(manager.told_again(), 0, "it is told once");
            ((ready - began).as_secs_f64(), resident)
        })
        .collect();
    starts.sort_by(|one, other| one.0.total_cmp(&other.0));
    let page = page(&starts);
    println!("{page}");
    if let Some(folder) = std::env::var_os(OUT).map(PathBuf::from) {
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("start.md"), page).expect("it can be written");
    }
}

/// Hears when a service is ready.
struct Manager {
    folder: TempDir,
    /// When it told that it was ready, each time until its end.
    ready: Receiver<Instant>,
}

impl Manager {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        let timeout = Some(LONGEST_WAIT);
        socket.set_read_timeout(timeout).expect("possible");
        let (tells, ready) = mpsc::channel();
        std::thread::spawn(move || tell_until_the_end(&socket, &tells));
        Self { folder, ready }
    }

    fn environment(&self) -> [(&str, String); 1] {
        let socket = self.folder.path().join("notify");
        [("NOTIFY_SOCKET", socket.to_string_lossy().into_owned())]
    }

    fn wait_until_ready(&self) -> Instant {
        let ready = self.ready.recv_timeout(LONGEST_WAIT);
        ready.expect("it tells that it is ready")
    }

    /// How often it told so again until its end.
    fn told_again(self) -> usize {
        self.ready.iter().count()
    }
}

fn tell_until_the_end(socket: &UnixDatagram, ready: &Sender<Instant>) {
    let mut bytes = [0; 4096];
    loop {
        let count = socket.recv(&mut bytes).expect("it tells of its end");
        let told = String::from_utf8_lossy(&bytes[..count]);
        if told.contains("READY=1") {
            _ = ready.send(Instant::now());
        }
        if told.contains("STOPPING=1") {
            return;
        }
    }
}

fn page(starts: &[(f64, u64)]) -> String {
    let mut text = format!(
        "A firewall, a translation and a router over two ports, with tables for a million flows in each and on \
         both paths: from the process's start until it tells its service manager that it is ready, in {} starts.\n\n| | \
         |\n|---|---|\n",
        starts.len()
    );
    let (least, most) = (starts.first(), starts.last());
    let middle = starts.get(starts.len() / 2);
    for (name, start) in [("least", least), ("median", middle), ("most", most)] {
        let (seconds, _) = start.copied().unwrap_or_default();
        let _ = writeln!(text, "| {name} | {seconds:.2} s |");
    }
    let resident = middle.map_or(0, |&(_, resident)| resident);
    let _ = writeln!(text, "| resident then | {resident} MB |");
    text
}
