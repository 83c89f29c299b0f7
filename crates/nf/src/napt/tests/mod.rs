//! Tests of the translation as a whole.

mod blocks;
mod changes;
mod checksums;
mod errors;
mod forwards;
mod fragments;
mod limits;
mod model;
mod ports;
mod scenarios;
mod tcp;

use super::{Config, Napt};
use crate::two_caches::{Bench, Outcome};
use twinpath_core::wire::{Endpoint, Layout, PacketBuilder, fields};
use twinpath_core::{DropReason, Instant};
use twinpath_rulecache::RuleFunction;

const BASIC: &str = r#"
    inside = ["10.0.0.0/8", "fd00::/8"]
    external = ["192.0.2.1", "2001:db8::1"]
    assignment = "preserve"
"#;

fn napt(text: &str) -> Box<dyn RuleFunction> {
    let config: Config = toml::from_str(text).expect("a valid configuration");
    Box::new(Napt::new(&config, 7))
}

fn bench(text: &str) -> Bench {
    Bench::cached(vec![napt(text)], 8)
}

fn end(text: &str) -> Endpoint {
    text.parse().expect(text)
}

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

fn send(bench: &mut Bench, packet: PacketBuilder<'_>, seconds: u64) -> Outcome {
    let frame = packet.payload_len(9).to_vec().expect("fits");
    bench.process(&frame, 0, at(seconds))
}

/// Sends UDP and answers with the ends it left with.
fn udp(
    bench: &mut Bench,
    from: &str,
    to: &str,
    seconds: u64,
) -> Result<(Endpoint, Endpoint), DropReason> {
    ends(send(bench, PacketBuilder::udp(end(from), end(to)), seconds))
}

fn ends(outcome: Outcome) -> Result<(Endpoint, Endpoint), DropReason> {
    outcome.packet.as_ref().map_err(|reason| *reason)?;
    let (bytes, layout) = outcome.departed();
    Ok(ends_of(&bytes, &layout))
}

fn ends_of(bytes: &[u8], layout: &Layout) -> (Endpoint, Endpoint) {
    (
        fields::source(bytes, layout),
        fields::destination(bytes, layout),
    )
}
