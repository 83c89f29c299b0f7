//! Segments from somebody who knows the ports of a connection, and sees none of its packets.

use std::time::Duration;

use twinpath_core::DropReason::{BadChecksum, InvalidState};
use twinpath_core::wire::tcp::flags::{ACK, FIN, RST, SYN};

use super::talk::{
    DEFAULT, HANDSHAKE, Line, START, STRICT, Segment, Twins, a, b, play, play_after_handshake,
    state, verdict,
};
use crate::firewall::tcp_state::TcpState::{
    Answered, Closed, Closing, Established, OpenerFinWait, PickedUp, SynReceived, SynSent,
};

/// Both ends offer the largest scale, and then the largest window.
const WIDE: [Line; 5] = [
    a(SYN, 999, 0).scale(14).passes(SynSent),
    b(SYN | ACK, 4999, 1000).scale(14).passes(SynReceived),
    a(ACK, 1000, 5000).window(u16::MAX).passes(Established),
    b(ACK, 5000, 1000).window(u16::MAX).passes(Established),
    a(ACK, 1000, 5000).window(u16::MAX).passes(Established),
];

/// Processes a segment that must leave the connection as it is, and says what becomes of it.
fn leaves_it(twins: &mut Twins, segment: Segment) -> Result<(), twinpath_core::DropReason> {
    let keep_alive = a(ACK, 1000, 5000).window(u16::MAX).frame();
    let before = twins.process(&keep_alive, START).words;
    let fate = twins.process(&segment.frame(), START);
    assert_eq!(fate.words, before, "{segment:?}");
    verdict(&fate, &segment.frame())
}

/// Four guesses used to be enough for a window scale of 14.
#[test]
fn resets_at_guessed_numbers_do_not_shorten_a_connections_life() {
    let mut twins = play(DEFAULT, &WIDE);
    let (mut passed, guesses) = (0, 4096u32);
    for guess in 0..guesses {
        let sequence = (guess << 20).wrapping_add(77);
        passed += u32::from(leaves_it(&mut twins, b(RST, sequence, 0)).is_ok());
        passed += u32::from(leaves_it(&mut twins, a(RST | ACK, sequence, 5000)).is_ok());
    }
    assert_eq!(
        u64::from(passed),
        twins.counter("segments_challenged"),
        "what lies in the window passes, for the end to challenge"
    );
    assert!(
        (2000..=2200).contains(&passed),
        "a quarter of all: {passed}"
    );
    // It lives on after what a reset would have left it.
    let late = a(ACK, 1000, 5000).bytes(10).window(u16::MAX).frame();
    let fate = twins.process(&late, START + Duration::from_secs(3000));
    assert_eq!(
        verdict(&fate, &late).map(|()| state(&fate.words)),
        Ok(Established)
    );
}

#[test]
fn the_reset_that_its_receiver_expects_closes() {
    // As an answer to what B has acknowledged.
    play(
        DEFAULT,
        &[&WIDE[..], &[a(RST, 1000, 0).passes(Closed)]].concat(),
    );
    // Behind data that B has not acknowledged yet.
    let lines = [
        a(ACK, 1000, 5000).bytes(500).passes(Established),
        a(RST, 1400, 0).passes(Established),
        a(RST, 1499, 0).passes(Established),
        a(RST | ACK, 1500, 5000).passes(Closed),
    ];
    play_after_handshake(STRICT, &lines);
    // A has lost its memory, and answers the challenge.
    let lines = [
        a(ACK, 1000, 5000).bytes(500).passes(Established),
        b(ACK, 5000, 1300).passes(Established),
        a(RST, 1350, 0).passes(Established),
        b(ACK, 5000, 1300).passes(Established),
        a(RST, 1300, 0).passes(Closed),
    ];
    let twins = play_after_handshake(STRICT, &lines);
    assert_eq!(twins.counter("segments_challenged"), 1);
}

/// Who hits the window with data does not say where it ends: a reset behind a gap counts only once
/// its receiver has acknowledged what is before it.
#[test]
fn a_reset_behind_a_gap_is_left_to_its_receiver() {
    let lines = [
        b(ACK, 5600, 1000).bytes(50).passes(Established),
        b(RST, 5650, 0).passes(Established),
        // Neither is what the host goes on with behind that.
        b(ACK, 5650, 1000).bytes(50).passes(Established),
        b(RST, 5700, 0).passes(Established),
        b(RST, 5000, 0).passes(Closed),
    ];
    play_after_handshake(STRICT, &lines);
    let filled = [
        b(ACK, 5600, 1000).bytes(50).passes(Established),
        b(ACK, 5000, 1000).bytes(600).passes(Established),
        a(ACK, 1000, 5600).passes(Established),
        b(RST, 5650, 0).passes(Established),
        a(ACK, 1000, 5650).passes(Established),
        b(ACK, 5650, 1000).bytes(50).passes(Established),
        b(RST, 5700, 0).passes(Closed),
    ];
    play_after_handshake(STRICT, &filled);
}

