//! Every real capture is read to its last packet, agrees with a plain walk
//! over the file, and survives being written and read again.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use twinpath_io::{CaptureError, CaptureReader, CaptureWriter, Location, Next, Trace};

struct Capture {
    path: PathBuf,
    packets: usize,
    link_type: u32,
}

/// The captures of the manifest; none, with a note, where the folder is absent.
fn captures() -> Vec<Capture> {
    let Some(folder) = twinpath_captures::shared("traces") else {
        return Vec::new();
    };
    let manifest = folder.join("MANIFEST.csv");
    let mut rows = csv::Reader::from_path(manifest).unwrap();
    let headers = rows.headers().unwrap().clone();
    let column = |name: &str| headers.iter().position(|header| header == name).unwrap();
    let (file, packets, link_type) = (column("file"), column("packets"), column("linktype"));
    let capture = |row: csv::StringRecord| Capture {
        path: folder.join(&row[file]),
        packets: row[packets].parse().unwrap(),
        link_type: row[link_type].parse().unwrap(),
    };
    let captures: Vec<Capture> = rows.records().map(|row| capture(row.unwrap())).collect();
    assert!(captures.len() >= 20 && captures.iter().any(|capture| capture.link_type != 1));
    captures
}

/// What a plain walk over a file finds.
struct Walk {
    /// Timestamp in nanoseconds, bytes and length on the wire.
    packets: Vec<(u64, Vec<u8>, usize)>,
    /// Where the last whole record ends, if the file goes on after it.
    stray_tail_at: Option<u64>,
}

impl Walk {
    /// A reader must deliver every whole record and then say whether the file
    /// ended there. One of the captures has a line feed behind its last record.
    fn assert_end(&self, end: Result<Next, CaptureError>) {
        match (end, self.stray_tail_at) {
            (Ok(Next::End), None) => {}
            (Err(CaptureError::Truncated { place, .. }), Some(offset)) => {
                let record = self.packets.len() as u64 + 1;
                assert_eq!(place, Location { record, offset });
            }
            (end, tail) => panic!("{end:?} with a tail at {tail:?}"),
        }
    }
}

/// The reference: little-endian microsecond pcap, which all of them are.
fn walk(path: &Path) -> Walk {
    let mut bytes = fs::read(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "gz") {
        let compressed = std::mem::take(&mut bytes);
        flate2::read::GzDecoder::new(&compressed[..])
            .read_to_end(&mut bytes)
            .unwrap();
    }
    assert_eq!(bytes[..4], [0xd4, 0xc3, 0xb2, 0xa1], "{}", path.display());
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut packets = Vec::new();
    let mut at = 24;
    while at + 16 <= bytes.len() {
        let timestamp_ns = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)) * 1000;
        let (captured, original) = (word(at + 8) as usize, word(at + 12) as usize);
        packets.push((
            timestamp_ns,
            bytes[at + 16..at + 16 + captured].to_vec(),
            original,
        ));
        at += 16 + captured;
    }
    let stray_tail_at = (at < bytes.len()).then_some(at as u64);
    Walk {
        packets,
        stray_tail_at,
    }
}

fn expected_frame(link_type: u32, packet: &[u8]) -> Vec<u8> {
    let header = |source: &[u8]| [&[0; 6], source, &[0x08, 0x00]].concat();
    match link_type {
        1 => packet.to_vec(),
        // Both captures hold IPv4 only, as the manifest says.
        0 => [&header(&[0; 6]), &packet[4..]].concat(),
        113 => [&header(&packet[6..12]), &packet[16..]].concat(),
        other => panic!("a capture of link type {other} needs a reference"),
    }
}

#[test]
fn every_capture_agrees_with_a_plain_walk_over_the_file() {
    for capture in captures() {
        let reference = walk(&capture.path);
        assert_eq!(
            reference.packets.len(),
            capture.packets,
            "{}",
            capture.path.display()
        );
        let mut reader = CaptureReader::open(&capture.path).unwrap();
        let mut buffer = vec![0; 65_536 + 14];
        for (number, (timestamp_ns, packet, original)) in reference.packets.iter().enumerate() {
            let Next::Frame(record) = reader.next_into(&mut buffer).unwrap() else {
                panic!("{}: no frame {number}", capture.path.display());
            };
            let expected = expected_frame(capture.link_type, packet);
            assert!(
                buffer[..record.captured_len] == expected,
                "{}: frame {number}",
                capture.path.display()
            );
            assert_eq!(record.timestamp_ns, *timestamp_ns);
            let missing = original.saturating_sub(packet.len());
            assert_eq!(record.original_len, expected.len() + missing);
        }
        reference.assert_end(reader.next_into(&mut buffer));
        assert_eq!(reader.bytes_read(), reader.bytes_total());
        assert_eq!(
            reader.bytes_total(),
            fs::metadata(&capture.path).unwrap().len()
        );
    }
}

/// Every frame before the end or a stray tail.
fn whole_records(path: &Path) -> Trace {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut buffer = vec![0; 65_536 + 14];
    let mut trace = Trace::new();
    loop {
        match reader.next_into(&mut buffer) {
            Ok(Next::Frame(record)) => {
                trace.push(record.timestamp_ns, &buffer[..record.captured_len])
            }
            Ok(Next::End) | Err(CaptureError::Truncated { .. }) => return trace,
            other => panic!("{}: {other:?}", path.display()),
        }
    }
}

fn round_trip(trace: &Trace, path: &Path) -> Trace {
    let mut writer = CaptureWriter::create(path).unwrap();
    for entry in trace.iter() {
        writer.write(entry.timestamp_ns, entry.frame).unwrap();
    }
    let totals = writer.finish().unwrap();
    assert_eq!(
        (totals.frames, totals.bytes),
        (trace.len() as u64, trace.bytes() as u64)
    );
    Trace::load(path).unwrap()
}

#[test]
fn every_capture_survives_being_written_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    for capture in captures() {
        let trace = whole_records(&capture.path);
        assert_eq!(trace.len(), capture.packets, "{}", capture.path.display());
        for name in ["plain.pcap", "packed.pcap.gz", "plain.pcapng"] {
            let back = round_trip(&trace, &folder.path().join(name));
            assert!(back == trace, "{} through {name}", capture.path.display());
        }
    }
}
