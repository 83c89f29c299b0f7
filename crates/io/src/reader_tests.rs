//! Tests of the reader as a whole: formats, gzip, progress and corruption.

use proptest::prelude::*;

use super::*;
use crate::testing::{ByteOrder, Packet, PcapFile, PcapngFile, delivered, gzip, open};

fn packets(count: usize) -> Vec<Packet> {
    let packet = |i: usize| Packet {
        timestamp_ns: 1_000_000_000 + i as u64,
        bytes: (0..40 + i * 37 % 900).map(|j| (i * 31 + j) as u8).collect(),
        original_len: 2000,
    };
    (0..count).map(packet).collect()
}

fn pcapng(packets: &[Packet], order: ByteOrder) -> (Vec<u8>, Vec<usize>) {
    let mut file = PcapngFile::new(order);
    file.interface(1, 0, &[(9, vec![9])]);
    let mut ends = vec![file.bytes.len()];
    for packet in packets {
        file.enhanced(
            0,
            packet.timestamp_ns,
            &packet.bytes,
            packet.original_len as u32,
        );
        ends.push(file.bytes.len());
    }
    (file.bytes, ends)
}

fn pcap(packets: &[Packet], order: ByteOrder) -> (Vec<u8>, Vec<usize>) {
    let file = PcapFile {
        order,
        ..PcapFile::default()
    };
    let ends = (0..=packets.len())
        .map(|count| file.bytes(&packets[..count]).len())
        .collect();
    (file.bytes(packets), ends)
}

#[test]
fn a_frame_longer_than_the_buffer_is_skipped_and_reported() {
    let mut reader = open(PcapFile::default().bytes(&packets(3))).unwrap();
    let mut buffer = [0; 77];
    let found: Vec<Next> = (0..4)
        .map(|_| reader.next_into(&mut buffer).unwrap())
        .collect();
    let record = |i: usize, captured_len| Record {
        interface: 0,
        timestamp_ns: 1_000_000_000 + i as u64,
        captured_len,
        original_len: 2000,
    };
    let expected = [
        Next::Frame(record(0, 40)),
        Next::Frame(record(1, 77)),
        Next::Oversized(record(2, 114)),
        Next::End,
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_synthesised_header_counts_against_the_buffer() {
    let file = PcapFile {
        link_type: 101,
        ..PcapFile::default()
    };
    let packet = Packet {
        timestamp_ns: 5,
        bytes: vec![0x45; 50],
        original_len: 50,
    };
    let record = Record {
        interface: 0,
        timestamp_ns: 5,
        captured_len: 64,
        original_len: 64,
    };
    let next = |len| {
        open(file.bytes(std::slice::from_ref(&packet)))
            .unwrap()
            .next_into(&mut vec![0; len])
            .unwrap()
    };
    assert_eq!(next(63), Next::Oversized(record));
    assert_eq!(next(64), Next::Frame(record));
}

#[test]
fn an_original_length_below_the_captured_one_is_raised() {
    let packet = Packet {
        timestamp_ns: 5,
        bytes: vec![1; 50],
        original_len: 10,
    };
    let (frames, _) = delivered(PcapFile::default().bytes(&[packet]));
    assert_eq!(frames[0].original_len, 50);
}

#[test]
fn gzip_is_recognised_by_its_bytes_and_progress_is_in_compressed_bytes() {
    let packets = packets(2000);
    for plain in [
        pcap(&packets, ByteOrder::Big).0,
        pcapng(&packets, ByteOrder::Little).0,
    ] {
        let compressed = gzip(&plain);
        let (frames, end) = delivered(compressed.clone());
        assert!(end.is_ok() && frames == packets);
        let mut reader = open(compressed.clone()).unwrap();
        let mut last = 0;
        while reader.next_into(&mut [0; 2048]).unwrap() != Next::End {
            assert!(reader.bytes_read() >= last);
            last = reader.bytes_read();
        }
        assert_eq!(reader.bytes_read(), compressed.len() as u64);
        assert_eq!(reader.bytes_total(), compressed.len() as u64);
    }
}

#[test]
fn a_gzip_file_cut_short_gives_the_frames_before_the_cut() {
    let packets = packets(2000);
    let compressed = gzip(&pcap(&packets, ByteOrder::Little).0);
    let (frames, end) = delivered(compressed[..compressed.len() / 2].to_vec());
    assert!(frames.len() > 500, "{}", frames.len());
    assert!(frames == packets[..frames.len()]);
    let expected = frames.len() as u64 + 1;
    assert!(matches!(end, Err(CaptureError::Truncated { place, .. }) if place.record == expected));
}

#[test]
fn a_corrupt_gzip_stream_is_a_read_error() {
    let mut compressed = gzip(&pcap(&packets(2000), ByteOrder::Little).0);
    let checksum = compressed.len() - 8;
    compressed[checksum] ^= 1;
    let (frames, end) = delivered(compressed);
    assert!(frames == packets(2000));
    assert!(
        matches!(end, Err(CaptureError::Read { place, .. }) if place.record == 2001),
        "{end:?}"
    );
}

#[test]
fn files_that_are_no_captures_are_refused_with_their_first_bytes() {
    for bytes in [&b""[..], b"ab", b"PK\x03\x04 and so on"] {
        let expected = bytes[..bytes.len().min(4)].to_vec();
        match open(bytes.to_vec()) {
            Err(CaptureError::NotACapture { found, .. }) => assert_eq!(found, expected),
            other => panic!("{:?}", other.err()),
        }
    }
    assert!(matches!(
        open(gzip(b"text").to_vec()),
        Err(CaptureError::NotACapture { .. })
    ));
    assert!(matches!(
        open(vec![0x1f, 0x8b, 1, 2]),
        Err(CaptureError::Read { .. } | CaptureError::Truncated { .. })
    ));
    assert!(matches!(
        open(vec![0xd4, 0xc3, 0xb2, 0xa1, 2]),
        Err(CaptureError::Truncated { .. })
    ));
}

#[test]
fn a_missing_file_and_a_folder_are_errors_that_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pcap");
    let error = CaptureReader::open(&missing).err().unwrap();
    assert!(
        error.to_string().contains("missing.pcap") && matches!(error, CaptureError::Open { .. })
    );
    assert!(matches!(
        CaptureReader::open(folder.path()),
        Err(CaptureError::Read { .. })
    ));
}

fn byte_order() -> impl Strategy<Value = ByteOrder> {
    prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)]
}

