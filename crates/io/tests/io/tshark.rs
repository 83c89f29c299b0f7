//! What the writer writes is what others read, where tshark is there or can be installed.

use std::path::Path;
use std::process::Command;

use twinpath_io::{CaptureWriter, FrameSink, OrderedWriter, PortFiles, PortPattern};
use twinpath_netns::has_program;

/// Interface, name of the interface, time and length of each frame as tshark has them; none, with
/// a note, where there is no tshark.
fn tshark(capture: &Path) -> Option<Vec<String>> {
    let fields = [
        "frame.interface_id",
        "frame.interface_name",
        "frame.time_epoch",
        "frame.len",
    ];
    if !has_program("tshark", "tshark") {
        return None;
    }
    let output = Command::new("tshark")
        .args(["-n", "-r"])
        .arg(capture)
        .args(["-T", "fields", "-E", "separator=,"])
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .output()
        .expect("tshark can be run");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}

#[test]
fn a_pcapng_with_interfaces_is_read_by_tshark() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.pcapng", "a.pcapng.gz"] {
        let path = folder.path().join(name);
        let writer = CaptureWriter::with_interfaces(&path, &["inside", "outside"]).unwrap();
        let mut writer = OrderedWriter::new(writer, 1 << 20);
        for (interface, timestamp_ns, len) in [
            (1, 1_700_000_000_123_456_789, 61),
            (0, 1_700_000_000_000_000_001, 60),
            (0, 5_000_000_000_000_000_000, 1514),
        ] {
            writer
                .push_on(interface, timestamp_ns, 0, &vec![0; len])
                .unwrap();
        }
        assert!(writer.finish().unwrap().1.is_in_order());
        let Some(lines) = tshark(&path) else { return };
        let expected = [
            "0,inside,1700000000.000000001,60",
            "1,outside,1700000000.123456789,61",
            "0,inside,5000000000.000000000,1514",
        ];
        assert_eq!(lines, expected);
    }
}

#[test]
fn a_file_of_each_port_is_read_by_tshark() {
    let folder = tempfile::tempdir().unwrap();
    for (name, expected) in [
        ("{port}.pcap", ",1.000000002,60"),
        ("{port}.pcapng", "0,b,1.000000002,60"),
    ] {
        let pattern = PortPattern::of(folder.path().join(name)).unwrap();
        let mut files = PortFiles::create(&pattern, &["a", "b"]).unwrap();
        files.write_on(1, 1_000_000_002, &[0; 60]).unwrap();
        files.finish().unwrap();
        let path = folder.path().join(name.replace("{port}", "b"));
        let Some(lines) = tshark(&path) else { return };
        assert!(
            lines.len() == 1 && lines[0].ends_with(expected),
            "{lines:?}"
        );
    }
}
