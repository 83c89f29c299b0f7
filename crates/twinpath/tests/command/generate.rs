//! `twinpath generate`

use crate::folder::{Folder, Said, interrupt};
use std::io::Read;
use std::time::Duration;
use twinpath_io::Trace;

const TRAFFIC: &str =
    "packets = 3000\nflows = 50\nchurn_per_minute = 100_000\n[tcp]\nout_of_order_share = 0.05\n";

#[test]
fn a_capture_is_written_and_told_about() {
    let folder = Folder::with("t.toml", TRAFFIC);
    let said = folder.succeed(&["generate", "t.toml", "--out", "a.pcap"]);
    assert!(said.out.starts_with("a.pcap: 3,000 packets, "), "{said:?}");
    assert!(said.out.contains("at 1.00 Mpps"), "{said:?}");
    let trace = Trace::load(folder.path("a.pcap")).expect("a capture");
    assert_eq!(trace.len(), 3000);
}

#[test]
fn traffic_need_not_be_described() {
    let folder = Folder::new();
    let said = folder.succeed(&["generate", "--out", "a.pcap", "--packets", "100"]);
    assert!(said.out.starts_with("a.pcap: 100 packets, "), "{said:?}");
}

#[test]
fn the_seed_decides_and_gzip_is_gzip() {
    let folder = Folder::with("t.toml", TRAFFIC);
    for (out, seed) in [
        ("1.pcap", "1"),
        ("again.pcap", "1"),
        ("2.pcap", "2"),
        ("1.pcap.gz", "1"),
    ] {
        folder.succeed(&["generate", "t.toml", "--out", out, "--seed", seed]);
    }
    assert_eq!(folder.read("1.pcap"), folder.read("again.pcap"));
    assert_ne!(folder.read("1.pcap"), folder.read("2.pcap"));
    let mut unpacked = Vec::new();
    flate2::read::MultiGzDecoder::new(&folder.read("1.pcap.gz")[..])
        .read_to_end(&mut unpacked)
        .expect("gzip");
    assert_eq!(unpacked, folder.read("1.pcap"));
}

#[test]
fn a_services_traffic_has_the_services_seed() {
    let service = format!(
        "[service]\nchain = [\"reassembler\"]\nseed = 7\n[traffic]\n{}",
        TRAFFIC.replace("[tcp]", "[traffic.tcp]")
    );
    let folder = Folder::with("s.toml", &service);
    folder.write("t.toml", TRAFFIC.as_bytes());
    folder.succeed(&["generate", "--service", "s.toml", "--out", "service.pcap"]);
    folder.succeed(&["generate", "t.toml", "--seed", "7", "--out", "traffic.pcap"]);
    assert_eq!(folder.read("service.pcap"), folder.read("traffic.pcap"));
}

/// A service's ports are the interfaces, so that a run over the capture is that of the traffic.
#[test]
fn a_services_traffic_comes_in_by_its_ports() {
    let service = format!(
        "[service]\nchain = [\"monitor\"]\nports = [\"site\", \"world\"]\ninside_ports = [\"site\"]\n[traffic]\n{}",
        TRAFFIC.replace("[tcp]", "[traffic.tcp]")
    );
    let folder = Folder::with("s.toml", &service);
    let ways = ["--execution", "virtual"];
    let run = |input: &[&str], out: &str| {
        let arguments = [
            &["run", "s.toml", "--no-report", "--out", out],
            input,
            &ways[..],
        ];
        folder.succeed(&arguments.concat());
        folder.read(out)
    };
    let expected = run(&[], "generated.pcapng");
    for out in ["one.pcapng", "of-{port}.pcap"] {
        folder.succeed(&["generate", "--service", "s.toml", "--out", out]);
        assert!(run(&["--in", out], "replayed.pcapng") == expected, "{out}");
    }
    assert!(folder.path("of-world.pcap").exists());
}

/// A DPU with one ENI, whose machine talks to 10.0.0.2.
const DPU: &str = r#"[
    {"DASH_APPLIANCE_TABLE:dpu": {"sip": "10.1.0.5", "vm_vni": 2001}, "OP": "SET"},
    {"DASH_VNET_TABLE:vnet": {"vni": "1001"}, "OP": "SET"},
    {"DASH_ROUTING_TYPE_TABLE:vnet_encap": {"action_type": "staticencap", "encap_type": "vxlan"}, "OP": "SET"},
    {"DASH_VNET_MAPPING_TABLE:vnet:10.0.0.1": {"routing_type": "vnet_encap", "underlay_ip": "20.0.0.1", "mac_address": "00:1A:C5:00:00:01"}, "OP": "SET"},
    {"DASH_VNET_MAPPING_TABLE:vnet:10.0.0.2": {"routing_type": "vnet_encap", "underlay_ip": "20.0.0.2"}, "OP": "SET"},
    {"DASH_ENI_TABLE:eni": {"mac_address": "00:1A:C5:00:00:01", "vnet": "vnet", "admin_state": "enabled", "underlay_ip": "20.0.0.1"}, "OP": "SET"},
    {"DASH_ROUTE_GROUP_TABLE:routes": {"guid": "a", "version": "1"}, "OP": "SET"},
    {"DASH_ROUTE_TABLE:routes:10.0.0.0/8": {"action_type": "vnet", "vnet": "vnet"}, "OP": "SET"},
    {"DASH_ENI_ROUTE_TABLE:eni": {"group_id": "routes"}, "OP": "SET"},
    {"DASH_ROUTE_RULE_TABLE:eni:1001:20.0.0.0/24": {"action_type": "decap"}, "OP": "SET"}
]
"#;

