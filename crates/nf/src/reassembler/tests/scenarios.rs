//! What happens, told line by line (see [`script`](super::script)).

use super::bench::{Bench, Sent};
use super::script::play;
use crate::duration::Human;
use crate::reassembler::{Config, Overlap, Reassembler, Retransmissions, Urgent};
use std::time::Duration;
use twinpath_core::Direction;
use twinpath_core::wire::tcp::flags;
use twinpath_slowpath::NetworkFunction;

fn plain() -> Config {
    Config::default()
}

fn last_wins() -> Config {
    Config {
        overlap: Overlap::Last,
        ..Config::default()
    }
}

fn dropping() -> Config {
    Config {
        retransmissions: Retransmissions::Drop,
        ..Config::default()
    }
}

#[test]
fn a_connection_from_its_handshake_to_its_end() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         < 499/SA      => < 499/SA
         > 100         => > 100
         > 100 abc     => > 100 abc
         < 500 xyz     => < 500 xyz
         < 503         => < 503
         > 103 def     => > 103 def
         ? known
         > 106/FA      => > 106/FA
         < 503         => < 503
         < 503 rest    => < 503 rest
         < 507/FA      => < 507/FA
         ? known
         > 107         => > 107
         < 507/FA      => < 507/FA
         ? known
         ! opened 2
         ! in_order 6
         ! finished 1
         ! stray 0",
    );
}

#[test]
fn segments_out_of_order_wait_for_their_turn() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         > 106 ghi     =>
         ? pending
         > 103 def     =>
         > 112 mno     =>
         > 100 abc     => > 100 abc | > 103 def | > 106 ghi
         ? pending
         > 109 jkl     => > 109 jkl | > 112 mno
         ? known
         ! held 3
         ! released 5
         ! gaps_closed 2",
    );
}

#[test]
fn both_directions_wait_on_their_own() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         < 499/SA      => < 499/SA
         > 103 def     =>
         < 503 uvw     =>
         < 500 rst     => < 500 rst | < 503 uvw
         ? pending
         > 100 abc     => > 100 abc | > 103 def
         ? known",
    );
}

#[test]
fn acknowledgements_without_data_never_wait() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         > 103 def     =>
         > 106         => > 106
         > 100         => > 100
         > 100 abc     => > 100 abc | > 103 def
         > 105         => > 105",
    );
}

#[test]
fn keep_alives_and_window_probes_pass() {
    let script = "> 99/S        => > 99/S
         > 100 abc     => > 100 abc
         > 102         => > 102
         > 102 c       => > 102 c
         > 103 d       => > 103 d
         > 103 d       => > 103 d
         ? known";
    play(&plain(), script);
    play(&dropping(), script);
}

#[test]
fn retransmissions_of_delivered_data_are_forwarded() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         > 100 abcdef  => > 100 abcdef
         > 100 abc     => > 100 abc
         > 103 DEF     => > 103 DEF
         > 100 abcdef  => > 100 abcdef
         ! retransmissions 3",
    );
}

#[test]
fn or_dropped_if_that_is_wanted() {
    play(
        &dropping(),
        "> 99/S        => > 99/S
         > 100 abcdef  => > 100 abcdef
         > 100 abc     => drop already_delivered
         > 103/FA def  => > 106/FA
         > 103/FA def  => drop already_delivered
         > 106/FA      => > 106/FA
         ! retransmissions 3",
    );
}

#[test]
fn what_may_be_missing_is_never_dropped() {
    play(
        &dropping(),
        "> 103 def     => > 103 def
         > 100 abc     => > 100 abc
         < 499/SA      => < 499/SA
         < 506 uvw     =>
         wait 500ms    => < 506 uvw
         < 500 nopqrs  => < 500 nopqrs
         < 509 xyz     => < 509 xyz
         < 509 xyz     => < 509 xyz
         < 515 56      =>
         < 503 tuvwxyz12345 => < 503 tuvwxyz12 | < 512 345 | < 515 56
         ! split 1
         ! trimmed 0",
    );
}

#[test]
fn retransmissions_of_held_segments_are_dropped() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         > 103 defghi  =>
         > 103 defghi  => drop already_held
         > 104 efg     => drop already_held
         > 109/FA      =>
         > 109/FA      => drop already_held
         > 103/FA defghi => drop already_held
         > 100 abc     => > 100 abc | > 103 defghi | > 109/FA
         ! already_held 4",
    );
}

