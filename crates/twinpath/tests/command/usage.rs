//! Help, and what is said of wrong usage.

use crate::folder::Folder;

#[test]
fn help_has_examples_everywhere() {
    let folder = Folder::new();
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
        let said = folder.succeed(&[command, &["--help"]].concat());
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
    let said = Folder::new().succeed(&["--version"]);
    assert_eq!(
        said.out,
        format!("twinpath {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn wrong_usage_is_explained() {
    let folder = Folder::new();
    folder.fail(&[], "Usage: twinpath");
    folder.fail(&["fly"], "unrecognized subcommand 'fly'");
    folder.fail(&["run"], "<SERVICE>");
    folder.fail(
        &["run", "a.toml", "--paths", "fast"],
        "[possible values: both, slow]",
    );
    folder.fail(
        &["run", "a.toml", "--report", "r", "--no-report"],
        "cannot be used with",
    );
    folder.fail(
        &["run", "a.toml", "--in", "a.pcap", "--listen", "127.0.0.1:1"],
        "cannot be used with",
    );
    folder.fail(
        &["run", "a.toml", "--for", "soon"],
        "expected a duration such as \"250ms\"",
    );
    folder.fail(&["generate"], "--out <FILE>");
    folder.fail(
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
    folder.fail(&["kv", "get"], "<KEY>");
}

/// What goes with another of the things to run or to trace is not passed over in silence.
#[test]
fn arguments_of_other_subjects_are_refused() {
    let folder = Folder::new();
    let input = ["--in", "a.pcap", "--packet", "3"];
    for (subject, stray) in [
        (&input[..], &["--port", "uplink"][..]),
        (&input, &["--flow", "tcp 10.0.0.1:* 192.0.2.1:80"]),
        (&["--dropped", "a.pcap"], &["--packet", "3"]),
        (&["--hex", "00"], &["--packet", "3"]),
    ] {
        let arguments = [&["trace", "a.toml"], subject, stray].concat();
        folder.fail(&arguments, "cannot be used with");
    }
    let run = ["run", "a.toml", "--in", "a.pcap", "--counters", "c.json"];
    folder.fail(&run, "cannot be used with");
    folder.fail(&["run", "a.toml", "--counters", "c.json"], "--steps");
}