/// A FIN in the window ends nothing where it is not the next of its end.
#[test]
fn fins_at_guessed_numbers_do_not_shorten_a_connections_life() {
    let mut twins = play(DEFAULT, &WIDE);
    for ahead in [1, 5000, 1 << 20, 1 << 28] {
        for fin in [
            a(FIN | ACK, 1000 + ahead, 5000),
            b(FIN | ACK, 5000 + ahead, 1000),
        ] {
            let frame = fin.window(u16::MAX).frame();
            let fate = twins.process(&frame, START);
            assert_eq!(
                verdict(&fate, &frame).map(|()| state(&fate.words)),
                Ok(Established)
            );
        }
    }
    let late = a(ACK, 1000, 5000).bytes(10).window(u16::MAX).frame();
    let fate = twins.process(&late, START + Duration::from_secs(3000));
    assert_eq!(
        verdict(&fate, &late).map(|()| state(&fate.words)),
        Ok(Established)
    );
}

/// A host's own FIN may overtake its data.
#[test]
fn a_fin_behind_a_gap_counts_once_it_is_acknowledged() {
    let lines = [
        a(FIN | ACK, 1500, 5000).passes(Established),
        b(ACK, 5000, 1000).passes(Established),
        a(ACK, 1000, 5000).bytes(500).passes(Established),
        b(ACK, 5000, 1500).passes(Established),
        b(ACK, 5000, 1501).passes(OpenerFinWait),
    ];
    play_after_handshake(STRICT, &lines);
    // The other end acknowledges it with its own.
    let both = [
        a(FIN | ACK, 1500, 5000).passes(Established),
        a(ACK, 1000, 5000).bytes(500).passes(Established),
        b(FIN | ACK, 5000, 1501).passes(Closing),
    ];
    play_after_handshake(STRICT, &both);
}

/// What a stranger said to be the end is data after all.
#[test]
fn a_fin_where_data_comes_is_none() {
    for bytes in [501, 900] {
        let lines = [
            a(FIN | ACK, 1500, 5000).passes(Established),
            a(ACK, 1000, 5000).bytes(bytes).passes(Established),
            b(ACK, 5000, 1000 + bytes as u32).passes(Established),
            a(FIN | ACK, 1000 + bytes as u32, 5000).passes(OpenerFinWait),
        ];
        play_after_handshake(STRICT, &lines);
    }
}

/// An acknowledgement may lag by 1 MiB at most, so that of 1,024 guesses in windows as large as can
/// be only the one that knows counts.
#[test]
fn a_large_window_does_not_make_acknowledgements_easy_to_guess() {
    let mut twins = play(DEFAULT, &WIDE);
    for guess in 1..1024u32 {
        let acknowledgement = 5000u32.wrapping_add(guess << 22);
        let data = a(ACK, 1000, acknowledgement).window(u16::MAX).bytes(100);
        assert_eq!(leaves_it(&mut twins, data), Err(InvalidState));
        let end = a(FIN | ACK, 1000, acknowledgement).window(u16::MAX);
        assert_eq!(leaves_it(&mut twins, end), Err(InvalidState));
    }
    let lagging = a(ACK, 1000, 5000u32.wrapping_sub(1 << 20)).window(u16::MAX);
    assert_eq!(leaves_it(&mut twins, lagging), Ok(()));
}

#[test]
fn a_syn_in_a_connection_passes_and_changes_nothing() {
    let mut twins = play(DEFAULT, &WIDE);
    for sequence in [0, 1000, 5000, 1 << 31] {
        assert_eq!(leaves_it(&mut twins, a(SYN, sequence, 0)), Ok(()));
        assert_eq!(leaves_it(&mut twins, b(SYN, sequence, 0)), Ok(()));
    }
    assert_eq!(twins.counter("segments_challenged"), 8);
}

#[test]
fn an_answer_to_the_first_syn_or_the_last_is_right() {
    let strangers = [a(SYN, 7777, 0).scale(14), a(SYN, 700_000, 0).window(1)];
    let asked = [
        a(SYN, 999, 0).scale(2).passes(SynSent),
        strangers[0].passes(SynSent),
        strangers[1].passes(SynSent),
        a(SYN, 999, 0).scale(2).passes(SynSent),
    ];
    let first = [
        b(SYN | ACK, 4999, 7778).is_invalid(),
        b(SYN | ACK, 4999, 1000).scale(3).passes(SynReceived),
        a(ACK, 1000, 5000).passes(Established),
        a(ACK, 1000, 5000).bytes(9000).passes(Established),
        // 10,000 << 2 bytes fit.
        b(ACK, 5000, 10_000).bytes(40_000).passes(Established),
        b(ACK, 45_000, 10_000).bytes(1).is_invalid(),
    ];
    play(STRICT, &[&asked[..], &first].concat());
    let last = [
        b(SYN | ACK, 4999, 700_001).passes(SynReceived),
        a(ACK, 700_001, 5000).window(1).passes(Established),
        b(ACK, 5000, 700_001).bytes(2).is_invalid(),
    ];
    play(STRICT, &[&asked[..], &last].concat());
}

