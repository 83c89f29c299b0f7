//! Segments inside the windows and outside of them.

use std::time::Duration;

use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};

use super::talk::{STRICT, a, b, play, play_after_handshake};
use crate::firewall::tcp_state::TcpState::{
    Closed, Established, ResponderFinWait, SynReceived, SynSent,
};

#[test]
fn segments_have_to_fit_the_window() {
    let lines = [
        a(ACK, 1000, 5000).bytes(10_000).passes(Established),
        // B has room for 10,000 bytes and has not acknowledged any.
        a(ACK, 11_000, 5000).bytes(1).is_invalid(),
        b(ACK, 5000, 3000).passes(Established),
        a(ACK, 11_000, 5000).bytes(2000).passes(Established),
        a(ACK, 13_000, 5000).bytes(1).is_invalid(),
        // B's window shrinks; what was allowed stays allowed.
        b(ACK, 5000, 4000).window(100).passes(Established),
        a(ACK, 11_000, 5000).bytes(2000).passes(Established),
    ];
    play_after_handshake(STRICT, &lines);
}

#[test]
fn acknowledgements_of_what_was_not_sent_or_of_long_ago_are_dropped() {
    let lines = [
        a(ACK, 1000, 5001).is_invalid(),
        b(ACK, 5000, 1000).bytes(10_000).passes(Established),
        a(ACK, 1000, 15_000).passes(Established),
        // Late, but not by more than 66,000 bytes.
        a(ACK, 1000, 5000).passes(Established),
        a(ACK, 1000, 15_000u32.wrapping_sub(66_000)).passes(Established),
        a(ACK, 1000, 15_000u32.wrapping_sub(66_001)).is_invalid(),
    ];
    play_after_handshake(STRICT, &lines);
}

#[test]
fn retransmissions_pass() {
    let lines = [
        a(ACK, 1000, 5000).bytes(1000).passes(Established),
        a(ACK, 2000, 5000).bytes(1000).passes(Established),
        a(ACK, 1000, 5000).bytes(1000).passes(Established),
        b(ACK, 5000, 3000).passes(Established),
        a(ACK, 1000, 5000).bytes(1000).passes(Established),
        // Out of order: what leaves a gap is for the workers.
        a(ACK, 4000, 5000).bytes(1000).passes(Established),
        a(ACK, 3000, 5000).bytes(1000).passes(Established),
    ];
    assert_eq!(play_after_handshake(STRICT, &lines).simple(), 6);
}

#[test]
fn segments_from_before_the_window_are_dropped() {
    let lines = [
        a(ACK, 1000, 5000).bytes(10_000).passes(Established),
        b(ACK, 5000, 11_000).passes(Established),
        // Ends exactly one window before the last byte sent.
        a(ACK, 500, 5000).bytes(500).passes(Established),
        a(ACK, 500, 5000).bytes(499).is_invalid(),
    ];
    play_after_handshake(STRICT, &lines);
}

#[test]
fn closed_windows_are_probed_with_one_byte() {
    let lines = [
        a(ACK, 1000, 5000).bytes(10_000).passes(Established),
        b(ACK, 5000, 11_000).window(0).passes(Established),
        a(ACK, 11_000, 5000).bytes(2).is_invalid(),
        a(ACK, 11_000, 5000)
            .bytes(1)
            .after(Duration::from_secs(5))
            .passes(Established),
        b(ACK, 5000, 11_000).window(0).passes(Established),
        a(ACK, 11_000, 5000)
            .bytes(1)
            .after(Duration::from_secs(10))
            .passes(Established),
        b(ACK, 5000, 11_000).window(2000).passes(Established),
        a(ACK, 11_000, 5000).bytes(2000).passes(Established),
    ];
    assert_eq!(
        play_after_handshake(STRICT, &lines).counter("packets_invalid"),
        1
    );
}

