//! Segments from somebody who knows a connection's ports, and broken ones.

use super::*;
use twinpath_core::DropReason;
use twinpath_slowpath::{Eviction, NetworkFunction};
use twinpath_wire::PacketBuilder;
use twinpath_wire::tcp::flags::{ACK, FIN, RST, SYN};

/// A client, its service, and what stands for a backend; of a service through which answers come.
struct Talk {
    paths: [Path<LoadBalancer>; 2],
    client: Endpoint,
    vip: Endpoint,
    backend: Endpoint,
}

impl Talk {
    /// After the handshake.
    fn begin() -> Self {
        let (client, vip) = (endpoint("198.51.100.7:40000"), endpoint("192.0.2.1:80"));
        let mut paths = paths(SERVICES);
        let syn = segment(client, vip, SYN, 0);
        let (_, backend) = ends(process(&mut paths, &syn, at(0)));
        let mut talk = Self {
            paths,
            client,
            vip,
            backend,
        };
        talk.server(SYN | ACK, 0, 1);
        talk.client(ACK, 0, 2);
        talk.server(ACK, 1, 2);
        talk
    }

    fn client(&mut self, flags: u8, bytes: usize, millis: u64) -> Fate {
        let segment = segment(self.client, self.vip, flags, bytes);
        process(&mut self.paths, &segment, at(millis))
    }

    fn server(&mut self, flags: u8, bytes: usize, millis: u64) -> Fate {
        let segment = segment(self.backend, self.client, flags, bytes);
        process(&mut self.paths, &segment, at(millis))
    }

    /// Whether what comes a minute later still belongs to the connection: time enough to forget
    /// one that is closed.
    fn is_remembered(&mut self) -> bool {
        let before = self.paths[0].counter("new_connections");
        self.client(ACK, 10, 60_000);
        self.paths[0].counter("new_connections") == before
    }
}

fn segment(from: Endpoint, to: Endpoint, flags: u8, bytes: usize) -> Vec<u8> {
    let builder = PacketBuilder::tcp(from, to).flags(flags);
    builder.payload_len(bytes).to_vec().expect("valid")
}

/// Numbers of a backend that has not heard the client, and of one that has.
#[test]
fn a_connection_is_established_when_the_backend_shows_it() {
    let (client, vip) = (endpoint("198.51.100.7:40000"), endpoint("192.0.2.1:80"));
    let answer = |from, flags, acknowledgement, bytes| {
        let builder = PacketBuilder::tcp(from, client).flags(flags);
        let builder = builder.seq(900).ack(acknowledgement).payload_len(bytes);
        builder.to_vec().expect("valid")
    };
    for (flags, acknowledgement, bytes, is_sure) in [
        (ACK, 101, 0, false),
        (SYN | ACK, 101, 0, false),
        (RST, 0, 0, false),
        (ACK, 101, 10, true),
        (ACK, 108, 0, true),
        (FIN | ACK, 108, 0, true),
    ] {
        let mut paths = paths(SERVICES);
        let opening = PacketBuilder::tcp(client, vip).flags(SYN).seq(100).to_vec();
        let (_, backend) = ends(process(&mut paths, &opening.expect("valid"), at(0)));
        process(&mut paths, &answer(backend, SYN | ACK, 101, 0), at(1));
        process(&mut paths, &segment(client, vip, ACK, 0), at(2));
        let last = answer(backend, flags, acknowledgement, bytes);
        let words = process(&mut paths, &last, at(3)).words;
        let eviction = paths[0].function.eviction(&words);
        let is_kept = eviction == Some(Eviction::Never);
        assert_eq!(is_kept, is_sure, "{flags:#x} {acknowledgement} {bytes}");
        assert_eq!(paths[0].function.is_pending(&words, 0), !is_sure);
    }
}

#[test]
fn a_reset_closes_a_connection() {
    let mut talk = Talk::begin();
    talk.server(RST, 0, 3);
    // What was on its way.
    talk.client(ACK, 100, 4);
    talk.server(RST, 0, 5);
    assert!(!talk.is_remembered());
}

/// The end that did not expect the reset challenges it.
#[test]
fn a_reset_that_is_challenged_does_not() {
    let mut talk = Talk::begin();
    talk.client(RST, 0, 3);
    talk.server(ACK, 0, 4);
    assert!(talk.is_remembered());
    let mut talk = Talk::begin();
    talk.server(RST | ACK, 0, 3);
    talk.client(ACK, 0, 4);
    assert!(talk.is_remembered());
}

