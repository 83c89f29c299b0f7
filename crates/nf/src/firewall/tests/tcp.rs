//! TCP connections from their first segment to their last, good and bad.

use std::time::Duration;

use twinpath_core::DropReason::{Denied, InvalidState};
use twinpath_core::wire::tcp::flags::{ACK, FIN, PSH, RST, SYN, URG};
use twinpath_core::wire::{Endpoint, PacketBuilder};

use super::talk::{
    B, DEFAULT, HANDSHAKE, ONLY_A, START, STRICT, Twins, a, b, play, play_after_handshake, verdict,
};
use crate::firewall::tcp_state::TcpState::{
    Answered, Closed, Closing, Established, OpenerFinWait, PickedUp, ResponderFinWait, SynReceived,
    SynSent, TimeWait,
};

#[test]
fn data_both_ways_goes_the_fast_path() {
    let lines = [
        a(ACK | PSH, 1000, 5000).bytes(500).passes(Established),
        b(ACK, 5000, 1500).bytes(1000).passes(Established),
        b(ACK, 6000, 1500).bytes(1000).passes(Established),
        a(ACK, 1500, 7000).passes(Established),
    ];
    assert_eq!(play_after_handshake(STRICT, &lines).simple(), 4);
}

#[test]
fn an_orderly_end_and_a_new_beginning() {
    let lines = [
        a(FIN | ACK, 1000, 5000).passes(OpenerFinWait),
        b(ACK, 5000, 1001).passes(OpenerFinWait),
        b(FIN | ACK, 5000, 1001).passes(Closing),
        a(ACK, 1001, 5001).passes(TimeWait),
        // Duplicates of the last segments.
        b(FIN | ACK, 5000, 1001).passes(TimeWait),
        a(ACK, 1001, 5001).passes(TimeWait),
        // The same ports are used again, with other numbers.
        a(SYN, 77_000, 0).passes(SynSent),
        b(SYN | ACK, 88_000, 77_001).passes(SynReceived),
        a(ACK, 77_001, 88_001).bytes(10).passes(Established),
        a(ACK, 1001, 5001).is_invalid(),
    ];
    assert_eq!(
        play_after_handshake(STRICT, &lines).counter("connections_opened"),
        2
    );
}

#[test]
fn time_wait_may_be_left_from_the_other_end_if_the_rules_allow_it() {
    let end = [
        a(FIN | ACK, 1000, 5000).passes(OpenerFinWait),
        b(FIN | ACK, 5000, 1001).passes(Closing),
        a(ACK, 1001, 5001).passes(TimeWait),
    ];
    let swapped = [
        b(SYN, 77_000, 0).passes(SynSent),
        a(SYN | ACK, 88_000, 77_001).passes(SynReceived),
        b(ACK, 77_001, 88_001).passes(Established),
        b(ACK, 77_001, 88_001).bytes(5).passes(Established),
        a(FIN | ACK, 88_001, 77_006).passes(ResponderFinWait),
    ];
    play_after_handshake(STRICT, &[&end[..], &swapped].concat());
    play_after_handshake(
        ONLY_A,
        &[
            &end[..],
            &[
                b(SYN, 77_000, 0).is_denied(),
                a(ACK, 1001, 5001).passes(TimeWait),
            ],
        ]
        .concat(),
    );
}

#[test]
fn half_closed_connections_go_on_in_one_direction() {
    let lines = [
        b(FIN | ACK, 5000, 1000).passes(ResponderFinWait),
        a(ACK, 1000, 5001).bytes(1000).passes(ResponderFinWait),
        b(ACK, 5001, 2000).passes(ResponderFinWait),
        a(ACK, 2000, 5001)
            .bytes(1000)
            .after(Duration::from_secs(200))
            .passes(ResponderFinWait),
        b(ACK, 5001, 3000)
            .after(Duration::from_secs(200))
            .passes(ResponderFinWait),
        a(FIN | ACK, 3000, 5001).passes(Closing),
        b(ACK, 5001, 3001).passes(TimeWait),
    ];
    play_after_handshake(STRICT, &lines);
}

#[test]
fn both_ends_close_at_once() {
    let lines = [
        a(FIN | ACK, 1000, 5000).passes(OpenerFinWait),
        b(FIN | ACK, 5000, 1000).passes(Closing),
        a(ACK, 1001, 5001).passes(TimeWait),
        b(ACK, 5001, 1001).passes(TimeWait),
    ];
    play_after_handshake(STRICT, &lines);
}

