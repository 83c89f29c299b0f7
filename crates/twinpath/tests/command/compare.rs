//! `twinpath compare`

use crate::folder::Folder;
use twinpath_core::wire::PacketBuilder;
use twinpath_io::CaptureWriter;

fn udp(from: &str, to: &str, payload: &'static [u8]) -> PacketBuilder<'static> {
    let packet = PacketBuilder::udp(from.parse().expect("an end"), to.parse().expect("an end"));
    packet.payload(payload)
}

/// A capture of one packet a second.
fn capture(folder: &Folder, name: &str, packets: &[PacketBuilder<'_>]) {
    let mut writer = CaptureWriter::create(folder.path(name)).expect("a capture");
    for (second, packet) in (0..).zip(packets) {
        let frame = packet.to_vec().expect("a sound packet");
        writer
            .write(second * 1_000_000_000, &frame)
            .expect("written");
    }
    writer.finish().expect("finished");
}

const SERVER: &str = "192.0.2.1:53";

/// Two questions of hosts behind a translation, each with its answer.
fn translated(ports: [u16; 2]) -> Vec<PacketBuilder<'static>> {
    let [one, other] = ports.map(|port| format!("198.51.100.1:{port}"));
    vec![
        udp(&one, SERVER, b"one"),
        udp(&other, SERVER, b"other"),
        udp(SERVER, "10.0.0.1:5000", b"to one"),
        udp(SERVER, "10.0.0.2:5000", b"to other"),
    ]
}

#[test]
fn two_empty_captures_are_no_proof() {
    let folder = Folder::with(
        "s.toml",
        "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"deny\"\n",
    );
    folder.succeed(&["generate", "--packets", "10", "--out", "a.pcap"]);
    folder.succeed(&["run", "s.toml", "--in", "a.pcap", "--out", "b.pcap"]);
    let said = folder.run(&["compare", "b.pcap", "b.pcap"]);
    let expected = "nothing was compared: neither capture holds a packet\n";
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(1), expected),
        "{said:?}"
    );
}

/// A step of a vector in which all is dropped has an empty capture, and so must the run.
#[test]
fn two_empty_captures_are_the_same_where_a_vector_says_what_counts() {
    let folder = Folder::with("compare.json", "{\"ignore\": [\"outer.ttl\"]}");
    capture(&folder, "a.pcap", &[]);
    capture(&folder, "full.pcap", &[udp("10.0.0.1:5000", SERVER, b"1")]);
    let fields = ["--fields", "compare.json"];
    let said = folder.succeed(&[&["compare", "a.pcap", "a.pcap"], &fields[..]].concat());
    assert_eq!(said.out, "the same: both are empty\n");
    let said = folder.run(&[&["compare", "a.pcap", "full.pcap"], &fields[..]].concat());
    assert_eq!(said.code, Some(1), "{said:?}");
    folder.write(
        "compare.json",
        b"{\"endpoints\": [\"10.1.0.1\"], \"endpoints_all_used\": true}",
    );
    let said = folder.run(&[&["compare", "a.pcap", "a.pcap"], &fields[..]].concat());
    assert_eq!(said.code, Some(1), "{said:?}");
}

#[test]
fn captures_that_are_the_same_are_counted() {
    let folder = Folder::new();
    let mut packets = translated([7, 8]);
    capture(&folder, "a.pcap", &packets);
    packets.swap(1, 2);
    capture(&folder, "b.pcap.gz", &packets);
    let said = folder.succeed(&["compare", "a.pcap", "b.pcap.gz"]);
    assert_eq!(
        said.out,
        "the same: 4 packets in 4 flows and directions; each has 1 packet, so no order was compared\n"
    );
    assert_eq!(said.err, "");
}

