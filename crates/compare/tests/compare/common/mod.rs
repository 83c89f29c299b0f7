//! Captures in memory.
#![allow(dead_code, reason = "each test uses some of it")]

use twinpath_compare::{Comparison, Difference, Options, Renaming, Summary};
use twinpath_core::wire::{Endpoint, PacketBuilder};

/// Packets with their times in nanoseconds.
pub type Packets = Vec<(u64, Vec<u8>)>;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

pub fn end(text: &str) -> Endpoint {
    text.parse().expect("an end")
}

pub fn udp(from: &str, to: &str) -> PacketBuilder<'static> {
    PacketBuilder::udp(end(from), end(to))
}

pub fn frame(packet: PacketBuilder<'_>) -> Vec<u8> {
    packet.to_vec().expect("a sound packet")
}

/// One packet a millisecond.
pub fn capture<'p>(packets: impl IntoIterator<Item = PacketBuilder<'p>>) -> Packets {
    let frames = packets.into_iter().map(frame);
    (0..).map(|number| number * MS).zip(frames).collect()
}

pub fn compare(a: &Packets, b: &Packets, options: Options) -> Result<Summary, Box<Difference>> {
    Comparison::new(options).compare(each(a), each(b))
}

fn each(packets: &Packets) -> impl Iterator<Item = (u64, &[u8])> + Clone {
    packets.iter().map(|(time, frame)| (*time, &frame[..]))
}

/// What a plain comparison says.
pub fn told(a: &Packets, b: &Packets) -> String {
    text(compare(a, b, Options::default()))
}

pub fn text(result: Result<Summary, Box<Difference>>) -> String {
    match result {
        Ok(_) => "the same".into(),
        Err(difference) => difference.to_string(),
    }
}

/// Names may differ within this prefix.
pub fn renamed(external: &str) -> Options {
    let prefixes = external
        .split(',')
        .map(|text| text.parse().expect("a prefix"));
    Options {
        renaming: Some(Renaming::of(prefixes.collect())),
        ..Options::default()
    }
}