/// The end that is said to have sent it goes on.
#[test]
fn a_reset_that_was_not_sent_does_not() {
    let mut talk = Talk::begin();
    talk.client(RST, 0, 3);
    talk.client(ACK, 100, 4);
    assert!(talk.is_remembered());
    let mut talk = Talk::begin();
    talk.server(FIN | ACK, 0, 3);
    talk.client(FIN | ACK, 0, 4);
    talk.client(ACK, 0, 5);
    assert!(!talk.is_remembered(), "both ends have ended it");
}

/// The end that is said to have sent its last goes on.
#[test]
fn a_fin_that_was_not_sent_does_not_close_a_connection() {
    let mut talk = Talk::begin();
    talk.client(FIN | ACK, 0, 3);
    talk.server(FIN | ACK, 0, 4);
    talk.client(ACK, 100, 5);
    let before = talk.paths[1].simple;
    talk.client(ACK, 100, 6);
    assert_eq!(talk.paths[1].simple, before + 1, "back on the fast path");
    assert!(talk.is_remembered());
    let mut talk = Talk::begin();
    talk.server(FIN | ACK, 0, 3);
    talk.server(ACK, 100, 4);
    talk.client(FIN | ACK, 0, 5);
    assert!(talk.is_remembered());
}

/// There the client's alone closes a connection.
#[test]
fn nor_one_whose_answers_do_not_come_by() {
    let (client, vip) = (endpoint("198.51.100.7:40000"), endpoint("192.0.2.2:80"));
    for (goes_on, is_remembered) in [(true, true), (false, false)] {
        let mut paths = paths(SERVICES);
        let mut send = |flags, bytes, millis| {
            process(&mut paths, &segment(client, vip, flags, bytes), at(millis));
        };
        send(SYN, 0, 0);
        send(ACK, 0, 1);
        send(FIN | ACK, 0, 2);
        send(ACK, if goes_on { 100 } else { 0 }, 3);
        send(ACK, 100, 60_000);
        let connections = paths[0].counter("new_connections");
        assert_eq!(connections == 1, is_remembered, "{goes_on}");
    }
}

/// What an end receives after its FIN, and acknowledges, passes on the fast path.
#[test]
fn a_half_closed_connection_stays_on_the_fast_path() {
    let mut talk = Talk::begin();
    talk.client(FIN | ACK, 0, 3);
    let before = talk.paths[1].simple;
    for millis in 4..8 {
        talk.server(ACK, 1000, millis);
        talk.client(ACK, 0, millis);
    }
    assert_eq!(talk.paths[1].simple - before, 8);
    talk.server(FIN | ACK, 0, 9);
    assert!(!talk.is_remembered());
}

#[test]
fn broken_packets_change_nothing() {
    let broken = |mut frame: Vec<u8>| {
        let last = frame.len() - 1;
        frame[last] ^= 1;
        frame
    };
    let (client, vip) = (endpoint("198.51.100.8:1"), endpoint("192.0.2.1:80"));
    let mut talk = Talk::begin();
    let forged = [
        segment(client, vip, SYN, 10),
        segment(talk.client, talk.vip, RST, 10),
        segment(talk.client, talk.vip, FIN | ACK, 10),
        segment(talk.backend, talk.client, FIN | ACK, 10),
    ];
    let words = talk.client(ACK, 0, 2).words;
    for frame in forged.map(broken) {
        let fate = process(&mut talk.paths, &frame, at(2));
        assert_eq!(fate.drops, [(DropReason::BadChecksum, 1)]);
        assert!(fate.words == words || fate.words == [0, 0]);
    }
    assert_eq!(talk.paths[0].counter("packets_with_bad_checksum"), 4);
    let (client, vip) = (
        endpoint("[2001:db8:9::1]:4000"),
        endpoint("[2001:db8::1]:53"),
    );
    let question = PacketBuilder::udp(client, vip).payload(b"data!").to_vec();
    let question = broken(question.expect("valid"));
    let fate = process(&mut talk.paths, &question, at(2));
    assert_eq!(fate.drops, [(DropReason::BadChecksum, 1)]);
    let lax = format!("verify_checksums = \"none\"\n{SERVICES}");
    assert_eq!(process(&mut paths(&lax), &question, at(2)).onward.len(), 1);
}