/// Packets for a DPU come in tunnels to it, as a run with the same configuration has them.
#[test]
fn a_dpus_traffic_is_that_of_a_run() {
    let folder = Folder::with("t.toml", "packets = 500\nflows = 20\n");
    folder.write("dpu.json", DPU.as_bytes());
    let service = "[service]\nchain = [\"dash\"]\n[dash]\n[traffic]\npackets = 500\nflows = 20\n";
    folder.write("s.toml", service.as_bytes());
    let dash = ["--dash", "dpu.json", "--seed", "7"];
    let run = |input: &[&str], out: &str| {
        let arguments = [
            &["run", "s.toml", "--no-report", "--execution", "virtual"],
            &["--out", out][..],
            input,
            &dash[..],
        ];
        folder.succeed(&arguments.concat());
        folder.read(out)
    };
    let expected = run(&[], "expected.pcap");
    assert!(
        Trace::load(folder.path("expected.pcap"))
            .expect("a capture")
            .len()
            > 250
    );
    for (described, out) in [
        (&["--service", "s.toml"][..], "of-service.pcap"),
        (&["t.toml"], "of-traffic.pcap"),
    ] {
        folder.succeed(&[&["generate", "--out", out], described, &dash].concat());
        assert!(run(&["--in", out], "replayed.pcap") == expected, "{out}");
    }
    folder.fail(
        &["generate", "--dash", "dpu.json", "--out", "dpu.json"],
        "what describes the traffic",
    );
    folder.write("empty.json", b"[]");
    let said = folder.succeed(&[
        "generate",
        "t.toml",
        "--dash",
        "empty.json",
        "--out",
        "none.pcap",
    ]);
    assert!(
        said.err.contains("no ENI can send generated packets"),
        "{said:?}"
    );
}

#[test]
fn what_cannot_be_generated_is_told() {
    let folder = Folder::with("t.toml", "packets = 10\nflows = \"many\"\n");
    folder.fail(
        &["generate", "t.toml", "--out", "a.pcap"],
        "error: t.toml:2:9: expected a whole number, at least 0, found \"many\"",
    );
    folder.write("endless.toml", b"flows = 10\n");
    folder.fail(
        &["generate", "endless.toml", "--out", "a.pcap"],
        "the traffic has no end: give --packets",
    );
    folder.write("zero.toml", b"packets = 1\nflows = 0\n");
    folder.fail(
        &["generate", "zero.toml", "--out", "a.pcap"],
        "error: zero.toml: flows is 0: expected a number from 1",
    );
    folder.write(
        "cdf.toml",
        b"packets = 1\nflow_size = { kind = \"cdf\", file = \"none.txt\" }\n",
    );
    folder.fail(
        &["generate", "cdf.toml", "--out", "a.pcap"],
        "none.txt: No such file",
    );
    folder.write("s.toml", b"[service]\nchain = [\"reassembler\"]\n");
    folder.fail(
        &["generate", "s.toml", "--out", "a.pcap"],
        "this is a service file: give it with --service",
    );
    folder.fail(
        &["generate", "--service", "s.toml", "--out", "a.pcap"],
        "it needs a table [traffic]",
    );
    folder.fail(
        &[
            "generate",
            "endless.toml",
            "--packets",
            "5",
            "--out",
            "no/folder.pcap",
        ],
        "cannot create no/folder.pcap",
    );
    assert!(!folder.path("a.pcap").exists());
}

#[test]
fn ctrl_c_leaves_a_sound_capture() {
    let folder = Folder::with("t.toml", TRAFFIC);
    let child = folder.start(&[
        "generate",
        "t.toml",
        "--packets",
        "1000000000",
        "--out",
        "a.pcap",
    ]);
    std::thread::sleep(Duration::from_millis(500));
    interrupt(&child);
    let said: Said = child.wait_with_output().expect("it ends").into();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("stopped early"), "{said:?}");
    let packets = said
        .out
        .split_once(": ")
        .and_then(|(_, rest)| rest.split_once(" packets"))
        .expect("a number")
        .0;
    let trace = Trace::load(folder.path("a.pcap")).expect("a sound capture");
    assert_eq!(
        trace.len(),
        packets.replace(',', "").parse::<usize>().expect("a number")
    );
}