#[test]
fn both_ends_open_at_once() {
    let lines = [
        a(SYN, 999, 0).scale(2).passes(SynSent),
        b(SYN, 4999, 0).scale(3).passes(SynSent),
        a(SYN | ACK, 999, 5000).scale(2).passes(SynSent),
        b(SYN | ACK, 4999, 1000).scale(3).passes(SynReceived),
        a(ACK, 1000, 5000).passes(Established),
        // 10,000 << 3 bytes fit.
        a(ACK, 1000, 5000).bytes(9000).passes(Established),
        b(ACK, 5000, 10_000).bytes(100).passes(Established),
        a(ACK, 80_000, 5100).bytes(10_000).passes(Established),
        a(ACK, 90_000, 5100).bytes(1).is_invalid(),
    ];
    play(STRICT, &lines);
    let answered_before_it_answers = [
        a(SYN, 999, 0).passes(SynSent),
        b(SYN, 4999, 0).passes(SynSent),
        b(SYN | ACK, 4999, 1000).passes(SynReceived),
        a(SYN | ACK, 999, 5000).passes(Established),
        b(ACK, 5000, 1000).bytes(10).passes(Established),
    ];
    play(STRICT, &answered_before_it_answers);
}

#[test]
fn the_handshake_survives_loss_of_each_of_its_segments() {
    let lines = [
        a(SYN, 999, 0).passes(SynSent),
        a(SYN, 999, 0).passes(SynSent),
        b(SYN | ACK, 4999, 1000).passes(SynReceived),
        a(SYN, 999, 0).passes(SynReceived),
        b(SYN | ACK, 4999, 1000).passes(SynReceived),
        a(ACK, 1000, 5000).passes(Established),
        b(SYN | ACK, 4999, 1000).passes(Established),
        a(ACK, 1000, 5000).passes(Established),
    ];
    play(STRICT, &lines);
}

#[test]
fn data_may_come_with_the_syn() {
    let lines = [
        a(SYN, 999, 0).bytes(400).passes(SynSent),
        b(SYN | ACK, 4999, 999).is_invalid(),
        b(SYN | ACK, 4999, 1401).is_invalid(),
        b(SYN | ACK, 4999, 1000).passes(SynReceived),
        // The responder does not have to wait.
        b(ACK, 5000, 1400).bytes(1000).passes(SynReceived),
        a(ACK, 1400, 6000).passes(Established),
    ];
    play(STRICT, &lines);
}

#[test]
fn who_has_forgotten_the_connection_finds_out_and_tries_again() {
    // A has crashed and opens the connection anew; B challenges the SYN, and A resets.
    let lines = [
        a(SYN, 500_000, 0).passes(Established),
        b(ACK, 5000, 1000).passes(Established),
        a(RST, 1000, 0).passes(Closed),
        a(SYN, 500_000, 0).passes(SynSent),
    ];
    play_after_handshake(STRICT, &lines);
    // The firewall has forgotten it too: it sees a SYN, and B's challenge.
    let lines = [
        a(SYN, 500_000, 0).passes(SynSent),
        b(ACK, 5000, 1000).passes(SynSent),
        a(RST, 1000, 0).passes(SynSent),
        a(SYN, 500_000, 0).passes(SynSent),
        b(SYN | ACK, 4999, 500_001).passes(SynReceived),
    ];
    play(STRICT, &lines);
}

#[test]
fn a_refused_connection_can_be_tried_again() {
    let lines = [
        a(SYN, 999, 0).passes(SynSent),
        b(RST | ACK, 0, 7777).is_invalid(),
        b(RST, 0, 0).is_invalid(),
        b(RST | ACK, 0, 1000).passes(Closed),
        a(SYN, 2_000_000, 0)
            .after(Duration::from_secs(1))
            .passes(SynSent),
    ];
    play(STRICT, &lines);
}

#[test]
fn a_reset_connection_is_soon_forgotten() {
    let lines = [
        a(RST, 1000, 0).passes(Closed),
        b(ACK, 5000, 1000)
            .bytes(10)
            .after(Duration::from_secs(11))
            .passes(PickedUp),
    ];
    play_after_handshake(DEFAULT, &lines);
}