#[test]
fn delivered_bytes_are_not_delivered_again_as_new() {
    for config in [plain(), last_wins()] {
        play(
            &config,
            "> 99/S        => > 99/S
             > 100 abcd    => > 100 abcd
             > 102 XXefg   => > 102 XX | > 104 efg
             > 110 klm     =>
             > 100/A XXXXXXXhij => > 100 XXXXXXX | > 107 hij | > 110 klm
             ! split 2",
        );
    }
}

#[test]
fn nor_at_all_if_that_is_wanted() {
    for config in [
        dropping(),
        Config {
            overlap: Overlap::Last,
            ..dropping()
        },
    ] {
        play(
            &config,
            "> 99/S        => > 99/S
             > 100 abcd    => > 100 abcd
             > 102 XXefg   => > 104 efg
             > 100/FA XXXXXXXhi => > 107/FA hi
             ! trimmed 2",
        );
    }
}

#[test]
fn the_byte_of_a_refused_window_probe_is_sent_again() {
    for config in [plain(), dropping()] {
        play(
            &config,
            "> 99/S        => > 99/S
             > 100 a       => > 100 a
             > 100 a       => > 100 a
             > 100 abcdef  => > 100 a | > 101 bcdef
             > 106 ghi     => > 106 ghi",
        );
    }
}

#[test]
fn bytes_seen_first_win() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         > 103 def     =>
         > 101 BCD     =>
         > 105 FGH     =>
         > 100 a       => > 100 a | > 101 BC | > 103 def | > 106 GH
         ! trimmed 2
         > 110 klm     =>
         > 115 pqr     =>
         > 108 IJKLMNOPQRST => > 108 IJ | > 110 klm | > 113 NO | > 115 pqr | > 118 ST
         ! split 2",
    );
}

#[test]
fn adjacent_held_segments_are_one_run() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         > 103 de      =>
         > 105 fg      =>
         > 107/FA h    =>
         > 101 BCDEFG  =>
         > 100 abcdefgh => > 100 a | > 101 BC | > 103 de | > 105 fg | > 107/FA h
         ! split 0",
    );
}

#[test]
fn bytes_seen_last_win() {
    play(
        &last_wins(),
        "> 99/S        => > 99/S
         > 103 def     =>
         > 101 BCD     =>
         > 105 FGH     =>
         > 100 a       => > 100 a | > 101 BCD | > 104 e | > 105 FGH
         > 110 klmnop  =>
         > 112 MN      =>
         > 108 IJ      => > 108 IJ | > 110 kl | > 112 MN | > 114 op
         ! split 1
         > 118 st      =>
         > 121 vw      =>
         > 116 QRSTUVWX => > 116 QRSTUVWX | drop already_held | drop already_held",
    );
}

#[test]
fn with_last_wins_a_copy_takes_the_place_of_the_held_one() {
    play(
        &last_wins(),
        "> 99/S        => > 99/S
         > 103 def     =>
         > 103 DEF     => drop already_held
         > 100 abc     => > 100 abc | > 103 DEF",
    );
}

#[test]
fn a_fin_waits_for_its_turn() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         < 499/SA      => < 499/SA
         < 500/FA      => < 500/FA
         > 103/FA def  =>
         ? pending
         > 100 abc     => > 100 abc | > 103/FA def
         > 100 abc     => > 100 abc
         ! finished 1
         ! retransmissions 1",
    );
}

/// A FIN behind which there is data was none: the byte that has its number is new when it comes.
#[test]
fn a_fin_in_front_of_data_is_none() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         < 499/SA      => < 499/SA
         > 101 bcd     =>
         > 100/FA      => > 100/FA
         > 100 a       => > 100 a | > 101 bcd
         ! fins_taken_back 1
         ! retransmissions 0",
    );
    play(
        &plain(),
        "> 99/S        => > 99/S
         < 499/SA      => < 499/SA
         > 100/FA      => > 100/FA
         > 101 bcd     =>
         > 100 a       => > 100 a | > 101 bcd
         ! fins_taken_back 1
         ! retransmissions 0",
    );
}

