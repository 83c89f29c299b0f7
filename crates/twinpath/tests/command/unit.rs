//! The unit for systemd: what it says is understood, and the command that it starts with runs.

use crate::folder::{Folder, interrupt};
use std::process::Command;
use std::time::{Duration, Instant};
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
    // Before systemd 254 a service is begun again after the same time always.
    let is_newer = |line: &str| {
        let newer = ["'RestartSteps'", "'RestartMaxDelaySec'"];
        newer.iter().any(|key| line.contains(key))
    };
    let ours: Vec<_> = said
        .lines()
        .filter(|line| line.contains("twinpath") && !is_newer(line))
        .collect();
    assert!(is_sound && ours.is_empty(), "{said}");
    // It would have said so.
    let (_, said) = verified(&installed.replace("WatchdogSec=10s", "WatchdogSec=soon"));
    assert!(said.contains("Failed to parse sec value"), "{said}");
}

/// An interface that is not there ends a start at once: without this the fifth within ten seconds is the last.
#[test]
fn it_is_begun_again_for_as_long_as_it_takes() {
    let (unit, service) = UNIT.split_once("[Service]").expect("two sections");
    let has = |section: &str, line: &str| section.lines().any(|one| one == line);
    assert!(has(unit, "StartLimitIntervalSec=0"), "{unit}");
    assert!(has(service, "Restart=on-failure"), "{service}");
}

const EDGE: &str = "[service]\nname = \"edge\"\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n[traffic]\nflows = 10\n";

/// The words behind the program of a line of the unit, in a folder of their own.
fn words(folder: &Folder, key: &str) -> Vec<String> {
    let line = UNIT.lines().find_map(|line| line.strip_prefix(key));
    let line = line.and_then(|line| line.strip_prefix("=/usr/bin/twinpath "));
    let root = folder.path("");
    let places = [
        ("/etc/twinpath/%i.toml", "edge.toml"),
        ("/run/twinpath-%i/control.sock", "control.sock"),
        ("/var/lib/twinpath-%i/report", "report"),
    ];
    let line = line.expect("it runs the command").to_owned();
    let line = places.iter().fold(line, |line, (place, name)| {
        line.replace(place, &root.join(name).to_string_lossy())
    });
    assert!(!line.contains('%'), "{line}");
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn its_command_runs() {
    let folder = Folder::with("edge.toml", EDGE);
    let words = words(&folder, "ExecStart");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    folder.succeed(&[&words[..], &["--for", "200ms"]].concat());
    assert_eq!(folder.report("report").run.service, "edge");
}

/// A file that is wrong makes a reload fail, with its message, and nothing changes.
#[test]
fn its_reload_tells_what_is_wrong() {
    let folder = Folder::with("edge.toml", EDGE);
    let started = words(&folder, "ExecStart");
    let started: Vec<&str> = started.iter().map(String::as_str).collect();
    let mut running = folder.start(&started);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !folder.path("control.sock").exists() {
        assert!(Instant::now() < deadline, "no control socket");
        std::thread::sleep(Duration::from_millis(20));
    }
    let reload = words(&folder, "ExecReload");
    let reload: Vec<&str> = reload.iter().map(String::as_str).collect();
    let denying = EDGE.replace("allow", "deny");
    folder.write("edge.toml", denying.as_bytes());
    let said = folder.succeed(&reload);
    assert!(said.out.contains("changed: firewall"), "{said:?}");
    for (text, expected) in [
        (EDGE.replace("allow", "alow"), "unknown variant `alow`"),
        (
            EDGE.to_owned() + "[metrics]\nlisten = \"127.0.0.1:0\"\n",
            "[metrics] differs from the running service",
        ),
    ] {
        folder.write("edge.toml", text.as_bytes());
        folder.fail(&reload, expected);
    }
    interrupt(&running);
    assert!(running.wait().expect("it ends").success());
}
