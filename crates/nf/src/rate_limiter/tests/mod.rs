mod agreement;
mod buckets;
mod configuration;
mod lines;
mod prefixes;

use super::{Config, RateLimiter};
use std::time::Duration;
use twinpath_core::Instant;
use twinpath_core::wire::{Endpoint, PacketBuilder};

/// When runs begin: in the middle of a tick, with bits in both halves.
const START: Instant = Instant(1_700_000_000_123_456_789);

/// A configuration as a service file has it.
fn config(text: &str) -> Config {
    let raw = toml::from_str::<super::config::RawConfig>(text).expect(text);
    Config::try_from(raw).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn limiter(text: &str) -> RateLimiter {
    RateLimiter::new(&config(text), 5)
}

fn at(nanoseconds: u64) -> Instant {
    START + Duration::from_nanos(nanoseconds)
}

/// Both ends of a flow, over either IP version.
fn ends(v6: bool, number: u16) -> [Endpoint; 2] {
    let [from, to] = match v6 {
        false => ["10.0.0.1", "192.0.2.1"],
        true => ["fd00::1", "2001:db8::1"],
    };
    let end = |address: &str, port| Endpoint::new(address.parse().expect("an address"), port);
    [end(from, 4000 + number), end(to, 53)]
}

/// A datagram whose IP packet has so many bytes, or as few as there may be.
fn datagram([from, to]: [Endpoint; 2], bytes: usize) -> Vec<u8> {
    let headers = if from.address.is_v4() { 28 } else { 48 };
    let payload = vec![7; bytes.saturating_sub(headers)];
    let built = PacketBuilder::udp(from, to).payload(&payload).to_vec();
    built.expect("a packet")
}
