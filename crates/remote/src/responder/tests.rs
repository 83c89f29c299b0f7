use super::*;
use twinpath_core::wire::roce::{MAX_NUMBER, Reth, Syndrome};

const MTU: usize = 64;
const BASE: u64 = 0x1_0000;
const RKEY: u32 = 77;
const READ_ONLY: u32 = 78;
const PEER_QPN: u32 = 0x1234;

/// A responder and its peer, which says what it likes.
struct Peer {
    responder: Responder,
    pools: Pools,
    qpn: u32,
}

/// Of an answer: opcode, number, syndrome, payload.
type Answer = (Opcode, u32, Option<Syndrome>, Vec<u8>);

fn path() -> Path {
    Path {
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        source: Address::from_v4([10, 0, 0, 1]),
        destination: Address::from_v4([10, 0, 0, 2]),
        source_port: 50_000,
    }
}

fn ack(psn: u32) -> Answer {
    (Opcode::ACKNOWLEDGE, psn, Some(Syndrome::ACK), Vec::new())
}

fn nak(psn: u32, why: Nak) -> Answer {
    let syndrome = Some(Syndrome::Nak(why));
    (Opcode::ACKNOWLEDGE, psn, syndrome, Vec::new())
}

fn at(offset: u64, bytes: usize) -> Option<Reth> {
    Some(Reth {
        address: BASE + offset,
        rkey: RKEY,
        bytes: bytes as u32,
    })
}

impl Peer {
    fn new() -> Self {
        let mut responder = Responder::new(Config {
            mac: path().destination_mac,
            ip: path().destination,
            mtu: MTU as u16,
            queue_pairs: 2,
            reads: 3,
            message_bytes: 1024,
        });
        for (address, rkey, access) in [
            (BASE, RKEY, Access::ReadWrite),
            (2 * BASE, READ_ONLY, Access::Read),
        ] {
            let region = Region::new(address, 4096, rkey, access);
            responder.register(region).unwrap();
        }
        let qpn = restored(&mut responder, 0);
        Self {
            responder,
            pools: Pools::new(64, 1),
            qpn,
        }
    }

    fn restore(&mut self, psn: u32) {
        self.qpn = restored(&mut self.responder, psn);
    }

    fn send(&mut self, opcode: Opcode, psn: u32, reth: Option<Reth>, payload: &[u8]) {
        let header = Header {
            ack_request: true,
            reth,
            immediate: opcode.has_immediate().then_some(9),
            ..Header::new(opcode, self.qpn, Psn::new(psn))
        };
        self.send_header(&header, payload, &path());
    }

    fn send_header(&mut self, header: &Header, payload: &[u8], path: &Path) {
        let mut frame = vec![0; path.frame_bytes(header, payload.len())];
        let front = path.front_bytes(header);
        frame[front..front + payload.len()].copy_from_slice(payload);
        path.emit(header, payload.len(), &mut frame).unwrap();
        assert!(self.responder.receive(&frame));
    }

    /// How many messages an answer says were done, for each answer that says so.
    fn messages(&mut self) -> Vec<u32> {
        let mut out = Vec::new();
        self.responder.transmit(&mut self.pools, &mut out, 1000);
        let told = out.iter().filter_map(|frame| {
            let layout = dissect(frame.bytes()).unwrap();
            let packet = RocePacket::read(frame.bytes(), &layout).unwrap();
            packet.header.aeth.map(|aeth| aeth.messages)
        });
        told.collect()
    }

    fn told(&mut self) -> Vec<Answer> {
        let mut out = Vec::new();
        self.responder.transmit(&mut self.pools, &mut out, 1000);
        let told = |frame: Frame| {
            let layout = dissect(frame.bytes()).unwrap();
            let packet = RocePacket::read(frame.bytes(), &layout).unwrap();
            let header = packet.header;
            assert_eq!(header.destination_qp, PEER_QPN);
            let syndrome = header.aeth.map(|aeth| aeth.syndrome);
            let payload = packet.payload(frame.bytes()).to_vec();
            (header.opcode, header.psn.number(), syndrome, payload)
        };
        out.into_iter().map(told).collect()
    }

    fn asks(
        &mut self,
        opcode: Opcode,
        psn: u32,
        reth: Option<Reth>,
        payload: &[u8],
    ) -> Vec<Answer> {
        self.send(opcode, psn, reth, payload);
        self.told()
    }
}