#[test]
fn nothing_a_stranger_sends_makes_the_real_answer_wrong() {
    let forged = [
        a(SYN, 7777, 0).scale(14).passes(SynSent),
        // Both open at once, or so it seems.
        b(SYN, 1_000_000, 0).passes(SynSent),
        // The connection goes on, or so it seems.
        a(ACK, 2_000_000_000, 1).bytes(10).is_invalid(),
        a(SYN | ACK, 2_000_000_000, 1).is_invalid(),
        a(FIN | ACK, 2_000_000_000, 1).is_invalid(),
        // Its own SYN is refused, or so it seems.
        b(RST | ACK, 0, 7778).passes(SynSent),
        b(RST | ACK, 0, 1001).is_invalid(),
        b(RST, 5000, 0).is_invalid(),
        a(RST, 1000, 0).passes(SynSent),
    ];
    let genuine = [
        b(SYN | ACK, 4999, 1000).passes(SynReceived),
        // Who has not seen the answer cannot acknowledge it.
        a(ACK, 1000, 4999).is_invalid(),
        a(ACK, 1000, 4000).is_invalid(),
        a(ACK, 1000, 5000).passes(Established),
    ];
    play(DEFAULT, &[&HANDSHAKE[..1], &forged, &genuine].concat());
}

#[test]
fn a_connection_met_in_mid_stream_keeps_to_its_numbers() {
    let lines = [
        a(ACK, 1000, 5000).bytes(100).passes(PickedUp),
        // Far from what A has sent: it passes, and is not believed.
        a(ACK, 1 << 30, 5000).bytes(100).passes(PickedUp),
        // Acknowledges far more than A has sent.
        b(ACK, 5000, 1 << 28).is_invalid(),
        b(ACK, 5000, 1100).passes(Answered),
        a(ACK, 1100, 5000).bytes(100).passes(Established),
    ];
    play(DEFAULT, &lines);
    // Whoever does not hear B cannot acknowledge what it sends.
    let blind = [
        a(ACK, 1000, 5000).passes(PickedUp),
        b(ACK, 9_000_000, 1000).passes(Answered),
        a(ACK, 1000, 5000).passes(Answered),
        a(FIN | ACK, 1000, 5000).passes(Answered),
        a(ACK, 1001, 9_000_000).passes(Established),
    ];
    play(DEFAULT, &blind);
}

/// What would change a connection's state does not with a wrong checksum; data and
/// acknowledgements are their receiver's to verify, unless the firewall is to verify all.
#[test]
fn broken_segments_change_no_state() {
    /// A byte that is wrong: the last one of the data, or one of the IPv4 header's checksum.
    #[derive(Copy, Clone)]
    enum Wrong {
        Data,
        Header,
    }
    let verdict_of = |config: &str, lines: &[Line], segment: Segment, wrong: Wrong| {
        let mut twins = play(config, lines);
        let mut frame = segment.frame();
        let at = match wrong {
            Wrong::Data => frame.len() - 1,
            Wrong::Header => 14 + 10,
        };
        frame[at] ^= 1;
        let fate = twins.process(&frame, START);
        (
            verdict(&fate, &frame),
            twins.counter("packets_with_bad_checksum"),
        )
    };
    let cases: [(&[Line], Segment); 7] = [
        (&[], a(SYN, 999, 0).bytes(10)),
        (&[], a(ACK, 999, 1).bytes(10)),
        (&HANDSHAKE[..1], b(SYN | ACK, 4999, 1000).bytes(1)),
        (&HANDSHAKE[..2], a(ACK, 1000, 5000).bytes(1)),
        (&HANDSHAKE, a(FIN | ACK, 1000, 5000).bytes(1)),
        (&HANDSHAKE, b(RST, 5000, 0).bytes(1)),
        (&HANDSHAKE, b(ACK, 5600, 1000).bytes(50)),
    ];
    for (lines, segment) in cases {
        for wrong in [Wrong::Data, Wrong::Header] {
            let strict = verdict_of(DEFAULT, lines, segment, wrong);
            assert_eq!(strict, (Err(BadChecksum), 1), "{segment:?}");
            let lax = "default = \"allow\"\nverify_checksums = \"none\"";
            let lax = verdict_of(lax, lines, segment, wrong);
            assert_eq!(lax, (Ok(()), 0), "{segment:?}");
        }
    }
    let data = a(ACK, 1000, 5000).bytes(100);
    let passed = verdict_of(DEFAULT, &HANDSHAKE, data, Wrong::Data);
    assert_eq!(passed, (Ok(()), 0));
    let all = "default = \"allow\"\nverify_checksums = \"all\"";
    for wrong in [Wrong::Data, Wrong::Header] {
        assert_eq!(
            verdict_of(all, &HANDSHAKE, data, wrong),
            (Err(BadChecksum), 1)
        );
    }
    play(all, &HANDSHAKE);
    play_after_handshake(STRICT, &[a(FIN | ACK, 1000, 5000).passes(OpenerFinWait)]);
}
