//! Frames of 4096 flows, as fast as one core makes them, or at a rate.

use super::bed::{INSIDE_MAC, SENDER_MAC, SINK, TRAFFIC_CORE, run_on_core};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use twinpath_core::wire::{Endpoint, MacAddress, PacketBuilder};
use twinpath_netns::Network;
use twinpath_ports::Flood;
use twinpath_ports::interface::Interface;

/// Frames that are sent in one go at a rate, and without one.
const BURST: u64 = 32;
const LONG_BURST: u64 = 16_384;

/// Headers in front of the payload: Ethernet, IPv4, UDP.
const HEADERS: usize = 14 + 20 + 8;

/// Where the checksum of UDP is.
const CHECKSUM: usize = 40;

/// The frame check sequence, which counts as part of a frame's length and is no matter of ours.
const FCS: usize = 4;

/// A sender at work.
pub struct Sender {
    thread: JoinHandle<u64>,
    is_over: Arc<AtomicBool>,
}

impl Sender {
    /// Begins to send frames of so many bytes; as many in a second as said, or as can be.
    pub fn start(network: &Network, frame_bytes: usize, rate: Option<u64>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let thread = network.on("sender", move || send(frame_bytes, rate, &until));
        Self { thread, is_over }
    }

    /// Ends it, and tells how many frames were sent.
    pub fn stop(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}

fn send(frame_bytes: usize, rate: Option<u64>, is_over: &AtomicBool) -> u64 {
    run_on_core(TRAFFIC_CORE);
    let interface = Interface::of("eth0").expect("it is there");
    let flood = Flood::new(interface.index, &frame(frame_bytes));
    let mut flood = flood.expect("root may, with Linux 5.18");
    let (began, mut sent) = (Instant::now(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let burst = match rate {
            None => LONG_BURST,
            Some(rate) => due(rate, began.elapsed()).saturating_sub(sent).min(BURST),
        };
        if burst == 0 {
            std::thread::sleep(Duration::from_micros(20));
            continue;
        }
        flood.send(burst as u32).expect("the interface is up");
        sent += burst;
    }
    sent
}

/// Frames that should have been sent after a time.
fn due(rate: u64, elapsed: Duration) -> u64 {
    (u128::from(rate) * elapsed.as_nanos() / 1_000_000_000) as u64
}

/// A frame, of which each flow has copies with a port of its own, and so without a checksum.
fn frame(frame_bytes: usize) -> Vec<u8> {
    let mac = |text: &str| text.parse::<MacAddress>().expect("a MAC address");
    let sink = SINK.parse::<std::net::Ipv4Addr>().expect("an address");
    let packet = PacketBuilder::udp(
        Endpoint::v4([10, 1, 0, 2], 0),
        Endpoint::v4(sink.octets(), 0),
    );
    let packet = packet.macs(mac(SENDER_MAC), mac(INSIDE_MAC));
    let packet = packet.payload_len(frame_bytes - FCS - HEADERS);
    let mut frame = packet.to_vec().expect("a packet");
    frame[CHECKSUM..CHECKSUM + 2].fill(0);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_lengths_that_are_asked_for() {
        for bytes in [64, 1518] {
            assert_eq!(frame(bytes).len() + FCS, bytes);
        }
    }

    #[test]
    fn what_is_due_grows_with_time() {
        assert_eq!(due(1_000_000, Duration::from_millis(3)), 3000);
    }
}
