//! Tests of the writer: both dialects, names, and what cannot be written.

use proptest::prelude::*;

use super::*;
use crate::error::NameProblem;
use crate::testing::{ByteOrder, Packet, PcapFile, PcapngFile};
use crate::{CaptureReader, Interface, MAX_INTERFACES, Next, Resolution, Trace};

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn writes_exactly_a_nanosecond_ethernet_pcap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let packets = [
        Packet {
            timestamp_ns: 1_700_000_000_123_456_789,
            bytes: vec![1; 60],
            original_len: 60,
        },
        Packet {
            timestamp_ns: 1_700_000_000_123_456_790,
            bytes: vec![],
            original_len: 0,
        },
    ];
    let mut writer = CaptureWriter::create(&path).unwrap();
    for packet in &packets {
        writer.write(packet.timestamp_ns, &packet.bytes).unwrap();
    }
    assert_eq!(
        writer.finish().unwrap(),
        WrittenTotals {
            frames: 2,
            bytes: 60
        }
    );
    let mut expected = PcapFile::default().bytes(&packets);
    expected[16..20].copy_from_slice(&262_144_u32.to_le_bytes());
    assert_eq!(fs::read(&path).unwrap(), expected);
}

#[test]
fn writes_exactly_a_nanosecond_pcapng_with_named_interfaces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let mut writer = CaptureWriter::with_interfaces(&path, &["inside", "ou"]).unwrap();
    let mut expected = PcapngFile::new(ByteOrder::Little);
    for name in ["inside", "ou"] {
        let options = [(2, name.into()), (9, vec![9]), (0, vec![])];
        expected.interface(1, 262_144, &options);
    }
    for (interface, timestamp_ns, len) in [
        (1, 1_700_000_000_123_456_789, 60),
        (0, u64::MAX, 0),
        (1, 7, 61),
    ] {
        let frame = vec![len as u8; len as usize];
        writer.write_on(interface, timestamp_ns, &frame).unwrap();
        expected.enhanced(interface, timestamp_ns, &frame, len);
    }
    let totals = writer.finish().unwrap();
    assert_eq!((totals.frames, totals.bytes), (3, 121));
    assert_eq!(fs::read(&path).unwrap(), expected.bytes);
}

#[test]
fn the_name_of_the_file_chooses_its_format() {
    let folder = tempfile::tempdir().unwrap();
    for (name, magic) in [
        ("a.pcap", 0xa1b2_3c4d_u32),
        ("a", 0xa1b2_3c4d),
        (".pcapng", 0xa1b2_3c4d),
        ("a.pcapng.pcap", 0xa1b2_3c4d),
        ("a.pcapng", 0x0a0d_0d0a),
        ("b.PcapNG", 0x0a0d_0d0a),
    ] {
        let path = folder.path().join(name);
        CaptureWriter::create(&path).unwrap().finish().unwrap();
        assert_eq!(fs::read(&path).unwrap()[..4], magic.to_le_bytes(), "{name}");
    }
    let path = folder.path().join("a.pcapng.gz");
    let mut writer = CaptureWriter::create(&path).unwrap();
    writer.write(LATEST, &[1; 60]).unwrap();
    writer.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap()[..2], [0x1f, 0x8b]);
    assert_eq!(interfaces(&path), [interface(None)]);
    assert_eq!(
        Trace::load(&path).unwrap().at(0).unwrap().timestamp_ns,
        LATEST
    );
}

/// No later packet is read.
const LATEST: u64 = i64::MAX as u64;

fn interface(name: Option<&str>) -> Interface {
    Interface {
        name: name.map(str::to_owned),
        link_type: 1,
        resolution: Resolution::NANOSECONDS,
    }
}

fn interfaces(path: &Path) -> Vec<Interface> {
    let mut reader = CaptureReader::open(path).unwrap();
    reader.read_interfaces().unwrap().to_vec()
}

#[test]
fn a_classic_pcap_takes_frames_of_all_interfaces_without_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let mut writer = CaptureWriter::with_interfaces(&path, &["a", "b"]).unwrap();
    writer.write_on(1, 5, &[1; 60]).unwrap();
    writer.write_on(9, 6, &[2; 60]).unwrap();
    writer.finish().unwrap();
    assert_eq!(interfaces(&path), [interface(None)]);
    let trace = Trace::load(&path).unwrap();
    assert!(trace.iter().all(|entry| entry.interface == 0) && trace.len() == 2);
}

#[test]
fn interfaces_that_a_pcapng_does_not_have_are_refused_and_leave_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let mut writer = CaptureWriter::with_interfaces(&path, &["a", "b"]).unwrap();
    let error = writer.write_on(2, 1, &[]).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("a frame of interface 2 cannot be written, the file has 2"),
        "{error}"
    );
    assert_eq!(writer.finish().unwrap(), WrittenTotals::default());
    assert_eq!(
        interfaces(&path),
        [interface(Some("a")), interface(Some("b"))]
    );
}