#[test]
fn a_fin_comes_last_of_a_split_segment() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         > 102 cd      =>
         > 100/FA abcdef => > 100 ab | > 102 cd | > 104/FA ef",
    );
}

#[test]
fn a_rst_leaves_after_what_is_held() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         < 499/SA      => < 499/SA
         > 106 ghi     =>
         > 103 def     =>
         > 112 mno     =>
         < 500/R       => > 103 def | > 106 ghi | > 112 mno | < 500/R
         ? known
         < 500/R       => < 500/R
         ! reset 1
         ! stray 1",
    );
}

#[test]
fn a_syn_that_comes_again_changes_nothing() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         > 99/S        => > 99/S
         < 499/SA      => < 499/SA
         > 100 abc     => > 100 abc
         > 106 ghi     =>
         > 99/S        => > 99/S
         < 499/SA      => < 499/SA
         ? pending
         > 103 def     => > 103 def | > 106 ghi
         ! repeated_opens 3
         ! opened 2",
    );
}

#[test]
fn a_new_syn_starts_the_flow_over_when_it_is_answered() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         < 499/SA      => < 499/SA
         > 103 def     =>
         < 503 uvw     =>
         > 9000/S      => > 9000/S
         ? pending
         < 7000/SA@9001 => > 103 def | < 503 uvw | < 7000/SA
         ? known
         > 9004 new    =>
         > 9001 one    => > 9001 one | > 9004 new
         < 7001 two    => < 7001 two
         ! challenged 1
         ! reused 1",
    );
}

/// Nobody has sent a SYN that it could answer: what comes after it is of the old connection, whoever has
/// made it up.
#[test]
fn an_answer_on_a_living_connection_begins_nothing() {
    for forged in ["916/SA@100", "884/SA@100", "77777/SA@5"] {
        let script = format!(
            "> 99/S        => > 99/S
             < 899/SA      => < 899/SA
             > 100/A@900   => > 100
             < {forged}    => < {}
             < 903 def     =>
             < 900 abc     => < 900 abc | < 903 def
             ! challenged 1
             ! reused 0",
            forged.split('@').next().unwrap_or_default()
        );
        play(&plain(), &script);
    }
}

/// Which of two SYNs is answered is open until the handshake has ended, and not after.
#[test]
fn an_answer_comes_before_the_handshake_ends() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         > 9000/S      => > 9000/S
         < 499/SA@9001 => < 499/SA
         > 9001/A@500  => > 9001
         < 520/SA@9001 => < 520/SA
         < 503 def     =>
         < 500 abc     => < 500 abc | < 503 def
         ! challenged 1
         ! reused 1",
    );
}

/// Of two answers the first is taken; if its receiver says that it has taken the other, that is.
#[test]
fn its_receiver_says_which_answer_it_has_taken() {
    for (taken, late) in [("900", "903"), ("7000", "7003")] {
        let script = format!(
            "> 99/S        => > 99/S
             < 899/SA      => < 899/SA
             < 6999/SA     => < 6999/SA
             > 100/A@{taken} => > 100
             < {late} def  =>
             < {taken} abc => < {taken} abc | < {late} def
             ! challenged 1"
        );
        play(&plain(), &script);
    }
}

/// Its receiver asks about it (RFC 5961 §4), so what comes after it is of the old connection.
#[test]
fn a_syn_on_a_living_connection_begins_nothing() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         < 499/SA      => < 499/SA
         > 100 abc     => > 100 abc
         > 104/S       => > 104/S
         > 900/S       => > 900/S
         > 106 ghi     =>
         > 103 def     => > 103 def | > 106 ghi
         ! challenged 2",
    );
}

#[test]
fn a_syn_that_nobody_answered_gives_way_to_the_next() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         > 9000/S      => > 9000/S
         < 499/SA@9001 => < 499/SA
         > 9004 def    =>
         > 9001 abc    => > 9001 abc | > 9004 def
         ! reused 1",
    );
}

#[test]
fn a_closed_connection_gives_way_to_the_next() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         < 499/SA      => < 499/SA
         > 100/RA      => > 100/RA
         > 99/S        => > 99/S
         < 7000/SA@100 => < 7000/SA
         < 7004 two    =>
         < 7001 one    => < 7001 one | < 7004 two
         ! reset 1
         ! reused 1
         ! opened 4",
    );
}

