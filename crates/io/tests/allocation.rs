//! Reading and ordered writing allocate nothing per packet.

use std::io::Cursor;

use allocation_counter::measure;
use twinpath_io::{CaptureError, CaptureReader, FrameSink, Next, OrderedWriter};

const RECORDS: u32 = 20_000;

fn pcap() -> Vec<u8> {
    let mut bytes = vec![
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0,
    ];
    for i in 0..RECORDS {
        [i, 0, 100, 100]
            .iter()
            .for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend([i as u8; 100]);
    }
    bytes
}

/// Enhanced packets, each with the option that makes some readers allocate.
fn pcapng() -> Vec<u8> {
    let mut bytes = Vec::new();
    let words = |bytes: &mut Vec<u8>, words: &[u32]| {
        words
            .iter()
            .for_each(|word| bytes.extend(word.to_le_bytes()))
    };
    words(
        &mut bytes,
        &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28],
    );
    words(&mut bytes, &[1, 20, 1, 0, 20]);
    for i in 0..RECORDS {
        words(&mut bytes, &[6, 144, 0, 0, i, 100, 100]);
        bytes.extend([i as u8; 100]);
        words(&mut bytes, &[0x0004_0002, 1, 0, 144]);
    }
    bytes
}

#[test]
fn the_reader_allocates_nothing_per_packet() {
    for bytes in [pcap(), pcapng()] {
        let mut reader =
            CaptureReader::from_source("test", Box::new(Cursor::new(bytes)), 0).unwrap();
        reader.read_interfaces().unwrap();
        let mut buffer = [0; 2048];
        let mut frames = 0;
        let used = measure(|| {
            while let Next::Frame(_) = reader.next_into(&mut buffer).unwrap() {
                frames += 1;
            }
        });
        assert_eq!(frames, RECORDS);
        assert_eq!(used.count_total, 0, "{used:?}");
    }
}

struct Discard(u64);

impl FrameSink for Discard {
    type Finished = u64;

    fn write_on(&mut self, _: u32, _: u64, frame: &[u8]) -> Result<(), CaptureError> {
        self.0 += frame.len() as u64;
        Ok(())
    }

    fn finish(self) -> Result<u64, CaptureError> {
        Ok(self.0)
    }
}

#[test]
fn the_ordered_writer_allocates_nothing_once_it_is_warm() {
    let mut writer = OrderedWriter::new(Discard(0), 1 << 20);
    let mut round = |from: u64| {
        for timestamp_ns in from..from + 1000 {
            writer.push(timestamp_ns ^ 7, 0, &[1; 100]).unwrap();
            writer.advance(timestamp_ns.saturating_sub(64)).unwrap();
        }
    };
    round(0);
    let used = measure(|| round(1000));
    assert_eq!(used.count_total, 0, "{used:?}");
}