/// What leaves by another port is not the same, where both captures name the same ones.
#[test]
fn another_port_is_a_difference() {
    let folder = Folder::new();
    let service = |via: &str| {
        format!(
            "[service]\nname = \"r\"\nchain = [\"router\"]\nports = [\"isp\", \"partner\"]\n\
             [router]\nnext_hops = [\n\
             {{ name = \"one\", mac = \"02:00:00:00:00:01\", source_mac = \"02:00:00:00:00:02\", port = \"isp\" }},\n\
             {{ name = \"two\", mac = \"02:00:00:00:00:01\", source_mac = \"02:00:00:00:00:02\", port = \"partner\" }},\n]\n\
             routes = [{{ to = \"0.0.0.0/0\", via = \"{via}\" }}]\n"
        )
    };
    capture(&folder, "in.pcap", &translated([7, 8]));
    for (name, via) in [("a", "one"), ("b", "two"), ("c", "two")] {
        let (file, out) = (format!("{name}.toml"), format!("{name}.pcapng"));
        folder.write(&file, service(via).as_bytes());
        folder.succeed(&[
            "run",
            &file,
            "--in",
            "in.pcap",
            "--out",
            &out,
            "--no-report",
        ]);
    }
    let said = folder.run(&["compare", "a.pcapng", "b.pcapng"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let told = "differs: port is isp in a.pcapng and partner in b.pcapng";
    assert!(said.out.contains(told), "{said:?}");
    let said = folder.succeed(&["compare", "b.pcapng", "c.pcapng"]);
    assert!(said.out.contains("each at the same port"), "{said:?}");
}

#[test]
fn the_first_difference_is_told_with_the_names_of_the_files() {
    let folder = Folder::new();
    let packets = translated([7, 8]);
    capture(&folder, "a.pcap", &packets);
    capture(&folder, "b.pcap", &[packets[0], packets[1], packets[3]]);
    let said = folder.run(&["compare", "a.pcap", "b.pcap"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_eq!(
        said.out,
        "different: in udp 192.0.2.1:53 > 10.0.0.1:5000, packet 1 of the flow (packet 3 of a.pcap) \
         is missing in b.pcap, which has no packet of it\n\
         if an address translation drew that (ports, identifications): --renamed with its external \
         addresses, such as 198.51.100.0/24\n"
    );
    assert_eq!(said.err, "");
    let known = ["--renamed", "198.51.100.0/24"];
    let said = folder.run(&[&["compare", "a.pcap", "b.pcap"], &known[..]].concat());
    assert!(!said.out.contains("if an address translation"), "{said:?}");
}

#[test]
fn ports_may_be_others_if_that_is_said() {
    let folder = Folder::new();
    capture(&folder, "a.pcap", &translated([7, 8]));
    capture(&folder, "b.pcap", &translated([8, 9]));
    capture(&folder, "shared.pcap", &translated([7, 7]));
    let renamed = |a, b| {
        let flags = ["--renamed", "198.51.100.0/24,203.0.113.0/24"];
        folder.run(&[&["compare", a, b], &flags[..]].concat())
    };
    let said = renamed("a.pcap", "b.pcap");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        said.out,
        "the same: 4 packets in 4 flows and directions, 2 bindings, 2 of them renamed; each has 1 packet, so no order was compared\n"
    );
    assert_eq!(folder.run(&["compare", "a.pcap", "b.pcap"]).code, Some(1));
    let said = renamed("a.pcap", "shared.pcap");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.out.contains(
            "udp 198.51.100.1:7 in shared.pcap (from packet 1 on) stands for two bindings of a.pcap"
        ),
        "{said:?}"
    );
}

/// Under another seed a translation gives out other ports and addresses, and nothing else differs.
#[test]
fn a_translation_gives_out_other_ports_under_another_seed() {
    let folder = Folder::new();
    let service = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gateway.toml");
    folder.succeed(&[
        "generate",
        "--service",
        service,
        "--packets",
        "5000",
        "--out",
        "in.pcap",
    ]);
    for (seed, out) in [("1", "one.pcap"), ("2", "two.pcap")] {
        let ways = ["--paths", "slow", "--execution", "virtual", "--no-report"];
        let ports = ["--in", "in.pcap", "--out", out, "--seed", seed];
        folder.succeed(&[&["run", service][..], &ways, &ports].concat());
    }
    let plain = folder.run(&["compare", "one.pcap", "two.pcap"]);
    assert_eq!(plain.code, Some(1), "{plain:?}");
    let external = "198.51.100.1/32,198.51.100.2/32";
    let said = folder.succeed(&["compare", "one.pcap", "two.pcap", "--renamed", external]);
    assert!(!said.out.contains(" 0 of them renamed"), "{said:?}");
}

#[test]
fn a_binding_ends_when_it_is_said_to() {
    let folder = Folder::new();
    let packets = translated([7, 8]);
    let again = |port: &str| udp(port, SERVER, b"again");
    let with = |name, last| capture(&folder, name, &[packets[0], packets[1], last]);
    with("a.pcap", again("198.51.100.1:7"));
    with("b.pcap", again("198.51.100.1:9"));
    let renamed = |idle| {
        let flags = ["--renamed", "198.51.100.1/32", "--binding-idle", idle];
        folder.run(&[&["compare", "a.pcap", "b.pcap"], &flags[..]].concat())
    };
    assert_eq!(renamed("2s").code, Some(1));
    assert_eq!(renamed("1s").code, Some(0));
}

#[test]
fn timestamps_and_identifications_are_flags() {
    let folder = Folder::new();
    let packet = udp("10.0.0.1:5000", SERVER, b"1");
    capture(&folder, "a.pcap", &[packet, packet]);
    capture(&folder, "b.pcap", &[packet, packet.identification(7)]);
    let said = folder.run(&["compare", "a.pcap", "b.pcap"]);
    assert!(
        said.out
            .contains("identification is 0x0 in a.pcap and 0x7 in b.pcap"),
        "{said:?}"
    );
    folder.succeed(&[
        "compare",
        "a.pcap",
        "b.pcap",
        "--ignore-ip-ids",
        "--timestamps",
    ]);
    let other = udp("10.0.0.2:5000", SERVER, b"1");
    capture(&folder, "c.pcap", &[packet, other, packet]);
    capture(&folder, "d.pcap", &[packet, packet, other]);
    folder.succeed(&["compare", "c.pcap", "d.pcap"]);
    let said = folder.run(&["compare", "c.pcap", "d.pcap", "--timestamps"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.out
            .contains("differs: time is 1.000000000 s in c.pcap and 2.000000000 s in d.pcap"),
        "{said:?}"
    );
}

#[test]
fn what_cannot_be_compared_is_told() {
    let folder = Folder::new();
    capture(&folder, "a.pcap", &translated([7, 8]));
    folder.write("text.pcap", b"no capture");
    let fail = |arguments: &[&str], why| {
        folder.fail(&[&["compare"], arguments].concat(), why);
    };
    fail(
        &["a.pcap", "none.pcap"],
        "error: cannot open none.pcap: No such file",
    );
    fail(
        &["none.pcap", "a.pcap"],
        "error: cannot open none.pcap: No such file",
    );
    fail(
        &["a.pcap", "text.pcap"],
        "error: text.pcap is not a capture: ",
    );
    fail(&["a.pcap"], "<B>");
    fail(
        &["a.pcap", "a.pcap", "--renamed", "nowhere"],
        "invalid value 'nowhere'",
    );
    fail(
        &["a.pcap", "a.pcap", "--binding-idle", "1s"],
        "--renamed <PREFIX>",
    );
}

/// What the README shows: both paths agree.
#[test]
fn both_paths_put_out_the_same() {
    let service =
        "[service]\nchain = [\"firewall\", \"reassembler\"]\n[firewall]\ndefault = \"allow\"\n";
    let folder = Folder::with("service.toml", service);
    folder.write("traffic.toml", b"packets = 5000\nflows = 100\n");
    folder.succeed(&["generate", "traffic.toml", "--out", "a.pcap"]);
    folder.run_both_ways("service.toml", "a.pcap");
    let said = folder.succeed(&["compare", "both.pcap", "slow.pcap"]);
    assert!(said.out.starts_with("the same: "), "{said:?}");
}

/// What is inside tunnels is compared, and what counts of the headers around it.
#[test]
fn packets_in_tunnels_differ_by_what_counts() {
    let vector = twinpath_dash::samples::vectors::folder().join("vnet");
    let packets = twinpath_dash::samples::vectors::capture(&vector.join("expected.pcap"));
    let folder = Folder::with(
        "compare.json",
        "{\"ignore\": [\"outer.ttl\", \"outer.macs\"]}",
    );
    let write = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut writer = CaptureWriter::create(folder.path(name)).expect("a capture");
        for (time_ns, packet) in &packets {
            let mut packet = packet.clone();
            change(&mut packet);
            writer.write(*time_ns, &packet).expect("written");
        }
        writer.finish().expect("finished");
    };
    let change = |places: &'static [usize]| {
        move |packet: &mut Vec<u8>| {
            places.iter().for_each(|&at| packet[at] ^= 1);
        }
    };
    write("a.pcap", &change(&[]));
    // MAC address, time to live, and its header's checksum.
    write("ignored.pcap", &change(&[0, 22, 24]));
    write("outer.pcap", &change(&[33]));
    write("inner.pcap", &change(&[50 + 14 + 8]));
    let compare =
        |b: &str, flags: &[&str]| folder.run(&[&["compare", "a.pcap", b], flags].concat());
    let fields = ["--fields", "compare.json"];
    let same = compare("ignored.pcap", &fields);
    assert_eq!(same.code, Some(0), "{}", same.out);
    for (b, told) in [
        ("ignored.pcap", "outer time to live"),
        ("outer.pcap", "outer destination address"),
        ("inner.pcap", "time to live"),
    ] {
        let flags: &[&str] = if b == "ignored.pcap" {
            &["--inner"]
        } else {
            &fields
        };
        let said = compare(b, flags);
        assert_eq!(said.code, Some(1), "{b}");
        assert!(said.out.contains(told), "{b}: {}", said.out);
        assert!(
            said.out.contains("10.2.0.8"),
            "the flow inside is told: {}",
            said.out
        );
    }
    for list in [&b"[]"[..], b" [[\"outer.ttl\"]]", b""] {
        folder.write("compare.json", list);
        let said = compare("ignored.pcap", &fields);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(
            said.err
                .contains("compare.json: line 1: expected an object"),
            "{said:?}"
        );
    }
    folder.write("compare.json", b"{\"ignore\": [\"outer.color\"]}");
    let said = compare("outer.pcap", &fields);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("outer.color") && said.err.contains("expected outer.macs"));
}
