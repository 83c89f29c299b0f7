//! How many connections one client may have.

use super::*;
use twinpath_core::DropReason;
use twinpath_wire::PacketBuilder;
use twinpath_wire::tcp::flags::{ACK, RST, SYN};

const LIMIT: &str = "per_host_connections = 2\n";

fn segment(client: &str, vip: &str, flags: u8) -> Vec<u8> {
    let packet = PacketBuilder::tcp(endpoint(client), endpoint(vip)).flags(flags);
    packet.to_vec().expect("valid")
}

fn drops(fate: &Fate) -> Vec<DropReason> {
    fate.drops.iter().map(|(reason, _)| *reason).collect()
}

#[test]
fn a_client_has_so_many_connections_at_a_time() {
    let mut paths = paths(&format!("{LIMIT}{SERVICES}"));
    let (through, direct) = ("192.0.2.1:80", "192.0.2.2:80");
    let refused = vec![DropReason::HostLimit];
    for (client, vip, flags, expected) in [
        ("198.51.100.7:1", through, SYN, vec![]),
        ("198.51.100.7:2", direct, SYN, vec![]),
        ("198.51.100.7:3", through, SYN, refused.clone()),
        ("198.51.100.7:3", direct, ACK, refused.clone()),
        ("198.51.100.8:3", through, SYN, vec![]),
        // What has a place keeps it.
        ("198.51.100.7:1", through, ACK, vec![]),
        ("198.51.100.7:2", direct, ACK, vec![]),
        // Another connection of the same ports takes that of the one before.
        ("198.51.100.7:2", direct, RST, vec![]),
        ("198.51.100.7:2", direct, SYN, vec![]),
        ("198.51.100.7:4", through, SYN, refused),
        // To no service.
        ("198.51.100.7:5", "203.0.113.1:80", SYN, vec![]),
    ] {
        let fate = process(&mut paths, &segment(client, vip, flags), at(0));
        assert_eq!(drops(&fate), expected, "{client} {vip}");
    }
    for path in &paths {
        assert_eq!(path.counter("connections_over_host_limit"), 3);
        assert_eq!(path.counter("new_connections"), 4);
    }
}

#[test]
fn a_network_of_ipv6_is_one_client() {
    for (more, is_same) in [("", true), ("per_host_v6_prefix = 128\n", false)] {
        let mut paths = paths(&format!("{LIMIT}{more}{SERVICES}"));
        let mut last = Vec::new();
        for client in [
            "[2001:db8:9::1]:1",
            "[2001:db8:9::2]:1",
            "[2001:db8:9::3]:1",
        ] {
            let packet = PacketBuilder::udp(endpoint(client), endpoint("[2001:db8::1]:53"));
            let frame = packet.to_vec().expect("valid");
            last = drops(&process(&mut paths, &frame, at(0)));
        }
        assert_eq!(last == [DropReason::HostLimit], is_same);
    }
}

/// Without the key nobody is counted; with it, whoever opens from then on.
#[test]
fn a_limit_may_come_and_go() {
    let mut paths = paths(SERVICES);
    let syn = |paths: &mut [Path<LoadBalancer>; 2], client: &str| {
        let frame = segment(client, "192.0.2.1:80", SYN);
        drops(&process(paths, &frame, at(0))).is_empty()
    };
    assert!((1..5).all(|port| syn(&mut paths, &format!("198.51.100.7:{port}"))));
    let limited = format!("{LIMIT}{SERVICES}");
    for (first, text, passes) in [(100, &*limited, 2), (200, SERVICES, 5), (300, &limited, 0)] {
        for path in &mut paths {
            path.reconfigure(LoadBalancer::new(&config(text), SEED));
        }
        let passed =
            (first..first + 5).filter(|port| syn(&mut paths, &format!("198.51.100.7:{port}")));
        assert_eq!(passed.count(), passes);
    }
}
