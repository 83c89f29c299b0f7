//! Cables that carry packets of 9000 bytes: long frames cross a service as they are, in both directions,
//! also where their payloads wait elsewhere meanwhile.

use super::bump;
use super::middle::{Middle, cut_network};
use super::programs::{Server, WebServer, can_transfer, succeed, succeeds_soon};
use twinpath_netns::{Network, has_program, is_possible};

/// The cables' MTU.
const MTU: u64 = 9000;
/// The longest frame.
const LONGEST: u64 = MTU + 14;

/// The middle, whose cables carry long packets, and hosts that send no segments for a card to cut.
fn network() -> Network {
    let network = cut_network();
    for interface in [
        "client eth0",
        "middle inside",
        "middle outside",
        "server eth0",
    ] {
        let (host, name) = interface.split_once(' ').expect("host and interface");
        network.ip(host, &format!("link set {name} mtu {MTU}"));
        let off = ["-K", name, "tso", "off", "gso", "off", "gro", "off"];
        succeed(&network, host, "ethtool", &off);
    }
    network
}

fn service(more: &str) -> String {
    format!(
        "[service]\nname = \"bump\"\nchain = [\"firewall\", \"monitor\"]\nunparsed = \"forward\"\n\
         inside = [\"10.9.0.1\", \"fd09::1\"]\ninside_ports = [\"inside\"]\n\
         [ports]\ninside = {{ device = \"inside\", driver = \"af_packet\" }}\n\
         outside = {{ device = \"outside\", driver = \"af_packet\" }}\n\
         [firewall]\ndefault = \"deny\"\nrules = [\n\
         {{ action = \"allow\", from = \"10.9.0.1\" }},\n{{ action = \"allow\", from = \"fd09::1\" }},\n\
         {{ action = \"allow\", protocol = \"icmp6\" }},\n]\n{more}"
    )
}

/// The longest packets there are, and transfers both ways over both versions, go through a service.
fn cross(what: &str, more: &str) -> twinpath_control::report::Report {
    let network = network();
    let middle = Middle::start(&network, &service(more));
    let web = WebServer::start(&network, "server");
    // With headers of IP and ICMP they are 9000 bytes long.
    for (address, payload) in [("10.9.0.2", "8972"), ("fd09::2", "8952")] {
        let ping = ["-c1", "-W1", "-Mdo", "-s", payload, address];
        let answers = succeeds_soon(&network, "client", "ping", &ping);
        assert!(answers, "{what}: {address}");
    }
    for address in ["10.9.0.2", "[fd09::2]"] {
        web.is_fetched(&network, "client", address);
        web.is_sent(&network, "client", address);
    }
    let report = middle.stop();
    println!("{what}: {:?} {:?}", report.totals, report.drops);
    for port in &report.ports {
        println!("{what}: {port:?}");
        let too_long = port.receive_too_long + port.transmit_too_long;
        assert_eq!(too_long, 0, "{what}: {port:?}");
    }
    for reason in ["frame_too_long", "too_long", "no_buffer"] {
        assert!(!report.drops.contains_key(reason), "{:?}", report.drops);
    }
    // Two files of 64 MiB in so many packets of at most so many bytes, with an acknowledgement for each few:
    // at the usual length there would be six times as many.
    let long = report.totals.bytes_in / report.totals.packets_in;
    assert!((3500..=LONGEST).contains(&long), "{what}: {long} bytes");
    report
}

fn can_run() -> bool {
    can_transfer() && has_program("ethtool", "ethtool")
}

#[test]
fn long_frames_cross_as_they_are() {
    if can_run() {
        let report = cross("both paths", "");
        // How soon it gets a connection's state is up to who else wants the processor: half of all, and a
        // third while other tests run.
        assert!(report.fast.share > 0.1, "{:?}", report.fast);
    }
}

#[test]
fn payloads_of_long_frames_wait_elsewhere() {
    if !can_run() {
        return;
    }
    let parked = cross("parked", "[run]\npaths = \"slow\"\n[parking]\n");
    let parking = parked.parking.expect("with [parking]");
    println!("{parking:?}");
    let long = parking.parked_bytes / parking.parked.max(1);
    assert!(parking.departed > 10_000 && long > 6000, "{parking:?}");
    let split = cross(
        "split",
        "[run]\npaths = \"slow\"\n[split]\nstore = { payloads = 4096 }\n",
    );
    let counts = split.split.expect("with [split]").counts;
    println!("{counts:?}");
    let long = counts.bytes / counts.packets.max(1);
    assert!(counts.merged > 10_000 && long > 6000, "{counts:?}");
    assert_eq!(counts.lost(), 0, "{counts:?}");
}

/// Segments longer than any buffer (BIG TCP) are lost, and come again in pieces: that is slow, and told.
#[test]
fn longer_segments_than_there_are_buffers_for_are_told() {
    if !is_possible() || !has_program("iperf3", "iperf3") {
        return;
    }
    let network = cut_network();
    let told = ["--log-format", "text"];
    let service = bump::service("af_packet");
    let middle = Middle::start_with(&network, &service, &told);
    let _server = Server::start(&network, "server", "iperf3", &["-s"]);
    let transfer = ["-c", "fd09::2", "-n", "4M"];
    assert!(succeeds_soon(&network, "client", "iperf3", &transfer));
    let longer = "link set eth0 gso_max_size 200000 gro_max_size 200000";
    network.ip("client", longer);
    assert!(succeeds_soon(&network, "client", "iperf3", &transfer));
    let said = middle.stopped();
    let log = String::from_utf8_lossy(&said.stderr);
    let expected = "frames come by inside that are longer than";
    assert_eq!(log.matches(expected).count(), 1, "{log}");
}
