//! Packets of all kinds.

use super::*;
use twinpath_core::{DropReason, FlowKey};
use twinpath_wire::kv::{
    HEADER_BYTES, MAX_VALUE_BYTES, OP_AT, REPLY_BIT, RESERVED_AT, STATUS_AT, VALUE_LENGTH_AT,
    VERSION_AT,
};
use twinpath_wire::protocol;

#[test]
fn what_is_put_is_got_until_it_is_deleted() {
    let mut paths = paths();
    let long = [0xab; MAX_VALUE_BYTES];
    for (op, value, expected) in [
        (KvOp::Get, &b""[..], (KvStatus::NotFound, &b""[..])),
        (KvOp::Delete, b"", (KvStatus::NotFound, b"")),
        (KvOp::Put, b"hello", (KvStatus::Ok, b"")),
        (KvOp::Get, b"", (KvStatus::Ok, b"hello")),
        (KvOp::Put, &long, (KvStatus::Ok, b"")),
        (KvOp::Get, b"ignored", (KvStatus::Ok, &long)),
        (KvOp::Put, b"", (KvStatus::Ok, b"")),
        (KvOp::Get, b"", (KvStatus::Ok, b"")),
        (KvOp::Delete, b"", (KvStatus::Ok, b"")),
        (KvOp::Get, b"", (KvStatus::NotFound, b"")),
    ] {
        let request = request(op, 5, value);
        let fate = process(&mut paths, &request);
        let (status, got) = replied(&request, &fate);
        assert_eq!((status, &got[..]), expected, "{op:?} {value:?}");
    }
    assert!(
        paths[0]
            .words(&FlowKey::entry([5; 16]))
            .iter()
            .all(|&word| word == 0),
        "nothing is left"
    );
    assert_eq!(paths[1].simple, 10, "all of it on the fast path");
    assert_eq!(
        (
            paths[0].counter("gets"),
            paths[0].counter("hits"),
            paths[0].counter("puts")
        ),
        (5, 3, 3)
    );
}

#[test]
fn keys_keep_their_values_at_another_port() {
    let mut paths = paths();
    process(&mut paths, &request(KvOp::Put, 5, b"hello"));
    let config = || toml::from_str("port = 99").expect("valid");
    for path in &mut paths {
        path.reconfigure(KvStore::new(&config()));
    }
    let there = Endpoint::v4([10, 0, 0, 1], 99);
    let client = endpoint("198.51.100.7:4000");
    let asked = datagram(client, there, &message(KvOp::Get, 5, b""));
    let fate = process(&mut paths, &asked);
    assert_eq!(replied(&asked, &fate), (KvStatus::Ok, b"hello".to_vec()));
    let asked = request(KvOp::Get, 5, b"");
    assert_eq!(
        process(&mut paths, &asked).onward,
        [asked],
        "no longer ours"
    );
}

#[test]
fn both_ip_versions_tags_and_missing_checksums() {
    let mut paths = paths();
    let (client, server6) = (
        endpoint("[2001:db8::7]:4000"),
        Endpoint::new(endpoint("[2001:db8::1]:1").address, DEFAULT_PORT),
    );
    let put = message(KvOp::Put, 1, b"from a neighbour");
    let requests = [
        datagram(endpoint("198.51.100.7:4000"), server(), &put),
        datagram(client, server6, &message(KvOp::Get, 1, b"")),
        PacketBuilder::udp(client, server6)
            .vlan(7)
            .vlan(8)
            .payload(&message(KvOp::Get, 1, b""))
            .to_vec()
            .expect("valid"),
    ];
    for request in &requests {
        let fate = process(&mut paths, request);
        assert_eq!(replied(request, &fate).0, KvStatus::Ok);
    }
    let mut without = request(KvOp::Get, 1, b"");
    without[40..42].fill(0);
    let fate = process(&mut paths, &without);
    assert_eq!(
        replied(&without, &fate),
        (KvStatus::Ok, b"from a neighbour".to_vec())
    );
    assert_eq!(fate.replies[0][40..42], [0, 0]);
}

/// Nobody would ever know that the value is not what was sent, or that another key's is gone.
#[test]
fn broken_requests_change_nothing() {
    for v6 in [false, true] {
        let client = endpoint(["198.51.100.7:4000", "[2001:db8::7]:4000"][usize::from(v6)]);
        let address = endpoint(["10.0.0.1:1", "[2001:db8::1]:1"][usize::from(v6)]).address;
        let server = Endpoint::new(address, DEFAULT_PORT);
        let send = |op, value| datagram(client, server, &message(op, 5, value));
        let broken = |mut frame: Vec<u8>| {
            let at = usize::from(dissect(&frame).expect("valid").l4) + 6;
            frame[at] ^= 0x11;
            frame
        };
        let mut paths = paths();
        process(&mut paths, &send(KvOp::Put, b"value"));
        for change in [send(KvOp::Put, b"other"), send(KvOp::Delete, b"")] {
            let fate = process(&mut paths, &broken(change));
            assert_eq!(fate.drops, [(DropReason::BadChecksum, 1)]);
        }
        assert_eq!(paths[0].counter("packets_with_bad_checksum"), 2);
        let get = send(KvOp::Get, b"");
        for asked in [broken(get.clone()), get] {
            let fate = process(&mut paths, &asked);
            assert_eq!(fate.replies.len(), 1, "whatever only reads is answered");
        }
        assert_eq!(paths[1].simple, 3, "sound requests stay on the fast path");
        let lax = || toml::from_str("verify_checksums = \"none\"").expect("valid");
        paths
            .iter_mut()
            .for_each(|path| path.reconfigure(KvStore::new(&lax())));
        let fate = process(&mut paths, &broken(send(KvOp::Delete, b"")));
        assert_eq!(fate.replies.len(), 1);
    }
}

