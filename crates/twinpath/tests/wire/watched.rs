//! Who watches a service between cables: the state of its ports, the service manager, and what it
//! may do once its interfaces are open.

use super::middle::{Middle, cut_network, wait_for};
use super::programs::succeeds_soon;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use twinpath_netns::{Network, has_program, is_possible};

const PORT: u16 = 9477;

fn service(driver: &str) -> String {
    format!(
        "[service]\nname = \"bump\"\nchain = [\"firewall\"]\nunparsed = \"forward\"\n\
         inside = [\"10.9.0.1\", \"fd09::1\"]\ninside_ports = [\"inside\"]\n\
         [ports]\ninside = {{ device = \"inside\", driver = \"{driver}\" }}\n\
         outside = {{ device = \"outside\", driver = \"{driver}\" }}\n\
         [metrics]\nlisten = \"127.0.0.1:{PORT}\"\n\
         [firewall]\ndefault = \"allow\"\n"
    )
}

/// What a path answers on the host in the middle.
pub fn asked(network: &Network, path: &'static str) -> String {
    let ask = move || {
        let mut answer = String::new();
        let stream = TcpStream::connect(("127.0.0.1", PORT));
        let read = stream.and_then(|mut stream| {
            stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes())?;
            stream.read_to_string(&mut answer)
        });
        read.map(|_| answer).unwrap_or_default()
    };
    network.on("middle", ask).join().expect("no panic")
}

#[test]
fn health_and_figures_tell_of_a_port_that_goes_down() {
    if !is_possible() || !has_program("ping", "iputils-ping") {
        return;
    }
    for driver in super::DRIVERS {
        let network = cut_network();
        let middle = Middle::start(&network, &service(driver));
        let becomes = |path, part: &str| {
            let is_so = wait_for(|| asked(&network, path).contains(part));
            assert!(is_so, "{driver}: {part}: {}", asked(&network, path));
        };
        becomes("/healthz", "200 OK");
        let ping = ["-c3", "-i0.2", "-W1", "10.9.0.2"];
        assert!(succeeds_soon(&network, "client", "ping", &ping));
        let by = if driver == "auto" {
            "af_packet"
        } else {
            driver
        };
        let up = "twinpath_port_up{port=\"outside\",device=\"outside\",driver=";
        becomes("/metrics", &format!("{up}\"{by}\"}} 1\n"));
        let metrics = asked(&network, "/metrics");
        let received = "twinpath_port_rx_packets_total{port=\"inside\"";
        let received = metrics.lines().find(|line| line.starts_with(received));
        let count = received.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        assert!(count > Some(0), "{driver}: {received:?}");
        network.ip("server", "link set eth0 down");
        becomes("/healthz", "503 Service Unavailable");
        becomes("/healthz", "port outside is down\n");
        becomes("/metrics", &format!("{up}\"{by}\"}} 0\n"));
        network.ip("server", "link set eth0 up");
        becomes("/healthz", "200 OK");
        let report = middle.stop();
        assert_eq!(report.ports[1].outages, 1, "{driver}");
        assert!(report.ports.iter().all(|port| port.is_up), "{driver}");
    }
}

/// As a unit with a user of its own and ambient capabilities starts it.
#[test]
fn capabilities_are_dropped_when_interfaces_are_open() {
    if !is_possible()
        || !has_program("ping", "iputils-ping")
        || !has_program("setpriv", "util-linux")
    {
        return;
    }
    // Raw sockets alone are needed to open an interface again beside the kernel; else also what attaches
    // programs.
    for (driver, kept) in [
        ("af_packet", 1u64 << 13),
        ("auto", 1 << 13 | 1 << 12 | 1 << 39),
        ("af_xdp", 1 << 13 | 1 << 12 | 1 << 39),
    ] {
        let network = cut_network();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("service.toml");
        fs::write(&file, service(driver)).expect("a file");
        let mode = |path: &std::path::Path, mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(path, mode).expect("its own");
        };
        mode(folder.path(), 0o755);
        mode(&file, 0o644);
        let program = folder.path().join("twinpath");
        fs::copy(env!("CARGO_BIN_EXE_twinpath"), &program).expect("a copy");
        mode(&program, 0o755);
        // Buffers that AF_XDP shares with the kernel count as locked memory, of which a user has little; the
        // unit raises the limit instead, which root may not in some containers.
        let capabilities = "+net_raw,+net_admin,+bpf,+ipc_lock";
        let mut command = network.command("middle", "setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(format!("--inh-caps={capabilities}"));
        command.arg(format!("--ambient-caps={capabilities}"));
        command
            .arg(&program)
            .args(["run"])
            .arg(&file)
            .args(["--no-report", "--quiet"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        let is_ready = wait_for(|| asked(&network, "/healthz").contains("200 OK"));
        let said = is_ready.then(|| threads(child.id()));
        let killed = Command::new("kill")
            .arg("-INT")
            .arg(child.id().to_string())
            .status();
        assert!(killed.is_ok_and(|status| status.success()));
        let ended = child.wait_with_output().expect("its own child");
        let threads = said.unwrap_or_else(|| panic!("{driver}: {ended:?}"));
        assert!(threads.len() > 2, "{threads:?}");
        for (name, status) in threads {
            for (set, expected) in [
                ("CapEff", kept),
                ("CapPrm", kept),
                ("CapInh", 0),
                ("CapAmb", 0),
            ] {
                assert_eq!(
                    capability_set(&status, set),
                    expected,
                    "{driver}, {name}: {set}"
                );
            }
        }
        assert!(ended.status.success(), "{ended:?}");
    }
}

/// The status of each thread of a process, which `ip netns exec` and `setpriv` have become.
fn threads(process: u32) -> Vec<(String, String)> {
    let folder = fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let read = |thread: fs::DirEntry| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        Some((name.trim().to_owned(), status))
    };
    folder.flatten().filter_map(read).collect()
}

fn capability_set(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let text = line.map(|line| line.trim_start_matches(':').trim());
    let set = text.and_then(|text| u64::from_str_radix(text, 16).ok());
    set.unwrap_or_else(|| panic!("{name}: {status}"))
}
