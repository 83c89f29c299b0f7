//! Files that `twinpath run` reads and writes.

use crate::folder::Folder;
use std::fs;
use std::os::unix::fs::symlink;

const SERVICE: &str = "[service]\nchain = [\"reassembler\"]\n[traffic]\npackets = 100\n";

const PORTS: &str =
    "[service]\nchain = [\"monitor\"]\nports = [\"site\", \"uplink\"]\ninside = [\"10.0.0.0/8\"]\n";

fn with_capture(service: &str) -> Folder {
    let folder = Folder::with("service.toml", service);
    folder.succeed(&["generate", "--packets", "100", "--out", "a.pcap"]);
    folder
}

#[test]
fn what_is_read_is_not_replaced_by_what_is_written() {
    let folder = with_capture(SERVICE);
    let before = folder.read("a.pcap");
    symlink("a.pcap", folder.path("link.pcap")).expect("a link");
    fs::hard_link(folder.path("a.pcap"), folder.path("hard.pcap")).expect("a link");
    for out in ["a.pcap", "./a.pcap", "link.pcap", "hard.pcap"] {
        folder.fail(
            &["run", "service.toml", "--in", "a.pcap", "--out", out],
            &format!("error: {out} is what --out writes and what --in reads"),
        );
    }
    folder.fail(
        &[
            "run",
            "service.toml",
            "--in",
            "a.pcap",
            "--out",
            "service.toml",
        ],
        "error: service.toml is what --out writes and the service file: expected different files",
    );
    folder.fail(
        &[
            "generate",
            "--service",
            "service.toml",
            "--out",
            "./service.toml",
        ],
        "error: ./service.toml is what --out writes and what describes the traffic",
    );
    assert_eq!(folder.read("a.pcap"), before);
    assert_eq!(folder.read("service.toml"), SERVICE.as_bytes());
}

#[test]
fn a_report_replaces_neither_input_nor_output() {
    let folder = with_capture(SERVICE);
    fs::create_dir(folder.path("r")).expect("a folder");
    fs::hard_link(folder.path("a.pcap"), folder.path("r/report.json")).expect("a link");
    let before = folder.read("a.pcap");
    folder.fail(
        &["run", "service.toml", "--in", "a.pcap", "--report", "r"],
        "error: r/report.json is what --report writes and what --in reads",
    );
    fs::remove_file(folder.path("r/report.json")).expect("a file");
    let flags = ["--in", "a.pcap", "--report", "r", "--out", "r/report.html"];
    folder.fail(
        &[&["run", "service.toml"][..], &flags].concat(),
        "error: r/report.html is what --report writes and what --out writes",
    );
    assert_eq!(folder.read("a.pcap"), before);
}

#[test]
fn captures_for_each_port_replace_none_of_those_that_are_read() {
    let folder = Folder::with("service.toml", PORTS);
    for port in ["site", "uplink"] {
        let out = format!("in-{port}.pcap");
        folder.succeed(&["generate", "--packets", "10", "--out", &out]);
    }
    let before = folder.read("in-uplink.pcap");
    symlink("in-uplink.pcap", folder.path("out-site.pcap")).expect("a link");
    let ports = ["--in", "in-{port}.pcap", "--out", "out-{port}.pcap"];
    folder.fail(
        &[&["run", "service.toml"][..], &ports].concat(),
        "error: out-site.pcap is what --out writes and what --in reads",
    );
    assert_eq!(folder.read("in-uplink.pcap"), before);
}

#[test]
fn files_that_the_service_names_are_not_replaced() {
    let routed = "[service]\nchain = [\"router\"]\n[router]\nroutes_file = \"a.routes\"\n\
        next_hops = [{ name = \"up\", mac = \"02:00:00:00:01:01\", source_mac = \"02:00:00:00:00:01\", port = 1 }]\n";
    let folder = with_capture(routed);
    folder.write("a.routes", b"0.0.0.0/0 up\n");
    folder.fail(
        &["run", "service.toml", "--in", "a.pcap", "--out", "a.routes"],
        "error: a.routes is what --out writes and a file that the service file names",
    );
    assert_eq!(folder.read("a.routes"), b"0.0.0.0/0 up\n");
}

