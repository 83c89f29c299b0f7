//! A requester and a memory server with a bad link between them, by seed: frames are lost, doubled,
//! late, overtaken and damaged; the server dies and comes back; its memory fails; somebody on the link
//! repeats old frames, changes where they belong, and forges answers of every kind. Whatever happens,
//! a READ yields what was written under its handle, or that it is lost, once and in time.

mod world;

use proptest::prelude::*;
use twinpath_remote::simulated::hostile;
use world::{Faults, Tally, World};

fn run(mut world: World) -> Tally {
    world.run();
    world.heal();
    world.tally()
}

fn run_all(worlds: impl Iterator<Item = World>) -> Tally {
    let mut sum = Tally::default();
    worlds.for_each(|world| sum.add(&run(world)));
    sum
}

#[test]
fn without_faults_nothing_is_lost() {
    let tally = run_all((0..200).map(|seed| World::new(seed, Faults::NONE)));
    tally.expect_some(&[
        "writes",
        "reads",
        "payloads",
        "written_by_another_queue_pair",
    ]);
    tally.expect_none(&[
        "lost_write",
        "lost_timeout",
        "lost_mismatch",
        "lost_server",
        "writes_lost",
        "disabled",
        "responder_naks_sequence",
        "responder_naks_invalid",
        "responder_naks_access",
        "bad_icrc",
    ]);
    assert_eq!(tally.of("reads"), tally.of("payloads"));
}

#[test]
fn with_losses_the_others_come_back() {
    let faults = Faults {
        lost: 20,
        ..Faults::NONE
    };
    let tally = run_all((0..300).map(|seed| World::new(seed, faults)));
    tally.expect_some(&[
        "frames_lost",
        "naks_sequence",
        "gaps",
        "timeouts",
        "reads_repeated",
        "empty_writes",
        "lost_write",
        "responder_replays",
        "responder_duplicates",
    ]);
    // One frame in fifty is lost, and takes with it what was under way behind it.
    let (reads, payloads) = (tally.of("reads"), tally.of("payloads"));
    assert!(payloads * 10 > reads * 8, "{payloads} of {reads}");
}

#[test]
fn whatever_happens_no_payload_is_a_wrong_one() {
    let tally = run_all((0..2000).map(|seed| World::new(seed, Faults::drawn(seed))));
    tally.expect_some(&[
        "frames_lost",
        "frames_doubled",
        "frames_late",
        "frames_overtaken",
        "frames_damaged",
        "frames_repeated_after_long",
        "frames_moved",
        "frames_rewritten",
        "crashes",
        "failures",
        "forged_answers",
        "forged_requests",
        "payloads",
        "overtaken",
        "discarded",
        "forgotten",
        "lost_write",
        "lost_timeout",
        "lost_mismatch",
        "lost_server",
        "refused_down",
        "refused_window",
        "refused_memory",
        "reads_refused",
        "reads_unknown",
        "naks_sequence",
        "naks_not_ready",
        "naks_invalid",
        "naks_access",
        "naks_operation",
        "gaps",
        "timeouts",
        "disabled",
        "lives",
        "incarnations",
        "stale",
        "bad_icrc",
        "bad_messages",
        "no_buffer",
        "responder_duplicates",
        "responder_replays",
        "responder_replays_refused",
        "responder_out_of_order",
        "responder_naks_sequence",
        "responder_naks_invalid",
        "responder_naks_access",
        "responder_naks_operation",
        "responder_bad_icrc",
        "responder_unknown_queue_pair",
        "responder_in_error",
        "server_restores",
        "server_restores_repeated",
        "server_restores_refused",
        "server_bad_messages",
    ]);
}

/// A switch that starts again under the same seed is another one to the server: it is served as if it
/// were the first, and reads nothing that the one before has written.
#[test]
fn a_switch_that_starts_again_gets_no_payload_of_its_former_life() {
    let sound = (0..300).map(|seed| World::with_dying_switch(seed, Faults::NONE));
    let tally = run_all(sound);
    tally.expect_some(&["switch_restarts", "payloads"]);
    // Nobody waits for time-outs: the server knows at once that it is another.
    tally.expect_none(&["lost_write", "lost_timeout", "lost_mismatch", "disabled"]);
    let any = (0..1000).map(|seed| World::with_dying_switch(seed, Faults::drawn(seed)));
    let tally = run_all(any);
    tally.expect_some(&["switch_restarts", "crashes", "stale", "payloads"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever a memory server sends, what was asked for ends once, in its length and in time, and no
    /// buffer is lost.
    #[test]
    fn a_requester_bears_any_server(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        hostile::play(&bytes);
    }
}
