//! The reassembler over real captures, against an independent reassembly.
//!
//! Every TCP packet of a capture goes through the reassembler on the slow path. What comes out is read
//! as a simple receiver would: per direction, a segment that starts at the next byte continues the
//! current piece, one further on begins a new piece, one that lies behind is a retransmission, and
//! one that does both is an error. The truth is computed offline and in another way: all segments
//! of a direction are sorted by sequence number, those that touch are laid into one array, and of
//! several copies of a byte the one that arrived first counts.
//!
//! Where a capture has holes (bytes that are not in it at all) the truth is a list of pieces. Run
//! with unlimited patience the reassembler waits for the end of the connection at each hole, so
//! its pieces must equal the true ones exactly. Run with the default configuration it gives gaps
//! up; then each of its pieces must lie within a true piece and have its bytes, and without any
//! gap given up the pieces must again be equal.
//!
//! A connection's packets are told from those of an earlier one with the same addresses and ports
//! by SYN, RST and jumps of a quarter of the sequence space; what precedes the first packet of a direction
//! is not compared, for it was never in order. That no byte is lost is checked for all of them.

mod driver;
mod truth;

use driver::{Segment, load, run};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;
use truth::Streams;
use twinpath_io::Trace;
use twinpath_nf::checksums::VerifyChecksums;
use twinpath_nf::duration::Human;
use twinpath_nf::reassembler::Config;

/// What a receiver of a direction has got in order, piece by piece.
#[derive(Default)]
struct Receiver {
    pieces: Vec<(i64, Vec<u8>)>,
}

impl Receiver {
    fn receive(&mut self, start: i64, segment: &Segment) {
        let end = start + segment.payload.len() as i64;
        let next = self
            .pieces
            .last()
            .map(|(first, bytes)| first + bytes.len() as i64);
        match (next, self.pieces.last_mut()) {
            (Some(next), Some((_, bytes))) if start == next => bytes.extend(&segment.payload),
            (Some(next), _) if end <= next => {}
            (Some(next), _) if start < next => panic!(
                "packet {} reaches from {start} to {end} over {next}",
                segment.ordinal
            ),
            (None, _) if end <= 0 => {}
            _ => self.pieces.push((start, segment.payload.clone())),
        }
    }
}

fn received(output: &[Segment], streams: &Streams) -> BTreeMap<usize, Receiver> {
    let mut receivers: BTreeMap<usize, Receiver> = BTreeMap::new();
    for segment in output.iter().filter(|segment| segment.has_data()) {
        let index = streams.of_packet[segment.ordinal];
        let start = streams.streams[index].offset(segment.first());
        receivers.entry(index).or_default().receive(start, segment);
    }
    receivers
}

/// Every byte that went in came out, of a packet as valid as it was.
fn check_nothing_lost(name: &str, input: &[Segment], output: &[Segment], streams: &Streams) {
    let mut ranges: HashMap<usize, Vec<(i64, i64)>> = HashMap::new();
    for segment in output {
        assert_eq!(
            segment.valid, input[segment.ordinal].valid,
            "{name}: checksums of packet {}",
            segment.ordinal
        );
        let index = streams.of_packet[segment.ordinal];
        let start = streams.streams[index].offset(segment.first());
        ranges
            .entry(index)
            .or_default()
            .push((start, start + segment.payload.len() as i64));
    }
    ranges.values_mut().for_each(merge);
    for segment in input.iter().filter(|segment| !segment.payload.is_empty()) {
        let index = streams.of_packet[segment.ordinal];
        let start = streams.streams[index].offset(segment.first());
        let end = start + segment.payload.len() as i64;
        let covered = ranges.get(&index).is_some_and(|ranges| {
            ranges
                .iter()
                .any(|range| range.0 <= start && end <= range.1)
        });
        assert!(
            covered,
            "{name}: packet {} did not come out",
            segment.ordinal
        );
    }
}