/// UDP over IPv4 need not have a checksum.
#[test]
fn requests_without_a_checksum_are_taken() {
    let mut paths = paths();
    let mut put = request(KvOp::Put, 5, b"value");
    put[40..42].fill(0);
    process(&mut paths, &put);
    let get = request(KvOp::Get, 5, b"");
    let fate = process(&mut paths, &get);
    assert_eq!(replied(&get, &fate), (KvStatus::Ok, b"value".to_vec()));
    assert_eq!(paths[1].simple, 2);
}

#[test]
fn padding_of_short_frames_is_not_sent_back() {
    let mut paths = paths();
    let mut padded = request(KvOp::Get, 1, b"");
    padded.extend([0xee; 9]);
    let fate = process(&mut paths, &padded);
    assert_eq!(replied(&padded, &fate).0, KvStatus::NotFound);
    assert_eq!(fate.replies[0].len(), padded.len() - 9);
}

/// The status that a damaged request is answered with; `None` if it is dropped.
fn fate_of_damaged(damage: impl Fn(&mut Vec<u8>)) -> Option<KvStatus> {
    let mut paths = paths();
    let mut payload = message(KvOp::Put, 3, b"value");
    damage(&mut payload);
    let fate = process(
        &mut paths,
        &datagram(endpoint("198.51.100.7:4000"), server(), &payload),
    );
    assert!(fate.words.iter().all(|&word| word == 0));
    let Some(reply) = fate.replies.first() else {
        assert_eq!(fate.drops, [(DropReason::BadRequest, 1)]);
        return None;
    };
    let layout = dissect(reply).expect("valid");
    assert!(verify_ipv4_checksum(reply, &layout) && verify_transport_checksum(reply, &layout));
    let payload = fields::payload(reply, &layout);
    assert_eq!(
        (payload.len(), payload[OP_AT] & REPLY_BIT),
        (HEADER_BYTES, REPLY_BIT)
    );
    Some(if payload[STATUS_AT] == KvStatus::TooLarge as u8 {
        KvStatus::TooLarge
    } else {
        KvStatus::BadRequest
    })
}

#[test]
fn bad_requests_are_answered_if_an_answer_makes_sense() {
    assert_eq!(
        fate_of_damaged(|payload| payload[OP_AT] = 7),
        Some(KvStatus::BadRequest)
    );
    assert_eq!(
        fate_of_damaged(|payload| payload[STATUS_AT] = 9),
        Some(KvStatus::BadRequest)
    );
    assert_eq!(
        fate_of_damaged(|payload| payload[RESERVED_AT] = 1),
        Some(KvStatus::BadRequest)
    );
    assert_eq!(
        fate_of_damaged(|payload| payload.push(0)),
        Some(KvStatus::BadRequest)
    );
    let too_large = |payload: &mut Vec<u8>| {
        payload[VALUE_LENGTH_AT] = 129;
        payload.resize(HEADER_BYTES + 129, 1);
    };
    assert_eq!(fate_of_damaged(too_large), Some(KvStatus::TooLarge));
    assert_eq!(fate_of_damaged(|payload| payload[0] = b'X'), None);
    assert_eq!(fate_of_damaged(|payload| payload[VERSION_AT] = 2), None);
    assert_eq!(fate_of_damaged(|payload| payload.truncate(20)), None);
    assert_eq!(
        fate_of_damaged(|payload| payload[OP_AT] = 7 | REPLY_BIT),
        None
    );
}

#[test]
fn replies_to_the_port_are_dropped() {
    let mut paths = paths();
    process(&mut paths, &request(KvOp::Put, 1, b"kept"));
    let mut reply = message(KvOp::Put, 1, b"forged");
    reply[OP_AT] |= REPLY_BIT;
    let fate = process(
        &mut paths,
        &datagram(endpoint("198.51.100.7:4000"), server(), &reply),
    );
    assert_eq!(fate.drops, [(DropReason::BadRequest, 1)]);
    let get = request(KvOp::Get, 1, b"");
    let fate = process(&mut paths, &get);
    assert_eq!(replied(&get, &fate).1, b"kept");
    assert_eq!(paths[0].counter("bad_requests"), 1);
}

#[test]
fn other_traffic_passes_unchanged_without_state() {
    let mut paths = paths();
    let (client, elsewhere) = (endpoint("198.51.100.7:4000"), endpoint("10.0.0.1:53"));
    let get = message(KvOp::Get, 1, b"");
    let packets = [
        datagram(client, elsewhere, &get),
        PacketBuilder::tcp(client, server())
            .payload(&get)
            .to_vec()
            .expect("valid"),
        PacketBuilder::icmp_echo(client, server())
            .to_vec()
            .expect("valid"),
        PacketBuilder::udp(client, elsewhere)
            .payload(&get)
            .fragment(0, true)
            .to_vec()
            .expect("valid"),
        PacketBuilder::raw(protocol::UDP, client.address, server().address)
            .payload(&[1; 24])
            .fragment(64, false)
            .to_vec()
            .expect("valid"),
    ];
    for packet in packets {
        let fate = process(&mut paths, &packet);
        assert_eq!(fate.onward, [packet]);
        assert!(fate.words.iter().all(|&word| word == 0));
    }
    assert_eq!(paths[1].simple, 0);
}

#[test]
fn a_first_fragment_to_the_port_is_dropped() {
    let fragment = PacketBuilder::udp(endpoint("198.51.100.7:4000"), server())
        .payload_len(64)
        .fragment(0, true);
    let fate = process(&mut paths(), &fragment.to_vec().expect("valid"));
    assert_eq!(fate.drops, [(DropReason::Fragment, 1)]);
}
