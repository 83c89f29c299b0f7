//! Measures [`dissect`] and a source rewrite: `cargo run --release -p twinpath-wire --example
//! dissect_ns`. Prints ns/packet on one core.
//!
//! "warm" repeats over a few packets that stay in the first-level cache and shows the best of many
//! short windows: the instructions. "cold" walks over half a million packets in 128-byte slots, so
//! that every header comes from memory, and shows the median window, beside a loop that only
//! touches the same cache lines.

use std::hint::black_box;
use std::time::Instant;

use twinpath_wire::{Address, Endpoint, PacketBuilder, dissect, fields, rewrite};

const ROUNDS: usize = 3;
const WARM_PACKETS: usize = 64;
const WINDOW_PACKETS: usize = 1 << 13;
const WINDOWS: usize = 64;
const COLD_PACKETS: usize = WINDOWS * WINDOW_PACKETS;
const SLOT_BYTES: usize = 128;

/// Makes the packet of one source port.
type Build = fn(u16) -> PacketBuilder<'static>;
type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    println!("{:<28}{:>10}{:>10}", "ns/packet", "warm", "cold");
    let kinds: [(&str, Build); 5] = [
        ("tcp v4", |port| {
            PacketBuilder::tcp(v4(1, port), v4(2, 80)).payload_len(6)
        }),
        ("udp v4", |port| {
            PacketBuilder::udp(v4(1, port), v4(2, 53)).payload_len(18)
        }),
        ("tcp v4 in a vlan", |port| {
            PacketBuilder::tcp(v4(1, port), v4(2, 80)).vlan(7)
        }),
        ("tcp v6", |port| PacketBuilder::tcp(v6(1, port), v6(2, 80))),
        ("icmp echo v4", |port| {
            PacketBuilder::icmp_echo(v4(1, port), v4(2, 0))
        }),
    ];
    for (name, build) in kinds {
        let mut packets = Packets::new(build)?;
        packets.report(&format!("dissect {name}"), |frame| {
            black_box(dissect(black_box(frame))).is_ok()
        });
        packets.report("  and its 5-tuple", |frame| {
            let Ok(layout) = dissect(frame) else {
                return false;
            };
            black_box((
                fields::source(frame, &layout),
                fields::destination(frame, &layout),
            ));
            true
        });
        let new = if name.ends_with("v6") {
            v6(3, 9)
        } else {
            v4(3, 9)
        };
        packets.report("  and its source rewritten", |frame| {
            let Ok(layout) = dissect(frame) else {
                return false;
            };
            rewrite::set_source(frame, &layout, black_box(new)).is_ok()
        });
    }
    let mut packets = Packets::new(kinds[0].1)?;
    packets.report("touch only", |frame| {
        black_box(frame.get(12).copied()).is_some()
    });
    Ok(())
}

/// Packets of one kind in slots of one array, with their lengths.
struct Packets {
    bytes: Vec<u8>,
    frame_bytes: usize,
}

impl Packets {
    fn new(build: Build) -> Fallible<Self> {
        let frame_bytes = build(0).frame_bytes();
        let mut bytes = vec![0; COLD_PACKETS * SLOT_BYTES];
        for (port, slot) in bytes.chunks_exact_mut(SLOT_BYTES).enumerate() {
            build(port as u16).write(slot)?;
        }
        Ok(Self { bytes, frame_bytes })
    }

    fn report(&mut self, name: &str, mut work: impl FnMut(&mut [u8]) -> bool) {
        let mut warm: Vec<f64> = (0..WINDOWS)
            .map(|_| self.window_ns(0, WARM_PACKETS, &mut work))
            .collect();
        let cold = (0..ROUNDS * WINDOWS).map(|window| window % WINDOWS * WINDOW_PACKETS);
        let mut cold: Vec<f64> = cold
            .map(|first| self.window_ns(first, WINDOW_PACKETS, &mut work))
            .collect();
        warm.sort_by(f64::total_cmp);
        cold.sort_by(f64::total_cmp);
        println!("{name:<28}{:>10.2}{:>10.2}", warm[0], cold[cold.len() / 2]);
    }

    /// The time per packet over one window, short enough to fit between two other programs.
    fn window_ns(
        &mut self,
        first: usize,
        packets: usize,
        work: &mut impl FnMut(&mut [u8]) -> bool,
    ) -> f64 {
        let (frame_bytes, start) = (self.frame_bytes, first * SLOT_BYTES);
        let slots = &mut self.bytes[start..start + packets * SLOT_BYTES];
        let (mut good, start) = (0, Instant::now());
        for _ in 0..WINDOW_PACKETS / packets {
            for slot in slots.chunks_exact_mut(SLOT_BYTES) {
                good += usize::from(work(&mut slot[..frame_bytes]));
            }
        }
        let spent_ns = start.elapsed().as_nanos() as f64;
        assert_eq!(good, WINDOW_PACKETS);
        spent_ns / WINDOW_PACKETS as f64
    }
}

fn v4(host: u8, port: u16) -> Endpoint {
    Endpoint::v4([10, 0, 0, host], port)
}

fn v6(host: u8, port: u16) -> Endpoint {
    Endpoint::new(Address(0x2001_0db8 << 96 | u128::from(host)), port)
}