fn restored(responder: &mut Responder, psn: u32) -> u32 {
    let restored = responder.restore(0, path().back(), PEER_QPN, Psn::new(psn));
    restored.expect("the first queue pair")
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| at as u8 ^ 0x5a).collect()
}

/// The message sequence number: a WRITE counts with its last packet, a READ when it is taken on, and what is
/// repeated or refused does not count.
#[test]
fn answers_tell_how_many_messages_were_done() {
    let mut peer = Peer::new();
    let mut after = |opcode, psn, reth, payload: &[u8]| {
        peer.send(opcode, psn, reth, payload);
        peer.messages()
    };
    let (read, bytes) = (Opcode::READ_REQUEST, pattern(150));
    assert_eq!(after(Opcode::WRITE_ONLY, 0, at(0, 3), &[1, 2, 3]), [1]);
    assert_eq!(after(Opcode::WRITE_ONLY, 0, at(0, 3), &[1, 2, 3]), [1]);
    assert_eq!(after(read, 1, at(0, 3), b""), [2]);
    assert_eq!(after(Opcode::WRITE_FIRST, 2, at(0, 150), &bytes[..64]), [2]);
    assert_eq!(after(Opcode::WRITE_MIDDLE, 3, None, &bytes[64..128]), [2]);
    assert_eq!(after(Opcode::WRITE_LAST, 4, None, &bytes[128..]), [3]);
    // Two packets of the answer say it, its first and its last.
    assert_eq!(after(read, 5, at(0, 150), b""), [4, 4]);
    assert_eq!(after(Opcode::WRITE_ONLY, 9, at(0, 1), &[1]), [4], "a gap");
}

#[test]
fn what_is_written_is_read_in_one_packet_or_in_several() {
    for bytes in [0, 1, 3, 63, 64] {
        let mut peer = Peer::new();
        let payload = pattern(bytes);
        let told = peer.asks(Opcode::WRITE_ONLY, 0, at(5, bytes), &payload);
        assert_eq!(told, [ack(0)]);
        let told = peer.asks(Opcode::READ_REQUEST, 1, at(5, bytes), b"");
        let only = Opcode::READ_RESPONSE_ONLY;
        assert_eq!(told, [(only, 1, Some(Syndrome::ACK), payload)]);
    }
    // Numbers begin again on the way.
    let first = MAX_NUMBER - 1;
    let mut peer = Peer::new();
    peer.restore(first);
    let payload = pattern(150);
    peer.send(Opcode::WRITE_FIRST, first, at(0, 150), &payload[..64]);
    peer.send(Opcode::WRITE_MIDDLE, first + 1, None, &payload[64..128]);
    let told = peer.asks(Opcode::WRITE_LAST_IMMEDIATE, 0, None, &payload[128..]);
    assert_eq!(told, [ack(0)], "acknowledgements in a row are one");
    let told = peer.asks(Opcode::READ_REQUEST, 1, at(0, 150), b"");
    let parts: Vec<u8> = told.iter().flat_map(|(.., part)| part.clone()).collect();
    assert_eq!(parts, payload);
    let opcodes: Vec<_> = told
        .iter()
        .map(|(opcode, psn, ..)| (opcode.0, *psn))
        .collect();
    assert_eq!(opcodes, [(0x0d, 1), (0x0e, 2), (0x0f, 3)]);
    // The READ took three numbers.
    let told = peer.asks(Opcode::WRITE_ONLY, 4, at(0, 1), b"x");
    assert_eq!(told, [ack(4)]);
    assert_eq!(peer.responder.counters().writes, 2);
}

