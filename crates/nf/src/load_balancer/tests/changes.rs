//! Draining, removing and adding backends.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use twinpath_core::DropReason;
use twinpath_wire::tcp::flags;
use twinpath_wire::{PacketBuilder, protocol};

/// `10.0.0.4` is drained at 1 s, removed at 2 s, and `10.0.0.9` added at 3 s. Large enough a table
/// that few others would change their place.
const CHANGING: &str = r#"
    table_size = 65537
    [[services]]
    vip = "192.0.2.1:80"
    protocol = "tcp"
    backends = [{ endpoint = "10.0.0.1:80" }, { endpoint = "10.0.0.2:80" }, { endpoint = "10.0.0.3:80" }, { endpoint = "10.0.0.4:80" }]
    changes = [
        { at = "1s", drain = "10.0.0.4:80" },
        { at = "2s", remove = "10.0.0.4:80" },
        { at = "3s", add = "10.0.0.9:80", weight = 4 },
    ]
"#;

const CLIENTS: u16 = 400;

fn client(number: u16) -> Endpoint {
    Endpoint::v4([198, 51, 100, 7], 10_000 + number)
}

fn send(paths: &mut [Path<LoadBalancer>; 2], number: u16, tcp_flags: u8, now: Instant) -> Endpoint {
    let packet = PacketBuilder::tcp(client(number), endpoint("192.0.2.1:80")).flags(tcp_flags);
    ends(process(paths, &packet.to_vec().expect("valid"), now)).1
}

/// Where each of `numbers` goes.
fn send_all(
    paths: &mut [Path<LoadBalancer>; 2],
    numbers: std::ops::Range<u16>,
    tcp_flags: u8,
    now: Instant,
) -> BTreeMap<u16, Endpoint> {
    numbers
        .map(|number| (number, send(paths, number, tcp_flags, now)))
        .collect()
}

fn backends(places: &BTreeMap<u16, Endpoint>) -> BTreeSet<u8> {
    places
        .values()
        .map(|backend| backend.address.octets4()[3])
        .collect()
}

#[test]
fn live_connections_stay_until_their_own_backend_is_removed() {
    let mut paths = paths(CHANGING);
    let first = send_all(&mut paths, 0..CLIENTS, flags::SYN, at(0));
    assert_eq!(backends(&first), BTreeSet::from([1, 2, 3, 4]));

    assert_eq!(
        send_all(&mut paths, 0..CLIENTS, flags::ACK, at(1500)),
        first,
        "draining moves nobody"
    );
    let late = send_all(&mut paths, CLIENTS..2 * CLIENTS, flags::SYN, at(1500));
    assert_eq!(
        backends(&late),
        BTreeSet::from([1, 2, 3]),
        "and lets nobody in"
    );
    let simple = paths[1].simple;
    assert_eq!(
        simple,
        u64::from(CLIENTS),
        "nor is it noticed on the fast path"
    );

    let after = send_all(&mut paths, 0..CLIENTS, flags::ACK, at(2000));
    assert_eq!(backends(&after), BTreeSet::from([1, 2, 3]));
    let gone = endpoint("10.0.0.4:80");
    let moved = first.values().filter(|&&backend| backend == gone).count() as u64;
    assert!(
        first
            .iter()
            .all(|(number, backend)| *backend == gone || after[number] == *backend),
        "others are not disturbed"
    );
    assert_eq!(paths[0].counter("reassigned"), moved);
    assert_eq!(
        paths[1].simple - simple,
        u64::from(CLIENTS) - moved,
        "only its packets went to the slow path"
    );

    assert_eq!(
        send_all(&mut paths, 0..CLIENTS, flags::ACK, at(3000)),
        after,
        "an addition moves nobody"
    );
    let latest = send_all(&mut paths, 2 * CLIENTS..3 * CLIENTS, flags::SYN, at(3000));
    assert_eq!(backends(&latest), BTreeSet::from([1, 2, 3, 9]));
    let added = latest
        .values()
        .filter(|backend| backend.address.octets4()[3] == 9)
        .count();
    assert!((190..270).contains(&added), "four sevenths of 400: {added}");
    let counter = "new_connections{service=\"192.0.2.1:80/tcp\",backend=\"10.0.0.9:80\"}";
    assert_eq!(paths[0].counter(counter), added as u64);
}

#[test]
fn a_removed_backend_may_finish_what_it_was_sending() {
    let mut paths = paths(CHANGING);
    let gone = endpoint("10.0.0.4:80");
    let number = (0..CLIENTS)
        .find(|&number| send(&mut paths, number, flags::SYN, at(0)) == gone)
        .expect("some");
    let answer = PacketBuilder::tcp(gone, client(number))
        .to_vec()
        .expect("valid");
    assert_eq!(
        ends(process(&mut paths, &answer, at(2500))).0,
        endpoint("192.0.2.1:80")
    );
    assert_ne!(send(&mut paths, number, flags::ACK, at(2500)), gone);
    let fate = process(&mut paths, &answer, at(2500));
    assert_eq!(fate.onward, [answer], "no longer part of the connection");
}

#[test]
fn without_a_backend_packets_are_dropped_until_there_is_one() {
    let text = r#"
        [[services]]
        vip = "192.0.2.1:80"
        protocol = "tcp"
        backends = [{ endpoint = "10.0.0.1:80" }]
        changes = [{ at = "1s", drain = "10.0.0.1:80" }, { at = "2s", remove = "10.0.0.1:80" }, { at = "3s", add = "10.0.0.2:80" }]
    "#;
    let mut paths = paths(text);
    let packet = |number| {
        PacketBuilder::tcp(client(number), endpoint("192.0.2.1:80"))
            .to_vec()
            .expect("valid")
    };
    send(&mut paths, 1, flags::SYN, at(0));
    send(&mut paths, 1, flags::ACK, at(1999));
    let refused = process(&mut paths, &packet(2), at(1000));
    assert_eq!(refused.drops, [(DropReason::NoBackend, 1)]);
    let homeless = process(&mut paths, &packet(1), at(2000));
    assert_eq!(homeless.drops, [(DropReason::NoBackend, 1)]);
    assert_eq!(paths[0].counter("without_backend"), 2);
    assert_eq!(
        send(&mut paths, 1, flags::ACK, at(3000)),
        endpoint("10.0.0.2:80")
    );
    assert_eq!(paths[0].counter("reassigned"), 1);
}

#[test]
fn a_flow_whose_first_packet_was_another_functions_is_served_by_the_slow_path() {
    let (config, key) = (
        config(SERVICES),
        key(client(0), endpoint("192.0.2.1:80"), protocol::TCP),
    );
    let mut path = Path::both(LoadBalancer::new(&config, SEED), START);
    path.settle_initiator(key, endpoint("192.0.2.1:80"));
    let packet = |tcp_flags| {
        PacketBuilder::tcp(client(0), endpoint("192.0.2.1:80"))
            .flags(tcp_flags)
            .to_vec()
            .expect("valid")
    };
    let (_, backend) = ends(path.process(&packet(flags::SYN), at(0)));
    assert_eq!(
        ends(path.process(&packet(flags::ACK), at(1))),
        (client(0), backend)
    );
    let answer = PacketBuilder::tcp(backend, client(0))
        .to_vec()
        .expect("valid");
    assert_eq!(
        ends(path.process(&answer, at(1))),
        (endpoint("192.0.2.1:80"), client(0))
    );
    assert_eq!(path.simple, 0);
}
