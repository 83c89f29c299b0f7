//! How many packets a second one core generates, for several kinds of traffic.
//! Time is what the thread spent on a core (where the system tells), so that
//! other programs on the machine disturb little.
//!
//!     cargo run --release -p twinpath-traffic --example generate_rate [PACKETS]

use std::hint::black_box;
use std::time::Instant;

use twinpath_traffic::{Generator, TrafficConfig};

const KINDS: [(&str, &str); 7] = [
    (
        "UDP, uniform, 32k flows, 64 B",
        "flows = 32_768\ntcp_share = 0.0",
    ),
    (
        "TCP established, uniform, 32k flows, 64 B",
        "flows = 32_768\nserver_packets = false\ntcp = { handshake = false }",
    ),
    (
        "TCP established, Zipf 0.99, 32k flows, 64 B",
        "flows = 32_768\nserver_packets = false\ntcp = { handshake = false }\n\
         popularity = { distribution = 'zipf' }",
    ),
    (
        "TCP established, uniform, 1M flows, 64 B",
        "flows = 1_048_576\nserver_packets = false\ntcp = { handshake = false }",
    ),
    (
        "TCP with handshakes, churn, 10 % out of order, 64 B",
        "flows = 32_768\nchurn_per_minute = 1e6\ntcp = { out_of_order_share = 0.1 }",
    ),
    (
        "TCP with handshakes, IMIX, both IP versions",
        "flows = 32_768\npacket_size = { kind = 'imix' }\nhosts = { ipv6_share = 0.5 }",
    ),
    ("key-value requests, 100k keys", "kv = {}"),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let packets = std::env::args()
        .nth(1)
        .map_or(Ok(3_000_000), |count| count.parse())?;
    for (name, text) in KINDS {
        let config: TrafficConfig = toml::from_str(text)?;
        let ns_per_packet = measure(&config, packets)?;
        println!(
            "{name:<52} {:6.2} Mpps  {ns_per_packet:5.0} ns/packet",
            1e3 / ns_per_packet
        );
    }
    Ok(())
}

fn measure(config: &TrafficConfig, packets: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let mut generator = Generator::new(config, 1)?;
    let mut buffer = vec![0; generator.frame_bytes_max()];
    let (begin, begin_ns) = (Instant::now(), on_core_ns());
    for _ in 0..packets {
        black_box(generator.next_into(&mut buffer));
    }
    let elapsed_ns = match (begin_ns, on_core_ns()) {
        (Some(begin_ns), Some(end_ns)) => end_ns - begin_ns,
        _ => begin.elapsed().as_nanos() as u64,
    };
    Ok(elapsed_ns as f64 / packets as f64)
}

/// Time that this thread has spent on a core, from Linux.
fn on_core_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