/// Requests that must be refused, with the NAK, each the first of its life.
fn refused() -> Vec<(Opcode, Option<Reth>, Vec<u8>, Nak)> {
    use Nak::{InvalidRequest, RemoteAccess};
    let key = |rkey: u32| at(0, 4).map(|reth| Reth { rkey, ..reth });
    let last = at(4093, 4);
    let before = Some(Reth {
        address: BASE - 1,
        rkey: RKEY,
        bytes: 4,
    });
    let wrapping = Some(Reth {
        address: u64::MAX,
        rkey: RKEY,
        bytes: 4,
    });
    let read_only = Some(Reth {
        address: 2 * BASE,
        rkey: READ_ONLY,
        bytes: 4,
    });
    let (only, four) = (Opcode::WRITE_ONLY, b"four".to_vec());
    let read = Opcode::READ_REQUEST;
    vec![
        (only, key(RKEY ^ 1), four.clone(), RemoteAccess),
        (only, last, four.clone(), RemoteAccess),
        (only, before, four.clone(), RemoteAccess),
        (only, wrapping, four.clone(), RemoteAccess),
        (only, read_only, four.clone(), RemoteAccess),
        (read, key(0), Vec::new(), RemoteAccess),
        (read, last, Vec::new(), RemoteAccess),
        (read, at(0, 4), four.clone(), InvalidRequest),
        (read, at(0, 1025), Vec::new(), InvalidRequest),
        (only, at(0, 3), four.clone(), InvalidRequest),
        (only, at(0, 5), four.clone(), InvalidRequest),
        (only, at(0, 65), pattern(65), InvalidRequest),
        (Opcode::WRITE_FIRST, at(0, 64), pattern(64), InvalidRequest),
        (Opcode::WRITE_FIRST, at(0, 65), pattern(63), InvalidRequest),
        (
            Opcode::WRITE_FIRST,
            at(0, 1025),
            pattern(64),
            InvalidRequest,
        ),
        (Opcode::WRITE_MIDDLE, None, pattern(64), InvalidRequest),
        (Opcode::WRITE_LAST, None, four.clone(), InvalidRequest),
        (Opcode(0x04), None, four.clone(), InvalidRequest),
        (Opcode(0x13), None, pattern(28), InvalidRequest),
    ]
}

#[test]
fn what_must_be_refused_is_and_the_queue_pair_is_silent_until_it_is_restored() {
    let mut peer = Peer::new();
    for (number, (opcode, reth, payload, why)) in refused().into_iter().enumerate() {
        peer.restore(500);
        let told = peer.asks(opcode, 500, reth, &payload);
        assert_eq!(told, [nak(500, why)], "request {number}");
        assert_eq!(peer.asks(Opcode::WRITE_ONLY, 500, at(0, 1), b"x"), []);
        peer.restore(7);
        assert_eq!(peer.asks(Opcode::READ_REQUEST, 7, at(0, 1), b"")[0].3, [0]);
    }
    assert_eq!(peer.responder.counters().written_bytes, 0);
}

#[test]
fn parts_of_a_write_come_in_order_and_have_their_lengths() {
    for (opcode, reth, payload) in [
        (Opcode::WRITE_ONLY, at(0, 4), pattern(4)),
        (Opcode::READ_REQUEST, at(0, 4), Vec::new()),
        (Opcode::WRITE_LAST, None, pattern(5)),
        (Opcode::WRITE_LAST, None, pattern(7)),
        (Opcode::WRITE_MIDDLE, None, pattern(64)),
    ] {
        let mut peer = Peer::new();
        peer.send(Opcode::WRITE_FIRST, 0, at(0, 70), &pattern(64));
        let told = peer.asks(opcode, 1, reth, &payload);
        assert_eq!(told, [ack(0), nak(1, Nak::InvalidRequest)], "{opcode:?}");
    }
}

#[test]
fn a_missing_request_is_told_once_until_order_returns() {
    let mut peer = Peer::new();
    let write = |peer: &mut Peer, psn: u32| peer.asks(Opcode::WRITE_ONLY, psn, at(0, 1), b"x");
    assert_eq!(write(&mut peer, 0), [ack(0)]);
    assert_eq!(write(&mut peer, 2), [nak(1, Nak::Sequence)]);
    assert_eq!(write(&mut peer, 3), []);
    assert_eq!(write(&mut peer, 1), [ack(1)]);
    assert_eq!(write(&mut peer, 3), [nak(2, Nak::Sequence)]);
    let counters = peer.responder.counters();
    assert_eq!((counters.naks_sequence, counters.out_of_order), (2, 1));
}

#[test]
fn a_write_that_comes_again_is_acknowledged_and_not_executed() {
    let mut peer = Peer::new();
    peer.asks(Opcode::WRITE_ONLY, 0, at(0, 1), b"a");
    peer.asks(Opcode::WRITE_ONLY, 1, at(0, 1), b"b");
    let told = peer.asks(Opcode::WRITE_ONLY, 0, at(0, 1), b"a");
    assert_eq!(told, [ack(1)]);
    assert_eq!(peer.asks(Opcode::READ_REQUEST, 2, at(0, 1), b"")[0].3, b"b");
}