#[test]
fn windows_are_scaled_if_both_ends_offer_it() {
    let both = [
        a(SYN, 999, 0).scale(7).passes(SynSent),
        b(SYN | ACK, 4999, 1000)
            .scale(9)
            .window(1000)
            .passes(SynReceived),
        a(ACK, 1000, 5000).window(100).passes(Established),
        // The window of a SYN is not scaled.
        a(ACK, 1000, 5000).window(100).bytes(1001).is_invalid(),
        b(ACK, 5000, 1000).window(10).passes(Established),
        a(ACK, 1000, 5000)
            .window(100)
            .bytes(5120)
            .passes(Established),
        a(ACK, 6120, 5000).window(100).bytes(1).is_invalid(),
        // A's first SYN offered 10,000 bytes, its last segment 100 << 7.
        b(ACK, 5000, 6120).bytes(12_800).passes(Established),
        b(ACK, 17_800, 6120).bytes(1).is_invalid(),
    ];
    play(STRICT, &both);
    let one = [
        a(SYN, 999, 0).scale(7).passes(SynSent),
        b(SYN | ACK, 4999, 1000).passes(SynReceived),
        a(ACK, 1000, 5000).passes(Established),
        b(ACK, 5000, 1000).bytes(10_000).passes(Established),
        b(ACK, 15_000, 1000).bytes(1).is_invalid(),
    ];
    play(STRICT, &one);
    let other = [
        a(SYN, 999, 0).passes(SynSent),
        b(SYN | ACK, 4999, 1000).scale(7).passes(SynReceived),
        a(ACK, 1000, 5000).passes(Established),
        a(ACK, 1000, 5000).bytes(10_001).is_invalid(),
    ];
    play(STRICT, &other);
}

#[test]
fn a_scale_beyond_14_counts_as_14() {
    let lines = [
        a(SYN, 999, 0).scale(200).passes(SynSent),
        b(SYN | ACK, 4999, 1000).scale(15).passes(SynReceived),
        a(ACK, 1000, 5000).window(u16::MAX).passes(Established),
        b(ACK, 5000 + (65_535 << 14), 1000).bytes(1).is_invalid(),
        b(ACK, 5000 + (65_535 << 14) - 1, 1000)
            .bytes(1)
            .passes(Established),
    ];
    play(STRICT, &lines);
}

#[test]
fn sequence_numbers_wrap() {
    let lines = [
        a(SYN, u32::MAX - 10, 0).passes(SynSent),
        b(SYN | ACK, u32::MAX - 4, u32::MAX - 9).passes(SynReceived),
        a(ACK, u32::MAX - 9, u32::MAX - 3).passes(Established),
        a(ACK, u32::MAX - 9, u32::MAX - 3)
            .bytes(1000)
            .passes(Established),
        b(ACK, u32::MAX - 3, 990).bytes(1000).passes(Established),
        a(ACK, 990, 996).bytes(1000).passes(Established),
        a(ACK, u32::MAX - 9, u32::MAX - 3)
            .bytes(1000)
            .passes(Established),
        a(ACK, 2_000_000, 996).bytes(10).is_invalid(),
        b(FIN | ACK, 996, 1990).passes(ResponderFinWait),
    ];
    assert_eq!(play(STRICT, &lines).simple(), 4);
}

#[test]
fn resets_outside_the_window_are_dropped() {
    let lines = [
        b(RST, 15_001, 0).is_invalid(),
        b(RST, 3_000_000_000, 0).is_invalid(),
        b(ACK, 5000, 1000).bytes(10_000).passes(Established),
        // Before what A has acknowledged.
        b(RST, 4999, 0).is_invalid(),
        b(RST | ACK, 15_000, 1000).passes(Closed),
        // Segments that were on their way when the reset was sent.
        a(ACK, 1000, 15_000).bytes(100).passes(Closed),
        b(RST, 15_000, 0).passes(Closed),
        b(ACK, 900_000, 1000).is_invalid(),
    ];
    play_after_handshake(STRICT, &lines);
}
