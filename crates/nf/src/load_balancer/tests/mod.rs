//! Tests of the balancer as a whole.

mod agreement;
mod changes;
mod errors;
mod limits;
mod messages;
mod migration;
mod off_path;
mod rewriting;

use super::{Config, LoadBalancer};
use crate::two_paths::{Fate, Path};
use twinpath_core::wire::{dissect, fields};
use twinpath_core::{FlowKey, Instant};
use twinpath_wire::{Endpoint, Layout, verify_ipv4_checksum, verify_transport_checksum};

/// Two services with return through Twinpath and one with direct return.
const SERVICES: &str = r#"
    table_size = 251
    [[services]]
    vip = "192.0.2.1:80"
    protocol = "tcp"
    backends = [{ endpoint = "10.1.0.2:8080" }, { endpoint = "10.1.0.3:8081" }, { endpoint = "10.1.0.4:8082" }]
    [[services]]
    vip = "[2001:db8::1]:53"
    protocol = "udp"
    backends = [{ endpoint = "[2001:db8:1::2]:5353" }, { endpoint = "[2001:db8:1::3]:5353" }]
    [[services]]
    vip = "192.0.2.2:80"
    protocol = "tcp"
    return = "direct"
    backends = [{ endpoint = "10.1.0.2:80", mac = "02:00:00:00:01:02" }, { endpoint = "10.1.0.3:80", mac = "02:00:00:00:01:03" }]
"#;

const START: Instant = Instant(5_000_000_000_000);

const SEED: u64 = 7;

fn config(text: &str) -> Config {
    toml::from_str(text).expect("a valid configuration")
}

fn endpoint(text: &str) -> Endpoint {
    text.parse().expect(text)
}

/// The balancer on the slow path alone, and with its fast program.
fn paths(text: &str) -> [Path<LoadBalancer>; 2] {
    let config = config(text);
    [
        Path::slow(LoadBalancer::new(&config, SEED), START).gathering(),
        Path::both(LoadBalancer::new(&config, SEED), START).gathering(),
    ]
}

fn at(millis: u64) -> Instant {
    Instant(START.0 + millis * 1_000_000)
}

/// Runs a packet through both paths, which must agree, and answers with its fate.
fn process(paths: &mut [Path<LoadBalancer>; 2], frame: &[u8], now: Instant) -> Fate {
    let [slow, both] = paths;
    let fate = slow.process(frame, now);
    assert_eq!(both.process(frame, now), fate);
    fate
}

/// The only packet that went on; its checksums hold.
fn forwarded(fate: Fate) -> (Vec<u8>, Layout) {
    let [frame] = <[_; 1]>::try_from(fate.onward).expect("one packet goes on");
    let layout = dissect(&frame).expect("a valid packet");
    assert!(verify_ipv4_checksum(&frame, &layout), "IP checksum");
    assert!(
        verify_transport_checksum(&frame, &layout),
        "transport checksum"
    );
    (frame, layout)
}

/// Source and destination of the only packet that went on.
fn ends(fate: Fate) -> (Endpoint, Endpoint) {
    let (frame, layout) = forwarded(fate);
    (
        fields::source(&frame, &layout),
        fields::destination(&frame, &layout),
    )
}

fn key(client: Endpoint, vip: Endpoint, protocol: u8) -> FlowKey {
    FlowKey::connection(client, vip, protocol).0
}
