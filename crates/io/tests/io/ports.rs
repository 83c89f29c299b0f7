//! Frames of several ports, written to a file each, are the same when they are read back as one.

use proptest::prelude::*;
use twinpath_io::{FrameSink, MergedReader, Next, OrderedWriter, PortFiles, PortPattern, Trace};

const PORTS: [&str; 4] = ["inside", "outside", "dmz", "idle"];

/// A number of a port that is used, a time (few, so that many are equal) and bytes.
type Frame = (u32, u64, Vec<u8>);

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let frame = (
        0_u32..3,
        0_u64..20,
        prop::collection::vec(any::<u8>(), 0..80),
    );
    prop::collection::vec(frame, 0..60)
}

fn trace(frames: &[Frame]) -> Trace {
    let mut trace = Trace::new();
    for (port, timestamp_ns, frame) in frames {
        trace.push_on(*port, *timestamp_ns, frame);
    }
    trace
}

fn merged(pattern: &PortPattern) -> Trace {
    let mut reader = MergedReader::open(pattern, &PORTS).unwrap();
    let mut buffer = [0; 100];
    let mut trace = Trace::new();
    while let Next::Frame(record) = reader.next_into(&mut buffer).unwrap() {
        let frame = &buffer[..record.captured_len];
        trace.push_on(record.interface, record.timestamp_ns, frame);
    }
    trace
}

proptest! {
    #[test]
    fn a_file_for_each_port_merges_into_what_was_pushed(
        frames in frames(),
        name in prop::sample::select(vec!["{port}.pcap", "{port}.pcapng", "{port}.pcap.gz"]),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let pattern = PortPattern::of(folder.path().join(name)).unwrap();
        let mut writer = OrderedWriter::new(PortFiles::create(&pattern, &PORTS).unwrap(), 1 << 20);
        for (port, timestamp_ns, frame) in &frames {
            writer.push_on(*port, *timestamp_ns, 0, frame).unwrap();
        }
        let (totals, counters) = writer.finish().unwrap();
        prop_assert!(counters.is_in_order());
        prop_assert_eq!(totals.iter().map(|file| file.frames).sum::<u64>(), frames.len() as u64);
        let mut expected = frames;
        expected.sort_by_key(|(port, timestamp_ns, _)| (*timestamp_ns, *port));
        prop_assert_eq!(merged(&pattern), trace(&expected));
    }

    /// Files that are not in the order of time: against merging by hand.
    #[test]
    fn merging_takes_the_earliest_of_what_is_next(frames in frames()) {
        let folder = tempfile::tempdir().unwrap();
        let pattern = PortPattern::of(folder.path().join("{port}.pcap")).unwrap();
        let mut files = PortFiles::create(&pattern, &PORTS).unwrap();
        for (port, timestamp_ns, frame) in &frames {
            files.write_on(*port, *timestamp_ns, frame).unwrap();
        }
        files.finish().unwrap();
        prop_assert_eq!(merged(&pattern), trace(&by_hand(frames)));
    }
}

fn by_hand(mut frames: Vec<Frame>) -> Vec<Frame> {
    let mut taken = Vec::new();
    while !frames.is_empty() {
        let first_of = |port| frames.iter().position(|frame| frame.0 == port);
        let next = (0..PORTS.len() as u32)
            .filter_map(first_of)
            .min_by_key(|at| (frames[*at].1, frames[*at].0))
            .unwrap();
        taken.push(frames.remove(next));
    }
    taken
}
