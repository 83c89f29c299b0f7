//! Tests of the pcapng decoder on files built block by block.

use crate::error::{CaptureError, Location, Malformation};
use crate::interface::{Interface, Resolution};
use crate::testing::{ByteOrder, Packet, PcapngFile, delivered, open};
use crate::{CaptureReader, MAX_INTERFACES, Next};

fn packet(timestamp_ns: u64, fill: u8, len: usize) -> Packet {
    Packet {
        timestamp_ns,
        bytes: vec![fill; len],
        original_len: len,
    }
}

#[test]
fn interfaces_keep_their_own_link_type_and_clock() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut file = PcapngFile::new(order);
        file.interface(1, 0, &[]);
        file.interface(101, 0, &[(9, vec![9])]);
        file.interface(
            1,
            0,
            &[
                (2, b"eth2".to_vec()),
                (9, vec![0x80 | 10]),
                (14, order.bytes8(100)),
            ],
        );
        file.enhanced(0, 5_000_001, &[1; 61], 61);
        file.enhanced(1, 5_000_000_002, &[0x45; 20], 1500);
        file.enhanced(2, 2048 + 512, &[3; 17], 17);
        let (frames, end) = delivered(file.bytes);
        assert!(end.is_ok(), "{end:?}");
        assert_eq!(frames[0], packet(5_000_001_000, 1, 61));
        assert_eq!(frames[1].timestamp_ns, 5_000_000_002);
        assert_eq!(
            frames[1].bytes,
            [&[0; 12][..], &[8, 0], &[0x45; 20]].concat()
        );
        assert_eq!(frames[1].original_len, 1514);
        assert_eq!(frames[2], packet(102_500_000_000, 3, 17));
    }
}

/// What a reader says of a file's interfaces before its first record, and the interface of each
/// record.
fn interfaces(bytes: Vec<u8>) -> (Vec<Interface>, Vec<u32>, CaptureReader) {
    let mut reader = open(bytes).unwrap();
    let interfaces = reader.read_interfaces().unwrap().to_vec();
    let mut numbers = Vec::new();
    while let Next::Frame(record) = reader.next_into(&mut [0; 100]).unwrap() {
        numbers.push(record.interface);
    }
    (interfaces, numbers, reader)
}

fn interface(name: Option<&str>, link_type: u32, resolution: Resolution) -> Interface {
    Interface {
        name: name.map(str::to_owned),
        link_type,
        resolution,
    }
}

#[test]
fn interfaces_are_told_with_their_name_link_type_and_resolution() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut file = PcapngFile::new(order);
        file.interface(1, 0, &[(2, b"eth0".to_vec()), (9, vec![9])]);
        file.interface(101, 0, &[(3, b"described".to_vec()), (9, vec![0x80 | 20])]);
        // What stands behind the end of the options is none.
        file.interface(1, 0, &[(2, vec![b'a', 0xff]), (0, vec![]), (9, vec![3])]);
        file.enhanced(2, 1, &[1; 60], 60);
        file.old_packet(1, 1, &[1; 60], 60);
        file.interface(1, 0, &[(2, b"later".to_vec())]);
        file.simple(&[1; 60], 60);
        file.enhanced(3, 1, &[1; 60], 60);
        let (found, numbers, reader) = interfaces(file.bytes);
        let expected = [
            interface(Some("eth0"), 1, Resolution::NANOSECONDS),
            interface(None, 101, Resolution::Binary(20)),
            interface(Some("a\u{fffd}"), 1, Resolution::MICROSECONDS),
        ];
        assert_eq!(found, expected);
        assert_eq!(numbers, [2, 1, 0, 3]);
        let later = interface(Some("later"), 1, Resolution::MICROSECONDS);
        assert_eq!(reader.interfaces()[3..], [later]);
    }
}

#[test]
fn an_interface_keeps_its_number_through_the_sections_of_a_file() {
    let name = |name: &[u8]| [(2, name.to_vec())];
    let mut file = PcapngFile::new(ByteOrder::Little);
    file.interface(1, 0, &name(b"a"));
    file.interface(1, 0, &name(b"b"));
    file.enhanced(1, 1, &[1; 60], 60);
    file.section(ByteOrder::Big);
    file.interface(1, 0, &name(b"a"));
    file.interface(1, 0, &name(b"c"));
    file.enhanced(1, 1, &[1; 60], 60);
    file.enhanced(0, 1, &[1; 60], 60);
    file.section(ByteOrder::Little);
    file.interface(101, 0, &name(b"a"));
    file.enhanced(0, 1, &[1; 60], 60);
    file.section(ByteOrder::Little);
    file.interface(101, 0, &name(b"a"));
    file.interface(1, 0, &name(b"c"));
    file.enhanced(1, 1, &[1; 60], 60);
    let (found, numbers, reader) = interfaces(file.bytes);
    assert_eq!(found.len(), 2);
    assert_eq!(numbers, [1, 2, 0, 3, 2]);
    let names: Vec<&str> = reader
        .interfaces()
        .iter()
        .flat_map(|interface| interface.name.as_deref())
        .collect();
    assert_eq!(names, ["a", "b", "c", "a"]);
}

