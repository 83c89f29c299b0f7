//! How many packets a second one core generates, for several kinds of traffic.
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
    let begin = Instant::now();
    for _ in 0..packets {
        black_box(generator.next_into(&mut buffer));
    }
    Ok(begin.elapsed().as_nanos() as f64 / packets as f64)
}
