//! Packets of a DPU as `twinpath trace` tells them, stage by stage.

use crate::dash_run::{SERVICE, copied};
use crate::folder::Folder;
use serde_json::Value;
use twinpath_dash::samples::vectors::capture;

#[test]
fn a_packet_is_traced_through_all_stages() {
    let folder = copied("acl");
    for (paths, wanted) in [("both", "QUESTION"), ("slow", "PLAIN")] {
        let run = format!("config = [\"0-config.json\"]\n[run]\npaths = \"{paths}\"\n");
        folder.write("dpu.toml", format!("{SERVICE}{run}").as_bytes());
        let said = folder.succeed(&["trace", "dpu.toml", "--in", "0-in.pcap", "--packet", "1"]);
        for stage in [
            wanted,
            "direction: VXLAN from",
            "ENI: eni1",
            "flow table: no flow: ",
            "trusted VNI: ",
            "access list: stage 1, rule ",
            "decision: ",
        ] {
            assert!(
                said.out.contains(stage),
                "{paths}: {stage:?} in {}",
                said.out
            );
        }
    }
}

/// What a trace says of tunnels' endpoints, backends and ports is what a run of the same seed does.
#[test]
fn a_packet_is_traced_as_it_is_run() {
    for vector in ["tunnel_endpoints", "load_balancer", "nat_gateway"] {
        let folder = copied(vector);
        let config = format!("{SERVICE}config = [\"0-config.json\"]\n");
        folder.write("dpu.toml", config.as_bytes());
        let input = ["--in", "0-in.pcap", "--seed", "5"];
        let run = [
            "run",
            "dpu.toml",
            "--out",
            "out.pcap",
            "--no-report",
            "--execution",
            "virtual",
        ];
        folder.succeed(&[&run[..], &input].concat());
        let mut left = capture(&folder.path("out.pcap")).into_iter();
        let came = capture(&folder.path("0-in.pcap")).len();
        for number in 1..=came {
            let number = number.to_string();
            let trace = ["trace", "dpu.toml", "--json", "--packet", &number];
            let said = folder.succeed(&[&trace[..], &input].concat());
            let told: Value = serde_json::from_str(&said.out).expect("JSON");
            if let Some(hex) = told["end"]["packet"]["hex"].as_str() {
                let (_, sent) = left.next().expect("it left");
                let sent: String = sent.iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(hex, sent, "{vector}: packet {number}");
            }
        }
        assert!(came > 3 && left.next().is_none(), "{vector}");
    }
}

/// The first packets of a vector as a DPU drops them, on both paths and on the slow one alone.
fn dropped(vector: &str, mut each: impl FnMut(&Folder, &str, &crate::folder::Said)) {
    let folder = copied(vector);
    for paths in ["both", "slow"] {
        let run = format!("config = [\"0-config.json\"]\n[run]\npaths = \"{paths}\"\n");
        folder.write("dpu.toml", format!("{SERVICE}{run}").as_bytes());
        let said = folder.succeed(&["trace", "dpu.toml", "--dropped", "0-in.pcap"]);
        each(&folder, paths, &said);
    }
}

/// What a DPU drops is told with the table, the entry and what follows.
#[test]
fn dropped_packets_are_told_with_the_entry_that_decides() {
    dropped("acl", |folder, paths, said| {
        let drops = said.out.matches("dash_acl_outbound by ").count();
        let told = said
            .out
            .matches("dash_acl_outbound by dash: access list: stage ");
        assert!(drops > 2 && told.count() == drops, "{paths}: {}", said.out);
        assert!(said.out.contains(": deny"), "{paths}: {}", said.out);
        // A packet is of the flow inside of its tunnel, too.
        let inner = ["--flow", "any 10.0.0.11 *"];
        let words = [&["trace", "dpu.toml", "--dropped", "0-in.pcap"][..], &inner].concat();
        let inner = folder
            .succeed(&words)
            .out
            .matches("dash_acl_outbound by ")
            .count();
        assert!(inner > 0 && inner <= drops, "{paths}: {inner} of {drops}");
    });
}

/// Where no entry decided, but a limit, that is told in place of the last entry.
#[test]
fn packets_beyond_limits_are_told_with_the_limit() {
    dropped("limits", |_, paths, said| {
        let drops = said.out.matches("dash_connection_rate ").count();
        let told = said
            .out
            .matches("dash_connection_rate by dash: limit: ")
            .count();
        assert!(drops == 6 && told == 6, "{paths}: {}", said.out);
    });
}

/// One packet of each of DASH's services: which table it meets, which entry is found, what follows, and
/// what it is inside when it leaves.
#[test]
fn each_service_is_traced_stage_by_stage() {
    let services: [(&str, &[&str]); 5] = [
        (
            "vnet",
            &[
                "outbound routing: group group1, route 10.2.0.0/16 for 10.2.0.8: to network Vnet1, mapping of 10.2.0.8",
                "CA to PA mapping: 10.2.0.8 in network Vnet1: vnet_encap to 100.0.0.8",
                "routing type: vnet_encap: VXLAN",
                "metering: no policy for IPv4: class 0",
                "VXLAN VNI 1001",
                "UDP 6789 > 4567",
            ],
        ),
        (
            "private_link",
            &[
                "CA to PA mapping: 10.2.0.100 in network Vnet1: privatelink to 101.1.2.3",
                "routing type: privatelink: IPv4 to IPv6, NVGRE VSID 100",
                "private link: source fd40:108:20:abc:abc::/ffff:ffff:ffff:ffff:ffff:ffff::, destination 2603:10e1:100:2::3401:203/",
                "from fd40:108:20:d107:64:ff71:a00:b to 2603:10e1:100:2::3401:203",
                "NVGRE VSID 100",
            ],
        ),
        (
            "load_balancer",
            &[
                "load balancer: 10.2.9.100:80 in network Vnet1: to 10.2.9.1:8080, one of 1",
                "CA to PA mapping: 10.2.9.1 in network Vnet1: vnet_encap to 100.0.0.1",
                "TCP 6789 > 8080, SYN",
            ],
        ),
        (
            "nat_gateway",
            &[
                "outbound routing: group group1, route 0.0.0.0/0 for 198.51.100.7: direct",
                "NAT gateway: source 10.0.0.11: 203.0.113.1, one of ports 4001",
                "tunnel: edge: VXLAN to 40.40.40.40, VNI 100",
                "IPv4 203.0.113.1 > 198.51.100.7",
                "TCP 4001 > 80, SYN",
            ],
        ),
        (
            "service_tunnel",
            &[
                "outbound routing: group group1, route 50.0.0.0/8 for 50.1.2.1: service tunnel",
                "service tunnel: source fd00:108:0:d204:0:200::/ffff:ffff:ffff:ffff:ffff:ffff::, destination 2603:10e1:100:2::/",
                "from fd00:108:0:d204:0:200:a00:b to 2603:10e1:100:2::3201:201",
                "IPv6 fd00:108:0:d204:0:200:a00:b > 2603:10e1:100:2::3201:201",
            ],
        ),
    ];
    for (vector, parts) in services {
        let folder = copied(vector);
        folder.write("dpu.toml", SERVICE.as_bytes());
        let packet = ["--in", "0-in.pcap", "--packet", "1"];
        let trace = ["trace", "dpu.toml", "--dash", "0-config.json"];
        let said = folder.succeed(&[&trace[..], &packet].concat());
        for part in parts {
            assert!(
                said.out.contains(part),
                "{vector}: {part:?} in {}",
                said.out
            );
        }
    }
}