#[test]
fn a_packet_of_an_unknown_interface_is_an_error_that_names_its_record() {
    let mut file = PcapngFile::new(ByteOrder::Little);
    file.interface(1, 0, &[]);
    file.enhanced(0, 1, &[1; 60], 60);
    file.enhanced(u32::MAX, 2, &[2; 60], 60);
    let text = delivered(file.bytes).1.unwrap_err().to_string();
    assert_eq!(
        text,
        "test is malformed at record 2 (byte 140): the packet is of interface 4294967295, \
         but only 1 are described before it"
    );
    let mut file = PcapngFile::new(ByteOrder::Little);
    file.simple(&[1; 60], 60);
    let mut reader = open(file.bytes).unwrap();
    let problem = Malformation::UnknownInterface {
        interface: 0,
        described: 0,
    };
    let place = Location {
        record: 1,
        offset: 28,
    };
    assert_malformed(reader.read_interfaces().map(drop), place, problem);
    assert_eq!(reader.next_into(&mut []).unwrap(), Next::End);
}

#[test]
fn looking_for_interfaces_takes_no_record() {
    let mut file = PcapngFile::new(ByteOrder::Little);
    file.interface(1, 0, &[]);
    file.enhanced(0, 1, &[1; 60], 60);
    let mut reader = open(file.bytes).unwrap();
    assert!(reader.interfaces().is_empty());
    for _ in 0..3 {
        assert_eq!(reader.read_interfaces().unwrap().len(), 1);
    }
    assert!(matches!(
        reader.next_into(&mut [0; 60]).unwrap(),
        Next::Frame(_)
    ));
    assert_eq!(reader.read_interfaces().unwrap().len(), 1);
    assert_eq!(reader.next_into(&mut [0; 60]).unwrap(), Next::End);
}

#[test]
fn a_new_section_forgets_interfaces_and_may_change_byte_order() {
    let mut file = PcapngFile::new(ByteOrder::Little);
    file.interface(1, 0, &[(9, vec![9])]);
    file.enhanced(0, 1, &[1; 60], 60);
    file.section(ByteOrder::Big);
    file.interface(1, 0, &[(9, vec![9])]);
    file.enhanced(0, 2, &[2; 60], 60);
    file.section(ByteOrder::Little);
    let offset = file.bytes.len() as u64;
    file.enhanced(0, 3, &[3; 60], 60);
    let (frames, end) = delivered(file.bytes);
    assert_eq!(frames, [packet(1, 1, 60), packet(2, 2, 60)]);
    assert_malformed(
        end,
        Location { record: 3, offset },
        Malformation::UnknownInterface {
            interface: 0,
            described: 0,
        },
    );
}

#[test]
fn options_of_packets_and_blocks_of_other_kinds_are_skipped() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut file = PcapngFile::new(order);
        file.block(0x0bad, &[0; 8]);
        file.interface(1, 0, &[(9, vec![9])]);
        file.block(4, &[0xff; 40]);
        file.enhanced_with_options(0, 7, &[1; 61], 61, &[(2, vec![0; 4]), (1, vec![0xff; 5])]);
        file.block(0x7777_7777, &[]);
        let (frames, end) = delivered(file.bytes);
        assert!(end.is_ok(), "{end:?}");
        assert_eq!(frames, [packet(7, 1, 61)]);
    }
}

/// Frames are taken as they come, without those that left, and those are counted.
#[test]
fn packets_that_left_are_skipped_if_only_arrivals_are_taken() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut file = PcapngFile::new(order);
        file.interface(1, 0, &[(9, vec![9])]);
        let flags = |way: u32| match order {
            ByteOrder::Little => vec![(1, vec![0xff; 5]), (2, way.to_le_bytes().to_vec())],
            ByteOrder::Big => vec![(1, vec![0xff; 5]), (2, way.to_be_bytes().to_vec())],
        };
        for (number, way) in [(1, 2), (2, 1), (3, 0), (4, 2), (5, 0x1e6)] {
            file.enhanced_with_options(0, number, &[number as u8; 61], 61, &flags(way));
        }
        file.enhanced(0, 6, &[6; 60], 60);
        let mut buffer = [0; 100];
        for (takes_arrivals, expected) in [(false, &[1, 2, 3, 4, 5, 6][..]), (true, &[2, 3, 6])] {
            let reader = open(file.bytes.clone()).expect("a capture");
            let mut reader = if takes_arrivals {
                reader.arrivals()
            } else {
                reader
            };
            let mut found = Vec::new();
            while let Ok(Next::Frame(_)) = reader.next_into(&mut buffer) {
                found.push(buffer[0]);
            }
            assert_eq!(found, expected);
            assert_eq!(reader.departures(), 6 - found.len() as u64);
        }
    }
}