/// Interfaces of a pcapng that are called like no port are ports by their numbers, or those that
/// are left, which is told once.
#[test]
fn interfaces_that_are_called_like_no_port_are_told_of() {
    let folder = Folder::with("service.toml", PORTS);
    let captured_at = |ports: &str| {
        let text = PORTS.replace("\"site\", \"uplink\"", ports);
        folder.write("captured.toml", (text + "[traffic]\n").as_bytes());
        let flags = ["--service", "captured.toml", "--packets", "200"];
        folder.succeed(&[&["generate"][..], &flags, &["--out", "a.pcapng"]].concat());
    };
    let warned = |command: &[&str]| {
        let said = folder.succeed(&[command, &["--in", "a.pcapng"]].concat());
        let told = said.err.matches("are called like no port").count();
        (told, said.err)
    };
    let run = ["run", "service.toml", "--out", "b.pcapng", "--quiet"];
    for (ports, expected) in [
        (
            "\"eth0\", \"eth1\"",
            "called like no port of the service (site, uplink): packets were taken by their numbers, \
             or by a port that no other interface is called like, \
             of \"eth0\" as from site, of \"eth1\" as from uplink",
        ),
        ("\"uplink\", \"a\"", "is called like, of \"a\" as from site"),
    ] {
        captured_at(ports);
        for command in [&run[..], &["trace", "service.toml", "--packet", "1"]] {
            let (told, err) = warned(command);
            assert!(told == 1 && err.contains(expected), "{command:?}: {err}");
        }
    }
    captured_at("\"uplink\", \"site\"");
    assert_eq!(warned(&run).0, 0, "in another order");
}

#[test]
fn words_in_braces_that_stand_for_nothing_are_refused() {
    let folder = Folder::with("service.toml", PORTS);
    folder.succeed(&["generate", "--packets", "10", "--out", "a.pcap"]);
    folder.fail(
        &[
            "run",
            "service.toml",
            "--in",
            "a.pcap",
            "--out",
            "out-{prot}.pcap",
        ],
        "error: --out out-{prot}.pcap: {prot} stands for nothing: expected {port}",
    );
    folder.fail(
        &["run", "service.toml", "--in", "{name}-{port}.pcap"],
        "error: --in {name}-{port}.pcap: {name} stands for nothing",
    );
    assert!(!folder.path("out-{prot}.pcap").exists());
}

/// A report that cannot be written is told of before the run, not after hours of it.
#[test]
fn a_report_that_cannot_be_written_is_refused_at_once() {
    let folder = Folder::with("service.toml", SERVICE);
    folder.succeed(&["generate", "--packets", "10", "--out", "a.pcap"]);
    let run = ["run", "service.toml", "--in", "a.pcap", "--out", "b.pcap"];
    let report = ["--report", "/proc/nowhere"];
    folder.fail(&[&run[..], &report].concat(), "error: ");
    assert!(!folder.path("b.pcap").exists(), "nothing has run");
}

/// A disk that is full ends the run early, and costs no report.
#[test]
fn a_full_disk_leaves_a_report_and_an_error() {
    let folder = Folder::with("service.toml", SERVICE);
    folder.succeed(&["generate", "--packets", "20000", "--out", "a.pcap"]);
    for execution in ["threads", "virtual"] {
        for (input, packets) in [("a.pcap", 20_000), ("small.pcap", 3)] {
            folder.succeed(&["generate", "--packets", "3", "--out", "small.pcap"]);
            let ports = ["--in", input, "--out", "/dev/full", "--report", execution];
            let said = folder.fail(
                &[
                    &["run", "service.toml", "--execution", execution][..],
                    &ports,
                ]
                .concat(),
                "error: cannot write /dev/full: No space left on device",
            );
            assert!(
                said.out.contains("packets"),
                "the summary is shown: {said:?}"
            );
            let report = folder.report(execution);
            assert!(report.totals.packets_in > 0, "{report:?}");
            assert!(report.totals.packets_in <= packets);
            let told = &report.warnings[0];
            assert!(told.contains("could not be written"), "{told}");
        }
    }
}

/// So it ends what is generated.
#[test]
fn a_full_disk_is_told_by_what_generates() {
    Folder::new().fail(
        &["generate", "--packets", "20000", "--out", "/dev/full"],
        "error: cannot write /dev/full: No space left on device",
    );
}

/// Memory servers are reached by network interfaces alone.
#[test]
fn a_replay_of_a_service_with_memory_servers_says_that_it_reaches_none() {
    let server = "[[split.servers]]\nname = \"m\"\nnumber = 3\ndevice = \"eth2\"\nown_address = \"169.254.0.1/24\"\n";
    let folder = with_capture(SERVICE);
    let text = format!(
        "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n\
         [ports]\nleft = {{ device = \"eth0\" }}\nright = {{ device = \"eth1\" }}\n{server}"
    );
    folder.write("split.toml", text.as_bytes());
    let said = folder.succeed(&["run", "split.toml", "--in", "a.pcap", "--out", "b.pcap"]);
    let expected = "[[split.servers]] are reached by network interfaces";
    assert!(said.err.contains(expected), "{}", said.err);
}
