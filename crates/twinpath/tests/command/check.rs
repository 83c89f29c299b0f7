//! `twinpath check`

use crate::place::Place;

#[test]
fn the_protocol_holds() {
    let said = Place::new().succeed(&["check", "coherence", "--scope", "small"]);
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
        let said = Place::new().run(&[
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
    Place::new().fail(
        &["check", "coherence", "--without", "luck"],
        "[possible values: generations, cancel, ",
    );
    Place::new().fail(&["check"], "coherence");
}