#[test]
fn keep_alives_hold_a_connection() {
    let hour = Duration::from_secs(3500);
    let lines = [
        a(ACK, 999, 5000).after(hour).passes(Established),
        b(ACK, 5000, 1000).passes(Established),
        a(ACK, 999, 5000).bytes(1).after(hour).passes(Established),
        b(ACK, 5000, 1000).after(hour).passes(Established),
        a(ACK, 1000, 5000)
            .after(Duration::from_secs(3601))
            .is_invalid(),
    ];
    let twins = play(STRICT, &[&HANDSHAKE[..], &lines[..4]].concat());
    assert_eq!(twins.simple(), 4);
}

#[test]
fn an_idle_connection_is_forgotten() {
    let late = a(ACK, 1000, 5000).after(Duration::from_secs(3601));
    play_after_handshake(DEFAULT, &[late.passes(PickedUp)]);
    play_after_handshake(ONLY_A, &[late.passes(PickedUp)]);
    let from_b = b(ACK, 5000, 1000).after(Duration::from_secs(3601));
    let mut twins = Twins::new(ONLY_A);
    for line in [a(SYN, 999, 0), b(SYN | ACK, 4999, 1000), a(ACK, 1000, 5000)] {
        twins.process(&line.frame(), START);
    }
    let fate = twins.process(&from_b.frame(), START + Duration::from_secs(3601));
    assert_eq!(verdict(&fate, &from_b.frame()), Err(Denied));
}

#[test]
fn flags_that_no_tcp_sends_are_dropped() {
    for flags in [
        0,
        SYN | FIN,
        SYN | RST,
        FIN,
        FIN | PSH | URG,
        SYN | FIN | ACK,
        RST | FIN | ACK,
    ] {
        play(DEFAULT, &[a(flags, 999, 0).is_invalid()]);
        play_after_handshake(
            DEFAULT,
            &[
                a(flags, 1000, 5000).is_invalid(),
                a(ACK, 1000, 5000).passes(Established),
            ],
        );
    }
}

#[test]
fn only_a_syn_opens_a_connection_without_pick_up() {
    for flags in [ACK, SYN | ACK, FIN | ACK, RST, RST | ACK] {
        play(STRICT, &[b(flags, 4999, 1000).is_invalid()]);
    }
    play(
        STRICT,
        &[
            a(SYN, 999, 0).passes(SynSent),
            a(ACK, 1000, 5000).is_invalid(),
        ],
    );
}

#[test]
fn connections_are_met_in_mid_stream() {
    let lines = [
        b(ACK, 5000, 1000).bytes(1000).passes(PickedUp),
        b(ACK, 6000, 1000).bytes(1000).passes(PickedUp),
        a(ACK, 1000, 6000).passes(Answered),
        // Any scale may have been agreed on.
        a(ACK, 1000, 7000).bytes(60_000).passes(Answered),
        b(ACK, 7000, 61_000).passes(Established),
        a(ACK, 61_000, 7000).passes(Established),
        b(ACK, 3_000_000_000, 61_000).is_invalid(),
        b(FIN | ACK, 7000, 61_000).passes(OpenerFinWait),
    ];
    let twins = play(DEFAULT, &lines);
    assert_eq!(
        (twins.simple(), twins.counter("connections_picked_up")),
        (1, 1)
    );
}

/// As after a restart during which acknowledgements were lost: what is seen first is sent again, and
/// its receiver has had that and two megabytes behind it for long.
#[test]
fn a_segment_that_is_sent_again_is_met_in_mid_stream() {
    let lines = [
        b(ACK, 5000, 1000).bytes(1400).passes(PickedUp),
        a(ACK, 1000, 2_000_000).passes(Answered),
        b(ACK, 2_000_000, 1000).bytes(1400).passes(Established),
        a(ACK, 1000, 2_001_400).passes(Established),
    ];
    play(DEFAULT, &lines);
}

#[test]
fn a_keep_alive_is_met_in_mid_stream() {
    let lines = [
        a(ACK, 999, 5000).passes(PickedUp),
        b(ACK, 5000, 1000).passes(Answered),
        a(ACK, 1000, 5000).bytes(100).passes(Established),
    ];
    play(DEFAULT, &lines);
}

