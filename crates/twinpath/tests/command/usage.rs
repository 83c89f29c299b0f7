//! Help, and what is said of wrong usage.

use crate::place::Place;

#[test]
fn help_has_examples_everywhere() {
    let place = Place::new();
    let commands: [&[&str]; 13] = [
        &[],
        &["run"],
        &["rules"],
        &["apply"],
        &["explain"],
        &["trace"],
        &["generate"],
        &["compare"],
        &["check"],
        &["kv"],
        &["lab"],
        &["lab", "run"],
        &["check", "coherence"],
    ];
    for command in commands {
        let said = place.succeed(&[command, &["--help"]].concat());
        assert!(said.out.contains("Usage: twinpath"), "{said:?}");
        assert!(said.out.contains("Examples:\n  twinpath"), "{said:?}");
        assert!(
            !said.out.contains('\u{1b}'),
            "colours where there is no terminal: {said:?}"
        );
    }
}

#[test]
fn the_version_is_told() {
    let said = Place::new().succeed(&["--version"]);
    assert_eq!(
        said.out,
        format!("twinpath {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn wrong_usage_is_explained() {
    let place = Place::new();
    place.fail(&[], "Usage: twinpath");
    place.fail(&["fly"], "unrecognized subcommand 'fly'");
    place.fail(&["run"], "<SERVICE>");
    place.fail(
        &["run", "a.toml", "--paths", "fast"],
        "[possible values: both, slow]",
    );
    place.fail(
        &["run", "a.toml", "--report", "r", "--no-report"],
        "cannot be used with",
    );
    place.fail(
        &["run", "a.toml", "--in", "a.pcap", "--listen", "127.0.0.1:1"],
        "cannot be used with",
    );
    place.fail(
        &["run", "a.toml", "--for", "soon"],
        "expected a duration such as \"250ms\"",
    );
    place.fail(&["generate"], "--out <FILE>");
    place.fail(
        &[
            "generate",
            "a.toml",
            "--service",
            "b.toml",
            "--out",
            "a.pcap",
        ],
        "cannot be used with",
    );
    place.fail(&["kv", "get"], "<KEY>");
}