#[test]
fn a_read_that_comes_again_is_answered_if_it_is_the_same_or_the_rest_of_it() {
    let mut peer = Peer::new();
    let whole = peer.asks(Opcode::READ_REQUEST, 0, at(0, 150), b"");
    assert_eq!(peer.asks(Opcode::READ_REQUEST, 0, at(0, 150), b""), whole);
    let rest = peer.asks(Opcode::READ_REQUEST, 1, at(64, 86), b"");
    let opcodes: Vec<_> = rest
        .iter()
        .map(|(opcode, psn, ..)| (opcode.0, *psn))
        .collect();
    assert_eq!(opcodes, [(0x0d, 1), (0x0f, 2)]);
    // Another address, length or number is another READ.
    for (psn, reth) in [
        (0, at(1, 150)),
        (0, at(0, 149)),
        (1, at(0, 150)),
        (MAX_NUMBER, at(0, 150)),
    ] {
        assert_eq!(peer.asks(Opcode::READ_REQUEST, psn, reth, b""), []);
    }
    assert_eq!(peer.responder.counters().replays_refused, 4);
}

#[test]
fn too_many_reads_are_an_error() {
    let mut peer = Peer::new();
    (0..4).for_each(|psn| peer.send(Opcode::READ_REQUEST, psn, at(0, 4), b""));
    let told = peer.told();
    assert_eq!(told.len(), 4);
    assert_eq!(told[3], nak(3, Nak::InvalidRequest));
}

#[test]
fn memory_that_fails_is_a_remote_operation_error() {
    let mut peer = Peer::new();
    peer.responder.set_failing(true);
    let told = peer.asks(Opcode::READ_REQUEST, 0, at(0, 4), b"");
    assert_eq!(told, [nak(0, Nak::RemoteOperation)]);
}

#[test]
fn only_the_peer_of_this_life_is_listened_to() {
    let mut peer = Peer::new();
    let request = Header {
        reth: at(0, 1),
        ..Header::new(Opcode::WRITE_ONLY, peer.qpn, Psn::new(0))
    };
    let stranger = Path {
        source: Address::from_v4([10, 0, 0, 9]),
        ..path()
    };
    peer.send_header(&request, b"x", &stranger);
    let elsewhere = Path {
        destination: Address::from_v4([10, 0, 0, 9]),
        ..path()
    };
    peer.send_header(&request, b"x", &elsewhere);
    let partition = Header {
        partition: 1,
        ..request
    };
    peer.send_header(&partition, b"x", &path());
    peer.restore(0);
    peer.send_header(&request, b"x", &path());
    let counters = *peer.responder.counters();
    assert_eq!((counters.foreign, counters.unknown_queue_pair), (3, 1));
    assert_eq!((counters.writes, peer.told()), (0, Vec::new()));
}

#[test]
fn answers_wait_for_buffers_and_are_bounded() {
    let mut peer = Peer::new();
    peer.pools = Pools::new(1, 1);
    let mut out = Vec::new();
    (0..2).for_each(|psn| peer.send(Opcode::READ_REQUEST, psn, at(0, 4), b""));
    peer.responder.transmit(&mut peer.pools, &mut out, 100);
    assert!(out.len() == 1 && peer.responder.has_answers());
    // A request too early, and then the expected one, over and over, and nobody takes the answers.
    let mut psn = 2;
    while peer.responder.counters().no_room == 0 {
        peer.send(Opcode::WRITE_ONLY, psn + 1, at(0, 1), b"x");
        peer.send(Opcode::WRITE_ONLY, psn, at(0, 1), b"x");
        psn += 1;
        assert!(psn < 1000, "answers have no bound");
    }
}

#[test]
fn regions_have_keys_of_their_own() {
    let mut peer = Peer::new();
    let again = Region::new(0, 64, RKEY, Access::Read);
    assert_eq!(peer.responder.register(again), Err(RegionError::Key));
    let beyond = Region::new(u64::MAX - 5, 64, 1, Access::Read);
    assert_eq!(peer.responder.register(beyond), Err(RegionError::Address));
}