#[test]
fn a_handshake_of_which_one_segment_was_missed_is_picked_up() {
    let without_syn = [
        b(SYN | ACK, 4999, 1000).scale(7).passes(PickedUp),
        a(ACK, 1000, 5000).bytes(10_000).passes(Answered),
        b(ACK, 5000, 11_000).bytes(1000).passes(Established),
        a(ACK, 11_000, 6000).bytes(60_000).passes(Established),
    ];
    play(DEFAULT, &without_syn);
    let without_syn_ack = [
        a(SYN, 999, 0).passes(SynSent),
        a(ACK, 1000, 5000).passes(PickedUp),
        b(ACK, 5000, 1000).bytes(10_000).passes(Answered),
        // The SYN did not offer scaling, so the window is known.
        b(ACK, 15_000, 1000).bytes(1).is_invalid(),
    ];
    let twins = play(DEFAULT, &without_syn_ack);
    // It is one connection, which the SYN has opened.
    assert_eq!(twins.counter("connections_opened"), 1);
    assert_eq!(twins.counter("connections_picked_up"), 1);
}

#[test]
fn rules_see_a_connection_met_in_mid_stream_as_its_first_packet_is() {
    play(
        ONLY_A,
        &[
            b(ACK, 5000, 1000).is_denied(),
            b(SYN | ACK, 4999, 1000).is_denied(),
            a(ACK, 1000, 5000).passes(PickedUp),
        ],
    );
}

#[test]
fn a_denied_connection_leaves_no_state() {
    let twins = play(
        ONLY_A,
        &[
            b(SYN, 4999, 0).is_denied(),
            b(SYN, 4999, 0).is_denied(),
            a(SYN, 999, 0).passes(SynSent),
        ],
    );
    assert_eq!(twins.counter("packets_denied"), 2);
}

/// A host that closes while segments are under way to it answers each of them with a reset, of the number
/// that they acknowledge: before its FIN, which the other end acknowledges by then and so ignores those.
/// (A soak dropped 13,000 of them.) The one that answers a segment behind that ends the connection.
#[test]
fn resets_for_segments_that_a_close_overtook_are_out_of_window() {
    let lines = [
        a(ACK, 1000, 5000).bytes(300).passes(Established),
        b(FIN | ACK, 5000, 1100).passes(ResponderFinWait),
        a(ACK, 1300, 5001).bytes(100).passes(ResponderFinWait),
        b(RST, 5000, 0).is_invalid(),
        b(RST, 5000, 0).is_invalid(),
        b(RST, 5001, 0).passes(Closed),
    ];
    let twins = play_after_handshake(DEFAULT, &lines);
    assert_eq!(twins.counter("segments_out_of_window"), 2);
}

#[test]
fn a_liberal_firewall_forwards_and_counts() {
    let lines = [
        b(ACK, 900_000, 1000).passes(Established),
        b(RST, 900_000, 0).passes(Established),
        a(ACK, 1000, 900_000).passes(Established),
        a(ACK, 1000, 5000).bytes(10_000).passes(Established),
        a(SYN | FIN, 1000, 5000).is_invalid(),
    ];
    let twins = play_after_handshake("default = \"allow\"\nliberal = true", &lines);
    assert_eq!(twins.counter("segments_out_of_window"), 3);
}

/// Rules decide about first packets; connections that they allowed go on under other rules.
#[test]
fn connections_outlive_the_rules_that_allowed_them() {
    let mut twins = play_after_handshake(DEFAULT, &[]);
    twins.reconfigure("default = \"deny\"");
    let data = a(ACK, 1000, 5000).bytes(100).frame();
    let fate = twins.process(&data, START);
    assert_eq!(verdict(&fate, &data), Ok(()));
    let other = PacketBuilder::tcp(B, Endpoint::v4([10, 0, 0, 1], 9)).flags(SYN);
    let other = other.to_vec().expect("a packet");
    let fate = twins.process(&other, START);
    assert_eq!(verdict(&fate, &other), Err(Denied));
    assert_eq!(
        twins.counter("connections_opened"),
        1,
        "it goes on counting"
    );
}

/// Other time-outs hold from a connection's next packet on.
#[test]
fn time_outs_change() {
    const STRICT_AND_HASTY: &str = "pick_up = false\ntimeouts = { tcp_established = \"1s\" }";
    let after = |seconds| START + Duration::from_secs(seconds);
    let mut twins = play_after_handshake(STRICT, &[]);
    twins.reconfigure(STRICT_AND_HASTY);
    let data = a(ACK, 1000, 5000).frame();
    for seconds in [1000, 1001] {
        let fate = twins.process(&data, after(seconds));
        assert_eq!(verdict(&fate, &data), Ok(()));
    }
    let late = twins.process(&data, after(1004));
    assert_eq!(verdict(&late, &data), Err(InvalidState));
}
