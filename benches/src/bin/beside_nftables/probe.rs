//! How long packets take there and back.

use super::bed::{TRAFFIC_CORE, run_on_core};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use twinpath_netns::Network;

const RECEIVER: &str = "10.2.0.2:7777";
const BETWEEN: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);

/// Sends a probe each millisecond for a time, and waits for its echo. Returns the times that it took
/// there and back, in order of length; what has not come back is not in it.
pub fn round_trips(network: &Network, time: Duration) -> Vec<Duration> {
    let is_over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&is_over);
    let echo = network.on("receiver", move || echo(&until));
    let probes = network.on("sender", move || probe(time));
    let mut times = probes.join().expect("no panic");
    is_over.store(true, Ordering::Relaxed);
    echo.join().expect("no panic");
    times.sort_unstable();
    times
}

fn echo(is_over: &AtomicBool) {
    run_on_core(TRAFFIC_CORE);
    let socket = UdpSocket::bind(RECEIVER).expect("its own address");
    socket.set_read_timeout(Some(LONGEST)).expect("a time");
    let mut buffer = [0; 64];
    while !is_over.load(Ordering::Relaxed) {
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    }
}

fn probe(time: Duration) -> Vec<Duration> {
    run_on_core(TRAFFIC_CORE);
    let socket = UdpSocket::bind("10.1.0.2:0").expect("its own address");
    socket.connect(RECEIVER).expect("an address");
    socket.set_read_timeout(Some(LONGEST)).expect("a time");
    let began = Instant::now();
    let mut times = Vec::new();
    for number in 0u64.. {
        let sent = Instant::now();
        if sent.duration_since(began) > time {
            break;
        }
        // Packets that are lost, as the first before neighbours are known, say nothing here.
        let _ = socket.send(&number.to_be_bytes());
        if is_back(&socket, number) {
            times.push(sent.elapsed());
        }
        std::thread::sleep(BETWEEN.saturating_sub(sent.elapsed()));
    }
    times
}

/// Waits for the echo of a probe; those of earlier ones are too late.
fn is_back(socket: &UdpSocket, number: u64) -> bool {
    let mut buffer = [0; 64];
    while let Ok(len) = socket.recv(&mut buffer) {
        if buffer[..len] == number.to_be_bytes() {
            return true;
        }
    }
    false
}

/// The time that a share of all is not above.
pub fn percentile(times: &[Duration], share: f64) -> Option<Duration> {
    let place = (times.len() as f64 * share).ceil() as usize;
    times.get(place.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_came_back() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_micros).collect();
        assert_eq!(percentile(&times, 0.5), Some(Duration::from_micros(100)));
        assert_eq!(percentile(&times, 0.99), Some(Duration::from_micros(198)));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
