//! Real traffic: what a firewall that allows everything makes of the shared captures.
//!
//! The paths must agree on every packet, and a segment that a real TCP sent must be believed.
//! Where a capture does not hold everything that the ends said, the firewall cannot know so.

use std::path::Path;

use twinpath_core::DropReason::{
    Denied, FragmentAlone, FragmentBacklogFull, FragmentMisfit, InvalidState,
};
use twinpath_core::Instant;
use twinpath_core::wire::{Fragment, dissect};
use twinpath_io::{CaptureReader, Next};

use super::talk::{Twins, verdict};
use crate::two_paths::Fate;

/// Captures with segments that are not believed: how many at most, in thousandths of the packets,
/// and why.
const NOT_BELIEVED: [(&str, u64, &str); 4] = [
    (
        "pcpp_tls_v4v6.pcap",
        500,
        "only segments with TLS records: what else was sent is missing and is acknowledged",
    ),
    (
        "snabb_backbone_sanitized4k.pcap",
        10,
        "a sample of a link: segments are missing between others",
    ),
    (
        "zeek_modbus_large.pcap",
        1,
        "one acknowledgement was captured before what it acknowledges",
    ),
    (
        "zeek_retransmit_fast.pcap",
        800,
        "all data is cut off and dropped before the firewall, and is acknowledged",
    ),
];

/// What became of a capture's packets.
#[derive(Debug, Default)]
struct Tally {
    packets: u64,
    simple: u64,
    invalid: u64,
    denied: u64,
    /// Fragments that passed, and those that did not: they came twice, or without a first one.
    fragments: [u64; 2],
}

impl Tally {
    fn fragment(&mut self, fate: &Fate) {
        self.fragments[0] += fate.onward.len() as u64;
        for (reason, count) in &fate.drops {
            assert!(
                matches!(
                    reason,
                    FragmentMisfit | FragmentAlone | FragmentBacklogFull | Denied
                ),
                "{fate:?}"
            );
            self.fragments[1] += count;
        }
    }

    fn invalid_per_mille(&self) -> u64 {
        (self.invalid * 1000).div_ceil(self.packets.max(1))
    }
}

fn name(path: &Path) -> String {
    path.file_name()
        .expect("a file")
        .to_string_lossy()
        .into_owned()
}

/// Runs a capture through the firewall; one that is cut off, up to there.
fn run(path: &Path) -> Tally {
    let mut reader = CaptureReader::open(path).expect("a capture");
    // Many hosts leave checksums to their network card, behind where they capture.
    let config = "default = \"allow\"\nverify_checksums = \"none\"";
    let (mut twins, mut tally) = (Twins::new(config), Tally::default());
    let mut buffer = vec![0; 1 << 17];
    while let Ok(Next::Frame(record)) = reader.next_into(&mut buffer) {
        let frame = &buffer[..record.captured_len];
        if !dissect(frame).is_ok_and(|layout| layout.is_ip()) {
            continue;
        }
        let fate = twins.process(frame, Instant(record.timestamp_ns));
        tally.packets += 1;
        if dissect(frame).is_ok_and(|layout| layout.fragment != Fragment::Whole) {
            tally.fragment(&fate);
            continue;
        }
        match verdict(&fate, frame) {
            Ok(()) => {}
            Err(InvalidState) => tally.invalid += 1,
            Err(Denied) => tally.denied += 1,
            Err(other) => panic!(
                "{}: packet {} is dropped as {}",
                path.display(),
                tally.packets,
                other.name()
            ),
        }
    }
    tally.simple = twins.simple();
    assert_eq!(
        tally.denied,
        twins.counter("icmp_errors_unrelated"),
        "only errors about nothing known are denied"
    );
    tally
}

#[test]
fn real_segments_are_believed_and_the_paths_agree() {
    for path in twinpath_captures::captures() {
        let (name, tally) = (name(&path), run(&path));
        let (most, why) = NOT_BELIEVED
            .iter()
            .find(|(other, ..)| *other == name)
            .map_or((0, ""), |&(_, most, why)| (most, why));
        println!("{name}: {tally:?} {why}");
        assert!(tally.packets > 0, "{name} holds no packet");
        assert!(tally.invalid_per_mille() <= most, "{name}: {tally:?}");
    }
}
