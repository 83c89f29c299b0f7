//! `twinpath check`

use crate::folder::Folder;

#[test]
fn the_protocol_holds() {
    let said = Folder::new().succeed(&["check", "coherence", "--scope", "small"]);
    assert!(
        said.out
            .starts_with("coherence, with all safeguards: 2 flows on one slot"),
        "{said:?}"
    );
    assert!(
        said.out.contains("all 8 invariants hold in all "),
        "{said:?}"
    );
}

/// Each safeguard is there for a reason, told as a list of steps.
#[test]
fn without_a_safeguard_it_is_broken() {
    for safeguard in [
        "generations",
        "cancel",
        "write-back",
        "freeze",
        "ttl-write-back",
        "fifo",
    ] {
        let said = Folder::new().run(&[
            "check",
            "coherence",
            "--scope",
            "small",
            "--without",
            safeguard,
        ]);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(
            said.out
                .contains(&format!("coherence, without {safeguard}:")),
            "{said:?}"
        );
        assert!(
            said.out.contains("\n  1. ") && said.out.contains("This breaks invariant "),
            "{said:?}"
        );
    }
}

#[test]
fn an_unknown_safeguard_is_refused() {
    Folder::new().fail(
        &["check", "coherence", "--without", "luck"],
        "[possible values: generations, cancel, ",
    );
    Folder::new().fail(&["check"], "coherence");
}

#[test]
fn seeds_hold_and_replay() {
    let said = Folder::new().succeed(&["check", "faults", "--first", "100", "--seeds", "40"]);
    assert!(
        said.out
            .starts_with("all 19 invariants hold after every step of 40 runs"),
        "{said:?}"
    );
    assert!(said.out.contains(" frames lost"), "{said:?}");
    let said = Folder::new().succeed(&["check", "faults", "--replay", "7"]);
    assert!(said.out.contains("packet 1 of flow "), "{said:?}");
    assert!(said.out.ends_with("everything held\n"), "{said:?}");
}

/// What a seed that fails looks like.
#[test]
fn a_seed_that_fails_is_told_and_can_be_replayed() {
    let sabotage = ["--sabotage", "forged-acknowledgement"];
    let said = Folder::new().run(&["check", "faults", sabotage[0], sabotage[1]]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("BROKEN invariant "), "{said:?}");
    let (_, command) = said
        .out
        .rsplit_once("all its events: twinpath ")
        .expect("how to replay it");
    let words: Vec<_> = command.split_whitespace().collect();
    let again = Folder::new().run(&words);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(
        again.out.contains("packet 1 of flow ") && again.out.contains("BROKEN invariant "),
        "{again:?}"
    );
    Folder::new().fail(
        &["check", "faults", "--replay", "1", "--seeds", "2"],
        "--seeds",
    );
}
