//! The unit for systemd: what it says is understood, and the command that it starts with runs.

use crate::folder::Folder;
use std::process::Command;
use twinpath_netns::has_program;

const UNIT: &str = include_str!("../../../../packaging/twinpath@.service");

/// What systemd itself says of the unit: nothing.
#[test]
fn systemd_understands_all_of_it() {
    if !has_program("systemd-analyze", "systemd") {
        return;
    }
    let folder = Folder::new();
    let installed = UNIT.replace("/usr/bin/twinpath", env!("CARGO_BIN_EXE_twinpath"));
    let verified = |text: &str| {
        folder.write("twinpath@.service", text.as_bytes());
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no"]);
        verify.arg(folder.path("twinpath@edge.service"));
        // An instance is its template.
        folder.write("twinpath@edge.service", text.as_bytes());
        let said = verify.output().expect("it is there");
        (
            said.status.success(),
            String::from_utf8_lossy(&said.stderr).into_owned(),
        )
    };
    let (is_sound, said) = verified(&installed);
    let ours: Vec<_> = said
        .lines()
        .filter(|line| line.contains("twinpath"))
        .collect();
    assert!(is_sound && ours.is_empty(), "{said}");
    // It would have said so.
    let (_, said) = verified(&installed.replace("WatchdogSec=10s", "WatchdogSec=soon"));
    assert!(said.contains("Failed to parse sec value"), "{said}");
}

/// Its words, in a folder of their own.
#[test]
fn its_command_runs() {
    let line = UNIT
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let folder = Folder::with(
        "edge.toml",
        "[service]\nname = \"edge\"\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n[traffic]\nflows = 10\n",
    );
    let root = folder.path("");
    let places = [
        ("/etc/twinpath/%i.toml", "edge.toml"),
        ("/run/twinpath-%i/control.sock", "control.sock"),
        ("/var/lib/twinpath-%i/report", "report"),
    ];
    let line = line.expect("it starts something").to_owned();
    let line = places.iter().fold(line, |line, (place, name)| {
        assert!(line.contains(place), "{line}");
        line.replace(place, &root.join(name).to_string_lossy())
    });
    let words: Vec<_> = line.split_whitespace().skip(1).collect();
    folder.succeed(&[&words[..], &["--for", "200ms"]].concat());
    assert_eq!(folder.report("report").run.service, "edge");
}