/// The answer says which of the SYNs it is to, and how much of what came with it was taken.
#[test]
fn an_answer_says_where_the_other_direction_begins() {
    play(
        &plain(),
        "> 99/S abc    => > 99/S abc
         < 499/SA@103  => < 499/SA
         > 106 ghi     =>
         > 103 def     => > 103 def | > 106 ghi",
    );
    play(
        &Config {
            retransmissions: Retransmissions::Drop,
            ..plain()
        },
        "> 99/S abc    => > 99/S abc
         < 499/SA@100  => < 499/SA
         > 100 ABC     => > 100 ABC",
    );
    play(
        &plain(),
        "< 499/SA@100  => < 499/SA
         > 103 def     =>
         > 100 abc     => > 100 abc | > 103 def
         ! picked_up 0",
    );
}

/// RFC 5961 §3.2: a RST is believed where the very next byte is expected. One within the window is
/// asked about by its receiver, one outside is nobody's.
#[test]
fn a_rst_elsewhere_ends_nothing() {
    let config = Config {
        window_bytes: 1000,
        ..Config::default()
    };
    play(
        &config,
        "> 99/S        => > 99/S
         < 499/SA      => < 499/SA
         > 100 abc     => > 100 abc
         > 100/R       => > 100/R
         > 104/R       => > 104/R
         > 1103/R      => > 1103/R
         > 1104/R      => drop unacceptable
         > 9000/R      => drop unacceptable
         < 9000/R      => drop unacceptable
         > 106 ghi     =>
         > 103 def     => > 103 def | > 106 ghi
         > 109/R       => > 109/R
         ! challenged 3
         ! outside_window 3
         ! reset 1",
    );
}

/// A late segment of a connection that a RST ended is in its place, or nowhere: the end that the RST
/// never reached goes on.
#[test]
fn segments_stay_in_order_behind_a_rst() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         < 499/SA      => < 499/SA
         > 100/R       => > 100/R
         > 103 def     =>
         > 100 abc     => > 100 abc | > 103 def",
    );
}

/// A refused connection is over: the RST acknowledges its SYN.
#[test]
fn a_rst_that_answers_a_syn_ends_the_connection() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         < 0/RA@77     => < 0/RA
         < 0/RA@100    => < 0/RA
         > 99/S        => > 99/S
         ! challenged 1
         ! reset 1
         ! reused 1",
    );
}

#[test]
fn data_that_acknowledges_nothing_is_nobodys() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         < 499/SA      => < 499/SA
         > 100/U abc   => drop unacceptable
         > 100 ABC     => > 100 ABC
         ! without_ack 1",
    );
}

#[test]
fn connections_are_picked_up_in_the_middle() {
    play(
        &plain(),
        "> 100         => > 100
         ? unknown
         > 106/FA      => > 106/FA
         ? unknown
         > 100 abc     => > 100 abc
         ? known
         < 500         => < 500
         < 503 uvw     =>
         > 106 ghi     =>
         > 103 def     => > 103 def | > 106 ghi
         < 500 rst     => < 500 rst | < 503 uvw
         ! picked_up 2
         ! stray 2",
    );
}

#[test]
fn a_syn_that_comes_after_the_first_data_is_recognised() {
    play(
        &plain(),
        "> 100 abc     => > 100 abc
         > 99/S        => > 99/S
         > 103 def     => > 103 def
         ! repeated_opens 1
         ! opened 0",
    );
}

#[test]
fn data_in_a_syn_counts() {
    play(
        &plain(),
        "> 99/S abc    => > 99/S abc
         > 106 ghi     =>
         > 103 def     => > 103 def | > 106 ghi",
    );
}

#[test]
fn gaps_are_given_up_one_by_one() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         > 103 def     =>
         wait 300ms    =>
         > 112 mno     =>
         wait 199ms    =>
         wait 1ms      => > 103 def
         ? pending
         > 100 abc     => > 100 abc
         > 106 ghijkl  => > 106 ghijkl | > 112 mno
         ? known
         > 118 stu     =>
         wait 1s       => > 118 stu
         > 121 vwx     => > 121 vwx
         ! gaps_timed_out 2
         ! gaps_closed 1",
    );
}