fn merge(ranges: &mut Vec<(i64, i64)>) {
    ranges.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for &(start, end) in ranges.iter() {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    *ranges = merged;
}

/// What a comparison was about, so that it can be seen to be about something.
#[derive(Debug, Default)]
struct Extent {
    streams: usize,
    bytes: usize,
    holes: usize,
    segments_held: u64,
    gaps_closed: u64,
    gaps_given_up: u64,
}

fn compare(name: &str, trace: &Trace, config: &Config, extent: &mut Extent) {
    let (input, output, function) = run(trace, config);
    let streams = Streams::sort_out(&input);
    check_nothing_lost(name, &input, &output, &streams);
    let receivers = received(&output, &streams);
    let counters = function.statistics();
    let given_up = counters.gaps_timed_out + counters.limits_reached + counters.resynchronised;
    let exact = config.gap_timeout > Human::seconds(3600) || given_up == 0;
    for (index, stream) in streams.streams.iter().enumerate() {
        let truth = stream.pieces(&input);
        let pieces = receivers
            .get(&index)
            .map_or(&[][..], |receiver| &receiver.pieces);
        extent.bytes += truth.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        extent.holes += truth.len().saturating_sub(1);
        if exact {
            assert_eq!(
                outline(pieces),
                outline(&truth),
                "{name}: stream {index} of {:?}",
                input[stream.ordinals[0]].stream
            );
            assert!(pieces == truth, "{name}: bytes of stream {index} differ");
        } else {
            pieces.iter().for_each(|piece| {
                assert!(
                    lies_within(piece, &truth),
                    "{name}: a piece of stream {index} is not true"
                )
            });
        }
    }
    extent.streams += streams.streams.len();
    extent.segments_held += counters.held;
    extent.gaps_closed += counters.gaps_closed;
    extent.gaps_given_up += given_up;
    println!("{name}: {} packets, {counters:?}", input.len());
}

/// Where pieces begin and how long they are.
fn outline(pieces: &[(i64, Vec<u8>)]) -> Vec<(i64, usize)> {
    pieces
        .iter()
        .map(|(start, bytes)| (*start, bytes.len()))
        .collect()
}

fn lies_within((start, bytes): &(i64, Vec<u8>), truth: &[(i64, Vec<u8>)]) -> bool {
    truth.iter().any(|(first, whole)| {
        let from = usize::try_from(start - first).ok();
        from.and_then(|from| whole.get(from..from + bytes.len())) == Some(bytes)
    })
}

/// The names and paths of the shared captures; `None` where there are none.
fn captures() -> Option<BTreeMap<String, PathBuf>> {
    let named = twinpath_captures::captures().into_iter().map(|path| {
        let name = path.file_name().expect("a file").to_string_lossy();
        (name.into_owned(), path)
    });
    let captures: BTreeMap<_, _> = named.collect();
    (!captures.is_empty()).then_some(captures)
}

/// Many hosts that were captured left checksums to their network card.
fn for_captures() -> Config {
    Config {
        verify_checksums: VerifyChecksums::None,
        ..Config::default()
    }
}

#[test]
fn with_patience_the_streams_are_the_true_ones() {
    let patient = Config {
        gap_timeout: Human(Duration::from_secs(3000 * 86_400)),
        idle_timeout: Human(Duration::from_secs(3600 * 86_400)),
        window_bytes: 1 << 30,
        most_segments_per_flow: 1 << 20,
        most_bytes_per_flow: 1 << 30,
        most_segments: 1 << 20,
        most_long_segments: 1 << 20,
        ..for_captures()
    };
    let Some(captures) = captures() else { return };
    let mut extent = Extent::default();
    captures
        .iter()
        .for_each(|(name, path)| compare(name, &load(path), &patient, &mut extent));
    println!("{extent:?}");
    assert!(extent.streams > 1000 && extent.bytes > 1 << 20 && extent.holes > 0);
    assert!(extent.segments_held > 0 && extent.gaps_closed > 0);
}

#[test]
fn with_the_default_configuration_no_byte_is_wrong_or_lost() {
    let Some(captures) = captures() else { return };
    let mut extent = Extent::default();
    captures
        .iter()
        .for_each(|(name, path)| compare(name, &load(path), &for_captures(), &mut extent));
    println!("{extent:?}");
    assert!(extent.gaps_closed > 0 && extent.gaps_given_up > 0);
}