#[test]
fn names_and_numbers_of_interfaces_that_a_file_cannot_hold_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let create = |names: &[String]| {
        CaptureWriter::with_interfaces(folder.path().join("a.pcapng"), names).map(drop)
    };
    let longest = "x".repeat(65_535);
    assert!(create(std::slice::from_ref(&longest)).is_ok());
    assert!(matches!(
        create(&[longest + "y"]),
        Err(CaptureError::InterfaceName { problem: NameProblem::TooLong, name, .. }) if name.len() == 40
    ));
    let many = vec![String::new(); MAX_INTERFACES + 1];
    assert!(create(&many[1..]).is_ok());
    assert!(matches!(
        create(&many),
        Err(CaptureError::TooManyInterfaces {
            interfaces: 4097,
            ..
        })
    ));
    assert!(names(folder.path()).is_empty());
}

/// Frames of interfaces below `interfaces`.
fn trace(interfaces: u32) -> impl Strategy<Value = Trace> {
    let frame = (
        0..interfaces,
        0..=LATEST,
        prop::collection::vec(any::<u8>(), 0..200),
    );
    prop::collection::vec(frame, 0..40).prop_map(|frames| {
        let mut trace = Trace::new();
        for (interface, timestamp_ns, frame) in frames {
            trace.push_on(interface, timestamp_ns, &frame);
        }
        trace
    })
}

proptest! {
    #[test]
    fn interfaces_times_and_frames_come_back_from_a_pcapng(
        (names, trace) in prop::collection::vec(any::<String>(), 1..6)
            .prop_flat_map(|names| { let count = names.len() as u32; (Just(names), trace(count)) }),
        name in prop::sample::select(vec!["a.pcapng", "a.pcapng.gz"]),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut writer = CaptureWriter::with_interfaces(&path, &names).unwrap();
        for entry in trace.iter() {
            writer.write_on(entry.interface, entry.timestamp_ns, entry.frame).unwrap();
        }
        let totals = writer.finish().unwrap();
        prop_assert_eq!((totals.frames, totals.bytes), (trace.len() as u64, trace.bytes() as u64));
        let expected: Vec<Interface> = names.iter().map(|name| interface(Some(name))).collect();
        prop_assert_eq!(interfaces(&path), expected);
        prop_assert_eq!(Trace::load(&path).unwrap(), trace);
    }
}

#[test]
fn a_name_in_gz_gives_gzip_that_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap.GZ");
    let mut writer = CaptureWriter::create(&path).unwrap();
    writer.write(7, &[3; 900]).unwrap();
    writer.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap()[..2], [0x1f, 0x8b]);
    assert_eq!(
        Trace::load(&path).unwrap().iter().next().unwrap().frame,
        [3; 900]
    );
}

#[test]
fn the_name_appears_only_at_finish_and_an_older_file_stays_until_then() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    fs::write(&path, "older").unwrap();
    let mut writer = CaptureWriter::create(&path).unwrap();
    writer.write(7, &[3; 60]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"older");
    drop(writer);
    assert_eq!(names(folder.path()), ["a.pcap"]);
    assert_eq!(fs::read(&path).unwrap(), b"older");
    CaptureWriter::create(&path).unwrap().finish().unwrap();
    assert_eq!(names(folder.path()), ["a.pcap"]);
    assert_eq!(fs::metadata(&path).unwrap().len(), 24);
}

#[test]
fn two_writers_of_one_name_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let mut first = CaptureWriter::create(&path).unwrap();
    let mut second = CaptureWriter::create(&path).unwrap();
    first.write(1, &[1; 60]).unwrap();
    second.write(2, &[2; 60]).unwrap();
    first.finish().unwrap();
    second.finish().unwrap();
    assert_eq!(
        Trace::load(&path).unwrap().iter().next().unwrap().frame,
        [2; 60]
    );
    assert_eq!(names(folder.path()), ["a.pcap"]);
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_devices_survive() {
    let folder = tempfile::tempdir().unwrap();
    let (link, target) = (
        folder.path().join("link.pcap"),
        folder.path().join("target.pcap"),
    );
    fs::write(&target, "older").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    CaptureWriter::create(&link).unwrap().finish().unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&target).unwrap().len(), 24);
    let device = folder.path().join("null.pcap");
    std::os::unix::fs::symlink("/dev/null", &device).unwrap();
    CaptureWriter::create(&device).unwrap().finish().unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn frames_and_times_that_pcap_cannot_hold_are_refused_and_leave_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let mut writer = CaptureWriter::create(&path).unwrap();
    let long = vec![0; MAX_WRITTEN_FRAME_BYTES + 1];
    assert!(matches!(
        writer.write(1, &long),
        Err(CaptureError::FrameTooLong {
            frame_len: 262_145,
            ..
        })
    ));
    assert!(matches!(
        writer.write(u64::MAX, &[]),
        Err(CaptureError::TimestampTooLate { .. })
    ));
    writer
        .write(u64::from(u32::MAX) * 1_000_000_000, &long[1..])
        .unwrap();
    writer.finish().unwrap();
    let mut reader = CaptureReader::open(&path).unwrap();
    let mut buffer = long;
    assert!(
        matches!(reader.next_into(&mut buffer).unwrap(), Next::Frame(record) if record.captured_len == 262_144)
    );
    assert_eq!(reader.next_into(&mut buffer).unwrap(), Next::End);
}

#[test]
fn a_folder_that_is_missing_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let error = CaptureWriter::create(folder.path().join("no/a.pcap"))
        .err()
        .unwrap();
    assert!(
        matches!(error, CaptureError::Create { .. }) && error.to_string().contains("no/a.pcap")
    );
    assert!(matches!(
        CaptureWriter::create(folder.path()),
        Err(CaptureError::Create { .. })
    ));
}