#[test]
fn a_replaced_segment_does_not_prolong_the_wait() {
    play(
        &last_wins(),
        "> 99/S        => > 99/S
         > 103 def     =>
         wait 300ms    =>
         > 103 DEF     => drop already_held
         wait 200ms    => > 103 DEF",
    );
}

#[test]
fn segments_far_away_are_nobodys() {
    let config = Config {
        window_bytes: 1000,
        ..Config::default()
    };
    play(
        &config,
        "> 99/S        => > 99/S
         > 1100 edge   =>
         > 100 abc     => > 100 abc
         > 9000 far    => drop unacceptable
         > 1103 abc    =>
         > 1104 far    => drop unacceptable
         > 1104        => drop unacceptable
         ? pending
         ! outside_window 3
         ! resynchronised 0",
    );
}

#[test]
fn a_direction_whose_syn_was_not_seen_follows_segments_far_away() {
    let config = Config {
        window_bytes: 1000,
        ..Config::default()
    };
    play(
        &config,
        "> 97 abc      => > 97 abc
         > 1100 edge   =>
         > 9000 far    => > 1100 edge | > 9000 far
         > 9003 on     => > 9003 on
         > 100 back    => > 100 back
         > 104 on      => > 104 on
         > 5000        => > 5000
         > 5000 more   => > 5000 more
         ! resynchronised 3",
    );
}

#[test]
fn an_idle_connection_is_forgotten_but_never_while_it_holds() {
    let config = Config {
        idle_timeout: Human::milliseconds(700),
        half_open_timeout: Human::milliseconds(700),
        ..Config::default()
    };
    play(
        &config,
        "> 99/S        => > 99/S
         > 103 def     =>
         wait 5s       => > 103 def
         > 900 new     => > 900 new
         ? known
         > 906 on      =>
         wait 499ms    =>
         ? pending
         wait 1ms      => > 906 on
         ? known
         ! picked_up 1",
    );
}

#[test]
fn urgent_data_is_data() {
    play(
        &plain(),
        "> 99/S        => > 99/S
         > 103/UA def  =>
         > 100/UA abc  => > 100 abc | > 103 def
         > 106/UA      => > 106
         ! urgent 3",
    );
}

#[test]
fn urgent_data_may_be_kept_out() {
    let config = Config {
        urgent: Urgent::Drop,
        ..plain()
    };
    play(
        &config,
        "> 99/S        => > 99/S
         > 100/UA abc  => drop urgent
         > 103 def     =>
         > 100 abc     => > 100 abc | > 103 def
         ! urgent 1",
    );
}

/// What is held leaves in order before the chain changes, and the flow goes on.
#[test]
fn what_is_held_is_released() {
    play(
        &Config::default(),
        "
        > 99/S => > 99/S
        < 99/S => < 99/S
        > 106 ghi =>
        > 103 def =>
        < 103 DEF =>
        release => > 103 def | > 106 ghi | < 103 DEF
        ? known
        > 100 abc => > 100 abc
        > 109 jkl => > 109 jkl
        ! retransmissions 1
        release =>
        ",
    );
}

#[test]
fn held_segments_outlive_a_change_of_limits() {
    let config = |text: &str| toml::from_str::<Config>(text).expect("valid");
    let mut bench = Bench::new(&config("gap_timeout = \"500ms\""), false);
    let segment = |sequence, payload: &[u8], flags| Sent {
        way: Direction::Original,
        sequence,
        flags,
        payload: payload.to_vec(),
        acknowledged: None,
    };
    bench.send(&segment(99, b"", flags::SYN));
    assert!(bench.send(&segment(103, b"def", flags::ACK)).is_empty());
    let mut new = Reassembler::new(&config("gap_timeout = \"100ms\"\nmost_segments = 1"));
    assert!(bench.function.reconfigure(&mut new));
    assert_eq!(bench.function.held_segments(), 1);
    let out = bench.send(&segment(109, b"jkl", flags::ACK));
    assert_eq!(out.len(), 2, "the new limit counts");
    assert!(bench.send(&segment(115, b"mno", flags::ACK)).is_empty());
    assert_eq!(
        bench.pass(Duration::from_millis(100)).len(),
        1,
        "and so does the time"
    );
    assert_eq!(bench.function.statistics().held, 3, "it goes on counting");
}
