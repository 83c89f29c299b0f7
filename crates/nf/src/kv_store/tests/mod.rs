//! Tests of the store as a whole.

mod agreement;
mod client;
mod packets;

use super::{Config, KvStore};
use crate::two_paths::{Fate, Path};
use twinpath_core::Instant;
use twinpath_core::wire::{dissect, fields};
use twinpath_wire::kv::{DEFAULT_PORT, KvOp, KvRepr, KvStatus, KvView, MAX_MESSAGE_BYTES};
use twinpath_wire::{Endpoint, PacketBuilder, verify_ipv4_checksum, verify_transport_checksum};

fn paths() -> [Path<KvStore>; 2] {
    let store = || KvStore::new(&Config::default());
    [
        Path::slow(store(), Instant::ZERO),
        Path::both(store(), Instant::ZERO),
    ]
}

/// Runs a packet through both paths, which must agree, and answers with its fate.
fn process(paths: &mut [Path<KvStore>; 2], frame: &[u8]) -> Fate {
    let fate = paths[0].process(frame, Instant(7));
    assert_eq!(paths[1].process(frame, Instant(7)), fate);
    fate
}

fn endpoint(text: &str) -> Endpoint {
    text.parse().expect(text)
}

fn server() -> Endpoint {
    Endpoint::v4([10, 0, 0, 1], DEFAULT_PORT)
}

fn message(op: KvOp, key: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = [0; MAX_MESSAGE_BYTES];
    let length = KvRepr::request(op, 1000 + u32::from(key), [key; 16], value)
        .emit(&mut bytes)
        .expect("room");
    bytes[..length].to_vec()
}

fn datagram(from: Endpoint, to: Endpoint, payload: &[u8]) -> Vec<u8> {
    PacketBuilder::udp(from, to)
        .payload(payload)
        .to_vec()
        .expect("valid")
}

fn request(op: KvOp, key: u8, value: &[u8]) -> Vec<u8> {
    datagram(
        endpoint("198.51.100.7:4000"),
        server(),
        &message(op, key, value),
    )
}

/// Status and value of the only reply, whose packet is in order and goes back to where the
/// request came from.
fn replied(request: &[u8], fate: &Fate) -> (KvStatus, Vec<u8>) {
    let [reply] = &fate.replies[..] else {
        panic!("one reply: {fate:?}")
    };
    let (asked, answered) = (
        dissect(request).expect("valid"),
        dissect(reply).expect("valid"),
    );
    assert!(verify_ipv4_checksum(reply, &answered) && verify_transport_checksum(reply, &answered));
    assert_eq!(
        fields::destination(reply, &answered),
        fields::source(request, &asked)
    );
    assert_eq!(
        fields::source(reply, &answered),
        fields::destination(request, &asked)
    );
    assert_eq!(reply[..6], request[6..12]);
    let message = KvView::new(fields::payload(reply, &answered)).expect("a valid message");
    let asked = KvView::new(fields::payload(request, &asked)).expect("a valid message");
    assert!(message.is_reply());
    assert_eq!(
        (message.op(), message.sequence(), message.key()),
        (asked.op(), asked.sequence(), asked.key())
    );
    (message.status(), message.value().to_vec())
}