#[derive(Clone, Debug)]
enum Corruption {
    Overwrite(Vec<u8>),
    Insert(Vec<u8>),
    Remove(usize),
    Cut,
}

impl Corruption {
    fn apply(&self, bytes: &mut Vec<u8>, at: usize) {
        let rest = bytes.split_off(at);
        let (insert, skip) = match self {
            Corruption::Overwrite(new) => (&new[..], new.len()),
            Corruption::Insert(new) => (&new[..], 0),
            Corruption::Remove(count) => (&[][..], *count),
            Corruption::Cut => (&[][..], rest.len()),
        };
        bytes.extend(insert);
        bytes.extend(rest.get(skip..).unwrap_or_default());
    }
}

fn corruption() -> impl Strategy<Value = Corruption> {
    let some_bytes = || prop::collection::vec(any::<u8>(), 1..24);
    prop_oneof![
        some_bytes().prop_map(Corruption::Overwrite),
        some_bytes().prop_map(Corruption::Insert),
        (1_usize..200).prop_map(Corruption::Remove),
        Just(Corruption::Cut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn frames_before_a_corruption_are_delivered_and_nothing_panics(
        order in byte_order(), ng in any::<bool>(), count in 0_usize..12,
        position in any::<prop::sample::Index>(), corruption in corruption(),
    ) {
        let packets = packets(count);
        let (mut bytes, ends) = if ng { pcapng(&packets, order) } else { pcap(&packets, order) };
        let at = position.index(bytes.len());
        corruption.apply(&mut bytes, at);
        let (frames, _) = delivered(bytes);
        let intact = ends.iter().filter(|end| **end <= at).count().saturating_sub(1);
        prop_assert!(frames.len() >= intact);
        prop_assert_eq!(&frames[..intact], &packets[..intact]);
    }

    #[test]
    fn nonsense_behind_a_valid_magic_never_panics(
        magic in prop::sample::select(vec![
            0xa1b2_c3d4_u32, 0xd4c3_b2a1, 0xa1b2_3c4d, 0x4d3c_b2a1, 0xa1b2_cd34, 0x0a0d_0d0a, 0x0008_8b1f,
        ]),
        tail in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let _ = delivered([&magic.to_le_bytes()[..], &tail].concat());
    }

    #[test]
    fn nonsense_blocks_in_a_valid_section_never_panic(
        order in byte_order(),
        blocks in prop::collection::vec((0_u32..12, prop::collection::vec(any::<u8>(), 0..80)), 0..12),
    ) {
        let mut file = PcapngFile::new(order);
        file.interface(1, 0, &[]);
        for (kind, mut body) in blocks {
            body.resize(body.len().next_multiple_of(4), 0);
            if body.len() >= 4 && kind != 1 { body[..4].fill(0); }
            file.block(kind, &body);
        }
        let _ = delivered(file.bytes);
    }
}