#[test]
fn old_packet_blocks_are_read() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut file = PcapngFile::new(order);
        file.interface(101, 0, &[]);
        file.interface(1, 0, &[]);
        file.old_packet(1, 9, &[4; 30], 90);
        let expected = Packet {
            timestamp_ns: 9_000,
            bytes: vec![4; 30],
            original_len: 90,
        };
        assert_eq!(delivered(file.bytes).0, [expected]);
    }
}

#[test]
fn simple_packets_are_limited_by_snap_length_and_take_the_last_timestamp() {
    let mut file = PcapngFile::new(ByteOrder::Little);
    file.interface(1, 50, &[]);
    file.simple(&[1; 33], 33);
    file.enhanced(0, 8, &[2; 10], 10);
    file.simple(&[3; 50], 900);
    let (frames, end) = delivered(file.bytes);
    assert!(end.is_ok(), "{end:?}");
    let snapped = Packet {
        timestamp_ns: 8_000,
        bytes: vec![3; 50],
        original_len: 900,
    };
    assert_eq!(frames, [packet(0, 1, 33), packet(8_000, 2, 10), snapped]);
}

#[test]
fn an_interface_of_an_unsupported_kind_matters_only_when_used() {
    let mut file = PcapngFile::new(ByteOrder::Little);
    file.interface(189, 0, &[]);
    file.interface(1, 0, &[]);
    file.enhanced(1, 8, &[2; 10], 10);
    file.enhanced(0, 9, &[2; 10], 10);
    let (frames, end) = delivered(file.bytes);
    assert_eq!(frames, [packet(8_000, 2, 10)]);
    match end {
        Err(CaptureError::UnsupportedLinkType {
            link_type: 189,
            place,
            ..
        }) => assert_eq!(place.record, 2),
        other => panic!("{other:?}"),
    }
}

#[test]
fn contradictions_are_named_with_record_and_byte() {
    let mut good = PcapngFile::new(ByteOrder::Little);
    good.interface(1, 0, &[]);
    good.enhanced(0, 1, &[1; 60], 60);
    let start = good.bytes.len();
    good.enhanced(0, 2, &[2; 60], 60);
    let place = Location {
        record: 2,
        offset: start as u64,
    };
    let cases = [
        (start + 4, 93, Malformation::BlockLength { length: 93 }),
        (start + 4, 8, Malformation::BlockLength { length: 8 }),
        (
            start + 4,
            88,
            Malformation::BlockLengthsDiffer {
                first: 88,
                last: 0x0202_0202,
            },
        ),
        (
            start + 8,
            3,
            Malformation::UnknownInterface {
                interface: 3,
                described: 1,
            },
        ),
        (
            start + 20,
            61,
            Malformation::PacketExceedsBlock { captured: 61 },
        ),
        (
            start + 4,
            0x4000_0000,
            Malformation::RecordTooLong {
                claimed: 0x4000_0000,
            },
        ),
        // The upper half of microseconds since 1970: a run waited for that day.
        (
            start + 12,
            0x0100_0000,
            Malformation::TooLate { years: 584 },
        ),
    ];
    for (at, value, problem) in cases {
        let mut bytes = good.bytes.clone();
        bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        let (frames, end) = delivered(bytes);
        assert_eq!(frames, [packet(1_000, 1, 60)]);
        assert_malformed(end, place, problem);
    }
}

#[test]
fn a_file_cut_in_a_block_is_truncated() {
    let mut file = PcapngFile::new(ByteOrder::Big);
    file.interface(1, 0, &[]);
    let start = file.bytes.len();
    file.enhanced(0, 1, &[1; 60], 60);
    for len in start + 1..file.bytes.len() {
        let (frames, end) = delivered(file.bytes[..len].to_vec());
        assert!(frames.is_empty());
        let expected = Location {
            record: 1,
            offset: start as u64,
        };
        assert!(matches!(end, Err(CaptureError::Truncated { place, .. }) if place == expected));
    }
}

#[test]
fn the_number_of_interfaces_is_limited() {
    let mut file = PcapngFile::new(ByteOrder::Little);
    (0..=MAX_INTERFACES).for_each(|_| file.interface(1, 0, &[]));
    let offset = (28 + 20 * MAX_INTERFACES) as u64;
    let problem = Malformation::TooManyInterfaces {
        limit: MAX_INTERFACES,
    };
    assert_malformed(
        delivered(file.bytes).1,
        Location { record: 1, offset },
        problem,
    );
}

#[test]
fn a_section_header_of_another_version_or_byte_order_is_refused() {
    for at in [8, 12] {
        let mut file = PcapngFile::new(ByteOrder::Little);
        file.bytes[at] = 9;
        let end = open(file.bytes).map(|_| ());
        assert_malformed(
            end,
            Location {
                record: 0,
                offset: 0,
            },
            Malformation::SectionHeader,
        );
    }
}

fn assert_malformed(
    end: Result<(), CaptureError>,
    expected: Location,
    expected_problem: Malformation,
) {
    match end {
        Err(CaptureError::Malformed { place, problem, .. }) => {
            assert_eq!((place, problem), (expected, expected_problem));
        }
        other => panic!("expected {expected_problem:?}, got {other:?}"),
    }
}
